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

from cockpit.model.records import Unfinished
from cockpit.records.git.documents import read
from cockpit.text.safe import clean


class Drafts:
    """The drafts in one folder; ``kind`` says of what one is (an event, an entry)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, run: str, kind: str, text: str, by: str = "") -> None:
        """Keep a text in the place of the one before; a crash leaves one or the other.

        ``by`` is who typed it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        document = {"run": run, "kind": kind, "text": text, "by": by}
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
        """Return the text that was kept, ``None`` if there is none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            return str(json.loads(read(self._place(run, kind)) or b"")["text"])
        return None

    def unfinished(self, run: str, kind: str) -> Unfinished | None:
        """Return what is known of a text that was kept, but for what it says."""
        text, place = self.get(run, kind), self._place(run, kind)
        if text is None or not text.strip():
            return None
        by = str(json.loads(read(place) or b"{}").get("by", ""))
        lines = len(text.strip().splitlines())
        return Unfinished(by=clean(by, 100), lines=lines, at=place.stat().st_mtime)

    def drop(self, run: str, kind: str) -> None:
        """Forget a text, whose entry has been saved."""
        self._place(run, kind).unlink(missing_ok=True)

    def _place(self, run: str, kind: str) -> Path:
        """Return a name that is safe whatever the run is called; the file says which it is."""
        key = hashlib.sha256(f"{run}\0{kind}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{key[:40]}.draft.json"
