"""The numbers of a log line and the words beside them: progress bars, labelled fields, rates."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex

_FILLING: Final = " 0-9#=>.\\-\u2500-\u259f\u25a0\u25a1"
_FIGURE: Final = "[0-9]{1,3}(?:,[0-9]{3})+"
_PARTS: Final = {
    "figure": ("0", rf"(?<![.0-9]){_FIGURE}(?![0-9])|[0-9]+"),
    "gap": ("   ", r"\ {3,}"),
    "filling": ("||", rf"(?<=%)\|[{_FILLING}]*\|(?=\s*[0-9?])"),
    "line": ("━━", "[━╸╺]{2,}"),
    "arrow": ("[=]", r"\[(?=[=>.])=*>?\.*\]"),
    "colour": ("", r"\x1b\[[0-9;:]{0,64}m"),
}
"""What stands in a shape for each such part, and what it is in a line."""
_ONE: Final = {name: one for name, (one, _) in _PARTS.items()}
_TOKEN: Final = late_regex("|".join(f"(?P<{name}>{part})" for name, (_, part) in _PARTS.items()))
_PLAIN: Final = late_regex("[\n -~\u2022\u2500-\u259f]*")

Span = tuple[int, int]
"""From where to where something stands in a shape."""


class Shape(NamedTuple):
    """A line's ``shape``, and how to come from a place in it to the line's own."""

    line: str
    shape: str
    ends: Sequence[int]
    """Where in the shape each shortened part ends, ascending."""
    moved: Sequence[int]
    """By how much what follows each of them stands further on in the line."""

    def cut(self, span: Span) -> str:
        """Return what the line has where the shape has ``span``."""
        start, end = span
        return self.line[self._place(start) : self._place(end)]

    def _place(self, at: int) -> int:
        before = bisect_right(self.ends, at)
        return at + (self.moved[before - 1] if before else 0)


def shape_of(line: str) -> Shape:
    """Return the shape of a line of safe text, or of a block of them."""
    parts, ends, moved = list[str](), list[int](), list[int]()
    at = length = 0
    for found in _TOKEN.finditer(line):
        start, end = found.span()
        one = _ONE[found.lastgroup or ""]
        parts += line[at:start], one
        length += start - at + len(one)
        if end - length != (moved[-1] if moved else 0):
            ends.append(length)
            moved.append(end - length)
        at = end
    return Shape(line, "".join((*parts, line[at:])), ends, moved)


def pattern_of(line: str, shape: str, spans: Sequence[Span]) -> str | None:
    """Return what matches lines of ``shape`` alone, coloured as ``line`` is; ``None`` if unsure.

    It has a group for each of ``spans``, which are ascending and apart. A line that is no safe
    text, but for its colours (and a block's line breaks), has no pattern; nor where two figures
    with nothing but a comma between them could be one.
    """
    units = list(_units(line))
    literal = "".join(part for part, pattern in units if not pattern)
    if "0,0" in shape or _PLAIN.fullmatch(literal) is None:
        return None
    apart = all(one[1] <= other[0] for one, other in pairwise(spans))
    if not apart or "".join(part for part, _ in units) != shape:
        return None
    return _written(units, spans)


def _written(units: Sequence[tuple[str, str]], spans: Sequence[Span]) -> str | None:
    """Return the units' expression; ``None`` where a colour stands within one of ``spans``."""
    opens, closes = {start for start, _ in spans}, {end for _, end in spans}
    written, at = list[str](), 0
    for part, pattern in units:
        if not part and any(start < at < end for start, end in spans):
            return None
        for step, piece in enumerate([pattern] if pattern else map(re.escape, part)):
            if at + step in closes:
                closes.remove(at + step)
                written.append(")")
            written += "(" * (part != "" and at + step in opens), piece
        at += len(part)
    return "".join((*written, ")" * (at in closes)))


def _units(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line as they stand in its shape, and what matches them if not they."""
    at = 0
    for found in _TOKEN.finditer(line):
        if at < found.start():
            yield line[at : found.start()], ""
        name = found.lastgroup or ""
        grouped = name == "figure" and "," in found[0]
        yield _ONE[name], f"(?:{_FIGURE if grouped else _ALONE[name]})"
        at = found.end()
    if at < len(line):
        yield line[at:], ""


_ALONE: Final = {
    **{name: part for name, (_, part) in _PARTS.items()},
    "figure": "[0-9]+",
    "filling": rf"\|[{_FILLING}]*\|",
}


_NUMBER = late_regex(
    r"(?<![\w.])(?P<value>[-+]?(?:(?:0(?:\.0?)?|\.0)(?:[eE][-+]?0)?|(?i:nan|inf(?:inity)?)\b))"
    r"(?P<scale>[kKMGBT](?![\w]))?"
    r"(?:\s*(?:/|\bof\b)\s*(?P<max>0)(?P<max_scale>[kKMGBT](?![\w]))?(?!\w|\.0|/))?"
    r"\s?(?P<unit>%|[A-Za-z]*(?:/[A-Za-z]+)*)"
)
"""A number, after every digit was made a 0 (``shape_of``): ``0.0``."""
_LABEL = late_regex(
    r"(?:^|[^\w/.\-@ ])(?:(?![A-Za-z_])[\w/.\-@ ])*+"  # from its first letter on, and only from it
    r"(?P<label>[A-Za-z_][\w/.\-@ ]*?)(?:\((?P<note>[^()]{0,24})\))?[\"'\]]{0,2}"
    r"\s*(?:=>|[:=#]){0,2}\s*(?:tensor)?[\[\"'(<]{0,2}\s*$"
)
"""The name before a number: ``loss =``."""
_WORDS = late_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|0")
_DELIMITERS = late_regex(r"[|,;{}\t\n]|\s-\s|\s{3,}|\)\s|%\)?")
"""Where the words for one number end: `` | ``."""
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
    def is_count(self) -> bool:
        """True if it is a count, whatever its digits."""
        return self.shown.lstrip("+") == "0"


@lru_cache(maxsize=512)
def fields(shape: str) -> tuple[LabelledNumber, ...]:
    """Return the numbers of a line's shape from left to right, without times of day."""
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
    """Tell ``03:04:05`` (a time, or a duration) and ``2022-01-31`` from numbers."""
    if shape.startswith("-0-0", end):
        return True
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

    It does where what stands before has a name of its own, which names no rate, and the
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


_COUNT = r"(?P<n>0(?:\.0)?)(?P<n_scale>[kMGT]?)(?P<n_unit>[A-Za-z]*)"
_TOTAL = r"(?P<m>0(?:\.0)?)(?P<m_scale>[kMGT]?)(?P<unit>[A-Za-z]*)"
_TQDM = late_regex(
    rf"0%\|[^|]{{0,400}}\|\s*{_COUNT}/{_TOTAL}\s*(?:\w+\s)?"
    r"\[(?P<inside>(?:[^\]0]|0(?!%\|))*)\]?"
)
"""The bar of tqdm: ``0%|00| 0/0 [0:0<0:0, 0.0it/s]``; a narrow terminal cuts its bracket off."""
_OPEN_ENDED = late_regex(
    rf"(?<![\w/.]){_COUNT}(?:/{_TOTAL})? \[(?P<inside>0[0:]*(?:<[0:?]+)?,[^\]]*)\]?"
)
_LOGGABLE = late_regex(
    rf"Progress on:(?P<desc>.*?) (?:-|{_COUNT})/(?:\?|-|{_TOTAL})(?<=[-?a-z])"
    r"(?: rate:(?P<rate>\S+)(?: remaining:\S+(?: elapsed:\S+(?: postfix:(?P<post>.*))?)?)?)?"
)
_RICH = late_regex(rf"(?:[━╸╺]+|[-#=>]{{8,}}) +{_COUNT}/(?:--|{_TOTAL}) +(?P<inside>0:0:0 • .*)")
"""The bar of rich: ``━━━━╸ 0/0 0:0:0 • 0:0:0``."""
_KERAS = late_regex(
    r"(?:^\s*|(?<=\d )(?=0/0 \[=\]))(?P<n>0)/(?P<m>0) (?=\[=\]|[━╸╺]|- 0m?s )"
    r"(?P<inside>(?:[^\n0]|0(?!/0 \[=\]))*\bloss: (?:[^\n0]|0(?!/0 \[=\]))*)",
    re.MULTILINE,
)
_NO_RATE = late_regex(r"(?<![\w.])[?-] ?[A-Za-z]+/s\b|<\?(?=[,\]\s]|$)")
"""A bar that knows no rate yet: ``?it/s``."""
_RATE = late_regex(
    r"(?<![\w.])(?P<value>0(?:\.0)?)(?P<scale>[kMG]?)\s?(?P<unit>[A-Za-z]+/[A-Za-z]+)"
)
"""Such as ``0.0it/s``."""


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
    elif "/" in shape and "loss: " in shape:
        for found in _KERAS.finditer(shape):
            yield _bar(found, "keras", (0, 0), found.span("inside"))


def _in_brackets(shape: str, pattern: re.Pattern[str]) -> Iterator[Bar]:
    before = 0
    for found in pattern.finditer(shape):
        yield _bar(found, "tqdm", (before, found.start()), found.span("inside"))
        before = found.end() if found[0][-1] == "]" else shape.rfind(",", 0, found.end()) + 1


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


_LABELS: Final = 4096
"""Labels whose meaning is remembered: a log has a few dozen, each on thousands of lines."""

Rate = tuple[LabelledNumber, str]

_TOKEN_WORDS = frozenset({"tok", "toks", "token", "tokens", "tps", "tgs"})
_DEVICE_WORDS = frozenset({"device", "gpu", "chip", "tgs", "rank", "accelerator", "core"})
_PER_SECOND = frozenset({"s", "sec", "secs", "second", "seconds", "tps", "tgs"})
_STEP_WORDS = frozenset(
    {"it", "iter", "iters", "iteration", "iterations", "step", "steps", "batch", "batches", "ba"}
    | {"update", "updates"}
)
_THINGS = {
    **dict.fromkeys(("sample", "samples", "seq", "seqs", "sequences", "sps"), "samples/s"),
    **dict.fromkeys(("example", "examples"), "examples/s"),
    **dict.fromkeys(("img", "imgs", "image", "images"), "img/s"),
    **dict.fromkeys(("word", "words"), "words/s"),
    **dict.fromkeys(_STEP_WORDS, "it/s"),
}
_SHORT = {"wps": "words/s", "ups": "it/s", "sps": "samples/s"}
_TIMES = {"ms": "ms/it", "s": "s/it", "sec": "s/it", "secs": "s/it", "seconds": "s/it"}
_NOT_ONE_STEP = frozenset(
    ("total", "wall", "eta", "remaining", "data", "load", "eval", "epoch", "cost")
)
_TIME_WORDS = frozenset({"time", "timing", "ms", "avg"})


def throughput(found: Sequence[LabelledNumber], *, in_epochs: bool = False) -> tuple[Rate, ...]:
    """Return the line's rates with their units, the best first: of them the first above 0 counts.

    ``in_epochs``: a bare time is an epoch's, not a step's.
    """
    usable = [field for field in found if "0" in field.shown and field.shown[0] != "-"]
    rates = [(field, unit) for field in usable if (unit := _unit_of(field)) is not None]
    tokens = [rate for rate in rates if rate[1].startswith("tok/")]
    others = [rate for rate in rates if not rate[1].startswith("tok/")]
    times = [] if in_epochs else [rate for field in usable if (rate := _bare_time(field))]
    return (*tokens, *others, *times)


def bar_unit(unit: str) -> str | None:
    """Return a bar's rate unit (``step/s``, ``s/batch``) as INTERFACE spells it."""
    over, _, under = unit.lower().partition("/")
    if under in _PER_SECOND:
        return "tok/s" if over in _TOKEN_WORDS else _THINGS.get(over)
    return _TIMES.get(over) if under in _STEP_WORDS else None


def _unit_of(field: LabelledNumber) -> str | None:
    if field.is_count and field.label.lower().endswith("time/batch"):
        return None  # how many there were by then
    said = field.unit if "/" in field.unit else field.note
    by_unit = _unit_of_suffix(said) if "/" in said else None
    return by_unit or _unit_of_label(field.words, field.unit, field.note)


@lru_cache(maxsize=_LABELS)
def _unit_of_suffix(unit: str) -> str | None:
    """Read ``170000 tok/s``, ``2.0 it/s``, ``6.87s/it``, ``87.53/s``."""
    parts = unit.lower().split("/")
    if parts == ["", "s"]:
        return "img/s"
    if parts[0] in _TOKEN_WORDS and parts[1] in _PER_SECOND:
        return _tokens(parts)
    return bar_unit("/".join(parts[:2]))


@lru_cache(maxsize=_LABELS)
def _unit_of_label(words: tuple[str, ...], unit: str, note: str) -> str | None:
    """Read ``Tokens/s/device: 8671.794``, ``wps 420805``, ``time per iteration (ms): 22``."""
    if not words or unit == "%":
        return None
    if words[-1] in _SHORT:
        return _SHORT[words[-1]]
    if set(words) & _TOKEN_WORDS and set(words) & _PER_SECOND:
        return _tokens(words)
    if words[-1] in _PER_SECOND and not {"time", "timing"} & set(words):
        return next((_THINGS[word] for word in words if word in _THINGS), None)
    return _step_time(words, unit, note)


def _tokens(words: Sequence[str]) -> str:
    return "tok/s/device" if set(words) & _DEVICE_WORDS else "tok/s"


def _step_time(words: Sequence[str], unit: str, note: str) -> str | None:
    """Read ``elapsed time per iteration (ms)``, ``step_avg``, ``dt``, ``timing_s/step``."""
    if len(words) > 1 and words[-2] in _TIMES and words[-1] in _STEP_WORDS:
        return _TIMES[words[-2]]
    timed = bool(_TIME_WORDS & set(words)) and bool(_STEP_WORDS & set(words))
    if words[-1] != "dt" and (not timed or _NOT_ONE_STEP & set(words)):
        return None
    said = _TIMES.get(unit) or _TIMES.get(note.lower())
    return said or ("ms/it" if "ms" in words else "s/it")


def _bare_time(field: LabelledNumber) -> Rate | None:
    words = field.words
    if words == ("seconds",):
        return field, "s/it"
    if words[-1:] != ("time",) or (len(words) > 1 and not field.label.lower().endswith("/time")):
        return None
    unit = _TIMES.get(field.unit) or _TIMES.get(field.note.lower()) or "s/it"
    return field, unit
