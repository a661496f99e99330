"""What a terminal pays: first paint, idle bytes, bytes a key, leaving; against a bare Textual app.

Both run in a pseudo-terminal of the same size in the same run; the cockpit shows a fleet that
stands still. The ratios are the result.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.terminal_probe import Terminal  # noqa: E402

BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    BINDINGS = [("q", "quit", "quit")]
    def compose(self):
        yield Static("run-failed", markup=False)
Bare().run(mouse=False)
"""
COCKPIT = [str(ROOT / "tests" / "terminal_app.py"), "well"]
FIGURES = ("paint_ms", "paint_bytes", "idle_bytes_s", "key_bytes", "leave_ms")


def once(argv: list[str], size: tuple[int, int], idle: float) -> dict[str, float]:
    """Return the figures of one program, started, looked at and left once."""
    with tempfile.TemporaryDirectory() as home:
        env = {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": home}
        began = time.perf_counter()
        terminal = Terminal([sys.executable, *argv], env | {"TMUX": ""}, size)
        terminal.wait_for("run-failed")
        painted = (time.perf_counter() - began) * 1000
        terminal.idle(2.0)
        first = len(terminal.output)
        quiet = len(terminal.idle(idle)) / idle
        terminal.type("j")
        key = len(terminal.idle(0.5))
        terminal.type("q")
        left = terminal.end() * 1000
    return dict(zip(FIGURES, (painted, first, quiet, key, left), strict=True))


def median(argv: list[str], size: tuple[int, int], runs: int, idle: float) -> dict[str, float]:
    """Return the medians of ``runs``."""
    rows = [once(argv, size, idle) for _ in range(runs)]
    return {name: statistics.median(row[name] for row in rows) for name in FIGURES}


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--idle", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.pop("NO_COLOR", None)
    found = {}
    for columns, rows in ((80, 24), (200, 50)):
        size = (columns, rows)
        bare = median(["-c", BARE], size, args.runs, args.idle)
        ours = median(COCKPIT, size, args.runs, args.idle)
        found[f"{columns}x{rows}"] = {"bare": bare, "cockpit": ours}
    if args.json:
        print(json.dumps(found))
        return
    print(f"{'':<10}{'':<14}{'bare Textual':>14}{'cockpit':>12}{'ratio':>9}")
    for size_name, pair in found.items():
        for name in FIGURES:
            bare_figure, figure = pair["bare"][name], pair["cockpit"][name]
            ratio = f"{figure / bare_figure:8.2f}x" if bare_figure else "        –"
            print(f"{size_name:<10}{name:<14}{bare_figure:>14.1f}{figure:>12.1f}{ratio}")


if __name__ == "__main__":
    main()
