"""What a job's own system tells of it."""

from cockpit.model.base import Printed, PrintedInstant


class Description(Printed):
    """One answer, safe to show, secrets masked; ``problem`` is why there is no ``text``."""

    run: str
    job: str
    system: str
    at: PrintedInstant
    text: str = ""
    problem: str | None = None
