"""What must be there before a run is sealed (SPEC A-7, C-19); each thing missing is named."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.actions.checks.jobs import possible_jobs
from cockpit.actions.core.context import ActionContext
from cockpit.model.alert import Severity
from cockpit.model.observed import Checkpoint, CheckpointState, Phase, TrackerValue
from cockpit.model.plan import Basis, Check
from cockpit.model.wording import number, steps, with_code
from cockpit.text.checks import blocked, lacking, passed, warned


def job_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether the orchestrator says success and nothing of the lineage is alive."""
    job, live = context.report.facets.job, context.live
    if live.jobs:
        names = ", ".join(each.name for each in live.jobs)
        yield blocked("C-25", f"a job of this lineage is still alive: {names}")
    elif live.possible:
        yield warned("C-25", possible_jobs(live.possible))
    elif live.unknown is not None:
        yield warned("C-25", f"cannot tell whether a job is still alive: {live.unknown}")
    if context.spec.job is None:
        tracker = context.report.facets.tracker.value
        if tracker is not None and tracker.exit_code == 0:
            yield passed("job-state", "no job configured; the tracker says exit 0", Basis.INFERRED)
        else:
            yield blocked("job-state", _no_success(tracker))
    elif not job.known or job.value is None:
        why = job.error.message if job.error is not None else "not seen yet"
        yield blocked("job-state", f"the orchestrator's state is unknown: {why}")
    elif job.value.phase is not Phase.SUCCEEDED:
        yield blocked("job-state", f"the orchestrator says {job.value.phase.value}, not success")
    else:
        yield passed("job-state", "the orchestrator says success", value=job.value.state)


def _no_success(tracker: TrackerValue | None) -> str:
    if tracker is not None and not tracker.kind.records_end:
        what = f"{tracker.kind.name} does not record how a run ended"
        return f"no job configured ([run.job]), and {what}"
    return "no job configured, and the tracker reports no success"


def tracker_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether the tracker has the run's final state, and the final metrics."""
    facet = context.report.facets.tracker
    value = facet.value
    if not facet.configured:
        yield lacking(context.spec, "tracker", "no tracker in cockpit.toml: no final metrics")
        return
    if not facet.known or value is None:
        why = facet.error.message if facet.error is not None else "not read yet"
        yield blocked("tracker", f"the tracker's final state is unknown: {why}")
        return
    name = value.kind.name
    if not value.kind.records_end:
        yield passed("tracker", f"{name} does not record an end: nothing is missing there")
    elif value.finished:
        yield passed("tracker", f"{name} is finished: {value.id or value.url}", value=value.state)
    else:
        yield blocked("tracker", with_code(f'{name} says "{value.state}"', value.exit_code))
    if value.step is None or value.loss is None:
        yield blocked("metrics", "the final metrics are missing: no step or loss was logged")
    else:
        text = f"final metrics: step {steps(value.step)}, loss {number(value.true_loss)}"
        yield passed("metrics", text, value=number(value.true_loss))


def final_checkpoint(context: ActionContext) -> tuple[Checkpoint | None, Check]:
    """Return the final checkpoint, if it is complete, and what is said of it."""
    facet, run = context.report.facets.checkpoints, context.spec
    if not facet.configured:
        text = "no checkpoints in cockpit.toml (checkpoints.path)"
        return None, lacking(context.spec, "checkpoint", text)
    if not facet.known or facet.value is None:
        why = facet.error.message if facet.error is not None else "not listed yet"
        return None, blocked("checkpoint", f"the final checkpoint is unknown: {why}")
    items = facet.value.items
    done = [item for item in items if item.state is CheckpointState.COMPLETE]
    newest = max((item for item in done if item.step is not None), key=_step, default=None)
    if run.final_step is None:
        text = "the final step is unknown (final_step), so the newest may not be final"
        return newest, lacking(context.spec, "checkpoint", text)
    final = [item for item in done if item.step in (run.final_step - 1, run.final_step)]
    if not final:
        last = "none" if newest is None else steps(newest.step)
        text = f"no complete checkpoint of step {steps(run.final_step)}; newest: {last}"
        text = "; ".join([text, *facet.value.notes])
        return None, blocked("checkpoint", text)
    best = max(final, key=lambda item: (item.good, item.permanent is not False, _step(item)))
    if best.suspect is not None:
        text = f"the final checkpoint is suspect: {best.suspect}"
        return best, lacking(context.spec, "checkpoint", text)
    if best.permanent is False:
        text = f"the final checkpoint lies in the temporary root: {best.path}"
        return best, warned("checkpoint", text)
    return best, passed("checkpoint", f"final checkpoint: {best.path}", value=best.path)


def _step(item: Checkpoint) -> int:
    return item.step or 0


def records_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether there is a logbook and an issue to write into."""
    spec, facet = context.spec.records, context.report.facets.records
    if spec.logbook is None:
        yield lacking(context.spec, "logbook", "no logbook in cockpit.toml (records.logbook)")
    elif facet.error is not None:
        yield blocked("logbook", f"the logbook cannot be read: {facet.error.message}")
    else:
        yield passed("logbook", f"the seal is written to {spec.logbook}")
    if spec.issue is None:
        yield lacking(context.spec, "issue", "no issue in cockpit.toml (records.issue)")


def open_alerts(context: ActionContext) -> Iterator[Check]:
    """Yield what is still open: a missing artifact blocks, the rest is said (C-19)."""
    for alert in context.report.alerts:
        if alert.id == "C-19":
            for line in alert.evidence:
                yield blocked("C-19", f"{line.text} ({line.source})")
        elif alert.severity in (Severity.ALERT, Severity.CRITICAL):
            by = f" (acknowledged by {alert.acknowledged.by})" if alert.acknowledged else ""
            yield warned(alert.id, f"still open: {alert.title}{by}")


def monitors(context: ActionContext) -> Iterator[Check]:
    """Yield whether anybody else still monitors the run; our own watch ends by itself."""
    value, ours = context.report.facets.monitor.value, context.report.watched_by
    if ours is not None:
        yield passed("monitors", f"watched by {ours}; the seal tells it that the run is over")
    if value is None:
        return
    if value.fresh and not _is_ours(value.owner, ours):
        who = value.owner or "somebody"
        where = value.path or "a state file"
        session = value.tunnel_session or value.server_session
        how = f"end its session {session}" if session else f"end what writes {where}"
        yield blocked("monitors", f"{who}'s monitor is still running: {how}, then seal")
    if value.doubt is not None and not _is_ours(value.owner, ours):
        yield warned("monitors", f"cannot tell whether a monitor is still running: {value.doubt}")
    for other in value.others:
        if other.fresh and not _is_ours(other.owner, ours):
            who = other.owner or "somebody"
            yield blocked("monitors", f"a second monitor, of {who}, still writes {other.path}")


def _is_ours(owner: str | None, watched_by: str | None) -> bool:
    """Tell whether a fresh state file is that of the watch that this cockpit knows."""
    return owner is not None and watched_by is not None and watched_by.startswith(f"{owner} (")
