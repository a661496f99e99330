"""Which of a tracker's folders and runs are there, and which run is trained now.

On ssh hosts they are asked for once per look, for all runs of a host.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from cockpit.hosts import ranges
from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import Answer, Ask, LaterError, Told, failure
from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.logs.remote import Host, HostError, host_named, keep
from cockpit.text.safe import clean

SLACK: Final = 2.0
"""Seconds by which files that were copied together may differ."""
SHOWN: Final = 3


class RunThere(NamedTuple):
    """A run in a folder: when it was begun and last written to (epoch, s).

    ``empty``: it has nothing to tell yet. ``held``: a process has its file open for writing,
    ``None`` where that cannot be seen. ``over``: it says itself that it has ended.
    """

    name: str
    began: float
    written: float
    empty: bool = False
    held: bool | None = None
    over: bool = False


def living(runs: Sequence[RunThere]) -> RunThere:
    """Return the run to read: the one begun last, unless an earlier one goes on beside it."""
    told = [each for each in runs if not each.empty or each.held] or list(runs)
    first, *others = sorted(told, key=lambda each: (each.began, each.name), reverse=True)
    chosen = first
    for earlier in others:
        if _outlives(earlier, chosen):
            chosen = earlier
    return chosen


def _outlives(earlier: RunThere, later: RunThere) -> bool:
    """Tell whether the earlier of two runs still goes on, and is not known to have given way."""
    if earlier.over:
        return False
    if earlier.held or later.held:
        return bool(earlier.held)
    return earlier.written > later.written + SLACK


def beside(runs: Sequence[RunThere], chosen: RunThere) -> tuple[str, ...]:
    """Return one line that names the runs which lie there and are not read; none for one alone."""
    others = [each for each in runs if each.name != chosen.name]
    if not others:
        return ()
    newest = sorted(others, key=lambda each: (each.began, each.name), reverse=True)
    shown = ", ".join(clean(each.name, 80) for each in newest[:SHOWN])
    more = f" and {len(newest) - SHOWN} more" if len(newest) > SHOWN else ""
    verb = "lies" if len(newest) == 1 else "lie"
    return (f"{shown}{more} {verb} there too; {clean(chosen.name, 80)} is read",)


class Below(NamedTuple):
    """Asks which files lie at a place: the arguments of ``ranges.below``."""

    place: str
    levels: Sequence[Sequence[str]]
    most: int
    measured: int = 0
    real: bool = False


class Found(NamedTuple):
    """What lies there: a ``file``, a ``folder`` or something ``other``.

    ``level`` tells which patterns have found the files. Each has its path, and its version if it
    was measured.
    """

    kind: str
    level: int
    files: Sequence[Sequence[str]]

    @property
    def paths(self) -> list[str]:
        """Return the files' paths."""
        return [each[0] for each in self.files]


def found_here(wanted: Below) -> Found:
    """Return what lies at a place of this machine; raises ``OSError``."""
    return Found(*ranges.below(*wanted))


def found_there(wanted: Below, answer: Any) -> Found | OSError:  # noqa: ANN401 - an agent's
    """Return what a host's agent has answered."""
    if isinstance(answer, dict):
        return failure(wanted.place, answer["errno"], answer["text"])
    return Found(*answer)


class Written(NamedTuple):
    """The files that processes may write to, by their folders and names.

    ``None`` where processes cannot be seen.
    """

    ends: Collection[str] | None

    def among(self, paths: Iterable[str]) -> frozenset[str] | None:
        """Return those of ``paths`` that a process may write to."""
        if self.ends is None:
            return None
        return frozenset(path for path in paths if "/".join(path.split("/")[-2:]) in self.ends)


EVERY: Final = 10.0


class WrittenHere:
    """Asks which files of this machine are written to, not more often than every ``EVERY`` s.

    ``word`` stands in the paths of them all.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._known: frozenset[str] = frozenset()
        self._written = Written(None)
        self._until = 0.0

    def among(self, paths: Iterable[str]) -> frozenset[str] | None:
        """Return those of ``paths`` that a process may write to."""
        asked, now = frozenset(paths), time.monotonic()
        if now >= self._until or not asked <= self._known:
            self._known = asked if now >= self._until else self._known | asked
            self._written = Written(ranges.open_to_write(self._word))
            self._until = now + EVERY
        return self._written.among(asked)


MOST: Final = 500
"""Files that are named of one folder: the last ones, as their names sort."""
LOOKING: Final = 8.0
"""Seconds for a trip that looks through folders, and for the one that measures what was found."""

Where = Literal["file", "folder", "below"]
"""The place is the file itself, a folder that has it, or one whose folders have it."""


class Seen(NamedTuple):
    """What there is at a place: its files as they were measured, and where they lie.

    ``written`` are the paths of those that a process there writes, ``None`` where none can tell.
    """

    files: tuple[Answer, ...]
    where: Where
    written: frozenset[str] | None = None


def in_folder(path: str, pattern: str, most: int = MOST) -> Below:
    """Return what asks for a tracker's files in a folder or, if it has none, in its folders."""
    return Below(path, ((pattern,), (f"*/{pattern}",)), most)


def where_found(found: Found, path: str) -> Where:
    """Return where files lie; raises ``OSError``."""
    if found.kind == "other":
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
    return "file" if found.kind == "file" else "below" if found.level else "folder"


class Away:
    """The hosts that a kind of tracker's files lie on, and what was seen there last."""

    def __init__(
        self, pattern: str, call: CallHost = call_blocking, tail: int = 0, word: str = ""
    ) -> None:
        """``pattern`` is the shell's, for the names of the tracker's files.

        ``word`` stands in all of these names, where writers keep their files open. Of each that
        has changed the last ``tail`` bytes at most are brought while it is measured.
        """
        self._pattern = pattern
        self._tail = tail
        self._word = word
        self._call = call
        self._hosts: dict[str, Host] = {}
        self._seen: dict[Place, Seen | OSError] = {}
        self._known: dict[tuple[str, str], Answer] = {}
        """The files of each host by their paths, as they were measured last."""

    def host(self, place: Place) -> Host:
        """Return the host that has a place."""
        if place.host not in self._hosts:
            self._hosts[place.host] = host_named(place.host, self._call)
        return self._hosts[place.host]

    def seen(self, place: Place) -> Seen:
        """Return what the last look has seen there; raises ``OSError``."""
        found = self._seen.get(place)
        if found is None:
            raise LaterError(errno.EAGAIN, "its files have not been looked up yet")
        if isinstance(found, OSError):
            raise found
        return found

    async def look(self, places: Iterable[Place]) -> None:
        """Look at places, at those of one host together; ``seen`` tells what came of it."""
        groups: dict[str, list[Place]] = {}
        for place in dict.fromkeys(places):
            groups.setdefault(place.host, []).append(place)
        await asyncio.gather(*(self._host_look(own) for own in groups.values()))

    async def _host_look(self, places: Sequence[Place]) -> None:
        host = self.host(places[0])
        try:
            found = await offload(
                lambda: list(self._looked(host, places)), deadline=2 * LOOKING + 1.0, key=self
            )
        except HostError as error:
            found = [error] * len(places)
        except TimeoutError as error:
            late = HostError(ErrorKind.TIMEOUT, f"{host.name}: {error}")
            found = [late] * len(places)
        self._seen.update(zip(places, found, strict=True))

    def _looked(self, host: Host, places: Sequence[Place]) -> Iterator[Seen | OSError]:
        """Name the files, and measure those that are known, in one trip; new ones in another."""
        before = [self._seen.get(place) for place in places]
        known = list(
            {each.path for seen in before if isinstance(seen, Seen) for each in seen.files}
        )
        wanted = [in_folder(place.path, self._pattern) for place in places]
        asks = [Ask(path, self._wish(host, path)) for path in known]
        try:
            answers, more = host.look(asks, LOOKING, folders=wanted, word=self._word)
        except RemoteError as error:
            raise HostError(error.kind, str(error)) from error
        listed, ends, _ = more
        found = [found_there(*each) for each in zip(wanted, listed, strict=True)]
        told = dict(zip(known, answers, strict=True))
        named = [path for each in found if isinstance(each, Found) for path in each.paths]
        new = [path for path in named if isinstance(told.get(path, _LATER), LaterError)]
        asks = [Ask(path, self._wish(host, path)) for path in dict.fromkeys(new)]
        told |= zip((each.path for each in asks), host.ask(asks, LOOKING), strict=True)
        self._keep(host, told)
        written = Written(ends)
        yield from (
            _seen(each, place, told, written) for each, place in zip(found, places, strict=True)
        )

    def _wish(self, host: Host, path: str) -> Wish:
        """Return what is wanted of a file besides its size: what was written at its end since."""
        if not self._tail:
            return Wish()
        known = self._known.get((host.name, path))
        if known is None:
            return Wish((Span(0, last=self._tail),))
        return Wish((Span(known.size, last=self._tail),), unless=known.version)

    def _keep(self, host: Host, told: Mapping[str, Told]) -> None:
        """Keep the bytes that came, where readers look for them first."""
        for path, file in told.items():
            if isinstance(file, Answer):
                keep(host, file)
                self._known[host.name, path] = file._replace(pieces=())


_LATER: Final = LaterError()


def _seen(
    found: Found | OSError, place: Place, told: Mapping[str, Told], written: Written
) -> Seen | OSError:
    """Return what there is at a place, or why that is not known."""
    if isinstance(found, OSError):
        return found
    files = [told[path] for path in found.paths]
    hung = next((file for file in files if isinstance(file, TimeoutError)), None)
    if hung is not None:
        return hung
    whole = tuple(file._replace(pieces=()) for file in files if isinstance(file, Answer))
    try:
        where = where_found(found, place.path)
    except OSError as error:
        return error
    return Seen(whole, where, written.among(file.path for file in whole))


def seen_here(path: str, pattern: str, most: int) -> Seen:
    """Return what there is at a place of this machine; raises ``OSError``."""
    found = found_here(in_folder(path, pattern, most))
    where, files = where_found(found, path), []
    for each in found.paths:
        with suppress(OSError):  # gone since it was listed
            status = Path(each).stat()
            identity = status.st_dev, status.st_ino
            files.append(Answer(each, "", identity, status.st_size, status.st_mtime, 0.0))
    return Seen(tuple(files), where)
