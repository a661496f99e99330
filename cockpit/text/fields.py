"""Read the labelled numbers of a log line: ``loss: 2.31``, ``iter 660``, ``[step=1/739328]``.

A field is a number and the words right before it, whatever stands between them. Nothing here
knows a trainer; what the words mean is decided in ``progress``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
        return int(self.value) if not self.rounded and self.value.is_integer() else None


def fields(line: str) -> Iterator[LabelledNumber]:
    """Yield the numbers of ``line`` from left to right; one without a label has no words."""
    before = 0
    for match in _NUMBER.finditer(line):
        gap = line[max(before, match.start() - _LOOK_BACK) : match.start()]
        label, note = _label(gap)
        scale, max_scale = match["scale"] or "", match["max_scale"] or ""
        unit = match["unit"] if _is_unit(match["unit"], line[match.end() :][:2]) else ""
        exact_max = match["max"] is not None and not max_scale
        yield LabelledNumber(
            words=tuple(word.lower() for word in _WORDS.findall(label)),
            label=label,
            note=note,
            text=match["value"] + scale,
            value=float(match["value"].replace(",", "")) * _SCALES[scale],
            rounded=bool(scale),
            maximum=int(match["max"].replace(",", "")) if exact_max else None,
            max_text=match["max"] + max_scale if max_scale else None,
            unit=unit,
            bracketed=gap.rstrip().endswith("["),
            at=match.start(),
        )
        before = match.end("unit") if unit else match.start("unit")


def _is_unit(word: str, after: str) -> bool:
    """Return whether ``word`` is the number's unit, not the label of the number after it."""
    if after.lstrip()[:1] in (":", "="):
        return False
    return word in _UNITS or ("/" in word and word.rpartition("/")[2] in _PER)


def _label(gap: str) -> tuple[str, str]:
    """Return the words that end ``gap``, and a note in brackets such as ``ms``."""
    tail = gap
    for delimiter in _DELIMITERS.finditer(gap.rstrip(" :=[\"'(")):
        tail = gap[delimiter.end() :]
    found = _LABEL.search(tail)
    return ("", "") if found is None else (found["label"].strip(" -/."), found["note"] or "")
