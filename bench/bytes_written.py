"""What is written for one change: a digit, a step, a cursor step, a line of log; for a live fleet.

The real program on runs that stand still until this changes one thing; the median of some tries.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from bench.live import ROWS, Pace, feeding, make_live, name_of, stepped
from bench.program import opened
from tests.terminal_probe import Terminal

QUIET: Final = 4.0
"""Seconds in which all is written that belongs to a change: a row is asked for within them."""
TRIES: Final = 5
SETTLE: Final = 12.0


def changed(terminal: Terminal, change: Callable[[], object], wait: float) -> float:
    """Return how many bytes follow from a change."""
    change()
    return len(terminal.idle(wait))


def of_steps(size: tuple[int, int], runs: int) -> float:
    """Return the bytes of one new step of one run, ``runs`` of them in sight."""
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder, pace = Path(name), Pace()
        config = make_live(folder, runs, pace)
        with feeding(folder, runs, pace), opened(config, size, name_of(0)) as program:
            program.terminal.idle(SETTLE)
            found = []
            for step in range(ROWS, ROWS + TRIES):
                found.append(changed(program.terminal, partial(stepped, folder, 1, step), QUIET))
    return statistics.median(found)


def of_fleet(seconds: float) -> float:
    """Return the bytes a second of 12 runs that step once a second, at 120x40."""
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder, pace = Path(name), Pace(step_every=1.0)
        config = make_live(folder, 12, pace)
        with feeding(folder, 12, pace), opened(config, (120, 40), name_of(0)) as program:
            program.terminal.idle(SETTLE)
            began = time.perf_counter()
            return len(program.terminal.idle(seconds)) / (time.perf_counter() - began)


def of_keys() -> dict[str, float]:
    """Return the bytes of a cursor step between panels and of a line of log, at 200x50."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder, pace = Path(name), Pace()
        config = make_live(folder, 12, pace)
        with feeding(folder, 12, pace), opened(config, (200, 50), name_of(0)) as program:
            terminal = program.terminal
            terminal.idle(SETTLE)
            keys = [changed(terminal, partial(terminal.type, key), 0.5) for key in "jkjkjk"]
            found["cursor_step"] = statistics.median(keys)
            began = len(terminal.output)
            terminal.type("\r")
            terminal.idle(2.0)
            found["run_opened"] = float(len(terminal.output) - began)
            terminal.type("1")
            terminal.idle(1.0)
            lines = [changed(terminal, partial(terminal.type, "k"), 0.5) for _ in range(2 * TRIES)]
            found["log_line"] = statistics.median(lines[TRIES:])
            terminal.type("\x1b")
            terminal.idle(0.5)
    return found


def figures(seconds: float) -> dict[str, float]:
    """Return bytes by what they are written for."""
    found = of_keys()
    found["digit"] = of_steps((80, 24), 22)
    found["step"] = of_steps((120, 40), 12)
    return found | {"fleet_s": of_fleet(seconds)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = figures(args.seconds)
    if args.json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<14}{figure:>10.0f} bytes")


if __name__ == "__main__":
    main()
