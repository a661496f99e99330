"""Trees of files on a machine: what lies in folders and below them, and bytes of many files.

One call lists many folders, each with an outcome of its own, until its time is over.
"""

from __future__ import annotations

import base64
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from cockpit.hosts.agent import CALLS

KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}


class _Rows:
    """Rows ``[kind, name, size, mtime, inode, device]``; times, inodes as steps from the last row.

    Times are microseconds. Steps are small, and take few bytes on their way.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last = (0, 0, 0)

    def row(self, name: str, found: os.stat_result) -> list[Any]:
        self.count += 1
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "?")
        now = (found.st_mtime_ns // 1000, found.st_ino, found.st_dev)
        steps = [now[at] - self._last[at] for at in range(3)]
        self._last = now
        return [kind, name, found.st_size, *steps]


def list_trees(levels: list[str], walks: list[str], seconds: float, most: int) -> dict[str, Any]:
    """Return what lies directly in some folders, and every file below others.

    Links are followed in the first, and not in the others. An outcome is the rows of a folder or
    ``[errno, text]``. Folders for which there was no time, or which would make it more than
    ``most`` rows, are left out from the first one on; ``over`` tells of the latter.
    """
    until, rows, over = time.monotonic() + seconds, _Rows(), False
    answer: dict[str, Any] = {"levels": [], "walks": [], "now": time.time()}
    for key, paths, lister in (("levels", levels, _level), ("walks", walks, _walk)):
        for path in paths:
            found: dict[str, Any] = {"rows": []}
            try:
                for name, status in lister(os.path.expanduser(path)):  # noqa: PTH111
                    found["rows"].append(rows.row(name, status))
                    over = rows.count > most
                    if over or time.monotonic() > until:
                        return {**answer, "over": over and rows.count}
            except OSError as error:
                found["error"] = [error.errno or 0, error.strerror or str(error)]
            answer[key].append(found)
    return answer


def _level(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as listing:
        for entry in listing:
            try:
                yield entry.name, entry.stat()
            except OSError:
                if not entry.is_symlink() and os.path.lexists(entry.path):
                    raise
                yield from _itself(entry)  # a link that leads nowhere, or in a circle


def _itself(entry: os.DirEntry[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a link that leads nowhere; nothing of what has just gone."""
    try:
        yield entry.name, entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return


def _walk(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every file below a folder; a subfolder that vanishes meanwhile is left out."""
    waiting = [("", path)]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            listing = os.scandir(folder)
        except FileNotFoundError:
            if not prefix:
                raise
            continue
        with listing:
            for entry in listing:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{prefix}{entry.name}/", entry.path))
                    continue
                for _, found in _itself(entry):
                    yield f"{prefix}{entry.name}", found


def read_pieces(pieces: list[list[Any]]) -> list[Any]:
    """Return the bytes of each ``[path, start, length]``, ``None`` for what cannot be read.

    Text comes as it is, anything else as ``[base64]``.
    """
    return [_piece(*piece) for piece in pieces]


def _piece(path: str, start: int, length: int) -> Any:  # noqa: ANN401 - as said above
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(os.path.expanduser(path), flags)  # noqa: PTH111
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = os.pread(handle, length, start)
        finally:
            os.close(handle)
    except OSError:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return [base64.b64encode(data).decode("ascii")]


for _each in (list_trees, read_pieces):
    CALLS[_each.__name__] = _each
