"""Small files of a session, readable by their owner alone; what cannot be kept is forgotten."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def private_file(folder: Path, run_file: str) -> Path:
    """Return the file in ``folder`` that is about one run file."""
    name = hashlib.sha256(str(Path(run_file).absolute()).encode()).hexdigest()[:16]
    return folder / f"{name}.json"


def write_private(path: Path, words: str) -> None:
    """Write a file anew; one that cannot be written stays as it was. Blocks."""
    with suppress(OSError):
        replace_private(path, words)


def replace_private(path: Path, words: str) -> None:
    """Write a file anew; raises ``OSError``, and leaves it as it was. Blocks.

    It is written beside and moved into place: a reader, or a kill, finds the old or the new.
    """
    made = path.with_suffix(f".{os.getpid()}.new")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(words)
    made.replace(path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a file against every other window, by a lock beside it; blocks until it is free.

    Raises ``OSError`` for a folder that cannot be written. Where the file system knows no locks it
    is worked on without one.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path.with_suffix(".lock"), flags, 0o600)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
