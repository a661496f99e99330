"""The framing of a ``.wandb`` file: a LevelDB log of 32 KiB blocks, read without the client."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Final, NamedTuple, Self
from zlib import crc32

from cockpit.sources.logs.pieces import Answer
from cockpit.sources.logs.ranged import Ranged, Stat
from cockpit.sources.logs.remote import Host, stat_of
from cockpit.sources.run_folders import BadFileError

BLOCK = 32768
"""LevelDB's block size."""
MAGIC = b":W&B\xe1\xbe\x00"
"""The first seven bytes of every ``.wandb`` file since the format exists."""

LARGEST_RECORD = 64 << 20
"""Bytes that are read at most to complete one record."""
FORWARDS: Final = 64 * BLOCK
"""Bytes that were written since a look, up to which all of them are read."""

HEAD_AWAY: Final = 32 * 1024
"""Bytes of the beginning of a host's file that are brought while it is measured."""
TAIL_AWAY: Final = 256 * 1024
"""The same of its end: mostly enough for its newest rows."""
BROUGHT: Final = 160 * 1024
"""Bytes at the end in which most of what is looked for lies."""

_CHUNK = struct.Struct("<IHB")
_HEAD = _CHUNK.size
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

Span = tuple[bytes, int, int]
"""A record: a buffer and the record's ``[start, end)`` in it (nothing is copied)."""
Passed = Callable[[bytes, int, int], object]
"""Tells of a record by how it begins that nobody wants it: anything but ``None``."""


class LogChunk(NamedTuple):
    """Whole records read from a part of the log, from offset ``start`` on.

    ``offset`` is where reading goes on (the start of the first record that is not whole),
    ``skipped`` the number of blocks that were given up as damaged.
    """

    start: int
    spans: list[Span]
    offset: int
    skipped: int = 0


def started(head: bytes) -> bool:
    """Tell whether the log's header is there; False when its file is only being created.

    Raises ``BadFileError`` if what is there is something else.
    """
    if head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise BadFileError('not a .wandb file: it does not begin with ":W&B"')
    return len(head) >= len(MAGIC)


def deframe(
    data: bytes, start: int, *, more: bool = False, passed: Passed | None = None
) -> LogChunk:
    """Return the whole records in ``data``, the file's bytes from offset ``start`` on.

    ``start`` is a block's start, the end of the header or a former ``Piece.offset``; the
    remains of a record that began before a block's start are left out. ``more`` says that
    ``data`` ends with a whole block that is not the file's last. Of what is ``passed`` only some
    is returned, and its bytes are not verified.
    """
    spans: list[Span] = []
    parts: list[bytes] = []
    pos = keep = skipped = 0
    end = len(data)
    while True:
        room = BLOCK - (start + pos) % BLOCK
        if room < _HEAD:
            pos += room
            continue
        stop = pos if parts else _whole_records(data, pos, min(pos + room, end), spans, passed)
        if stop > pos:
            pos = keep = stop
            continue
        if pos + _HEAD > end:
            break
        crc, length, kind = _CHUNK.unpack_from(data, pos)
        stop = pos + _HEAD + length
        plausible = _FULL <= kind <= _LAST and length <= room - _HEAD
        if plausible and stop > end:
            break
        if plausible and crc32(data[pos + 6 : stop]) == crc:
            _take(data, pos + _HEAD, stop, kind, parts, spans)
            pos = stop
        elif pos + room >= end and not more:
            break
        else:
            skipped += 1
            parts.clear()
            pos += room
        if not parts:
            keep = pos
    return LogChunk(start, spans, start + keep, skipped)


def _whole_records(
    data: bytes, pos: int, limit: int, spans: list[Span], passed: Passed | None
) -> int:
    """Take the sound chunks from ``pos`` on that are a record each, as nearly all are.

    Return where the first other one begins, or what does not lie within the block's ``limit``.
    One that is passed costs only its length: were that damaged, the next one would not verify.
    """
    unpack, crc_of, take = _CHUNK.unpack_from, crc32, spans.append
    while pos + _HEAD <= limit:
        crc, length, kind = unpack(data, pos)
        body = pos + _HEAD
        stop = body + length
        if kind != _FULL or stop > limit:
            break
        if passed is None or passed(data, body, stop) is None:
            if crc_of(data[body - 1 : stop]) != crc:
                break
            take((data, body, stop))
        pos = stop
    return pos


def _take(
    data: bytes, body: int, stop: int, kind: int, parts: list[bytes], spans: list[Span]
) -> None:
    """Take one sound chunk: into ``spans`` when a record is whole, else into ``parts``."""
    if kind == _FULL:
        parts.clear()
        spans.append((data, body, stop))
    elif kind == _FIRST:
        parts[:] = [data[body:stop]]
    elif parts:
        parts.append(data[body:stop])
        if kind == _LAST:
            whole = b"".join(parts)
            parts.clear()
            spans.append((whole, 0, len(whole)))


def _sound_chunk(data: bytes) -> int:
    """Return where the chunk at the start of ``data`` ends, 0 if it is damaged or cut."""
    if len(data) < _HEAD:
        return 0
    crc, length, _ = _CHUNK.unpack_from(data)
    stop = _HEAD + length
    return stop if stop <= len(data) and crc32(data[6:stop]) == crc else 0


class WandbLog:
    """One ``.wandb`` file as it is at one look, wherever its bytes come from.

    Use it as a context manager. Methods raise ``OSError``.
    """

    def __init__(self, file: Ranged, brought: bool = True) -> None:
        """``brought``: the end of a file elsewhere is here; else no more is read than must be."""
        self._file, far = file, file.far
        self.places = 1 if far else 4
        """Where along the file its keys are learned."""
        self.head = HEAD_AWAY if far else 8 * BLOCK
        """Bytes from such a place on in which the next row is looked for."""
        self.beside = 16 * BLOCK if brought else 0
        """Bytes before the end in which other metrics than step and loss are looked for."""
        self.farthest = 4 << 20 if far else 32 << 20
        """Bytes before the end in which a row, a step or a loss is looked for."""
        self._largest = 8 << 20 if far else LARGEST_RECORD
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._opened = self._stack.enter_context(self._file.open())
        self.size = self._opened.stat.size
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def bytes_at(self, start: int, stop: int) -> bytes:
        """Return the file's bytes ``[start, stop)``, fewer at its end."""
        return self._opened.read(start, max(start, min(stop, self.size)))

    def started(self) -> bool:
        """Tell whether the header is there (``BadFileError`` if it is another file's)."""
        return started(self.bytes_at(0, len(MAGIC)))

    def read(self, start: int, budget: int, passed: Passed | None = None) -> LogChunk:
        """Return the records from ``start``, about ``budget`` bytes of them, but what is passed.

        A longer record is read whole all the same (up to ``LARGEST_RECORD``). When nothing
        more is there yet, the piece is empty and its ``offset`` is ``start``.
        """
        start = max(start, len(MAGIC))
        while True:
            piece = deframe(self.bytes_at(start, start + budget), start, passed=passed)
            if piece.offset > start or piece.spans or start + budget >= self.size:
                return piece
            if budget >= self._largest:
                return LogChunk(start, [], self._next_block(start), 1)
            budget *= 4

    def block(self, number: int, budget: int = BLOCK) -> LogChunk:
        """Return the records that begin in the ``budget`` bytes from block ``number`` on."""
        start = max(number * BLOCK, len(MAGIC))
        return deframe(self.bytes_at(start, number * BLOCK + budget), start)

    def backwards(self, first: int, growth: int, most: int) -> Iterator[LogChunk]:
        """Yield windows of records from the file's end to its start.

        The first window has ``first`` blocks; each next one is ``growth`` times as long, but
        never longer than ``most`` blocks. Together they hold each record exactly once.
        """
        high = self.size
        length = first
        while high > len(MAGIC):
            low = max(len(MAGIC), ((high - 1) // BLOCK - length + 1) * BLOCK)
            more = high < self.size
            piece = deframe(self.bytes_at(low, high), low, more=more)
            if more and high - piece.offset >= _HEAD:
                piece.spans.extend(self._record_at(piece.offset))
            yield piece
            high = low
            length = min(most, length * growth)

    def _record_at(self, start: int) -> list[Span]:
        """Return the record whose FIRST chunk is at ``start``, if the rest of it is sound."""
        parts: list[bytes] = []
        whole: list[Span] = []
        while not whole and len(parts) * BLOCK < LARGEST_RECORD:
            data = self.bytes_at(start, self._next_block(start))
            stop = _sound_chunk(data)
            if not stop or (data[6] in (_MIDDLE, _LAST)) != bool(parts) or data[6] == _FULL:
                return []
            _take(data, _HEAD, stop, data[6], parts, whole)
            start = self._next_block(start)
        return whole

    @staticmethod
    def _next_block(start: int) -> int:
        return (start // BLOCK + 1) * BLOCK


class LaunchFile:
    """The file that one launch of a run has written, as ``files`` have measured it last.

    Methods raise ``OSError``.
    """

    def __init__(self, path: str, host: Host, measured: Callable[[str, str], Answer]) -> None:
        self.path = path
        self._host, self._measured = host, measured

    @property
    def far(self) -> bool:
        """Whether reading costs trips to another machine."""
        return not self._host.here

    @property
    def skew(self) -> float:
        """The clock of the machine that has it minus ours (s), as far as it is known."""
        return self._host.clock.ahead

    @property
    def name(self) -> str:
        """The directory's name, which tells when the launch was."""
        return PurePosixPath(self.path).parent.name

    def stat(self) -> Stat:
        """Return what was measured, its time on our clock."""
        return stat_of(self._measured(self._host.name, self.path))

    def open(self) -> WandbLog:
        """Open it as it was measured."""
        if not self.far:
            return WandbLog(self._host.log(self.path))
        told = self._measured(self._host.name, self.path)
        end = max(0, told.size - BROUGHT)
        key = self._host.name, told.path, told.identity
        brought = self._host.cache.get(key, end, told.size)[1] == told.size
        return WandbLog(self._host.log(self.path, told), brought)
