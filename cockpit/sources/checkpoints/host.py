"""The tree of one machine: all roots of all runs of a host are listed in one round trip.

On this machine the same functions are called in process, in the thread that asks: it is one of a
look that has a deadline of its own.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.here import ask_host
from cockpit.hosts.link import Answers, Ask, ask, called, problem_of
from cockpit.hosts.walking import stamped
from cockpit.model.facet import ErrorKind, Problem
from cockpit.sources.checkpoints.contents import (
    AWAY,
    HERE,
    NO_STAMPS,
    Entry,
    Level,
    Limits,
    ListingError,
    Opened,
    Piece,
    Stamp,
    TreeListing,
    Walk,
    opened_away,
    opened_here,
)
from cockpit.sources.checkpoints.listing import Link
from cockpit.text.safe import clean

LIMIT: Final = 6.0
"""Seconds that one question may take."""
STAMPS: Final = 1.0
"""Seconds for which it is looked whether known trees have changed."""
MOST: Final = 150_000
"""Files of one answer at most."""
GROUP: Final = 100
"""Checkpoints that are listed, or files that are read, by one question."""
SKEWED: Final = 5.0
"""Seconds from which on two clocks disagree."""
SPARE: Final = 0.5
_LIMIT: Final = 4096


class Row(NamedTuple):
    """One thing in or below a folder: its type (``d``, ``f``, ``l`` …), its path from there."""

    type: str
    path: str
    size: int
    mtime: float
    inode: tuple[int, int]


class _Found(NamedTuple):
    rows: Sequence[Row]
    error: tuple[int, str] | None
    more: Mapping[str, Any]


class HostTree:
    """Lists and reads the files of one ssh host (``None``: of this machine)."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self.limits: Limits = HERE if host is None else AWAY
        self._skew = 0.0
        self._hung: set[tuple[str, ...]] = set()
        """Disks that gave no answer: no more than one question waits for each of them."""

    async def fetch(
        self,
        levels: Collection[str],
        walks: Sequence[str],
        until: float,
        markers: Collection[str] = (),
        stamps: Mapping[str, Stamp] = NO_STAMPS,
    ) -> TreeListing:
        """Name what lies in folders, and list all below others, in one round trip."""
        own, found = sorted(markers), TreeListing()
        asked: dict[Ask, tuple[Sequence[str], Sequence[str]]] = {}
        for group in _groups(levels):
            asked[self._listing(group, (), own)] = group, ()
        for group in _groups(walks):
            if _disk(group[0]) not in self._hung:
                asked[self._listing((), group, own)] = (), group
        changes = _changes(stamps)
        answers = dict(await self._answers((*asked, *changes), until))
        for each, paths in changes.items():
            said = answers.pop(each, ())
            found.changed.update(paths[at] for at in (() if isinstance(said, Problem) else said))
        for each, answer in answers.items():
            named, walked = asked[each]
            self._hung.discard(_disk((named or walked)[0]))
            if isinstance(answer, Problem):
                if answer.kind is ErrorKind.TIMEOUT:
                    self._hung.add(_disk((named or walked)[0]))
                unknown = ListingError(answer.kind, clean(answer.message, _LIMIT), whole=False)
                found.levels.update(dict.fromkeys(named, unknown))
                continue
            self._take(answer, named, walked, own, found)
        return found

    def _take(
        self,
        answer: Mapping[str, Any],
        named: Sequence[str],
        walked: Sequence[str],
        markers: Collection[str],
        found: TreeListing,
    ) -> None:
        """Take in what one question has told, as far as there was time."""
        outcomes = _outcomes(answer)
        for path in named[: len(answer["levels"])]:
            found.levels[path] = self._level(path, next(outcomes))
        for path in walked[: len(answer["walks"])]:
            found.walks[path] = self._walk(path, next(outcomes), markers)
        if answer.get("over") and walked and walked[0] not in found.walks:
            text = f"more than {MOST:,} files"
            found.walks[walked[0]] = ListingError(ErrorKind.BAD_ANSWER, text, whole=False)

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        asked = {_reading(batch): batch for batch in batches}
        found: dict[Piece, bytes | ListingError] = {}
        try:
            answers = await self._answers(asked, until)
        except ListingError as error:
            return dict.fromkeys(pieces, error)
        for each, answer in answers.items():
            if isinstance(answer, Problem):
                continue
            for piece, data in zip(asked[each], answer, strict=True):
                if not isinstance(data, bytes):
                    why = clean(data[0], _LIMIT)
                    data = ListingError(ErrorKind.PERMISSION, why, whole=False)
                found[piece] = data
        return found

    async def opened(self, files: Sequence[Entry], until: float) -> Mapping[str, Opened]:
        """Return what files that are checkpoints say of themselves."""
        if self._host is None:
            return {each.path: opened_here(each) for each in files}
        return await opened_away(self, files, until)

    def _listing(self, levels: Sequence[str], walks: Sequence[str], markers: list[str]) -> Ask:
        most = MOST if self._host is not None else 1 << 62
        return ask(
            "a checkpoint root", "list_trees", levels=list(levels), walks=list(walks),
            seconds=LIMIT, most=most, markers=markers,
        )  # fmt: skip

    async def _answers(self, asked: Iterable[Ask], until: float) -> Answers:
        """Return what was answered in time; raises ``ListingError`` where there is no answer."""
        wanted = list(asked)
        if self._host is None:
            return {each: _here(each) for each in wanted if time.monotonic() < until}
        left = until - time.monotonic() - SPARE
        if left <= 0.0 or not wanted:
            return {}
        began = time.time()
        answers = await ask_host(self._host, [_PRESENT, *wanted], left, patience=LIMIT + 1.0)
        present = answers[_PRESENT]
        if isinstance(present, Problem):
            raise ListingError(present.kind, clean(present.message, _LIMIT))
        clocks = [each["now"] for each in answers.values() if isinstance(each, dict)]
        if clocks:
            self._heed(clocks[-1] - (began + time.time()) / 2)
        return {each: answers[each] for each in wanted}

    def _heed(self, skew: float) -> None:
        if abs(skew) < SKEWED:
            self._skew = 0.0
        elif abs(skew - self._skew) >= SKEWED:
            self._skew = skew

    def _failed(self, path: str, number: int, text: str) -> ListingError:
        """Return why a folder cannot be listed."""
        kind, why = _REASONS.get(number, (ErrorKind.BAD_ANSWER, text.lower()))
        where = f"{self._host}:{path}" if self._host else path
        return ListingError(
            kind, clean(f"{where} {why}", _LIMIT), whole=False, missing=number == errno.ENOENT,
            why=clean(text.lower(), _LIMIT),
        )  # fmt: skip

    def _level(self, path: str, found: _Found) -> Level | ListingError:
        """Return what lies directly in a folder."""
        if found.error is not None:
            return self._failed(path, *found.error)
        nowhere = {row.path for row in found.rows if row.type == "l"}
        links = [
            Link(name, target, name not in nowhere, real)
            for name, target, real in sorted(found.more.get("links", ()))
        ]
        return Level(
            self._files(row for row in found.rows if row.type not in ("d", "l")),
            tuple(row.path for row in found.rows if row.type == "d"),
            links=tuple(links),
            above=tuple((name, real) for name, real in found.more.get("above", ())),
            twins=_twins(found.rows),
            real=found.more.get("real", path),
        )

    def _walk(self, path: str, found: _Found, markers: Collection[str]) -> Walk | ListingError:
        if found.error is not None:
            return self._failed(path, *found.error)
        files = self._files(found.rows)
        names = stamped([file.path for file in files], markers)
        mtime = found.more["mtime"] / 1e6 - self._skew
        return Walk(files, mtime, Stamp(tuple(names), found.more["stamp"]))

    def _files(self, rows: Iterable[Row]) -> tuple[Entry, ...]:
        return tuple(
            Entry(row.path, row.size, row.mtime - self._skew, f"{row.size} {row.mtime} {row.inode}")
            for row in rows
        )


_REASONS: Final = {
    errno.ENOENT: (ErrorKind.NOT_FOUND, "does not exist"),
    errno.ENOTDIR: (ErrorKind.NOT_FOUND, "is not a folder"),
    errno.EACCES: (ErrorKind.PERMISSION, "may not be read (permission denied)"),
}
_PRESENT: Final = ask("its agent", "read_pieces", pieces=[])
"""Asked with everything: where this has an answer, another that has none is its own disk's."""


def _here(each: Ask) -> Any:  # noqa: ANN401 - as the agent's
    try:
        return called(each)
    except OSError as error:
        return problem_of(error)


def _reading(batch: Sequence[Piece]) -> Ask:
    pieces = [[piece.path, piece.start, piece.length] for piece in batch]
    return ask("a checkpoint's files", "read_pieces", pieces=pieces)


def _changes(stamps: Mapping[str, Stamp]) -> dict[Ask, Sequence[str]]:
    """Return the questions which of known trees have changed, one for each disk."""
    return {
        ask(
            "known checkpoints", "changed_trees", seconds=STAMPS,
            trees=[[path, stamps[path].names, stamps[path].value] for path in group],
        ): group
        for group in _groups(stamps)
    }  # fmt: skip


def _disk(path: str) -> tuple[str, ...]:
    """Return what two folders share that are likely to lie on one disk together."""
    return tuple(path.split("/")[:3])


def _groups(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield folders that are likely to lie on one disk together, a bounded number of them."""
    disks: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        disks.setdefault(_disk(path), []).append(path)
    for group in disks.values():
        for at in range(0, len(group), GROUP):
            yield group[at : at + GROUP]


def _outcomes(answer: Mapping[str, Any]) -> Iterator[_Found]:
    """Yield what was found in each folder, the levels first; what cannot be read raises."""
    mtime = inode = device = 0
    for each in (*answer["levels"], *answer["walks"]):
        rows = []
        for kind, path, size, *steps in each["rows"]:
            mtime, inode, device = mtime + steps[0], inode + steps[1], device + steps[2]
            rows.append(Row(kind, path, size, mtime / 1e6, (device, inode)))
        number, text = each.get("error", (0, ""))
        yield _Found(rows, (number, text) if "error" in each else None, each)


def _twins(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Return what is there under several names, by name: links are followed."""
    names: dict[tuple[str, tuple[int, int]], list[str]] = {}
    for row in rows:
        if row.type in ("d", "f"):
            names.setdefault((row.type, row.inode), []).append(row.path)
    several = ((inode, each) for (_, inode), each in names.items() if len(each) > 1)
    return {name: inode for inode, each in several for name in each}
