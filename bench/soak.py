"""Whether hours of watching leave anything behind: memory, descriptors, threads; by the fleet.

Twelve runs that step ten times as fast as the bar's one row a second, so that 15 minutes stand
for 150. The second half counts: each half of it beside the other, in percent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.live import Pace, feeding, make_live, name_of
from bench.program import Cost, Program, opened

RUNS: Final = 12
SIZE: Final = (120, 40)
EVERY: Final = 5.0
WATCHED: Final = ("rss", "descriptors", "threads")


def looked(program: Program, seconds: float) -> list[Cost]:
    """Return what the program holds, every few seconds; keys are pressed meanwhile."""
    found, until, number = [], time.monotonic() + seconds, 0
    while time.monotonic() < until:
        program.terminal.type("jjkk"[number % 4])
        program.terminal.idle(EVERY)
        program.terminal.output = program.terminal.output[-65536:]
        found.append(program.cost())
        number += 1
    return found


def drifts(found: list[Cost]) -> dict[str, float]:
    """Return by how many percent each thing that is held grew within the second half."""
    second = found[len(found) // 2 :]
    halves = second[: len(second) // 2], second[len(second) // 2 :]
    told: dict[str, float] = {"looks": len(found)}
    for name in WATCHED:
        before, after = (statistics.fmean(getattr(each, name) for each in half) for half in halves)
        told[f"{name}_drift_percent"] = 100 * (after / before - 1) if before else 0.0
        told[name] = getattr(found[-1], name) / (2**20 if name == "rss" else 1)
    return told


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--rows-per-second", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder, pace = Path(name), Pace(step_every=1 / args.rows_per_second, cadence="60s")
        config = make_live(folder, RUNS, pace)
        with feeding(folder, RUNS, pace), opened(config, SIZE, name_of(0)) as program:
            found = drifts(looked(program, 60 * args.minutes))
    if args.json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<28}{figure:>10.2f}")


if __name__ == "__main__":
    main()
