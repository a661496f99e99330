"""A log of 1 GB beside one of 1 MB: tail, page back, follow; time and memory, as ratios."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.follow import Follower
from cockpit.sources.logs.pieces import LocalLog

MIB = 1024 * 1024
SIZES = {"1 MB": MIB, "1 GB": 1024 * MIB}
LIMIT = 3.0
"""A big file may cost this many times what a small one does (noise of a shared machine)."""
ROUNDS = 15


def write_log(path: Path, size: int) -> None:
    """Write a log of ``size`` bytes quickly: one block of lines, again and again."""
    lines = (f"2026-11-21 08:06:59 step={n} loss={2 + n / 7919:.4f}" for n in range(20_000))
    block = ("\n".join(lines) + "\n").encode()[: MIB - 1].rpartition(b"\n")[0] + b"\n"
    with path.open("wb") as file:
        for _ in range(max(1, size // len(block))):
            file.write(block)


def measure(path: Path) -> dict[str, float]:
    """Return milliseconds by operation, and the MiB of memory that they took together."""
    log = LogFile(LocalLog(path))
    before = peak()
    end = log.tail(1).end
    times = {
        "tail 200": median_ms(lambda: log.tail(200)),
        "page back": median_ms(lambda: log.page(end // 2, 200, back=True)),
        "page forward": median_ms(lambda: log.page(end // 2, 200)),
        "first follow": median_ms(lambda: Follower(LocalLog(path)).look(50)),
    }
    times["memory"] = peak() - before
    return times


def median_ms(work: Callable[[], object]) -> float:
    """Return the median of some rounds of ``work``, in milliseconds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def peak() -> float:
    """Return the most memory that this program has had, in MiB.

    Linux carries ``ru_maxrss`` over from the parent, so its own figure is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


def search_rate(path: Path) -> float:
    """Return how many MiB a second a search for what is not there goes through."""
    start = time.perf_counter()
    LogFile(LocalLog(path)).search("no such text", 0, budget_s=600.0)
    return path.stat().st_size / MIB / (time.perf_counter() - start)


def in_fresh_process(path: Path) -> dict[str, float]:
    """Measure in a process of its own, so that memory figures stay apart."""
    argv = [sys.executable, "-m", "bench.log_file", str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return {
        key: float(value) for key, _, value in (x.partition("\t") for x in done.stdout.splitlines())
    }


def main() -> int:
    """Print the table; status 1 if the big file costs much more than the small one."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, size in SIZES.items():
            path = Path(folder) / "run.log"
            write_log(path, size)
            found[name] = in_fresh_process(path)
        rate = search_rate(path)
    small, big = found.values()
    if "--json" in sys.argv:
        ratios = {what: big[what] / max(small[what], 0.5) for what in small}
        print(json.dumps({"ratio": max(ratios.values()), "by": ratios, "search_mib_s": rate}))
        return 0
    worst = 0.0
    for what in small:
        ratio = big[what] / max(small[what], 0.5)
        worst = max(worst, ratio)
        unit = "MiB" if what == "memory" else "ms"
        print(f"{what:14} {small[what]:8.2f} {unit:3} {big[what]:8.2f} {unit:3}  x{ratio:.2f}")
    print(f"search {rate:,.0f} MiB/s")
    print(f"worst ratio 1 GB / 1 MB: x{worst:.2f} (at most x{LIMIT:g})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] != "--json":
        for key, value in measure(Path(sys.argv[1])).items():
            print(f"{key}\t{value}")
        sys.exit(0)
    sys.exit(main())
