"""Which logged key is which metric, and how far a trainer's clock is off.

Keys: the run file's ``metrics`` first, else the names in common use.

A row's time is the trainer's word. The file bears witness against it: a row cannot have been
logged after the file was written, and it lies between two records of the client, which stamps
those itself every few seconds. Where nothing decides it, the clock is taken to be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cockpit.model.base import listed
from cockpit.model.own_rules import Limited, limited_by
from cockpit.model.own_rules import plain_name as plain_name
from cockpit.model.run import MetricNames
from cockpit.text.labels import Beside, metric_of, words_of

WANDB_STEP = "_step"
WANDB_TIME = "_timestamp"

_STEPS = listed(
    "global_step train/global_step trainer/global_step iter step train/step trainer/step "
    "iteration train/iter train/iteration optimizer_step train/optimizer_step num_steps batch"
)
_LOSSES = listed(
    "train/loss, loss, train_loss, train/cross_entropy_loss, train/ce_loss, train/loss_step, "
    "train_loss_step, training/loss, training_loss, loss/train, loss/train/total, lm loss, "
    "lm-loss-training/lm loss, loss_metrics/global_avg_loss, train/celoss, train/ce loss, "
    "reduced_train_loss, train/total_loss, total_loss, batch/loss, epoch/loss",
    ", ",
)
_GRAD_NORMS = listed(
    "grad/norm/total train/grad_norm grad_norm train/grad/norm grad/norm grad-norm "
    "gradient_norm train/gradient_norm optim/total_grad_norm l2_norm/grad/global "
    "grad_norm/total"
)
_RATES = listed(
    "throughput/tokens_per_second throughput/tokens_per_sec train/tokens_per_second "
    "train/tokens_per_sec tokens_per_second tokens_per_sec tokens/sec tokens/s tok/s train/tps "
    "tps throughput(tps) throughput/total_tokens_per_second throughput/device/tokens_per_second "
    "throughput/device/tokens_per_sec train/tokens_per_second_per_gpu tokens_per_second_per_gpu "
    "throughput/examples_per_second throughput/samples_per_sec train/samples_per_second "
    "samples_per_second train/steps_per_second steps_per_second train/iters_per_sec it/s "
    "throughput train/throughput"
)
_UNITS = (
    (re.compile(r"tok|tps"), "tok/s"),
    (re.compile(r"sample|example"), "ex/s"),
    (re.compile(r"step|iter|^it/s"), "it/s"),
)
_NOT_TRAINING = frozenset(listed(
    "aux auxiliary balance balancing best dev ema eval evaluation kl min reg router test val "
    "valid validation z"
))  # fmt: skip
_EVALUATION = frozenset(("dev", "eval", "evaluation", "test", "val", "valid", "validation"))
_NO_RATE = frozenset(listed(
    "base cooldown decay end factor final find finder group init initial loss losses max min "
    "mult multiplier norm patience peak psnr ratio scale schedule scheduler ssim steps target "
    "warmup"
))  # fmt: skip
"""Settings of a schedule; and what else is called LR: left and right, low resolution, a search."""
_WHOLE_BATCH = frozenset(("effective", "global", "total"))
_PART_OF_BATCH = frozenset(listed(
    "accumulation dev device eval evaluation gpu inference local max micro min mini per ppo "
    "rollout test val valid validation"
))  # fmt: skip
_WORD = re.compile(r"[^a-z0-9]+")


class MetricKeys(NamedTuple):
    """The logged names; ``None`` where the run logs no such metric. ``unit`` is throughput's."""

    step: str = WANDB_STEP
    loss: str | None = None
    throughput: str | None = None
    unit: str | None = None
    grad_norm: str | None = None
    z_loss: str | None = None
    router_loss: str | None = None
    router_entropy: str | None = None
    skipped: str | None = None
    lr: str | None = None
    batch: str | None = None
    limited: tuple[tuple[str, Limited], ...] = ()
    """The logged names of metrics that have a limit (C-27), and which."""

    @property
    def trains(self) -> bool:
        """True where a metric of training is logged: rows that carry none are none of its steps."""
        return any((self.loss, self.throughput, self.grad_norm))

    @property
    def other_names(self) -> tuple[str | None, ...]:
        """The names of what is logged beside loss, rate and gradient, in a row's order."""
        first = (self.z_loss, self.router_loss, self.router_entropy, self.skipped)
        return (*first, self.lr, self.batch, *(name for name, _ in self.limited))

    def beside(self, values: Sequence[float | None]) -> Sequence[Any]:
        """Return the fields of a row beside loss, rate and gradient, by ``other_names``."""
        own = len(values) - len(self.limited)
        return (*values[:own], self.limited_values(values[own:]))

    def limited_values(
        self, values: Sequence[float | None]
    ) -> tuple[tuple[str, float], ...] | None:
        """Return what a row tells of metrics that have a limit, in the order of ``limited``."""
        told = tuple(
            (limit.metric, limit.factor * value)
            for (_, limit), value in zip(self.limited, values, strict=True)
            if value is not None
        )
        return told or None


def evaluates(names: Iterable[str], keys: MetricKeys) -> bool:
    """Tell whether a row of these names is an evaluation's, and no row of training.

    Its step may be its epoch, the batches of all validations so far, or 0: Lightning logs each of
    these under the name of the training's own step.
    """
    own = {keys.loss, keys.throughput, keys.grad_norm}
    found = list(names)
    return own.isdisjoint(found) and any(map(of_evaluation, found))


@lru_cache(maxsize=4096)
def of_evaluation(name: str) -> bool:
    """Tell whether a metric is one of an evaluation: ``val_loss``, ``eval/accuracy``."""
    return not _EVALUATION.isdisjoint(words_of(name))


def interesting(name: str, configured: MetricNames) -> bool:
    """Tell whether a key could be one that matters (rows may hold thousands that cannot)."""
    plain = plain_name(name)
    if plain in USUAL or _loss_like(name) or metric_of(words_of(name)) is not None:
        return True
    if _is_learning_rate(name) or _is_batch_size(name) or limited_by(name, configured.limited):
        return True
    return any(plain == plain_name(key) for key in _configured(configured) if key)


def _configured(names: MetricNames) -> tuple[str | None, ...]:
    first = (names.step, names.loss, names.throughput, names.grad_norm)
    return (*first, names.z_loss, names.router_loss, names.router_entropy, names.skipped)


def choose(
    rows: Sequence[frozenset[str]], configured: MetricNames, former: MetricKeys | None = None
) -> MetricKeys:
    """Return the keys of a run from the (interesting) names in some of its rows.

    A trainer's step that was found before, beside the same loss, stays.
    """
    names = sorted(frozenset().union(*rows))
    others = sorted(filter(_loss_like, names), key=len)  # the shortest, then by the alphabet
    loss = (
        _file_spelling(configured.loss, names) or _usual(_LOSSES, names) or next(iter(others), None)
    )
    same = former is not None and former.loss == loss and former.step != WANDB_STEP
    kept = former.step if former is not None and same else None
    rate = _file_spelling(configured.throughput, names) or _usual(_RATES, names)
    return MetricKeys(
        step=_file_spelling(configured.step, names) or kept or _step(rows, loss),
        loss=loss,
        throughput=rate,
        unit=None if rate is None else unit_of(rate),
        grad_norm=_file_spelling(configured.grad_norm, names) or _usual(_GRAD_NORMS, names),
        z_loss=_file_spelling(configured.z_loss, names) or _other_metric("z_loss", names),
        router_loss=_file_spelling(configured.router_loss, names)
        or _other_metric("router_loss", names),
        router_entropy=_file_spelling(configured.router_entropy, names)
        or _other_metric("router_entropy", names),
        skipped=_file_spelling(configured.skipped, names) or _other_metric("skipped", names),
        lr=_shortest(filter(_is_learning_rate, names)),
        batch=_batch_size(names),
        limited=tuple(_limited(names, configured.limited)),
    )


def _limited(names: Sequence[str], own: tuple[str, ...]) -> Iterator[tuple[str, Limited]]:
    """Yield the names of metrics that have a limit: of several the shortest, the whole model's."""
    found: dict[str, tuple[str, Limited]] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        limit = limited_by(name, own)
        if limit is not None:
            found.setdefault(limit.metric, (name, limit))
    yield from found.values()


def _other_metric(kind: Beside, names: Sequence[str]) -> str | None:
    """Return the shortest name of that metric: it is the whole model's, not a part's."""
    return _shortest(name for name in names if metric_of(words_of(name)) == kind)


def _shortest(names: Iterable[str]) -> str | None:
    return min(names, key=lambda name: (len(name), name), default=None)


@lru_cache(maxsize=4096)
def _is_learning_rate(name: str) -> bool:
    """Tell ``train/lr``, ``optim/learning_rate`` or ``lr-AdamW`` from a schedule's setting."""
    words = words_of(name)
    said = "lr" in words or "learningrate" in words or "learning rate" in " ".join(words)
    return said and _NO_RATE.isdisjoint(words)


@lru_cache(maxsize=4096)
def _is_batch_size(name: str) -> bool:
    """Tell the samples of a step from those of a part of it, or of another work."""
    words = words_of(name)
    named = words[-2:] == ("batch", "size") or words[-1:] == ("batchsize",)
    return named and _PART_OF_BATCH.isdisjoint(words)


def _batch_size(names: Sequence[str]) -> str | None:
    """Return the name of the batch size: the whole step's, if one is called so."""
    found = [name for name in names if _is_batch_size(name)]
    return _shortest(
        [name for name in found if not _WHOLE_BATCH.isdisjoint(words_of(name))] or found
    )


def unit_of(name: str) -> str | None:
    """Return the unit that a throughput's name gives away, or ``None``."""
    plain = plain_name(name)
    return next((unit for pattern, unit in _UNITS if pattern.search(plain)), None)


USUAL = frozenset((*_STEPS, *_LOSSES, *_GRAD_NORMS, *_RATES))


def _file_spelling(wanted: str | None, names: Sequence[str]) -> str | None:
    """Return the key that a person named, in the spelling of the file."""
    if wanted is None or wanted in names:
        return wanted
    return next((name for name in names if plain_name(name) == plain_name(wanted)), wanted)


def _usual(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    present = {plain_name(name): name for name in names}
    return next((present[key] for key in candidates if key in present), None)


def _loss_like(name: str) -> bool:
    words = [word for word in _WORD.split(name.lower()) if word]
    return bool(words) and words[-1].endswith("loss") and not _NOT_TRAINING.intersection(words)


def _step(rows: Sequence[frozenset[str]], loss: str | None) -> str:
    """Return the trainer's step: the first usual name in at least half of the loss rows."""
    with_loss = [row for row in rows if loss in row] or rows
    for candidate in _STEPS:
        spelled = {name for row in with_loss for name in row if plain_name(name) == candidate}
        for name in sorted(spelled):
            if 2 * sum(name in row for row in with_loss) >= len(with_loss):
                return name
    return WANDB_STEP


AHEAD: Final = 5.0
"""Seconds by which a time may lie after the file's last write."""
BEHIND: Final = 60.0
"""Seconds by which a row may lie before the record before it, or before what was seen then."""
SAME: Final = 60.0
"""Seconds by which two estimates of one offset may differ: rows are flushed late."""
ZONE: Final = 900.0
FARTHEST_ZONE: Final = 14 * 3600.0
"""Time zones lie whole quarters of an hour apart; none is farther away."""


LATEST: Final = 4e9
"""Seconds since the epoch that no true time reaches: what is beyond is in other units."""


def true_time(at: float | None) -> float | None:
    """Return a logged time if it can be one: neither infinite nor in milliseconds."""
    return at if at is not None and 0.0 < at < LATEST else None


class Stamps(NamedTuple):
    """The newest times in a file: of its last row, and of the client's records around that.

    ``before`` and ``after`` are the records next to the row, ``newest`` the last one of all.
    """

    row: float | None = None
    before: float | None = None
    after: float | None = None
    newest: float | None = None


class ClockReading(NamedTuple):
    """What was seen of a file at one look, and how far its trainer's clock was then off."""

    stamps: Stamps
    mtime: float
    offset: float


def offset_of(stamps: Stamps, mtime: float, former: ClockReading | None) -> float:
    """Return the trainer's clock minus ours (s), 0 where it is right or nothing decides.

    ``former`` is the look before this one; an estimate that holds is not changed for little.
    """
    if stamps.row is None:
        return 0.0 if former is None else former.offset
    found = _by_records(stamps, mtime)
    if found is None and former is not None and former.stamps.row == stamps.row:
        return former.offset  # nothing new was logged: only the file was touched
    if found is None:
        found = _by_writes(stamps, stamps.row, mtime, former)
    if former is None or not found or not former.offset or abs(found - former.offset) > SAME:
        return found
    return max(found, former.offset)


def _by_records(stamps: Stamps, mtime: float) -> float | None:
    """Return the offset by the client's records around the row; ``None`` without any after it."""
    row, after = stamps.row, stamps.after
    if row is None or after is None or stamps.newest is None:
        return None
    own = stamps.newest - mtime if stamps.newest - mtime > AHEAD else 0.0
    early = stamps.before is not None and row < stamps.before - BEHIND
    return row - (after - own) if row > after + AHEAD or early else own


def _by_writes(stamps: Stamps, row: float, mtime: float, former: ClockReading | None) -> float:
    """Return the offset of a row that was the last thing written, as of ``mtime``."""
    if row > mtime + AHEAD:
        return row - mtime
    late = mtime - row
    if late <= BEHIND:
        return 0.0
    if stamps.before is not None:
        behind = row < stamps.before - BEHIND
    elif former is not None:
        behind = row < former.mtime - BEHIND
    else:
        behind = late <= FARTHEST_ZONE and abs(late - round(late / ZONE) * ZONE) <= BEHIND
    return -late if behind else 0.0
