"""What a run's own log announces of it, besides its steps."""

from cockpit.model.base import Frozen, Instant

IDS = 8


class Loaded(Frozen):
    """What the trainer says that it has resumed from: a path, a step, or both; and its line."""

    path: str | None
    step: int | None
    line: str
    at: Instant | None = None
    """About when it was written; of a first look, not later than that."""


class Notice(Frozen):
    """A line that says the job is about to be taken away, and about when it was written."""

    line: str
    at: Instant


class Announced(Frozen):
    """The newest of each kind (C-13, C-17, C-26); ``None``: not seen, which says nothing."""

    wandb: str | None = None
    wandb_at: Instant | None = None
    wandb_ids: tuple[tuple[str, Instant], ...] = ()
    """The runs whose folders the client has named, and when: the newest ``IDS``."""
    loaded: Loaded | None = None
    notice: Notice | None = None
