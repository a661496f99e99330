"""C-25, duplicate job: two live jobs write to one output root or one W&B run.

The evidence comes from the process table, the other runs of the run file, launch notes of other
machines, and the tracker's own files and rows. A process that may write, but is not proven to, is
shown as information: nothing is stopped because of it.

The same condition covers a job that was accepted but never released, and waits held for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History, Sharer
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.model.trend import Writer
from cockpit.rules import present
from cockpit.rules.metrics.writers import LEAP, PATIENT
from cockpit.rules.present import job_of, seen_at, written_after_end

IN_HAND: Final = 180.0
"""Seconds within which a launch lets go what it has accepted, or its look-up ends it."""


def held_leftover(run: RunSpec, job: JobValue, now: float) -> Iterator[Alert]:
    """C-25: a held job of a former launch is left; it starts only if somebody lets it go."""
    left = [each for each in job.held if now - _held_since(each, now) > IN_HAND]
    if not left:
        return
    names = ", ".join(each.id for each in left)
    them = "it" if len(left) == 1 else "them"
    launches = ", ".join(dict.fromkeys(each.launch_id or "a launch" for each in left))
    yield Alert(
        key=f"C-25:held:{run.name}",
        severity=Severity.WARNING,
        title=f"Held job left over from {launches}: {names}",
        since=min(_held_since(each, now) for each in left),
        evidence=tuple(_job_evidence(each, job.rivals_source, now) for each in left),
        next_action=f"cockpit stop {run.name} --only held cancels {them}; release none of them",
    )


def _held_since(job: LiveJob, now: float) -> float:
    return now if job.started_at is None else job.started_at


def _job_evidence(job: LiveJob, source: str, now: float) -> Evidence:
    text = f"{job.id}, since {wording.moment(_held_since(job, now))}: {job.name} ({job.why})"
    return Evidence(text=text, source=source)


TRACKER = "W&B files"
LATELY = 600.0
"""Seconds after its newest record in which a launch counts as one that still writes."""
TURNS: Final = 4
"""Turns that two writers have taken before that is told: a restart may look like one."""


class _OtherWriter(NamedTuple):
    """Another writer: how it is called, since when, in one line, and who says so."""

    name: str
    since: float | None
    line: Evidence
    sure: bool = True
    likely: bool = False
    settled: bool = False
    """True where it is known that no second job lives: only the run file names one place twice."""


def duplicate_job(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-25: besides the recorded job another one of the lineage lives, or two others do.

    A job that a launch left held is reported separately: it never starts by itself.
    """
    job = job_of(history)
    if job is not None:
        yield from held_leftover(run, job, history.now)
    others = [] if job is None else [*_rivals(job), *_sharers(job, history), *_fragments(history)]
    recorded = job is not None and job.phase.lives
    if job is not None and others and len(others) + recorded >= 2:
        yield _duplicate(run, history, job, others)
        return
    similar = job is not None and any(other.alike for other in job.possible)
    concerns = recorded or others or similar or any(other.lives for other in history.sharers)
    maybe = [*_possible(job)] if concerns else []
    firm = [*(_written_twice(history) if concerns else ()), *_by_turns(history)]
    after_end = [*_after_end(run, history)]
    firm += others if after_end and others else after_end  # a job that is seen is who writes
    if maybe or firm:
        severity = Severity.WARNING if firm or similar else Severity.INFO
        yield _perhaps(run, history, [*maybe, *firm], severity)


def _duplicate(
    run: RunSpec, history: History, job: JobValue, others: Sequence[_OtherWriter]
) -> Alert:
    recorded = job.phase.lives
    lines = [other.line for other in others]
    names = ", ".join(other.name for other in others)
    advice = "none is the recorded job: keep one, stop the others"
    if recorded:
        launch = f", launch {job.launch_id}" if job.launch_id else ""
        mine = job.id or "the newest launch"
        text = f"{mine}{launch}, since {_since(job)}: the recorded job"
        lines.insert(0, Evidence(text=text, source=job.rivals_source or history.facets.job.source))
        advice = f"{mine} is the recorded job; check {names}, then stop one of them"
    began = [other.since for other in others if other.since is not None]
    what = f"output root {run.output_root}" if run.output_root else "one W&B run"
    return Alert(
        key=f"C-25:{run.name}",
        title=f"{len(others) + recorded} running jobs write to {what}",
        since=min(began, default=seen_at(history.facets.job, history.now)),
        evidence=tuple(lines),
        confidence="sure" if any(other.sure for other in others) else "likely",
        next_action=advice,
    )


def _perhaps(
    run: RunSpec, history: History, others: Sequence[_OtherWriter], severity: Severity
) -> Alert:
    """Return what may be a second writer and is not proven to be one."""
    began = [other.since for other in others if other.since is not None]
    unproven = [other.name for other in others if not other.settled]
    names = ", ".join(unproven or [other.name for other in others])
    title = f"Possibly a second job: {names}"
    advice = f"check what {names} does; nothing is proven, so leave it alone for now"
    if any(other.likely for other in others):
        advice = f"find out what {names} does before anything is started: it may train {run.name}"
    if not unproven:
        title = f"{names} in cockpit.toml writes to the same place"
        advice = "give each run in cockpit.toml its own place; no second job is running there"
    return Alert(
        key=f"C-25:{run.name}",
        severity=severity,
        title=title,
        since=min(began, default=seen_at(history.facets.job, history.now)),
        evidence=tuple(other.line for other in others),
        confidence=_of_doubt(others) if unproven else "sure",
        next_action=advice,
    )


def _of_doubt(others: Sequence[_OtherWriter]) -> Literal["likely", "guess"]:
    return "likely" if any(other.likely for other in others) else "guess"


def _rivals(job: JobValue) -> Iterator[_OtherWriter]:
    for rival in job.rivals:
        text = f"{rival.id}, since {_since(rival)}: {rival.name} ({rival.why})"
        line = Evidence(text=text, source=job.rivals_source)
        yield _OtherWriter(rival.id, rival.started_at, line, sure=rival.proven)


def _possible(job: JobValue | None) -> Iterator[_OtherWriter]:
    for rival in job.possible if job is not None else ():
        text = f"{rival.id}: {rival.why}; since {_since(rival)}: {rival.name}"
        source = job.rivals_source if job is not None else ""
        line = Evidence(text=text, source=source)
        yield _OtherWriter(rival.id, rival.started_at, line, likely=rival.alike)


def _after_end(run: RunSpec, history: History) -> Iterator[_OtherWriter]:
    """Yield whoever writes to the outputs of a job that is over."""
    found = written_after_end(run, history)
    if found is not None and found.still is not None:
        line = Evidence(text=f"{found.text}, after the job's end", source=found.source)
        yield _OtherWriter("an unseen writer", found.at, line, likely=True)


def _sharers(job: JobValue, history: History) -> Iterator[_OtherWriter]:
    """Yield the other runs of the run file whose jobs live.

    Where the process table has shown other jobs, they are counted already.
    """
    for other in history.sharers if not job.rivals else ():
        if other.certain and _second(other, job):
            yield _shared(other, job)


def _written_twice(history: History) -> Iterator[_OtherWriter]:
    """Yield the other runs of the run file that have the same place, but no proven second job."""
    job = job_of(history)
    for other in history.sharers:
        yield _shared(other, job)


def _second(other: Sharer, job: JobValue | None) -> bool:
    """Tell whether the other run's job lives beside this one's."""
    return other.lives and not other.same_job and job is not None and job.phase.lives


def _shared(other: Sharer, job: JobValue | None) -> _OtherWriter:
    second = _second(other, job)
    alone = "lives" if other.lives else "is not running now"
    how = "is running too" if second else "is the same job" if other.same_job else alone
    text = f"run {other.run} has the same {other.what}: {other.job_id or 'its job'} {how}"
    name = f"{other.job_id} ({other.run})" if second else f"run {other.run}"
    line = Evidence(text=text, source="run file")
    return _OtherWriter(name, other.started_at, line, settled=not second)


def _fragments(history: History) -> Iterator[_OtherWriter]:
    """Yield the launches of one W&B id beside the newest one that go on writing.

    Where the process table has shown the other job, it is that one.
    """
    tracker, job = history.facets.tracker.value, job_of(history)
    if tracker is None or (job is not None and job.rivals):
        return
    for writer in tracker.writers:
        if history.now - writer.last_record_at > LATELY:
            continue
        until = wording.moment(writer.last_record_at)
        text = f"{writer.name} of W&B id {tracker.id} is still written: newest record at {until}"
        source = history.facets.tracker.source or TRACKER
        yield _OtherWriter(writer.name, writer.since, Evidence(text=text, source=source))


def _by_turns(history: History) -> Iterator[_OtherWriter]:
    """Yield the writer whose rows come by turns with those of the one that is followed.

    A log is not asked: the ranks of one job write theirs by turns. Nor are writers near each
    other, for the same reason.
    """
    trend = history.trend
    first = trend.writers.present
    going_on = [each for each in trend.writers.left if each.proven]
    other = max(going_on, key=lambda each: each.row, default=None)
    if first is None or other is None or trend.writers.turns < TURNS:
        return
    near = abs(first.step - other.step) <= LEAP * max(first.stride, other.stride)
    if (
        near
        or trend is history.log_trend
        or not all(_writes(each, history) for each in (first, other))
    ):
        return
    steps, since = sorted((first.step, other.step)), trend.writers.since
    began = "" if since is None else f" since {wording.moment(since)}"
    text = (
        f"rows come by turns{began}, now at step {wording.step(steps[0])} and at step"
        f" {wording.step(steps[1])}: each goes on where it was left, so neither is a restart"
    )
    (line,) = present.evidence(history.facets.tracker.source or "logged rows", text)
    yield _OtherWriter(f"the one that logs step {wording.step(other.step)}", since, line)


def _writes(writer: Writer, history: History) -> bool:
    """Tell whether a writer has not been silent for longer than it is used to be."""
    usual = PATIENT * writer.gap * (history.trend.pace.usual_gap_s or 0.0)
    return writer.at is not None and history.now - writer.at <= max(LATELY, usual)


def _since(job: JobValue | LiveJob) -> str:
    return "unknown" if job.started_at is None else wording.moment(job.started_at)
