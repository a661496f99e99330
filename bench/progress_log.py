"""``cockpit progress`` on large logs, as a ratio to reading the file and splitting it into lines.

``python -m bench.progress_log``. Logs of 90 % noise and of progress lines alone, of many trainers
at once; one of very short lines; one where every line has a shape of its own, which costs time but
no memory; one of nothing but progress lines of 24 bytes, whose last one is asked for (of the others
every entry is printed as JSON). Seconds are of one core (``process_time``), each beside its
baseline in the same run.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from bench.log_file import MIB, peak
from cockpit.text.progress_lines import forget
from cockpit.verbs.progress import run
from tests.text.test_progress_speed import NOISE, TRAINERS

SIZE = 100 * MIB
LIMITS = {
    "noise": 12.0, "short": 16.0, "steps": 70.0,
    "mixed": 40.0, "progress": 70.0, "strange": 4000.0,
}  # fmt: skip
"""How many times longer than reading and splitting each log may take."""
SHORT = ("ok", "step {0}", "batch done", "tick {0}", "lr 0.{0}", "-----", "")
"""Lines of some eight bytes, of which none tells of training: splitting alone costs most there."""
MOST_MEMORY = 60
"""MiB that reading any of them may add."""


def lines_of(kind: str, by: random.Random) -> Callable[[int], str]:
    """Return what makes the line of a number."""
    trainers = [shape for name, shape in TRAINERS.items() if name != "bar"]
    noise = list(NOISE.values())
    if kind == "steps":
        return lambda number: f"step {number:7} loss 2.{number % 7919:04}"
    if kind == "short":
        return lambda number: by.choice(SHORT).format(number)

    def line(number: int) -> str:
        told = kind == "progress" or (kind == "mixed" and number % 10 == 0)
        shape = trainers[number // 5000 % len(trainers)] if told else by.choice(noise)
        text = shape.format(number, number % 1000, number * 512)
        return f"{text} step {by.getrandbits(40):x}" if kind == "strange" else text

    return line


def write(path: Path, kind: str, size: int) -> None:
    """Write such a log."""
    line, written, number = lines_of(kind, random.Random(7)), 0, 0
    with path.open("w") as file:
        while written < size:
            written += file.write("".join(f"{line(number + at)}\n" for at in range(1000)))
            number += 1000


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of a core that ``work`` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def split(path: Path) -> None:
    """Read a file and split it, a chunk at a time: the baseline."""
    with path.open("rb") as file:
        while data := file.read(131_072):
            data.split(b"\n")


def measure(kind: str, size: int) -> tuple[float, float, float]:
    """Return the seconds of the baseline and of the verb, and the MiB that it has added."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        write(path, kind, size)
        base = min(seconds(lambda: split(path)) for _ in range(3))
        forget()
        before = peak()
        with Path("/dev/null").open("w") as out, redirect_stdout(out):
            took = seconds(lambda: run(Namespace(file=str(path), json=kind != "steps")))
        return base, took, peak() - before


def main() -> int:
    """Print the table; status 1 if a limit is not kept."""
    kept = True
    for kind, limit in LIMITS.items():
        size = SIZE // 20 if kind == "strange" else SIZE
        done = subprocess.run(
            [sys.executable, "-m", "bench.progress_log", kind, str(size)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        base, took, memory = (float(each) for each in done.stdout.split())
        kept &= took <= limit * base and memory <= MOST_MEMORY
        print(
            f"{kind:9}{size / MIB:>5.0f} MiB: {took:6.2f} s, split {base:5.2f} s,"
            f" x{took / base:5.1f} (at most x{limit:g}), {memory:.0f} MiB more"
        )
    return int(not kept)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*measure(sys.argv[1], int(sys.argv[2])))
        sys.exit(0)
    sys.exit(main())
