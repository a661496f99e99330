"""HTTP/1.1 as far as a read-only page needs it: a request's head, and an answer. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

MOST_HEAD: Final = 16 * 1024
"""Bytes of a request's head; a longer one is refused."""
TEXT: Final = "text/plain; charset=utf-8"
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
GUARDS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Connection": "close",
}
"""Headers of every answer: nothing from outside is loaded, nothing is kept or framed."""


class Request(NamedTuple):
    """A request's first line and headers, their names in small letters."""

    method: str
    target: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """A whole answer; ``more`` are headers beside ``GUARDS``."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    more: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        """Return the answer as bytes."""
        own = {"Content-Type": self.kind, "Content-Length": str(len(self.body))}
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in (*(GUARDS | own).items(), *self.more)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def refused(status: HTTPStatus, why: str) -> Answer:
    """Return a refusal: one line that says why."""
    allowed = (("Allow", "GET"),) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()
    return Answer(status, f"{why}\n".encode(), more=allowed)


def request_of(head: bytes) -> Request:
    """Return the request of a head that ends with an empty line; raises ``ValueError``."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise ValueError("not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        known = name.lower()
        if not colon or name != name.strip() or known in headers:
            raise ValueError("a header that is none, or twice")
        headers[known] = value.strip()
    return Request(method, target, headers)
