"""A-7, seal: a finished run is verified, its code tagged, its final metrics recorded, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions import seal_checks, seal_code
from cockpit.actions.action import Step, unchanged
from cockpit.actions.checks.verdicts import blocked
from cockpit.actions.command import CommandError, shown, words_of
from cockpit.actions.ground import Ground
from cockpit.actions.saying import safe
from cockpit.actions.seal_code import Code
from cockpit.actions.seal_steps import steps_of
from cockpit.model.observed import Checkpoint
from cockpit.model.plan import Basis, Check, Draft, Outcome, Plan, Request
from cockpit.model.words import number, rate, steps
from cockpit.sources.logbook import read_text
from cockpit.sources.offload import offload
from cockpit.text.logbook_scan import read_entries

TITLE: Final = "final seal"
DEADLINE: Final = 10.0


class Seal:
    """Refuses with the list of what is missing, or seals; twice changes nothing."""

    verb = "seal"
    title = "seal"
    exclusive = True
    launches = False

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return what is missing, what would be tagged, and the final figures."""
        final, about = seal_checks.final_checkpoint(ground)
        step = _step(ground, final)
        code = await seal_code.look(ground, step)
        logged = await _logged(ground)
        done = _already(ground, code, logged)
        return Draft(
            words=f"seal {request.run} {step}",
            checks=(
                *([done] if done is not None else []),
                *seal_checks.job_done(ground),
                *seal_checks.tracker_done(ground),
                about,
                *seal_checks.records_done(ground),
                *seal_checks.open_alerts(ground),
                *seal_checks.monitors(ground),
                *seal_code.checks(ground, code),
            ),
            page=_page(ground, final, step),
            facts={
                "step": str(step),
                "dirty": json.dumps([] if code is None else code.dirty),
                "digest": "" if code is None else code.digest,
                "tag": "" if code is None else code.facts.tag,
                "tag_at": (None if code is None else code.facts.tag_at) or "",
                "on_remote": "yes" if code is not None and code.facts.on_remote else "no",
                "job": _job_id(ground),
                "logged": "yes" if logged else "no",
                **_figures(ground, final),
            },
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: commit, tag and push; end the watch; log; comment."""
        return steps_of(plan)

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: of a finished run everything must be the very same."""
        return unchanged(shown, now)


def _step(ground: Ground, final: Checkpoint | None) -> int:
    """Return the step that the seal is named after: the exact final one, where that is known."""
    if ground.spec.final_step is not None:
        return ground.spec.final_step
    if final is not None and final.step is not None:
        return final.step
    tracker = ground.report.facets.tracker.value
    return (tracker.step if tracker is not None else None) or 0


def _job_id(ground: Ground) -> str:
    job = ground.report.facets.job.value
    return (job.id if job is not None else None) or ""


async def _logged(ground: Ground) -> bool:
    """Return whether the logbook holds the seal already; one that cannot be read does not."""
    path = ground.spec.records.logbook
    if path is None:
        return False
    try:
        text = await offload(read_text, Path(path), deadline=DEADLINE)
    except (OSError, ValueError, TimeoutError):
        return False
    return any(TITLE in entry.title.lower() for entry in read_entries(text))


def _already(ground: Ground, code: Code | None, logged: bool) -> Check | None:
    """Return the block of a run that is sealed: the tag stands, and that is written down."""
    by_us = [
        entry
        for entry in ground.entries
        if entry.action == "seal" and entry.outcome is Outcome.DONE and entry.recorded
    ]
    if code is None:
        if logged or by_us:
            return blocked("sealed", "already sealed: it is recorded", Basis.RECORDED)
        return None
    tag = code.facts.tag_at
    written = logged or by_us or ground.spec.records.logbook is None
    if tag is None or not written or code.facts.on_remote is False:
        return None
    return blocked("sealed", f"already sealed: tag {code.facts.tag} at {tag}", value=tag)


def _figures(ground: Ground, final: Checkpoint | None) -> dict[str, str]:
    """Return the final figures, as they are recorded (HERO, Seal)."""
    tracker, spec = ground.report.facets.tracker.value, ground.spec
    told = {
        "checkpoint": final.path if final is not None else None,
        "output_root": spec.output_root,
        "command": _command(ground),
    }
    if tracker is not None:
        told |= {
            "last_step": steps(tracker.step),
            "loss": number(tracker.loss),
            "throughput": rate(tracker.throughput, tracker.throughput_unit),
            "wandb_id": tracker.id,
            "wandb_name": tracker.name,
            "wandb_url": tracker.url,
        }
    return {name: safe(value) for name, value in told.items() if value}


def _command(ground: Ground) -> str | None:
    command = ground.spec.resubmit or ground.spec.launch
    try:
        return None if command is None else shown(words_of(command))
    except CommandError:
        return None


def _page(ground: Ground, final: Checkpoint | None, step: int) -> str:
    head = f"# {ground.spec.name}: seal at step {steps(step)}"
    return "\n".join([head, "", *_lines(ground, final)])


def _lines(ground: Ground, final: Checkpoint | None) -> Iterator[str]:
    for name, value in _figures(ground, final).items():
        yield f"- {name.replace('_', ' ')}: {value}"
