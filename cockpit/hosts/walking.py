"""Trees of files on a machine: what lies in folders and below them, and bytes of many files.

One call lists many folders, each with an outcome of its own, until its time is over.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS, _text

KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}
BESIDE = 10_000
"""Names of the folder above that are looked at for links."""
WATCHED = 32
"""Folders inside a tree whose times are part of its stamp."""


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


def list_trees(
    levels: list[str], walks: list[str], seconds: float, most: int, markers: list[str]
) -> dict[str, Any]:
    """Return what lies directly in some folders, and every file below others.

    An outcome has the rows of a folder, and ``error`` is ``[errno, text]``. Rows are of what links
    lead to; a link that leads nowhere is a row of its own kind. Of a level come ``links`` too
    (``[name, target, real path]``), those in the folder above (``above``, without target), and its
    ``real`` path where that is another one. Links to folders are not followed in a walk, which has
    its folder's ``mtime`` and a ``stamp`` (``changed_trees``).

    Folders for which there was no time, or which would make it more than ``most`` rows, are left
    out from the first one on; ``over`` tells of the latter.
    """
    until, rows, over = time.monotonic() + seconds, _Rows(), False
    answer: dict[str, Any] = {"levels": [], "walks": [], "now": time.time()}
    for key, paths, listed in (("levels", levels, _Level), ("walks", walks, _Walk)):
        for path in paths:
            found: dict[str, Any] = {"rows": []}
            one = listed(path, markers)
            try:
                for name, status in one.rows():
                    found["rows"].append(rows.row(name, status))
                    over = rows.count > most
                    if over or time.monotonic() > until:
                        return {**answer, "over": over and rows.count}
            except OSError as error:
                found["error"] = [error.errno or 0, error.strerror or str(error)]
            else:
                found.update(one.more())
            answer[key].append(found)
    return answer


class _Level:
    """What lies directly in a folder."""

    def __init__(self, path: str, markers: Collection[str]) -> None:
        self._asked = path
        self._path = os.path.expanduser(path)  # noqa: PTH111
        self._links: list[list[str]] = []

    def rows(self) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(self._path) as listing:
            for entry in listing:
                try:
                    found = entry.stat()
                except OSError:
                    if not entry.is_symlink() and os.path.lexists(entry.path):
                        raise
                    yield from _itself(entry)  # a link that leads nowhere, or in a circle
                else:
                    yield entry.name, found
                if entry.is_symlink():
                    self._link(entry)

    def _link(self, entry: os.DirEntry[str]) -> None:
        try:
            target = os.readlink(entry.path)  # noqa: PTH115
        except OSError:  # it has just gone
            return
        self._links.append([entry.name, target, os.path.realpath(entry.path)])

    def more(self) -> dict[str, Any]:
        real = os.path.realpath(self._path)
        found = {
            "links": self._links,
            "above": _links_in(os.path.dirname(os.path.abspath(self._path))),  # noqa: PTH100,PTH120
            "real": "" if real == self._asked else real,
        }
        return {key: value for key, value in found.items() if value}


def _links_in(folder: str) -> list[list[str]]:
    """Return the links among the first names of a folder; none where it cannot be listed."""
    found = []
    try:
        with os.scandir(folder) as listing:
            for count, entry in enumerate(listing):
                if count >= BESIDE:
                    break
                if entry.is_symlink():
                    found.append([entry.name, os.path.realpath(entry.path)])
    except OSError:
        return []
    return found


def led_to(paths: list[str], folders: list[str]) -> list[Any]:
    """Return paths with their links followed, and what the links in and below folders lead to.

    A folder that is not there has none.
    """
    real = [os.path.realpath(os.path.expanduser(path)) for path in paths]  # noqa: PTH111
    return [real, [_all_links(os.path.expanduser(folder)) for folder in folders]]  # noqa: PTH111


def _all_links(folder: str) -> list[str]:
    """Return what the links in a folder lead to, and those in its folders as far as they list."""
    found, inner = _links_and_folders(folder)
    for each in inner:
        with contextlib.suppress(OSError):
            found += _links_and_folders(each)[0]
    return found


def _links_and_folders(folder: str) -> tuple[list[str], list[str]]:
    links, folders = [], []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listing:
        for entry in listing:
            if entry.is_symlink():
                links.append(os.path.realpath(entry.path))
            elif entry.is_dir():
                folders.append(entry.path)
    return links, folders


def _itself(entry: os.DirEntry[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a link that leads nowhere; nothing of what has just gone."""
    try:
        yield entry.name, entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return


class _Walk:
    """Every file below a folder; a subfolder that vanishes meanwhile is left out."""

    def __init__(self, path: str, markers: Collection[str]) -> None:
        self._path = os.path.expanduser(path)  # noqa: PTH111
        self._markers = markers
        self._names: list[str] = []
        self._mtime = 0
        self._times: dict[str, str] = {}
        """By folder or marker its part of the stamp, as it was before it was read."""

    def rows(self) -> Iterator[tuple[str, os.stat_result]]:
        waiting = [("", self._path)]
        while waiting:
            prefix, folder = waiting.pop()
            try:
                own = os.stat(folder)  # noqa: PTH116
                listing = os.scandir(folder)
            except FileNotFoundError:
                if not prefix:
                    raise
                continue
            self._mtime = self._mtime or own.st_mtime_ns // 1000
            self._times[prefix] = _part(prefix, own)
            with listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{prefix}{entry.name}/", entry.path))
                        continue
                    found = _followed(entry)
                    if found is None:
                        continue
                    name = f"{prefix}{entry.name}"
                    self._names.append(name)
                    if name in self._markers:
                        self._times[name] = _part(name, found)
                    yield name, found

    def more(self) -> dict[str, Any]:
        names = stamped(self._names, self._markers)
        return {"mtime": self._mtime, "stamp": _stamp(self._times.get(name, "") for name in names)}


def _followed(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return what a link leads to, else the thing itself; ``None`` for what has just gone."""
    try:
        return entry.stat()
    except FileNotFoundError:
        found = next(_itself(entry), None)
        return None if found is None else found[1]


def stamped(files: Collection[str], markers: Collection[str]) -> list[str]:
    """Return what in a tree of such files tells, by its times, that something has changed.

    That is the folder, its first subfolders, outer ones first, and its markers: a file that goes
    or comes shows there, and so does a marker that is written again.
    """
    folders = {file.rpartition("/")[0] for file in files} - {""}
    every = {
        "/".join(parts[:count]) + "/"
        for parts in (folder.split("/") for folder in folders)
        for count in (1, len(parts))
    }
    outer = sorted(every, key=lambda name: (name.count("/"), name))[:WATCHED]
    return ["", *outer, *sorted(set(files) & set(markers))]


def _part(name: str, found: os.stat_result) -> str:
    plain = bool(name) and not name.endswith("/")
    return f"{name} {found.st_mtime_ns} {found.st_size if plain else found.st_ino}"


def _stamp(parts: Iterator[str]) -> int:
    return zlib.crc32("\n".join(parts).encode("utf-8", "surrogateescape"))


def changed_trees(trees: list[list[Any]], seconds: float) -> list[int]:
    """Return which of ``[path, names, stamp]`` have another stamp now, by their numbers.

    ``names`` are those of ``stamped``. Those for which there was no time are as they were.
    """
    until, changed = time.monotonic() + seconds, []
    for number, (path, names, stamp) in enumerate(trees):
        if time.monotonic() > until:
            break
        folder = os.path.expanduser(path)  # noqa: PTH111
        if _stamp(_time_of(folder, name) for name in names) != stamp:
            changed.append(number)
    return changed


def _time_of(folder: str, name: str) -> str:
    try:
        return _part(name, os.stat(f"{folder}/{name}"))  # noqa: PTH116
    except OSError:
        return ""


def read_pieces(pieces: list[list[Any]]) -> list[Any]:
    """Return the bytes of each ``[path, start, length]``, or ``[why it cannot be read]``."""
    return [_piece(*piece) for piece in pieces]


def _piece(path: str, start: int, length: int) -> Any:  # noqa: ANN401 - as said above
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(os.path.expanduser(path), flags)  # noqa: PTH111
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ["not a regular file"]
            return os.pread(handle, length, start)
        finally:
            os.close(handle)
    except OSError as error:
        return [(error.strerror or str(error)).lower()]


def texts(folder: str, most: int, holding: str, lacking: str) -> list[list[str]]:
    """Return ``[name, text]`` of those of a folder's ``most`` last files by name.

    Only of those whose text holds the one word and not the other. Names with a dot are no notes.
    """
    place = Path(os.path.expanduser(folder))  # noqa: PTH111 - ``~`` of no user stays as it is
    try:
        names = [path.name for path in place.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    noted = (each for each in names if not (each.startswith(".") or each.endswith(".intent")))
    for name in sorted(noted)[-most:]:
        text = _text(str(place / name)) or ""
        if holding in text and lacking not in text:
            found.append([name, text])
    return found


for _each in (texts, list_trees, led_to, changed_trees, read_pieces):
    CALLS[_each.__name__] = _each
