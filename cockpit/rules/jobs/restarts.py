"""C-14: the same failure again, and flapping. Restarts inside one job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.goodput import Break
from cockpit.model.history import FormerFailure, History, Launched, PhaseMark
from cockpit.model.observed import JobValue, MonitorValue, Phase, Triage
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.terminal import SAME_END, diagnosis
from cockpit.rules.present import job_of, job_source, phase_of, phase_since

LEAST_WINDOW = 50
SHARE = 0.01
LONGEST = 200
_NO_FAILURES = ("success", "user_stopped", "harmless_noise", "capacity_wait")
_ITS_TIME = ("preempted", "walltime")
"""Ends that a scheduler gives every job: that the next one gets there, too, is no repetition."""
_ONCE = ("killed", "hardware_fault", "network_transient")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\b\d\d:\d\d:\d\d\S*")
"""Times are left out when two messages are compared: ``2026-03-11T08:41:07Z``."""
_HEX = re.compile(r"\b(?:0x)?(?=[0-9a-f]*\d)[0-9a-f]{7,}\b", re.I)
"""Addresses and hashes are left out, too: ``0x7f3a9c01``."""
_NUMBER = re.compile(r"[-+]?\d[\d_,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.I)
"""And figures: ``1,024.5e-3``."""
_GAPS = re.compile(r"\s+")


def signature(found: Triage) -> str:
    """Return a failure's identity: its class and its last evidence line without any figures.

    What may be relaunched only the first time (SPEC T) is the same whatever the line says.
    """
    if found.name in _ONCE:
        return found.name
    line = found.evidence[-1].text if found.evidence else ""
    for pattern, instead in ((_STAMP, "<time>"), (_HEX, "#"), (_NUMBER, "#"), (_GAPS, " ")):
        line = pattern.sub(instead, line)
    place = found.code_location
    where = "" if place is None else f" at {place.file.rpartition('/')[2]}"
    return f"{found.name}{where}: {line.strip()[:LONGEST]}"


def failure_of(run: RunSpec, history: History) -> FormerFailure | None:
    """Return the present failure as it would be recorded; ``None`` when nothing has failed."""
    job = job_of(history)
    if job is None or job.phase is not Phase.FAILED:
        return None
    found = diagnosis(history)
    if found is not None and found.name in _NO_FAILURES:
        return None
    # The last step that the job reached, by the log and by the tracker's rows
    log, tracker = history.facets.log.value, history.facets.tracker.value
    steps = [row.step for row in log.rows[-1:]] if log is not None else []
    steps += [found.step] if found is not None else []
    steps += [tracker.step] if tracker is not None else []
    return FormerFailure(
        at=phase_since(history),
        job_id=identity(job),
        name="unknown" if found is None else found.name,
        signature=None if found is None or found.name == "unknown" else signature(found),
        step=max((step for step in steps if step is not None), default=None),
    )


def left_behind(
    run: RunSpec, history: History, known: FormerFailure | None
) -> tuple[FormerFailure | None, FormerFailure | None]:
    """Return the present failure, and the ``known`` one if the run has another job since.

    So a failure counts whoever started the next job: a person, a chain, its scheduler. While its
    job is the present one its log may still explain it better.
    """
    job, now = job_of(history), failure_of(run, history)
    if now is not None and (now.name in _ITS_TIME or history.stop_ordered_by is not None):
        now = None
    if job is None or known is None or identity(job) == known.job_id:
        return now or known, None
    if now is not None and abs(now.at - known.at) <= SAME_END:
        return now, None  # one end, of a job whose ids are told otherwise by now
    return now, known


def identity(job: JobValue) -> str:
    """Return what tells one execution from the next: pids are used again, launch ids are not.

    A job that was requeued keeps both ids: then its start tells.
    """
    if job.launch_id is not None and not job.restarts:
        return job.launch_id
    return f"{job.launch_id or job.id}@{job.started_at or job.ended_at or 0:.0f}"


def window(step: int) -> int:
    """Return how many steps apart two failures still count as being at the same place."""
    return max(LEAST_WINDOW, round(step * SHARE))


def sameness(former: FormerFailure, now: FormerFailure) -> str | None:
    """Return in what two failures are the same (one line), or ``None``."""
    its_time = now.name in _ITS_TIME
    if not its_time and former.signature is not None and former.signature == now.signature:
        same = wording.cause(former.name) + former.signature.removeprefix(former.name)
        return f"same failure as {former.job_id} at {wording.moment(former.at)}: {same}"
    if former.step is None or now.step is None:
        return None
    if abs(former.step - now.step) > window(max(former.step, now.step)):
        return None
    return (
        f"{former.job_id} failed at step {wording.step(former.step)}"
        f" ({wording.cause(former.name)}), this one at {wording.step(now.step)}"
    )


def same_again(former: Sequence[FormerFailure], now: FormerFailure) -> tuple[str, ...]:
    """Return in what the present failure repeats earlier ones of other jobs, newest first."""
    earlier = [each for each in reversed(former) if each.job_id != now.job_id]
    return tuple(same for each in earlier if (same := sameness(each, now)) is not None)


def same_failure_again(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-14: an alert as long as the job that failed in the same way is the present one."""
    now = failure_of(run, history)
    if now is None or history.stop_ordered_by is not None:
        return
    same = same_again(history.former_failures, now)
    if not same:
        return
    yield Alert(
        key=f"C-14:{run.name}:{now.job_id}",
        title=f"Same failure again ({len(same) + 1} times)",
        since=now.at,
        evidence=present.evidence("recorded failures", *same[:5]),
        confidence="likely",
        next_action=f"{wording.escalate(run)}; do not relaunch until the cause is known",
    )


LONGER = 1.5
"""How many times the usual time between two logged steps a new start takes at least."""

START_SLACK = 5.0
"""Seconds by which a job may seem to have started before its launch was noted."""


def our_launch(history: History) -> Launched | None:
    """Return our last launch if the present job is its job, and no later one's."""
    launched, job = history.launched, job_of(history)
    if launched is None or job is None or job.launch_id == launched.launch_id:
        return launched
    later = job.started_at is not None and job.started_at > launched.at + START_SLACK
    return None if later and job.id != launched.job_id else launched


def restarts_in_place(history: History) -> tuple[Break, ...]:
    """Return the breaks at which the present job's steps began again, oldest first."""
    job, launched = job_of(history), our_launch(history)
    if job is None or job.started_at is None:
        return ()
    began = max(job.started_at, 0.0 if launched is None else launched.begun)
    found: dict[int, Break] = {}
    for trend in (history.log_trend, history.trend):
        usual = trend.pace.usual_gap_s
        if usual is None:
            continue
        for each in trend.stepping.breaks:
            in_job = each.since >= began and each.until <= history.now
            if each.back and in_job and each.until - each.since > LONGER * usual:
                found.setdefault(round(each.until), each)
    return tuple(found[at] for at in sorted(found))


_CREATED: Final = re.compile(r"(?:^|/)(\d{8}-\d{4})[^/]*_monitoring_state\.json$")
"""Such as ``scratch/20260311-0841_monitoring_state.json``."""


_SHOWN: Final = 5
"""Restarts whose times are told."""
SAME_START: Final = 60.0
"""Seconds by which one start may be told differently."""


class Restarts(NamedTuple):
    """So many restarts within the window, since when they count, and who has counted them."""

    times: int
    since: float
    text: str
    source: str


def flapping(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-14: ``flap_restarts`` within ``flap_window``; over once fewer lie within it."""
    limits = run.thresholds
    counted = [each for each in _counts(run, history) if each.times >= limits.flap_restarts]
    if not counted or phase_of(history) is Phase.SUCCEEDED or history.stop_ordered_by is not None:
        return
    most = max(counted, key=lambda each: each.times)
    yield Alert(
        key=f"C-14:{run.name}:flapping",
        title=f"Keeps restarting: {most.times} times within {wording.span(limits.flap_window)}",
        since=most.since,
        evidence=tuple(
            line for each in counted for line in present.evidence(each.source, each.text)
        ),
        confidence="likely",
        next_action=f"{wording.escalate(run)}: find out what ends it each time, before"
        " anybody relaunches it again",
    )


def _counts(run: RunSpec, history: History) -> Iterator[Restarts]:
    since = history.now - run.thresholds.flap_window
    seen = [at for at in history.restarts if since <= at <= history.now]
    if seen:
        times = ", ".join(wording.moment(at) for at in seen[-_SHOWN:])
        text = f"{len(seen)} restarts seen: {times}; limit {run.thresholds.flap_restarts}"
        opened = seen[min(len(seen), run.thresholds.flap_restarts) - 1]
        yield Restarts(len(seen), opened, text, job_source(history))
    job, launched = job_of(history), history.launched
    ours = job is not None and launched is not None and job.launch_id == launched.launch_id
    if job is not None and job.restarts and ours and launched is not None and launched.at >= since:
        text = f"its platform counts {job.restarts} restarts since its launch"
        yield Restarts(job.restarts, launched.at, text, job_source(history))
    inside = [each.until for each in restarts_in_place(history) if each.until >= since]
    if inside:
        times = ", ".join(wording.moment(at) for at in inside[-_SHOWN:])
        text = f"{len(inside)} restarts inside the job, by its steps: {times}"
        opened = inside[min(len(inside), run.thresholds.flap_restarts) - 1]
        yield Restarts(len(inside), opened, text, _steps_source(history))
    monitor = history.facets.monitor
    count = None if monitor.value is None else monitor.value.restart_count
    begun = None if monitor.value is None else created_at(monitor.value)
    if count and begun is not None and begun >= since:
        text = f"the monitor counts {count} restarts since {wording.moment(begun)}"
        yield Restarts(count, begun, text, monitor.source)


def _steps_source(history: History) -> str:
    tracked = history.trend is not history.log_trend
    return (history.facets.tracker if tracked else history.facets.log).source


def restarted(former: JobValue, job: JobValue) -> bool:
    """Tell whether a job that runs is another execution than the ``former`` one.

    One that was suspended, or that nobody could see, is the same: it began when it began.
    """
    if former.id != job.id:
        return True
    both = (former.started_at, job.started_at)
    return None not in both and (both[1] or 0.0) - (both[0] or 0.0) > SAME_START


def restarts_in(marks: Sequence[PhaseMark]) -> tuple[float, ...]:
    """Return when a job was seen running after one of another id had run, or after its own end."""
    told = [mark for mark in marks if mark.phase is Phase.RUNNING or mark.phase.terminal]
    return tuple(
        mark.at
        for former, mark in pairwise(told)
        if mark.phase is Phase.RUNNING and (former.phase.terminal or mark.job_id != former.job_id)
    )


def created_at(monitor: MonitorValue) -> float | None:
    """Return when a monitor's state file was created, by its name (SPEC W)."""
    match = _CREATED.search(monitor.path or "")
    if match is None:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
