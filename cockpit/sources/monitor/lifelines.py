"""What a monitor needs to live: its tunnel's and its server's session, its MCP endpoint (SPEC S-9).

A session may be tmux's or screen's, on this machine or on the host of the job. It is gone when
every place that may hold it has answered and none does; what does not answer makes it unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, RemoteError, run_script
from cockpit.text.safe import clean

K = TypeVar("K")
V = TypeVar("V")

DEADLINE: Final = 3.0
"""Less than what a monitor's facet is given, its files read before."""
LISTING: Final = (
    "LC_ALL=C; export LC_ALL\n"
    + LIMITED
    + """\
exec 2>&1
command -v tmux >/dev/null && { echo @tmux; limited 3 tmux -u list-sessions -F '=#{session_name}'; }
command -v screen >/dev/null && { echo @screen; limited 3 screen -ls; }
echo @end"""
)
_SCREEN: Final = re.compile(r"\s+\d+\.([^\t]+)\t\((?!.*Dead \?)")
_NONE: Final = re.compile(
    r"no server running|No such file or directory|No Sockets found|no sessions"
)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Run(Protocol):
    """Runs a script here (``None``) or on a host (``run_script``)."""

    async def __call__(self, host: str | None, script: str, *, deadline: float) -> Completed:
        """Return how it ended; raises ``RemoteError``."""


class Wanted(NamedTuple):
    """What one monitor needs: names of sessions, where they may be, the endpoint's address."""

    sessions: Mapping[str, str]
    """By what they are for ("tunnel session")."""
    host: str | None = None
    mcp_url: str | None = None


class Gone(NamedTuple):
    """Lines about what is gone, and about what could not be looked at."""

    gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Lifelines:
    """Looks at what many monitors need: each machine, and each endpoint, once."""

    def __init__(self, clock: Clock, run: Run = run_script) -> None:
        self._run = run
        self._http = Http(clock, deadline=DEADLINE)

    async def look(self, wanted: Mapping[str, Wanted]) -> dict[str, Gone]:
        """Return what is gone of each monitor, by name. Never raises."""
        hosts = {one.host for one in wanted.values() if one.sessions and one.host is not None}
        places = [None, *sorted(hosts)] if any(one.sessions for one in wanted.values()) else []
        urls = sorted({one.mcp_url for one in wanted.values() if one.mcp_url is not None})
        listed, answered = await asyncio.gather(
            _each(places, self._sessions), _each(urls, self._answers)
        )
        return {name: _gone(one, listed, answered) for name, one in wanted.items()}

    async def _sessions(self, host: str | None) -> frozenset[str] | str:
        """Return the sessions of a machine, or why they are not known."""
        where = host or "this machine"
        try:
            done = await self._run(host, LISTING, deadline=DEADLINE)
        except RemoteError as error:
            return str(error)
        found = sessions_in(done.text)
        return f"{where}: its sessions cannot be listed" if found is None else found

    async def _answers(self, url: str) -> bool | str:
        """Return whether somebody listens; any answer over HTTP is one."""
        if urlsplit(url).hostname not in _LOOPBACK:
            return f"{clean(url, 200)} is not on this machine: not asked"
        try:
            await self._http.send("GET", url)
        except HttpError as error:
            if error.status is not None or error.kind is ErrorKind.BAD_ANSWER:
                return True
            return False if error.kind is ErrorKind.REFUSED else str(error)
        return True


async def _each(keys: Sequence[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    return dict(zip(keys, await asyncio.gather(*(ask(key) for key in keys)), strict=True))


def sessions_in(listing: str) -> frozenset[str] | None:
    """Return the sessions that a machine has told of; ``None`` if it could not tell.

    Without tmux and screen there is no session; what they refuse to tell is unknown.
    """
    lines = listing.splitlines()
    if "@end" not in lines:
        return None
    names: set[str] = set()
    for said in _by_program(lines):
        found = [line[1:] for line in said if line.startswith("=")]
        found += [match[1] for line in said if (match := _SCREEN.match(line))]
        if not found and said and not any(_NONE.search(line) for line in said):
            return None
        names |= set(found)
    return frozenset(names)


def _by_program(lines: Sequence[str]) -> Iterable[list[str]]:
    heads = [at for at, line in enumerate(lines) if line in ("@tmux", "@screen", "@end")]
    for at, end in pairwise(heads):
        yield list(lines[at + 1 : end])


def _gone(
    one: Wanted,
    listed: Mapping[str | None, frozenset[str] | str],
    answered: Mapping[str, bool | str],
) -> Gone:
    gone, notes = [], []
    places = [None] if one.host is None else [None, one.host]
    for purpose, name in one.sessions.items():
        told = [listed[place] for place in places]
        spellings = {name, name.replace(".", "_").replace(":", "_")}
        if any(isinstance(each, frozenset) and each & spellings for each in told):
            continue
        silent = [each for each in told if isinstance(each, str)]
        where = "this machine" if one.host is None else f"this machine or {one.host}"
        if silent:
            notes.append(f"cannot tell whether its {purpose} {name} is alive: {silent[0]}")
        else:
            none = f"no tmux or screen session of that name on {where}"
            gone.append(f"its {purpose} {name} is gone: {none}")
    if one.mcp_url is not None:
        alive = answered[one.mcp_url]
        if alive is False:
            gone.append(f"its MCP server is down: {clean(one.mcp_url, 200)} refuses connections")
        elif isinstance(alive, str):
            notes.append(f"cannot tell whether its MCP server is up: {alive}")
    return Gone(tuple(gone), tuple(notes))
