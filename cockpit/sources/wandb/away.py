"""The ``.wandb`` files of ssh hosts: found and measured in one trip, read in ranges as they are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from cockpit.model.place import SSH, Place
from cockpit.sources.logs.ranged import Opened, Stat
from cockpit.sources.logs.remote import RemoteLog, stat_of
from cockpit.sources.run_folders import Away, Below, Chosen, Found, Written
from cockpit.sources.wandb.file import LaunchFile, WandbLog
from cockpit.sources.wandb.listing import Wanted, files_in

HEAD: Final = 32 * 1024
"""Bytes of a file's beginning that are brought while it is measured."""
TAIL: Final = 256 * 1024
"""The same of its end: mostly enough for its newest rows."""
BROUGHT: Final = 160 * 1024
"""Bytes at the end in which most of what is looked for lies."""
FARTHEST: Final = 4 << 20
"""Bytes before the end of a file in which its newest values are looked for."""
LARGEST: Final = 8 << 20
"""Bytes that are brought at most to complete one record."""


class AwayLaunches(Away[Wanted]):
    """The runs whose files lie on hosts."""

    def below(self, place: Wanted) -> Below:
        """Return what asks for a run's files."""
        return place.below

    def choose(self, place: Wanted, found: Found, written: Written, zone: str) -> Chosen:
        """Return the files of the run that is meant."""
        return files_in(found, place, written.among, zone)


class HostFile(LaunchFile):
    """A file on a host, as it was measured last."""

    far = True

    def __init__(self, host: str, path: str, away: AwayLaunches) -> None:
        self.path = path
        self._place = Place(SSH, host, path)
        self._away = away

    def stat(self) -> Stat:
        """Return what was measured, its time on our clock."""
        self.skew = self._away.host(self._place).clock.ahead
        return stat_of(self._away.measured(self._place.host, self.path))

    def open(self) -> HostLog:
        """Open it as it was measured."""
        told = self._away.measured(self._place.host, self.path)
        host = self._away.host(self._place)
        end = max(0, told.size - BROUGHT)
        key = host.name, told.path, told.identity
        brought = host.cache.get(key, end, told.size)[1] == told.size
        return HostLog(RemoteLog(self._place, host).answered(told), brought)


class HostLog(WandbLog):
    """One look at a file on a host: what was not brought before costs a trip."""

    places = 1
    head = HEAD
    farthest = FARTHEST
    largest = LARGEST

    def __init__(self, log: RemoteLog, brought: bool) -> None:
        """``brought``: the file's end is here; else no more of it is read than must be."""
        self.beside = WandbLog.beside if brought else 0
        self._stack = ExitStack()
        self._opened: Opened = self._stack.enter_context(log.open())
        self.size = self._opened.stat.size

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def bytes_at(self, start: int, stop: int) -> bytes:
        """Return the file's bytes ``[start, stop)``, fewer at its end."""
        return self._opened.read(start, max(start, stop))
