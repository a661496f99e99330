"""C-14, the same failure again: relaunching is no default any more, a person looks.

Two failures are the same when they have the same signature, or when they stopped within
``window`` steps of each other: 50 steps or 1 % of the step, whichever is more. A deterministic
fault stops a run where it stopped before, give or take the batch that triggers it; further
apart, two accidents are the likelier story.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import FormerFailure, History
from cockpit.model.observed import JobValue, Phase, Triage
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.jobs.terminal import SAME_END, diagnosis
from cockpit.rules.present import job_of, phase_since

LEAST_WINDOW = 50
SHARE = 0.01
LONGEST = 200
_NO_FAILURES = ("success", "user_stopped", "harmless_noise", "capacity_wait")
_ITS_TIME = ("preempted", "walltime")
"""Ends that a scheduler gives every job: that the next one gets there, too, is no repetition."""
_ONCE = ("killed", "hardware_fault", "network_transient")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\b\d\d:\d\d:\d\d\S*")
_HEX = re.compile(r"\b(?:0x)?(?=[0-9a-f]*\d)[0-9a-f]{7,}\b", re.I)
_NUMBER = re.compile(r"[-+]?\d[\d_,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.I)
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
    return FormerFailure(
        at=phase_since(history),
        job_id=identity(job),
        name="unknown" if found is None else found.name,
        signature=None if found is None or found.name == "unknown" else signature(found),
        step=_last_step(history, found),
    )


def left_behind(
    run: RunSpec, history: History, known: FormerFailure | None
) -> tuple[FormerFailure | None, FormerFailure | None]:
    """Return the present failure, and the ``known`` one if the run has another job since.

    So a failure counts whoever started the next job: a person, a chain, its scheduler. While its
    job is the present one it may still be told better: its log is read for it.
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


def _last_step(history: History, found: Triage | None) -> int | None:
    """Return the last step that the job reached, by the log and by the tracker's rows."""
    log, tracker = history.facets.log.value, history.facets.tracker.value
    steps = [row.step for row in log.rows[-1:]] if log is not None else []
    steps += [found.step] if found is not None else []
    steps += [tracker.step] if tracker is not None else []
    return max((step for step in steps if step is not None), default=None)


def window(step: int) -> int:
    """Return how many steps apart two failures still count as being at the same place."""
    return max(LEAST_WINDOW, round(step * SHARE))


def sameness(former: FormerFailure, now: FormerFailure) -> str | None:
    """Return in what two failures are the same (one line), or ``None``."""
    if former.signature is not None and former.signature == now.signature:
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
        id="C-14",
        key=f"C-14:{run.name}:{now.job_id}",
        severity=Severity.ALERT,
        title=f"Same failure again ({len(same) + 1} times)",
        since=now.at,
        evidence=present.evidence("recorded failures", *same[:5]),
        confidence="likely",
        next_action=f"{wording.escalate(run)}; do not relaunch until the cause is known",
    )
