"""Read the labelled numbers of a log line: ``loss: 2.31``, ``iter 660``, ``[step=1/739328]``.

A field is a number and the words right before it, whatever stands between them. Nothing here
knows a trainer; what the words mean is decided in ``progress``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.model.base import step_of

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<value>[-+]?(?:(?:{_DIGITS})(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?)\b))"
    r"(?P<scale>[kKMGT](?![\w]))?"
    r"(?:\s*(?:/|\bof\b)\s*(?P<max>\d[\d,]*)(?P<max_scale>[kKMGT](?![\w]))?(?![\w.]|/))?"
    r"\s?(?P<unit>%|[A-Za-z]*(?:/[A-Za-z]+)*)"
)
_LABEL = re.compile(
    r"(?P<label>[A-Za-z_][\w/.\- ]*?)(?:\((?P<note>[^()]{0,24})\))?[\"'\]]{0,2}"
    r"\s*(?:=>|[:=]){0,2}\s*(?:tensor)?[\[\"'(<]{0,2}\s*$"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DELIMITERS = re.compile(r"[|,;{}\t\n]|\s-\s|\s{3,}|\)\s|%\)?")
_UNITS = frozenset(("%", "ms", "s", "sec", "secs", "us", "it", "GB", "GiB", "MB", "MiB", "BPC"))
_PER = frozenset(
    (*("s", "sec", "second", "it", "iter", "step", "batch"), *("device", "gpu", "GPU", "chip"))
)
_RATES = frozenset(("throughput", "speed", "rate", "perf", "performance"))
_LOOK_BACK = 80
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class LabelledNumber(NamedTuple):
    """One number: the words before it, its text, value, maximum (``n/max``) and unit."""

    words: tuple[str, ...]
    label: str
    note: str
    text: str
    value: float
    rounded: bool
    maximum: int | None
    max_text: str | None
    unit: str
    bracketed: bool
    at: int
    """Where the number begins in the line."""

    @property
    def whole(self) -> int | None:
        """The value as a whole number, or ``None`` when it is none or was rounded."""
        return step_of(self.value) if not self.rounded and self.value.is_integer() else None


def fields(line: str) -> Iterator[LabelledNumber]:
    """Yield the numbers of ``line`` from left to right; one without a label has no words.

    Where the numbers of a line stand, and what their labels say, does not depend on which digits
    it has: a trainer's lines differ in nothing else, so that is found once for all of them.
    """
    for cut in _cuts(line.translate(_ALIKE)):
        yield cut.field(line)


_ALIKE: Final = str.maketrans("123456789", "000000000")


class _Cut(NamedTuple):
    """Where one number stands in all lines of one shape, and what does not depend on digits."""

    start: int
    end: int
    gap: int
    """Where the text before it begins that may hold its label."""
    label: _Label
    own_label: bool
    """True where the label has digits: then each line has its own."""
    scale: str
    max_start: int
    max_end: int
    max_scale: str
    unit: str

    def field(self, line: str) -> LabelledNumber:
        """Return the number with the digits that it has in ``line``."""
        value = line[self.start : self.end]
        maximum = line[self.max_start : self.max_end] if self.max_start >= 0 else None
        label = _label(line[self.gap : self.start]) if self.own_label else self.label
        exact = maximum is not None and not self.max_scale
        return LabelledNumber(
            words=label.words,
            label=label.text,
            note=label.note,
            text=value + self.scale,
            value=float(value.replace(",", "")) * _SCALES[self.scale],
            rounded=self.scale != "",
            maximum=step_of(int(maximum.replace(",", ""))) if exact and maximum else None,
            max_text=maximum + self.max_scale if maximum is not None and self.max_scale else None,
            unit=self.unit,
            bracketed=label.bracketed,
            at=self.start,
        )


@lru_cache(maxsize=512)
def _cuts(line: str) -> tuple[_Cut, ...]:
    found = []
    before = 0
    for match in _NUMBER.finditer(line):
        gap = _gap(line, before, match.start())
        label = _label(line[gap : match.start()])
        unit = match["unit"] if _is_unit(match["unit"], line[match.end() :][:2]) else ""
        if "/" in unit and label.words and _labels_next(line, match.end(), label.words):
            unit = ""
        cut = _Cut(
            start=match.start("value"),
            end=match.end("value"),
            gap=gap,
            label=label,
            own_label="0" in label.text or "0" in label.note,
            scale=match["scale"] or "",
            max_start=match.start("max"),
            max_end=match.end("max"),
            max_scale=match["max_scale"] or "",
            unit=unit,
        )
        found.append(cut)
        before = match.end("unit") if unit else match.start("unit")
    return tuple(found)


def _gap(line: str, before: int, number: int) -> int:
    """Return where the text before a number begins: never in the middle of a word."""
    gap = max(before, number - _LOOK_BACK)
    while before < gap < number and line[gap - 1].isalpha() and line[gap].isalpha():
        gap += 1
    return gap


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


def _label(gap: str) -> _Label:
    """Return what ``gap``, the text before a number, calls it."""
    tail = gap
    for delimiter in _DELIMITERS.finditer(gap.rstrip(" :=[\"'(")):
        tail = gap[delimiter.end() :]
    found = _LABEL.search(tail)
    text, note = ("", "") if found is None else (found["label"].strip(" -/."), found["note"] or "")
    words = tuple(word.lower() for word in _WORDS.findall(text))
    return _Label(words, text, note, gap.rstrip().endswith("["))
