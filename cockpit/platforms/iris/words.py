"""What the words of Iris mean: states (SPEC J), why a job waits, why it ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cockpit.model.observed import Phase, Tasks
from cockpit.platforms.iris.answers import Job, Task

PENDING: Final = "JOB_STATE_PENDING"
RUNNING: Final = "JOB_STATE_RUNNING"
SUCCEEDED: Final = "JOB_STATE_SUCCEEDED"
KILLED: Final = "JOB_STATE_KILLED"
PHASES: Final[Mapping[str, Phase]] = {
    PENDING: Phase.WAITING,
    "JOB_STATE_BUILDING": Phase.RUNNING,
    RUNNING: Phase.RUNNING,
    SUCCEEDED: Phase.SUCCEEDED,
    "JOB_STATE_FAILED": Phase.FAILED,
    KILLED: Phase.CANCELLED,
    "JOB_STATE_WORKER_FAILED": Phase.FAILED,
    "JOB_STATE_UNSCHEDULABLE": Phase.FAILED,
}
"""SPEC J; a word that is not here is shown as itself and unknown."""
LIVE_FILTERS: Final = ("pending", "building", "running")
"""The states of jobs that live, as ``ListJobs`` filters by them."""
_OVERRUN: Final = re.compile(r"execution timeout", re.IGNORECASE)
"""Iris kills what runs for too long: nobody has stopped it, so it is a failure."""
_TO_COME: Final = ("pending", "assigned", "building", "preempted", "missing")
_OVER: Final = ("succeeded", "failed", "killed", "worker_failed", "unschedulable")
_SCHEDULER: Final = re.compile(r"^Scheduler:\s*")
_AUTOSCALER: Final = re.compile(r"^Autoscaler:\s*")
_NEVER: Final = re.compile(
    r"\b(?:insufficient_resources|no_matching_group|coschedule_mismatch)\b"
    r"|no matching scaling group|scheduling timeout exceeded",
    re.IGNORECASE,
)
_FULL: Final = re.compile(r"([\w.-]+)=([a-z_]+)")
AT_MAX: Final = "at_max_slices"
_CAUSE: Final = re.compile(r"\b\w*(?:Error|Exception|Interrupt|Exit|Fault)\b.*|.*\b(?:OOM|FATAL)\b")


class Waiting(NamedTuple):
    """Why a job waits: the scheduler's and the autoscaler's part, each perhaps empty."""

    scheduler: str
    autoscaler: str

    @property
    def text(self) -> str:
        """Both in one line; empty if neither says anything."""
        parts = (("scheduler", self.scheduler), ("autoscaler", self.autoscaler))
        return "; ".join(f"{who}: {said}" for who, said in parts if said)

    @property
    def full_groups(self) -> tuple[str, ...]:
        """The scale groups that have all slices they may have; empty if another one may grow."""
        if "no_capacity" not in self.autoscaler:
            return ()
        groups = _FULL.findall(self.autoscaler)
        full = tuple(name for name, status in groups if status == AT_MAX)
        return full if len(full) == len(groups) else ()

    @property
    def never(self) -> bool:
        """True where nothing that the cluster has or may get can ever hold the job."""
        return _NEVER.search(self.autoscaler or self.scheduler) is not None


def waiting_of(job: Job) -> Waiting:
    """Return why a job waits; the text is its error once it is no longer pending."""
    if job.state != PENDING:
        return Waiting("", "")
    first, _, second = job.pending.partition("\n\n")
    if _AUTOSCALER.match(first):
        first, second = "", first
    return Waiting(_SCHEDULER.sub("", first).strip(), _AUTOSCALER.sub("", second).strip())


def phase_of(job: Job) -> Phase:
    """Return a job's phase; its tasks decide whether a job that is called running does run."""
    phase = PHASES.get(job.state, Phase.UNKNOWN)
    if job.state == RUNNING and _none_runs(job):
        return Phase.WAITING
    if job.state == KILLED and _OVERRUN.search(job.error):
        return Phase.FAILED
    return phase


def _none_runs(job: Job) -> bool:
    """Tell whether no task of a job runs though some are still to."""
    if job.tasks <= 0 or job.counts.get("running", 0) > 0:
        return False
    return not job.counts or any(job.counts.get(word, 0) > 0 for word in _TO_COME)


def tasks_of(job: Job) -> Tasks | None:
    """Return how many of a job's tasks run; ``None`` where that is not told."""
    if job.tasks <= 0:
        return None
    over = sum(job.counts.get(word, 0) for word in _OVER)
    return Tasks(running=job.counts.get("running", 0), total=job.tasks, over=over)


def restarts_of(job: Job) -> int:
    """Return how often the controller started a task of it again: preemptions and failures.

    What a task has not come back from has restarted nothing.
    """
    lost = max(0, job.preemptions - job.counts.get("preempted", 0))
    return lost + max(0, job.failures - job.counts.get("failed", 0))


def counted(job: Job) -> str:
    """Return the tasks' states in words: ``0 of 4 tasks run (4 pending), preempted 1 time``."""
    running = job.counts.get("running", 0)
    others = [f"{n} {word}" for word, n in sorted(job.counts.items()) if n and word != "running"]
    text = f"{running} of {job.tasks} tasks run"
    text += f" ({', '.join(others)})" if others else ""
    times = "time" if job.preemptions == 1 else "times"
    return text + (f", preempted {job.preemptions} {times}" if job.preemptions else "")


def is_failed(task: Task) -> bool:
    """Tell whether a task ended by itself, and badly; its siblings are cancelled after it."""
    return task.state in ("TASK_STATE_FAILED", "TASK_STATE_WORKER_FAILED")


def cause_in(highlights: list[str]) -> str | None:
    """Return the line that names the error among what the controller takes for the root cause."""
    return next((line for line in reversed(highlights) if _CAUSE.search(line)), None)
