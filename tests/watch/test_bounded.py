"""What is held of a run does not grow with its rows, once its windows are full."""

from __future__ import annotations

import gc
import sys
import types
from pathlib import Path

from cockpit.model.clock import FixedClock
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.sources.logs.source import Logs
from cockpit.sources.wandb.tracker import Wandb
from cockpit.watch.ingest import feed_chunk
from cockpit.watch.reports import case_of, judged
from cockpit.watch.runstate import LOG_ROWS, RunState
from tests.queries import queries_of
from tests.sources.wandb import writer

NOW = 1_800_000_000.0
PORTION = 600
FULL = 6
"""Portions after which every window is full: 3,600 rows."""
LIMIT = 1.25
"""A chart's columns are halved when there are too many, and fill again."""
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def held_by(*roots: object) -> int:
    """Return the bytes of all objects that can be reached, but for code."""
    seen: set[int] = set()
    waiting: list[object] = list(roots)
    total = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total


class Growing:
    """A run whose log and W&B file get new rows, and all that a watch holds of it."""

    def __init__(self, folder: Path) -> None:
        self.log, self.file = folder / "run.log", folder / "run-abcd1234.wandb"
        self.size = self.file.write_bytes(writer.log([writer.run("abcd1234", NOW - 1e6)]))
        self.log.write_bytes(b"begin\n")
        job = JobSpec(kind="local", log=str(self.log))
        run = RunSpec(name="r", job=job, wandb=WandbSpec(dir=str(self.file)))
        self.clock = FixedClock(NOW)
        self.logs, self.tracker = Logs(self.clock), Wandb(self.clock)
        self.state = RunState(run, "k")
        self.step = 0

    def write(self) -> None:
        """Add a portion of rows to both files."""
        steps = range(self.step, self.step + PORTION)
        self.step += PORTION
        rows = [writer.row(n, f"{2 + n % 7 / 10}", NOW - 1e6 + n) for n in steps]
        with self.file.open("ab") as file:
            self.size += file.write(writer.frame(rows, self.size))
        with self.log.open("ab") as file:
            file.writelines(b"iter %d: loss 2.%d, time 13ms\n" % (n, n % 7) for n in steps)

    async def look(self) -> None:
        """Ask, fold and judge, as a watch does."""
        queries = queries_of([self.state.spec])
        self.state.take("log", (await self.logs.observe(queries))["r"])
        while not (await feed_chunk(self.tracker, self.state.spec, self.state.rows)).caught_up:
            pass
        self.state.take("tracker", (await self.tracker.observe(queries))["r"])
        self.state.log_trend = judged(case_of(self.state, NOW)).log_trend

    @property
    def held(self) -> int:
        """Bytes of what is kept until the next look."""
        return held_by(self.state, self.logs, self.tracker)


async def test_a_run_s_memory_does_not_grow_with_its_rows(tmp_path: Path) -> None:
    growing, sizes = Growing(tmp_path), []
    for _ in range(2 * FULL + 2):
        growing.write()
        await growing.look()
        sizes.append(growing.held)
    value = growing.state.facets.log.value
    assert value is not None and len(value.rows) == LOG_ROWS and growing.state.log_rows == ()
    assert growing.state.rows.full.rows == growing.step
    first, later = max(sizes[:FULL]), max(sizes[FULL:])
    assert later < LIMIT * first, sizes
