"""The logs of many runs on ssh hosts: what all looks need is brought in one trip per host."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.sources.logs.pieces import Ask, Told
from cockpit.sources.logs.remote import BULK, Host, HostError, RemoteLog, Run, host_named


class HostAsk(NamedTuple):
    """What is wanted of a file, and the host that has it."""

    host: str
    ask: Ask


class Hosts:
    """The hosts that logs lie on, each asked once for all of them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._hosts: dict[str, Host] = {}

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

    async def _trip(self, name: str, asks: Mapping[str, Ask]) -> dict[str, Told]:
        host, wanted = self._host(name), list(asks.values())
        try:
            found = await offload(host.ask, wanted, BULK, deadline=BULK + 1.0, key=host)
        except HostError as error:
            return dict.fromkeys(asks, error)
        except TimeoutError as error:
            return dict.fromkeys(asks, HostError(ErrorKind.TIMEOUT, f"{name}: {error}"))
        return dict(zip(asks, found, strict=True))
