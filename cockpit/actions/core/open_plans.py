"""Which plans stand open: the next start tells of one that a dropped line or a kill has closed.

Nothing was done then, and nothing else would say so. Each open plan is a small file that its
cockpit holds locked: the kernel lets go of the lock, however that cockpit ends. It outlives a
restart of the machine, so it lies at home, and since another machine may not see the lock, in a
folder of this machine alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from cockpit.model.base import Frozen
from cockpit.runtime.private_folder import machine_tag

SUFFIX: Final = ".plan"


class PlanNote(Frozen):
    """What was being planned, and since when."""

    file: str
    action: str
    run: str
    at: float


class HeldNote:
    """A note on disk that this process holds."""

    def __init__(self, path: Path, file: IO[str], note: PlanNote) -> None:
        self._path = path
        self._file = file
        self.note = note

    def release(self) -> None:
        """Let go of it: the next start finds it."""
        self._file.close()

    def forget(self) -> None:
        """Take it away."""
        with suppress(OSError):
            self._path.unlink()
        self.release()


class OpenPlans:
    """The notes of one user about one run file; methods block, and raise ``OSError``."""

    def __init__(self, folder: Path, run_file: str) -> None:
        self._folder = folder / machine_tag()
        self._run_file = run_file

    def hold(self, action: str, run: str, now: float) -> HeldNote:
        """Note that a plan stands open from ``now`` on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        note = PlanNote(file=self._run_file, action=action, run=run, at=now)
        path = self._folder / f"{uuid.uuid4().hex}{SUFFIX}"
        made = path.with_suffix(".new")
        file = made.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(note.model_dump_json())
        file.flush()
        made.rename(path)
        return HeldNote(path, file, note)

    def left(self) -> list[HeldNote]:
        """Return the notes of cockpits that are gone, oldest first; each is held from now on."""
        return sorted(self._left(), key=lambda each: each.note.at)

    def any(self) -> bool:
        """Return whether there is any note, held or not: cheap, for a start."""
        return any(True for _ in self._folder.glob(f"*{SUFFIX}"))

    def _left(self) -> Iterator[HeldNote]:
        for path in self._folder.glob(f"*{SUFFIX}"):
            with suppress(OSError):
                file = path.open(encoding="utf-8")
                held = _held(path, file, self._run_file)
                if held is None:
                    file.close()
                else:
                    yield held


def _held(path: Path, file: IO[str], run_file: str) -> HeldNote | None:
    """Return a note if nobody holds it and it is about this run file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    if os.fstat(file.fileno()).st_nlink == 0:  # another start has told of it just now
        return None
    try:
        note = PlanNote.model_validate(json.load(file))
    except ValueError:
        path.unlink(missing_ok=True)
        return None
    return HeldNote(path, file, note) if note.file == run_file else None
