"""Checkpoints in Levanter's shape: two roots, ``metadata.json`` last, rotation, resume.

A checkpoint is ``<root>/step-N/`` with ``d/<32 hex>`` data files (the real weights), a
``manifest.ocdbt`` that says which array lies in which file, and ``metadata.json``, moved into
place last: without it the checkpoint is torn. Permanent ones go to one root, temporary ones
to another; a permanent save deletes all temporary ones.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cockpit.demo.model import Matrix, ModelShape, Weights, zeros
from cockpit.demo.tracking import say

NAME = "checkpoint"
NUMBER = struct.Struct("<d")


@dataclass
class TrainingState:
    """What a resume needs: the last step that was done, the weights and the momentum."""

    step: int
    weights: Weights
    momentum: Weights

    def arrays(self) -> Iterator[tuple[str, Matrix]]:
        """Yield (name, rows) of every array."""
        for group in ("weights", "momentum"):
            for name, rows in getattr(self, group).arrays():
                yield f"{group}/{name}", rows


@dataclass(frozen=True)
class Checkpointer:
    """Where and how checkpoints are written; ``shard_seconds`` is how long one data file takes."""

    permanent: Path
    temporary: Path
    keep_temporary: int = 1
    shard_seconds: float = 0.0
    wait: Callable[[float], None] = time.sleep

    def save(self, state: TrainingState, *, permanent: bool) -> Path:
        """Write one checkpoint and rotate; return its folder. It exists once this returns."""
        root = self.permanent if permanent else self.temporary
        kind = "" if permanent else "temporary "
        say(NAME, f"Saving {kind}checkpoint at step {state.step}.")
        folder = root / f"step-{state.step}"
        shutil.rmtree(folder, ignore_errors=True)
        self._write(folder, state)
        _commit(folder, state.step, temporary=not permanent)
        say(NAME, f"Saved checkpoint to {folder} for step {state.step}")
        self._rotate(permanent=permanent)
        return folder

    def _write(self, folder: Path, state: TrainingState) -> None:
        (folder / "d").mkdir(parents=True)
        packed = {
            name: b"".join(NUMBER.pack(value) for row in rows for value in row)
            for name, rows in state.arrays()
        }
        hashes = {
            name: hashlib.md5(data, usedforsecurity=False).hexdigest()
            for name, data in packed.items()
        }
        (folder / "manifest.ocdbt").write_text(json.dumps(hashes), encoding="utf-8")
        for name, data in packed.items():
            lock = folder / "d" / f"{hashes[name]}.__lock"
            lock.write_bytes(data)
            if self.shard_seconds:
                self.wait(self.shard_seconds)
            lock.replace(folder / "d" / hashes[name])

    def _rotate(self, *, permanent: bool) -> None:
        complete = [folder for _, folder in complete_checkpoints(self.temporary)]
        old = complete if permanent else complete[: -self.keep_temporary]
        for folder in old:
            say(NAME, f"Deleting old temporary checkpoint {folder} after saving new checkpoint.")
            shutil.rmtree(folder, ignore_errors=True)

    def newest(self) -> Path | None:
        """Return what a resume loads: newest by (step, timestamp, path) over both roots."""
        found = complete_checkpoints(self.permanent) + complete_checkpoints(self.temporary)
        return max(found)[1] if found else None

    def load(self, folder: Path, shape: ModelShape) -> TrainingState:
        """Read a complete checkpoint. Raises ``ValueError`` if it does not fit ``shape``."""
        hashes = json.loads((folder / "manifest.ocdbt").read_text(encoding="utf-8"))
        metadata = _metadata(folder)
        step = 0 if metadata is None else metadata[0]
        state = TrainingState(step, zeros(shape), zeros(shape))
        for name, rows in state.arrays():
            _unpack((folder / "d" / hashes[name]).read_bytes(), rows, f"{folder}: {name}")
        return state


def complete_checkpoints(root: Path) -> list[tuple[tuple[int, str, str], Path]]:
    """Return ((step, timestamp, path), folder) of each complete checkpoint, oldest first."""
    folders = root.iterdir() if root.is_dir() else ()
    found = [((*read, str(folder)), folder) for folder in folders if (read := _metadata(folder))]
    return sorted(found)


def _metadata(folder: Path) -> tuple[int, str] | None:
    """Return (step, timestamp) of a complete checkpoint; anything unreadable is not complete."""
    try:
        document = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        step, stamp = document["step"], document["timestamp"]
        datetime.fromisoformat(stamp)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (step, stamp) if isinstance(step, int) else None


def _commit(folder: Path, step: int, *, temporary: bool) -> None:
    stamp = datetime.now().isoformat()  # naive local time, as Levanter writes it
    metadata = {"step": step, "timestamp": stamp, "is_temporary": temporary}
    fresh = folder / "metadata.json.new"
    fresh.write_text(json.dumps(metadata), encoding="utf-8")
    fresh.replace(folder / "metadata.json")


def _unpack(data: bytes, rows: Matrix, what: str) -> None:
    values = [value for (value,) in NUMBER.iter_unpack(data)]
    if len(values) != sum(map(len, rows)):
        raise ValueError(f"{what} holds {len(values)} numbers, expected {sum(map(len, rows))}")
    numbers = iter(values)
    for row in rows:
        row[:] = [next(numbers) for _ in row]
