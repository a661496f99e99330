"""Who may look: a link opens once, and what it opened is remembered by a cookie. Pure.

The listener is on loopback, which every account and every web page on this machine can reach:
so nothing is told without the cookie, to a foreign name (DNS rebinding) or to a foreign page.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.app.browser.messages import Answer, Request, refused

OPEN: Final = "/open/"
NAMES: Final = frozenset(("127.0.0.1", "localhost", "::1"))
"""The names of this machine by which a browser, or an ssh tunnel's end, may ask."""
OWN_PAGES: Final = frozenset(("same-origin", "none"))
"""``Sec-Fetch-Site`` of what our own page asks, and of what a person typed."""
SEATS: Final = 32
"""Viewers that may have opened a link while this runs; more are refused."""
NO_COOKIE: Final = (
    "This window is opened by the link that `cockpit serve` printed. A link opens once: "
    "the one that still opens is the last line in that terminal."
)


class Door(NamedTuple):
    """What is refused before anything is told; ``seats`` remembers whom a link let in."""

    seats: Seats

    def refusal(self, request: Request) -> Answer | None:
        """Return why a request is not heard, or ``None``; the link's own is judged by ``open``."""
        if request.method != "GET":
            return refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET: nothing can be sent here.")
        host = request.headers.get("host", "")
        if not _of_this_machine(host):
            said = "Ask as 127.0.0.1 or localhost; through a tunnel too."
            return refused(HTTPStatus.FORBIDDEN, said)
        if request.headers.get("origin", f"http://{host}") != f"http://{host}":
            return refused(HTTPStatus.FORBIDDEN, "Another page may not ask here.")
        if request.target.startswith(OPEN):
            return None
        if request.headers.get("sec-fetch-site", "none") not in OWN_PAGES:
            return refused(HTTPStatus.FORBIDDEN, "Another page may not ask here.")
        if not self.seats.knows(request.headers):
            return refused(HTTPStatus.FORBIDDEN, NO_COOKIE)
        return None


class Seats:
    """The link that still opens, and the cookies of those whom one has let in."""

    def __init__(self, make: Callable[[], str] = secrets.token_urlsafe) -> None:
        self._make = make
        self.cookie = f"cockpit-{make()[:8]}"
        """The cookie's name: two servers on one name would take each other's."""
        self.link = make()
        """The token that still opens."""
        self._taken: set[str] = set()

    def open(self, token: str) -> str | None:
        """Return a new cookie's value for the token that still opens, which then opens no more."""
        right = secrets.compare_digest(token.encode(), self.link.encode())
        if not right or len(self._taken) >= SEATS:
            return None
        self.link, value = self._make(), self._make()
        self._taken.add(value)
        return value

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie of somebody who was let in."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                given = value.encode()
                return any(secrets.compare_digest(given, each.encode()) for each in self._taken)
        return False


def _of_this_machine(host: str) -> bool:
    """Return whether ``Host`` names this machine; its port may be a tunnel's own."""
    try:
        return urlsplit(f"//{host}").hostname in NAMES and "@" not in host
    except ValueError:
        return False
