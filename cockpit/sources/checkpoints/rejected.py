"""Which checkpoints of a listing are of a rejected lineage (SPEC A-4, K).

A rejection is known from the run's logbook, from the store, and from a small file under the
root itself. It names a path and a moment: what is saved at that path later is a new checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cockpit.model.observed import Checkpoint
from cockpit.model.records import Rejected
from cockpit.runtime.regular import open_regular, read_text
from cockpit.text.logbook_lines import read_rejections
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

FOLDER: Final = ".cockpit"
NAME: Final = "rejected.json"
_SIZE: Final = 4 << 20
_PATH_LIMIT: Final = 4096


def rejection_of(item: Checkpoint, rejected: Iterable[Rejected]) -> Rejected | None:
    """Return the rejection that ``item`` falls under: its path, saved before it was rejected.

    One whose moment is not known (0.0) holds for whatever lies there.
    """
    saved = item.touched_at if item.saved_at is None else item.saved_at
    matching = (one for one in rejected if one.path.rstrip("/") == item.path)
    return next((one for one in matching if saved is None or not one.at or saved <= one.at), None)


def read_marks(root: str) -> tuple[Rejected, ...]:
    """Return what ``<root>/.cockpit/rejected.json`` says; blocking.

    Raises ``OSError`` or ``ValueError`` for one that is there and cannot be understood: then it
    is not known which checkpoints are rejected.
    """
    path = f"{root.rstrip('/')}/{FOLDER}/{NAME}"
    try:
        with open_regular(path) as (fd, _):
            raw = os.read(fd, _SIZE)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return parse_marks(root, raw)


def parse_marks(root: str, raw: bytes) -> tuple[Rejected, ...]:
    """Return what the bytes of that file say; raises ``ValueError`` as ``read_marks`` does."""
    path = f"{root.rstrip('/')}/{FOLDER}/{NAME}"
    try:
        listed = json.loads(raw)["rejected"]
        return tuple(_mark(root, one) for one in listed)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = f"{path} cannot be parsed: which checkpoints are rejected is unknown; repair it"
        raise ValueError(clean(text, _PATH_LIMIT)) from error


def _mark(root: str, one: dict[str, Any]) -> Rejected:
    name = one["name"]
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError("an invalid name")
    return Rejected(
        step=one["step"],
        path=clean(f"{root.rstrip('/')}/{name}", _PATH_LIMIT),
        at=one["at"],
        by=scrub(clean(one["by"])),
        reason=scrub(clean(one["reason"])),
    )


class Books:
    """What logbooks say of rejected checkpoints; an unchanged one is read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], tuple[Rejected, ...]]] = {}

    def rejected(self, path: str | None) -> tuple[Rejected, ...]:
        """Return the rejections in a logbook, the former ones if it cannot be read; blocking."""
        if path is None:
            return ()
        former = self._read.get(path)
        try:
            found = Path(path).stat()
            version = (found.st_mtime_ns, found.st_size)
            if former is None or former[0] != version:
                former = (version, read_rejections(read_text(Path(path))))
                self._read[path] = former
        except (OSError, ValueError):
            pass  # the records facet says what is wrong with the logbook
        return () if former is None else former[1]
