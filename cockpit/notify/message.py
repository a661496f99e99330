"""What is sent to a person, and how sending it went. A message is safe by construction.

Whatever a ``Message`` is made from, its texts have passed the one place that makes foreign text
safe and the one that masks secrets; no channel has to think of it again.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator

from cockpit.model.alert import Severity
from cockpit.model.base import Frozen
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

TITLE_LIMIT: Final = 160
BODY_LIMIT: Final = 3000
"""Characters; each channel may cut further."""
READ_LIMIT: Final = 200_000
"""Characters that are looked at: far more than is kept, so that no key is cut unmasked."""


class NobodyReachedError(Exception):
    """No route took the message; the text says of each why, and names no address."""


def cut(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` (at least 1) characters, "…" where it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _line(raw: object) -> str:
    return cut(scrub(clean(raw, READ_LIMIT)), TITLE_LIMIT)


def _lines(raw: object) -> str:
    lines = (line.plain.rstrip() for line in safe_lines(str(raw)[:READ_LIMIT]))
    return cut(scrub("\n".join(lines)).strip(), BODY_LIMIT)


def _address(raw: object) -> str | None:
    return None if raw is None else _line(raw)


class Message(Frozen):
    """One message about a run. ``event`` is its identity: none is sent twice by one route."""

    run: Annotated[str, BeforeValidator(_line)]
    event: Annotated[str, BeforeValidator(_line)]
    title: Annotated[str, BeforeValidator(_line)]
    body: Annotated[str, BeforeValidator(_lines)] = ""
    severity: Severity = Severity.INFO
    url: Annotated[str | None, BeforeValidator(_address)] = None

    @property
    def text(self) -> str:
        """Body and link, as the channels show them below the title."""
        return "\n".join(part for part in (self.body, self.url) if part)


class Delivery(Frozen):
    """How one route fared. ``note`` is a few words of our own, never the service's address.

    ``lost``: it was sent and no answer came, so it may have arrived.
    """

    route: str
    ok: bool
    note: str = ""
    lost: bool = False
