"""A log of 10,000 lines a second: reading progress, and searching what is skipped, as ratios.

``python -m bench.fast_log``. Each is measured beside its baseline in the same run: a line that
tells nothing beside the same line parsed, a look at 1 GB of new lines beside one at 1 MB. The
search for alarming lines has a rate to keep.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.log_file import MIB, peak
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.rules.triage.classify import alarms_in
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.stamp import read_rows
from cockpit.text.progress import read_progress
from tests.text.test_progress_speed import NOISE, TRAINERS, lines_of

LINES = 20_000
ROUNDS = 5
SLOWEST = 200.0
"""MB/s at which what is skipped must be searched at least, whatever trainer wrote it."""
NOISE_RATIO = 10.0
"""How many times cheaper a line must be that tells nothing than the same line parsed."""
LOOK_RATIO = 25.0
"""How many times more a look at 1 GB of new lines may take than one at 1 MB: both are bounded."""


def best(work: Callable[[], object]) -> float:
    """Return the seconds of a core that ``work`` takes at its best."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return max(min(taken), 1e-6)


def reading(shape: str) -> tuple[float, float, float]:
    """Return lines/s read, lines/s parsed at the full price, and MB/s searched for alarms."""
    lines = [part for line in lines_of(shape, LINES) for part in line.splitlines() if part]
    states = [line.encode() for line in lines]
    few = lines[: LINES // 10]
    data = b"\n".join(states)
    read = best(lambda: read_rows(states, 1.8e9, None, utc=False))
    full = best(lambda: [read_progress(line) for line in few])
    return len(lines) / read, len(few) / full, len(data) / best(lambda: alarms_in(data)) / 1e6


def compare() -> bool:
    """Print the table of shapes; True when every limit is kept."""
    print(f"{'':10}{'read':>14}{'parsed':>14}{'ratio':>8}{'searched':>12}")
    kept = True
    for name, shape in {**TRAINERS, **NOISE}.items():
        read, parsed, rate = reading(shape)
        kept &= rate >= SLOWEST and (name in TRAINERS or read / parsed >= NOISE_RATIO)
        print(
            f"{name:10}{read:>10,.0f} l/s{parsed:>10,.0f} l/s"
            f"{read / parsed:>8.1f}{rate:>7,.0f} MB/s"
        )
    return kept


async def looks(path: Path, size: int) -> tuple[float, float, LogValue | None]:
    """Return the seconds and MiB of a look at ``size`` bytes that were written since the last."""
    block = "".join(f"{line}\n" for line in lines_of(TRAINERS["nanogpt"])).encode()
    path.write_bytes(block)  # noqa: ASYNC240 - a benchmark
    logs = Logs(SystemClock(), alarms_in)
    query = Query(run=RunSpec(name="r", job=JobSpec(kind="local", log=str(path))))
    await logs.observe([query])
    with path.open("ab") as file:
        for _ in range(size // len(block)):
            file.write(block)
    before, start = peak(), time.perf_counter()
    facet = (await logs.observe([query]))["r"]
    return time.perf_counter() - start, peak() - before, facet.value


def in_fresh_process(size: int) -> list[float]:
    """Measure one look in a process of its own, so that memory figures stay apart."""
    argv = [sys.executable, "-m", "bench.fast_log", str(size)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [float(each) for each in done.stdout.split()]


def main() -> int:
    """Print both tables; status 1 if a limit is not kept."""
    kept = compare()
    small, large = in_fresh_process(MIB), in_fresh_process(1024 * MIB)
    for name, (seconds, memory, skipped) in (("1 MB", small), ("1 GB", large)):
        left = f"{skipped / 1e6:.1f} MB skipped"
        print(f"look at {name}: {seconds:.2f} s, {memory:.0f} MiB more, {left}")
    ratio = large[0] / max(small[0], 0.01)
    print(f"ratio of the looks x{ratio:.1f} (at most x{LOOK_RATIO:g})")
    return int(not kept or ratio > LOOK_RATIO)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            took, more, value = asyncio.run(looks(Path(folder) / "log", int(sys.argv[1])))
        print(took, more, value.skipped.bytes if value is not None and value.skipped else 0)
        sys.exit(0)
    sys.exit(main())
