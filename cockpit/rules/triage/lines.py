"""The lines that triage looks at: matched by shape, with what training did after each."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache

from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.model.observed import Triage
from cockpit.rules.triage.log_text import counts_an_epoch, losses_of, steps_of
from cockpit.rules.triage.signs import STARTS

READ = 20_000
"""Newest lines that are looked at."""

PROOF = 3
"""Different steps logged after a trouble that prove it was overcome: ranks that have not met it
may log one more, or two."""

_SGR = re.compile(r"\x1b\[[\d;]*m")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.I)
_MEANT = frozenset(
    ("0", "2", "9", "15", "16", "28", "122", "130", "137", "143", "502", "503", "504")
)
"""Numbers that a sign may spell out; all others are alike to it (and so are the 400s)."""


class Log:
    """The present job's lines, oldest first.

    Most lines of a log differ in their figures alone, so a pattern is tried on one line of
    each shape: 20,000 lines take a fraction of a second, whatever the number of patterns.
    """

    def __init__(self, places: Sequence[LogLine], read: Read) -> None:
        self.places = tuple(places)
        self.lines = tuple(_SGR.sub("", place.text) for place in places)
        self.read = read
        self._shapes: dict[str, int] = {}
        self._samples: list[str] = []
        self._words: dict[str, bool] = {}
        self._shape_of = [self._shape(line) for line in self.lines]

    @classmethod
    def of(cls, log: PresentLog) -> Log:
        """Return what is to be looked at: the newest lines, from where the job is said to begin."""
        places, read = log.lines[-READ:], log.read
        if len(places) < len(log.lines):
            why = f"only its last {READ:,} lines were read"
            read = read.model_copy(update={"whole": False, "why": why, "lines": READ})
        whole = cls(places, read)
        starts = whole.matching(STARTS) if read.since == "file" else []
        if not starts:
            return whole
        rest = places[starts[-1] :]
        said = {"since": "said", "whole": True, "why": None, "lines": len(rest)}
        return cls(rest, read.model_copy(update=said))

    def _shape(self, line: str) -> int:
        shape = _NUMBER.sub(_figure, line)
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = len(self._samples)
            self._samples.append(line)
        return known

    @cached_property
    def _low(self) -> list[str]:
        return [sample.lower() for sample in self._samples]

    @cached_property
    def _text(self) -> str:
        return "\n".join(self._low)

    def _has(self, word: str) -> bool:
        known = self._words.get(word)
        if known is None:
            known = self._words[word] = word in self._text
        return known

    def matching(self, pattern: re.Pattern[str]) -> list[int]:
        """Return the indexes of the lines that match."""
        needed = words_of(pattern)
        if needed is None:
            hit = [pattern.search(sample) is not None for sample in self._samples]
        else:
            words = [word for word in needed if self._has(word)]
            if not words:
                return []
            hit = [
                any(word in low for word in words) and pattern.search(sample) is not None
                for low, sample in zip(self._low, self._samples, strict=True)
            ]
        return [index for index, shape in enumerate(self._shape_of) if hit[shape]]

    def evidence(self, index: int) -> Triage.Line:
        """Return a line as evidence: by its number in the file, as far as that is known."""
        place = self.places[index]
        return Triage.Line(
            line=place.number, text=self.lines[index], offset=place.offset, file=place.file
        )

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """The (index, step) of every training line."""
        return steps_of(self.lines)

    @cached_property
    def losses(self) -> list[tuple[int, float]]:
        """The (index, loss) of every line that tells one."""
        return losses_of(self.lines)

    @property
    def newest_step(self) -> int | None:
        """The step of the run that the last training line names."""
        steps = (s for index, s in reversed(self.steps) if not counts_an_epoch(self.lines[index]))
        return next(steps, None)

    def _steps_after(self, index: int) -> set[int]:
        """Return the steps logged after a line, the one reached before it not counted."""
        cut = bisect_right(self.steps, (index, 1 << 62))
        before = self.steps[cut - 1][1] if cut else None
        return {step for _, step in self.steps[cut:] if step != before}

    def went_on(self, index: int) -> bool:
        """Tell whether another training step is logged after a line."""
        return bool(self._steps_after(index))

    def outlived(self, index: int) -> bool:
        """Tell whether training went on after a line for so long that it was overcome."""
        return len(self._steps_after(index)) >= PROOF

    def numbers_came_back(self, index: int) -> bool:
        """Tell whether finite losses were logged after a line, up to the last one."""
        after = [loss for at, loss in self.losses if at > index]
        return len(after) >= PROOF and all(map(math.isfinite, after[-PROOF:]))

    def lost_numbers(self) -> list[int]:
        """Return the lines whose losses are no numbers, where the last loss is one of them."""
        if not self.losses or math.isfinite(self.losses[-1][1]):
            return []
        return [index for index, loss in self.losses if not math.isfinite(loss)]


def _figure(found: re.Match[str]) -> str:
    text = found[0]
    spelled = text in _MEANT or (len(text) == 3 and text[0] == "4")
    return text if spelled else "1"


_NO_LITERAL = re.compile(r"\\.|\[[^\]]*\]|\{[^}]*\}|\w[?*]|[^\w|]")
_WORD = re.compile(r"[a-z_]{3,}")


@lru_cache(maxsize=256)
def words_of(pattern: re.Pattern[str]) -> frozenset[str] | None:
    """Return words of which a line that matches holds at least one; ``None`` if none is sure.

    They are the plain letters that each alternative spells out. To look for words is many
    times faster than to try an expression, and most lines hold none.
    """
    found: set[str] = set()
    for branch in branches(pattern.pattern):
        words = _WORD.findall(_NO_LITERAL.sub(" ", branch).lower())
        if not words:
            return None
        found.update(words)
    return frozenset(found)


def branches(pattern: str) -> list[str]:
    """Return the alternatives of an expression that stand in no bracket."""
    branches, depth, at = [""], 0, 0
    while at < len(pattern):
        step = 2 if pattern[at] == "\\" else 1
        piece = pattern[at : at + step]
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += piece
        at += step
    return branches
