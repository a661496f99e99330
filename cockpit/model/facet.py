"""A facet: one thing observed of a run, with its own source, age and error; the tracker's facet."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, Field

from cockpit.model.base import Frozen, Instant, Number, Seconds, unchanging

T = TypeVar("T", bound=Frozen)


class ErrorKind(StrEnum):
    """Why a facet is unknown (INTERFACE ``F``)."""

    NOT_CONFIGURED = "not_configured"
    UNSUPPORTED = "unsupported"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    DNS = "dns"
    TLS = "tls"
    BAD_ANSWER = "bad_answer"
    PERMISSION = "permission"


def kind_of(error: Exception) -> ErrorKind:
    """Return what kind of trouble reading a file or folder has had."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ErrorKind.NOT_FOUND
    return ErrorKind.PERMISSION if isinstance(error, PermissionError) else ErrorKind.BAD_ANSWER


OF_A_RUN: Final = frozenset(
    {
        ErrorKind.NOT_CONFIGURED, ErrorKind.UNSUPPORTED, ErrorKind.NOT_FOUND, ErrorKind.PERMISSION,
    }
)  # fmt: skip
"""What goes wrong with these says something about one run: the place it lives at has answered."""


class Problem(Frozen):
    """What went wrong when a facet was asked for; ``message`` is one safe line."""

    kind: ErrorKind
    message: str


UNASKED: Final = Problem(kind=ErrorKind.NOT_FOUND, message="not asked yet")
"""Stands where nothing went wrong: nobody has asked since the engine started."""


class Facet(Frozen, Generic[T]):
    """A value with its source, its age and, when it is unknown, the reason.

    ``value`` with ``error`` set is the last good value, observed at ``observed_at``, and the
    newest attempt has failed: show it as stale, never as fresh. ``value`` ``None`` is unknown.
    ``since`` is when it became unknown (the first failed attempt in a row). ``remembered`` tells
    that no answer has come since this engine started: the value is the store's. ``retry_after``
    (seconds) is how long the system wants to be left alone; it is no part of the document.
    """

    value: T | None = None
    source: str
    observed_at: Instant | None = None
    error: Problem | None = None
    since: Instant | None = None
    remembered: bool = False
    retry_after: float | None = Field(default=None, exclude=True)

    @property
    def known(self) -> bool:
        """True when the newest attempt gave a value."""
        return self.value is not None and self.error is None

    @property
    def asked(self) -> bool:
        """False while nobody has asked for it, and nothing of it is remembered."""
        return self.value is not None or self.error not in (None, UNASKED)

    @property
    def configured(self) -> bool:
        """False when the run file does not ask for this facet at all."""
        return self.error is None or self.error.kind is not ErrorKind.NOT_CONFIGURED

    def why_unknown(self, otherwise: str) -> str:
        """Return why there is no answer, or ``otherwise`` where nothing says so."""
        return otherwise if self.error is None else self.error.message

    def age(self, now: float) -> float | None:
        """Return seconds since the value was observed, or ``None`` if it never was."""
        return None if self.observed_at is None else max(0.0, now - self.observed_at)

    def reads_as(self, former: "Facet[T]") -> bool:
        """Return whether a look has found what ``former`` found; not one from before it."""
        ours, theirs = self.__dict__, former.__dict__
        if (ours["observed_at"] or 0.0) < (theirs["observed_at"] or 0.0):
            return False
        return all(
            each is theirs[name] or each == theirs[name]
            for name, each in ours.items()
            if name != "observed_at"
        )

    def document(self, now: float) -> dict[str, Any]:
        """Return INTERFACE ``F``: value, source, observed_at, age_s, error (and remembered)."""
        plain = self.to_json()
        plain["age_s"] = self.age(now)
        plain.pop("since")
        if not self.remembered:
            plain.pop("remembered")
        return plain


def known(value: T, source: str, now: float) -> Facet[T]:
    """Return a facet observed now."""
    return _KNOWN.model_copy(update={"value": value, "source": source, "observed_at": now})


_KNOWN: Final = Facet[Any].model_construct(value=None, source="", observed_at=0.0)
"""What is made into every known one: some are made each second of every run."""


def unknown(kind: ErrorKind, message: str, source: str, now: float) -> Facet[Any]:
    """Return a facet that could not be observed, and why."""
    problem = Problem.model_construct(kind=kind, message=message)
    return Facet[Any].model_construct(source=source, error=problem, since=now)


def not_configured(what: str) -> Facet[Any]:
    """Return the facet of something that the run file does not name."""
    problem = Problem.model_construct(
        kind=ErrorKind.NOT_CONFIGURED, message=f"{what} is not in cockpit.toml"
    )
    return Facet[Any].model_construct(source="run file", error=problem)


def merge(old: Facet[T] | None, new: Facet[T]) -> Facet[T]:
    """Return ``new``, keeping ``old``'s value (with its age) when ``new`` brought none."""
    if old is None or new.error is None:
        return new
    since = old.since if old.error is not None and old.since is not None else new.since
    if new.value is not None:
        return new.model_copy(update={"since": since})
    return new.model_copy(
        update={"value": old.value, "observed_at": old.observed_at, "since": since}
    )


class TrackerKind(NamedTuple):
    """One kind of tracker.

    ``table`` is its table of the run file. ``records_end``: it writes down that a run has ended.
    Where it does not, a run that is not "finished" there misses nothing. ``own_steps``: rows are
    logged under the trainer's steps, not under a count of calls. ``schemes`` are the places,
    beside this machine, where it is read; ``nowhere`` says what to set where no place is
    named. ``named_by`` is the key of its table that names one run.
    """

    name: str
    table: str
    records_end: bool = True
    own_steps: bool = False
    schemes: tuple[str, ...] = ("ssh",)
    nowhere: str = ""
    named_by: str = "run"


WANDB: Final = TrackerKind("W&B", "wandb", named_by="id")
TRACKIO: Final = TrackerKind("trackio", "trackio", records_end=False)
TENSORBOARD: Final = TrackerKind(
    "TensorBoard", "tensorboard", records_end=False, own_steps=True, named_by="dir"
)
MLFLOW: Final = TrackerKind(
    "MLflow", "mlflow", own_steps=True, schemes=("ssh", "http", "https"),
    nowhere="set mlflow.uri, or MLFLOW_TRACKING_URI",
)  # fmt: skip
FINELOG: Final = TrackerKind(
    "finelog", "finelog", records_end=False, own_steps=True, schemes=("http", "https", "iris"),
    nowhere="it is asked through the controller of an Iris job: set job.controller_url",
)  # fmt: skip
"""Levanter reports the end of its training there, and drops it where the server is slow."""
TRACKER_KINDS: Final = {kind.name: kind for kind in (FINELOG, WANDB, TRACKIO, TENSORBOARD, MLFLOW)}


class Attempt(Frozen):
    """A former attempt of the run, under an id of its own: its last step, and when that was."""

    id: str
    step: int | None = None
    at: Instant | None


class TrackerAlert(Frozen):
    """What it says, all of it safe text; ``level`` is the tracker's own word."""

    at: Instant | None
    level: str
    title: str
    text: str | None = None
    step: int | None = None


class Column(NamedTuple):
    """One column of a chart over steps ``[first, last]``: extremes, mean and non-finite count.

    ``low``/``high`` are ``None`` where no finite value was logged (a gap).
    """

    first: int
    last: int
    low: float | None
    high: float | None
    mean: float | None
    nonfinite: int = 0


class Writer(Frozen):
    """A launch of the run's W&B id that goes on writing after another one has begun."""

    name: str
    since: Instant
    last_record_at: Instant


class TrackerValue(Frozen):
    """What the experiment tracker (W&B) knows of the run, its three clocks kept apart.

    ``last_step_at`` is the ``_timestamp`` of the last history row (training), ``last_record_at``
    the last record of any kind and ``file_mtime`` the file's (both only the client's pulse).
    """

    id: str | None
    name: str | None = None
    entity: str | None = None
    project: str | None = None
    url: str | None = None
    state: str
    step: int | None = None
    counts_calls: bool = Field(default=False, exclude=True)
    """True where the trainer logs no step of its own: then the step counts calls of ``log``."""
    loss: Number | None = None
    throughput: Number | None = None
    throughput_unit: str | None = None
    grad_norm: Number | None = None
    baseline: Number | None = None
    last_step_at: Instant | None = None
    last_record_at: Instant | None = None
    file_mtime: Instant | None = None
    heartbeat_at: Instant | None = None
    exit_code: int | None = None
    git_commit: str | None = None
    slurm_job_id: str | None = None
    producer: str | None = None
    fragments: tuple[str, ...] = ()
    files: tuple[str, ...] = Field(default=(), exclude=True)
    """Where the fragments lie on this machine, oldest first."""
    writers: tuple[Writer, ...] = Field(default=(), exclude=True)
    """Launches beside the newest one that still write: two jobs have one W&B id (C-25)."""
    skipped_blocks: int = 0
    history: tuple[tuple[int, Number], ...] = ()
    columns: Annotated[Sequence[Column], AfterValidator(unchanging)] = Field(
        default=(), exclude=True
    )
    """The loss over the whole run, extremes kept; exact once ``scanned`` is 1.0."""
    scanned: float = 0.0
    """How much of the file was read row by row, 0 to 1: what the rest holds is unknown."""
    usual_step_s: Seconds | None = None
    clock_offset_s: Seconds | None = None
    """The trainer's clock minus ours where it is off: all times in here are on ours."""
    config: dict[str, object] = Field(default_factory=dict, exclude=True)
    config_since: Instant | None = Field(default=None, exclude=True)
    """When the launch began that told the config, where the tracker dates its launches."""
    alerts: tuple[TrackerAlert, ...] = ()
    """The trainer's own alerts, the newest first; of trackers that keep such."""
    tracker: str = Field(default=WANDB.name, exclude=True)
    """Which kind of tracker tells this: a row of ``TRACKER_KINDS``."""
    attempts: tuple[Attempt, ...] = ()
    """The former attempts whose rows stand before the run's own, in order."""
    earlier: tuple[Attempt, ...] = Field(default=(), exclude=True)
    """Other runs at its place that ended before it began: former attempts, or other trainings."""
    notes: tuple[str, ...] = ()
    """What else lies where the run is read (other runs, other folders); safe text."""

    @property
    def kind(self) -> TrackerKind:
        """What that kind of tracker can know."""
        return TRACKER_KINDS[self.tracker]

    @property
    def finished(self) -> bool:
        """True where it has recorded a successful end."""
        return self.exit_code == 0 or (self.exit_code is None and self.state == "finished")

    @property
    def true_loss(self) -> float | None:
        """The newest loss; NaN where a zero stands for it (see ``Row.true_loss``)."""
        return true_loss(self.loss, self.grad_norm)


def true_loss(loss: float | None, grad_norm: float | None) -> float | None:
    """Return the loss; NaN for a zero that stands beside a gradient that is no number."""
    masked = loss == 0.0 and grad_norm is not None and not math.isfinite(grad_norm)
    return math.nan if masked else loss
