"""The logs of many runs on ssh hosts: what all looks need is brought in one trip per host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.sources.logs.pieces import Answer, Ask, Told
from cockpit.sources.logs.remote import BULK, Host, HostError, RemoteLog, Run, host_named

MATCHED_EVERY: Final = 30.0
"""Seconds after which a host is asked again which files a pattern matches."""


class HostAsk(NamedTuple):
    """What is wanted of a file, and the host that has it."""

    host: str
    ask: Ask


class Hosts:
    """The hosts that logs lie on, each asked once for all of them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._hosts: dict[str, Host] = {}
        self._matched: dict[Place, tuple[float, Sequence[Answer]]] = {}
        """What each pattern matched, and when that was asked (monotonic)."""

    def log(self, place: Place) -> RemoteLog:
        """Return the log at an ssh place."""
        return RemoteLog(place, self._host(place.host))

    def _host(self, name: str) -> Host:
        if name not in self._hosts:
            self._hosts[name] = host_named(name, self._run)
        return self._hosts[name]

    async def bring(self, asks: Mapping[str, HostAsk]) -> dict[str, Told]:
        """Return what is told of each file, by the names of ``asks``; never raises."""
        groups: dict[str, dict[str, Ask]] = {}
        for name, (host, ask) in asks.items():
            groups.setdefault(host, {})[name] = ask
        answers = await asyncio.gather(*(self._trip(host, own) for host, own in groups.items()))
        return {name: told for answer in answers for name, told in answer.items()}

    async def matching(self, patterns: Iterable[Place]) -> dict[Place, Sequence[Answer]]:
        """Return the files that patterns match on their hosts, as measured; never raises.

        A host is asked anew every ``MATCHED_EVERY`` s. Without an answer the former one stands.
        """
        wanted = list(dict.fromkeys(patterns))
        now = time.monotonic()
        due = {
            str(place): HostAsk(place.host, Ask(place.path, every=True))
            for place in wanted
            if now - self._matched.get(place, (float("-inf"), ()))[0] >= MATCHED_EVERY
        }
        told = await self.bring(due)
        for place in wanted:
            found = told.get(str(place))
            if isinstance(found, Answer):
                self._matched[place] = now, found.beside
            elif isinstance(found, FileNotFoundError):
                self._matched[place] = now, ()
        return {place: self._matched[place][1] for place in wanted if place in self._matched}

    async def _trip(self, name: str, asks: Mapping[str, Ask]) -> dict[str, Told]:
        host, wanted = self._host(name), list(asks.values())
        try:
            found = await offload(host.ask, wanted, BULK, deadline=BULK + 1.0, key=host)
        except HostError as error:
            return dict.fromkeys(asks, error)
        except TimeoutError as error:
            return dict.fromkeys(asks, HostError(ErrorKind.TIMEOUT, f"{name}: {error}"))
        return dict(zip(asks, found, strict=True))
