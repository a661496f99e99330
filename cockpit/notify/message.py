"""A message to a person, made safe; how sending it went; why a service refused it."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

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


def _one_line(raw: object) -> str:
    return cut(scrub(clean(raw, READ_LIMIT)), TITLE_LIMIT)


def _lines(raw: object) -> str:
    lines = (line.plain.rstrip() for line in safe_lines(str(raw)[:READ_LIMIT]))
    return cut(scrub("\n".join(lines)).strip(), BODY_LIMIT)


def _address(raw: object) -> str | None:
    return None if raw is None else _one_line(raw)


class Button(NamedTuple):
    """A button of a message, and the text that comes back when it is pressed."""

    label: str
    body: str


class Message(Frozen):
    """One message about a run. ``event`` is its identity: none is sent twice by one route.

    ``subjects`` are the alerts that it is about, each with its run, for an answer to it;
    ``buttons`` go with it where a route has buttons.
    """

    run: Annotated[str, BeforeValidator(_one_line)]
    event: Annotated[str, BeforeValidator(_one_line)]
    title: Annotated[str, BeforeValidator(_one_line)]
    body: Annotated[str, BeforeValidator(_lines)] = ""
    severity: Severity = Severity.INFO
    url: Annotated[str | None, BeforeValidator(_address)] = None
    subjects: tuple[tuple[str, str], ...] = ()
    buttons: tuple[Button, ...] = ()

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


_STATUS = re.compile(r"error=(\d{3})|status[ =](\d{3})")
_SMTP = re.compile(r"\((\d{3}), b['\"]")
_STATUS_WORDS: Final = {
    401: "the address or its password is not valid",
    403: "the address is not allowed to post, or was revoked",
    404: "no such address there",
    410: "the address was revoked",
    413: "the message is too large for it",
    429: "it is limiting messages",
}
_SIGNS: Final = (
    (r"connect(?:ion)? ?timeout|ConnectTimeout", "no connection within the time allowed", False),
    (r"Connection refused|actively refused", "connection refused", False),
    (
        r"Name or service not known|getaddrinfo|NameResolution|nodename|name resolution",
        "the host name cannot be resolved (network or address)",
        False,
    ),
    (r"certificate|SSLError|WRONG_VERSION", "TLS: the certificate was not accepted", False),
    (r"unreachable|No route", "no network route to it", False),
    (r"timed out|Timeout", "sent, but no answer", True),
    (
        r"aborted|RemoteDisconnected|reset by peer|closed by the remote|unexpectedly closed",
        "the connection broke before an answer",
        True,
    ),
)


class Reason(NamedTuple):
    """A few words; ``lost`` when the message may have arrived all the same."""

    words: str
    lost: bool


def reason_of(logged: str) -> Reason:
    """Return why nothing was taken, from what the library logged (which is never shown)."""
    status = _STATUS.search(logged)
    if status is not None:
        return answered(int(status[1] or status[2]))
    smtp = _SMTP.search(logged)
    if smtp is not None:
        return Reason(f"the mail server refused it ({smtp[1]})", lost=False)
    for sign, words, lost in _SIGNS:
        if re.search(sign, logged, re.IGNORECASE):
            return Reason(words, lost)
    return Reason("it was not accepted", lost=False)


def answered(status: int) -> Reason:
    """Return the words for an HTTP status that is no success, or came with a wrong answer."""
    if 200 <= status < 300:
        return Reason("the answer is not from the service (is a proxy in between?)", lost=False)
    words = _STATUS_WORDS.get(status, "the service reports an error" if status >= 500 else "")
    return Reason(f"answered {status}" + (f": {words}" if words else ""), lost=False)
