"""What a Ray head answers, as values; its states as phases; what a submission says of itself."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE
from cockpit.model.jobs import Submission
from cockpit.model.lineage import tag_of
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

DRIVER: Final = "DRIVER"
_LOG_FOLLOWS: Final = "last available logs"
_LONGEST_TEXT: Final = 100_000


class RayJob(NamedTuple):
    """One job of a head's list; text is as it came. Times are seconds of the head's clock."""

    submission_id: str | None
    job_id: str | None
    kind: str
    status: str
    entrypoint: str = ""
    message: str = ""
    error_type: str = ""
    submitted_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    node: str | None = None
    metadata: Mapping[str, str] = {}
    env: Mapping[str, str] = {}

    @property
    def id(self) -> str:
        """What people name it by: its submission id, or the id of a driver from outside."""
        return self.submission_id or self.job_id or ""

    @property
    def log_name(self) -> str | None:
        """The file of its driver's output on its node; a driver from outside has none."""
        return None if self.submission_id is None else f"job-driver-{self.submission_id}.log"

    def is_called(self, name: str) -> bool:
        """Tell whether ``name`` is one of its two ids."""
        return name in (self.submission_id, self.job_id)

    @property
    def status_text(self) -> str:
        """What Ray says of its state, without the log that may follow."""
        head, found, _ = self.message.partition(_LOG_FOLLOWS)
        return head.rstrip(" ,\n") if found else self.message.strip()

    @property
    def last_log(self) -> str | None:
        """The end of its log, which Ray keeps with the state of a job that failed."""
        _, found, rest = self.message.partition(_LOG_FOLLOWS)
        _, found, log = rest.partition(":\n") if found else ("", "", "")
        return log if found else None


def jobs_in(document: object) -> tuple[RayJob, ...]:
    """Return the jobs of a list; what is no job in it is left out. Raises ``ValueError``."""
    if not isinstance(document, list):
        raise ValueError("the answer is no list of jobs")
    found = (job_of(each) for each in document)
    return tuple(job for job in found if job is not None)


def job_of(document: object) -> RayJob | None:
    """Return one job, ``None`` for what has neither an id nor a state."""
    if not isinstance(document, dict):
        return None
    job = RayJob(
        submission_id=_text(document.get("submission_id")) or None,
        job_id=_text(document.get("job_id")) or None,
        kind=_text(document.get("type")),
        status=_text(document.get("status")),
        entrypoint=_text(document.get("entrypoint")),
        message=_text(document.get("message")),
        error_type=_text(document.get("error_type")),
        submitted_at=seconds(document.get("start_time")),
        ended_at=seconds(document.get("end_time")),
        exit_code=_small_integer(document.get("driver_exit_code")),
        node=_text(document.get("driver_node_id")) or None,
        metadata=texts(document.get("metadata")),
        env=texts(mapping(document.get("runtime_env")).get("env_vars")),
    )
    return job if job.id and job.status else None


def seconds(value: object) -> float | None:
    """Return milliseconds as seconds; ``None`` for what is no time."""
    number = figure(value)
    return number / 1000 if number is not None and 0 < number < 1e14 else None


def figure(value: object) -> float | None:
    """Return a finite number, also one that was written as text; ``None`` for anything else."""
    if isinstance(value, str) and len(value) < 40:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def mapping(value: object) -> Mapping[str, object]:
    """Return an object of the answer, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def texts(value: object) -> Mapping[str, str]:
    """Return the entries of an object whose values are text."""
    return {name: each for name, each in mapping(value).items() if isinstance(each, str)}


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def _small_integer(value: object) -> int | None:
    number = figure(value) if not isinstance(value, str) else None
    return int(number) if number is not None and abs(number) < 1e6 else None


class Supervisor(NamedTuple):
    """The actor that runs a job's driver; ``wants`` are the resources that it waits for."""

    actor_id: str
    state: str
    wants: Mapping[str, float]


_NAMED: Final = "_ray_internal_job_actor_"


def supervisors_in(document: object) -> dict[str, Supervisor]:
    """Return the supervisors of a state-API list of actors, by submission id."""
    found: dict[str, Supervisor] = {}
    for each in map(mapping, state_rows(document)):
        name = _text(each.get("name"))
        if name.startswith(_NAMED):
            wants = resources(each.get("required_resources"))
            actor = Supervisor(_text(each.get("actor_id")), _text(each.get("state")), wants)
            found[name.removeprefix(_NAMED)] = actor
    return found


def resources(value: object) -> dict[str, float]:
    """Return amounts by the resource's name."""
    found = {name: figure(amount) for name, amount in mapping(value).items()}
    return {name: amount for name, amount in found.items() if amount}


def state_rows(document: object) -> list[object]:
    """Return the rows of a state-API answer (``data.result.result``)."""
    rows = mapping(mapping(mapping(document).get("data")).get("result")).get("result")
    return rows if isinstance(rows, list) else []


PHASES: Final[Mapping[str, Phase]] = {
    "PENDING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "STOPPED": Phase.CANCELLED,
}
USUAL: Final = frozenset({"Job is currently running.", "Job finished successfully."})
"""What Ray says of jobs of which there is nothing to say."""
TRACE: Final = "Full traceback:"
LONGEST: Final = 300


def phase_of(job: RayJob) -> Phase:
    """Return the phase of a job's state."""
    return PHASES.get(job.status, Phase.UNKNOWN)


def reason_of(job: RayJob) -> str | None:
    """Return why a job is as it is: its error type and message in one line, secrets masked.

    Of a traceback it is the last line, which names the error itself.
    """
    said = scrub(job.status_text)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines or said in USUAL:
        return clean(job.error_type, 80) or None
    text = lines[0].removesuffix(TRACE).rstrip()
    if len(lines) > 1 and lines[-1] not in text:
        text = f"{text} … {lines[-1]}"
    shown = clean(text, LONGEST)
    return f"{clean(job.error_type, 80)}: {shown}" if job.error_type else shown


NONCE: Final = "nonce"
"""The key of the metadata, and of what the journal keeps, that tells one submitter's job."""
CLOSES: Final = "cockpit_closes"
NOTHING: Final = "true"
"""The entrypoint of a job that does nothing."""
LONGEST_ID: Final = 200
"""Characters of an id; Ray names a log file by it."""
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+=-]*")
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_IN_QUOTES: Final = re.compile(r'([\\"`$])')


def name_of(launch_id: str) -> str:
    """Return the submission id; raises ``CannotError`` where nobody could ask for such a job."""
    if len(launch_id) > LONGEST_ID or not _ID.fullmatch(launch_id):
        shown = clean(launch_id, 80)
        raise CannotError(f"Ray takes no submission id like {shown!r}: letters, digits, . _ - only")
    return launch_id


def document_of(run: RunSpec, submission: Submission, nonce: str) -> dict[str, Any]:
    """Return what is posted to start a job."""
    tag = tag_of(run)
    own = {LAUNCH_ID: submission.launch_id, **({LINEAGE: tag} if tag else {})}
    metadata = {"cockpit_run": run.name, **({"lineage": tag} if tag else {}), NONCE: nonce}
    return {
        "submission_id": name_of(submission.launch_id),
        "entrypoint": entrypoint_of(submission.command),
        "metadata": metadata,
        "runtime_env": {"env_vars": {**submission.env, **own}},
    }


def closing_of(run: RunSpec, launch_id: str) -> dict[str, Any]:
    """Return what is posted to close a launch id: a job that does nothing."""
    metadata = {"cockpit_run": run.name, CLOSES: launch_id}
    return {
        "submission_id": name_of(launch_id), "entrypoint": NOTHING, "metadata": metadata,
    }  # fmt: skip


def is_closing(job: RayJob) -> bool:
    """Tell whether a job only closes its id; one that runs anything at all never counts as one."""
    return job.entrypoint == NOTHING and job.metadata.get(CLOSES) == job.submission_id


def entrypoint_of(words: Sequence[str]) -> str:
    """Return words as the line that the shell of the driver's machine splits into them again.

    A ``$NAME`` is filled in there if it is set, and stays as it is if it is not.
    """
    first, *rest = words
    home = "~/" if first.startswith("~/") else ""
    return " ".join([home + _quoted(first.removeprefix(home)), *map(_quoted, rest)])


def _quoted(word: str) -> str:
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    parts, at = [], 0
    for match in _VARIABLE.finditer(word):
        parts.append(_IN_QUOTES.sub(r"\\\1", word[at : match.start()]))
        literal = match[0].replace("}", "\\}")
        parts.append(f"${{{match[1] or match[2]}-\\{literal}}}")
        at = match.end()
    return '"' + "".join([*parts, _IN_QUOTES.sub(r"\\\1", word[at:])]) + '"'
