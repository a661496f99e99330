"""The real program in a pseudo-terminal: what it writes, and what all its processes cost.

Linux only: it reads ``/proc``. The processes are found by their state folder, which is their own,
so that the engine counts that a window has started.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from bench.live import ROOT
from tests.terminal_probe import Terminal

TICKS: Final = os.sysconf("SC_CLK_TCK")
BARE: Final = """
from textual.app import App
from textual.widgets import DataTable
class Bare(App):
    BINDINGS = [("q", "quit", "quit"), ("j", "down", "down"), ("k", "up", "up")]
    ENABLE_COMMAND_PALETTE = False
    def compose(self):
        yield DataTable(cursor_type="row")
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("run", "step", "loss")
        table.add_rows((f"run-{n:04d}", str(1000 + n), "2.5") for n in range(200))
    def action_down(self):
        self.query_one(DataTable).action_cursor_down()
    def action_up(self):
        self.query_one(DataTable).action_cursor_up()
Bare().run(mouse=False)
"""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Cost(NamedTuple):
    """What processes have used so far: CPU (s), wake-ups, page faults of processes that ended.

    Whatever was started and waited for has had page faults: none means that none was started.
    """

    cpu: float = 0.0
    wakeups: int = 0
    ended: int = 0
    rss: int = 0
    descriptors: int = 0
    threads: int = 0


class Program:
    """A program on a terminal of its own, its state in folders of its own."""

    def __init__(self, argv: Sequence[str], folder: Path, size: tuple[int, int]) -> None:
        self.folder = folder
        env = environment(folder)
        self.began = time.perf_counter()
        self.terminal = Terminal(argv, env, size)

    def processes(self) -> list[Path]:
        """Return the ``/proc`` folders of window, engine and whatever they have started."""
        mark = f"XDG_STATE_HOME={self.folder / 'state'}\0".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes():
                        found.append(folder)
        return found

    def cost(self) -> Cost:
        """Return what all of them together have used so far."""
        each = [cost_of(folder) for folder in self.processes()]
        return Cost(*map(sum, zip(*each, strict=True))) if each else Cost()

    def leave(self) -> float:
        """Press ``q``; return the seconds until the window is gone."""
        self.terminal.type("q")
        return self.terminal.end()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a program that keeps its state below a folder; makes both."""
    places = {"XDG_STATE_HOME": folder / "state", "XDG_RUNTIME_DIR": folder / "run"}
    for place in places.values():
        place.mkdir(mode=0o700, exist_ok=True)
    env = {name: str(place) for name, place in places.items()}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
    return env | {"PYTHONPATH": str(ROOT), "TMUX": ""}


def cost_of(folder: Path) -> Cost:
    """Return what a process (its folder in ``/proc``) has used; nothing of one that is gone."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        ended = int(fields[8]) + int(fields[10])  # cminflt, cmajflt
        cpu = sum(map(int, fields[11:15])) / TICKS
        rss = int((folder / "statm").read_text().split()[1]) * PAGE
        descriptors = len(list((folder / "fd").iterdir()))
        return Cost(cpu, sum(_switches(folder)), ended, rss, descriptors, int(fields[17]))
    except OSError:
        return Cost()


def _switches(folder: Path) -> Iterator[int]:
    for task in (folder / "task").iterdir():
        with contextlib.suppress(OSError):
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    yield int(line.split()[1])


def cockpit(*words: str) -> list[str]:
    """Return the command line of the cockpit as it lies here."""
    return [sys.executable, str(ROOT / "run_cockpit.py"), *words]


@contextlib.contextmanager
def running(
    argv: Sequence[str], folder: Path, size: tuple[int, int], first: str
) -> Iterator[Program]:
    """Start a program, wait for ``first`` on the screen, and leave it in the end with ``q``."""
    program = Program(argv, folder, size)
    try:
        program.terminal.wait_for(first)
        yield program
    finally:
        if program.terminal.status is None:
            program.leave()


def opened(config: Path, size: tuple[int, int], first: str) -> AbstractContextManager[Program]:
    """Open a run file."""
    return running(cockpit("open", "--config", str(config)), config.parent, size, first)


def bare(folder: Path, size: tuple[int, int]) -> AbstractContextManager[Program]:
    """Open a bare Textual app with a table of 200 lines: what everything is held against."""
    return running([sys.executable, "-c", BARE], folder, size, "run-0000")
