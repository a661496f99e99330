"""What a report tells of the present job: no former one's figures, and no state that has aged.

After a resume the tracker holds the former job's last loss and rate until the new one has logged
(and its client has written) a row of its own, while log and checkpoints are further already.
"""

from __future__ import annotations

from cockpit.model.facet import Facet
from cockpit.model.observed import JobValue, Phase, Row, TrackerValue
from cockpit.model.report import RunReport
from cockpit.model.wording import utc_minute


def present_tracker(report: RunReport) -> TrackerValue | None:
    """Return the tracker's value if its newest row is the present job's, as far as that is told."""
    found = report.facets.tracker.value
    return None if found is None or _is_former(report, found) else found


def present_loss(report: RunReport) -> tuple[str, float | None]:
    """Return the present job's newest loss, and which facet tells it: the tracker, else the log."""
    current = present_tracker(report)
    if current is not None and current.loss is not None:
        return "tracker", current.true_loss
    row = _newest_row(report)
    return "log", None if row is None else row.true_loss


def loss_at(report: RunReport) -> float | None:
    """Return when that loss was logged (s since the epoch); ``None``: unknown.

    When its file was looked at, or written, is another time: a run may stand still for hours.
    """
    current = present_tracker(report)
    if current is not None and current.loss is not None:
        return current.last_step_at
    row = _newest_row(report)
    return None if row is None else row.at


def phase_told(job: Facet[JobValue]) -> str:
    """Return a job's phase for a text that is read elsewhere and later: ``running``, ``failed``.

    One that gave no answer when it was asked is not said to live: when it was seen so is told.
    """
    value = job.value
    if value is None or value.phase is Phase.UNKNOWN:
        return Phase.UNKNOWN.value
    word = "stopped" if value.stopped is not None else value.phase.value
    if job.known or not (job.remembered or value.phase.lives):
        return word
    return f"unknown (was {word} {utc_minute(job.observed_at)})"


def _newest_row(report: RunReport) -> Row | None:
    """Return the present job's newest row of the log with a loss."""
    log = report.facets.log.value
    rows = log.rows if log is not None else ()
    if report.facets.tracker.value is not None and present_tracker(report) is None:
        began = _began(report)
        rows = tuple(row for row in rows if row.at is not None and row.at >= (began or 0.0))
    return next((row for row in reversed(rows) if row.loss is not None), None)


def _is_former(report: RunReport, tracker: TrackerValue) -> bool:
    began, source = _began(report), report.progress.step_source
    if began is None or tracker.last_step_at is None or (source or "").startswith("tracker"):
        return False
    return tracker.last_step_at < began


def _began(report: RunReport) -> float | None:
    job = report.facets.job.value
    return None if job is None else job.started_at
