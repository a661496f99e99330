r"""The present job's lines of a log, read once it matters why the job ended (SPEC T).

Up to ``MOST_LINES`` lines and ``MOST_BYTES`` bytes, the newest ones: the cost does not grow
with the file. Where the job's first line stands is what its launcher noted, else what the
lines' own times tell. A file that was rotated away while the job ran is read too.

``\r`` separates the states of a progress bar: each counts as a line of its own, of a row of
bars the first and the last.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from cockpit.model.logtext import LogLine, LogMark, PresentLog, Read
from cockpit.sources.logs.packed import ENDINGS, errors, packing_of, unpacked
from cockpit.sources.logs.ranged import Opened, Ranged, Span, Stream, Wish
from cockpit.sources.logs.renamed import ENDING
from cockpit.sources.logs.stamp import line_time, read_stamp, writes_utc
from cockpit.text.progress_lines import present_log
from cockpit.text.safe import clean

MOST_LINES: Final = 20_000
MOST_BYTES: Final = 4_194_304
"""20,000 lines of 200 bytes; more would make diagnosis slow, for nothing but very long lines."""
CUT: Final = f"only its last {MOST_BYTES // 1_048_576} MB were read"
MOST_COUNTED: Final = 268_435_456
"""Bytes before the first line read whose line breaks are counted; beyond, no number is known."""
MOST_UNPACKED: Final = 67_108_864
"""Bytes of a compressed file that are unpacked, to have its last ones."""
PIECE: Final = 1_000
"""Characters of a line that are looked at as one; a longer one is looked at in pieces."""
OVERLAP: Final = 200
STAMP_SLACK: Final = 2.0
"""Seconds by which a line's time may lie before its job's start: times are often whole seconds."""
GUARD: Final = 64
"""Bytes before a job's first one that its mark has a checksum of (the launcher's ``end_mark``)."""
MOST_FORMER: Final = 5
PACKED: Final = 1_048_576
"""Bytes of a compressed file that are read at once."""
DROPPED: Final = "older lines are no longer kept"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|.)")
_BAR = re.compile(rb"%\||it/s|s/it|\xe2\x94\x81| rate:")
_PACKED = "|".join(map(re.escape, ENDINGS))
_ROTATED = re.compile(rf"{ENDING}(?:{_PACKED})?|{_PACKED}")


class _Part(NamedTuple):
    """The bytes of one file that belong to the present job; ``at`` is where they start."""

    path: str
    data: bytes
    at: int | None
    number: int | None
    """The number of its first line."""


def read_present(
    log: Ranged, mark: LogMark | None = None, started_at: float | None = None
) -> PresentLog:
    """Return the present job's lines; blocking, raises ``OSError``.

    ``mark`` is where they begin, if that was noted; ``started_at`` is the job's start.
    """
    with log.open(wish(log, mark)) as opened:
        own = _offset_in(opened, mark)
        part, cut = _end_of(log.path, opened, own or 0)
        mtime, dropped = opened.stat.mtime, opened.stat.begin
    parts, begun, why = [part], own is not None, CUT if cut else None
    if not begun and dropped and why is None:
        why = DROPPED
    elif not begun and not cut:
        older, begun, why = _former(log, mark, started_at, MOST_BYTES - len(part.data))
        parts = [*older, part]
    return _put_together(log.path, parts, begun, why, started_at, mtime)


def read_stream(file: BinaryIO) -> PresentLog:
    """Return the newest lines of what can be read once and forwards; raises ``OSError``.

    Memory is bounded, whatever the size.
    """
    kept, at, breaks = b"", 0, 0
    while data := file.read(MOST_BYTES):
        kept += data
        drop = len(kept) - MOST_BYTES
        if drop > 0:
            edge = kept.find(b"\n", drop - 1) + 1 or len(kept)
            breaks += kept.count(b"\n", 0, edge)
            at, kept = at + edge, kept[edge:]
    part = _Part("", kept, at, breaks + 1)
    return _put_together("", [part], False, CUT if at else None, None, 0.0)


def wish(log: Ranged, mark: LogMark | None) -> Wish:
    """Return what ``read_present`` needs of a log first, which may be brought before it begins."""
    spans: tuple[Span, ...] = (Span(0, last=MOST_BYTES),)
    if mark is not None and mark.offset:
        at = mark.offset
        spans = (Span(max(0, at - GUARD), at), Span(at, last=MOST_BYTES))
    return Wish(spans, beside=Path(log.place.path).name)


def _put_together(
    path: str,
    parts: list[_Part],
    begun: bool,
    why: str | None,
    started_at: float | None,
    mtime: float,
) -> PresentLog:
    """Return the parts' lines as one log; ``why`` says what stops it from being the whole."""
    newest: deque[LogLine] = deque(maxlen=MOST_LINES + 1)
    for part in parts:
        newest.extend(_lines_of(part, path))
    if len(newest) > MOST_LINES:
        newest.popleft()
        why = f"only its last {MOST_LINES:,} lines were read"
    lines = list(newest)
    since: Literal["recorded", "stamped", "file"] = "recorded" if begun else "file"
    if not begun and started_at is not None:
        first = _stamped_from(lines, started_at, mtime)
        if first > 0:
            lines, since, why = lines[first:], "stamped", None
    size = sum(len(part.data) for part in parts)
    read = Read(lines=len(lines), bytes=size, whole=why is None, since=since, why=why)
    return present_log(lines, read)


def _offset_in(log: Opened, mark: LogMark | None) -> int | None:
    """Return where the marked byte stands in an open file, if it stands there."""
    size, inode = log.stat.size, log.stat.identity[1]
    if mark is None or size < mark.offset or (mark.offset == 0 and inode != mark.inode):
        return None
    return mark.offset if _checksum(log, mark.offset) == mark.before else None


def _checksum(log: Opened, offset: int) -> int:
    """Return what tells the bytes right before ``offset`` from others."""
    return zlib.crc32(log.read(max(0, offset - GUARD), offset))


def _end_of(path: str, log: Opened, start: int) -> tuple[_Part, bool]:
    """Return the last bytes from ``start`` on, from the start of a line; whether more remain."""
    size, start = log.stat.size, max(start, log.stat.begin)
    at = max(start, size - MOST_BYTES)
    data = log.read(at, size)
    cut = at > start
    if cut:
        edge = data.find(b"\n") + 1
        at, data = at + edge, data[edge:]
    return _Part(path, data, at, _number_at(log, at)), cut


def _number_at(log: Opened, at: int) -> int | None:
    """Return the number of the line that starts at ``at``; ``None`` if that costs too much."""
    return None if at > MOST_COUNTED or log.stat.begin else log.breaks_before(at) + 1


def _former(
    log: Ranged, mark: LogMark | None, started_at: float | None, room: int
) -> tuple[list[_Part], bool, str | None]:
    """Return what was rotated away since the job began, oldest first; is it all; if not, why.

    One that cannot be read, or is still being packed, ends it: a gap is no whole log.
    """
    parts: list[_Part] = []
    for mtime, each in _rotated(log):
        late = started_at is not None and mtime >= started_at
        try:
            found, begun, cut = _former_part(each, mark, late, room)
        except FileNotFoundError:
            continue  # moved on since it was listed
        except errors():
            why = f"{clean(Path(each.place.path).name)}, rotated away, could not be read"
            return parts, False, why if late else None
        if found is None:
            break
        parts.insert(0, found)
        room -= len(found.data)
        if begun or cut or room <= 0:
            return parts, begun, CUT if cut or not begun else None
    return parts, False, None


def _former_part(
    log: Ranged, mark: LogMark | None, late: bool, room: int
) -> tuple[_Part | None, bool, bool]:
    """Return one file's share; ``late`` tells that it was written since the job began."""
    if log.path.endswith(ENDINGS):
        data, cut = _unpacked(log, room) if late else (b"", False)
        return (_Part(log.path, data, None, None) if late else None), False, cut
    with log.open() as opened:
        own = _offset_in(opened, mark)
        if own is None and not late:
            return None, False, False
        at = max(own or 0, opened.stat.size - room)
        data = opened.read(at, opened.stat.size)
    return _Part(log.path, data, None, None), own is not None, at > (own or 0)


def _rotated(log: Ranged) -> list[tuple[float, Ranged]]:
    """Return the files that a rotation has made of this one with their mtimes, the newest first."""
    name = Path(log.place.path).name
    found: list[tuple[float, Ranged]] = []
    with suppress(OSError):
        for each, stat in log.beside(name):
            if _ROTATED.fullmatch(Path(each.place.path).name[len(name) :]):
                found.append((stat.mtime, each))
    found.sort(key=lambda each: (each[0], each[1].path), reverse=True)
    return found[:MOST_FORMER]


def _unpacked(log: Ranged, room: int) -> tuple[bytes, bool]:
    """Return the last bytes of a compressed file; whether there are more."""
    kept, total = b"", 0
    packing = packing_of(log.path)
    assert packing is not None
    with log.open() as opened, unpacked(packing, BufferedReader(Stream(opened), PACKED)) as file:
        while total < MOST_UNPACKED and (data := file.read(1_048_576)):
            total += len(data)
            kept = (kept + data)[-room:]
        more = bool(file.read(1))
    return kept, more or total > len(kept)


def _lines_of(part: _Part, path: str) -> Iterator[LogLine]:
    """Yield the lines of some bytes with their places; bars and giant lines in pieces."""
    number, at = part.number, part.at
    file = None if part.path == path else part.path
    whole = part.data.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    for raw in whole:
        for begin, state in _states(raw):
            offset = None if at is None else at + begin
            for text in _pieces(state):
                yield LogLine(text, number, offset, file)
        number = None if number is None else number + 1
        at = None if at is None else at + len(raw) + 1


def _states(raw: bytes) -> Iterator[tuple[int, bytes]]:
    r"""Yield what stands between ``\r``, and where; of a row of bars the first and the last."""
    if b"\r" not in raw:
        yield 0, raw
        return
    states = [(begin, state) for begin, state in _split(raw) if state.strip()]
    bars = [_BAR.search(state) is not None for _, state in states]
    last = len(states) - 1
    for index, found in enumerate(states):
        if 0 < index < last and bars[index - 1] and bars[index] and bars[index + 1]:
            continue
        yield found


def _split(raw: bytes) -> Iterable[tuple[int, bytes]]:
    begin = 0
    for state in raw.split(b"\r"):
        yield begin, state
        begin += len(state) + 1


def _pieces(raw: bytes) -> Iterator[str]:
    """Yield a line's text, a giant one in overlapping pieces; bytes that are no text are none.

    NUL bytes are dropped: every other one of UTF-16, and the hole that a truncated log begins with.
    """
    text = raw.replace(b"\0", b"").decode("utf-8", "replace")
    if not text.isprintable():
        text = _ESCAPES.sub("", text)
    if _is_garbage(text):
        text = ""
    if len(text) <= PIECE:
        yield text
        return
    for begin in range(0, len(text) - OVERLAP, PIECE - OVERLAP):
        yield text[begin : begin + PIECE]


def _is_garbage(text: str) -> bool:
    if text.isascii() and text.isprintable():
        return False
    head = text[:PIECE]
    odd = sum(char == "\N{REPLACEMENT CHARACTER}" or char < "\t" for char in head)
    return odd * 4 > len(head)


def _stamped_from(lines: list[LogLine], started_at: float, mtime: float) -> int:
    """Return the index from which the lines' own times tell of the present job, 0 for all.

    Only where times from before the start are followed by one from after it: a clock that is
    behind would make every line look old. Lines without a time go with the present job.
    """
    stamped = [(at, each.text) for at, each in enumerate(lines) if read_stamp(each.text)]
    if not stamped:
        return 0
    utc = writes_utc((text for _, text in reversed(stamped)), mtime)
    after = 0
    for at, text in stamped:
        time = line_time(text, mtime, utc)
        if time is None:
            continue
        if time >= started_at - STAMP_SLACK:
            return after
        after = at + 1
    return 0
