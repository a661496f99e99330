"""The lines of one shape as one expression, alone and line after line, and what they are read as.

A line is read with its figures (``LinePattern``); many that follow each other are read together
(``Run``), or only counted until somebody asks for their figures (``Stretch``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.text.line_shape import Shape, Span, pattern_of
from cockpit.text.meaning import Meaning, meaning_of
from cockpit.text.progress import LineProgress, told
from cockpit.text.safe import LINE_LIMIT

Told = tuple[int, LineProgress]
"""A line's number, from 1, and what it says."""
_PLAIN_COUNT: Final = re.compile(r"(?<!\\)\(\(\?:\[0-9\]\+\)\)")
"""A group of one figure, in an expression."""


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
    shape: str
    """Its own expression, without what may follow."""
    every: str
    """One for lines after each other of which each tells something; empty where figures decide."""


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

    def told(self, begin: int = 0) -> Iterator[Told]:
        """Yield what each of them from ``begin`` on says, but for those that say nothing."""
        for at in range(begin, self.lines):
            found = told(self.meaning, [column[at] for column in self.columns])
            if found is not None:
                yield self.first + at * self.stride, found


class Stretch(NamedTuple):
    """Lines that follow each other, have one shape and all tell something; none is read yet."""

    first: int
    lines: int
    text: str
    """They and their breaks."""
    pattern: LinePattern

    def run(self) -> Run:
        """Return all of them, read together."""
        assert self.pattern.meaning is not None
        columns = list(zip(*compiled(self.pattern.run).findall(self.text), strict=True))
        chosen = [columns[group - 1] for group in self.pattern.groups]
        return Run(self.first, 1, self.pattern.meaning, chosen)

    def last(self) -> Told:
        """Return what the last of them says."""
        begin = self.text.rfind("\n", 0, -1) + 1
        meaning, groups = self.pattern.meaning, self.pattern.groups
        line = self.pattern.line.fullmatch(self.text, begin, len(self.text) - 1)
        assert line is not None
        assert meaning is not None
        said = told(meaning, line.group(*groups))
        assert said is not None
        return self.first + self.lines - 1, said


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


def may_be_long(chunk: bytes) -> bool:
    """Tell whether a line of a chunk may be too long: one that is has no break in some part."""
    half = LINE_LIMIT // 2
    parts = range(0, len(chunk) - half, half)
    return any(chunk.find(b"\n", at, at + half) < 0 for at in parts)


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
    every = "" if meaning is None or heads or lines > 1 else _every(text, shape.shape, meaning)
    return LinePattern(line, run, lines, groups, meaning, heads, pattern, every)


def _every(text: str, shape: str, meaning: Meaning) -> str:
    """Return what matches lines of a shape of which ``told`` surely tells something.

    That hangs on a bar's rate, and on a step that is a plain count.
    """
    step = meaning.step
    if meaning.is_bar or (step is not None and step.scale):
        return ""
    spelled = pattern_of(text, shape, [] if step is None else [step.span]) or ""
    if step is not None:
        spelled, counted = _PLAIN_COUNT.subn("(?:[0-9]{1,14})", spelled)
        spelled = spelled if counted == 1 else ""
    return f"(?:{spelled}\n)*+" if spelled else ""
