"""What the words beside a number mean: the step, the loss, a rate, or other work than training.

INTERFACE ``progress --json``: the first rate on the line unless a token rate is there. A time
that only says "time" counts as a step's time when nothing clearer is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from cockpit.text.fields import LabelledNumber
from cockpit.text.metric_words import NONE, Figures, metric_of

Scope = Literal["run", "epoch", "epochs"]

_OTHER_WORK = re.compile(
    r"(?i:\b(?:sav(?:e|ed|ing)|load(?:ed|ing)?|restor\w+|resum\w+|checkpoint\w*|ckpt|eval\w*"
    r"|valid\w*|val|test(?:ing)?|download\w*|upload\w*|fetch\w*|plot\w*|compil\w+|token[iu]z\w+"
    r"|warm(?:ing)?[ -]?up|generat\w+|sampling|predict\w*|infer\w*|sanity|filter\w*"
    r"|map(?:ping)?|preprocess\w*|prepar\w*|packing|shards?|files?|cach\w*|error|exception"
    r"|traceback|warning|fail\w*|skipping|start(?:ing|ed)?|best|at|from|until)\b)"
)
_TRAINING = re.compile(
    r"(?i:\b(?:(?:pre)?train\w*|fine-?tun\w*|steps?|iters?|iterations?|epochs?|ep|loss"
    r"|optimi[sz]\w*|fit\w*|batch\w*|updates?)\b)"
)
_PREFIXES = re.compile(r"\[[^\]]*\]|\([^)]*\)|\d[\d:.,/-]*|\b(?:INFO|DEBUG|UTC)\b")
_LETTERS = re.compile(r"[A-Za-z]{2}")


_LABELS: Final = 4096
"""Labels whose meaning is remembered: a log has a few dozen, each on thousands of lines."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NOT_THE_STEP = _set(
    "per max total warmup save eval log num grad gradient accumulation micro each every sub time"
    " last best decay of in by for until loss val valid validation test"
)
"""``micro_step``, ``max_steps``, ``time per step``: none of them is the step."""

_EPOCH = frozenset({"epoch", "epochs", "ep"})
_LOSS_WORDS = _set(
    "loss train training lm total tot reduced avg mean batch step iter current running ce value"
    " cross entropy language"
)
_LOSS_NAMES = frozenset({"loss", "entropy", "xent", "cost"})
_OTHER_LOSS = re.compile(
    r"(?:val|valid|validation|eval\w*|test\w*|dev|best|min|max|scal\w*|aux\w*|zloss|z|balanc\w*"
    r"|router|load|mtp|kl|reg\w*|ema|delta|change|spike|prev\w*|last|target|final|improv\w*|from)$"
)
_EVALUATED = frozenset({"val", "valid", "validation", "eval", "test", "dev"})
_HINTS = _set(
    "lr learning gnorm grad norm skipped mfu ppl perplexity consumed mom momentum acc tokens"
    " samples bsz"
)


def other_work(text: str) -> bool:
    """Return whether ``text`` (before a bar or a step) speaks of other work than training."""
    return _OTHER_WORK.search(_PREFIXES.sub(" ", text)) is not None


def training_work(text: str) -> bool:
    """Return whether ``text`` speaks of training, or says nothing at all."""
    bare = _PREFIXES.sub(" ", text)
    return _TRAINING.search(bare) is not None or _LETTERS.search(bare) is None


def find_step(found: Sequence[LabelledNumber]) -> tuple[LabelledNumber, Scope] | None:
    """Return the field that counts, and what it counts; ``None`` when no field does."""
    if any(field.note.lower() in _EVALUATED for field in found):
        return None
    best = max(found, key=_step_rank, default=None)
    epoch = next((field for field in found if is_epoch(field)), None)
    if best is not None and _step_rank(best):
        within = epoch is not None and epoch.at < best.at and _of_an_epoch(best)
        return best, "epoch" if within else "run"
    if epoch is None and not any("train" in (*field.words, field.note) for field in found):
        return None
    counts = (field for field in found if not field.words and field.bracketed and field.maximum)
    inside = next(counts, None)
    if inside is not None:
        return inside, "epoch"
    return None if epoch is None else (epoch, "epochs")


def is_epoch(field: LabelledNumber) -> bool:
    """Return whether ``field`` is a whole epoch's number (``0.26`` is a share, no number)."""
    return field.words[-1:] != () and field.words[-1] in _EPOCH and "." not in field.text


def _step_rank(field: LabelledNumber) -> int:
    """Return how surely ``field`` is the step; 0 when it is not."""
    rank = _step_word_rank(field.words)
    if not rank or (field.whole is None and not field.rounded) or field.value < 0:
        return 0
    return rank


@lru_cache(maxsize=_LABELS)
def _step_word_rank(words: tuple[str, ...]) -> int:
    if not words:
        return 0
    *before, last = words
    if before[-1:] == ["global"] and last == "step":
        return 6
    if before[-1:] == ["num"] and last == "updates":
        return 5
    if _NOT_THE_STEP & set(before):
        return 0
    if last == "step":
        return 4
    if last in ("iteration", "iter", "it"):
        return 3
    return 2 if last in ("steps", "update", "updates", "up", "batch") and len(words) == 1 else 0


def _of_an_epoch(field: LabelledNumber) -> bool:
    """``Epoch 1, batch 50`` and ``Epoch [1/5], Step [100/600]`` start again with every epoch."""
    return field.words[-1] == "batch" or (field.maximum is not None and "global" not in field.words)


def find_loss(found: Sequence[LabelledNumber]) -> float | None:
    """Return the training loss among ``found``: the plainest name wins, then the first."""
    best = max(found, key=_loss_rank, default=None)
    return None if best is None or not _loss_rank(best) else best.value


def _loss_rank(field: LabelledNumber) -> int:
    return 0 if field.unit == "%" else _loss_word_rank(field.words)


@lru_cache(maxsize=_LABELS)
def _loss_word_rank(words: tuple[str, ...]) -> int:
    named = not _LOSS_NAMES.isdisjoint(words) or any(word.endswith("loss") for word in words)
    if not named or any(_OTHER_LOSS.match(word) for word in words):
        return 0
    return 2 if _LOSS_WORDS.issuperset(words) else 1


def find_grad_norm(found: Sequence[LabelledNumber]) -> float | None:
    """Return the norm of the gradient among ``found``."""
    return next((field.value for field in found if _is_grad_norm(field.words)), None)


def find_beside(found: Sequence[LabelledNumber]) -> Figures:
    """Return what ``found`` tells of z-loss, router and skipped steps: the first of each."""
    told: dict[str, float] = {}
    for field in found:
        kind = metric_of(field.words) if field.unit != "%" else None
        if kind is not None:
            told.setdefault(kind, field.value)
    return Figures(**told) if told else NONE


@lru_cache(maxsize=_LABELS)
def _is_grad_norm(words: tuple[str, ...]) -> bool:
    return "gnorm" in words or set(words) >= _GRAD_NORM or set(words) >= _GRADIENT_NORM


_GRAD_NORM, _GRADIENT_NORM = frozenset(("grad", "norm")), frozenset(("gradient", "norm"))


def evaluates(found: Sequence[LabelledNumber]) -> bool:
    """Return whether a figure of an evaluation is among ``found``."""
    return any(_is_evaluated(field.words, field.note) for field in found)


@lru_cache(maxsize=_LABELS)
def _is_evaluated(words: tuple[str, ...], note: str) -> bool:
    return bool(_EVALUATED & {*words, note.lower()})


def hints(found: Sequence[LabelledNumber]) -> int:
    """Return how many fields are of the kind that trainers log beside the step."""
    return sum(_is_hint(field.words) for field in found)


@lru_cache(maxsize=_LABELS)
def _is_hint(words: tuple[str, ...]) -> bool:
    return not _HINTS.isdisjoint(words)


Rate = tuple[float, str]

_TOKEN_WORDS = frozenset({"tok", "toks", "token", "tokens", "tps", "tgs"})
_DEVICE_WORDS = frozenset({"device", "gpu", "chip", "tgs", "rank", "accelerator", "core"})
_PER_SECOND = frozenset({"s", "sec", "secs", "second", "seconds", "tps", "tgs"})
_STEP_WORDS = frozenset(
    {"it", "iter", "iters", "iteration", "iterations", "step", "steps", "batch"}
)
_THINGS = {
    **dict.fromkeys(("sample", "samples", "seq", "seqs", "sequences", "sps"), "samples/s"),
    **dict.fromkeys(("example", "examples"), "examples/s"),
    **dict.fromkeys(("img", "imgs", "image", "images"), "img/s"),
    **dict.fromkeys(("word", "words"), "words/s"),
    **dict.fromkeys(_STEP_WORDS, "it/s"),
}
_SHORT = {"wps": "words/s", "ups": "it/s", "sps": "samples/s"}
_TIMES = {"ms": "ms/it", "s": "s/it", "sec": "s/it", "secs": "s/it"}
_NOT_ONE_STEP = frozenset(("total", "wall", "eta", "remaining", "data", "load", "eval", "epoch"))
_TIME_WORDS = frozenset({"time", "timing", "ms", "avg"})


def throughput(found: Sequence[LabelledNumber], *, in_epochs: bool = False) -> Rate | None:
    """Return the line's rate and unit; ``in_epochs``: a bare time is an epoch's, not a step's."""
    usable = [field for field in found if math.isfinite(field.value) and field.value > 0]
    rates = [(field.value, unit) for field in usable if (unit := _unit_of(field)) is not None]
    tokens = [rate for rate in rates if rate[1].startswith("tok/")]
    times = [] if in_epochs else [rate for field in usable if (rate := _bare_time(field))]
    return next(iter([*tokens, *rates, *times]), None)


def bar_unit(unit: str) -> str | None:
    """Return a bar's rate unit (``step/s``, ``s/batch``) as INTERFACE spells it."""
    over, _, under = unit.lower().partition("/")
    if under in _PER_SECOND:
        return "tok/s" if over in _TOKEN_WORDS else _THINGS.get(over)
    return f"{over}/it" if over in ("s", "ms") and under in _STEP_WORDS else None


def _unit_of(field: LabelledNumber) -> str | None:
    by_unit = _unit_of_suffix(field.unit) if "/" in field.unit else None
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
    timed = bool(_TIME_WORDS & set(words)) and bool(_STEP_WORDS & set(words))
    if words[-1] != "dt" and (not timed or _NOT_ONE_STEP & set(words)):
        return None
    said = _TIMES.get(unit) or _TIMES.get(note.lower())
    return said or ("ms/it" if "ms" in words else "s/it")


def _bare_time(field: LabelledNumber) -> Rate | None:
    words = field.words
    if words == ("seconds",):
        return field.value, "s/it"
    if words[-1:] != ("time",) or (len(words) > 1 and not field.label.lower().endswith("/time")):
        return None
    unit = _TIMES.get(field.unit) or _TIMES.get(field.note.lower()) or "s/it"
    return field.value, unit
