"""A history as a run that is watched: its rows come into a ``.wandb`` file, looks every 15 min."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.judgement.clock import START
from bench.judgement.stage import CADENCE, Stage
from bench.judgement.trainer import Trainer
from bench.judgement.watching import Watch
from cockpit.store.store import Store

EVERY = 10.0
"""Seconds between two rows, whatever their own times: 90 rows for each look."""
NAMES = {"loss": "train/loss", "grad_norm": "grad_norm", "lr": "train/lr",
         "throughput": "throughput/tokens_per_second"}  # fmt: skip


@dataclass
class Recorded(Trainer):
    """A training whose rows are known."""

    rows: Sequence[Mapping[str, Any]] = ()
    next: int = field(default=0, init=False)

    def advance(self, until: float) -> None:
        """Log what comes until then."""
        count = min(len(self.rows), max(0, math.floor((until - START) / EVERY)))
        for number in range(self.next, count):
            row, at = self.rows[number], START + (number + 1) * EVERY
            self.step = int(row["step"])
            told = {NAMES[name]: value for name, value in row.items() if name in NAMES}
            figures = {name: float(value) for name, value in told.items() if value is not None}
            self._rows.append((self.step, at, figures))
        self.next = count
        self.flush()


def polled(path: str) -> list[dict[str, Any]]:
    """Return what opened in a history: ``id``, ``key`` and the newest step when it was seen."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if isinstance(row.get("step"), int)]
    with tempfile.TemporaryDirectory(prefix="judge-") as name:
        stage = Stage(Path(name) / "run", seed=1)
        stage.submit()
        stage.start()
        stage.trainer = Recorded(stage.rng, START, tracker=stage.trainer.tracker, rows=rows)
        return asyncio.run(_looked_at(stage, rows))


async def _looked_at(stage: Stage, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    steps: dict[float, int] = {}
    store = Store(stage.folder / "store.sqlite")
    try:
        watch = Watch(stage, store)
        await watch.begin()
        for look in range(1, math.ceil(len(rows) * EVERY / CADENCE) + 1):
            stage.advance(START + look * CADENCE)
            await watch.look()
            steps[look * CADENCE] = stage.trainer.step
    finally:
        store.close()
    return [
        {"id": seen.alert.id, "key": seen.alert.key, "opened_step": steps[begin]}
        for seen in watch.seen.values()
        for begin, _ in seen.spans
    ]
