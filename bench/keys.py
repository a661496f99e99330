"""How soon a key is answered beside 200 live runs, and while 1,000 are read in; a held key.

The 200 log 10,000 lines a second in all. From the key to the first byte that is written, beside a
bare Textual table that stands still on the same machine at the same time: they are pressed by
turns. Held: ``j`` thirty times a second for three seconds, read at 1 Mbit/s; how long after the
last one the screen still moves, with the 80 ms added that the line itself would take.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.fleets import make_fleet
from bench.live import ROWS, Pace, feeding, make_live, name_of
from bench.program import Program, bare, opened
from tests.terminal_probe import Terminal

RUNS: Final = 200
MANY: Final = 1000
"""Runs that are read in while keys are pressed."""
LINES: Final = 10_000
"""Lines a second, of all logs together."""
SIZE: Final = (200, 50)
EVERY: Final = 0.1
MIDDLE: Final = 20
"""Rows that the cursor is moved down before: at an end of the table, which a run that rises may
bring to it, a key moves nothing and no byte answers it.
"""
LOST: Final = 3.0
REPEAT: Final = 1 / 30
HELD: Final = 3.0
RATE: Final = 125_000
"""Bytes a second of a line of 1 Mbit/s."""
ROUND_TRIP: Final = 0.08
STILL: Final = 0.7
"""Seconds without a byte after which the screen stands still."""


def answered(terminal: Terminal, key: str) -> float:
    """Press a key; return the seconds until something is written."""
    while len(terminal.idle(0.01)):  # what was under way belongs to no key
        pass
    seen, began = len(terminal.output), time.perf_counter()
    terminal.type(key)
    while len(terminal.output) == seen:
        terminal.read(0.02)
        if time.perf_counter() - began > LOST:
            return LOST
    return time.perf_counter() - began


def latencies(programs: Sequence[Program], keys: int) -> list[dict[str, float]]:
    """Return p50 and p99 of the answers to ``keys`` keys of each program, in milliseconds.

    They are asked by turns: what the machine does at one moment concerns them alike, and a tail is
    a few keys.
    """
    taken: list[list[float]] = [[] for _ in programs]
    for program in programs:
        program.terminal.type("j" * MIDDLE)
        program.terminal.idle(EVERY)
    for number in range(keys):
        for program, own in zip(programs, taken, strict=True):
            own.append(answered(program.terminal, "jk"[number // 10 % 2]))
            program.terminal.idle(max(0.0, EVERY - own[-1]))
    return [
        {
            "p50_ms": 1000 * statistics.median(own),
            "p99_ms": 1000 * sorted(own)[int(keys * 0.99)],
        }
        for own in taken
    ]


def held(terminal: Terminal) -> float:
    """Hold a key; return the milliseconds until the screen stands still after the last one."""
    began = released = last = time.perf_counter()
    taken = pressed = 0
    while time.perf_counter() - last < STILL or released - began < HELD:
        now = time.perf_counter()
        if now - began < HELD and pressed <= (now - began) / REPEAT:
            terminal.type("jk"[pressed // 5 % 2])
            pressed, released = pressed + 1, time.perf_counter()
        if taken <= (now - began) * RATE:
            seen = len(terminal.output)
            terminal.read(REPEAT / 10)
            if len(terminal.output) > seen:
                taken, last = taken + len(terminal.output) - seen, time.perf_counter()
        else:
            time.sleep(REPEAT / 10)
        released = max(released, min(now, began + HELD))
    return 1000 * (max(0.0, last - released) + ROUND_TRIP)


def figures(runs: int, keys: int, settle: float) -> dict[str, float]:
    """Return the figures of the fleet and those of the bare table."""
    with tempfile.TemporaryDirectory(prefix="ck") as name, tempfile.TemporaryDirectory() as other:
        folder, pace = Path(name), Pace(lines_per_second=max(1, LINES // runs))
        config = make_live(folder, runs, pace)
        with (
            feeding(folder, runs, pace),
            bare(Path(other), SIZE) as plain,
            opened(config, SIZE, "run-0") as program,
        ):
            program.terminal.idle(settle)
            theirs, ours = latencies((plain, program), keys)
        found = {f"bare_{key}": each for key, each in theirs.items()} | ours
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        config = make_live(Path(name), 12, Pace())
        with feeding(Path(name), 12, Pace()), opened(config, SIZE, name_of(0)) as program:
            program.terminal.idle(10.0)
            found["held_ms"] = held(program.terminal)
    return found


def beside_many(runs: int, keys: int) -> dict[str, float]:
    """Return the figures of a fleet of many quiet runs that is read in meanwhile."""
    with tempfile.TemporaryDirectory(prefix="ck") as name, tempfile.TemporaryDirectory() as other:
        config = make_fleet(Path(name), runs, ROWS)
        with bare(Path(other), SIZE) as plain, opened(config, SIZE, name_of(0)) as program:
            theirs, ours = latencies((plain, program), keys)
    many = {f"many_{key}": each for key, each in ours.items()}
    return {f"many_bare_{key}": each for key, each in theirs.items()} | many


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--keys", type=int, default=400)
    parser.add_argument("--settle", type=float, default=25.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.pop("NO_COLOR", None)
    found = figures(args.runs, args.keys, args.settle) | beside_many(args.many, args.keys)
    if args.json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<14}{figure:>10.1f}")


if __name__ == "__main__":
    main()
