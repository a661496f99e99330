"""Where everything of a demo lies, below one folder, and the lock on that folder.

Standard library only: the guard uses it.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cockpit.demo.processes import Noted, living
from cockpit.hosts.notes import launches_folder


@dataclass(frozen=True)
class RunPlaces:
    """The files of one run."""

    folder: Path

    @property
    def config(self) -> Path:
        """The config of the training."""
        return self.folder / "config.json"

    @property
    def log(self) -> Path:
        """The job's own log."""
        return self.folder / "run.log"

    @property
    def pid_file(self) -> Path:
        """Names the training's process."""
        return self.folder / "run.pid"

    @property
    def exit_file(self) -> Path:
        """Holds the exit status once there is one."""
        return self.folder / "run.exit"

    @property
    def roots(self) -> tuple[Path, Path]:
        """The permanent and the temporary checkpoint root."""
        return self.folder / "checkpoints", self.folder / "checkpoints-temp"

    @property
    def launches(self) -> Path:
        """Where it is noted which launch ids have been used."""
        return launches_folder(self.folder, self.pid_file)

    @property
    def scratch(self) -> Path:
        """Where the monitor keeps its state file."""
        return self.folder / "scratch"


@dataclass(frozen=True)
class DemoLayout:
    """The demo's folder."""

    folder: Path

    @property
    def run_file(self) -> Path:
        """The fleet's ``cockpit.toml``."""
        return self.folder / "cockpit.toml"

    @property
    def marker(self) -> Path:
        """Says that this folder was made by a demo, and may be removed by one."""
        return self.folder / ".made-by-cockpit-demo"

    @property
    def lock(self) -> Path:
        """Locked while a demo is at work here."""
        return self.folder / ".demo.lock"

    @property
    def guarded(self) -> Path:
        """Locked while a guard waits beside a demo, or stops what it has left."""
        return self.folder / ".guard.lock"

    @property
    def kept(self) -> Path:
        """There when a demo has left its processes running."""
        return self.folder / ".kept"

    @property
    def away(self) -> Path:
        """The journal of a demo on another system: which one, and what was submitted there."""
        return self.folder / "away.json"

    @property
    def code(self) -> Path:
        """The git repository that the trainings run from."""
        return self.folder / "code"

    @property
    def records(self) -> Path:
        """The git repository of the logbooks."""
        return self.folder / "records"

    @property
    def remotes(self) -> Path:
        """The bare repositories that the other two push to."""
        return self.folder / "remotes"

    @property
    def monitors(self) -> Path:
        """Logs and pid files of the monitors."""
        return self.folder / "monitors"

    def run(self, name: str) -> RunPlaces:
        """Return the places of one run."""
        return RunPlaces(self.folder / "runs" / name)

    @property
    def logbooks(self) -> Path:
        """The folder of the logbooks."""
        return self.records / ".agents" / "logbooks"

    def logbook(self, name: str) -> Path:
        """Return a run's logbook."""
        return self.logbooks / f"{name}.md"

    def living(self) -> list[Noted]:
        """Return every process that the pid files in here name and that still runs."""
        runs = self.folder.glob("runs/*/run.pid")
        return living([*self.monitors.glob("*.pid"), *runs])


class DemoBusyError(Exception):
    """Another demo is at work in the folder; the message is one line that names it."""


class Lock:
    """Held from entering to leaving, and by the kernel for as long as the process lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def fileno(self) -> int:
        """Return the descriptor; a process that inherits it holds the lock, too."""
        return self._handle

    def __enter__(self) -> Self:
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise DemoBusyError(
                f"a demo is already at work in {self._path.parent} (pid {holder}); "
                "leave that one first, or name another --dir"
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode("ascii"))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
