"""Rates and times of a step among a line's labelled numbers, and their units.

INTERFACE ``progress --json``: the first rate on the line unless a token rate is there. A time
that only says "time" counts as a step's time when nothing clearer is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from cockpit.text.fields import LabelledNumber

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
    if field.whole and field.label.lower().endswith("time/batch"):
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
