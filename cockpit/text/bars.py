"""Progress bars in the shape of a line: tqdm's, tqdm-loggable's, Rich's and Keras's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.text.line_shape import Span

_COUNT = r"(?P<n>0(?:\.0)?)(?P<n_scale>[kMGT]?)(?P<n_unit>[A-Za-z]*)"
_TOTAL = r"(?P<m>0(?:\.0)?)(?P<m_scale>[kMGT]?)(?P<unit>[A-Za-z]*)"
_TQDM = late_regex(rf"0%\|[^|]{{0,400}}\|\s*{_COUNT}/{_TOTAL}\s*(?:\w+\s)?\[(?P<inside>[^\]]*)\]?")
_OPEN_ENDED = late_regex(
    rf"(?<![\w/.]){_COUNT}(?:/{_TOTAL})? \[(?P<inside>0[0:]*(?:<[0:?]+)?,[^\]]*)\]?"
)
_LOGGABLE = late_regex(
    rf"Progress on:(?P<desc>.*?) (?:-|{_COUNT})/(?:\?|-|{_TOTAL})(?<=[-?a-z])"
    r"(?: rate:(?P<rate>\S+)(?: remaining:\S+(?: elapsed:\S+(?: postfix:(?P<post>.*))?)?)?)?"
)
_RICH = late_regex(rf"(?:[━╸╺]+|[-#=>]{{8,}}) +{_COUNT}/(?:--|{_TOTAL}) +(?P<inside>0:0:0 • .*)")
_KERAS = late_regex(
    r"^\s*(?P<n>0)/(?P<m>0) (?=\[=\]|[━╸╺]|- 0m?s )(?P<inside>.*\bloss: .*)", re.MULTILINE
)
_NO_RATE = late_regex(r"(?<![\w.])[?-] ?[A-Za-z]+/s\b|<\?(?=[,\]\s]|$)")
_RATE = late_regex(
    r"(?<![\w.])(?P<value>0(?:\.0)?)(?P<scale>[kMG]?)\s?(?P<unit>[A-Za-z]+/[A-Za-z]+)"
)


class Part(NamedTuple):
    """A part of a shape: its text and where it begins."""

    text: str
    at: int


class Bar(NamedTuple):
    """A bar: what stands before it, within its brackets and behind it, its counts and rate."""

    form: str
    before: Part
    inside: Part
    after: Part
    done: tuple[Span, str] | None
    """Where the count stands, and its scale (``k``)."""
    total: tuple[Span, str] | None
    counted: str
    rate: tuple[Span, str] | None
    rate_unit: str
    unrated: bool
    """True where it says that it has no rate yet: nothing was done since it was drawn."""


def read_bars(shape: str) -> Iterator[Bar]:
    r"""Yield the bars of a line's shape from left to right: states that no ``\r`` divides."""
    if "Progress on:" in shape and (found := _LOGGABLE.search(shape)):
        end = (len(shape), len(shape))
        post = found.span("post") if found["post"] else end
        rate = found.span("rate") if found["rate"] else end
        yield _bar(found, "tqdm_loggable", found.span("desc"), post, rate)
    elif "0%|" in shape:
        yield from _in_brackets(shape, _TQDM)
    elif " [" in shape and _OPEN_ENDED.search(shape):
        yield from _in_brackets(shape, _OPEN_ENDED)
    elif " • " in shape and (found := _RICH.search(shape)):
        yield _bar(found, "rich", (0, found.start()), found.span("inside"))
    elif "/" in shape and (found := _KERAS.search(shape)):
        yield _bar(found, "keras", (0, 0), found.span("inside"))


def _in_brackets(shape: str, pattern: re.Pattern[str]) -> Iterator[Bar]:
    before = 0
    for found in pattern.finditer(shape):
        yield _bar(found, "tqdm", (before, found.start()), found.span("inside"))
        before = found.end()


def _bar(
    found: re.Match[str], form: str, before: Span, inside: Span, rates: Span | None = None
) -> Bar:
    shape, parts = found.string, found.groupdict()
    start, end = rates or inside
    rate = _RATE.search(shape, start, end)
    if form == "keras":  # it may tell an epoch's time before a step's
        found_rates = _RATE.finditer(shape, start, end)
        rate = next((each for each in found_rates if not each["unit"].endswith("/epoch")), None)
    return Bar(
        form=form,
        before=Part(shape[slice(*before)], before[0]),
        inside=Part(shape[slice(*inside)], inside[0]),
        after=Part(shape[found.end() :], found.end()),
        done=_count(found, "n"),
        total=_count(found, "m"),
        counted=parts.get("unit") or parts.get("n_unit") or "",
        rate=None if rate is None else (rate.span("value"), rate["scale"]),
        rate_unit="" if rate is None else rate["unit"],
        unrated=rate is None and _NO_RATE.search(shape[start:end]) is not None,
    )


def _count(found: re.Match[str], name: str) -> tuple[Span, str] | None:
    parts = found.groupdict()
    if parts.get(name) is None:
        return None
    return found.span(name), parts.get(f"{name}_scale") or ""
