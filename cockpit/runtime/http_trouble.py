"""What can go wrong on the way to a web service, each said in one line that holds no secret."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from cockpit.model.facet import ErrorKind
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LONGEST_WAIT: Final = 3600.0
SECONDARY_WAIT: Final = 60.0
"""GitHub's advice for a secondary limit that names no time."""
SAID: Final = 160
SAID_READ: Final = 4096

_WORDS: Final = {
    ErrorKind.TIMEOUT: "no answer in time",
    ErrorKind.REFUSED: "connection refused or lost",
    ErrorKind.DNS: "the name cannot be resolved; is the network up?",
    ErrorKind.TLS: "the certificate or the encryption is not accepted; is a proxy in between?",
    ErrorKind.BAD_ANSWER: "the answer cannot be read",
}


class HttpError(Exception):
    """A request that failed; ``retry_in`` is in how many seconds the server wants to be asked."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_in: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_in = retry_in


class LostAnswerError(HttpError):
    """It was sent and its answer is lost: whether it was acted upon must be looked up."""


class TooLongError(HttpError):
    """The answer was longer than is taken: less may be asked for."""


def trouble(host: str, error: BaseException) -> HttpError:
    """Return what a failed request means; the library's own text may hold too much."""
    kind = kind_of(error)
    return HttpError(kind, f"{host}: {_WORDS[kind]}")


def kind_of(error: BaseException) -> ErrorKind:
    """Return the kind of an error, by the first cause that tells."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return ErrorKind.TLS
        if isinstance(cause, socket.gaierror):
            return ErrorKind.DNS
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return ErrorKind.TIMEOUT
        if type(cause).__name__ in ("DecodingError", "InvalidURL", "UnsupportedProtocol"):
            return ErrorKind.BAD_ANSWER
    return ErrorKind.REFUSED


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and everything behind it, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
        waiting += [each for each in (cause.__cause__, cause.__context__) if each is not None]


def limited_for(status: int, headers: Mapping[str, str], body: bytes, now: float) -> float | None:
    """Return for how many seconds the server wants to be left alone, or ``None``.

    429 always, 403 when it is a rate limit (GitHub's primary and secondary ones), 503 with a
    ``Retry-After``.
    """
    wait = _stated_wait(headers, now)
    if status == 429:
        return SECONDARY_WAIT if wait is None else wait
    if status == 403 and wait is None and b"rate limit" in body[:4096].lower():
        return SECONDARY_WAIT
    return wait if status == 403 or (status == 503 and "retry-after" in headers) else None


def date_of(headers: Mapping[str, str]) -> float | None:
    """Return the server's clock when it answered (``Date``), where it shows it."""
    return _instant(headers.get("date", ""))


def _stated_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in the headers, reckoned by the server's own clock where it shows it."""
    here = date_of(headers)
    here = now if here is None else here
    after = headers.get("retry-after", "").strip()
    if after.isascii() and after.isdigit():
        return min(float(after), LONGEST_WAIT)
    until = _instant(after)
    reset = headers.get("x-ratelimit-reset", "").strip()
    if until is None and headers.get("x-ratelimit-remaining", "").strip() == "0":
        until = float(reset) if reset.isascii() and reset.isdigit() else here + SECONDARY_WAIT
    if until is None and headers.get("ratelimit-remaining", "").strip() == "0":
        pause = headers.get("ratelimit-reset", "").strip()  # W&B: seconds from now, not a time
        until = here + (float(pause) if pause.isascii() and pause.isdigit() else SECONDARY_WAIT)
    return None if until is None else min(max(0.0, until - here), LONGEST_WAIT)


def _instant(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def told(body: bytes) -> str:
    """Return what a server says in the body of an error, as a short safe end of our own line.

    Its own words are often the only cause that is told; pages made for browsers are left out.
    """
    text = scrub(clean(_words_of(body), SAID))
    return f": {text}" if text else ""


def _words_of(body: bytes) -> str:
    head = body[:SAID_READ].decode("utf-8", "replace").strip()
    if head.startswith("<"):
        return ""
    try:
        document = json.loads(body[: 1 << 16])
    except (ValueError, RecursionError):
        return head
    found = document
    for name in ("errors", "error", "message", "detail", "msg"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
        if isinstance(found, list) and found:
            found = found[0]
    return found if isinstance(found, str) else ""
