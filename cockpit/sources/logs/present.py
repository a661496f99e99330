"""The logs of one job, and the present job's lines in them (SPEC T).

A job can write several logs: standard error of its own, one for each rank. All are followed. The
one that steps is shown, and goes on being shown; the others are named, and read when it matters why
the job ended. A loss that another one tells without a step (a trainer's dictionaries on standard
output, its bar on standard error) belongs to the newest step. Lines on ssh hosts are brought in one
trip per host.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import has_magic
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Literal, NamedTuple

from cockpit.hosts.link import call_blocking
from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine, LogMark, PresentLog, Read
from cockpit.model.observed import JobValue, LogValue, OtherLog, Row
from cockpit.model.place import SSH, Place, on_host
from cockpit.sources.logs.pieces import ENDING, ENDINGS, Answer, Told, errors, packing_of, unpacked
from cockpit.sources.logs.ranged import Opened, Ranged, Span, Stream, Wish
from cockpit.sources.logs.remote import HostAsk, HostError, Hosts, remote_log
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
    before = zlib.crc32(log.read(max(0, mark.offset - GUARD), mark.offset))
    return mark.offset if before == mark.before else None


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


async def bring(logs: Mapping[str, tuple[Place, LogMark | None]]) -> dict[str, Told]:
    """Return what ``read_present`` is given of each log, by its name here; never raises.

    Whatever is left out is to be asked for by itself: one file that hangs costs the others nothing.
    """
    asks = {}
    for name, (place, mark) in logs.items():
        log = remote_log(place)
        asks[name] = HostAsk(place.host, log.asking(wish(log, mark)))
    told = await Hosts(call_blocking).bring(asks)
    return {name: each for name, each in told.items() if _final(each)}


def _final(told: Told) -> bool:
    """Tell whether asking for that log alone would bring no more."""
    gone = isinstance(told, HostError) and told.kind is not ErrorKind.TIMEOUT
    return gone or isinstance(told, Answer | FileNotFoundError | PermissionError)


MOST: Final = 16
"""Logs of one job that are followed besides the first."""


def filled(place: Place, job: JobValue | None) -> Place:
    """Return a log's place with what Slurm calls by a letter: the job's numbers, else anything."""
    if "%" not in place.path:
        return place
    name = "" if job is None or job.id is None else job.id
    base, _, task = name.partition("_")
    known = {"j": name, "J": name, "A": base, "a": task, "x": "", "u": "", "s": ""}
    path = _LETTER.sub(lambda found: known.get(found[1]) or "*", place.path)
    return Place(place.scheme, place.host, path)


_LETTER: Final = late_regex(r"%\d?([jJAaxusnNt])")
_EACH: Final = late_regex(r"%\d?[nNt]")
"""What stands for one file of each task or node: all of them are written at once."""


Matched = Mapping[Place, Sequence[Answer]]
"""The files that each pattern matches on its host, as measured there."""


def logs_of(
    query: Query, first: Place | None, others: Sequence[Place], away: Matched = MappingProxyType({})
) -> Several:
    """Return the logs of a run; of patterns the files that they match. Blocking.

    ``away`` has been asked for ``patterns_away``.
    """
    spec, since = query.run.job, _since(query.job)
    named = () if spec is None else spec.other_logs
    found: list[Place] = []
    own = _pattern_of_each(query, first)
    if own is not None:
        found += _matches(own, since, away)
    if first is not None:
        first = found[0] if found else filled(first, query.job)
    for each in named:
        found += _matches(filled(each, query.job), since, away)
    return Several(query.name, first, (*found, *others))


def patterns_away(query: Query, first: Place | None) -> Iterator[Place]:
    """Yield the patterns of a run's logs whose files must be asked for on an ssh host."""
    spec = query.run.job
    named = () if spec is None else spec.other_logs
    for each in (_pattern_of_each(query, first), *(filled(each, query.job) for each in named)):
        if each is not None and each.scheme == SSH and has_magic(each.path):
            yield each


def _pattern_of_each(query: Query, first: Place | None) -> Place | None:
    """Return the pattern of a log that each task or node has one of, if it is named so."""
    spec = query.run.job
    own = first if spec is None or spec.log is None else spec.log
    if own is None or not _EACH.search(own.path):
        return None
    host = None if spec is None else spec.host
    return filled(on_host(host, own.path) if own.here else own, query.job)


def patterned(query: Query) -> bool:
    """Tell whether a run's logs are to be looked for: of ``job.log`` alone the newest is read."""
    spec = query.run.job
    if spec is None or spec.log is None:
        return False
    others = any(has_magic(each.path) for each in spec.other_logs)
    return others or any("%" in each.path for each in (spec.log, *spec.other_logs))


def plainly(query: Query, first: Place | None, others: Sequence[Place]) -> Several:
    """Return the logs of a run that names no patterns."""
    spec = query.run.job
    named = () if spec is None else spec.other_logs
    return Several(query.name, first, (*named, *others))


def _since(job: JobValue | None) -> float:
    return 0.0 if job is None or job.started_at is None else job.started_at - FILE_SKEW


def _matches(place: Place, since: float, away: Matched) -> list[Place]:
    """Return the files of a pattern that were written since then; else the place itself."""
    if not has_magic(place.path) or not (place.here or place in away):
        return [place]
    if not place.here:
        late = [each for each in away[place] if each.mtime >= since]
        return [Place(place.scheme, place.host, each.path) for each in late][:MOST]
    root = Path(place.path)
    found = []
    for match in sorted(Path(root.anchor).glob(str(root.relative_to(root.anchor)))):
        with suppress(OSError):  # gone since it was listed
            if match.stat().st_mtime >= since:
                found.append(Place(place.scheme, "", str(match)))
    return found[:MOST]


class Several:
    """The logs of one run: under ``name`` its first one, the others under keys of their own."""

    def __init__(self, name: str, first: Place | None, others: Iterable[Place]) -> None:
        self.name = name
        more = [each for each in dict.fromkeys(others) if each != first][:MOST]
        self.places: dict[str, Place | None] = {name: first}
        self.places.update((f"{name}\0{each}", each) for each in more)

    def shown(
        self, found: Mapping[str, Facet[LogValue]], steps: set[str], former: str | None
    ) -> str:
        """Return the key of the log that is shown: the one that was, unless only another steps."""
        known = [key for key in found if found[key].value is not None]
        order = [key for key in (former, *found) if key in known]
        return next((key for key in order if key in steps), next(iter(order), self.name))

    def joined(
        self, shown: str, found: Mapping[str, Facet[LogValue]], step: int | None
    ) -> Facet[LogValue]:
        """Return the facet of the log that is shown, at a ``step``, with the others by name."""
        facet = found[shown]
        if facet.value is None:
            return facet
        values = {key: each.value for key, each in found.items() if key != shown}
        there = [value for value in values.values() if value is not None]
        named = tuple(OtherLog(path=v.path, size=v.size, mtime=v.mtime) for v in there)
        rows = [*facet.value.rows]
        rows += [row for value in there for row in _loss_of(value, step)]
        value = facet.value.model_copy(update={"others": named, "rows": tuple(rows)})
        return facet.model_copy(update={"value": value})


def _loss_of(value: LogValue, step: int | None) -> list[Row]:
    """Return the row of another log that tells the newest loss, or one that is no number."""
    bare = [row for row in value.rows if row.step is None and row.loss is not None]
    broken = [row for row in bare if not math.isfinite(row.true_loss or 0.0)]
    newest = (broken or bare)[-1:]
    return [row._replace(step=step, at=row.at or value.mtime) for row in newest]
