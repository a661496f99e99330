"""Quiet losses of many kinds of training, row by row: what no alarm may be made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

Losses = list[float]
Kind = Callable[[Random, int], Losses]


def _noise(draw: Random, sigma: float) -> float:
    return math.exp(draw.gauss(0, sigma))


def _falling(draw: Random, rows: int, first: float, last: float, tau: float) -> Losses:
    power = draw.uniform(0.4, 0.9)
    return [last + (first - last) * (1 + n / tau) ** -power for n in range(rows)]


def _wandering(draw: Random, rows: int, sigma: float, memory: float) -> Losses:
    """Return factors whose logarithm is an AR(1) process of that spread."""
    at, found = 0.0, []
    for _ in range(rows):
        at = memory * at + draw.gauss(0, sigma * math.sqrt(1 - memory**2))
        found.append(math.exp(at))
    return found


def pretrain(draw: Random, rows: int) -> Losses:
    """Draw a language model from scratch."""
    first, sigma = draw.uniform(8, 12), draw.uniform(0.004, 0.03)
    fall = _falling(draw, rows, first, draw.uniform(2, 3.5), draw.uniform(5, 60))
    return [loss * _noise(draw, sigma) for loss in fall]


def warm_up_hump(draw: Random, rows: int) -> Losses:
    """Draw a learning rate that is a little high at first: down, up by a fifth, and down."""
    base, peak = pretrain(draw, rows), draw.uniform(0.08, 0.2)
    middle, width = rows * draw.uniform(0.1, 0.3), max(5.0, rows * 0.05)
    hump = (1 + peak * math.exp(-(((n - middle) / width) ** 2)) for n in range(rows))
    return [loss * more for loss, more in zip(base, hump, strict=True)]


def warm_up_and_decay(draw: Random, rows: int) -> Losses:
    """Draw a warm-up, a long stable phase, and a fast decay at the end."""
    base, knee = pretrain(draw, rows), rows * draw.uniform(0.7, 0.9)
    return [loss * (1 - 0.15 * max(0.0, (n - knee) / (rows - knee))) for n, loss in enumerate(base)]


def learning_rate_steps(draw: Random, rows: int) -> Losses:
    """Draw an image model: the loss drops where the learning rate does."""
    level, steps = draw.uniform(1.5, 7), sorted(draw.uniform(0.2, 0.9) for _ in range(3))
    factor = draw.uniform(0.6, 0.85)
    passed = (sum(n / rows > step for step in steps) for n in range(rows))
    return [
        (level * factor**down * (0.7 + 0.3 * math.exp(-n / 40))) * _noise(draw, 0.03)
        for n, down in enumerate(passed)
    ]


def warm_restarts(draw: Random, rows: int) -> Losses:
    """Draw cosine with restarts: each one throws the loss up by some, then it falls further."""
    period, rise = max(25, rows // draw.randint(3, 6)), draw.uniform(0.05, 0.25)
    base = pretrain(draw, rows)
    return [
        loss * (1 + (rise * (1 - n % period / period) if n >= period else 0.0))
        for n, loss in enumerate(base)
    ]


def small_batches(draw: Random, rows: int) -> Losses:
    """Draw a loss of a few samples: as large as its noise."""
    shape = draw.uniform(3, 20)
    fall = _falling(draw, rows, 4.0, 1.5, 20)
    return [loss * draw.gammavariate(shape, 1 / shape) for loss in fall]


def heavy_tails(draw: Random, rows: int) -> Losses:
    """Draw most rows alike, some many times as high."""
    fall, sigma = _falling(draw, rows, 3.0, 0.8, 30), draw.uniform(0.3, 0.9)
    return [loss * _noise(draw, sigma) for loss in fall]


def around_zero(draw: Random, rows: int) -> Losses:
    """Draw a policy loss: of both signs, wandering."""
    scale, drift = draw.uniform(0.01, 2), _wandering(draw, rows, 0.4, 0.98)
    return [scale * (math.log(each) + draw.gauss(0, 0.5)) for each in drift]


def negative(draw: Random, rows: int) -> Losses:
    """Draw a reward with its sign turned: falls from zero on."""
    depth = draw.uniform(2, 50)
    return [
        -depth * (1 - math.exp(-3 * n / rows)) + draw.gauss(0, 0.06 * depth) for n in range(rows)
    ]


def value_loss(draw: Random, rows: int) -> Losses:
    """Draw a critic's loss: wanders, skewed."""
    drift = _wandering(draw, rows, 0.25, 0.97)
    return [0.4 * each * draw.gammavariate(2, 0.5) for each in drift]


def diffusion(draw: Random, rows: int) -> Losses:
    """Draw a denoiser's loss: the noise level that was drawn decides, not the training."""
    fall = _falling(draw, rows, 0.6, 0.06, 10)
    return [loss * _noise(draw, 0.5) for loss in fall]


def adversarial(draw: Random, rows: int) -> Losses:
    """Draw a generator's loss against its discriminator: swings, and never settles."""
    drift, period = _wandering(draw, rows, 0.12, 0.95), draw.uniform(20, 90)
    return [
        1.2 * each * (1 + 0.12 * math.sin(2 * math.pi * n / period)) * _noise(draw, 0.15)
        for n, each in enumerate(drift)
    ]


def contrastive(draw: Random, rows: int) -> Losses:
    """Draw a plateau at the logarithm of the batch, a sudden fall, a slow one."""
    plateau = math.log(draw.choice((256, 4096, 32768)))
    fall = rows * draw.uniform(0.05, 0.4)
    return [
        plateau
        * (1.0 if n < fall else 0.25 + 0.75 * math.exp((fall - n) / 60))
        * _noise(draw, 0.02)
        for n in range(rows)
    ]


def mixture_of_experts(draw: Random, rows: int) -> Losses:
    """Draw cross entropy with an auxiliary loss that settles later."""
    aux = draw.uniform(0.05, 0.4)
    return [loss + aux * math.exp(-n / 150) for n, loss in enumerate(pretrain(draw, rows))]


def epochs(draw: Random, rows: int) -> Losses:
    """Draw a fine-tune: flat within an epoch, a stair down at each new one."""
    count, sigma = draw.randint(2, 5), draw.uniform(0.03, 0.12)
    size = max(1, rows // count)
    return [
        (1.1 * 0.72 ** (n // size) + 0.6 * math.exp(-n / 15)) * _noise(draw, sigma)
        for n in range(rows)
    ]


def memorised(draw: Random, rows: int) -> Losses:
    """Draw a fine-tune on too little: down to a thousandth, moving freely there."""
    last, sigma = 10 ** draw.uniform(-4, -2), draw.uniform(0.1, 0.4)
    drift = _wandering(draw, rows, draw.uniform(0.1, 0.4), draw.choice((0.5, 0.9, 0.97)))
    fall = [last + 2.5 * math.exp(-n / draw.uniform(12, 14)) for n in range(rows)]
    return [loss * each * _noise(draw, sigma) for loss, each in zip(fall, drift, strict=True)]


def hard_examples(draw: Random, rows: int) -> Losses:
    """Draw one memorised but for some examples: now and then a few rows ten times as high."""
    base = memorised(draw, rows)
    for _ in range(max(1, rows // 60)):
        at = draw.randrange(rows)
        for n in range(at, min(rows, at + draw.randint(1, 5))):
            base[n] *= draw.uniform(3, 12)
    return base


def exact_zeros(draw: Random, rows: int) -> Losses:
    """Draw a loss that is nought where a batch holds nothing to learn."""
    base = memorised(draw, rows)
    return [0.0 if draw.random() < 0.2 else round(loss, 4) for loss in base]


def data_mix(draw: Random, rows: int) -> Losses:
    """Draw stages of data: the level steps up or down, by less than 28 % in all."""
    base, stages = pretrain(draw, rows), draw.randint(1, 3)
    for _ in range(stages):
        at, factor = draw.randrange(rows // 3, rows), draw.uniform(0.85, 1.085)
        base[at:] = [loss * factor for loss in base[at:]]
    return base


def longer_sequences(draw: Random, rows: int) -> Losses:
    """Draw a curriculum: each stage is a little harder at first, and is learned."""
    period, base = max(20, rows // 5), pretrain(draw, rows)
    return [
        loss * (1 + (0.2 * math.exp(-(n % period) / (period / 3)) if n >= period else 0.0))
        for n, loss in enumerate(base)
    ]


def data_order(draw: Random, rows: int) -> Losses:
    """Draw shards that differ, in the same order each time."""
    period, depth = draw.uniform(30, 300), draw.uniform(0.05, 0.18)
    return [
        loss * (1 + depth * math.sin(2 * math.pi * n / period))
        for n, loss in enumerate(pretrain(draw, rows))
    ]


def recommender(draw: Random, rows: int) -> Losses:
    """Draw clicks: flat almost from the start."""
    return [0.13 * _noise(draw, 0.03) + 0.3 * math.exp(-n / 8) for n in range(rows)]


def short_bumps(draw: Random, rows: int) -> Losses:
    """Draw bumps of one to nine rows, up to eight times the level."""
    base = pretrain(draw, rows)
    for start in range(20, rows, 120):
        at, high = start + draw.randrange(80), draw.uniform(1.6, 8)
        for n in range(at, min(rows, at + draw.choice((1, 1, 1, 4, 9)))):
            base[n] *= high
    return base


def high_start(draw: Random, rows: int) -> Losses:
    """Draw a first step far off, a recovery, and a plain descent."""
    base = pretrain(draw, rows)
    start = draw.uniform(2, 6)
    return [loss * (1 + start * math.exp(-n / 8) * (n > 1)) for n, loss in enumerate(base)]


def detection(draw: Random, rows: int) -> Losses:
    """Draw boxes and masks: a short warm-up up, then down, noisy."""
    up = rows * 0.02
    return [
        (0.5 + 1.6 * math.exp(-n / (rows / 4)) * min(1.0, 0.6 + 0.4 * n / (up + 1)))
        * _noise(draw, 0.15)
        for n in range(rows)
    ]


def gradients(draw: Random, rows: int) -> Losses:
    """Draw the norms of a gradient: steep at first, skewed, wandering, with single outliers."""
    level, sigma = 10 ** draw.uniform(-1, 1), draw.uniform(0.05, 0.5)
    drift = _wandering(draw, rows, 0.1, 0.98)
    return [
        level
        * (1 + 5 * math.exp(-n / 40))
        * each
        * _noise(draw, sigma)
        * (draw.uniform(3, 30) if draw.random() < 0.004 else 1.0)
        for n, each in enumerate(drift)
    ]


def speeds(draw: Random, rows: int) -> Losses:
    """Draw a throughput: slow at first, noisy, with short dips, a fifth lower for some hours."""
    level, sigma = 10 ** draw.uniform(2, 6), draw.uniform(0.005, 0.08)
    slow = range(at := draw.randrange(rows), at + rows // 4)
    return [
        level
        * (0.3 if n < 3 else 1.0)
        * (0.82 if n in slow else 1.0)
        * (draw.uniform(0.1, 0.8) if draw.random() < 0.02 else 1.0)
        * _noise(draw, sigma)
        for n in range(rows)
    ]


QUIET: dict[str, Kind] = {
    "pretrain": pretrain,
    "warm-up hump": warm_up_hump,
    "warm-up and decay": warm_up_and_decay,
    "learning-rate steps": learning_rate_steps,
    "warm restarts": warm_restarts,
    "small batches": small_batches,
    "heavy tails": heavy_tails,
    "around zero": around_zero,
    "negative": negative,
    "value loss": value_loss,
    "diffusion": diffusion,
    "adversarial": adversarial,
    "contrastive": contrastive,
    "mixture of experts": mixture_of_experts,
    "epochs": epochs,
    "memorised": memorised,
    "hard examples": hard_examples,
    "exact zeros": exact_zeros,
    "data mix": data_mix,
    "longer sequences": longer_sequences,
    "data order": data_order,
    "recommender": recommender,
    "short bumps": short_bumps,
    "high start": high_start,
    "detection": detection,
}
