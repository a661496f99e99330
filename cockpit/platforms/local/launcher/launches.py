"""What is noted of every launch id: it starts at most one job, ever (SPEC A, at most once).

In ``<output root>/.cockpit/launches`` (beside the pid file where the root is not local):

* ``<launch id>.intent``: written by whoever is about to start a supervisor;
* ``<launch id>``: made by the supervisor, whole and only if there is none, before it starts the
  command. Whoever finds it there must not start anything under this id. It then says how the
  job fares, in lines ``key=value``: ``state`` is one of the words below.

Standard library only: the supervisor loads this.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cockpit.platforms.local.launcher.kernel import settle_folder, write_atomically, write_whole
from cockpit.platforms.local.launcher.modes import follow, make_folder

STARTING = "starting"
"""The id is used; the command has not begun, and cannot unless this supervisor lets it."""
RUNNING = "running"
"""The command was let go: ``pid``, ``ticks`` and ``boot`` say which process it is."""
ENDED = "ended"
FAILED = "failed"
"""The command could not be started: nothing ran."""
CLOSED = "closed"
"""Nothing had been started under this id, and a look-up has made sure that nothing will be."""
INTENT = ".intent"
BELOW = Path(".cockpit", "launches")
MOST = 4096


_OF_ANY_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-i\d{3,6}")


def launch_id_in(words: Iterable[str]) -> str | None:
    """Return the first word that is a launch id, of whatever run."""
    return next((word for word in words if _OF_ANY_RUN.fullmatch(word)), None)


def launches_folder(output_root: Path | None, pid_file: Path) -> Path:
    """Return where a run's launches are noted."""
    return (pid_file.parent if output_root is None else output_root) / BELOW


def intend(folder: Path, launch_id: str, fields: Mapping[str, object]) -> None:
    """Note that a launch is about to be made; raises ``OSError``, then it must not be made."""
    make_folder(folder)
    write_atomically(folder / f"{launch_id}{INTENT}", _text(fields))


def claim(folder: Path, launch_id: str, fields: Mapping[str, object]) -> Path:
    """Use a launch id up and return its file.

    Raises ``FileExistsError`` if it was used before, another ``OSError`` if it cannot be noted.
    """
    make_folder(folder)
    path = folder / launch_id
    fresh = folder / f".{launch_id}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        write_whole(fresh, _text(fields))
        _put(fresh, path, _text(fields))
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    settle_folder(folder)
    return path


def _put(fresh: Path, path: Path, text: str) -> None:
    """Make ``path``, whole from its first moment on, where the file system has links."""
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        raise
    except OSError:
        with path.open("x", encoding="utf-8") as file:
            follow(file.fileno(), path.parent)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def tell(path: Path, fields: Mapping[str, object]) -> None:
    """Write what is known now; raises ``OSError``, then the former note stands."""
    write_atomically(path, _text(fields))


def read(path: Path) -> dict[str, str] | None:
    """Return what a note says, ``None`` if there is none; raises ``OSError``.

    A note that is there and says nothing (the disk was full) counts as ``starting``.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MOST).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parsed(text)


def parsed(text: str) -> dict[str, str]:
    """Return what the text of a note says, by key."""
    return {"state": STARTING, **dict(li.split("=", 1) for li in text.splitlines() if "=" in li)}


def ids(folder: Path) -> set[str]:
    """Return every launch id that was ever meant or used; raises ``OSError``."""
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {name.removesuffix(INTENT) for name in names if not name.startswith(".")}


def _text(fields: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in fields.items() if value is not None)


def number_of(run: str, text: str) -> int | None:
    """Return the number in a launch id of this run, ``None`` for anything else."""
    match = re.fullmatch(re.escape(run) + r"-i(\d{1,6})", text.strip())
    return None if match is None else int(match[1])


def next_launch_id(run: str, known: Iterable[str]) -> str:
    """Return the first launch id above all that are known."""
    numbers = (number for text in known if (number := number_of(run, text)) is not None)
    return f"{run}-i{max(numbers, default=0) + 1:03d}"
