"""Which of a tracker's folders and runs are there, and which run is trained now.

On ssh hosts they are asked for once per look, for all runs of a host.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.offload import offload
from cockpit.sources.logs.pieces import Answer, Ask, LaterError, Told
from cockpit.sources.logs.ranged import Span, Wish
from cockpit.sources.logs.remote import Host, HostError, host_named, keep
from cockpit.sources.scripts import (
    Record,
    broken_off,
    failure,
    looking,
    new_mark,
    paths_in,
    told,
    word_of,
    writing,
    written_in,
)
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


LIMIT: Final = 2
"""Seconds that looking through all folders may take, and through one of them apart."""
MOST: Final = 500
"""Files that are named of one folder: the last ones, as their names sort."""
LOOKING: Final = 8.0
"""Seconds for a trip that looks through folders, and for the one that measures what was found."""
CAP: Final = 16 << 20

_ONE: Final = r"""
say() {
  [ $# -gt %(most)d ] && shift $(($# - %(most)d))
  for f; do [ -f "$f" ] && { printf '%%s\0' "$f"; n=1; }; done
}
one() {
  d=$2 n=0; mark dir "$1"
  if [ -f "$d" ]; then mark file; say "$d"; return; fi
  if ! [ -e "$d" ]; then
    case $(ls -d "$d" 2>&1) in *ermission*) mark fail denied;; *) mark fail missing;; esac; return
  fi
  [ -d "$d" ] && [ -r "$d" ] && [ -x "$d" ] || { mark fail denied; return; }
  mark folder; say "$d"/%(pattern)s
  [ $n = 1 ] || { mark below; say "$d"/*/%(pattern)s; }
}
while [ $# -gt 1 ]; do one "$1" "$2"; mark done "$1"; shift 2; done
"""

Where = Literal["file", "folder", "below"]
"""The place is the file itself, a folder that has it, or one whose folders have it."""


class Seen(NamedTuple):
    """What there is at a place: its files as they were measured, and where they lie.

    ``written`` are the paths of those that a process there writes, ``None`` where none can tell.
    """

    files: tuple[Answer, ...]
    where: Where
    written: frozenset[str] | None = None


class Named(NamedTuple):
    """The same before it is measured."""

    paths: tuple[str, ...]
    where: Where


@dataclass(frozen=True)
class Listing:
    """A script that names the files at some paths of a host, and the reader of its output.

    In a folder files are named that match ``pattern``; where none does, those of its folders.
    ``word`` stands in the names of those files: which of them processes write is told, too.
    """

    paths: Sequence[str]
    pattern: str
    word: str = ""
    mark: str = field(default_factory=new_mark)

    @property
    def script(self) -> str:
        """The lines to run; raises ``ValueError`` for a path that no shell can be given."""
        words = [f"{number} {word_of(path)}" for number, path in enumerate(self.paths)]
        one = _ONE % {"most": MOST, "pattern": self.pattern}
        found = looking(one, words, self.mark, LIMIT)
        return found + writing(self.word) if self.word else found

    def answers(self, out: bytes) -> list[Named | OSError]:
        """Return what was found at each path."""
        pairs = zip(told(out, self.mark, len(self.paths)), self.paths, strict=True)
        return [broken_off() if own is None else _named(own, path) for own, path in pairs]


def _named(own: Iterable[Record], path: str) -> Named | OSError:
    found: Named | OSError = OSError(errno.EIO, "its host's answer cannot be read")
    for words, payload in own:
        if words[0] == "fail":
            return failure(words[-1], path, LIMIT)
        where = next((each for each in get_args(Where) if each == words[0]), None)
        if where is not None:
            found = Named(tuple(dict.fromkeys(paths_in(payload))), where)
    return found


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
        """Name the files in one trip and measure them in a second one. Blocking."""
        listing = Listing([place.path for place in places], self._pattern, self._word)
        out = host.script(listing.script, LOOKING, CAP)
        named, written = listing.answers(out), written_in(out, listing.mark)
        paths = dict.fromkeys(
            path for each in named if not isinstance(each, OSError) for path in each.paths
        )
        asks = [Ask(path, self._wish(host, path)) for path in paths]
        told = dict(zip(paths, host.ask(asks, LOOKING), strict=True))
        self._keep(host, told)
        for each in named:
            if isinstance(each, OSError):
                yield each
                continue
            files = [told[path] for path in each.paths]
            hung = next((file for file in files if isinstance(file, TimeoutError)), None)
            whole = tuple(file._replace(pieces=()) for file in files if isinstance(file, Answer))
            held = written.among(file.path for file in whole)
            yield hung if hung is not None else Seen(whole, each.where, held)

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
