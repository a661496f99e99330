"""A facet: one thing observed of a run, fetched on its own, with its own age and error."""

from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from pydantic import Field

from cockpit.model.base import Frozen, Instant

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
