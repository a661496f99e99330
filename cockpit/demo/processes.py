"""The processes of a demo, by their pid files: which live, and how they are stopped.

Never by a program's name. A process counts only if it started when its pid file says, so that a
reused id is left alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cockpit.hosts.notes import start_ticks, started_at
from cockpit.runtime.process import process_facts

SLACK = 5.0
"""Seconds by which a noted start may differ from the kernel's."""
LOOK = 0.05
WRITE_WAIT = 1.0
"""Seconds that a supervisor is given to note the exit status of a process that has ended."""


@dataclass(frozen=True)
class Noted:
    """A process that a pid file names: its id, its start (epoch seconds) and its launch id.

    ``ticks`` is its start in ticks since boot, which decides where the pid file has it.
    """

    pid: int
    start: float
    launch_id: str | None
    pid_file: Path
    ticks: int | None = None

    @property
    def exit_file(self) -> Path:
        """Where its supervisor notes the exit status: ``run.exit`` beside ``run.pid``."""
        return self.pid_file.with_suffix(".exit")

    @property
    def alive(self) -> bool:
        """True while that very process runs (a zombie has ended)."""
        if process_facts(self.pid).zombie or not _is_leader(self.pid):
            return False
        if self.ticks is not None:
            return start_ticks(self.pid) in (None, self.ticks)
        began = started_at(self.pid)
        return began is None or abs(began - self.start) <= SLACK


def noted(pid_file: Path) -> Noted | None:
    """Return what a pid file says, or ``None`` if there is none that can be read."""
    try:
        first, *rest = pid_file.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split("=", 1) for line in rest)
        ticks = int(fields["ticks"]) if "ticks" in fields else None
        return Noted(int(first), float(fields["start"]), fields.get("launch_id"), pid_file, ticks)
    except (OSError, ValueError, KeyError):
        return None


def living(pid_files: Iterable[Path]) -> list[Noted]:
    """Return the processes that still run."""
    found = (noted(path) for path in pid_files)
    return [process for process in found if process is not None and process.alive]


def stop(find: Callable[[], list[Noted]], patience: float, settle: float = 0.0) -> None:
    """Stop every process that ``find`` returns: SIGTERM, and after ``patience`` s SIGKILL.

    Each is signalled as a group. It is looked for again until there has been none for
    ``settle`` s, so that one that was just being started does not slip through.
    """
    seen: dict[int, Noted] = {}
    now = time.monotonic()
    deadline, quiet_since = now + patience, now
    while (found := find()) or now - quiet_since < settle:
        for process in found:
            if now >= deadline or process.pid not in seen:
                kill(process, signal.SIGKILL if now >= deadline else signal.SIGTERM)
            seen[process.pid] = process
            quiet_since = now
        time.sleep(LOOK)
        now = time.monotonic()
    until = time.monotonic() + WRITE_WAIT
    for process in seen.values():
        while not process.exit_file.exists() and time.monotonic() < until:
            time.sleep(LOOK / 5)


def kill(process: Noted, number: int) -> None:
    """Send a signal to a process and its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _is_leader(pid: int) -> bool:
    """Tell whether ``pid`` leads a process group, as everything does that is started detached."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False
