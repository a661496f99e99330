"""What a job's own system tells of it."""

from cockpit.model.base import Frozen, Instant


class Description(Frozen):
    """One answer, safe to show, secrets masked; ``problem`` is why there is no ``text``."""

    run: str
    job: str
    system: str
    at: Instant
    text: str = ""
    problem: str | None = None
