"""Which of a tracker's folders and runs are there, and which run is trained now.

On ssh hosts they are asked for once per look, for all runs of a host; here by the same functions.
"""

from __future__ import annotations

import asyncio
import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from cockpit.hosts import ranges
from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.facet import Attempt, ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import Answer, Ask, LaterError, Told, failure
from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.logs.remote import HERE_NAME, Host, HostError, host_named, keep
from cockpit.text.safe import clean

SLACK: Final = 2.0
"""Seconds by which files that were copied together may differ."""
SHOWN: Final = 3


class BadFileError(ValueError):
    """The file is not what it should be; the text is one safe line."""


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


def earlier(runs: Sequence[RunThere], chosen: RunThere) -> tuple[Attempt, ...]:
    """Return the runs there that ended before the one that is read began, oldest first.

    They are former attempts under another id, or other trainings: nobody can tell by the folder.
    """
    before = [each for each in runs if not each.empty and each.written < chosen.began]
    oldest_first = sorted(before, key=lambda each: (each.began, each.name))
    return tuple(Attempt(id=clean(each.name, 80), at=each.written) for each in oldest_first)


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


Among = Callable[[Iterable[str]], frozenset[str] | None]
"""Which of some files a process has open for writing; ``None`` where that cannot be seen."""
EVERY: Final = 10.0


class WrittenHere:
    """Asks which files of this machine are written to, not more often than every ``EVERY`` s.

    ``word`` stands in the paths of them all; an empty one: nobody is asked.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._known: set[str] = set()
        self._written = Written(None)
        self._until = 0.0

    def among(self, paths: Iterable[str]) -> frozenset[str] | None:
        """Return those of ``paths`` that a process may write to."""
        asked, now = frozenset(paths), time.monotonic()
        if self._word and (now >= self._until or not asked <= self._known):
            self._written = Written(ranges.open_to_write(self._word))
            self._known = (self._known if len(self._known) < MOST_KNOWN else set()) | asked
            self._until = now + EVERY
        return self._written.among(asked)


MOST_KNOWN: Final = 100_000
MOST: Final = 500
"""Files that are named of one folder of a host: the last ones, as their names sort."""
MOST_HERE: Final = 2000
"""The same of a folder of this machine."""
LOOKING: Final = 8.0
"""Seconds for one look at a host: a trip through its folders, and one that measures new files."""

Where = Literal["file", "folder", "below"]
"""The place is the file itself, a folder that has it, or one whose folders have it."""


class Chosen(NamedTuple):
    """Which of the files at a place are read, by their paths.

    ``written`` are those that a process there writes, ``None`` where none can tell. ``notes`` name
    what else lies there; safe text. ``earlier`` are the runs that ended before this one began.
    """

    paths: Sequence[str]
    written: frozenset[str] | None = None
    notes: tuple[str, ...] = ()
    where: Where = "folder"
    earlier: tuple[Attempt, ...] = ()


class Seen(NamedTuple):
    """The files at a place as they were measured, where they lie, and which are written there.

    ``unread`` are those that are there and could not be measured, by their paths, with why.
    """

    files: tuple[Answer, ...]
    where: Where
    written: frozenset[str] | None = None
    unread: Mapping[str, OSError] = {}


NEWEST: Final = 8 << 20
"""Bytes of files' ends that one look brings, of all files together."""
LEAST_NEWEST: Final = 32_768
"""The least of one file."""
LEAST_SCALE: Final = 1 / 16
"""The least share of the usual bytes that is asked for over a slow link."""


class OnHost(Hashable, Protocol):
    """What is looked at on a host."""

    @property
    def host(self) -> str:
        """The host's name."""


P = TypeVar("P", bound=OnHost)


class TrackerFiles(ABC, Generic[P]):
    """The files of a kind of tracker, and what was seen of them last on the hosts they lie on.

    At those of this machine is looked anew whenever they are asked for.
    """

    def __init__(
        self,
        call: CallHost = call_blocking,
        word: str = "",
        tail: int = 0,
        head: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``word`` stands in the files' names, where writers keep their files open.

        Of each file that has changed the last ``tail`` bytes at most are brought while it is
        measured, of a new one the first ``head``.
        """
        self._tail, self._head = tail, head
        self._word, self._written_here = word, WrittenHere(word)
        self._call, self._now = call, now
        self._hosts: dict[str, Host] = {}
        self._scale: dict[str, float] = {}
        self._found: dict[P, Chosen | OSError] = {}
        self._known: dict[tuple[str, str], Told] = {}
        """The files of each host by their paths, as they were measured last."""

    @abstractmethod
    def below(self, place: P) -> Below:
        """Return what asks for the files at a place."""

    @abstractmethod
    def choose(self, place: P, found: Found, among: Among, zone: str) -> Chosen:
        """Return which of the files there are read; raises ``OSError``.

        ``zone`` is its host's (``+0100``), empty for this machine's.
        """

    def host(self, place: OnHost) -> Host:
        """Return the host that has a place."""
        if place.host not in self._hosts:
            self._hosts[place.host] = host_named(place.host, self._call, self._now)
        return self._hosts[place.host]

    def chosen(self, place: P) -> Chosen:
        """Return what the last look has found there, and look if none has; raises ``OSError``."""
        host = self.host(place)
        if host.here or place not in self._found:
            (self._found[place],) = self._looked(host, [place])
        found = self._found[place]
        if isinstance(found, OSError):
            raise found
        return found

    def seen(self, place: P) -> Seen:
        """Return the same with the files as they were measured; raises ``OSError``."""
        chosen = self.chosen(place)
        files = [(path, self._known.get((place.host, path), _LATER)) for path in chosen.paths]
        read = tuple(file for _, file in files if isinstance(file, Answer))
        unread = {
            path: why
            for path, why in files
            if isinstance(why, OSError) and not isinstance(why, FileNotFoundError)
        }
        return Seen(read, chosen.where, chosen.written, unread)

    def measured(self, host: str, path: str) -> Answer:
        """Return what a file was at the last look; raises ``OSError``."""
        told = self._known.get((host, path), _LATER)
        if isinstance(told, OSError):
            raise told
        return told

    async def look(self, places: Iterable[P]) -> None:
        """Look at places on hosts, of one host together; ``chosen`` tells what came of it."""
        groups: dict[str, list[P]] = {}
        for place in dict.fromkeys(places):
            if place.host != HERE_NAME:
                groups.setdefault(place.host, []).append(place)
        await asyncio.gather(*(self._host_look(own) for own in groups.values()))

    async def _host_look(self, places: Sequence[P]) -> None:
        host = self.host(places[0])
        try:
            found = await offload(self._looked, host, places, deadline=LOOKING + 1.0, key=host)
        except HostError as error:
            found = [error] * len(places)
        except TimeoutError as error:
            late = HostError(ErrorKind.TIMEOUT, f"{host.name}: {error}")
            found = [late] * len(places)
        self._found.update(zip(places, found, strict=True))

    def _looked(self, host: Host, places: Sequence[P]) -> list[Chosen | OSError]:
        """Look once; where the link is too slow for it the next look asks for less."""
        scale = self._scale.get(host.name, 1.0)
        try:
            found = list(self._look_at(host, places, scale))
        except HostError as error:
            self._pace(host, scale, [error])
            raise
        self._pace(host, scale, found)
        return found

    def _pace(self, host: Host, scale: float, found: Sequence[Chosen | OSError]) -> None:
        errors = [each for each in found if isinstance(each, HostError)]
        if any(each.kind is ErrorKind.TIMEOUT for each in errors):
            self._scale[host.name] = max(LEAST_SCALE, scale / 4)
        elif not errors:
            self._scale[host.name] = min(1.0, scale * 2)

    def _look_at(self, host: Host, places: Sequence[P], scale: float) -> Iterator[Chosen | OSError]:
        """Name the files, and measure those that are known, in one trip; new ones in another.

        Where only the second trip fails, the places without new files are known all the same.
        """
        until = time.monotonic() + LOOKING
        before = [self._found.get(place) for place in places]
        known = list({path for each in before if isinstance(each, Chosen) for path in each.paths})
        wanted = [self.below(place) for place in places]
        asks = self._asks(host, known, scale)
        try:
            word = "" if host.here else self._word
            answers, more = host.look(asks, LOOKING, folders=wanted, word=word)
        except RemoteError as error:
            raise HostError(error.kind, str(error)) from error
        except OSError as error:
            raise HostError(ErrorKind.BAD_ANSWER, f"{host.name}: {error.strerror}") from error
        listed, ends, zone = more
        among = self._written_here.among if host.here else Written(ends).among
        told = dict(zip(known, answers, strict=True))
        found = [
            self._choose(place, found_there(below, answer), among, "" if host.here else zone)
            for place, below, answer in zip(places, wanted, listed, strict=True)
        ]
        named = [path for each in found if isinstance(each, Chosen) for path in each.paths]
        new = [path for path in named if isinstance(told.get(path, _LATER), LaterError)]
        asks = self._asks(host, list(dict.fromkeys(new)), scale)
        try:
            answers = host.ask(asks, until - time.monotonic())
        except HostError as error:
            answers = [error] * len(asks)
        told |= zip((each.path for each in asks), answers, strict=True)
        self._keep(host, told)
        yield from (_unless_hung(each, told) for each in found)

    def _choose(
        self, place: P, found: Found | OSError, among: Among, zone: str
    ) -> Chosen | OSError:
        if isinstance(found, OSError):
            return found
        try:
            return self.choose(place, found, among, zone)
        except OSError as error:
            return error

    def _asks(self, host: Host, paths: Sequence[str], scale: float) -> list[Ask]:
        """Return what is wanted of files besides their sizes: what was written at their ends."""
        share = max(LEAST_NEWEST, NEWEST // max(1, len(paths)))
        last = int(scale * min(self._tail, share))
        return [Ask(path, self._wish(host, path, last)) for path in paths]

    def _wish(self, host: Host, path: str, last: int) -> Wish:
        if host.here or not self._tail:
            return Wish()
        known = self._known.get((host.name, path))
        if isinstance(known, Answer):
            return Wish((Span(known.size, last=last),), unless=known.version)
        head = (Span(0, self._head),) if self._head else ()
        return Wish((*head, Span(0, last=last)))

    def _keep(self, host: Host, told: Mapping[str, Told]) -> None:
        """Keep the bytes that came, where readers look for them first."""
        for path, file in told.items():
            if isinstance(file, Answer) and not host.here:
                keep(host, file)
                file = file._replace(pieces=())
            self._known[host.name, path] = file


class PatternFiles(TrackerFiles[Place]):
    """Places whose files are known by the pattern of their names: all there are read."""

    def __init__(
        self, pattern: str, call: CallHost = call_blocking, tail: int = 0, word: str = ""
    ) -> None:
        """``pattern`` is the shell's."""
        super().__init__(call, word, tail)
        self._pattern = pattern

    def below(self, place: Place) -> Below:
        """Return what asks for the files in a folder or, if it has none, in its folders."""
        most = MOST_HERE if place.here else MOST
        return Below(place.path, ((self._pattern,), (f"*/{self._pattern}",)), most)

    def choose(self, place: Place, found: Found, among: Among, zone: str) -> Chosen:
        """Return all of them; of several folders with who writes there."""
        if found.kind == "other":
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", place.path)
        where: Where = "folder"
        if found.kind == "file" or found.level:
            where = "below" if found.level else "file"
        several = where == "below" and len({each.rpartition("/")[0] for each in found.paths}) > 1
        return Chosen(found.paths, among(found.paths) if several else None, where=where)


_LATER: Final = LaterError(errno.EAGAIN, "it has not been looked up yet")


def _unless_hung(found: Chosen | OSError, told: Mapping[str, Told]) -> Chosen | OSError:
    """Return what was found, or that one of the files hangs or its host gave no answer."""
    paths = found.paths if isinstance(found, Chosen) else ()
    files = (told[path] for path in paths)
    return next((each for each in files if isinstance(each, TimeoutError | HostError)), found)
