"""The logs of box jobs: what a look needs of them rides in the probe of its host (SPEC S-4).

Only what is quick rides: what is new in logs that are followed already. The first look at a log,
much that is new, and the logs of a host on which one has hung take a trip of their own, beside the
probe: the job and the host's health do not wait for them. So does a look that comes while a probe
is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cockpit.hosts.link import HostLink, ask
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.runtime.ssh import ASKING, quote
from cockpit.sources.logs.pieces import Answer, Ask, Piece, Told
from cockpit.sources.logs.remote import HostError, on_our_clock
from cockpit.sources.logs.source import Logs

ROOM: Final = 262_144
"""Bytes of all logs that ride in one probe; the others come by their own trip."""
APART: Final = 60.0
"""Seconds for which the logs of a host take a trip of their own after one of them has hung."""
SPENT: Final = 5.0
"""Seconds after which there is no time left for another trip in the same look."""
SECONDS: Final = 3.0
"""For all of them, on the host."""
MOST: Final = 16_000_000
MOST_SENT: Final = 60_000
"""Characters of the script: it is one word, and Linux takes 128 kB."""


class BoxLogs:
    """Observes the logs of hosts; ``link_to`` gives what asks a host."""

    def __init__(self, clock: Clock, logs: Logs, link_to: Callable[[str], HostLink]) -> None:
        self._clock = clock
        self._logs = logs
        self._link_to = link_to
        self._apart: dict[str, float] = {}
        """Until when the logs of a host do not ride (monotonic)."""

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run, by name."""
        groups: dict[str, dict[str, Ask]] = {}
        for name, (host, wanted) in self._logs.asks(queries).items():
            groups.setdefault(host, {})[name] = wanted
        rides = await asyncio.gather(*(self._ride(*group) for group in groups.items()))
        told = {name: each for ride in rides for name, each in ride.items()}
        return await self._logs.observe(queries, told=told)

    async def _ride(self, host: str, asks: Mapping[str, Ask]) -> dict[str, Told]:
        """Return what a probe has brought; what is not in it is still to be asked for."""
        began = self._clock.monotonic()
        if began < self._apart.get(host, began):
            return {}
        riding = {name: ask for name, ask in asks.items() if ask.wish.unless is not None}
        piece, script = _fitting(list(riding.values()))
        if not piece.asks:
            return {}
        argv = ["sh", "-c", script, ASKING]
        ours = ask("its logs", "run", argv=argv, seconds=SECONDS, most=MOST)
        sent = self._clock.now()
        said = (await self._link_to(host).ask([ours]))[ours]
        if isinstance(said, Problem):
            taken = list(riding)[: len(piece.asks)]
            return self._without(host, said, taken, self._clock.monotonic() - began)
        got = self._clock.now()
        found = zip(riding, piece.answers(said[1].encode("utf-8", "surrogateescape")), strict=False)
        return {name: on_our_clock(told, sent, got) for name, told in found if _whole(told)}

    def _without(
        self, host: str, why: Problem, riding: Sequence[str], took: float
    ) -> dict[str, Told]:
        """Return what is told of logs for which a probe had no answer."""
        if why.kind is ErrorKind.TIMEOUT:
            self._apart[host] = self._clock.monotonic() + APART
            if took < SPENT:
                return {}  # a file hangs; the host answers
        return {name: HostError(why.kind, why.message) for name in riding}


def _fitting(asks: Sequence[Ask]) -> tuple[Piece, str]:
    """Return a piece for the first of them, as many as one word of a script can hold."""
    piece = Piece(asks, ROOM)
    script = piece.script
    while piece.asks and len(quote(script)) > MOST_SENT:
        piece = Piece(asks[: len(piece.asks) // 2], ROOM)
        script = piece.script
    return piece, script


def _whole(told: Told) -> bool:
    """Tell whether that is all there is to say: it was read, is missing or may not be read."""
    return isinstance(told, Answer | FileNotFoundError | PermissionError)
