"""A checkpoint that nobody shall go on from, as records tell it."""

from cockpit.model.base import Frozen, Instant


class Rejected(Frozen):
    """A checkpoint of a rejected lineage: no later pick takes it (SPEC A-4)."""

    step: int
    path: str
    at: Instant
    by: str
    reason: str
