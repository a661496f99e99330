"""A run's event files in its folder, in the order in which they were begun (SPEC S-15).

Each restart of a trainer begins another file; only the newest grows. Scalars come one event each:
those that follow one another under one step are one record. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.model.run import TensorboardSpec
from cockpit.sources.rowlog.away import Away
from cockpit.sources.rowlog.records import About, BadFileError, Batch, Record
from cockpit.sources.tensorboard.events import BadEventError, Event, event_of
from cockpit.sources.tensorboard.framing import HEAD, Piece, deframe, starts_well
from cockpit.sources.tensorboard.listing import EventFile, folders_below, listed
from cockpit.text.safe import clean

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
    """Reads the event files of one folder (a ``RecordLog``); ``away`` knows those of hosts."""

    def __init__(self, spec: TensorboardSpec, away: Away) -> None:
        self._spec = spec
        self._away = away
        self._files: list[EventFile] = []
        self._newest: tuple[Hashable, list[Record], float] | None = None
        self._began: dict[tuple[int, int], int] = {}
        self._below: tuple[Hashable, list[str]] = (None, [])
        self._lost = 0
        """How often a file was removed or made shorter: what was read then begins anew."""

    def look(self) -> About:
        """List the folder and measure its files; those that were there keep their order."""
        found, notes = listed(self._spec.dir, self._away)
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
            files=tuple(str(each.log.place) for each in self._files),
            mtime=max(each.mtime for each in found),
            identity=(self._files[0].identity, self._lost),
            version=version,
            notes=notes,
            without_loss=_elsewhere(self._below[1]),
        )

    def read(self, cursor: Hashable) -> Batch:
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
        version = (count, tuple((each.identity, each.size) for each in self._files))
        if self._newest is None or self._newest[0] != version:
            self._newest = (version, *self._ends(count))
        return self._newest[1], self._newest[2]

    def _ends(self, count: int) -> tuple[list[Record], float]:
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
    length = TAIL if file.told is None else TAIL_AWAY
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
    if last is None or last.step != event.step or last.values.keys() & event.scalars.keys():
        records.append(Record(event.step, event.at, event.scalars))
        return
    at = max((each for each in (last.at, event.at) if each is not None), default=None)
    records[-1] = Record(last.step, at, {**last.values, **event.scalars})
