"""Whether a failed run may go on (SPEC T), and whether a new lineage may begin (SPEC A-3)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.actions.checks import checkpoint
from cockpit.actions.core.action import ActionContext
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.history import FormerFailure, History
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    CodeValue,
    JobValue,
    Phase,
    Pick,
    Triage,
)
from cockpit.model.plan import Basis, Check, Outcome, StepState
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import stop_in
from cockpit.platforms.command import places_in
from cockpit.rules.jobs.restarts import created_at, failure_of, identity, same_again
from cockpit.rules.jobs.terminal import diagnosis
from cockpit.store.journal import JournalEntry, stopped
from cockpit.store.memory import Snapshot
from cockpit.text.checks import blocked, finding, passed, warned

SLACK = 5.0
"""Seconds by which a job may seem to have started after it was ordered to stop."""


def recoverable(context: ActionContext) -> list[Check]:
    """Check T: what ended the job decides; what is not a plain relaunch needs a name."""
    job = context.report.facets.job.value
    stalled = any(alert.id == "C-06" for alert in context.report.alerts)
    if job is None or job.phase is Phase.UNKNOWN or not (job.phase.terminal or stalled):
        return []  # job-state stands in the way already
    ordered = own_stop(context, job)
    if ordered is not None:
        when = wording.moment(ordered.begun_at)
        text = f"stopped by {ordered.operator} through the cockpit at {when}"
        return [passed(rows.CAUSE, text, Basis.RECORDED, ordered.operator)]
    # The order to stop this very job that another account gave, if one was told
    records = context.report.facets.records.value
    since = (job.started_at or 0.0) - SLACK
    told = None if records is None else stop_in(records.told, job.id or "", since)
    if told is not None:
        text = f"stopped by {told.typed_by} at {wording.moment(told.at)} ({told.source})"
        return [passed(rows.CAUSE, text, Basis.RECORDED, told.typed_by)]
    found = present_triage(context)
    if found is None:
        end = "ended it" if job.phase.terminal else "holds it up"
        text = f"the log was not read since: what {end} is unknown"
        return [blocked(rows.CAUSE, text)]
    return [_by_action(found, job), *_recipe(context, found)]


def _by_action(found: Triage, job: JobValue) -> Check:
    name = wording.cause(found.name)
    line = found.evidence[-1].text if found.evidence else "no line tells why"
    what = f"cause: {name} ({found.basis}): {line}"
    if found.action == "relaunch" and job.phase.terminal and found.read and found.read.why:
        return warned(rows.CAUSE, f"{what}; {found.read.why}", value=found.name)
    if found.action == "relaunch" and job.phase.terminal:
        return passed(rows.CAUSE, what, value=found.name)
    if found.action == "fix_then_relaunch" and job.phase.terminal:
        return passed(rows.CAUSE, f"{what}; fix it first, then relaunch", value=found.name)
    if found.name == "user_stopped" or job.phase is Phase.CANCELLED:
        text = f"stopped, and nobody is recorded as having done it ({line}); ask who and why"
        if job.phase is Phase.SUCCEEDED:  # a signal, and a clean end: nobody's order is known
            return warned(rows.CAUSE, text, value=found.name)
        return blocked(rows.CAUSE, text, value=found.name)
    if not job.phase.terminal:
        what = f"stalled, and the log does not call for a relaunch: {what}"
    return blocked(rows.CAUSE, f"{what} → {found.action}", value=found.name)


def _recipe(context: ActionContext, found: Triage) -> list[Check]:
    """Show the recorded recipe for a bad node to a person; nothing here runs it (SPEC T)."""
    if found.name != "bad_node":
        return []
    recipe = context.spec.job.bad_node_recipe if context.spec.job is not None else None
    if recipe is None:
        text = "bad node, and no recipe set (job.bad_node_recipe); ask before a VM is lost"
        return [finding(rows.RECIPE, text)]
    return [finding(rows.RECIPE, f"bad node; recipe to run by hand: {recipe}")]


def present_triage(context: ActionContext) -> Triage | None:
    """Return SPEC T's answer for the job as it is now, ended or standing still."""
    facets = context.report.facets
    job, log = facets.job.value, facets.log.value
    if job is None or log is None:
        return None
    if job.phase.terminal:
        return diagnosis(History(now=context.now, facets=facets))
    return log.triage


def own_stop(context: ActionContext, job: JobValue) -> JournalEntry | None:
    """Return our own action that ordered this very job to stop, if one did."""
    since = (job.started_at or 0.0) - SLACK
    for entry in reversed(context.entries):
        step = entry.step("stop")
        ordered = step is not None and step.state is not StepState.SKIPPED
        if ordered and entry.begun_at >= since and stopped(entry, job.id or ""):
            return entry
    return None


def no_numbers_lost(context: ActionContext) -> list[Check]:
    """Check C-09: a run whose numbers are gone is never relaunched as infrastructure."""
    found = next((alert for alert in context.report.alerts if alert.id == "C-09"), None)
    if found is None:
        return [passed(rows.NUMBERS_LOST, "no open NaN or inf alert")]
    rolled_back = any(
        entry.action == "rollback" and entry.outcome is Outcome.DONE
        for entry in context.entries
        if entry.begun_at >= found.since
    )
    advice = "roll back to before it, or ask"
    if rolled_back:
        advice = "rolled back since; approve if what caused it was changed"
    text = f"{found.title}: not an infrastructure failure; {advice}"
    return [blocked(rows.NUMBERS_LOST, text, value=found.key)]


def fixed(context: ActionContext, prior: Snapshot | None, same_config: bool) -> list[Check]:
    """Warn when a failure that needs a fix would be relaunched with nothing changed."""
    found = present_triage(context)
    code = context.report.facets.code.value
    if found is None or found.action != "fix_then_relaunch":
        return []
    if code is None or code.sha is None:
        text = "cannot tell whether the bug was fixed: no code repository"
        return [warned(rows.FIXED, text, Basis.INFERRED)]
    was = _before(prior, code)
    if was is None:
        text = "no record of which code failed: check that it is fixed"
        return [warned(rows.FIXED, text, Basis.INFERRED)]
    if was == (code.sha, code.patch_id) and same_config:
        text = f"no code change since the failed launch (commit {code.sha[:10]})"
        return [warned(rows.FIXED, text)]
    return [passed(rows.FIXED, f"code changed since the failed launch: now {code.sha[:10]}")]


def _before(prior: Snapshot | None, code: CodeValue) -> tuple[str, str | None] | None:
    if prior is not None and prior.sha is not None:
        return prior.sha, prior.patch_id
    if code.record_sha is None or code.sha is None:
        return None
    whole = code.sha if code.sha.startswith(code.record_sha) else code.record_sha
    return whole, None


def present_failure(context: ActionContext) -> FormerFailure | None:
    """Return the failure that a relaunch would recover from: an end, or a stall."""
    named, job = context.spec.job is not None, context.report.facets.job.value
    history = History(now=context.now, facets=context.report.facets, job_named=named)
    stalled = any(alert.id == "C-06" for alert in context.report.alerts)
    if job is not None and not job.phase.terminal and stalled:
        step = context.report.progress.step
        return FormerFailure(at=context.now, job_id=identity(job), name="stalled", step=step)
    return failure_of(context.spec, history)


def not_again(context: ActionContext, former: Sequence[FormerFailure]) -> list[Check]:
    """Check C-14: a second failure of one kind, or flapping, needs a name and a reason."""
    now = present_failure(context)
    same = () if now is None else same_again(former, now)
    flapping = _flapping(context)
    if same or flapping:
        text = "; ".join((*same[:2], *flapping))
        if len(same) > 2:
            text += f"; {len(same) - 2} more like it"
        return [blocked(rows.AGAIN, text)]
    text = "no earlier failure like this" if now is not None else "nothing has failed"
    return [passed(rows.AGAIN, text), *_counted(context)]


def _flapping(context: ActionContext) -> tuple[str, ...]:
    limits = context.spec.thresholds
    since = context.now - limits.flap_window
    ours = [
        entry
        for entry in context.entries
        if entry.action == "relaunch" and entry.outcome is Outcome.DONE and entry.begun_at >= since
    ]
    within = f"within {wording.span(limits.flap_window)}"
    if len(ours) >= limits.flap_restarts:
        return (f"relaunched {len(ours)} times {within}: it keeps failing",)
    own = _restarted(context)
    if own >= limits.flap_restarts and _launched_since(context, since):
        return (f"restarted by its platform {own} times {within}: it keeps failing",)
    monitor = context.report.facets.monitor.value
    restarts = monitor.restart_count if monitor is not None else None
    if monitor is None or restarts is None or restarts < limits.flap_restarts:
        return ()
    created = created_at(monitor)
    if created is not None and created >= since:
        return (f"the monitor counts {restarts} restarts {within}: it keeps failing",)
    return ()


def _restarted(context: ActionContext) -> int:
    """Return how often the platform has restarted the job by itself (requeues, preemptions)."""
    job = context.report.facets.job.value
    return (job.restarts or 0) if job is not None else 0


def _launched_since(context: ActionContext, since: float) -> bool:
    """Tell whether the present job was launched by us after ``since``: its restarts are too."""
    job = context.report.facets.job.value
    launch_id = job.launch_id if job is not None else None
    ours = (entry for entry in context.entries if entry.launch_id and entry.begun_at >= since)
    return any(entry.launch_id == launch_id for entry in ours)


def _counted(context: ActionContext) -> list[Check]:
    limit, own = context.spec.thresholds.flap_restarts, _restarted(context)
    if own >= limit:
        text = f"its platform counts {own} restarts so far, over an unknown time"
        return [finding(rows.RESTARTS, text)]
    monitor = context.report.facets.monitor.value
    restarts = monitor.restart_count if monitor is not None else None
    if restarts is None or restarts < limit:
        return []
    text = f"the monitor counts {restarts} restarts so far, over a longer time"
    return [finding(rows.RESTARTS, text, Basis.RECORDED)]


NEEDED: Final = ("output_root", "checkpoint")


def unused(context: ActionContext, run: RunSpec) -> Iterator[Check]:
    """Check that run id, W&B id and output root are nobody's."""
    file = context.file
    wandb_id = run.wandb.id if run.wandb is not None else None
    if any(each.name == run.name for each in file.runs):
        yield blocked(rows.RUN_ID, f"{run.name} is already a run in cockpit.toml")
    else:
        yield passed(rows.RUN_ID, f"run id {run.name} is new", value=run.name)
    users = [
        each.name for each in file.runs if each.wandb is not None and each.wandb.id == wandb_id
    ]
    if users:
        yield blocked(rows.WANDB_ID, f"W&B id {wandb_id} is already used by {users[0]}")
    else:
        text = f"W&B id {wandb_id} is not used by another run here"
        yield passed(rows.WANDB_ID, text, value=wandb_id)
    yield _root(context, run)


def _root(context: ActionContext, run: RunSpec) -> Check:
    place = run.output_root
    if place is None:
        return blocked(rows.NEW_ROOT, "the new lineage has no output root", Basis.RECORDED)
    root = str(place)
    for each in context.file.runs:
        theirs = each.output_root
        if theirs is not None and (place.contains(theirs) or theirs.contains(place)):
            text = f"{root} and the output root of {each.name} ({theirs}) overlap"
            return blocked(rows.NEW_ROOT, text, Basis.RECORDED, root)
    if not place.here:
        text = f"{root} cannot be checked for files from here"
        return finding(rows.ROOT_AWAY, text, value=root)
    trouble = _occupied(root)
    if trouble is not None:
        return blocked(rows.NEW_ROOT, trouble, value=root)
    return passed(rows.NEW_ROOT, f"{root} is empty", value=root)


async def looked_at(checks: list[Check], run: RunSpec, clock: Clock) -> list[Check]:
    """Return the checks with a look at an output root that does not lie on this machine."""
    place = run.output_root
    if place is None or not any(check.id == rows.ROOT_AWAY.id for check in checks):
        return checks
    trouble = await checkpoint.occupied(place, clock)
    text = f"{place} is empty"
    said = passed(rows.NEW_ROOT, text, value=str(place))
    if trouble is not None:
        said = blocked(rows.NEW_ROOT, trouble, value=str(place))
    return [said if check.id == rows.ROOT_AWAY.id else check for check in checks]


def _occupied(root: str) -> str | None:
    """Return why a local folder is not free; blocking."""
    try:
        with os.scandir(root) as entries:
            first = next(iter(entries), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{root}: {(error.strerror or 'cannot be read').lower()}"
    return None if first is None else f"{root} is not empty: {first.name}"


def source_of(context: ActionContext, asked: str) -> tuple[Pick | None, Check]:
    """Return the checkpoint to begin with, a step or a path, or why it cannot be used."""
    facet = context.report.facets.checkpoints
    if facet.value is None or facet.error is not None:
        why = facet.why_unknown("not listed yet")
        return None, blocked(rows.SOURCE, f"checkpoints unknown: {why}")
    found = _matching(facet.value, asked.strip())
    good = [item for item in found if item.state is CheckpointState.COMPLETE]
    if good and good[-1].step is not None:
        best = max(good, key=worth)
        pick = Pick(path=best.path, step=best.step or 0, why="chosen by the operator")
        text = f"starts from step {wording.step(pick.step)}, complete: {best.path}"
        if best.suspect is not None:
            text = f"step {wording.step(pick.step)} is suspect: {best.suspect}"
            return pick, finding(rows.SUSPECT, text, value=best.path)
        return pick, passed(rows.SOURCE, text, value=best.path)
    if found:
        why = f"{found[-1].state.value}{f', {found[-1].note}' if found[-1].note else ''}"
        return None, blocked(rows.SOURCE, f"cannot start from {found[-1].path}: it is {why}")
    text = f"{asked} is neither a step nor a path of a checkpoint of this run"
    return None, blocked(rows.SOURCE, text)


def worth(item: Checkpoint) -> tuple[bool, bool, float]:
    """Return what decides between two complete checkpoints of one step."""
    return (item.good, item.permanent is not False, item.saved_at or 0.0)


def _matching(value: CheckpointsValue, asked: str) -> Sequence[Checkpoint]:
    digits = asked.lower().removeprefix("step-").replace(",", "").replace("_", "")
    if digits.isascii() and digits.isdigit():
        step = int(digits)
        return [item for item in value.items if step in (item.step, item.name_step)]
    path = asked.rstrip("/")
    return [item for item in value.items if item.path.rstrip("/") == path]


def takes_identity(run: RunSpec, template: Sequence[str], old: RunSpec) -> Iterator[Check]:
    """Check that the command takes the new identity, and names nothing of the old one."""
    missing = [name for name in NEEDED if name not in places_in(template)]
    if missing:
        words = " and ".join(f"{{{name}}}" for name in missing)
        text = f"resubmit does not take the new identity: add {words} to it"
        yield blocked(rows.IDENTITY, text)
    elif "wandb_id" not in places_in(template):
        text = "resubmit does not name {wandb_id}: the new id is passed by WANDB_RUN_ID only"
        yield warned(rows.IDENTITY, text)
    else:
        yield passed(rows.IDENTITY, f"the command uses the identity of {run.name}")
    wandb_id = old.wandb.id if old.wandb is not None else None
    root = None if old.output_root is None else old.output_root.seen_from(old.job)
    still = [
        text
        for text in (root, wandb_id)
        if text and any(w == text or f"={text}" in w or f"{text}/" in w for w in template)
    ]
    if still:
        text = f"resubmit still names the old lineage: {', '.join(still)}"
        yield finding(rows.OLD_IDENTITY, text)
