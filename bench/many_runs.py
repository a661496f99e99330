"""What a fleet costs its engine: a thousand runs against twelve, both read in during this run.

Each fleet is watched in a process of its own from an empty store until every run has been read:
logs, checkpoints, process tables and, of one run in five, a W&B file. A probe on the event loop
measures by how much it is late; the kernel's counters tell memory, threads and wake-ups.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
import time
from pathlib import Path

from bench import fleets
from bench.fleets import CADENCE, Figures, make_fleet, status

FIGURES = ("first_s", "visible_s", "read_s", "lag_ms", "over_50_ms", "rss_mb", "threads",
           "wakeups_s", "cpu_s", "idle_cpu", "cadence_cpu_s")  # fmt: skip
FEW = 12
SCREEN = 30
"""Runs at the end of the run file that stand on the screen."""
TICK = 0.005
IDLE = 5.0


def _switches() -> int:
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt"):
                    total += int(line.split()[1])
    return total


async def _probe(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - due)


async def watch(config: Path, *, within: float, idle: float) -> Figures:
    """Watch a fleet until it is read (or ``within`` seconds); return the figures."""
    from cockpit.config.file import load
    from cockpit.model.clock import SystemClock
    from cockpit.store.store import Store
    from cockpit.watch.engine import Engine

    file = load(config)
    engine = Engine(file, store=Store(config.parent / "store.sqlite"), clock=SystemClock())
    screen = {run.name for run in file.runs[-SCREEN:]}
    prefer = getattr(engine, "prefer", None)
    if prefer is not None:
        prefer(sorted(screen))
    late: list[float] = []
    began, found = time.perf_counter(), dict.fromkeys(FIGURES, float("inf"))
    watching, probing = asyncio.create_task(engine.run()), asyncio.create_task(_probe(late))
    threads, end = 0, time.perf_counter() + within
    while time.perf_counter() < end and found["read_s"] == float("inf"):
        await asyncio.sleep(0.2)
        states = list(engine._fleet.states.values())
        read = {s.spec.name for s in states if s.report and s.rows_read and s.looked_at_all}
        seen = time.perf_counter() - began
        for name, done in (("first_s", bool(read)), ("visible_s", screen <= read),
                           ("read_s", len(read) == len(states))):  # fmt: skip
            found[name] = min(found[name], seen) if done else found[name]
        threads = max(threads, status("Threads:"))
    spent, switches = time.perf_counter() - began, _switches()
    found |= {"lag_ms": max(late) * 1000, "over_50_ms": sum(each > 0.05 for each in late)}
    found |= {"rss_mb": status("VmHWM:") / 1024, "threads": threads}
    found |= {"wakeups_s": switches / spent, "cpu_s": time.process_time()}
    probing.cancel()  # it wakes 200 times a second: no part of what an engine costs
    before = time.process_time()
    await asyncio.sleep(idle)
    found["idle_cpu"] = (time.process_time() - before) / idle
    found["cadence_cpu_s"] = CADENCE * found["idle_cpu"]
    for task in (watching, probing):
        task.cancel()
    await asyncio.gather(watching, probing, return_exceptions=True)
    return found


def measured(count: int, *, rows: int, within: float, idle: float) -> Figures:
    """Return the figures of a fleet of ``count`` runs, watched in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        config = make_fleet(Path(name), count, rows)
        options = {"--within": (within,), "--idle": (idle,)}
        return fleets.watched("bench.many_runs", config, options)


def main() -> None:
    """Print the table, or JSON."""
    parser = fleets.parser(__doc__, 180.0)
    parser.add_argument("--idle", type=float, default=IDLE, help="seconds watched once all is read")
    args = parser.parse_args()
    watching = functools.partial(watch, within=args.within, idle=args.idle)
    measuring = functools.partial(measured, rows=args.rows, within=args.within, idle=args.idle)
    fleets.main(args, FEW, FIGURES, watching, measuring)


if __name__ == "__main__":
    main()
