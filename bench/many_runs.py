"""What a fleet costs its engine: a thousand runs against twelve, both read in during this run.

Each fleet is watched in a process of its own from an empty store until every run has been read:
logs, checkpoints, process tables and, of one run in five, a W&B file. A probe on the event loop
measures by how much it is late; the kernel's counters tell memory, threads and wake-ups.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.sources.wandb import writer  # noqa: E402

FIGURES = ("first_s", "visible_s", "read_s", "lag_ms", "over_50_ms", "rss_mb", "threads",
           "wakeups_s", "cpu_s", "idle_cpu", "cadence_cpu_s")  # fmt: skip
FEW = 12
SCREEN = 30
"""Runs at the end of the run file that stand on the screen."""
TRACKED = 5
"""One run in so many has a W&B file."""
TICK = 0.005
IDLE = 5.0
CADENCE = 60.0
"""Seconds in which each run is looked at once."""


def make_fleet(
    folder: Path,
    count: int,
    rows: int,
    places: Sequence[str | None] = (None,),
    pid: int | None = None,
) -> Path:
    """Write a run file and the files of ``count`` runs; return the run file.

    The runs take turns at ``places``: ssh hosts, ``None`` for this machine, which all of them are.
    ``pid`` is the process of them all; none: this one.
    """
    began = time.time() - rows
    kept = folder / "kept"
    kept.mkdir()
    records = [writer.row(step, "2.5", began + step) for step in range(rows)]
    (kept / "run-x.wandb").write_bytes(writer.log([writer.run("x", began), *records]))
    (kept / "run.log").write_text(
        "".join(f"step {step}/{10 * rows} loss 2.5 lr 1e-4\n" for step in range(200))
    )
    (kept / "run.pid").write_text(f"{pid or os.getpid()}\n")
    lines = ['[cockpit]\ncadence = "60s"\noperator = "ada"\n']
    for number in range(count):
        host = places[number % len(places)]
        tracked = number // len(places) % TRACKED == 0
        lines.append(_run(folder, kept, f"run-{number:04d}", host, tracked=tracked))
    config = folder / "cockpit.toml"
    config.write_text("\n".join(lines))
    return config


def _run(folder: Path, kept: Path, name: str, host: str | None, tracked: bool) -> str:
    home = folder / name
    (home / "checkpoints" / "step-100").mkdir(parents=True)
    (home / "checkpoints" / "step-100" / "metadata.json").write_text('{"step": 100}')
    (home / "checkpoints" / "step-100" / "weights").write_bytes(bytes(64))
    shutil.copy(kept / "run.log", home / "run.log")
    shutil.copy(kept / "run.pid", home / "run.pid")
    text = f'[[run]]\nname = "{name}"\ntier = "ordinary"\ndri = "ada"\nfinal_step = 10000\n'
    kind = 'kind = "local"' if host is None else f'kind = "box", host = "{host}"'
    there = home if host is None else f"ssh://{host}{home}"
    text += f'job = {{ {kind}, log = "{home}/run.log", pid_file = "{home}/run.pid" }}\n'
    text += f'checkpoints = {{ path = "{there}/checkpoints", layout = "levanter" }}\n'
    if tracked:
        fragment = home / "wandb" / "offline-run-20260101_000000-x"
        fragment.mkdir(parents=True)
        shutil.copy(kept / "run-x.wandb", fragment / "run-x.wandb")
        text += f'wandb = {{ dir = "{there}/wandb/offline-run-20260101_000000-x" }}\n'
    return text


def status(name: str) -> int:
    """Return a figure of this process as the kernel tells it: kB, or a count."""
    text = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


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


async def watch(config: Path, within: float, idle: float) -> dict[str, float]:
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


def measured(count: int, rows: int, within: float, idle: float) -> dict[str, float]:
    """Return the figures of a fleet of ``count`` runs, watched in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        config = make_fleet(Path(name), count, rows)
        env = {**os.environ, "XDG_STATE_HOME": name, "XDG_RUNTIME_DIR": name}
        argv = [sys.executable, "-m", "bench.many_runs", "--watch", str(config)]
        done = subprocess.run(
            [*argv, "--within", str(within), "--idle", str(idle)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            check=True,
        )
        found: dict[str, float] = json.loads(done.stdout)
        return found


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--within", type=float, default=180.0)
    parser.add_argument("--idle", type=float, default=IDLE, help="seconds watched once all is read")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--watch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.watch is not None:
        print(json.dumps(asyncio.run(watch(args.watch, args.within, args.idle))))
        return
    found = {str(n): measured(n, args.rows, args.within, args.idle) for n in (FEW, args.runs)}
    if args.json:
        print(json.dumps(found))
        return
    few, many = found[str(FEW)], found[str(args.runs)]
    print(f"{'':<12}{FEW:>8} runs{args.runs:>8} runs{'ratio':>9}")
    for name in FIGURES:
        ratio = f"{many[name] / few[name]:8.1f}x" if few[name] else "        –"
        print(f"{name:<12}{few[name]:>13.2f}{many[name]:>13.2f}{ratio}")


if __name__ == "__main__":
    main()
