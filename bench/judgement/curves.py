"""Loss curves of our own making: quiet ones of many kinds of training, and the same with a fault.

Synthetic, seeded, and shaped after what trainings of each kind do: how steep, how noisy, with which
steps, bumps and gaps. None is a recording, so a good score here says that a mechanism holds
for these shapes, not that it holds for every real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from bench.judgement.kinds import QUIET, Losses, gradients, speeds

START = 1.7e9
Curve = dict[str, Any]
Fault = Callable[[Random, Losses, int], "tuple[Losses, int, int]"]


def _held(losses: Losses, at: int) -> float:
    """Return the level before a fault: the mean size of the rows before it."""
    before = [abs(loss) for loss in losses[max(0, at - 40) : at]]
    return sum(before) / len(before)


def spike(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a jump to 1.8 to 10 times the level for 12 to 60 rows, as high to its end."""
    rows, height = draw.randint(12, 60), draw.uniform(1.8, 10.0)
    level = _held(losses, at)
    jump = [loss + (height - 1) * level for loss in losses[at : at + rows]]
    return [*losses[:at], *jump, *losses[at + rows :]], at, at + rows - 1


def slow_spike(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a jump that falls back by itself, by half in 20 to 40 rows."""
    rows, height, half = 90, draw.uniform(2.4, 5.0), draw.uniform(20, 40)
    level = _held(losses, at)
    added = [(height - 1) * level * 0.5 ** (n / half) for n in range(rows)]
    jump = [loss + more for loss, more in zip(losses[at : at + rows], added, strict=False)]
    return [*losses[:at], *jump, *losses[at + rows :]], at, at + rows - 1


def doubling(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a loss that doubles from some row on every 100 to 1000 rows, up to 6 times the level."""
    per, level = draw.choice((100, 200, 500, 1000)), _held(losses, at)
    added = [min(2 ** (n / per) - 1, 5.0) * level for n in range(int(2.6 * per) + 200)]
    tail = _stretched(losses, at, len(added))
    return [*losses[:at], *(a + b for a, b in zip(tail, added, strict=True))], at, -1


def climb(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a climb by 60 to 200 % over 100 to 800 rows, and there it stays."""
    rows, height, level = draw.randint(100, 800), draw.uniform(0.6, 2.0), _held(losses, at)
    added = [min(n / rows, 1.0) * height * level for n in range(rows + 300)]
    tail = _stretched(losses, at, len(added))
    return [*losses[:at], *(a + b for a, b in zip(tail, added, strict=True))], at, -1


def jump(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a jump by 80 to 400 %, and there it stays."""
    height, level = draw.uniform(0.8, 4.0), _held(losses, at)
    return [*losses[:at], *(loss + height * level for loss in losses[at:])], at, -1


def blow_up(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw swings that grow: ever higher, ever longer above what was usual."""
    period, level = draw.uniform(30, 80), _held(losses, at)
    rows = len(losses) - at
    swing = [
        level * 4 * (n / rows) ** 1.5 * (1 + math.sin(2 * math.pi * n / period))
        for n in range(rows)
    ]
    return [*losses[:at], *(a + b for a, b in zip(losses[at:], swing, strict=True))], at, -1


def bad_start(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a short run: it blows up in its first steps, comes down, and climbs for good."""
    top, low = draw.uniform(25, 60), draw.uniform(6, 11)
    down, up = draw.randint(20, 60), draw.randint(40, 90)
    fall = [top * (low / top) ** (n / down) for n in range(down)]
    rise = [low * (1 + draw.uniform(0.9, 1.2) * (n / up) ** 0.7) for n in range(up)]
    curve = [loss * draw.gauss(1, 0.005) for loss in (low, low, *fall, *rise)]
    return curve, 2 + down, -1


def lost(draw: Random, losses: Losses, at: int) -> tuple[Losses, int, int]:
    """Draw a climb that ends in numbers that are none."""
    level, rows = _held(losses, at), draw.randint(3, 9)
    steep = [level * (1 + n) for n in range(rows)]
    none = draw.choice((math.nan, math.inf))
    return [*losses[:at], *steep, *[none] * 60], at + rows, -1


def _stretched(losses: Losses, at: int, rows: int) -> Losses:
    """Return ``rows`` rows from ``at`` on, the last hundred again where there are fewer."""
    tail = losses[at : at + rows]
    last = losses[-100:]
    return [*tail, *(last[n % len(last)] for n in range(rows - len(tail)))]


FAULTS: dict[str, tuple[str, Fault]] = {
    "spike": ("spike", spike),
    "slow spike": ("spike", slow_spike),
    "doubling": ("diverged", doubling),
    "climb": ("diverged", climb),
    "jump": ("diverged", jump),
    "blow-up": ("diverged", blow_up),
    "bad start": ("diverged", bad_start),
    "lost": ("nan", lost),
}
STEADY = ("pretrain", "warm-up and decay", "learning-rate steps", "mixture of experts", "epochs")
"""Kinds quiet enough that each fault stands clear of the noise: a miss is a miss."""


def _logged(draw: Random, losses: Losses, every: int, seconds: float) -> list[Curve]:
    """Return rows as a trainer logs them, with pauses for evaluation and for saving."""
    at, rows = START, []
    pause = draw.randint(100, 400)
    norms, rates = gradients(draw, len(losses)), speeds(draw, len(losses))
    for number, loss in enumerate(losses):
        at += seconds * draw.uniform(0.95, 1.1) + (draw.uniform(5, 30) * seconds) * (
            number % pause == pause - 1
        )
        row = {"step": (number + 1) * every, "loss": loss, "time": round(at, 2)}
        rows.append({**row, "grad_norm": norms[number], "throughput": rates[number]})
    return rows


def _again(draw: Random, rows: list[Curve]) -> list[Curve]:
    """Return the rows of a run that went back to a checkpoint and replayed what came after it."""
    cut = draw.randint(len(rows) // 3, len(rows) - 1)
    back = max(0, cut - draw.randint(5, 60))
    return [*rows[:cut], *_later(draw, rows[back:])]


def _later(draw: Random, rows: list[Curve]) -> list[Curve]:
    """Return the rows of a next instance: ten minutes later, alike but for the last bits."""
    tiny = min(0.0008, 1e-3 * abs(rows[0]["loss"]))
    return [
        {**row, "time": row["time"] + 600.0, "loss": row["loss"] + draw.uniform(-tiny, tiny)}
        for row in rows
    ]


def quiet(seed: int) -> Iterator[Curve]:
    """Yield one quiet curve of every kind; some went back once, some log several rows a step."""
    for number, (kind, make) in enumerate(QUIET.items()):
        draw = Random(f"{seed} {kind}")
        losses = make(draw, draw.choice((60, 150, 400, 1000, 2500)))
        rows = _logged(draw, losses, draw.choice((1, 1, 10, 50, 500)), draw.choice((0.3, 4, 40)))
        shape = (seed + number) % 5
        if shape == 0 and len(rows) > 100:
            rows = _again(draw, rows)
        if shape == 1:
            rows = [{**row, "step": row["step"] // 4 * 4} for row in rows]
        yield _curve(f"{kind} {seed}", kind, "healthy", [], rows)


def faulty(seed: int) -> Iterator[Curve]:
    """Yield one curve with every fault, put into a steady one."""
    for fault, (label, put) in FAULTS.items():
        draw = Random(f"{seed} {fault}")
        kind = draw.choice(STEADY)
        losses = QUIET[kind](draw, draw.choice((700, 1500)))
        at = draw.randint(250, len(losses) - 300)
        changed, first, last = put(draw, losses, at)
        rows = _logged(draw, changed, draw.choice((1, 10, 100)), draw.choice((0.5, 5)))
        where = [[rows[first]["step"], rows[last]["step"]]]
        yield _curve(f"{fault} {seed}", f"{fault} in {kind}", label, where, rows)


def explosion(draw: Random, rows: list[Curve], at: int) -> None:
    """Let the gradient explode for 12 to 100 rows; the loss does not show it."""
    usual = sorted(row["grad_norm"] for row in rows[max(0, at - 200) : at])
    high = usual[-1] * draw.uniform(3, 20)
    for row in rows[at : at + draw.randint(12, 100)]:
        row["grad_norm"] = high * draw.uniform(0.8, 1.2)


def collapse(draw: Random, rows: list[Curve], at: int) -> None:
    """Let everything run at a third to two thirds of its speed from there on."""
    share = draw.uniform(0.3, 0.66)
    for row in rows[at:]:
        row["throughput"] *= share


def drift(draw: Random, rows: list[Curve], at: int) -> None:
    """Let a straggler take one in a hundred of the speed each hour."""
    began = rows[at]["time"]
    for row in rows[at:]:
        row["throughput"] *= max(0.3, 1 - 0.01 * (row["time"] - began) / 3600)


def other_data(draw: Random, rows: list[Curve], at: int) -> None:
    """Let a restart replay other data: about as good, and not the same."""
    back, sign = draw.randint(20, 60), draw.choice((-1, 1))
    again = _later(draw, rows[at - back : at + 400])
    for row in again:
        row["loss"] *= 1 + sign * draw.uniform(0.01, 0.05)
    rows[at:] = again


def cold_optimizer(draw: Random, rows: list[Curve], at: int) -> None:
    """Let a restart forget the optimizer's state: the loss is higher, and comes back late."""
    again, high = _later(draw, rows[at - 20 : at + 400]), draw.uniform(0.06, 0.3)
    for n, row in enumerate(again[20:]):
        row["loss"] *= 1 + high * math.exp(-n / 300)
    rows[at:] = again


STRAINS: dict[str, tuple[str, Callable[[Random, list[Curve], int], None]]] = {
    "explosion": ("C-10", explosion),
    "collapse": ("C-05", collapse),
    "drift": ("C-05", drift),
    "other data": ("C-12", other_data),
    "cold optimizer": ("C-12", cold_optimizer),
}


def strained(seed: int) -> Iterator[Curve]:
    """Yield curves whose loss is quiet and whose gradient or speed is not; ``wants`` names it."""
    for strain, (wants, put) in STRAINS.items():
        draw = Random(f"{seed} {strain}")
        kind = draw.choice(STEADY)
        every = 1 if wants == "C-12" else 10
        rows = _logged(draw, QUIET[kind](draw, 1500), every, 120)
        at = draw.randint(350, 450)
        put(draw, rows, at)
        where = [[rows[at]["step"], rows[-1]["step"]]]
        curve = _curve(f"{strain} {seed}", f"{strain} in {kind}", "strained", where, rows)
        yield {**curve, "wants": wants}


def _curve(name: str, task: str, label: str, where: list[list[int]], rows: list[Curve]) -> Curve:
    fields = {"name": name, "task": task, "label": label, "where": where, "n": len(rows)}
    return {**fields, "synthetic": True, "rows": rows}


def curves(seeds: int = 4) -> Iterator[Curve]:
    """Yield the curves of so many seeds: ``QUIET`` and ``FAULTS`` each."""
    for seed in range(seeds):
        yield from quiet(seed)
        yield from faulty(seed)
