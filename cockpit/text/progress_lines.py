"""Read the training progress of whole logs, line after line, as fast as they are written.

A log has few shapes of lines. For each shape the meaning is remembered, with an expression that
reads the figures of its lines (``LinePattern``). Of most other lines one look into a table says
that they contain no progress. Where line after line has one shape, the expression reads them
together (``Run``). What is remembered is bounded, and changes nothing of what is read.

Measured on 20 MB of log: 0.3 s where one line in ten is progress, 0.5 s where all are (1.3 s
without ``Run``). Without shapes it takes many times as long (``bench.progress_log``).
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress, count, islice
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.text.fields import Shape, Span, pattern_of, shape_of
from cockpit.text.progress import (
    LineProgress,
    Meaning,
    begins_block,
    meaning_of,
    plain,
    progress_in,
    progress_of,
)
from cockpit.text.safe import LINE_LIMIT
from cockpit.text.tables import Tables

ProgressAt = tuple[int, LineProgress]
"""A line's number, from 1, and what it says."""


class LinePattern(NamedTuple):
    """An expression for the lines of one shape, and what they mean."""

    line: re.Pattern[str]
    run: str
    """The same for line after line, their breaks in it, and in one piece for what follows.

    Compiled when it is needed: most shapes never come twice in a row.
    """
    lines: int
    """The lines of a block, else 1."""
    groups: Sequence[int]
    """The group of each of ``Meaning.figures``; of one that is not there, a group that is empty."""
    meaning: Meaning | None
    begins_block: bool


class Run(NamedTuple):
    """Lines, or blocks of ``stride`` lines, that follow each other and have one shape."""

    first: int
    """The number of the first of them, from 1."""
    stride: int
    meaning: Meaning
    columns: Sequence[Sequence[str]]
    """Of each of ``Meaning.figures`` its texts, line by line; of one that is ``None`` any text."""

    @property
    def lines(self) -> int:
        """Return how many they are."""
        return len(self.columns[0])

    def progress(self, begin: int = 0) -> Iterator[ProgressAt]:
        """Yield what each of them from ``begin`` on says, but for those that say nothing."""
        for at in range(begin, self.lines):
            found = progress_of(self.meaning, [column[at] for column in self.columns])
            if found is not None:
                yield self.first + at * self.stride, found


@lru_cache(maxsize=256)
def compiled(run: str) -> re.Pattern[str]:
    """Return the expression of lines after each other."""
    return re.compile(run)


def rows_of(pattern: LinePattern, lines: Sequence[bytes]) -> Sequence[Sequence[str]]:
    """Return the figures of the first lines of the pattern's shape."""
    if not lines or max(map(len, lines)) > LINE_LIMIT:
        return ()
    text = b"\n".join((*lines, b"")).decode("utf-8", "replace")
    rows = compiled(pattern.run).findall(text)
    return rows[:-1] if rows and rows[-1][-1] else rows


def line_pattern(text: str, shape: Shape, heads: bool) -> LinePattern | None:
    """Return the expression of the lines of a shape, learned from one; ``None`` if unsure.

    ``heads``: it is the head of a block.
    """
    meaning = meaning_of(shape.shape)
    figures = () if meaning is None else meaning.figures
    spans: list[Span] = sorted({figure.span for figure in figures if figure is not None})
    pattern = pattern_of(text, shape.shape, spans)
    if pattern is None:
        return None
    none = len(spans) + 1  # a group that never takes part
    groups = [none if each is None else spans.index(each.span) + 1 for each in figures]
    line = re.compile(f"{pattern}(?:$|(x))")
    lines = text.count("\n") + 1
    # a block is over where a line follows that is not indented
    after = "\n(?=[!-~])" if heads or lines > 1 else "\n"
    run = f"{pattern}{after}()|(?s:(.+))"
    return LinePattern(line, run, lines, groups, meaning, heads)


_Keyed = tuple[Sequence[bytes], Sequence[bytes]]
"""Lines, and the key of each."""

_LONGEST_BLOCK: Final = 100
"""Lines of a block at most: a longer one is no block of progress."""
_AHEAD: Final = (8, 1024)
"""Lines that are read together: at first, and as long as all of them are of one shape."""
_LEFT_OUT: Final = bytes(
    {*b"0123456789 #=>.-", *b"\xe2\x94\x95\x96\x81\xb8\xba", *range(0x88, 0x90)}
)
"""What a line's key lacks, byte by byte: digits, padding, what bars are filled with."""
_MOST_KEYS: Final = 4096
_MOST_BYTES: Final = 1_000_000
_WORTH: Final = 300
"""Characters of an expression that one more line of its shape pays for."""
_LATER: Final = 1000
"""Lines after which a shape that had no expression is tried again: it mostly has none."""
_MOST_PATTERNS: Final = 8
"""Expressions of one key: shapes that differ in what a key lacks."""
_STATES: Final = 1000
"""Drawn states of one line that are looked at, the last ones: a bar may have thousands."""
_SHOWN: Final = re.compile(rb" {0,80}[!-~]")
"""A state that begins so shows something, whatever follows."""
_SPELLED_BREAK: Final = late_regex(rb"(?:^|(?<=[\s:\])]))\^M")
r"""A ``\r`` as journald and some viewers spell it."""
_LETTERS: Final = re.compile(rb"[!-~]*")
_VISIBLE: Final = bytes((*range(ord("!"), ord("~") + 1), *range(0x80, 0x100)))
"""In a key: what breaks no word, unlike the sequence of a colour."""
_COUNTS: Final = re.compile(rb"[0-9{]")
"""Without a figure nothing is told, but for the head of a block whose figures stand below it."""
_NEEDED: Final = (
    *(b"loss", b"step", b"iter", b"batch", b"epoch", b"update", b"train"),
    *(b"%|", b"it[", b"progresson:", b"trl:"),
)
_SHORT: Final = (b"it", b"up", b"ep")
_SHORT_WORD: Final = re.compile(rb"(?:(?<![A-Za-z])(?:it|up|ep|IT|UP|EP)|It|Up|Ep)(?![a-z])")
_BESIDE: Final = (
    *(b"lr", b"learning", b"norm", b"grad", b"mfu", b"ppl", b"perplexity", b"consumed", b"mom"),
    *(b"acc", b"tokens", b"samples", b"bsz", b"skipped", b"cost", b"entropy", b"xent", b"/"),
    *(b"wps", b"ups", b"sps", b"tps", b"tgs", b"time", b"timing", b"sec", b"dt", b"ms", b"avg"),
)


class _Key:
    """What is known of the lines that have one key: the newest shape, and their expressions."""

    __slots__ = ("newest", "patterns", "short", "times")

    def __init__(self, *, short: bool = False) -> None:
        self.newest = ""
        self.patterns: tuple[LinePattern, ...] = ()
        self.short = short
        """Whether only a short word may tell that one of them counts."""
        self.times = 0
        """How often the newest shape has come again."""


_NEW: Final = _Key()
_HEAD: Final = LineProgress("head")
_known: dict[bytes, _Key | None] = {}
"""By key; ``None``: no line that has it tells anything, whatever its key lacks."""


def read_lines(lines: Iterable[str]) -> Iterator[ProgressAt]:
    """Yield the number (from 1) and progress of each line, or block of lines, that tells any."""
    return read_raw(line.encode("utf-8", "replace") for line in lines)


def last_step(lines: Iterable[str]) -> tuple[int, int] | None:
    """Return the index of the last line of progress with a step of the run, and that step."""
    newest = None
    for number, one in read_lines(lines):
        if one.scope == "run" and one.step is not None:
            newest = number - 1, one.step
    return newest


def read_raw(lines: Iterable[bytes]) -> Iterator[ProgressAt]:
    """Do the same for lines as they stand in a file, without their breaks."""
    states = map(_state, lines)
    return _each(_read(_some(states)))


def read_more(lines: Sequence[bytes], nesting: Nesting) -> Iterator[ProgressAt]:
    """Do the same for lines that a log has got since the last call, without inner bars."""
    states = map(_state, lines)
    found = _read(_some(states), nesting.tables)
    yield from _each(without_inner_bars(found, nesting))
    nesting.passed(len(lines))


def read_chunks(chunks: Iterable[bytes]) -> Iterator[ProgressAt]:
    """Do the same for chunks of whole lines, each without its last break."""
    return _each(read_runs(chunks))


def read_training(chunks: Iterable[bytes]) -> Iterator[ProgressAt]:
    """Do the same for a whole log, without the bars of evaluations in the midst of a training."""
    return _each(without_inner_bars(read_runs(chunks)))


def read_runs(chunks: Iterable[bytes]) -> Iterator[ProgressAt | Run]:
    """Do the same, and give lines that are read together as they are: ``Run.told`` reads them."""
    return _read(map(_keyed, chunks))


def _each(found: Iterable[ProgressAt | Run]) -> Iterator[ProgressAt]:
    for each in found:
        if isinstance(each, Run):
            yield from each.progress()
        else:
            yield each


def _some(lines: Iterator[bytes]) -> Iterator[_Keyed]:
    """Yield lines with their keys, some at a time."""
    while some := list(islice(lines, _AHEAD[1])):
        yield some, [line.translate(None, _LEFT_OUT) for line in some]


def _keyed(chunk: bytes) -> _Keyed:
    """Return the lines of a chunk with their keys."""
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", b"\n")
    lines = chunk.split(b"\n")
    if any(map(chunk.__contains__, (b"\t", b"\r", b"\0", b"^M"))):
        lines = [_state(line) for line in lines]
        chunk = b"\n".join(lines)
    return lines, chunk.translate(None, _LEFT_OUT).split(b"\n")


def _state(line: bytes) -> bytes:
    r"""Return the last of a line's ``\r`` states that shows something, its tabs as spaces.

    Without NUL bytes: of UTF-16 each other byte is one.
    """
    if b"\0" in line:
        line = line.replace(b"\0", b"").removeprefix(codecs.BOM_UTF16_LE)
    if b"^M" in line:
        line = _SPELLED_BREAK.sub(b"\r", line)
    if b"\r" in line:
        line = _last_state(line.rstrip(b"\r"))
    return line.replace(b"\t", b"   ") if b"\t" in line else line


def _last_state(line: bytes) -> bytes:
    end = len(line)
    for _ in range(_STATES):
        start = line.rfind(b"\r", 0, end) + 1
        state = line[start:end]
        if (
            start == 0
            or _SHOWN.match(state)
            or plain(state[: 8 * LINE_LIMIT].decode("utf-8", "replace")).strip()
        ):
            return state
        end = start - 1
    return b""


def _read(chunks: Iterable[_Keyed], tables: Tables | None = None) -> Iterator[ProgressAt | Run]:
    reader, tables = _Reader(), tables or Tables()
    for lines, keys in chunks:
        named = tables.written_out(lines, keys)
        keys = keys if named is lines else [line.translate(None, _LEFT_OUT) for line in named]
        yield from reader.read(named, keys)
    yield from reader.close()


class _Reader:
    """Reads chunk after chunk; between them it keeps the block that is open, and the run."""

    def __init__(self) -> None:
        self._read = 0
        """Lines of the chunks before."""
        self._block: list[bytes] = []
        self._first = 0
        self._pattern: LinePattern | None = None
        """What the newest entry was read with, if it was with an expression."""
        self._next = 0
        """The number of the line behind that entry."""
        self._ahead = _AHEAD[0]

    def read(self, lines: Sequence[bytes], keys: Sequence[bytes]) -> Iterator[ProgressAt | Run]:
        """Yield what a chunk's lines tell."""
        beyond = (yield from self._end_of_block(lines, 0)) if self._block else 0
        # Most lines of most logs have few keys between them, of which most contain no progress.
        worth = {key for key in set(keys) if _known.get(key, _NEW) is not None}
        places = list(compress(count(), map(worth.__contains__, keys))) if worth else []
        place = bisect_left(places, beyond)
        while place < len(places):
            at = places[place]
            place, known, beyond = place + 1, _known.get(keys[at], _NEW), at + 1
            if known is None:
                continue
            found, pattern = _progress_of_line(lines[at], keys[at], known)
            if found is _HEAD:
                self._first = self._read + beyond
                self._block.append(lines[at])
                beyond = yield from self._end_of_block(lines, beyond)
            elif found is not None:
                yield self._read + beyond, found
                self._noted(pattern, self._read + beyond, 1)
                beyond += yield from self._run(lines, beyond)
            if beyond > at + 1:
                place = bisect_left(places, beyond, place)
        self._read += len(lines)

    def _end_of_block(
        self, lines: Sequence[bytes], at: int
    ) -> Generator[ProgressAt | Run, None, int]:
        """Take what from a place on belongs to the open block, which may go on beyond the lines.

        Yield what it says once it is over, and the blocks behind it that are as it is; return up
        to where all is read.
        """
        block = self._block
        while at < len(lines) and len(block) < _LONGEST_BLOCK and _is_indented(lines[at]):
            block.append(lines[at])
            at += 1
        if at < len(lines):
            yield from self.close()
            at += yield from self._run(lines, at)
        return at

    def close(self) -> Iterator[ProgressAt]:
        """Yield what the open block says, which is read as a line that has breaks."""
        if not self._block:
            return
        raw, lines = b"\n".join(self._block), len(self._block)
        self._block.clear()
        key = raw.translate(None, _LEFT_OUT)
        found, pattern = _progress_of_line(raw, key, _known.get(key) or _NEW, whole=True)
        if found is not None:
            yield self._first, found
            self._noted(pattern, self._first, lines)

    def _noted(self, pattern: LinePattern | None, number: int, lines: int) -> None:
        """Note what an entry was read with; lines ahead are worth a look if it goes on so."""
        if pattern is not self._pattern or number != self._next:
            self._ahead = 0
        elif not self._ahead:
            self._ahead = _AHEAD[0]
        self._pattern, self._next = pattern, number + lines

    def _run(self, lines: Sequence[bytes], at: int) -> Generator[Run, None, int]:
        """Yield those from a place on that are as the newest entry; return how many lines."""
        pattern, taken = self._pattern, 0
        if self._next != self._read + 1 + at:
            return 0
        while pattern is not None and pattern.meaning is not None and self._ahead:
            end = at + taken + self._ahead * pattern.lines
            rows = rows_of(pattern, lines[at + taken : end + 1])
            if rows:
                columns = list(zip(*rows, strict=True))
                chosen = [columns[group - 1] for group in pattern.groups]
                yield Run(self._next, pattern.lines, pattern.meaning, chosen)
                taken += len(rows) * pattern.lines
                self._next += len(rows) * pattern.lines
            if len(rows) < self._ahead:
                break
            self._ahead = min(2 * self._ahead, _AHEAD[1])
        return taken


def _is_indented(raw: bytes) -> bool:
    """Tell whether a line belongs to the block before it; a bar begins with a blank, too."""
    if b"%|" in raw:
        return False
    if raw[:1].isspace() or _LETTERS.fullmatch(raw[:1]):
        return raw[:1].isspace()
    return plain(raw.decode("utf-8", "replace"))[:1].isspace()


def _progress_of_line(
    raw: bytes, key: bytes, known: _Key, whole: bool = False
) -> tuple[LineProgress | None, LinePattern | None]:
    """Return what a line tells, and what it was read with if that was an expression.

    ``_HEAD`` for the head of a block, unless ``whole``.
    """
    text = raw.decode("utf-8", "replace")
    if len(text) <= LINE_LIMIT:
        for pattern in known.patterns:
            found = pattern.line.fullmatch(text)
            if found is None:
                continue
            if pattern.begins_block and not whole:
                return _HEAD, None
            if pattern.meaning is None:
                return None, None
            return progress_of(pattern.meaning, found.group(*pattern.groups)), pattern
    if known is _NEW and _tells_nothing(key):
        _remember(key, None)
        return None, None
    if _COUNTS.search(raw) is None:
        return None, None
    if known is _NEW:
        known = _Key(short=_needs_short_word(key))
        _remember(key, known)
    if known.short and _SHORT_WORD.search(raw) is None:
        return None, None
    return _learned(text, known, whole), None


def _tells_nothing(key: bytes) -> bool:
    """Tell whether no line with this key can be understood, whatever the key lacks.

    A line that is has a bar's own signs, or a word for a step, an epoch or the loss, and no word
    is broken by what a key lacks. What is no plain text may have a word that does not show here.
    """
    low = key.lower()
    holds = low.__contains__
    if not _is_worded(key, low) or any(map(holds, _NEEDED)):
        return False
    return not (any(map(holds, _SHORT)) and any(map(holds, _BESIDE)))


def _is_worded(key: bytes, low: bytes) -> bool:
    """Tell whether all words of a line show in its key, which is no head of a block."""
    return low[:1] != b"{" and not key.translate(None, _VISIBLE)


def _needs_short_word(key: bytes) -> bool:
    """Tell whether a line with this key is understood only by a short word: ``12 it``."""
    low = key.lower()
    return _is_worded(key, low) and not any(map(low.__contains__, _NEEDED))


def _learned(text: str, known: _Key, whole: bool) -> LineProgress | None:
    """Read a line at the full price, and remember its shape for the next ones."""
    shape = shape_of("\n".join(map(plain, text.split("\n"))))
    heads = begins_block(shape.shape)
    if known.newest != shape.shape:
        known.newest, known.times = shape.shape, 0
    elif len(text) <= LINE_LIMIT and len(known.patterns) < _MOST_PATTERNS:
        known.times += 1  # one that comes again is worth an expression; a long one costs more
        if known.times * _WORTH >= len(text):
            pattern = line_pattern(text, shape, heads)
            if pattern is not None:
                known.patterns += (pattern,)
            known.times = 0 if pattern is not None else -_LATER
    return _HEAD if heads and not whole else progress_in(shape)


def _remember(key: bytes, known: _Key | None) -> None:
    if len(key) > LINE_LIMIT:
        return
    if len(_known) >= _MOST_KEYS or _held.bytes > _MOST_BYTES:
        forget()
    _known[key] = known
    _held.bytes += len(key) * (1 if known is None else 2)  # a shape is about as long


def forget() -> None:
    """Forget all shapes."""
    _known.clear()
    _held.bytes = 0


def remembered() -> int:
    """Return how many keys are remembered."""
    return len(_known)


class _CacheSize:
    """How much the keys hold that are remembered."""

    bytes = 0


_held = _CacheSize()


def without_inner_bars(
    found: Iterable[ProgressAt | Run], nesting: Nesting | None = None
) -> Iterator[ProgressAt | Run]:
    """Leave out bars that are drawn in the middle of another one's steps (``Nesting``)."""
    nesting = nesting or Nesting()
    for one in found:
        if not isinstance(one, Run):
            if not nesting.holds(*one):
                yield one
        elif not one.meaning.is_bar or len(set(one.columns[1])) == 1:
            ends = [*islice(one.progress(), 1), *islice(one.progress(one.lines - 1), 1)]
            if not any([nesting.holds(*each) for each in ends]):
                yield one
        else:  # lines of both bars
            yield from (each for each in one.progress() if not nesting.holds(*each))


_BETWEEN: Final = 10
"""Lines that may stand between a bar and another one that is drawn within one of its steps."""
_LONGER: Final = 2.0
"""So many steps of the outer bar the inner one takes at least; an epoch's bar takes one."""
_SECONDS_A_STEP: Final = {"it/s": (-1, 1.0), "s/it": (1, 1.0), "ms/it": (1, 1e-3)}


class Nesting:
    """Tells a bar that is drawn in the middle of another one's steps from the training's.

    An evaluation's bar often has no name, as Hugging Face's: what it counts is no step. It has
    another total, begins close behind the unfinished bar of the steps, and takes far longer
    than one of them does. The bar of an epoch's batches within one of epochs takes one of them.
    Where a loss of training is told between its lines it is a training that began anew.
    """

    def __init__(self) -> None:
        self.tables = Tables()
        """The table that is open at the end of what was read."""
        self._outer: LineProgress | None = None
        self._line = 0
        self._inner: int | None = None
        """The total of the bar that is being drawn within it."""

    def passed(self, lines: int) -> None:
        """Let the lines to come be numbered from 1 again, behind so many."""
        self._line -= lines

    def holds(self, line: int, found: LineProgress) -> bool:
        """Tell whether a line is of an inner bar; else it is of the outer one, if of any."""
        if found.format == "dict" and self._inner is not None:
            self._outer = self._inner = None
        if found.format != "tqdm" or found.scope != "run" or found.max_step is None:
            return False
        near, self._line = line - self._line <= _BETWEEN, line
        if near and found.max_step == self._inner:
            return True
        inner = near and found.loss is None and self._is_within(found)
        self._inner = found.max_step if inner else None
        self._outer = self._outer if inner else found
        return inner

    def _is_within(self, found: LineProgress) -> bool:
        outer = self._outer
        if outer is None or outer.max_step is None or outer.max_step == found.max_step:
            return False
        one, other = _seconds_a_step(outer), _seconds_a_step(found)
        if one is None or other is None or (outer.step or 0) >= outer.max_step:
            return False
        return (found.max_step or 0) * other > _LONGER * one


def _seconds_a_step(bar: LineProgress) -> float | None:
    if bar.throughput is None or bar.unit not in _SECONDS_A_STEP:
        return None
    power, scale = _SECONDS_A_STEP[bar.unit]
    return scale * float(bar.throughput**power)


def present_log(lines: Sequence[LogLine], read: Read) -> PresentLog:
    """Return lines, oldest first, as they were read."""
    told, work = None, []
    for number, one in _each(without_inner_bars(read_lines(line.text for line in lines))):
        shown = one.step_shown if one.step is None else one.step
        if shown is not None:
            work.append((number - 1, f"{one.scope} {shown} {one.loss}"))
        if one.step is not None:
            told = (number - 1, one.step) if one.scope == "run" else told
    return PresentLog(tuple(lines), read, told, tuple(work))


def log_of_lines(lines: Sequence[str], why: str | None = None) -> PresentLog:
    """Return lines that are all there is at hand, numbered from 1; ``why``: they are not all."""
    size = sum(len(line) + 1 for line in lines)
    numbered = [LogLine(line, None if why else number) for number, line in enumerate(lines, 1)]
    read = Read(lines=len(lines), bytes=size, whole=why is None, why=why)
    return present_log(numbered, read)
