"""Who may look: a link opens once, and the tab that it opened keeps a seat. Pure.

The listener is on loopback, which every account and every web page on this machine can reach. The
page itself holds nothing and is given to anybody; pictures go over a WebSocket to whoever has a
seat. A browser sends cookies to every port of a host, so a seat is no cookie: it stands in the
tab's ``sessionStorage``, which belongs to one port, and the link's token in the part behind ``#``,
which no browser sends.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from cockpit.app.browser.messages import Answer, Request, refused

NAMES: Final = frozenset(("127.0.0.1", "localhost", "::1"))
"""The names of this machine by which a browser, or an ssh tunnel's end, may ask."""
SEATS: Final = 32
"""Tabs that may look at the same time."""
USED: Final = (
    "This link is no longer valid: each opens once. "
    "The valid one is the last line in the terminal of `cockpit serve`."
)
NO_SEAT: Final = (
    "This tab was opened by an earlier `cockpit serve`, or by none. "
    "Open the link that stands last in its terminal."
)
FULL: Final = f"{SEATS} tabs are looking already: close one, then open this link again."


def refusal(request: Request) -> Answer | None:
    """Return why a request is not heard, or ``None``."""
    if request.method != "GET":
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET: nothing can be sent here.")
    host = request.headers.get("host", "")
    if not _of_this_machine(host):
        said = "Ask as 127.0.0.1 or localhost; through a tunnel too."
        return refused(HTTPStatus.FORBIDDEN, said)
    if request.headers.get("origin", f"http://{host}") != f"http://{host}":
        return refused(HTTPStatus.FORBIDDEN, "Another page may not ask here.")
    return None


class SeatError(Exception):
    """Somebody may not look; the message says why."""


class Seats:
    """The link that still opens, and the seats of those whom one has let in."""

    def __init__(self, make: Callable[[], str] = secrets.token_urlsafe) -> None:
        self._make = make
        self.link = make()
        """The token that still opens."""
        self._looking: dict[str, int] = {}
        """Connections of each seat; the one that was left longest ago comes first."""

    def open(self, token: str) -> str:
        """Return a new seat for the token that still opens, which then opens no more.

        Where all seats are given away, the one that was left longest ago is given anew. Raises
        ``SeatError``.
        """
        if not secrets.compare_digest(token.encode(), self.link.encode()):
            raise SeatError(USED)
        if len(self._looking) >= SEATS:
            empty = next((seat for seat, count in self._looking.items() if not count), None)
            if empty is None:
                raise SeatError(FULL)
            del self._looking[empty]
        self.link, seat = self._make(), self._make()
        self._looking[seat] = 0
        return seat

    def take(self, given: str) -> str:
        """Return the seat that was given to a tab, now looked from; raises ``SeatError``."""
        for seat in self._looking:
            if secrets.compare_digest(given.encode(), seat.encode()):
                self._looking[seat] += 1
                return seat
        raise SeatError(NO_SEAT)

    def leave(self, seat: str) -> None:
        """Note that one connection of a seat has ended."""
        if seat in self._looking:
            self._looking[seat] = self._looking.pop(seat) - 1


def _of_this_machine(host: str) -> bool:
    """Return whether ``Host`` names this machine; its port may be a tunnel's own."""
    try:
        return urlsplit(f"//{host}").hostname in NAMES and "@" not in host
    except ValueError:
        return False
