"""Which metric the words of a name mean, of those that trainers log beside the loss (SPEC C-10).

Names are spelled in hundreds of ways: it is their words that tell. One with a figure in it is of
one layer or expert, one with a word of evaluation is no training's: neither is the run's own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Beside = Literal["z_loss", "router_loss", "router_entropy", "skipped"]

_WORD: Final = re.compile(r"[a-z]+|\d+")
_ROUTER: Final = frozenset(("router", "routing", "moe", "gate", "gating", "expert", "experts"))
_BALANCE: Final = frozenset(("lb", "balance", "balancing", "loadbalancing", "loadbalance"))
_VIOLATION: Final = frozenset(("maxvio", "vio", "violation"))
_STEP: Final = frozenset(
    ("step", "steps", "iter", "iters", "iteration", "iterations", "update", "updates")
)
_SKIP: Final = frozenset(("skip", "skipped"))
_NOT_TRAINING: Final = frozenset(
    (
        *("best", "coef", "coeff", "dev", "ema", "eval", "evaluation", "lambda", "lr", "max"),
        *("min", "std", "target", "test", "val", "valid", "validation", "var", "weight"),
    )
)
_NOT_COUNTED: Final = frozenset(
    ("fraction", "frac", "limit", "per", "percent", "rate", "ratio", "since", "threshold", "until")
)
"""Of skipped steps: a share of them, or how many there may be."""
_OWN: Final = frozenset(("train", "training", "lm", "ce", "nll", "ppl", "entropy"))
"""``moe/train_loss``: a word for the loss itself right before it, of a model that is named so."""
_LABELS: Final = 4096
"""Names whose meaning is remembered: a run has some thousands, each on thousands of rows."""


class Figures(NamedTuple):
    """What one line or row carries of them."""

    z_loss: float | None = None
    router_loss: float | None = None
    router_entropy: float | None = None
    skipped: float | None = None


NONE: Final = Figures()


def words_of(name: str) -> tuple[str, ...]:
    """Return the words and figures of a name, in small letters."""
    return tuple(_WORD.findall(name.lower()))


@lru_cache(maxsize=_LABELS)
def metric_of(words: tuple[str, ...]) -> Beside | None:
    """Return the metric that ``words`` name, ``None`` for any other."""
    said = frozenset(words)
    if not words or any(word.isdigit() for word in words):
        return None
    if (said - {"max"} if said & _VIOLATION else said) & _NOT_TRAINING:
        return None
    if said & _SKIP and (said & _STEP or len(said - {"train", "optim", "optimizer"}) == 1):
        return None if said & _NOT_COUNTED else "skipped"
    return _of_loss(words, said) if words[-1].endswith("loss") else _of_router(said)


def _of_loss(words: tuple[str, ...], said: frozenset[str]) -> Beside | None:
    if words[-1] == "zloss" or words[-2:] == ("z", "loss"):
        return "z_loss"
    if said & _BALANCE:
        return "router_loss"
    return "router_loss" if said & _ROUTER and _OWN.isdisjoint(words[-2:-1]) else None


def _of_router(said: frozenset[str]) -> Beside | None:
    if "entropy" in said and said & _ROUTER:
        return "router_entropy"
    return "router_loss" if said & _VIOLATION and said & (_ROUTER | _BALANCE | {"load"}) else None
