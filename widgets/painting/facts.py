"""What a painter wants to know of a report: states, marks, ages. Pure; no text is laid out here."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, Final

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import UNASKED, Facet
from cockpit.model.goodput import UNSEEN
from cockpit.model.observed import Checkpoint, CheckpointState, JobValue, Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import age, ago, by_look, change, glyph, lasts, steps

STALE_AT_LEAST: Final = 180.0
"""Seconds: nothing that was looked at since then is called stale."""

VERDICT_STYLE: Final = {
    Verdict.HEALTHY: "$well",
    Verdict.ATTENTION: "$attention",
    Verdict.CRITICAL: "$critical",
    Verdict.UNKNOWN: "$unknown",
    Verdict.FINISHED: "$accent",
    Verdict.SEALED: "$dim",
}
URGENT: Final = (Verdict.CRITICAL, Verdict.ATTENTION)
SEVERITY_STYLE: Final = {
    Severity.INFO: "$dim",
    Severity.WARNING: "$attention",
    Severity.ALERT: "$attention",
    Severity.CRITICAL: "$critical",
}

SEVERITY_WORD: Final = {
    Severity.INFO: "notice",
    Severity.WARNING: "attention",
    Severity.ALERT: "attention",
    Severity.CRITICAL: "critical",
}

VERDICT_MARKS: Final = {
    "c": ("█", "$critical", "critical"), "a": ("▅", "$attention", "attention"),
    "u": ("?", "$unknown", "unknown"), "h": ("▂", "$well", "healthy"),
    "f": ("▁", "$accent", "finished"), "s": ("▁", "$dim", "sealed"),
    UNSEEN: ("·", "$dim", "not watched"),
}  # fmt: skip
"""By a verdict's first letter: its mark on a strip of time, its style, its word."""


class Freshness(Enum):
    """How a facet may be shown."""

    FRESH = "fresh"
    STALE = "stale"
    UNKNOWN = "unknown"
    ABSENT = "absent"


def freshness_of(facet: Facet[Any], report: RunReport, now: float) -> Freshness:
    """Return whether a facet is fresh, stale (last known), unknown, or not in the run file."""
    if not facet.configured:
        return Freshness.ABSENT
    if facet.value is None:
        return Freshness.UNKNOWN
    old = facet.age(now)
    limit = max(STALE_AT_LEAST, 2 * report.spec.cadence)
    if old is not None and old <= limit:
        lasts(limit - old)  # a later look would be as fresh, and for longer
    stale = facet.remembered or facet.error is not None or old is None or old > limit
    if stale:
        by_look()
    return Freshness.STALE if stale else Freshness.FRESH


def reason(facet: Facet[Any]) -> str:
    """Return why a facet is unknown, in one short line."""
    return (facet.error or UNASKED).message


def unread(report: RunReport) -> bool:
    """Tell whether nothing can be said of a run yet: not all was read, and what was is not sick."""
    return report.not_read_yet is not None and report.verdict not in URGENT


def waits(report: RunReport) -> bool:
    """Tell whether a run is unread since some source was not asked yet: and says so."""
    return unread(report) and not report.alerts and not all(_asked(report))


def unasked(report: RunReport) -> bool:
    """Tell whether nothing of a run was ever asked for."""
    return waits(report) and not any(_asked(report))


def _asked(report: RunReport) -> list[bool]:
    return [facet.asked for _, facet in report.facets.items() if facet.configured]


def verdict_mark(report: RunReport) -> tuple[str, str]:
    """Return the verdict's glyph and style; before the first look only open alerts have one."""
    if unread(report):
        return glyph("stale"), VERDICT_STYLE[Verdict.UNKNOWN]
    return glyph(report.verdict.value), VERDICT_STYLE[report.verdict]


def verdict_word(report: RunReport) -> str:
    """Return the verdict in capitals: ``HEALTHY``; ``NOT READ YET`` before the first look."""
    return "NOT READ YET" if unread(report) else report.verdict.value.upper()


def phase_words(report: RunReport, now: float, just: str = "just now") -> str:
    """Return the job's phase and what belongs to it: ``RUNNING 4/4``, ``FAILED 12m ago``.

    A process that is paused (SIGSTOP) is not said to run, nor is a job that nobody has asked
    since the engine started, or that gave no answer when it was: ``was RUNNING 14m ago`` tells
    when it was seen so, ``was FAILED 2h ago`` when it ended, if that is known.
    """
    job = report.facets.job
    if not job.configured:
        return "NO JOB"
    if not job.asked:
        return "NOT READ YET"
    if job.value is None or job.value.phase is Phase.UNKNOWN:
        return "JOB UNKNOWN"
    if job.remembered or (not job.known and job.value.phase.lives):
        by_look()
        at = job.value.ended_at if job.value.phase.terminal else job.observed_at
        return f"was {job.value.phase.value.upper()} {_ago(at, now, just)}".rstrip()
    if job.value.stopped is not None:
        return f"PAUSED {age(now - job.value.stopped.since)}"
    # an end that somebody here ordered is no failure
    ordered = job.value.phase in (Phase.FAILED, Phase.CANCELLED) and report.stopped_by
    word = f"STOPPED by {report.stopped_by}" if ordered else job.value.phase.value.upper()
    return f"{word} {_phase_extra(job.value, now, just)}".rstrip()


def brief_phase(report: RunReport, now: float) -> str:
    """Return the phase in at most two words: ``FAILED 12m``, ``FAILED now``."""
    by = f" by {report.stopped_by}"
    return " ".join(phase_words(report, now, just="now").replace(by, "", 1).split()[:2])


def _phase_extra(job: JobValue, now: float, just: str) -> str:
    tasks = job.tasks
    bad = 0 if tasks is None else tasks.failed
    if job.phase.terminal:
        over = _ago(job.ended_at, now, just)
        return over if tasks is None or not bad else f"{over} · {bad} of {tasks.total} tasks failed"
    if job.phase is Phase.WAITING and job.pending_since is not None:
        return age(now - job.pending_since)
    failed = f" · {bad} failed" if bad else ""
    return f"{tasks.running}/{tasks.total}{failed}" if tasks is not None else ""


def _ago(instant: float | None, now: float, just: str) -> str:
    return "" if instant is None else ago(now - instant, just)


def phase_style(report: RunReport, now: float) -> str:
    """Return the style of the phase's word."""
    job = report.facets.job
    seen = freshness_of(job, report, now)
    if job.value is None or seen is Freshness.STALE:
        return "$dim"
    if job.value.phase is Phase.FAILED and not report.stopped_by:
        return "bold $critical"
    return "bold" if job.value.stopped is None else "bold $attention"


def is_over(report: RunReport) -> bool:
    """Tell whether the job has ended: it has no rate and no time left any more."""
    job = report.facets.job.value
    return job is not None and job.phase.terminal


def alert_mark(alert: Alert) -> tuple[str, str]:
    """Return an alert's glyph and style."""
    return glyph(alert.severity.value), SEVERITY_STYLE[alert.severity]


def loss_alert(report: RunReport) -> Alert | None:
    """Return the open alert that the loss curve explains."""
    return next((each for each in report.alerts if each.id in ("C-09", "C-11")), None)


_CHECKPOINT_STYLE: Final = {
    CheckpointState.COMPLETE: "$well",
    CheckpointState.INCOMPLETE: "$critical",
    CheckpointState.WRITING: "$dim",
}


def item_state(item: Checkpoint) -> str:
    """Return the word whose glyph a checkpoint has: its state, or that it is suspect."""
    return "suspect" if item.complete and item.suspect is not None else item.state.value


def item_word(item: Checkpoint) -> str:
    """Return a checkpoint's state in one word."""
    return "torn" if item.state is CheckpointState.INCOMPLETE else item_state(item)


def item_style(item: Checkpoint) -> str:
    """Return the style of a checkpoint's word."""
    suspect = item.complete and item.suspect is not None
    return "$attention" if suspect else _CHECKPOINT_STYLE.get(item.state, "$attention")


def step_words(item: Checkpoint) -> str:
    """Return a checkpoint's step, or its name if it has no step."""
    step = step_of(item)
    return steps(step) if step is not None else item.path.rstrip("/").rpartition("/")[2]


def newest_checkpoints(report: RunReport) -> list[Checkpoint]:
    """Return the checkpoints worth a line: what a relaunch takes, what is newer, then others.

    A suspect one never stands before a good one.
    """
    found = report.facets.checkpoints.value
    if found is None:
        return []
    named = [each for each in reversed(found.items) if step_of(each) is not None]
    items = [*named, *(each for each in found.items if step_of(each) is None)]
    pick = None if found.relaunch_from is None else found.relaunch_from.path
    good = sorted((each for each in items if each.good), key=lambda each: each.path != pick)
    newest = step_of(good[0]) if good else None
    others = [each for each in items if not each.good]
    newer = [e for e in others if newest is None or (step_of(e) or 0) >= newest]
    return [*good[:1], *newer[:2], *good[1:3]]


def step_of(item: Checkpoint) -> int | None:
    """Return a checkpoint's step by its marker, else by its name."""
    return item.step if item.step is not None else item.name_step


def pace(report: RunReport) -> tuple[str, str]:
    """Return throughput against its baseline, and its style: low is marked while C-05 is open."""
    tracker = report.facets.tracker.value
    if tracker is None:
        return "?", "$dim"
    low = next((each for each in report.alerts if each.id == "C-05"), None)
    style = SEVERITY_STYLE[low.severity] if low is not None else "$dim"
    return change(tracker.throughput, tracker.baseline), style


def finite(value: float | None) -> bool:
    """Return whether a metric is a number that can be drawn."""
    return value is not None and math.isfinite(value)
