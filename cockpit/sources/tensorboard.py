"""TensorBoard: the event files of a run's folder, here or on an ssh host (SPEC S-15).

What is in a file ``event_file`` tells.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple, cast

from cockpit.model.facet import Attempt
from cockpit.model.place import Place
from cockpit.model.run import TensorboardSpec
from cockpit.sources.event_file import (
    HEAD,
    BadEventError,
    Event,
    Piece,
    deframe,
    event_of,
    starts_well,
)
from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.ranged import Opened
from cockpit.sources.logs.remote import Host
from cockpit.sources.rowlog import Batch, Record
from cockpit.sources.run_folders import (
    MOST_HERE,
    SHOWN,
    BadFileError,
    Below,
    PatternFiles,
    RunThere,
    beside,
    earlier,
    found_here,
    living,
)
from cockpit.sources.run_rows import About
from cockpit.text.safe import clean

NAME: Final = "tfevents"
EVENT_FILES: Final = f"*{NAME}*"
_BEGUN: Final = re.compile(r"tfevents\.(\d{9,12})")
HEADER: Final = 128
"""Bytes of a file in which nothing was logged yet: its version is told."""


class EventFile(NamedTuple):
    """One event file of a host as it was measured."""

    host: Host
    told: Answer
    begun: float

    @property
    def path(self) -> str:
        """Return its path, as its machine spells it."""
        return self.told.path

    @property
    def size(self) -> int:
        """Return its bytes."""
        return self.told.size

    @property
    def mtime(self) -> float:
        """Return when it was last written to, on our clock."""
        return self.told.mtime

    @property
    def identity(self) -> tuple[int, int]:
        """Return what tells it from another file of its name."""
        return self.told.identity

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Open the file that was listed; raises ``OSError`` when it was replaced since."""
        with self.host.log(self.path, self.told).open() as found:
            if found.stat.identity != self.identity:
                raise OSError(errno.ESTALE, f"{clean(self.path)} was replaced while it was read")
            yield found


class Listing(NamedTuple):
    """The event files of one run, the first begun first, and what else lies there."""

    files: list[EventFile]
    notes: tuple[str, ...] = ()
    earlier: tuple[Attempt, ...] = ()


def listed(place: Place, there: PatternFiles) -> Listing:
    """Return the event files of a folder, or of the run in it that is trained now.

    Trainers begin another folder at each start (``runs/DATE_HOST``, ``version_N``). Raises
    ``OSError``.
    """
    seen = there.seen(place)
    if seen.where == "file":
        raise NotADirectoryError(f"{clean(str(place))} is a file, not a folder of event files")
    folders: dict[str, list[EventFile]] = {}
    for each in seen.files:
        name = PurePosixPath(each.path)
        file = EventFile(there.host(place), each, _begun(name.name, each.mtime))
        folders.setdefault(name.parent.name, []).append(file)
    files: list[EventFile] = next(iter(folders.values()), [])
    notes: tuple[str, ...] = ()
    before: tuple[Attempt, ...] = ()
    if seen.where == "below" and folders:
        runs = [_run_there(name, own, seen.written) for name, own in folders.items()]
        chosen = living(runs)
        files, notes = folders[chosen.name], beside(runs, chosen)
        before = earlier(runs, chosen)
    unread = {PurePosixPath(path).parent.name: why for path, why in seen.unread.items()}
    own = PurePosixPath(files[0].path).parent.name if files else next(iter(unread), "")
    if own in unread:
        raise unread[own]
    if unread:
        names = ", ".join(clean(each, 80) for each in sorted(unread)[-SHOWN:])
        notes = (*notes, f"event files that cannot be read lie there too, in {names}")
    if files:
        return Listing(sorted(files, key=lambda each: (each.begun, each.path)), notes, before)
    where = place.path if place.here else str(place)
    raise FileNotFoundError(f"no event files in {clean(where)} yet")


def folders_below(folder: str) -> list[str]:
    """Return the folders in a folder of this machine that have event files, as paths from it."""
    levels = ((f"*/{EVENT_FILES}", f"*/*/{EVENT_FILES}"),)
    found = found_here(Below(folder, levels, MOST_HERE)).paths
    return sorted({str(PurePosixPath(path).parent.relative_to(folder)) for path in found})


def _run_there(name: str, files: list[EventFile], held: frozenset[str] | None) -> RunThere:
    return RunThere(
        name=name,
        began=max(each.begun for each in files),
        written=max(each.mtime for each in files),
        empty=all(each.size <= HEADER for each in files),
        held=None if held is None else any(each.path in held for each in files),
    )


def _begun(name: str, otherwise: float) -> float:
    found = _BEGUN.search(name)
    return float(found[1]) if found is not None else otherwise


BATCH: Final = 262_144
"""Bytes that are read at once: some four thousand scalars, a tenth of a second."""
TAIL: Final = 131_072
TAIL_AWAY: Final = 32_768
"""The same of a file on a host: it comes while the file is measured, and is mostly enough."""
MOST_TAIL: Final = 4 << 20
_SHOWN: Final = 5


class _Cursor(NamedTuple):
    """Where reading goes on: in which file (of how many that are done), at which offset."""

    file: int
    offset: int


class TensorboardRun:
    """Reads the event files of one folder (an ``Adapter``), as ``there`` finds them."""

    def __init__(self, spec: TensorboardSpec, there: PatternFiles) -> None:
        self._spec = spec
        self._there = there
        self._files: list[EventFile] = []
        self._began: dict[tuple[int, int], int] = {}
        self._below: tuple[Hashable, list[str]] = (None, [])
        self._lost = 0
        """How often a file was removed or made shorter: what was read then begins anew."""

    def about(self) -> About:
        """List the folder and measure its files; those that were there keep their order."""
        found, notes, before = listed(self._spec.dir, self._there)
        sizes = {each.identity: each.size for each in found}
        if any(sizes.get(former.identity, -1) < former.size for former in self._files):
            self._lost += 1
        for each in found:
            self._began.setdefault(each.identity, len(self._began))
        self._files = sorted(found, key=lambda each: self._began[each.identity])
        folder = PurePosixPath(found[0].path).parent
        version = tuple((each.identity, each.size, each.mtime) for each in self._files)
        if self._below[0] != version:
            below = folders_below(str(folder)) if self._spec.dir.here else []
            self._below = version, below
        return About(
            id=folder.name,
            name=folder.name,
            project=None,
            producer="TensorBoard",
            files=tuple(str(replace(self._spec.dir, path=each.path)) for each in self._files),
            mtime=max(each.mtime for each in found),
            identity=(self._files[0].identity, self._lost),
            version=version,
            earlier=before,
            notes=notes,
            without_loss=_elsewhere(self._below[1]),
        )

    reads_on = True

    def after(self, cursor: Hashable) -> Batch:
        """Return the records behind a cursor, about ``BATCH`` bytes of them."""
        at = cursor if isinstance(cursor, _Cursor) else _Cursor(0, 0)
        total = max(1, sum(each.size for each in self._files))
        while at.file < len(self._files):
            file = self._files[at.file]
            piece = _read(file, at.offset)
            last = at.file == len(self._files) - 1
            done = piece.offset + HEAD >= file.size or piece.offset == at.offset
            went_on = _Cursor(at.file, piece.offset)
            if done and not last:
                went_on = _Cursor(at.file + 1, 0)
            if piece.records or piece.skipped or (done and last):
                records, bad = _records(piece.records)
                share = (self._before(at.file) + piece.offset) / total
                skipped = piece.skipped + bad
                return Batch(records, went_on, done and last, min(1.0, share), skipped)
            at = went_on
        return Batch([], at, caught_up=True, share=1.0)

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return about the last records: of each file's end as much as they take."""
        records: list[Record] = []
        covered, total = 0, max(1, sum(each.size for each in self._files))
        for file in reversed(self._files):
            found, read = _end_of(file, count - len(records))
            records = found + records
            covered += read
            if len(records) >= count or read < file.size:
                break
        return records[-count:], min(1.0, covered / total)

    def _before(self, file: int) -> int:
        return sum(each.size for each in self._files[:file])


def _elsewhere(folders: Sequence[str]) -> tuple[str, ...]:
    """Return where ``add_scalars`` has put figures: each of its names has a folder of its own."""
    if not folders:
        return ()
    shown = ", ".join(clean(each, 80) for each in folders[:_SHOWN])
    more = f" and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else ""
    advice = "name the one with the training loss (tensorboard.dir)"
    return (f"no loss here; there are more scalars in {shown}{more}: {advice}",)


def _read(file: EventFile, offset: int) -> Piece:
    """Return the whole records from ``offset`` on, about ``BATCH`` bytes; at least one if it is."""
    if 0 < file.size <= offset:
        return Piece([], offset)
    with file.opened() as opened:
        data = opened.read(offset, min(offset + BATCH, file.size))
        if offset == 0 and not starts_well(data[:HEAD]):
            raise BadFileError(f"{clean(file.path)} is not an event file")
        piece = deframe(data, offset)
        if not piece.records and piece.wants > len(data) and offset + piece.wants <= file.size:
            data = opened.read(piece.offset, piece.offset + piece.wants)
            piece = deframe(data, piece.offset)
    return piece


def _end_of(file: EventFile, count: int) -> tuple[list[Record], int]:
    """Return the last records of a file, and how many bytes of it they were found in."""
    length = TAIL if file.host.here else TAIL_AWAY
    with file.opened() as opened:
        while True:
            start = max(0, file.size - length)
            piece = deframe(opened.read(start, file.size), start, synced=start == 0)
            records, _bad = _records(piece.records)
            if start == 0 or len(records) > count or length >= MOST_TAIL:
                return records[-count:], file.size if start == 0 else length
            length *= 4


def _records(frames: Sequence[bytes]) -> tuple[list[Record], int]:
    """Return the records in some frames, and how many frames were no events."""
    records: list[Record] = []
    bad = 0
    for frame in frames:
        try:
            event = event_of(frame)
        except BadEventError:
            bad += 1
            continue
        if event.scalars:
            _add(records, event)
    return records, bad


def _add(records: list[Record], event: Event) -> None:
    """Add an event: to the last record if that has its step and none of its tags."""
    last = records[-1] if records else None
    is_next = last is None or last.step != event.step
    if last is None or is_next or not last.values.keys().isdisjoint(event.scalars):
        records.append(Record(event.step, event.at, event.scalars))
        return
    at = max((each for each in (last.at, event.at) if each is not None), default=None)
    values = cast(
        "dict[str, float]", last.values
    )  # a step of 10,000 metrics is not copied so often
    values.update(event.scalars)
    records[-1] = Record(last.step, at, values)
