"""Which event files a folder has, here or on an ssh host, and what each is now. Blocking."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from cockpit.model.place import Place
from cockpit.runtime.process import held_for_writing
from cockpit.sources.logs.local import LocalLog
from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.ranged import Opened, Ranged
from cockpit.sources.logs.remote import RemoteLog
from cockpit.sources.rowlog.away import Away
from cockpit.sources.rowlog.living import RunThere, beside, living
from cockpit.text.safe import clean

NAME: Final = "tfevents"
EVENT_FILES: Final = f"*{NAME}*"
MOST_FILES: Final = 2000
_BEGUN: Final = re.compile(r"tfevents\.(\d{9,12})")
HEADER: Final = 128
"""Bytes of a file in which nothing was logged yet: its version is told."""


class EventFile(NamedTuple):
    """One event file as it is now; ``opened`` reads it, of a host as it was ``told`` of."""

    log: Ranged
    begun: float
    size: int
    mtime: float
    identity: tuple[int, int]
    told: Answer | None = None

    @property
    def path(self) -> str:
        """Return its path, as its machine spells it."""
        return self.log.place.path

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Open the file that was listed; raises ``OSError`` when it was replaced since."""
        log = self.log
        if isinstance(log, RemoteLog) and self.told is not None:
            log = log.answered(self.told)
        with log.open() as found:
            if found.stat.identity != self.identity:
                raise OSError(errno.ESTALE, f"{clean(self.path)} was replaced while it was read")
            yield found


class Listing(NamedTuple):
    """The event files of one run, the first begun first, and what else lies there."""

    files: list[EventFile]
    notes: tuple[str, ...] = ()


def listed(place: Place, away: Away) -> Listing:
    """Return the event files of a folder, or of the run in it that is trained now.

    Trainers begin another folder at each start (``runs/DATE_HOST``, ``version_N``). Raises
    ``OSError``. ``away`` has looked at a place that is not of this machine.
    """
    files, below = _here(place.path) if place.here else _there(place, away)
    notes: tuple[str, ...] = ()
    if not files and below:
        held = _held(below, place, away) if len(below) > 1 else None
        runs = [_run_there(name, own, held) for name, own in below.items()]
        chosen = living(runs)
        files, notes = below[chosen.name], beside(runs, chosen)
    if files:
        return Listing(sorted(files, key=lambda each: (each.begun, each.path)), notes)
    where = place.path if place.here else str(place)
    raise FileNotFoundError(f"no event files in {clean(where)} yet")


def folders_below(folder: str) -> list[str]:
    """Return the folders in a folder of this machine that have event files, as paths from it."""
    found: list[str] = []
    for name in _folders_in(folder):
        for path in (name, *(f"{name}/{each}" for each in _folders_in(f"{folder}/{name}"))):
            with suppress(OSError):
                found += [path] if any(True for _ in _files_in(f"{folder}/{path}")) else []
    return found


Folders = dict[str, list[EventFile]]


def _held(folders: Folders, place: Place, away: Away) -> frozenset[str] | None:
    """Return the paths of the event files that a process has open for writing."""
    if not place.here:
        return away.seen(place).written
    paths = [each.path for own in folders.values() for each in own]
    found = held_for_writing({os.path.realpath(path) for path in paths})
    return None if found is None else frozenset(
        path for path in paths if os.path.realpath(path) in found
    )  # fmt: skip


def _run_there(name: str, files: list[EventFile], held: frozenset[str] | None) -> RunThere:
    return RunThere(
        name=name,
        began=max(each.begun for each in files),
        written=max(each.mtime for each in files),
        empty=all(each.size <= HEADER for each in files),
        held=None if held is None else any(each.path in held for each in files),
    )


def _here(folder: str) -> tuple[list[EventFile], Folders]:
    """Return the files of a folder; if it has none, those of the folders in it, by their names."""
    files = list(_files_in(folder))
    if files:
        return files, {}
    found = {name: list(_files_in(str(Path(folder) / name))) for name in _folders_in(folder)}
    return [], {name: own for name, own in found.items() if own}


def _files_in(folder: str) -> Iterable[EventFile]:
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_FILES:
                return
            if NAME in entry.name and entry.is_file():
                with suppress(OSError):  # gone since it was listed
                    status = entry.stat()
                    yield EventFile(
                        log=LocalLog(entry.path),
                        begun=_begun(entry.name, status.st_mtime),
                        size=status.st_size,
                        mtime=status.st_mtime,
                        identity=(status.st_dev, status.st_ino),
                    )


def _folders_in(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())[:MOST_FILES]


def _there(place: Place, away: Away) -> tuple[list[EventFile], Folders]:
    """Return the same of a folder on a host, as it was looked at last."""
    where = away.seen(place).where
    if where == "file":
        raise NotADirectoryError(f"{clean(str(place))} is a file, not a folder of event files")
    found: Folders = {}
    for file in _seen(place, away):
        found.setdefault(PurePosixPath(file.path).parent.name, []).append(file)
    own = [file for files in found.values() for file in files] if where == "folder" else []
    return own, {} if own else found


def _seen(place: Place, away: Away) -> Iterator[EventFile]:
    for file in away.seen(place).files:
        log = RemoteLog(Place(place.scheme, place.host, file.path), away.host(place))
        begun = _begun(PurePosixPath(file.path).name, file.mtime)
        yield EventFile(log, begun, file.size, file.mtime, file.identity, file)


def _begun(name: str, otherwise: float) -> float:
    found = _BEGUN.search(name)
    return float(found[1]) if found is not None else otherwise
