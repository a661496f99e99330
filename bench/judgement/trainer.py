"""A training that steps, logs and saves by itself; what happens to it is a change of its fields."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.judgement.files import Fragment, Log, Saves, TrackedRow

EARLY, LATE, SCALE = 8.0, 2.2, 900.0
"""The loss begins at the sum of the first two, ends at the second, and gets there by this."""
NOISE = 0.012
JITTER = 0.04


Figure = Callable[[int, random.Random], float]
"""A metric at a step; what is random in it is of that step: a step that is replayed repeats it."""


def falling(step: int) -> float:
    """Return the level of a language model's loss: a power of the step above what it ends at."""
    return LATE + EARLY / math.sqrt(1 + step / SCALE * 8)


def usual_loss(step: int, rng: random.Random) -> float:
    """Return a loss that falls as it should, with noise on it."""
    return falling(step) * (1 + rng.gauss(0, NOISE))


def usual_grad(_: int, rng: random.Random) -> float:
    """Return a gradient norm: log-normal around a half."""
    return 0.5 * math.exp(rng.gauss(0, 0.2))


@dataclass
class Trainer:
    """One training. ``step_s`` is its pace; ``loss_at`` gives the loss of a step."""

    rng: random.Random
    at: float
    step_s: float = 30.0
    step: int = 0
    final: int = 40_000
    save_every: float = 1800.0
    loss_at: Figure = usual_loss
    grad_at: Figure = usual_grad
    more_at: Mapping[str, Figure] = field(default_factory=dict)
    """What it logs besides, by name."""
    seed: int = 0
    at_end: Callable[[], object] = lambda: None
    tracker: Fragment | None = None
    log: Log | None = None
    saves: Saves | None = None
    offset: float = 0.0
    """By how much (s) its clock is ahead of everybody's."""
    alive: bool = True
    paused_until: float = float("-inf")
    log_every: int = 10
    saving: bool = True
    whole: bool = True
    steps: int = 0
    saved_at: float = field(default=0.0, init=False)
    _rows: list[TrackedRow] = field(default_factory=list, init=False)
    _lines: list[tuple[float, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.saved_at = self.at

    def advance(self, until: float) -> None:
        """Train until then; all that was logged meanwhile is in the files after."""
        while self.alive and self.step < self.final:
            gap = self.step_s * (1 + self.rng.uniform(-JITTER, JITTER))
            begin = max(self.at, self.paused_until)
            if begin + gap > until:
                break
            self.at = begin + gap
            self._one()
        self.flush()
        if self.step >= self.final and self.alive:
            self.alive = False
            self.at_end()

    def _one(self) -> None:
        self.step += 1
        self.steps += 1
        own = random.Random(self.seed * 1_000_003 + self.step)
        loss, grad = self.loss_at(self.step, own), self.grad_at(self.step, own)
        rate = 524_288 / self.step_s * (1 + self.rng.gauss(0, 0.01))
        metrics = {"train/loss": loss, "grad_norm": grad, "throughput/tokens_per_second": rate}
        metrics |= {name: figure(self.step, own) for name, figure in self.more_at.items()}
        self._rows.append((self.step, self.at + self.offset, metrics))
        if self.step % self.log_every == 0 or not math.isfinite(loss):
            line = f"INFO train: step {self.step}/{self.final} loss {loss:.4f} lr 3.0e-04"
            self._lines.append((self.at, line))
        if self.saving and self.saves is not None and self.at - self.saved_at >= self.save_every:
            self.saved_at = self.at
            self.flush()
            self.saves.save(self.step, self.at, whole=self.whole)

    def flush(self) -> None:
        """Write what was logged."""
        if self._rows and self.tracker is not None:
            self.tracker.add(self._rows, self._rows[-1][1] - self.offset)
        if self._lines and self.log is not None:
            self.log.say(self._lines)
        self._rows.clear()
        self._lines.clear()
