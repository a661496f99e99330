"""The token for a GitHub host: from the environment, else from ``gh``.

It is never shown, and never sent in the clear or to another host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.model.clock import Clock
from cockpit.sources.github_place import PUBLIC, Place
from cockpit.sources.shell import run_command

GH_DEADLINE: Final = 5.0
KEPT: Final = 600.0
_TOKEN: Final = re.compile(r"[!-~]{8,1000}")
_PUBLIC_NAMES: Final = ("GH_TOKEN", "GITHUB_TOKEN")
_OWN_NAMES: Final = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


class Token(NamedTuple):
    """A token and where it comes from; it prints as its source."""

    value: str
    source: str

    def __repr__(self) -> str:
        """Return where it comes from, and nothing of it; ``str`` says the same."""
        return f"<token from {self.source}>"


class Tokens:
    """Finds the token of each host, and remembers it for ten minutes."""

    def __init__(self, clock: Clock, env: Mapping[str, str]) -> None:
        self._clock = clock
        self._env = env
        self._kept: dict[str, tuple[float, Token | None]] = {}

    async def token(self, place: Place) -> Token | None:
        """Return the token to use at ``place``, if there is one."""
        if not _private(place.api):
            return None
        found = self._told(place)
        if found is not None:
            return found
        now = self._clock.monotonic()
        until, kept = self._kept.get(place.host, (now, None))
        if now >= until:
            kept = await self._asked(place.host)
            self._kept[place.host] = (now + KEPT, kept)
        return kept

    def forget(self, place: Place) -> None:
        """Ask anew next time: the token was refused."""
        self._kept.pop(place.host, None)

    def names(self, place: Place) -> tuple[str, ...]:
        """Return the variables that may hold the token of ``place``.

        As with ``gh``, those of the public host are not sent anywhere else.
        """
        server = urlsplit(self._env.get("GITHUB_SERVER_URL") or f"https://{PUBLIC}").netloc
        public = place.host in (PUBLIC, server.lower()) or place.host.endswith(".ghe.com")
        return _PUBLIC_NAMES if public else _OWN_NAMES

    def remedy(self, place: Place) -> str:
        """Return what a person can do about a token that is missing or refused."""
        host = "" if place.host == PUBLIC else f" --hostname {place.host}"
        return f"set {self.names(place)[0]}, or: gh auth login{host}"

    def _told(self, place: Place) -> Token | None:
        for name in self.names(place):
            value = self._env.get(name, "").strip()
            if _TOKEN.fullmatch(value):
                return Token(value, name)
        return None

    async def _asked(self, host: str) -> Token | None:
        argv = ("gh", "auth", "token", "--hostname", host)
        done = await run_command(argv, deadline=GH_DEADLINE, env={"GH_PROMPT_DISABLED": "1"})
        value = done.text.strip() if done.ok else ""
        return Token(value, "gh auth token") if _TOKEN.fullmatch(value) else None


def _private(api: str) -> bool:
    """Tell whether what is sent there stays between the two: encrypted, or on this machine."""
    parts = urlsplit(api)
    if parts.scheme == "https":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
