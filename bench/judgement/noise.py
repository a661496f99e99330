"""What a training writes besides: ``<%lines KIND COUNT [FIRST]%>`` in a log is so many lines of it.

``noise.txt`` has how jobs start and end, said once, and what trainers log now and then; the lines
of training itself are made here. ``FIRST`` is the step after which they begin.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_HOLE: Final = re.compile(
    r"^<%lines (?P<kind>\w+) (?P<count>\d+)(?: (?P<first>\d+))?%>\n?", re.MULTILINE
)
_HEAD: Final = re.compile(r"^=== ", re.MULTILINE)
_BEGAN: Final = datetime(2026, 2, 1, 4, 0, tzinfo=UTC)
_STAMP: Final = "%Y-%m-%d %H:%M:%S"


@dataclass
class Told:
    """What one log has told so far: each further block of lines goes on from there."""

    chance: random.Random
    step: int
    level: float
    last: int
    pace: float
    stamped: bool
    """Whether a container's runtime puts the time before each line."""
    loss: float = 0.0
    at: datetime = _BEGAN

    def advance(self, steps: int) -> None:
        """Train ``steps`` more: the loss falls slowly, and sways."""
        self.step += steps
        self.level += (1.6 - self.level) * 0.004
        self.loss = self.level + self.chance.gauss(0, 0.03)
        self.at += timedelta(seconds=self.pace * steps * self.chance.uniform(0.97, 1.06))

    def filled(self, line: str) -> str:
        """Return a line with its time (``@T``), step (``@S``) and escapes in their places."""
        when = line.replace("@T", f"{self.at:{_STAMP}}").replace("@S", str(self.step))
        return when.replace("<ESC>", "\x1b")


class Trainer(NamedTuple):
    """A trainer: steps from line to line, its line, and the share of lines with an aside."""

    steps: int
    line: Callable[[Told], str]
    asides: float


def unfolded(text: str, seed: str) -> str:
    """Return a log with its holes filled, alike for the same ``seed``; ``KeyError``."""
    chance = random.Random(seed)
    last = chance.choice((20_000, 50_000, 125_000, 500_000))
    told = Told(
        chance,
        step=chance.randrange(100, last // 2, 100),
        level=chance.uniform(1.8, 3.2),
        last=last,
        pace=chance.choice((0.4, 2.1, 8.3)),
        stamped="<%lines k8s " in text,
    )
    return _HOLE.sub(lambda hole: _block(hole, told), text)


def _block(hole: re.Match[str], told: Told) -> str:
    if hole["first"]:
        told.step = int(hole["first"])
        told.last = max(told.last, 2 * told.step)
    made = _trained(hole["kind"], told) if hole["kind"] in TRAINERS else _said(hole["kind"], told)
    lines = []
    for _, line in zip(range(int(hole["count"])), made, strict=False):
        stamp = f"{told.at:%Y-%m-%dT%H:%M:%S}.{told.chance.randrange(1000):03}Z "
        lines.append(f"{stamp if told.stamped else ''}{told.filled(line)}\n")
    return "".join(lines)


def _said(kind: str, told: Told) -> Iterator[str]:
    """Yield what a job's start, or its end, says: each line once."""
    for line in _asides()[kind]:
        told.at += timedelta(seconds=told.chance.uniform(0, 3))
        yield line


def _trained(kind: str, told: Told) -> Iterator[str]:
    trainer, others = TRAINERS[kind], _asides()[kind]
    while True:
        told.advance(trainer.steps)
        yield trainer.line(told)
        if told.chance.random() < trainer.asides:
            yield told.chance.choice(others)


@cache
def _asides() -> dict[str, list[str]]:
    text = Path(__file__).with_name("noise.txt").read_text(encoding="utf-8")
    parts = (part.rstrip("\n").split("\n") for part in _HEAD.split(text)[1:])
    return {name: lines for name, *lines in parts}


def _megatron(told: Told) -> str:
    return (
        f" [{told.at:{_STAMP}}] iteration {told.step:8}/{told.last:8} |"
        f" consumed samples: {told.step * 1024:12} |"
        f" elapsed time per iteration (ms): {told.pace * 1000:.1f} |"
        f" learning rate: 2.{told.step % 1000:03}E-04 | global batch size:  1024 |"
        f" lm loss: {told.loss:.6E} | loss scale: 1.0 |"
        f" grad norm: {told.chance.uniform(0.2, 0.6):.3f} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _hf(told: Told) -> str:
    if told.chance.random() < 0.5:
        share = 100 * told.step // told.last
        return (
            f"\r{share:3}%|{'█' * (share // 10):10}| {told.step}/{told.last}"
            f" [3:11:02<9:12:40, {told.pace:.2f}s/it]"
        )
    return (
        f"{{'loss': {told.loss:.4f}, 'grad_norm': {told.chance.uniform(0.3, 1.9):.6f},"
        f" 'learning_rate': 1.{told.step % 97:02}e-05, 'epoch': {told.step / told.last * 3:.2f}}}"
    )


def _torchtitan(told: Told) -> str:
    return (
        f"[rank0]:[titan] {told.at:{_STAMP}},221 - root - INFO - step: {told.step:5}"
        f"  loss: {told.loss:7.4f}  grad_norm: {told.chance.uniform(0.2, 0.9):7.4f}"
        "  memory: 61.22GiB(77.37%)  tps: 7,912  tflops: 412.11  mfu: 41.67%"
    )


def _lightning(told: Told) -> str:
    epoch, batch = divmod(told.step, 13289)
    return (
        f"Epoch {epoch}:  {100 * batch // 13289}%|███       | {batch}/13289"
        f" [1:41:07<2:11:44,  3.11it/s, v_num=12, train_loss={told.loss:.3f}]"
    )


def _nemo(told: Told) -> str:
    return (
        f"Training epoch 0, iteration {told.step}/{told.last - 1} | lr: 0.0002812 |"
        f" global_batch_size: 512 | global_step: {told.step} |"
        f" reduced_train_loss: {told.loss:.4f} | train_step_timing in s: {told.pace:.3f} |"
        f" consumed_samples: {told.step * 512}"
    )


def _deepspeed(told: Told) -> str:
    if told.chance.random() < 0.4:
        return (
            f"[{told.at:{_STAMP}},118] [INFO] [logging.py:107:log_dist] [Rank 0]"
            f" step={told.step}, skipped=4, lr=[9.1e-06, 9.1e-06], mom=[(0.9, 0.95), (0.9, 0.95)]"
        )
    return (
        f"steps: {told.step} loss: {told.loss:.4f} iter time (s): {told.pace:.3f}"
        f" samples/sec: {64 / told.pace:.3f}"
    )


def _levanter(told: Told) -> str:
    return (
        f"Progress on:train {told.step / 1000:.2f}kit/{told.last / 1000:.1f}kit"
        f" rate:{1 / told.pace:.1f}it/s remaining:12:10:11 elapsed:3:11:02"
        f" postfix:loss={told.loss:.3f}"
    )


def _maxtext(told: Told) -> str:
    return (
        f"completed step: {told.step}, seconds: {told.pace:.3f}, TFLOP/s/device: 211.204,"
        f" Tokens/s/device: 4122.112, total_weights: 2097152, loss: {told.loss:.3f}"
    )


def _nanogpt(told: Told) -> str:
    return f"iter {told.step}: loss {told.loss:.4f}, time {told.pace * 1000:.2f}ms, mfu 38.12%"


def _ray_rl(told: Told) -> str:
    return (
        f"\x1b[36m(TrainActor pid=5120, ip=10.0.3.3)\x1b[0m update {told.step}/{told.last}"
        f" policy_loss={told.loss / 50:.4f} kl={told.chance.uniform(0, 0.02):.4f}"
        f" reward={told.chance.uniform(0.3, 0.5):.4f}"
        f" tokens/s={told.chance.randrange(9000, 9900)}"
    )


TRAINERS: Final = {
    "megatron": Trainer(10, _megatron, 0.08),
    "hf": Trainer(10, _hf, 0.04),
    "torchtitan": Trainer(10, _torchtitan, 0.05),
    "lightning": Trainer(50, _lightning, 0.03),
    "nemo": Trainer(1, _nemo, 0.02),
    "deepspeed": Trainer(10, _deepspeed, 0.04),
    "levanter": Trainer(7, _levanter, 0.04),
    "maxtext": Trainer(1, _maxtext, 0.03),
    "nanogpt": Trainer(10, _nanogpt, 0.03),
    "ray_rl": Trainer(1, _ray_rl, 0.05),
}
