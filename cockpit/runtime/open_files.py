"""Which files of this machine a process has open for writing, by Linux' ``/proc``. Blocking."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from cockpit.runtime.process import PROC

EVERY: Final = 10.0
MOST_FILES: Final = 4096
"""Open files of one process that are looked at."""


def held_for_writing(paths: Collection[str], proc: Path = PROC) -> frozenset[str] | None:
    """Return those of ``paths`` (as ``realpath`` spells them) that a process may write to.

    ``None`` where processes cannot be seen. Those of other users are not seen either.
    """
    if not (proc / "self" / "fd").is_dir():
        return None
    found: set[str] = set()
    for process in proc.iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # gone, or another user's
                found.update(_written(process, paths))
    return frozenset(found)


class Held:
    """Asks which of some files are held, not more often than every ``EVERY`` seconds."""

    def __init__(self) -> None:
        self._answer: tuple[frozenset[str], frozenset[str] | None] | None = None
        self._until = 0.0

    def of(self, paths: Collection[str]) -> frozenset[str] | None:
        """Return those of ``paths`` that a process may write to, ``None`` where none can tell."""
        asked, now = frozenset(map(os.path.realpath, paths)), time.monotonic()
        if self._answer is None or self._answer[0] != asked or now >= self._until:
            self._answer = asked, held_for_writing(asked)
            self._until = now + EVERY
        found = self._answer[1]
        return None if found is None else frozenset(
            path for path in paths if os.path.realpath(path) in found
        )  # fmt: skip


class WrittenFiles:
    """All files that processes of this machine may write to, found at most every ``EVERY`` s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, str] = {}
        self._until = 0.0

    def now(self, proc: Path = PROC) -> dict[str, str]:
        """Return each as the kernel names it, with a handle of it (``/proc/PID/fd/N``)."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = dict(_handles(proc))
                self._until = time.monotonic() + EVERY
            return self._found


WRITTEN_FILES: Final = WrittenFiles()


def _handles(proc: Path) -> Iterator[tuple[str, str]]:
    for process in proc.iterdir() if (proc / "self" / "fd").is_dir() else ():
        if not process.name.isdigit():
            continue
        with suppress(OSError):  # gone, or another user's
            for handle in islice(os.scandir(process / "fd"), MOST_FILES):
                with suppress(OSError):
                    writes = handle.stat(follow_symlinks=False).st_mode & 0o200
                    path = str(Path(handle.path).readlink()) if writes else ""
                    if path.startswith("/") and not path.startswith("/dev/"):
                        yield path, handle.path


def _written(process: Path, paths: Collection[str]) -> Iterator[str]:
    for handle in islice((process / "fd").iterdir(), MOST_FILES):
        with suppress(OSError, ValueError, IndexError):
            path = str(handle.readlink())
            if path in paths and _writes(process / "fdinfo" / handle.name):
                yield path


def _writes(info: Path) -> bool:
    flags = info.read_text(encoding="ascii").partition("flags:")[2].split()[0]
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
