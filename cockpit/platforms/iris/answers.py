"""What an Iris controller answers, as values, and what its words mean (SPEC J). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Phase, Tasks
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LONGEST: Final = 2000
"""Characters of an error or reason that are kept."""
LATEST: Final = 4102444800.0
"""The year 2100: what lies beyond is no time."""
MOST_WORDS: Final = 2000
"""Words of a job's command that are looked at."""


class Job(NamedTuple):
    """One job of a list: its own words, its clocks (s), and how its tasks are."""

    id: str
    state: str
    error: str = ""
    pending: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    failures: int = 0
    preemptions: int = 0
    counts: Mapping[str, int] = {}
    tasks: int = 0
    has_children: bool = False

    @property
    def key(self) -> tuple[str, float | None]:
        """What tells this execution from an earlier one of the same name."""
        return self.id, self.submitted_at


class Task(NamedTuple):
    """One task of a job: its current attempt."""

    id: str
    state: str
    exit_code: int
    error: str
    finished_at: float | None
    placed: bool = False
    """True once a worker was given it: it is over only when that worker has said so."""


class Request(NamedTuple):
    """What a job was submitted with: its words and variables (secrets in them), its bundle."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    bundle: str
    accelerators: int | None = None
    """TPU chips or GPUs over all its tasks."""

    def __repr__(self) -> str:
        """Show nothing of it: variables hold secrets."""
        return "<what a job was submitted with>"


class IrisLogLine(NamedTuple):
    """One log line: where it stands among all lines of the controller, its task, and when."""

    key: str
    data: str
    at: float | None
    attempt: int


def bad(what: str) -> HttpError:
    """Return the error of an answer that is not what it should be."""
    return HttpError(ErrorKind.BAD_ANSWER, f"the answer has no {what}: is this an Iris controller?")


def jobs_of(document: Mapping[str, Any]) -> list[Job]:
    """Return the jobs of a ``ListJobs`` answer; raises ``HttpError``."""
    return [job_of(each) for each in _list(document, "jobs")]


def job_of(raw: object) -> Job:
    """Return one job; raises ``HttpError`` if it has neither id nor state."""
    found = _mapping(raw, "job")
    return Job(
        id=_required_word(found, "jobId"),
        state=_required_word(found, "state"),
        error=_text(found.get("error")),
        pending=_paragraphs(found.get("pendingReason")),
        submitted_at=_instant(found.get("submittedAt")),
        started_at=_instant(found.get("startedAt")),
        finished_at=_instant(found.get("finishedAt")),
        failures=_number(found.get("failureCount")),
        preemptions=_number(found.get("preemptionCount")),
        counts={
            clean(name, 80): _number(count)
            for name, count in _loose(found.get("taskStateCounts")).items()
        },
        tasks=_number(found.get("taskCount")),
        has_children=found.get("hasChildren") is True,
    )


def states_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the states of a ``GetJobState`` answer by job id; raises ``HttpError``."""
    states = _mapping(document.get("states", {}), "states")
    return {str(name): _required_word(states, name) for name in states}


def tasks_of(document: Mapping[str, Any]) -> list[Task]:
    """Return the tasks of a ``ListTasks`` answer; raises ``HttpError``."""
    return [_task(_mapping(each, "task")) for each in _list(document, "tasks")]


def _task(found: Mapping[str, Any]) -> Task:
    return Task(
        id=_required_word(found, "taskId"),
        state=_required_word(found, "state"),
        exit_code=_number(found.get("exitCode")),
        error=_text(found.get("error")),
        finished_at=_instant(found.get("finishedAt")),
        placed=bool(found.get("attempts")) or bool(found.get("workerId")),
    )


def highlights_of(document: Mapping[str, Any]) -> list[str]:
    """Return the lines that the controller takes for the root cause (October on)."""
    found = document.get("rootCauseHighlights", [])
    lines = found if isinstance(found, list) else []
    return [_text(line) for line in lines[:200] if isinstance(line, str) and line.strip()]


def request_of(document: Mapping[str, Any]) -> Request:
    """Return the request of a ``GetJobStatus`` answer; what is not there is empty."""
    request = _loose(document.get("request"))
    command = _loose(_loose(request.get("entrypoint")).get("runCommand"))
    variables = _loose(_loose(request.get("environment")).get("envVars"))
    argv = command.get("argv", [])
    words = argv if isinstance(argv, list) else []
    return Request(
        argv=tuple(word for word in words[:MOST_WORDS] if isinstance(word, str)),
        variables={k: v for k, v in variables.items() if isinstance(v, str)},
        bundle=clean(request.get("bundleId") or "", 200),
        accelerators=_accelerators(request),
    )


def _accelerators(request: Mapping[str, Any]) -> int | None:
    """Return what each task asks for times the tasks; ``None`` where no device is named."""
    device = _loose(_loose(request.get("resources")).get("device"))
    counts = [_loose(device.get(kind)).get("count") for kind in ("tpu", "gpu")]
    each = sum(count for count in counts if isinstance(count, int) and count > 0)
    tasks = request.get("replicas")
    return each * tasks if each and isinstance(tasks, int) and tasks > 0 else None


def lines_of(document: Mapping[str, Any]) -> tuple[list[IrisLogLine], int]:
    """Return the lines of a ``FetchLogs`` answer and its cursor; raises ``HttpError``."""
    entries = [_mapping(each, "log entry") for each in _list(document, "entries")]
    cursor = document.get("cursor", "0")
    if not isinstance(cursor, str | int) or not str(cursor).isdecimal():
        raise bad("cursor")
    return [_log_line(each) for each in entries], int(cursor)


def _log_line(found: Mapping[str, Any]) -> IrisLogLine:
    data = found.get("data", "")
    if not isinstance(data, str):
        raise bad("text in a log entry")
    at, attempt = _instant(found.get("timestamp")), _number(found.get("attemptId"))
    return IrisLogLine(str(found.get("key", "")), data, at, attempt)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise bad(what)
    return value


def _loose(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(document: Mapping[str, Any], name: str) -> Sequence[object]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise bad(f"list of {name}")
    return found


def _required_word(found: Mapping[str, Any], name: str) -> str:
    """Return a word that must be there; an enum that the server does not know is a number."""
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise bad(clean(name, 80))
    return clean(str(value), 500)


def _text(value: object) -> str:
    return scrub(clean(value, LONGEST)) if isinstance(value, str) else ""


def _paragraphs(value: object) -> str:
    """Return a text whose parts stand apart by blank lines, each made safe."""
    parts = value.split("\n\n") if isinstance(value, str) else []
    return "\n\n".join(_text(part) for part in parts[:8])


def _number(value: object) -> int:
    """Return a count; protocol buffers print 64-bit ones as text."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else 0


def _instant(value: object) -> float | None:
    """Return ``{"epochMs": "…"}`` in seconds, ``None`` where there is no such time."""
    at = _number(_loose(value).get("epochMs")) / 1000
    return at if 0 < at < LATEST else None


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
"""Such as ``Scheduler: waiting for``."""
_AUTOSCALER: Final = re.compile(r"^Autoscaler:\s*")
_NEVER: Final = re.compile(
    r"\b(?:insufficient_resources|no_matching_group|coschedule_mismatch)\b"
    r"|no matching scaling group|scheduling timeout exceeded",
    re.IGNORECASE,
)
"""A reason that no waiting ends: ``insufficient_resources``."""
_FULL: Final = re.compile(r"([\w.-]+)=([a-z_]+)")
AT_MAX: Final = "at_max_slices"
_CAUSE: Final = re.compile(r"\b\w*(?:Error|Exception|Interrupt|Exit|Fault)\b.*|.*\b(?:OOM|FATAL)\b")
"""Such as ``ValueError: bad shape``."""


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


def task_counts(job: Job) -> Tasks | None:
    """Return how many of a job's tasks run; ``None`` where that is not known."""
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
