"""``backtest`` of a million rows, ``progress`` of a 100 MB log: whole programs, in seconds.

A backtest is also told beside what Python's own ``json`` takes for the same lines, in the same
minute on the same machine: that holds where another machine, or a busy one, is slower.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 1_000_000
LOG = 100 * 1024 * 1024
RATIO = 4.0
"""Times what ``json.loads`` alone takes that a backtest may take: 10 s where that is 2.5 s."""
LIMITS = {"backtest": 10.0, "progress": 75.0}
"""Seconds of processor time that each may take."""


def write_rows(path: Path) -> None:
    """Write a history whose loss falls, with figures of every metric."""
    with path.open("w") as file:
        for step in range(ROWS):
            loss, wave = 2 + 8 / (1 + step / 2000), step * 7919 % 1000 / 1000
            file.write(
                f'{{"step": {step}, "loss": {loss + wave / 20:.5f}, "grad_norm": {wave:.4f}, '
                f'"throughput": {5000 + 100 * wave:.2f}, "time": {1.7e9 + 3.1 * step:.2f}}}\n'
            )


def write_log(path: Path) -> None:
    """Write a log of lines that all tell progress, no two of them the same."""
    with path.open("w") as file:
        step = 0
        while file.tell() < LOG:
            at = f"16:{step // 60 % 60:02}:{step % 60:02}"
            file.write(f"INFO 2026-11-22 {at} step={step} loss={2 + step % 7919 / 7919:.4f}\n")
            step += 1


def seconds(*words: str) -> float:
    """Return the processor time that one call of the command line takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "cockpit", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plain(path: Path) -> float:
    """Return the processor time that reading every line as JSON takes."""
    before = time.process_time()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - before


def main() -> int:
    """Print what each takes; 1 if one takes longer than it may."""
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        rows, log = Path(name) / "rows.jsonl", Path(name) / "run.log"
        write_rows(rows)
        write_log(log)
        os.environ["XDG_STATE_HOME"] = name
        for verb, path in (("backtest", rows), ("progress", log)):
            taken = seconds(verb, str(path))
            print(f"{verb:10} {taken:6.1f} s  (limit {LIMITS[verb]:.0f} s)", flush=True)
            worst |= taken > LIMITS[verb]
            if verb == "backtest":
                times = taken / plain(rows)
                print(f"{'':10} {times:6.1f} times json alone  (limit {RATIO})", flush=True)
                worst |= times > RATIO
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
