"""What a run's experiment tracker knows of it, and what each kind of tracker can know."""

import math
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field

from cockpit.model.base import Frozen, Instant, Number, Seconds, unchanging


class TrackerKind(NamedTuple):
    """One kind of tracker.

    ``records_end``: it writes down that a run has ended. Where it does not, a run that is not
    "finished" there misses nothing.
    """

    name: str
    records_end: bool = True


WANDB: Final = TrackerKind("W&B")
TRACKIO: Final = TrackerKind("trackio", records_end=False)
TENSORBOARD: Final = TrackerKind("TensorBoard", records_end=False)
TRACKER_KINDS: Final = {kind.name: kind for kind in (WANDB, TRACKIO, TENSORBOARD)}


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
