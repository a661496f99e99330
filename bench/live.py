"""A fleet of live runs at a fixed pace: a process for each, and one feeder that writes for all.

``python -m bench.live FOLDER COUNT STEP_EVERY LINES_PER_SECOND`` is the feeder; it ends with its
standard input, and takes the runs' processes along.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.sources.wandb import writer

ROOT: Final = Path(__file__).resolve().parent.parent
NOISE: Final = b"INFO worker 7: prefetched shard 0231, queue 17 of 64, 3.1 ms\n"
ROWS: Final = 300
"""Steps that each run has behind it when it is first seen."""
TICK: Final = 0.05


class Pace(NamedTuple):
    """How fast runs go: seconds between two steps (0: none), lines a second in each log."""

    step_every: float = 0.0
    lines_per_second: int = 0
    cadence: str = "15m"


def name_of(number: int) -> str:
    """Return the name of a run by its place in the run file."""
    return f"run-{number:04d}"


def make_live(folder: Path, count: int, pace: Pace) -> Path:
    """Write a run file and the files of ``count`` runs, their code and logbooks in one checkout."""
    began = time.time() - ROWS
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n")
    lines = [f'[cockpit]\ncadence = "{pace.cadence}"\noperator = "ada"\n']
    for number in range(count):
        name = name_of(number)
        (code / f"{name}.md").write_text(f"# Run: {name}\n\n## Event Log\n")
        lines.append(_run(folder, name, began))
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *who, *words], cwd=code, check=True)
    config = folder / "cockpit.toml"
    config.write_text("\n".join(lines))
    return config


def _run(folder: Path, name: str, began: float) -> str:
    home = folder / name
    fragment = home / "wandb" / "offline-run-20260101_000000-x"
    for place in (home / "checkpoints" / "step-100", fragment):
        place.mkdir(parents=True)
    (home / "checkpoints" / "step-100" / "metadata.json").write_text('{"step": 100}')
    (home / "checkpoints" / "step-100" / "weights").write_bytes(bytes(64))
    rows = [writer.row(step, "2.5", began + step) for step in range(ROWS)]
    (fragment / "run-x.wandb").write_bytes(writer.log([writer.run("x", began), *rows]))
    (home / "run.log").write_text("".join(_line(step) for step in range(ROWS)))
    return (
        f'[[run]]\nname = "{name}"\ntier = "ordinary"\ndri = "ada"\nfinal_step = 100000\n'
        f'job = {{ kind = "local", log = "{name}/run.log", pid_file = "{name}/run.pid" }}\n'
        f'checkpoints = {{ path = "{name}/checkpoints", layout = "levanter" }}\n'
        f'wandb = {{ dir = "{name}/wandb/offline-run-20260101_000000-x" }}\n'
        f'code = {{ repo = "code" }}\nrecords = {{ logbook = "code/{name}.md" }}\n'
    )


def _line(step: int) -> str:
    return f"step {step}/100000 loss {2 + 1 / (step + 1):.4f} lr 1e-4\n"


@contextlib.contextmanager
def feeding(folder: Path, count: int, pace: Pace) -> Iterator[None]:
    """Have the runs of a folder live, and step at their pace, until the block is left."""
    argv = [sys.executable, "-m", "bench.live", str(folder), str(count)]
    argv += [str(pace.step_every), str(pace.lines_per_second)]
    feeder = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert feeder.stdin is not None and feeder.stdout is not None
    try:
        feeder.stdout.readline()  # all runs have begun
        yield
    finally:
        feeder.stdin.close()
        feeder.wait()


def stepped(folder: Path, count: int, step: int) -> None:
    """Have the first ``count`` runs of a folder make one step."""
    for number in range(count):
        home = folder / name_of(number)
        with (home / "run.log").open("ab") as log:
            log.write(_line(step).encode())
        with next(home.glob("wandb/*/*.wandb")).open("ab") as file:
            file.write(writer.frame([writer.row(step, "2.4", time.time())], file.tell()))


def feed(folder: Path, count: int, pace: Pace) -> None:
    """Start the runs' processes and write their logs and rows until standard input ends."""
    homes = [folder / name_of(number) for number in range(count)]
    runs = []
    for home in homes:
        with (home / "run.log").open("ab") as log:  # it has its log open, as a training has
            runs.append(subprocess.Popen(["sleep", "1000000"], stdout=log, stderr=log))
    try:
        for home, run in zip(homes, runs, strict=True):
            (home / "run.pid").write_text(f"{run.pid}\n")
        print("begun", flush=True)
        _write(homes, pace)
    finally:
        for run in runs:
            run.kill()
            run.wait()


def _write(homes: list[Path], pace: Pace) -> None:
    """Write until standard input ends; what each run wrote so far follows from the time alone."""
    logs = [(home / "run.log").open("ab", buffering=0) for home in homes]
    files = [next(home.glob("wandb/*/*.wandb")).open("ab", buffering=0) for home in homes]
    began, steps, lines = time.monotonic(), 0, 0
    while not select.select([sys.stdin], [], [], TICK)[0]:
        passed = time.monotonic() - began
        due = int(passed / pace.step_every) if pace.step_every else 0
        more = int(passed * pace.lines_per_second) - lines
        for log, file in zip(logs, files, strict=True):
            if more:
                log.write(NOISE * more)
            for step in range(ROWS + steps, ROWS + due):
                log.write(_line(step).encode())
                file.write(writer.frame([writer.row(step, "2.4", time.time())], file.tell()))
        steps, lines = due, lines + more


if __name__ == "__main__":
    feed(Path(sys.argv[1]), int(sys.argv[2]), Pace(float(sys.argv[3]), int(sys.argv[4])))
