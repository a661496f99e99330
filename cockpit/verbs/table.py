"""A fleet as plain text: one aligned row per run, worst first, its alerts below it."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.base import rfc3339
from cockpit.model.cost import burning, spending
from cockpit.model.goodput import headline, losses
from cockpit.model.lineage import named, newest_of
from cockpit.model.observed import CheckpointState, Phase
from cockpit.model.report import (
    URGENCY,
    FleetReport,
    RunReport,
    Verdict,
    present_loss,
    present_tracker,
)

HEAD = ("VERDICT", "RUN", "JOB", "STEP", "ETA", "LOSS", "RATE", "CHECKPOINT", "MONITOR")
UNKNOWN = "?"
NONE = "-"
EVIDENCE_SHOWN = 4


def fleet_lines(report: FleetReport) -> list[str]:
    """Return the lines that ``check`` prints."""
    runs = sorted(report.runs, key=lambda run: (URGENCY.index(run.verdict), run.name))
    rows = [HEAD, *(_row(run) for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_aligned(HEAD, widths)]
    for run, row in zip(runs, rows[1:], strict=True):
        lines.append(_aligned(row, widths))
        lines.extend(_below(run))
    return lines


def loss_text(run: RunReport) -> str:
    """Return the present job's newest loss, the tracker's or else the log's; ``?`` if unknown."""
    return wording.number(present_loss(run)[1])


def job_text(run: RunReport) -> str:
    """Return the job's phase in capitals, ``?`` with what was last known.

    One whose process is paused (SIGSTOP) is not said to run; one that somebody here stopped has
    not failed.
    """
    job = run.facets.job
    if not job.configured:
        return NONE
    if job.value is None:
        return UNKNOWN
    if job.value.phase is Phase.UNKNOWN:
        return UNKNOWN
    word = "PAUSED" if job.value.stopped is not None else job.value.phase.value.upper()
    if run.stopped_by is not None and job.value.phase in (Phase.FAILED, Phase.CANCELLED):
        word = "STOPPED"
    return word if job.known else f"{UNKNOWN} (was {word})"


def checkpoint_text(run: RunReport) -> str:
    """Return the newest complete step."""
    facet = run.facets.checkpoints
    if not facet.configured:
        return NONE
    if facet.value is None or facet.value.unlisted:
        return UNKNOWN
    newest = newest_of(item for item in facet.value.items if item.complete and item.own)
    if newest is None:
        items = facet.value.items
        unknown = all(item.state is CheckpointState.UNKNOWN or item.complete for item in items)
        word = "unknown" if unknown else "not whole"
        return f"{len(items)} {word}" if items else "none"
    told = wording.steps(newest.step) if newest.step is not None else named(newest)
    return f"{told} suspect" if newest.suspect is not None else told


def monitor_text(run: RunReport) -> str:
    """Return ``fresh`` or ``STALE`` with the age of the last sign of life."""
    facet = run.facets.monitor
    if not facet.configured:
        return NONE
    if facet.value is None or facet.value.last_update is None:
        return UNKNOWN
    age = wording.age(max(0.0, run.checked_at - facet.value.last_update))
    return f"{'fresh' if facet.value.fresh else 'STALE'} {age}"


def rate_text(run: RunReport) -> str:
    """Return the throughput with its unit; ``?`` while only a former job's is known."""
    tracker, told = present_tracker(run), run.facets.tracker.value
    if tracker is None or tracker.throughput is None:
        return NONE if told is None or told.throughput is None else UNKNOWN
    return wording.rate(tracker.throughput, tracker.throughput_unit)


def alert_line(alert: Alert) -> str:
    """Return an alert's first line: id, severity, title, since, confidence, who has taken it."""
    taken = f" (acknowledged by {alert.acknowledged.by})" if alert.acknowledged is not None else ""
    what = f"{alert.id} {alert.severity.value}: {alert.title}"
    since = f"since {rfc3339(alert.since)}{alert.or_before}"
    return f"{what}, {since}, {alert.confidence}{taken}"


def _row(run: RunReport) -> tuple[str, ...]:
    eta = run.progress.eta_s
    return (
        run.verdict.value.upper(),
        run.name,
        job_text(run),
        run.progress.words,
        NONE if eta is None else wording.eta(eta),
        loss_text(run),
        rate_text(run),
        checkpoint_text(run),
        monitor_text(run),
    )


def owner_lines(run: RunReport) -> Iterator[str]:
    """Yield who owns the run, where that is not simply who stands in the run file."""
    owner, records = run.owner, run.facets.records.value
    if owner is not None and (owner.why or owner.differs):
        how = ", ".join(filter(None, (owner.name, owner.why)))
        differs = "" if owner.differs is None else f"; {owner.differs}"
        yield f"  owner: {how} [{owner.source}]{differs}"
        if owner.remedy is not None:
            yield f"      next: {owner.remedy}"
    if records is not None and records.unheard is not None:
        yield f"  {UNKNOWN} what others told lately: {records.unheard}"


def _below(run: RunReport) -> Iterator[str]:
    causes = {alert.key: alert for alert in run.alerts}
    for alert in run.alerts:
        cause = causes.get(alert.caused_by or "")
        if cause is not None:
            yield f"  {alert_line(alert)}; follows from {cause.id}"
            continue
        yield f"  {alert_line(alert)}"
        for each in alert.evidence[:EVIDENCE_SHOWN]:
            yield f"      {each.text}  [{each.source}]"
        yield f"      next: {alert.next_action}"
    for name, facet in run.facets.items():
        if facet.error is not None and facet.configured:
            yield f"  {UNKNOWN} {name}: {facet.error.kind.value}: {facet.error.message}"
    yield from _unread(run)
    yield from _tracker_notes(run)
    yield from _clocks(run)
    yield from _final_step(run)
    yield from _goodput(run)
    yield from owner_lines(run)
    for gone in run.closed:
        if not gone.seen:
            yield f"  closed unseen: {alert_line(gone.alert)}"
    if not run.alerts and run.verdict is Verdict.UNKNOWN and run.verdict_reason is not None:
        yield f"  why: {run.verdict_reason}"
    if not run.alerts:
        yield f"  next: {run.next_action}"


def _tracker_notes(run: RunReport) -> Iterator[str]:
    """Yield what else lies where the tracker's run is read."""
    value = run.facets.tracker.value
    for note in () if value is None else value.notes:
        yield f"  tracker: {note}"


def _clocks(run: RunReport) -> Iterator[str]:
    """Yield whose clock is off, and how far."""
    tracker, log = run.facets.tracker, run.facets.log
    for name, facet in (("tracker", tracker), ("log", log)):
        if facet.value is not None and (off := wording.clock_off(facet.value.clock_offset_s)):
            yield f"  clock of the {name}'s writer: {off}"


def _goodput(run: RunReport) -> Iterator[str]:
    if run.goodput is not None:
        yield f"  {headline(run.goodput)}; {losses(run.goodput)}"
    if run.cost is not None:
        yield f"  {'; '.join((*burning(run.cost), *spending(run.cost)))}"


def _final_step(run: RunReport) -> Iterator[str]:
    """Yield what another source says of the final step (C-20)."""
    found = run.progress
    if found.final_step_doubt is not None:
        said = f"final step {found.final_step} by {found.final_step_source}"
        yield f"  {said}; but {found.final_step_doubt}"


def _unread(run: RunReport) -> Iterator[str]:
    """Yield that the tracker's rows could not all be read in time: what they hold is unknown."""
    if run.rows_unread:
        value = run.facets.tracker.value
        share = 0.0 if value is None else min(value.scanned, 0.99)
        part = wording.percent(share)
        read = f"only {part} of the tracker's rows were read in time, and the newest ones"
        yield f"  {UNKNOWN} rows: {read}; what the others hold is unknown"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "  ".join(cell.ljust(width) for cell, width in pairs).rstrip()
