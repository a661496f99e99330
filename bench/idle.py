"""What twelve live runs cost while nothing that is shown changes: bytes, processor, wake-ups.

Window and engine together, beside a bare Textual app that stands still in the same terminal. A
byte written in a second after which the screen reads as before is one too many.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.live import Pace, feeding, make_live
from bench.program import Program, bare, opened
from tests.emulator import Emulator

RUNS: Final = 12
SIZE: Final = (120, 40)
SETTLE: Final = 75.0
"""Seconds until every source has been asked twice: what changes only then is remembered then."""
FIRST_ROUND: Final = 10.0
"""Seconds in which no program has ended after which every source has been asked once."""
PATIENCE: Final = 120
"""Seconds for which that is waited for on a busy machine."""


def watched(program: Program, seconds: int) -> dict[str, float]:
    """Return what a program costs a second, for so many seconds."""
    before, began = program.cost(), time.perf_counter()
    terminal, total, vain = program.terminal, 0, 0
    screen = Emulator(*terminal.size)
    screen.feed(terminal.output)
    for _ in range(seconds):
        former, written = screen.seen(), terminal.idle(1.0)
        total += len(written)
        screen.feed(written)
        vain += len(written) if screen.seen() == former else 0
    after, passed = program.cost(), time.perf_counter() - began
    return {
        "bytes_s": total / passed,
        "vain_bytes": vain,
        "cpu_percent": 100 * (after.cpu - before.cpu) / passed,
        "wakeups_s": (after.wakeups - before.wakeups) / passed,
        "ended_faults": after.ended - before.ended,
        "rss_mib": after.rss / 2**20,
    }


def asked_once(program: Program) -> None:
    """Wait until the first round is over, in which git is asked: on a busy machine it begins late.

    So does the second, in which it is asked for the last time, and that may not be measured.
    """
    ended, quiet = -1, 0.0
    for _ in range(PATIENCE):
        former, ended = ended, program.cost().ended
        quiet = quiet + 1.0 if ended == former else 0.0
        if ended and quiet >= FIRST_ROUND:
            return
        program.terminal.idle(1.0)


def figures(seconds: int, settle: float, cadence: str = "15m") -> dict[str, float]:
    """Return the figures of the fleet, and those of the bare app as ``bare_…``."""
    with tempfile.TemporaryDirectory(prefix="ck") as name:
        folder, pace = Path(name), Pace(cadence=cadence)
        config = make_live(folder, RUNS, pace)
        with feeding(folder, RUNS, pace), opened(config, SIZE, "run-0000") as program:
            asked_once(program)
            program.terminal.idle(settle)
            found = watched(program, seconds)
    with tempfile.TemporaryDirectory(prefix="ck") as name, bare(Path(name), SIZE) as program:
        program.terminal.idle(3.0)
        still = watched(program, max(5, seconds // 4))
    return found | {f"bare_{key}": figure for key, figure in still.items()}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--settle", type=float, default=SETTLE)
    parser.add_argument("--cadence", default="15m")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = figures(args.seconds, args.settle, args.cadence)
    if args.json:
        print(json.dumps(found))
        return
    for key, figure in found.items():
        print(f"{key:<20}{figure:>10.2f}")


if __name__ == "__main__":
    main()
