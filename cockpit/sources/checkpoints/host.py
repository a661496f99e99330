"""The tree of one ssh host: one script names what lies in all roots of all runs, and lists more.

The host's own clock comes with each answer: a file's age is judged by the difference.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.runtime.ssh import RemoteError, run_script
from cockpit.sources.checkpoints.host_script import (
    DENIED,
    MISSING,
    NOT_A_FOLDER,
    OUT_OF_TIME,
    Answer,
    Line,
    reading_script,
    script_of,
    taken_apart,
    whole_script,
)
from cockpit.sources.checkpoints.listing import STEP_NAME, Link
from cockpit.sources.checkpoints.tree import Entry, Fetched, Level, Listed, ListingError, Piece
from cockpit.text.safe import clean

CAP: Final = 24_000_000
"""Bytes of one answer at most: some 150,000 files."""
FEW: Final = 4
"""Files up to which each is read by itself."""
GROUP: Final = 100
"""Checkpoints that are listed, or files that are read, under one time limit."""
SKEWED: Final = 5.0
"""Seconds from which on two clocks disagree."""
SPARE: Final = 0.5
_LIMIT: Final = 4096
_REASONS: Final = {
    MISSING: (ErrorKind.NOT_FOUND, "does not exist"),
    NOT_A_FOLDER: (ErrorKind.BAD_ANSWER, "is not a folder"),
    DENIED: (ErrorKind.PERMISSION, "may not be read (permission denied)"),
}


class _Below(NamedTuple):
    """A line, and its path below the folder that was asked for."""

    line: Line
    path: str


class HostTree:
    """Lists and reads the files of one ssh host (``None``: of this machine, by the same script)."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._skew = 0.0

    async def fetch(self, levels: Collection[str], walks: Sequence[str], until: float) -> Fetched:
        """Name what lies in folders, and list all below others, in one script."""
        named, listed = [*_groups(levels)], [*_groups(walks)]
        answers, cut = await self._run(script_of(named, listed), until)
        found = Listed({}, {})
        for number, group in enumerate(named):
            answer = answers.get(number, Answer())
            for path, lines in _reached(group, answer).items():
                found.levels[path] = self._level(lines)
            for place, status in answer.failed.items():
                found.levels[group[place]] = self._failed(group[place], status)
        for number, group in enumerate(listed, len(named)):
            answer = answers.get(number, Answer())
            for path, lines in _reached(group, answer).items():
                found.walks[path] = tuple(self._files(lines))
            if cut and group[0] not in found.walks and answer.lines:
                text = f"more than {len(answer.lines):,} files"
                found.walks[group[0]] = ListingError(ErrorKind.BAD_ANSWER, text, whole=False)
        return found

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""
        found: dict[Piece, bytes | ListingError] = {}
        whole = [piece for piece in pieces if piece.whole]
        try:
            if len(whole) > FEW:
                await self._whole(whole, found, until)
            left = [piece for piece in pieces if piece not in found]
            if left:
                await self._apart(left, found, until)
        except ListingError as error:
            return {**dict.fromkeys(pieces, error), **found}
        return found

    async def _whole(
        self, pieces: Sequence[Piece], found: dict[Piece, bytes | ListingError], until: float
    ) -> None:
        """Read small files by one program for many, where they are as long as they were."""
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        script = whole_script([[piece.path for piece in batch] for batch in batches])
        answers, _ = await self._run(script, until)
        for number, batch in enumerate(batches):
            data = next(iter(answers.get(number, Answer()).bytes), None)
            if data is not None and len(data) == sum(piece.length for piece in batch):
                for piece in batch:
                    found[piece], data = data[: piece.length], data[piece.length :]

    async def _apart(
        self, pieces: Sequence[Piece], found: dict[Piece, bytes | ListingError], until: float
    ) -> None:
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        words = [[(each.path, each.start, each.length) for each in batch] for batch in batches]
        answers, _ = await self._run(reading_script(words), until)
        for number, batch in enumerate(batches):
            for piece, data in zip(batch, answers.get(number, Answer()).bytes, strict=False):
                unread = ListingError(ErrorKind.PERMISSION, "it cannot be read", whole=False)
                found[piece] = unread if data is None else data

    async def _run(self, script: str, until: float) -> tuple[dict[int, Answer], bool]:
        """Return the answers, and whether there were too many; raises ``ListingError``."""
        left = until - asyncio.get_running_loop().time() - SPARE
        if left <= 0.0:
            return {}, False
        began = time.time()
        try:
            done = await run_script(self._host, script, deadline=left, cap=CAP)
        except RemoteError as error:
            clock, answers = taken_apart(error.out)
            if error.kind is ErrorKind.TIMEOUT and clock is not None:
                return answers, False  # what was listed in time counts; the rest comes later
            raise ListingError(error.kind, clean(error, _LIMIT)) from error
        except TimeoutError as error:
            raise ListingError(ErrorKind.TIMEOUT, clean(error, _LIMIT)) from error
        clock, answers = taken_apart(done.out)
        if clock is None:
            text = f"{self._host or 'this machine'}: its shell's answer cannot be parsed"
            said = clean(done.err.decode("utf-8", "replace").strip()[:200])
            raise ListingError(ErrorKind.BAD_ANSWER, f"{text}: {said}" if said else text)
        self._heed(clock + 0.5 - (began + time.time()) / 2)
        return answers, done.cut

    def _heed(self, skew: float) -> None:
        if abs(skew) < SKEWED:
            self._skew = 0.0
        elif abs(skew - self._skew) >= SKEWED:
            self._skew = skew

    def _failed(self, path: str, status: int) -> ListingError:
        kind, why = _REASONS.get(status, (ErrorKind.BAD_ANSWER, "cannot be listed"))
        where = f"{self._host}:{path}" if self._host else path
        return ListingError(kind, clean(f"{where} {why}", _LIMIT), whole=False)

    def _level(self, lines: Sequence[_Below]) -> Level:
        """Return what lies in a folder; of one folder under several names the likeliest one."""
        folders: dict[str, str] = {}
        links: list[Link] = []
        for line, name in sorted(lines, key=_likeliest):
            if line.type == "l":
                links.append(Link(name, "", there=False))
            elif line.type == "d" and folders.setdefault(line.inode, name) != name:
                links.append(Link(name, folders[line.inode], there=True))
        found = [each for each in lines if each.line.type != "l"]
        names, files = tuple(folders.values()), tuple(self._files(found))
        return Level(files, names, links=tuple(links), same=_same(lines))

    def _files(self, lines: Sequence[_Below]) -> Iterator[Entry]:
        for line, path in lines:
            if line.type != "d":
                tag = f"{line.size} {line.mtime} {line.inode}"
                yield Entry(path, line.size, line.mtime - self._skew, tag)


def _groups(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield folders that are likely to lie on one disk together, a bounded number of them."""
    disks: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        disks.setdefault(tuple(path.split("/")[:3]), []).append(path)
    for group in disks.values():
        for at in range(0, len(group), GROUP):
            yield group[at : at + GROUP]


def _reached(group: Sequence[str], answer: Answer) -> dict[str, list[_Below]]:
    """Return what lies below each folder of a group, of those that were listed to their end."""
    found: dict[str, list[_Below]] = {path: [] for path in group}
    known: dict[str, str] = {}
    last = ""
    for line in answer.lines:
        start, below = _start(line, found, known)
        if start in found:
            last = start
            if below:
                found[start].append(_Below(line, below))
    whole = answer.status is not None and answer.status != OUT_OF_TIME
    failed = {group[place] for place in answer.failed if place < len(group)}
    reached = len(group) if whole else group.index(last) if last else 0
    return {path: found[path] for path in group[:reached] if path not in failed}


def _start(line: Line, group: Collection[str], known: dict[str, str]) -> tuple[str, str]:
    """Return in which of the folders a line lies, and its path there."""
    if line.start:
        if line.start not in known:
            known[line.start] = _spelled(line.start.rstrip("/"), group)
        return known[line.start], line.path
    for path in group:
        for spelled in (f"{path}/", f"./{path}/", path.removeprefix("~") + "/"):
            before, found, below = line.path.partition(spelled)
            if found and (not before or path.startswith("~")):
                return path, below.lstrip("/")
    return "", ""


def _spelled(start: str, group: Collection[str]) -> str:
    """Return a folder as it was asked for: the host has put its home in place of ``~``."""
    if start in group:
        return start
    relative = (path for path in group if not path.startswith("/"))
    return next((each for each in relative if start.endswith(each.lstrip("~./"))), "")


def _same(lines: Sequence[_Below]) -> tuple[tuple[str, str], ...]:
    """Return each pair of names of one thing: links are followed, so their inode is its own."""
    by_inode: dict[tuple[str, str], list[str]] = {}
    for line, name in lines:
        if line.type in ("d", "f"):
            by_inode.setdefault((line.type, line.inode), []).append(name)
    return tuple(pair for names in by_inode.values() for pair in permutations(names, 2))


def _likeliest(below: _Below) -> tuple[bool, bool, str]:
    named = STEP_NAME.fullmatch(below.path) is not None
    return (not named, not any(map(str.isdecimal, below.path)), below.path)
