"""A fleet to be watched, and what the benchmarks that watch one have in common.

``main`` measures a few runs beside many, each fleet watched by a process of its own (this module's
caller, begun again with ``--watch``), and prints a table, or JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.sources.wandb import writer  # noqa: E402

Figures = dict[str, float]
TRACKED: Final = 5
"""One run in so many has a W&B file."""
CADENCE: Final = 60.0
"""Seconds in which each run is looked at once."""
STEP: Final = 120.0
"""Seconds between two steps of a tracker: by it none stands still while it is measured."""


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
    began = time.time() - rows * STEP
    kept = folder / "kept"
    kept.mkdir()
    records = [writer.row(step, "2.5", began + step * STEP) for step in range(rows)]
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


def step_on(folder: Path) -> None:
    """Log one more step of each run of a fleet: for two cadences none stands still by its log."""
    for log in folder.glob("run-*/run.log"):
        with log.open("a") as file:
            file.write("step 200/10000 loss 2.5 lr 1e-4\n")


def status(name: str) -> int:
    """Return a figure of this process as the kernel tells it: kB, or a count."""
    text = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


def parser(doc: str | None, within: float) -> argparse.ArgumentParser:
    """Return what reads the options of a benchmark; ``within`` s are given for reading a fleet."""
    made = argparse.ArgumentParser(description=doc)
    made.add_argument("--runs", type=int, default=1000)
    made.add_argument("--rows", type=int, default=1000)
    made.add_argument("--within", type=float, default=within)
    made.add_argument("--json", action="store_true")
    made.add_argument("--watch", type=Path, help=argparse.SUPPRESS)
    return made


def watched(
    module: str, config: Path, options: Mapping[str, Sequence[object]], path: str | None = None
) -> Figures:
    """Return what ``module --watch`` finds of a fleet, in a process and a state folder of its own.

    ``path`` is searched for programs before all else.
    """
    folder = str(config.parent)
    env = {**os.environ, "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder}
    if path is not None:
        env["PATH"] = f"{path}:{os.environ['PATH']}"
    argv = [sys.executable, "-m", module, "--watch", str(config)]
    for name, words in options.items():
        argv += [name, *map(str, words)]
    done = subprocess.run(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def main(
    args: argparse.Namespace,
    few: int,
    names: Sequence[str],
    watch: Callable[[Path], Awaitable[Figures]],
    measured: Callable[[int], Figures],
) -> None:
    """Watch the fleet of ``--watch``, else measure ``few`` runs and ``--runs`` and print both."""
    if args.watch is not None:

        async def found_there() -> Figures:
            return await watch(args.watch)

        print(json.dumps(asyncio.run(found_there())))
        return
    found = {str(count): measured(count) for count in (few, args.runs)}
    if args.json:
        print(json.dumps(found))
        return
    ones, many = found[str(few)], found[str(args.runs)]
    print(f"{'':<14}{few:>8} runs{args.runs:>8} runs{'ratio':>9}")
    for name in names:
        ratio = f"{many[name] / ones[name]:8.1f}x" if ones[name] else "        –"
        print(f"{name:<14}{ones[name]:>13.2f}{many[name]:>13.2f}{ratio}")
