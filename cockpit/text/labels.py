"""What the words beside a number mean: the step, the loss, a metric, or other work than training.

All of it is decided on the shape of a line (``cockpit.text.fields``).

Trainers spell metric names in hundreds of ways (SPEC C-10), so the words in a name decide. A name
with a figure in it belongs to one layer or expert, a name with a word of evaluation to no training:
neither is the metric of the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.own_rules import words_of as words_of
from cockpit.text.fields import LabelledNumber

Beside = Literal["z_loss", "router_loss", "router_entropy", "skipped"]

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
_NAMES: Final = 4096
"""Names whose meaning is remembered: a run has some thousands, each on thousands of rows."""


class Figures(NamedTuple):
    """What one line or row carries of them."""

    z_loss: float | None = None
    router_loss: float | None = None
    router_entropy: float | None = None
    skipped: float | None = None


NONE: Final = Figures()


@lru_cache(maxsize=_NAMES)
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


Scope = Literal["run", "epoch", "epochs"]

_OTHER_WORK = late_regex(
    r"(?i:\b(?:sav(?:e|ed|ing)|load(?:ed|ing)?|restor\w+|resum\w+|checkpoint\w*|ckpt|eval\w*"
    r"|valid\w*|val|test(?:ing)?|download\w*|upload\w*|fetch\w*|plot\w*|compil\w+|token[iu]z\w+"
    r"|warm(?:ing)?[ -]?up|generat\w+|sampling|predict\w*|infer\w*|decod\w*|dev(?=\s*[:|])"
    r"|sanity|filter\w*|map(?:ping)?|preprocess\w*|prepar\w*|packing|shards?|files?|cach\w*|error"
    r"|exception"
    r"|traceback|warning|fail\w*|start(?:ed)?|best|at|from|until|since|because|reset\w*"
    r"|(?<!\w )usage(?=:)|e\.g|expected(?=:? [\"'])|would|could not|(?:example|format|pattern"
    r"|regex)(?=[\"']?\s?:)|(?<=\()default(?=:)"
    r"|(?:config\w*|settings|args|h(?:yper-?)?params)(?=[\"']?\s?[:=]\s?[{\[(]))\b"
    r"|\b(?:to|after|before|past)\s+(?:[a-z_]+[\s=:#]*){0,2}$)"
)
"""A line about other work than training: ``Saving checkpoint at``."""
_IN_BRACKETS = late_regex(r"(?i:[\[(](?:eval\w*|val|valid\w*|test|dev|sanity|predict)\b)")
"""Such as ``[eval] loss``."""
_IN_CODE = late_regex(r"(?<=\w)\([bfru]{0,2}[\"'][^\"']*$")
"""A string that a call in a line of source begins: ``raise ValueError("step 100 …``."""
_DOING = late_regex(
    r"(?i:(?<![\w./@-])(?!(?:(?:pre|post|mid)?-?train|(?:fine-?)?tun|fitt|learn|optimi[sz]|updat"
    r"|runn|logg"
    r"|remain|tim|dur|us|be|str|r|k|distill)ing\b)[a-z]+ing(?![\w/@-]))"
)
"""A word for what is being done: of all of them only these say training, or nothing at all."""
_BEHIND = late_regex(
    r"(?i:\b(?:sav(?:ed|ing)|wr(?:ote|itten)|checkpoint\w*|restor\w+|resum\w+)\b"
    r"|\b(?:val|valid\w*|eval\w*|test(?:ing)?|skipp(?:ed|ing))\s*:)"
)
"""Words that come after the number and take it away from training: ``saved at step``."""
_TRAINING = late_regex(
    r"(?i:\b(?:(?:pre)?train\w*|fine-?tun\w*|steps?|iters?|iterations?|epochs?|ep|loss"
    r"|optimi[sz]\w*|fit(?:ting)?|batch\w*|updates?|episodes?)\b)"
)
"""Such as ``train step``."""
_PREFIXES = late_regex(r"\[[^\]]*\]|\([^)]*\)|\d[\d:.,/-]*|\b(?:INFO|DEBUG|UTC)\b")
"""What stands before a line's own words: ``[rank0] (pid=12) INFO``."""
_LETTERS = late_regex(r"[A-Za-z]{2}")


_LABELS: Final = 4096
"""Labels whose meaning is remembered: a log has a few dozen, each on thousands of lines."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NOT_THE_STEP = _set(
    "per max total warmup save eval log num grad gradient accumulation micro each every sub time"
    " last best decay of in by for until loss val valid validation test"
)
"""``micro_step``, ``max_steps``, ``time per step``: none of them is the step."""

_COUNTED = frozenset(("batches", "steps", "iters", "iterations", "updates"))
_EPOCH = frozenset({"epoch", "epochs", "ep"})
_LOSS_WORDS = _set(
    "loss train training lm total tot reduced avg mean batch step iter current running ce value"
    " cross entropy language"
)
_LOSS_NAMES = frozenset({"loss", "entropy", "xent", "cost"})
_CROSS_ENTROPIES: Final = frozenset((("ce",), ("train", "ce"), ("nll",), ("train", "nll")))
"""What trainers call it in short; a loss by its name comes before it."""
_PIXEL_LOSSES: Final = frozenset((("l", "pix"), ("l", "g", "pix")))
"""How BasicSR and KAIR name theirs: ``l_pix``."""
_OTHER_LOSS = late_regex(
    r"(?:val|valid|validation|eval\w*|test\w*|dev|best|min|max|scal\w*|aux\w*|zloss|z|balanc\w*"
    r"|router|load|mtp|kl|reg\w*|ema|delta|change|spike|prev\w*|last|target|final|improv\w*|from)$"
)
_SUMMARY = ("train", "runtime")
"""Beside it stand the figures of a training that is over."""
_EVALUATED = frozenset({"val", "valid", "validation", "eval", "test", "dev"})
_HINTS = _set(
    "lr learning gnorm grad norm skipped mfu ppl perplexity consumed mom momentum acc tokens"
    " samples bsz"
)


def other_work(text: str) -> bool:
    """Return whether ``text`` (before a bar or a step) speaks of other work than training."""
    bare = _PREFIXES.sub(" ", text)
    return any(each.search(bare) is not None for each in (_OTHER_WORK, _DOING)) or (
        _IN_BRACKETS.search(text) is not None or _IN_CODE.search(text) is not None
    )


def not_trained(text: str) -> bool:
    """Return whether ``text`` (between a step and the next number) says it was saved or tested."""
    return _BEHIND.search(text) is not None


def training_work(text: str, *, silent: bool = True) -> bool:
    """Return whether ``text`` speaks of training, or (``silent``) says nothing at all."""
    bare = _PREFIXES.sub(" ", text)
    return _TRAINING.search(bare) is not None or (silent and _LETTERS.search(bare) is None)


def find_step(found: Sequence[LabelledNumber]) -> tuple[LabelledNumber, Scope] | None:
    """Return the field that counts, and what it counts; ``None`` when no field does."""
    if any(field.note.lower() in _EVALUATED or field.words == _SUMMARY for field in found):
        return None
    best = max(found, key=_step_rank, default=None)
    epoch = next((field for field in found if is_epoch(field)), None)
    if best is not None and _step_rank(best):
        within = epoch is not None and epoch.at < best.at and _of_an_epoch(best)
        return best, "epoch" if within else "run"
    counted = next((field for field in found if _counts_beside_a_loss(field, found)), None)
    if epoch is None and counted is not None:
        return counted, "run"
    named = epoch or next((field for field in found if _names_training(field)), None)
    if named is None:
        return None
    behind = [field for field in found if field.at > named.at]
    inside = next((field for field in behind if is_bare_count(field)), None)
    if inside is None and epoch is not None and any(map(_follows_epoch, behind[:1])):
        inside = behind[0]
    if inside is not None:
        return inside, "epoch"
    if epoch is None:  # ``Training  [ 1200/125000]``, as DINOv2 counts all of it
        whole = named.bracketed and named.maximum and named.is_count
        return (named, "run") if whole and named.words[-1:] in _TRAINED_ALONE else None
    return epoch, "epochs"


def _counts_beside_a_loss(field: LabelledNumber, found: Sequence[LabelledNumber]) -> bool:
    """Tell ``iterations:16346, train loss:440.9``; else ``iterations: 20000`` is the maximum."""
    loss = find_loss([each for each in found if each.at > field.at])
    told = loss is not None and not _TRAINED.isdisjoint(loss.words)
    return told and field.words in _ALONE_THE_MAXIMUM and field.is_count


def head_step(found: Sequence[LabelledNumber], end: int) -> tuple[LabelledNumber, Scope] | None:
    """Return the step of the run with its maximum in a block's head, which ends at ``end``."""
    told = find_step([field for field in found if field.at < end])
    return told if told and told[1] == "run" and told[0].maximum else None


_TRAINED: Final = frozenset(("train", "training"))
_TRAINED_ALONE: Final = frozenset((word,) for word in _TRAINED)
"""The last word before the count: ``Training BPE merges [ 12/64]`` counts something else."""


def _names_training(field: LabelledNumber) -> bool:
    return not _TRAINED.isdisjoint((*field.words, field.note))


def is_bare_count(field: LabelledNumber) -> bool:
    """Tell ``[ 50/1251``, or ``50/1251 batches``, that has no name of its own."""
    named = field.bracketed or field.counted.lower() in _COUNTED
    return not field.words and named and field.is_count and field.maximum is not None


def _follows_epoch(field: LabelledNumber) -> bool:
    """Tell ``2000 / 8223`` behind an epoch, as fairseq and OpenNMT have it, from other figures.

    Of a name, one that a loop gives its count: ``epoch=0 i=378/530``.
    """
    named = field.words and field.words not in _OF_A_LOOP
    return not (named or field.unit) and field.is_count and field.maximum is not None


_OF_A_LOOP: Final = frozenset((("i",), ("j",), ("b",), ("n",), ("idx",)))


def is_epoch(field: LabelledNumber) -> bool:
    """Return whether ``field`` is a whole epoch's number (``0.26`` is a share, no number)."""
    return field.words[-1:] != () and field.words[-1] in _EPOCH and field.is_count


def _step_rank(field: LabelledNumber) -> int:
    """Return how surely ``field`` is the step; 0 when it is not.

    One with a fraction (``global_step=119.0``) is a count only if nothing else is.
    """
    named = field.words[:-2] if field.maximum and field.words[-2:] in _MOST else field.words
    rank = _step_word_rank(named)
    if not rank or not field.counts or (rank < _EXACT and not (field.is_count or field.scale)):
        return 0
    if named[-1] in _OFTEN_THE_MAXIMUM and field.maximum is None:
        return 0
    return rank + 10 * (field.is_count or field.scale != "")


_EXACT: Final = 4
"""The rank of a word for a step itself; ``iter: 0.41`` and ``batch: 1.2`` are times."""


_OFTEN_THE_MAXIMUM: Final = frozenset(("iters", "iterations"))
"""``iters: 20000`` is how many there will be; ``Iters: 10/20000`` is how many there were."""
_ALONE_THE_MAXIMUM: Final = frozenset((word,) for word in _OFTEN_THE_MAXIMUM)


_MOST: Final = (("max", "steps"), ("total", "steps"))
"""``global_step/max_steps: 310/9000`` names both."""


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
    alone = not before or (last == "steps" and before[0] in ("current", "completed", "train"))
    plural = ("steps", "update", "updates", "up", "batch", *_OFTEN_THE_MAXIMUM)
    return 2 if last in plural and alone else 0


def _of_an_epoch(field: LabelledNumber) -> bool:
    """``Epoch 1, batch 50`` and ``Epoch [1/5], Step [100/600]`` start again with every epoch."""
    return field.words[-1] == "batch" or (field.maximum is not None and "global" not in field.words)


def find_loss(found: Sequence[LabelledNumber]) -> LabelledNumber | None:
    """Return the training loss among ``found``: the plainest name wins, then the first."""
    best = max(found, key=_loss_rank, default=None)
    return None if best is None or not _loss_rank(best) else best


def _loss_rank(field: LabelledNumber) -> int:
    return 0 if field.unit == "%" else _loss_word_rank(field.words)


@lru_cache(maxsize=_LABELS)
def _loss_word_rank(words: tuple[str, ...]) -> int:
    """Rank a loss by its name; an entropy is one only where it is a cross entropy."""
    if words in _CROSS_ENTROPIES or words in _PIXEL_LOSSES:
        return 1
    named = not _LOSS_NAMES.isdisjoint(words) or any(word.endswith("loss") for word in words)
    if not named or any(_OTHER_LOSS.match(word) for word in words):
        return 0
    if "entropy" in words and "cross" not in words:
        return 0
    critic = words[-2:] == ("value", "loss")
    return 1 if critic or not _LOSS_WORDS.issuperset(words) else 2


def find_grad_norm(found: Sequence[LabelledNumber]) -> LabelledNumber | None:
    """Return the norm of the gradient among ``found``."""
    return next((field for field in found if _is_grad_norm(field.words)), None)


def other_metrics_in(found: Sequence[LabelledNumber]) -> dict[Beside, LabelledNumber]:
    """Return what ``found`` tells of z-loss, router and skipped steps: the first of each."""
    told: dict[Beside, LabelledNumber] = {}
    for field in found:
        kind = metric_of(field.words) if field.unit != "%" else None
        if kind is not None:
            told.setdefault(kind, field)
    return told


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


def strong_hints(found: Sequence[LabelledNumber]) -> int:
    """Return how many fields only a training has: a learning rate, a gradient, a perplexity."""
    return sum(_is_strong_hint(field.words) for field in found)


_STRONG: Final = frozenset(("lr", "gnorm", "ppl", "perplexity"))


@lru_cache(maxsize=_LABELS)
def _is_strong_hint(words: tuple[str, ...]) -> bool:
    named = not _STRONG.isdisjoint(words) or words[-2:] == ("learning", "rate")
    return (named or _is_grad_norm(words)) and _EVALUATED.isdisjoint(words)


@lru_cache(maxsize=_LABELS)
def _is_hint(words: tuple[str, ...]) -> bool:
    return not _HINTS.isdisjoint(words)
