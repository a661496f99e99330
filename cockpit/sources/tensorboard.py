"""TensorBoard: the event files of a run's folder, here or on an ssh host (SPEC S-15).

A file is a TFRecord of events, taken apart without TensorFlow: each record has a length, its
checksum, data and their checksum.
"""

from __future__ import annotations

import errno
import functools
import re
import struct
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple, cast

from cockpit.model.facet import Attempt
from cockpit.model.place import Place
from cockpit.model.run import TensorboardSpec
from cockpit.sources.file_tracker import Batch, Record
from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.ranged import Opened
from cockpit.sources.logs.remote import Host
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
from cockpit.sources.wandb.decode import BadMessageError as BadEventError
from cockpit.sources.wandb.decode import fields, varint
from cockpit.text.safe import clean

__all__ = ["HEAD", "BadEventError", "Event", "Piece", "deframe", "event_of", "starts_well"]

HEAD: Final = 12
FOOT: Final = 4
LARGEST: Final = 64 << 20
"""Bytes of one record at most: images are in there too."""
CHECKED: Final = 512
"""Bytes up to which a record's data is checked: a scalar has some fifty."""
_LENGTH: Final = struct.Struct("<Q")
_CRC: Final = struct.Struct("<I")


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE: Final = _table()


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of ``data``."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


_short_crc: Final = functools.lru_cache(1024)(masked_crc)
"""For heads and empty records: a file has few lengths, and each would be summed up anew."""


class Piece(NamedTuple):
    """Whole records in some bytes, where reading goes on, and how many places were damaged.

    ``wants`` is how many bytes from ``offset`` on the next record has, 0 where that is unknown.
    """

    records: list[bytes]
    offset: int
    skipped: int = 0
    wants: int = 0


def deframe(data: bytes, start: int, *, synced: bool = True) -> Piece:
    """Return the whole records in ``data``, the file's bytes from offset ``start`` on.

    Not ``synced``: ``start`` is anywhere, and reading begins at the first record that is found.
    """
    records: list[bytes] = []
    at = skipped = 0
    if not synced:
        at = _next_head(data, 0)
    while at + HEAD <= len(data):
        length = _length(data, at)
        if length is None:
            at, skipped = _next_head(data, at + 1), skipped + 1
            continue
        end = at + HEAD + length + FOOT
        if end > len(data):
            return Piece(records, start + at, skipped, end - at)
        record = data[at + HEAD : end - FOOT]
        summed = masked_crc if length else _short_crc
        if length > CHECKED or _CRC.unpack_from(data, end - FOOT)[0] == summed(record):
            records.append(record)
        else:
            skipped += 1
        at = end
    return Piece(records, start + at, skipped)


def starts_well(data: bytes) -> bool:
    """Tell whether a file that begins so may be one of events; what is cut may be."""
    return len(data) < HEAD or _length(data, 0) is not None


def _length(data: bytes, at: int) -> int | None:
    """Return the length that a record's head tells, ``None`` if there is no head."""
    (length,) = _LENGTH.unpack_from(data, at)
    if length > LARGEST:
        return None
    (crc,) = _CRC.unpack_from(data, at + 8)
    return length if crc == _short_crc(data[at : at + 8]) else None


def _next_head(data: bytes, at: int) -> int:
    """Return where the next record starts; else the end, less what may be half a head."""
    while at + HEAD <= len(data):
        if data[at + 4 : at + 8] == b"\0\0\0\0" and _length(data, at) is not None:
            return at
        at += 1
    return max(0, min(at, len(data)))


_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_TYPES: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 4: "<B", 6: "<b", 5: "<h", 19: "<e"}
"""TensorFlow's numbers of types, as ``struct`` spells them."""
_BFLOAT16: Final = 14
_MOST_TAGS: Final = 2000
_LONGEST_TAG: Final = 500

Field = tuple[int, int | bytes]
"""A field's number, and its value: varints as they are, anything else as bytes."""


class Event(NamedTuple):
    """What was logged at one time: figures by tag; none in an event of another kind."""

    at: float | None
    step: int
    scalars: dict[str, float]


def event_of(data: bytes) -> Event:
    """Return an event; raises ``BadEventError``."""
    at, step = None, 0
    scalars: dict[str, float] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            at = float(_DOUBLE.unpack(value)[0])
        elif number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            scalars.update(_summary(value))
    return Event(at, step, scalars)


def _summary(data: bytes) -> Iterator[tuple[str, float]]:
    for count, (number, value) in enumerate(_fields(data)):
        if count >= _MOST_TAGS:
            return
        if number == 1 and isinstance(value, bytes):
            found = _value(value)
            if found is not None:
                yield found


def _value(data: bytes) -> tuple[str, float] | None:
    tag, figure = "", None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value[:_LONGEST_TAG].decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            figure = float(_FLOAT.unpack(value)[0])
        elif number == 8 and isinstance(value, bytes):
            figure = _tensor(value)
    return (tag, figure) if tag and figure is not None else None


def _tensor(data: bytes) -> float | None:
    """Return the one figure of a tensor; ``None`` for one of many, of text or of another type."""
    kind, content, listed = 0, b"", None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6, 7, 10, 13):
            listed = _listed(number, value)
    if not content:
        return _bfloat16(listed) if kind == _BFLOAT16 else _half(kind, listed)
    if kind == _BFLOAT16 and len(content) == 2:
        return float(_FLOAT.unpack(b"\0\0" + content)[0])
    form = _TYPES.get(kind)
    if form is None or struct.calcsize(form) != len(content):
        return None
    return float(struct.unpack(form, content)[0])


def _listed(number: int, value: int | bytes) -> float | None:
    """Return the one entry of ``float_val``, ``double_val``, ``int(64)_val`` or ``half_val``."""
    if isinstance(value, int):
        return float(_signed(value))
    form = {5: "<f", 6: "<d"}.get(number)
    if form is None:
        (found, end) = varint(value, 0) if value else (0, -1)
        return float(_signed(found)) if end == len(value) else None
    return float(struct.unpack(form, value)[0]) if struct.calcsize(form) == len(value) else None


def _half(kind: int, listed: float | None) -> float | None:
    """Return an entry of ``half_val`` as the number whose bits it is; others as they are."""
    if kind != 19 or listed is None:
        return listed
    return float(struct.unpack("<e", struct.pack("<H", int(listed) & 0xFFFF))[0])


def _bfloat16(listed: float | None) -> float | None:
    if listed is None:
        return None
    return float(_FLOAT.unpack(struct.pack("<I", (int(listed) & 0xFFFF) << 16))[0])


def _fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raises ``BadEventError``."""
    for number, start, end in fields((data, 0, len(data))):
        yield number, start if end < 0 else data[start:end]


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


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
                before = sum(each.size for each in self._files[: at.file])
                share = (before + piece.offset) / total
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
