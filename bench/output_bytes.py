"""Bytes that what a person does costs the line: as cells that differ, beside what Textual writes.

``python -m bench.output_bytes``. The real app without a terminal, on a fleet that changes only when
it is told: the figures are counts, the same on any machine. Each stands beside its bar; one that
misses it says so. ``--no-repeat``: on a terminal that cannot repeat letters, as tmux cannot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from textual.pilot import Pilot

from cockpit.model.report import RunReport
from tests.app.recorded import Line, Recorded
from tests.screens.stand_in import StandIn, app_of, cockpit
from tests.screens.test_run import with_log
from tests.widgets import reports as made

RUNS: Final = 12
WALL: Final = (200, 50)
LINES: Final = 24
"""Lines that are written to a log, one by one."""


class Cost(NamedTuple):
    """Bytes as cells and as Textual writes them, CPU milliseconds of the output, and the bar."""

    cells: int
    plain: int
    cpu_ms: float
    bar: int | None


class Counted(Recorded):
    """Counts without a terminal beside: what is shown is the tests' matter."""

    cpu = 0.0

    def take(self, update: Any, size: Any, colours: Any) -> None:  # noqa: ANN401
        """Take an update, and count what Textual would have written."""
        began = time.process_time()
        super(Recorded, self).take(update, size, colours)
        self.cpu += time.process_time() - began
        self.plain_bytes += len(update.render_segments(self._console).encode())

    def send(self, *about: Any) -> None:  # noqa: ANN401
        """Write what differs."""
        began = time.process_time()
        super(Recorded, self).send(*about)
        self.cpu += time.process_time() - began


def run_at(number: int, step: int) -> RunReport:
    """Return one of the runs at a step."""
    at = made.tracker(step=step, loss=3.0 - step / 10_000, throughput=830_000.0 + step)
    words = made.log(f"08:52:10 step {step} loss={3.0 - step / 10_000:.3f}")
    return made.report(f"run-{number:02d}", seen=made.facets(tracker=at, log=words))


async def measured(
    pilot: Pilot[Any], output: Counted, what: Callable[[], Awaitable[object]], bar: int | None
) -> Cost:
    """Return what something costs."""
    await pilot.pause(0.2)
    cells, plain, output.cpu = output.written, output.plain_bytes, 0.0
    await what()
    await pilot.pause(0.2)
    cpu = round(output.cpu * 1000, 2)
    return Cost(output.written - cells, output.plain_bytes - plain, cpu, bar)


def attached(pilot: Pilot[Any], size: tuple[int, int], repeats: bool) -> Counted:
    """Let the app write to what counts."""
    output, app = Counted(Line(), size), app_of(pilot)
    if repeats:
        output.stage.can_repeat()
    vars(app._driver)["cells"] = output
    return output


async def fleet(repeats: bool, size: tuple[int, int]) -> dict[str, Cost]:
    """Return what the fleet costs."""
    engine = StandIn(*(run_at(number, 8000) for number in range(RUNS)))
    app = cockpit(engine=engine)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.3)
        output = attached(pilot, size, repeats)

        async def told(*numbers: int, **changes: float) -> None:
            for number in numbers:
                engine.tell(run_at(number, 8001))
            app.show_news()

        async def one_figure() -> None:
            changed = made.tracker(step=8001, loss=3.0 - 0.8001, throughput=831_001.0)
            former = run_at(0, 8001).facets
            facets = former.model_copy(update={"tracker": changed})
            engine.tell(run_at(0, 8001).model_copy(update={"facets": facets}))
            app.show_news()

        async def second() -> None:
            for first in range(0, RUNS, 3):
                await told(*range(first, first + 3))
                await pilot.pause(0.05)

        async def press(*keys: str) -> None:
            await pilot.press(*keys)

        async def whole() -> None:
            output.stage.doubt()
            app.screen.refresh()

        costs = {
            "whole screen": await measured(pilot, output, whole, 12_000),
            "one new step": await measured(pilot, output, lambda: told(0), 500),
            "one figure": await measured(pilot, output, one_figure, 60),
            "12 runs step once": await measured(pilot, output, second, 3_000),
            "cursor step": await measured(
                pilot, output, lambda: press("j"), 400 if size == WALL else None
            ),
            "a run opened": await measured(pilot, output, lambda: press("enter"), None),
            "back to the fleet": await measured(pilot, output, lambda: press("escape"), None),
        }
    await app.stop_work()
    return costs


async def log(repeats: bool, size: tuple[int, int]) -> dict[str, Cost]:
    """Return what the log costs."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "run.log"
        path.write_text("".join(map(_line, range(3000))))
        app = cockpit(with_log(path), run="run-a")
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.5)
            output = attached(pilot, size, repeats)

            async def press(*keys: str) -> None:
                await pilot.press(*keys)
                await pilot.pause(0.2)

            async def grown(number: int) -> None:
                with path.open("a") as file:
                    file.write(_line(number))
                engine = app._engine
                assert isinstance(engine, StandIn)
                engine.tell(with_log(path))
                app.show_news()
                await pilot.pause(0.5)

            await press("t")
            lines = [
                await measured(pilot, output, partial(grown, 3000 + n), None) for n in range(LINES)
            ]
            costs = {
                "log: a line more": _mean(lines, 600),
                "log: the dearest": max(lines),
                "log: a page": await measured(pilot, output, lambda: press("pageup"), None),
                "log: cursor step": await measured(pilot, output, lambda: press("up"), None),
            }
        await app.stop_work()
    return costs


def _mean(costs: Sequence[Cost], bar: int) -> Cost:
    """Return what one of several like changes costs: lines move at some of them only."""
    cells, plain, cpu = (sum(each[at] or 0 for each in costs) / len(costs) for at in range(3))
    return Cost(round(cells), round(plain), round(cpu, 2), bar)


def _line(number: int) -> str:
    words = ("loss", "saved", "warmup", "eval held out", "gradient norm", "tokens seen")
    told = words[number * 7 % len(words)]
    return (
        f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z {told} {number * 7919 % 997}\n"
    )


async def everything(repeats: bool) -> dict[str, dict[str, Cost]]:
    """Return all costs, by size."""
    found = {}
    for size in ((80, 24), (120, 40), WALL):
        costs = await fleet(repeats, size) | await log(repeats, size)
        found[f"{size[0]}x{size[1]}"] = costs
    return found


def main() -> int:
    """Print the table, or JSON; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-repeat", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(everything(not args.no_repeat))
    if args.json:
        print(json.dumps({at: {k: c._asdict() for k, c in v.items()} for at, v in found.items()}))
    else:
        print(f"{'':<9}{'':<20}{'cells':>8}{'Textual':>9}{'ratio':>7}{'ms':>7}{'bar':>8}")
        for size, costs in found.items():
            for name, (cells, plain, cpu, bar) in costs.items():
                share = f"{cells / plain:7.2f}" if plain else "      –"
                told = "" if bar is None else f"{bar:8d}" + (" MISSED" if cells > bar else "")
                print(f"{size:<9}{name:<20}{cells:8d}{plain:9d}{share}{cpu:7.1f}{told}")
    missed = [c for costs in found.values() for c in costs.values() if c.bar and c.cells > c.bar]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
