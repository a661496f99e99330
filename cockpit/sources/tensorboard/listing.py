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
from cockpit.sources.logs.local import LocalLog
from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.ranged import Opened, Ranged
from cockpit.sources.logs.remote import RemoteLog
from cockpit.sources.rowlog.away import Away
from cockpit.text.safe import clean

NAME: Final = "tfevents"
EVENT_FILES: Final = f"*{NAME}*"
MOST_FILES: Final = 2000
_BEGUN: Final = re.compile(r"tfevents\.(\d{9,12})")
_SHOWN: Final = 5


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


def listed(place: Place, away: Away) -> list[EventFile]:
    """Return the event files of a folder, or of the only one in it, the first begun first.

    Raises ``OSError``. ``away`` has looked at a place that is not of this machine.
    """
    files, below = _here(place.path) if place.here else _there(place, away)
    if not files and len(below) == 1:
        files = next(iter(below.values()))
    if files:
        return sorted(files, key=lambda each: (each.begun, each.path))
    shown = ", ".join(clean(name, 80) for name in sorted(below)[:_SHOWN])
    hint = f"; there are runs in {shown}: name one of them" if below else ""
    where = place.path if place.here else str(place)
    raise FileNotFoundError(f"no event files in {clean(where)} yet{hint}")


Folders = dict[str, list[EventFile]]


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
