"""A-1, launch: a run's first job, with everything validated and written down before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.actions.action import Step, unchanged
from cockpit.actions.at_rest import job_name
from cockpit.actions.checks import checkpoint, code, commands, identity, jobs, people, records
from cockpit.actions.checks.material import DEADLINE, Material, gather
from cockpit.actions.checks.origin import initialize_from
from cockpit.actions.checks.verdicts import passed, warned
from cockpit.actions.command import shown as shown_command
from cockpit.actions.command import values_of
from cockpit.actions.compared import WouldRun, output_checks
from cockpit.actions.ground import Ground
from cockpit.actions.launch_issue import BODY, body_of, create_step, preview, to_create
from cockpit.actions.launch_records import record_steps, trouble_step
from cockpit.actions.launch_steps import archive, go, look_again
from cockpit.actions.relaunch import code_fact, config_fact, store_there, template_of
from cockpit.actions.relaunch_steps import CODE, CONFIG, looked
from cockpit.actions.run_log_steps import launched_step
from cockpit.actions.submitting import confirm_step
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.sources.offload import offload


class Looked(NamedTuple):
    """Everything that a launch is planned from."""

    material: Material
    would: WouldRun
    command: list[Check]
    origin: list[Check]
    issue: str = ""


class Launch:
    """Starts a run that has no job yet; one that has is relaunched."""

    verb = "launch"
    title = "Launch"
    exclusive = True
    launches = True

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return what would be started, and all that is missing before it may be."""
        found = await _look(ground)
        return Draft(
            words=f"launch {request.run}",
            checks=people.for_dri(
                _checks(ground, found),
                [checkpoint.NONE, *code.of_the_dri(ground, found.material.changes)],
                ground.spec.dri,
            ),
            command=shown_command(found.would.words) or None,
            spares=tuple(job_name(job) for job in ground.live.spared),
            differences=(
                Difference(
                    what="command",
                    ran=None,
                    would_run=shown_command(found.would.words or found.would.template) or None,
                ),
            ),
            page=preview(ground.spec, found.issue) if found.issue else None,
            facts={
                CODE: code_fact(ground),
                CONFIG: config_fact(found.material),
                **({BODY: found.issue} if found.issue else {}),
            },
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: evidence of a job before, look again, the issue, submit, verify, the records."""
        return (
            Step("evidence", archive),
            Step("checkpoint", look_again),
            create_step(),
            Step("submit", go),
            Step("verify", looked),
            *record_steps(plan.run, self.verb),
            launched_step(plan.run),
            confirm_step(),
            trouble_step(plan.run, self.verb),
        )

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what has changed since it was shown, if anything that matters has."""
        return unchanged(shown, now)


async def _look(ground: Ground) -> Looked:
    material = await gather(ground)
    spec = ground.spec
    source = spec.checkpoints.initialize_from if spec.checkpoints is not None else None
    command = spec.launch or spec.resubmit
    values = values_of(spec, ground.launch_id, None if source is None else str(source), None)
    checks, words = commands.ready(spec, command, values)
    origin = await offload(initialize_from, spec, deadline=DEADLINE)
    would = WouldRun(words, template_of(command), None)
    making = to_create(spec, material.read.book)
    issue = await body_of(spec, shown_command(words) or None) if making else ""
    return Looked(material, would, checks, origin, issue)


def _checks(ground: Ground, found: Looked) -> list[Check]:
    material = found.material
    return [
        *people.has_dri(ground),
        *people.dri_knows(ground),
        *jobs.backend_there(ground),
        *jobs.launch_state(ground),
        *jobs.lineage_jobs(ground),
        *code.lineage(ground, material.changes, material.prior, first=True),
        *output_checks(ground, material, found.would),
        *checkpoint.from_scratch(ground),
        *found.origin,
        *identity.unused_tracker(ground),
        *records.kept_records(ground, material.read.book, material.read.book_trouble),
        *found.command,
        *_config(found.material),
        *store_there(ground, material),
    ]


def _config(material: Material) -> list[Check]:
    """Say which config the launch is recorded with: the next relaunch is compared with it."""
    config = material.read.config
    if config is None or config.values is None:
        why = "no config_file is named" if config is None else config.trouble
        text = f"{why}: later relaunches cannot be compared with this launch"
        return [warned("config", text, Basis.INFERRED)]
    text = f"{len(config.values)} settings of {config.source} are recorded with the launch"
    return [passed("config", text)]
