"""Which logged metric is meant: by its name, or by what it is (loss, learning rate)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.curve import GRAD_NORM, LEARNING_RATE, LOSS, THROUGHPUT
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_NAMES: Final = 5000
LONGEST: Final = 200
MOST_ASKED: Final = 8
"""Curves in one answer."""
_RATES: Final = ("lr", "learning_rate", "learning-rate", "learning rate", "learningrate")
_WORD: Final = re.compile(r"[/.:]")
_OWN: Final = "_"
"""What W&B itself adds to each row begins with it."""


class NoCurveError(Exception):
    """There is no such curve; the text is one safe line that says why."""


def offered(names: Iterable[str]) -> dict[str, str]:
    """Return names as they are shown, each with the name as it is logged; sorted, bounded."""
    found = {scrub(clean(each, LONGEST)): each for each in names if not each.startswith(_OWN)}
    return dict(sorted(found.items())[:MOST_NAMES])


def standard(metric: str, keys: MetricKeys) -> str | None:
    """Return which of the rules' own metrics is meant, if one is."""
    told = {LOSS: keys.loss, THROUGHPUT: keys.throughput, GRAD_NORM: keys.grad_norm}
    return next((kind for kind, name in told.items() if metric in (kind, name)), None)


def named(metric: str, there: dict[str, str]) -> str:
    """Return the logged name that is meant; raises ``NoCurveError`` with the nearest ones."""
    if metric in there:
        return there[metric]
    plain = _plain(metric)
    same = [raw for shown, raw in there.items() if _plain(shown) == plain]
    if metric == LEARNING_RATE:
        same = _learning_rates(there)
    if same:
        return same[0]
    near = [shown for shown in there if plain in _plain(shown)][:3]
    hint = f"; near: {', '.join(near)}" if near else ""
    if not there:
        hint = "; no metric was logged yet"
    raise NoCurveError(f"no metric {clean(metric, LONGEST)} was logged{hint}")


def _learning_rates(there: dict[str, str]) -> list[str]:
    """Return what is called a learning rate: by its last word, else by any; shortest first."""
    words = {raw: _WORD.split(_plain(shown)) for shown, raw in there.items()}
    last = [raw for raw, parts in words.items() if parts[-1] in _RATES]
    found = last or [raw for raw, parts in words.items() if any(each in _RATES for each in parts)]
    return sorted(found, key=lambda raw: (len(raw), raw))


def _plain(name: str) -> str:
    return name.lower().replace(".", "/")


def wanted_of(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return metrics as they are asked for: each once, none empty, few."""
    return tuple(dict.fromkeys(each for each in metrics if each))[:MOST_ASKED]
