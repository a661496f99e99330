"""What a rule is given: the newest facets, and what was folded from everything before them."""

from __future__ import annotations

from cockpit.model.base import Frozen, Instant
from cockpit.model.observed import Phase
from cockpit.model.report import Facets
from cockpit.model.trend import Trend


class PhaseMark(Frozen):
    """When a job was first seen in a phase."""

    at: Instant
    phase: Phase
    job_id: str | None = None


class CheckpointMark(Frozen):
    """When the set of complete checkpoints was seen to change."""

    at: Instant
    complete: int
    newest: int | None


class History(Frozen):
    """Everything that a rule may look at. Times are data time; ``now`` is the time of judging.

    ``rows_from`` is 0.0 when ``trend`` was folded from every logged row, else the share of
    the rows before the first one folded (a gap: what it hides is unknown, not fine).
    """

    now: Instant
    facets: Facets = Facets()
    trend: Trend = Trend()
    phases: tuple[PhaseMark, ...] = ()
    checkpoints: tuple[CheckpointMark, ...] = ()
    stop_ordered_by: str | None = None
    rows_from: float = 0.0
    job_named: bool = True
    """False when the run file names no job: then the tracker's word is all there is."""
