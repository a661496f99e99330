"""Find the labelled numbers of a log line: ``loss: 2.31``, ``iter 660``, ``[step=1/739328]``.

A field is a number and the words right before it, whatever stands between them. It is found in
the line's shape (``cockpit.text.line_shape``): which digits a number has decides nothing here.
Nothing here knows a trainer; what the words mean is decided in ``labels``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.text.line_shape import Span

_NUMBER = late_regex(
    r"(?<![\w.])(?P<value>[-+]?(?:(?:0(?:\.0?)?|\.0)(?:[eE][-+]?0)?|(?i:nan|inf(?:inity)?)\b))"
    r"(?P<scale>[kKMGBT](?![\w]))?"
    r"(?:\s*(?:/|\bof\b)\s*(?P<max>0)(?P<max_scale>[kKMGBT](?![\w]))?(?!\w|\.0|/))?"
    r"\s?(?P<unit>%|[A-Za-z]*(?:/[A-Za-z]+)*)"
)
_LABEL = late_regex(
    r"(?P<label>[A-Za-z_][\w/.\-@ ]*?)(?:\((?P<note>[^()]{0,24})\))?[\"'\]]{0,2}"
    r"\s*(?:=>|[:=#]){0,2}\s*(?:tensor)?[\[\"'(<]{0,2}\s*$"
)
_WORDS = late_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|0")
_DELIMITERS = late_regex(r"[|,;{}\t\n]|\s-\s|\s{3,}|\)\s|%\)?")
_CLOCK = late_regex(r":0")
_UNITS = frozenset(("%", "ms", "s", "sec", "secs", "us", "it", "GB", "GiB", "MB", "MiB", "BPC"))
_PER = frozenset(
    (
        *("s", "sec", "second", "it", "iter", "iteration", "step", "batch", "update"),
        *("device", "gpu", "GPU", "chip"),
    )
)
_RATES = frozenset(("throughput", "speed", "rate", "perf", "performance"))
_LOOK_BACK = 80


class LabelledNumber(NamedTuple):
    """One number of a line's shape: the words before it, where it stands, its maximum and unit."""

    words: tuple[str, ...]
    label: str
    note: str
    shown: str
    """As the shape has it: ``0``, ``-0.0e-0``, ``nan``."""
    span: Span
    scale: str
    maximum: Span | None
    max_scale: str
    unit: str
    bracketed: bool
    """True where a bracket opens before it; one without a label has no words."""
    counted: str = ""
    """The word behind it, whether unit or not: ``200/ 2983 batches``."""

    @property
    def at(self) -> int:
        """Where in the shape the number begins."""
        return self.span[0]

    @property
    def counts(self) -> bool:
        """True if it may be a count; of one with a fraction only its digits tell."""
        return "0" in self.shown and self.shown[0] in "0+"

    def moved(self, by: int) -> LabelledNumber:
        """Return it as it stands in a longer text, ``by`` characters further on."""
        start, end = self.span
        maximum = self.maximum and (self.maximum[0] + by, self.maximum[1] + by)
        return self._replace(span=(start + by, end + by), maximum=maximum)

    @property
    def whole(self) -> bool:
        """True if it is a count, whatever its digits."""
        return self.shown.lstrip("+") == "0"


@lru_cache(maxsize=512)
def fields(shape: str) -> tuple[LabelledNumber, ...]:
    """Return the numbers of a line's shape from left to right; a time of day is none."""
    return tuple(_fields(shape))


def _fields(shape: str) -> Iterator[LabelledNumber]:
    before = 0
    for match in _NUMBER.finditer(shape):
        start, end = match.span("value")
        if _is_clock(shape, start, end):
            before = end
            continue
        gap = _gap(shape, before, match.start())
        label = _label(shape[gap : match.start()])
        unit = _unit(shape, match, label.words)
        yield LabelledNumber(
            words=label.words,
            label=label.text,
            note=label.note,
            shown=match["value"],
            span=(start, end),
            scale=match["scale"] or "",
            maximum=match.span("max") if match["max"] else None,
            max_scale=match["max_scale"] or "",
            unit=unit,
            bracketed=label.bracketed,
            counted=match["unit"],
        )
        before = match.end("unit") if unit else match.start("unit")


def _is_clock(shape: str, start: int, end: int) -> bool:
    """Tell ``03:04:05`` (a time, or a duration) from numbers."""
    return _CLOCK.match(shape, end) is not None or shape[max(0, start - 2) : start] == "0:"


def _gap(line: str, before: int, number: int) -> int:
    """Return where the text before a number begins: never in the middle of a word."""
    gap = max(before, number - _LOOK_BACK)
    while before < gap < number and line[gap - 1].isalpha() and line[gap].isalpha():
        gap += 1
    return gap


def _unit(shape: str, match: re.Match[str], words: tuple[str, ...]) -> str:
    unit, end = match["unit"], match.end()
    if not _is_unit(unit, shape[end : end + 2]):
        return ""
    return "" if "/" in unit and words and _labels_next(shape, end, words) else unit


def _is_unit(word: str, after: str) -> bool:
    """Return whether ``word`` is the number's unit, not the label of the number after it."""
    if after.lstrip()[:1] in (":", "="):
        return False
    return word in _UNITS or ("/" in word and word.rpartition("/")[2] in _PER)


def _labels_next(line: str, end: int, words: tuple[str, ...]) -> bool:
    """Tell whether a rate's unit names the number after it: ``lr 3.0e-4 tok/s 67890``.

    It does where what stands before has a name of its own, which is none of a rate, and the
    number after it would have neither name nor unit.
    """
    following = _NUMBER.match(line, end + 1) if line[end : end + 1] == " " else None
    if following is None or _RATES & set(words):
        return False
    return not following["unit"] or not _is_unit(following["unit"], line[following.end() :][:2])


class _Label(NamedTuple):
    """The words before a number, and a note in brackets such as ``ms``."""

    words: tuple[str, ...]
    text: str
    note: str
    bracketed: bool


@lru_cache(maxsize=2048)
def _label(gap: str) -> _Label:
    """Return what ``gap``, the text before a number, calls it."""
    tail = gap
    for delimiter in _DELIMITERS.finditer(gap.rstrip(" :=[\"'(")):
        tail = gap[delimiter.end() :]
    found = _LABEL.search(tail)
    text, note = ("", "") if found is None else (found["label"].strip(" -/."), found["note"] or "")
    words = tuple(word.lower() for word in _WORDS.findall(text))
    return _Label(words, text, note, gap.rstrip().endswith(("[", "(")))
