"""The tree of one machine: all roots of all runs are listed in one round trip."""

from __future__ import annotations

import asyncio
import base64
import errno
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final, NamedTuple

from cockpit.hosts.here import ask_host
from cockpit.hosts.link import Answers, Ask, ask
from cockpit.model.facet import ErrorKind, Problem
from cockpit.sources.checkpoints.contents import Entry, Fetched, Level, ListingError, Piece
from cockpit.sources.checkpoints.contents import TreeListing as Listed
from cockpit.sources.checkpoints.listing import STEP_NAME, Link
from cockpit.text.safe import clean

LIMIT: Final = 6.0
"""Seconds that one question may take."""
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


class HostTree:
    """Lists and reads the files of one ssh host (``None``: of this machine)."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._skew = 0.0
        self._hung: set[tuple[str, ...]] = set()
        """Disks that gave no answer: no more than one question waits for each of them."""

    async def fetch(self, levels: Collection[str], walks: Sequence[str], until: float) -> Fetched:
        """Name what lies in folders, and list all below others, in one round trip."""
        asked: dict[Ask, tuple[Sequence[str], Sequence[str]]] = {}
        for group in _groups(levels):
            asked[_listing(group, ())] = group, ()
        for group in _groups(walks):
            if _disk(group[0]) not in self._hung:
                asked[_listing((), group)] = (), group
        found = Listed({}, {})
        for each, answer in (await self._answers(asked, until)).items():
            named, walked = asked[each]
            self._hung.discard(_disk((named or walked)[0]))
            if isinstance(answer, Problem):
                if answer.kind is ErrorKind.TIMEOUT:
                    self._hung.add(_disk((named or walked)[0]))
                unknown = ListingError(answer.kind, clean(answer.message, _LIMIT), whole=False)
                found.levels.update(dict.fromkeys(named, unknown))
                continue
            outcomes = _outcomes(answer)
            for path in named[: len(answer["levels"])]:
                found.levels[path] = self._level(path, next(outcomes))
            for path in walked[: len(answer["walks"])]:
                found.walks[path] = self._walk(path, next(outcomes))
            if answer.get("over") and walked and walked[0] not in found.walks:
                text = f"more than {MOST:,} files"
                found.walks[walked[0]] = ListingError(ErrorKind.BAD_ANSWER, text, whole=False)
        return found

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
                unread = ListingError(ErrorKind.PERMISSION, "it cannot be read", whole=False)
                found[piece] = unread if data is None else _bytes(data)
        return found

    async def _answers(self, asked: Iterable[Ask], until: float) -> Answers:
        """Return what was answered in time; raises ``ListingError`` where there is no answer."""
        left = until - asyncio.get_running_loop().time() - SPARE
        wanted = list(asked)
        if left <= 0.0 or not wanted:
            return {}
        began = time.time()
        answers = await ask_host(self._host, [_PRESENT, *wanted], left, patience=LIMIT + 1.0)
        present = answers[_PRESENT]
        if isinstance(present, Problem):
            raise ListingError(present.kind, clean(present.message, _LIMIT))
        clocks = [each["now"] for each in answers.values() if isinstance(each, dict)]
        if clocks and self._host is not None:
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
        return ListingError(kind, clean(f"{where} {why}", _LIMIT), whole=False)

    def _level(self, path: str, found: _Found) -> Level | ListingError:
        """Return what lies in a folder; of one folder under several names the likeliest one."""
        if found.error is not None:
            return self._failed(path, *found.error)
        folders: dict[tuple[int, int], str] = {}
        links: list[Link] = []
        for row in sorted(found.rows, key=_likeliest):
            if row.type == "l":
                links.append(Link(row.path, "", there=False))
            elif row.type == "d" and folders.setdefault(row.inode, row.path) != row.path:
                links.append(Link(row.path, folders[row.inode], there=True))
        files = [row for row in found.rows if row.type != "l"]
        return Level(
            self._files(files), tuple(folders.values()), links=tuple(links), same=_same(found.rows)
        )

    def _walk(self, path: str, found: _Found) -> tuple[Entry, ...] | ListingError:
        if found.error is not None:
            return self._failed(path, *found.error)
        return self._files(found.rows)

    def _files(self, rows: Sequence[Row]) -> tuple[Entry, ...]:
        return tuple(
            Entry(row.path, row.size, row.mtime - self._skew, f"{row.size} {row.mtime} {row.inode}")
            for row in rows
            if row.type != "d"
        )


_REASONS: Final = {
    errno.ENOENT: (ErrorKind.NOT_FOUND, "does not exist"),
    errno.ENOTDIR: (ErrorKind.BAD_ANSWER, "is not a folder"),
    errno.EACCES: (ErrorKind.PERMISSION, "may not be read (permission denied)"),
}


_PRESENT: Final = ask("its agent", "read_pieces", pieces=[])
"""Asked with everything: where this has an answer, another that has none is its own disk's."""


def _listing(levels: Sequence[str], walks: Sequence[str]) -> Ask:
    return ask(
        "a checkpoint root", "list_trees", levels=list(levels), walks=list(walks),
        seconds=LIMIT, most=MOST,
    )  # fmt: skip


def _reading(batch: Sequence[Piece]) -> Ask:
    pieces = [[piece.path, piece.start, piece.length] for piece in batch]
    return ask("a checkpoint's files", "read_pieces", pieces=pieces)


def _bytes(said: str | Sequence[str]) -> bytes:
    return said.encode() if isinstance(said, str) else base64.b64decode(said[0])


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
        yield _Found(rows, (number, text) if "error" in each else None)


def _same(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Return each pair of names of one thing: links are followed, so their inode is its own."""
    by_inode: dict[tuple[str, tuple[int, int]], list[str]] = {}
    for row in rows:
        if row.type in ("d", "f"):
            by_inode.setdefault((row.type, row.inode), []).append(row.path)
    return tuple(pair for names in by_inode.values() for pair in permutations(names, 2))


def _likeliest(row: Row) -> tuple[bool, bool, str]:
    named = STEP_NAME.fullmatch(row.path) is not None
    return (not named, not any(map(str.isdecimal, row.path)), row.path)
