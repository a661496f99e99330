"""Read the training progress of whole logs, line after line, as fast as they are written.

A log has few shapes of lines. What one means is remembered with an expression that reads the
figures of all its lines; of most others one look into a table says that they tell nothing. What
is remembered is bounded, and changes nothing of what is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from cockpit.text.line_shape import Shape, Span, pattern_of, shape_of
from cockpit.text.meaning import Meaning, begins_block, meaning_of
from cockpit.text.progress import LineProgress, plain, told, told_in
from cockpit.text.safe import LINE_LIMIT

Told = tuple[int, LineProgress]
"""A line's number, from 1, and what it says."""

_LONGEST_BLOCK: Final = 100
_LEFT_OUT: Final = bytes(
    {*b"0123456789 #=>.-", *b"\xe2\x94\x95\x96\x81\xb8\xba", *range(0x88, 0x90)}
)
"""What a line's key lacks, byte by byte: digits, padding, what bars are filled with."""
_MOST_KEYS: Final = 4096
_MOST_BYTES: Final = 1_000_000
_MOST_PATTERNS: Final = 8
"""Expressions of one key: shapes that differ in what a key lacks."""
_STATES: Final = 1000
_LETTERS: Final = re.compile(rb"[!-~]*")
_NEEDED: Final = (
    *(b"loss", b"step", b"iter", b"batch", b"epoch", b"update", b"train"),
    *(b"%|", b"it[", b"progresson:"),
)
_SHORT: Final = (b"it", b"up", b"ep", b"up")
_BESIDE: Final = (
    *(b"lr", b"learning", b"norm", b"grad", b"mfu", b"ppl", b"perplexity", b"consumed", b"mom"),
    *(b"acc", b"tokens", b"samples", b"bsz", b"skipped", b"cost", b"entropy", b"xent", b"/"),
    *(b"wps", b"ups", b"sps", b"tps", b"tgs", b"time", b"timing", b"sec", b"dt", b"ms", b"avg"),
)


class _Pattern(NamedTuple):
    """An expression for the lines of one shape, and what they mean."""

    match: Callable[[str], re.Match[str] | None]
    groups: Sequence[int]
    """The group of each of ``Meaning.figures``."""
    meaning: Meaning | None
    begins_block: bool


class _Key:
    """What is known of the lines that have one key: the newest shape, and their expressions."""

    __slots__ = ("newest", "patterns")

    def __init__(self, newest: str = "") -> None:
        self.newest = newest
        self.patterns: tuple[_Pattern, ...] = ()


_NEW: Final = _Key()
_HEAD: Final = LineProgress("head")
_known: dict[bytes, _Key | None] = {}
"""By key; ``None``: no line that has it tells anything, whatever its key lacks."""


def read_lines(lines: Iterable[str]) -> Iterator[Told]:
    """Yield the number (from 1) and progress of each line, or block of lines, that tells any."""
    return read_raw(line.encode("utf-8", "replace") for line in lines)


def read_raw(lines: Iterable[bytes]) -> Iterator[Told]:
    """Do the same for lines as they stand in a file, without their breaks."""
    states = map(_state, lines)
    return _read((state, state.translate(None, _LEFT_OUT)) for state in states)


def read_chunks(chunks: Iterable[bytes]) -> Iterator[Told]:
    """Do the same for chunks of whole lines, each without its last break."""
    return _read(chain.from_iterable(map(_pairs, chunks)))


def _pairs(chunk: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Return the lines of a chunk with their keys."""
    lines = chunk.split(b"\n")
    if b"\t" in chunk or b"\r" in chunk:
        lines = [_state(line) for line in lines]
        chunk = b"\n".join(lines)
    return zip(lines, chunk.translate(None, _LEFT_OUT).split(b"\n"), strict=True)


def _state(line: bytes) -> bytes:
    r"""Return the last of a line's ``\r`` states that shows something, its tabs as spaces."""
    if b"\r" in line:
        line = _last_state(line.rstrip(b"\r"))
    return line.replace(b"\t", b"   ") if b"\t" in line else line


def _last_state(line: bytes) -> bytes:
    end = len(line)
    for _ in range(_STATES):
        start = line.rfind(b"\r", 0, end) + 1
        state = line[start:end]
        if start == 0 or plain(state[: 8 * LINE_LIMIT].decode("utf-8", "replace")).strip():
            return state
        end = start - 1
    return b""


def _read(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Told]:
    block: list[bytes] = []
    first = 0
    known_of = _known.get
    for number, (raw, key) in enumerate(pairs, start=1):
        known = known_of(key, _NEW)
        if block:
            if len(block) < _LONGEST_BLOCK and _is_indented(raw):
                block.append(raw)
                continue
            yield from _numbered(first, block)
            block = []
        if known is None:
            continue
        found = _told_by(raw, key, known)
        if found is _HEAD:
            first, block = number, [raw]
        elif found is not None:
            yield number, found
    yield from _numbered(first, block)


def _numbered(number: int, block: list[bytes]) -> Iterator[Told]:
    """Yield what a block says, which is read as a line that has breaks."""
    if not block:
        return
    raw = b"\n".join(block)
    key = raw.translate(None, _LEFT_OUT)
    found = _told_by(raw, key, _known.get(key) or _NEW, whole=True)
    if found is not None:
        yield number, found


def _is_indented(raw: bytes) -> bool:
    """Tell whether a line belongs to the block before it; a bar begins with a blank, too."""
    if b"%|" in raw:
        return False
    if raw[:1].isspace() or _LETTERS.fullmatch(raw[:1]):
        return raw[:1].isspace()
    return plain(raw.decode("utf-8", "replace"))[:1].isspace()


def _told_by(raw: bytes, key: bytes, known: _Key, whole: bool = False) -> LineProgress | None:
    """Return what a line tells; ``_HEAD`` for the head of a block, unless ``whole``."""
    text = raw.decode("utf-8", "replace")
    if len(text) <= LINE_LIMIT:
        for pattern in known.patterns:
            found = pattern.match(text)
            if found is None:
                continue
            if pattern.begins_block and not whole:
                return _HEAD
            if pattern.meaning is None:
                return None
            return told(pattern.meaning, found.group(*pattern.groups))
    if known is _NEW and _tells_nothing(key):
        _remember(key, None)
        return None
    return _learned(text, key, known, whole)


def _tells_nothing(key: bytes) -> bool:
    """Tell whether no line with this key can be understood, whatever the key lacks.

    A line that is has a bar's own signs, or a word for a step, an epoch or the loss, and no word
    is broken by what a key lacks. What is no plain text may have a word that does not show here.
    """
    low = key.lower()
    if _LETTERS.fullmatch(key) is None or low[:1] == b"{" or any(word in low for word in _NEEDED):
        return False
    return not (any(word in low for word in _SHORT) and any(word in low for word in _BESIDE))


def _learned(text: str, key: bytes, known: _Key, whole: bool) -> LineProgress | None:
    """Read a line at the full price, and remember its shape for the next ones."""
    shape = shape_of("\n".join(map(plain, text.split("\n"))))
    heads = begins_block(shape.shape)
    if known is _NEW:
        _remember(key, _Key(shape.shape))
    elif known.newest != shape.shape:
        known.newest = shape.shape  # one that comes again is worth an expression
    elif len(text) <= LINE_LIMIT and len(known.patterns) < _MOST_PATTERNS:
        pattern = _pattern(text, shape, heads)
        known.patterns += () if pattern is None else (pattern,)
    return _HEAD if heads and not whole else told_in(shape)


def _pattern(text: str, shape: Shape, heads: bool) -> _Pattern | None:
    meaning = meaning_of(shape.shape)
    figures = () if meaning is None else meaning.figures
    spans: list[Span] = sorted({figure.span for figure in figures if figure is not None})
    pattern = pattern_of(text, shape.shape, spans)
    if pattern is None:
        return None
    none = len(spans) + 1  # a group that never takes part
    groups = [none if each is None else spans.index(each.span) + 1 for each in figures]
    return _Pattern(re.compile(f"{pattern.pattern}(?:$|(x))").fullmatch, groups, meaning, heads)


def _remember(key: bytes, known: _Key | None) -> None:
    if len(key) > LINE_LIMIT:
        return
    if len(_known) >= _MOST_KEYS or _held.bytes > _MOST_BYTES:
        forget()
    _known[key] = known
    _held.bytes += len(key) + (0 if known is None else len(known.newest))


def forget() -> None:
    """Forget all shapes."""
    _known.clear()
    _held.bytes = 0


def remembered() -> int:
    """Return how many keys are remembered."""
    return len(_known)


class _Held:
    """How much the keys hold that are remembered."""

    bytes = 0


_held = _Held()
