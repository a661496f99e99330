"""How soon a key is answered while a thousand runs are read in, against twelve that stand still.

The real program in a pseudo-terminal, its engine in a process of its own: ``j`` and ``k`` are
pressed, ten a second, and the time until the cursor stands elsewhere is taken. The ratios are
the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fleets import make_fleet  # noqa: E402
from tests.terminal_probe import Terminal  # noqa: E402

FIGURES: Final = ("median_ms", "p95_ms", "worst_ms", "leave_ms")
CURSOR: Final = "▸".encode()
EVERY: Final = 0.1
LOST: Final = 3.0
"""Seconds after which a key counts as not answered."""


def answered(terminal: Terminal, key: str) -> float:
    """Press a key; return the seconds until the cursor is drawn anew."""
    seen, began = len(terminal.output), time.perf_counter()
    terminal.type(key)
    while CURSOR not in terminal.output[seen:]:
        terminal.read(0.02)
        if time.perf_counter() - began > LOST:
            return LOST
    return time.perf_counter() - began


def pressed(folder: Path, count: int, keys: int, settle: float) -> dict[str, float]:
    """Open a fleet, press keys ``settle`` seconds after the first paint; return the figures."""
    config = make_fleet(folder, count, rows=2000)
    places = {"XDG_STATE_HOME": folder / "state", "XDG_RUNTIME_DIR": folder / "run"}
    for place in places.values():
        place.mkdir(mode=0o700)
    env = {name: str(place) for name, place in places.items()}
    env |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "TMUX": ""}
    argv = [sys.executable, str(ROOT / "run_cockpit.py"), "open", "--config", str(config)]
    terminal = Terminal(argv, env, (200, 50))
    terminal.wait_for("run-0000")
    terminal.idle(settle)
    took = []
    for number in range(keys):
        took.append(answered(terminal, "jk"[number % 2]))
        terminal.idle(max(0.0, EVERY - took[-1]))
    terminal.type("q")
    left = terminal.end()
    ranked = sorted(took)
    figures = (statistics.median(ranked), ranked[int(len(ranked) * 0.95)], ranked[-1], left)
    return dict(zip(FIGURES, (1000 * each for each in figures), strict=True))


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=150)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory(prefix="ck") as few:
        still = pressed(Path(few), 12, args.keys, settle=8.0)
    with tempfile.TemporaryDirectory(prefix="ck") as many:
        reading = pressed(Path(many), args.runs, args.keys, settle=1.0)
    if args.json:
        print(json.dumps({"still": still, "reading": reading}))
        return
    print(f"{'':<12}{'12, still':>12}{f'{args.runs}, read in':>16}{'ratio':>9}")
    for name in FIGURES:
        print(f"{name:<12}{still[name]:>12.1f}{reading[name]:>16.1f}"
              f"{reading[name] / still[name]:8.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
