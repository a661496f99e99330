"""What a person has typed and not saved yet: on the disk with every pause, private to them.

One file per run and kind of text. It is dropped only after the entry was saved for good. All
of it blocks and raises ``OSError``.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.config import state_dir
from cockpit.model.base import Frozen, Instant
from cockpit.records.documents import read

_SUFFIX: Final = ".draft.json"


class Draft(Frozen):
    """An unfinished text; ``kind`` says of what (an event, an entry being corrected)."""

    run: str
    kind: str
    text: str
    at: Instant = 0.0


class Drafts:
    """The drafts in one folder, by default in the user's state folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or state_dir() / "drafts"

    def put(self, run: str, kind: str, text: str, at: float = 0.0) -> None:
        """Keep a text in the place of the one before; a crash leaves one or the other."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        document = Draft(run=run, kind=kind, text=text, at=at).model_dump()
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(document).encode())
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._place(run, kind))
        finally:
            Path(name).unlink(missing_ok=True)

    def get(self, run: str, kind: str) -> str | None:
        """Return the text that was kept, ``None`` if there is none."""
        found = _read(self._place(run, kind))
        return None if found is None else found.text

    def drop(self, run: str, kind: str) -> None:
        """Forget a text, whose entry has been saved."""
        self._place(run, kind).unlink(missing_ok=True)

    def all(self) -> tuple[Draft, ...]:
        """Return every draft, oldest first; one that cannot be read is left alone."""
        found = (_read(path) for path in self._folder.glob(f"*{_SUFFIX}"))
        drafts = [draft for draft in found if draft is not None]
        return tuple(sorted(drafts, key=lambda draft: (draft.at, draft.run, draft.kind)))

    def _place(self, run: str, kind: str) -> Path:
        """Return a name that is safe whatever the run is called; the file says which it is."""
        key = hashlib.sha256(f"{run}\0{kind}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{key[:40]}{_SUFFIX}"


def _read(path: Path) -> Draft | None:
    with suppress(OSError, ValueError):
        return Draft.model_validate_json(read(path) or b"")
    return None
