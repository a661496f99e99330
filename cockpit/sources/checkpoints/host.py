"""The tree of one ssh host: one script names what lies in all roots of all runs, and lists more.

The host's own clock comes with each answer: a file's age is judged by the difference.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

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
)
from cockpit.sources.checkpoints.listing import STEP_NAME
from cockpit.sources.checkpoints.tree import Entry, Fetched, Level, Listed, ListingError, Piece
from cockpit.text.safe import clean

CAP: Final = 24_000_000
"""Bytes of one answer at most: some 150,000 files."""
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
    OUT_OF_TIME: (ErrorKind.TIMEOUT, "its disk gives no answer in time"),
}


class HostTree:
    """Lists and reads the files of one ssh host (``None``: of this machine, by the same script)."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._skew = 0.0

    async def fetch(self, levels: Collection[str], walks: Sequence[str], until: float) -> Fetched:
        """Name what lies in folders, and list all below others, in one script."""
        wanted, groups = [*levels], [*_groups(walks)]
        answers, cut = await self._run(script_of(wanted, groups), until)
        found = Listed({}, {})
        for number, path in enumerate(wanted):
            level = self._level(path, answers.get(number, Answer()))
            if level is not None:
                found.levels[path] = level
        for number, group in enumerate(groups, len(wanted)):
            found.walks.update(self._walked(group, answers.get(number, Answer()), cut))
        return found

    async def read(
        self, pieces: Sequence[Piece], until: float
    ) -> Mapping[Piece, bytes | ListingError]:
        """Return what was read in time."""
        found: dict[Piece, bytes | ListingError] = {}
        if not pieces:
            return found
        batches = [pieces[at : at + GROUP] for at in range(0, len(pieces), GROUP)]
        try:
            answers, _ = await self._run(reading_script(batches), until)
        except ListingError as error:
            return dict.fromkeys(pieces, error)
        for number, batch in enumerate(batches):
            for piece, data in zip(batch, answers.get(number, Answer()).bytes, strict=False):
                unread = ListingError(ErrorKind.PERMISSION, "it cannot be read", whole=False)
                found[piece] = unread if data is None else data
        return found

    async def _run(self, script: str, until: float) -> tuple[dict[int, Answer], bool]:
        """Return the answers, and whether there were too many; raises ``ListingError``."""
        left = until - asyncio.get_running_loop().time() - SPARE
        if left <= 0.0:
            return {}, False
        began = time.time()
        try:
            done = await run_script(self._host, script, deadline=left, cap=CAP)
        except (RemoteError, TimeoutError) as error:
            kind = error.kind if isinstance(error, RemoteError) else ErrorKind.TIMEOUT
            raise ListingError(kind, clean(error, _LIMIT)) from error
        clock, answers = taken_apart(done.out)
        if clock is None:
            text = f"{self._host or 'this machine'}: what its shell answers is not understood"
            said = clean(done.err.decode("utf-8", "replace").strip()[:200])
            raise ListingError(ErrorKind.BAD_ANSWER, f"{text}: {said}" if said else text)
        self._heed(clock + 0.5 - (began + time.time()) / 2)
        return answers, done.cut

    def _heed(self, skew: float) -> None:
        if abs(skew) < SKEWED:
            self._skew = 0.0
        elif abs(skew - self._skew) >= SKEWED:
            self._skew = skew

    def _level(self, path: str, answer: Answer) -> Level | ListingError | None:
        """Return what lies in a folder; of one folder under several names the likeliest one."""
        status = answer.status
        if status in _REASONS:
            kind, why = _REASONS[status]
            where = f"{self._host}:{path}" if self._host else path
            return ListingError(kind, clean(f"{where} {why}", _LIMIT), whole=False)
        if status is None:
            return None
        folders: dict[str, str] = {}
        files = []
        for line in sorted(answer.lines, key=_likeliest):
            name = line.path.rpartition("/")[2] if not line.start else line.path
            if line.type == "d":
                folders.setdefault(line.inode, name)
            else:
                files.append(self._entry(line, name))
        return Level(tuple(files), tuple(folders.values()))

    def _walked(
        self, group: Sequence[str], answer: Answer, cut: bool
    ) -> Iterator[tuple[str, tuple[Entry, ...] | ListingError]]:
        """Yield the files of each folder that was listed to its end."""
        files: dict[str, list[Entry]] = {path: [] for path in group}
        last = ""
        for line in answer.lines:
            start, below = _start(line, group)
            if start not in files:
                continue
            last = start
            if below and line.type != "d":
                files[start].append(self._entry(line, below))
        whole = answer.status is not None and answer.status != OUT_OF_TIME
        reached = len(group) if whole else group.index(last) if last else 0
        for path in group[:reached]:
            yield path, tuple(files[path])
        if cut and not whole and reached == 0 and last:
            text = f"more than {len(files[last]):,} files"
            yield last, ListingError(ErrorKind.BAD_ANSWER, text, whole=False)

    def _entry(self, line: Line, path: str) -> Entry:
        tag = f"{line.size} {line.mtime} {line.inode}"
        return Entry(path, line.size, line.mtime - self._skew, tag)


def _groups(walks: Sequence[str]) -> Iterator[list[str]]:
    """Yield the folders of one parent together, a bounded number under one time limit."""
    parents: dict[str, list[str]] = {}
    for path in walks:
        parents.setdefault(path.rpartition("/")[0], []).append(path)
    for group in parents.values():
        for at in range(0, len(group), GROUP):
            yield group[at : at + GROUP]


def _start(line: Line, group: Sequence[str]) -> tuple[str, str]:
    """Return in which of the folders a line lies, and its path there."""
    if line.start:
        return _spelled(line.start.rstrip("/"), group), line.path
    for path in group:
        for spelled in (f"{path}/", f"./{path}/"):
            if line.path.startswith(spelled):
                return path, line.path[len(spelled) :].lstrip("/")
    return "", ""


def _spelled(start: str, group: Sequence[str]) -> str:
    """Return a folder as it was asked for: the host has put its home in place of ``~``."""
    if start in group:
        return start
    tails = (path for path in group if start.endswith(path.removeprefix("~").lstrip("./")))
    return next(tails, "")


def _likeliest(line: Line) -> tuple[bool, str]:
    return (STEP_NAME.fullmatch(line.path.rpartition("/")[2]) is None, line.path)
