"""An alert that the trainer itself has raised, by its tracker's own call (trackio's ``alert``)."""

from cockpit.model.base import Frozen, Instant


class TrackerAlert(Frozen):
    """What it says, all of it safe text; ``level`` is the tracker's own word."""

    at: Instant | None
    level: str
    title: str
    text: str | None = None
    step: int | None = None
