"""Hours of twelve runs that log every second, in minutes: what a watch and a UI hold stays flat.

Only in the long run (``SOAK=1``). ``ROWS`` a run are written at ``RATE`` a second, half of the
runs with a W&B file beside their log. By the first ``FULL`` every window of the rules and every
column of the charts is full; from there to the end nothing may grow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tmux import Tmux
from tests.sources.wandb import writer

pytestmark = [
    pytest.mark.tty,
    pytest.mark.skipif(not os.environ.get("SOAK"), reason="only in the long run: SOAK=1"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
ROOT = Path(__file__).resolve().parents[2]
RUNS, RATE, FULL = 12, 50, 6_000
ROWS = int(os.environ.get("ROWS", "20000"))
"""More than three hours at a row a second, by which it grew by 50 MB at least."""
MOST = 8 * 1024
"""KiB by which a process may differ: columns are halved and fill again."""
RUN = """
[[run]]
name = "r{n}"
final_step = 1000000
job = {{ kind = "local", log = "r{n}/run.log", pid_file = "pid" }}
"""


class Writer:
    """The trainer of all runs: this process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.step, self.began = folder, 0, time.time()
        runs = [RUN.format(n=n) for n in range(RUNS)]
        runs = [run + f'wandb = {{ dir = "r{n}" }}\n' * (n % 2) for n, run in enumerate(runs)]
        (folder / "cockpit.toml").write_text('[cockpit]\ncadence = "10s"\n' + "".join(runs))
        (folder / "pid").write_text(str(os.getpid()))
        self.sizes = {}
        for n in range(RUNS):
            (folder / f"r{n}").mkdir()
            if n % 2:
                first = writer.log([writer.run(f"abcd{n:04d}", self.began)])
                self.sizes[n] = self.file(n).write_bytes(first)

    def file(self, n: int) -> Path:
        return self.folder / f"r{n}" / f"run-abcd{n:04d}.wandb"

    def write(self) -> None:
        """Write what is due by now."""
        steps = range(self.step, int((time.time() - self.began) * RATE))
        self.step = max(self.step, steps.stop)
        lines = "".join(f"iter {k}: loss {2 + k % 7 / 10}, time 13ms\n" for k in steps)
        rows = [writer.row(k, f"{2 + k % 7 / 10}", self.began + k / RATE) for k in steps]
        for n in range(RUNS):
            with (self.folder / f"r{n}" / "run.log").open("a") as log:
                log.write(lines)
            if n in self.sizes:
                with self.file(n).open("ab") as file:
                    self.sizes[n] += file.write(writer.frame(rows, self.sizes[n]))


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[tuple[Writer, dict[str, int]]]:
    """Return a writer, and the processes of a watch and of a UI that look at its runs."""
    made = Writer(tmp_path)
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    config = ("--config", str(tmp_path / "cockpit.toml"))
    said = (tmp_path / "said").open("w")
    watch = subprocess.Popen(
        [sys.executable, "-m", "cockpit", "watch", *config], env={**os.environ, **env}, stdout=said
    )
    tmux = Tmux(tmp_path, (120, 40), env)
    try:
        tmux.ready()
        tmux.run(sys.executable, "-m", "cockpit", "open", *config)
        tmux.see(f"{RUNS} runs", "r0")
        shell = tmux.pids[0]
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        yield made, {"watch": watch.pid, "ui": int(children[-1])}
    finally:
        watch.terminate()
        watch.wait(30)
        tmux.end()
        said.close()


def resident(pid: int) -> int:
    """Return a process's resident memory in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_memory_is_flat(trained: tuple[Writer, dict[str, int]]) -> None:
    made, pids = trained
    full: dict[str, int] = {}
    while made.step < ROWS:
        made.write()
        if made.step >= FULL and not full:
            full = {name: resident(pid) for name, pid in pids.items()}
        time.sleep(0.2)
    grown = {name: resident(pid) - full[name] for name, pid in pids.items()}
    assert all(more < MOST for more in grown.values()), (grown, full)
