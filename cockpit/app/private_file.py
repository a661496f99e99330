"""Small files of a session, readable by their owner alone; what cannot be kept is forgotten."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path


def private_file(folder: Path, run_file: str) -> Path:
    """Return the file in ``folder`` that is about one run file."""
    name = hashlib.sha256(str(Path(run_file).absolute()).encode()).hexdigest()[:16]
    return folder / f"{name}.json"


def write_private(path: Path, words: str) -> None:
    """Write a file anew; one that cannot be written stays as it was. Blocks.

    It is written beside and moved into place: a reader, or a kill, finds the old or the new.
    """
    made = path.with_suffix(f".{os.getpid()}.new")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(words)
        made.replace(path)
