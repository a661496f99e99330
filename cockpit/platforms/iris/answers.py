"""What an Iris controller answers, read into values: it is ignored as it comes.

Connect's JSON: lowerCamelCase, 64-bit integers as strings, enums by name, empty lists, maps and
messages left out. Both released generations (June and October 2026) are read alike; what only
one of them sends is optional. Instants are seconds since the epoch by the controller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.facet import ErrorKind
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


class Line(NamedTuple):
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
        id=_word(found, "jobId"),
        state=_word(found, "state"),
        error=_text(found.get("error")),
        pending=_lines(found.get("pendingReason")),
        submitted_at=_instant(found.get("submittedAt")),
        started_at=_instant(found.get("startedAt")),
        finished_at=_instant(found.get("finishedAt")),
        failures=_number(found.get("failureCount")),
        preemptions=_number(found.get("preemptionCount")),
        counts=_counts(found.get("taskStateCounts")),
        tasks=_number(found.get("taskCount")),
        has_children=found.get("hasChildren") is True,
    )


def states_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the states of a ``GetJobState`` answer by job id; raises ``HttpError``."""
    states = _mapping(document.get("states", {}), "states")
    return {str(name): _word(states, name) for name in states}


def tasks_of(document: Mapping[str, Any]) -> list[Task]:
    """Return the tasks of a ``ListTasks`` answer; raises ``HttpError``."""
    return [_task(_mapping(each, "task")) for each in _list(document, "tasks")]


def _task(found: Mapping[str, Any]) -> Task:
    return Task(
        id=_word(found, "taskId"),
        state=_word(found, "state"),
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


def lines_of(document: Mapping[str, Any]) -> tuple[list[Line], int]:
    """Return the lines of a ``FetchLogs`` answer and its cursor; raises ``HttpError``."""
    entries = [_mapping(each, "log entry") for each in _list(document, "entries")]
    cursor = document.get("cursor", "0")
    if not isinstance(cursor, str | int) or not str(cursor).isdigit():
        raise bad("cursor")
    return [_line(each) for each in entries], int(cursor)


def _line(found: Mapping[str, Any]) -> Line:
    data = found.get("data", "")
    if not isinstance(data, str):
        raise bad("text in a log entry")
    at, attempt = _instant(found.get("timestamp")), _number(found.get("attemptId"))
    return Line(str(found.get("key", "")), data, at, attempt)


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


def _word(found: Mapping[str, Any], name: str) -> str:
    """Return a word that must be there; an enum that the server does not know is a number."""
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise bad(clean(name, 80))
    return clean(str(value), 500)


def _text(value: object) -> str:
    return scrub(clean(value, LONGEST)) if isinstance(value, str) else ""


def _lines(value: object) -> str:
    """Return a text whose parts stand apart by blank lines, each made safe."""
    parts = value.split("\n\n") if isinstance(value, str) else []
    return "\n\n".join(_text(part) for part in parts[:8])


def _number(value: object) -> int:
    """Return a count; protocol buffers print 64-bit ones as text."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else 0


def _counts(value: object) -> dict[str, int]:
    return {clean(name, 80): _number(count) for name, count in _loose(value).items()}


def _instant(value: object) -> float | None:
    """Return ``{"epochMs": "…"}`` in seconds, ``None`` where there is no such time."""
    at = _number(_loose(value).get("epochMs")) / 1000
    return at if 0 < at < LATEST else None
