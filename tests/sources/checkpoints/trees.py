"""Builds checkpoint trees on the disk, in the shape that trainers leave them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cockpit.model.place import place_of
from cockpit.sources.checkpoints.assembly import Surveyed, Want
from cockpit.sources.checkpoints.bucket import Survey
from cockpit.sources.checkpoints.listing import Folder, Listed, Root
from cockpit.sources.checkpoints.look import listed_here, survey_here

NOW = 1_770_000_000.0


def put(path: Path, content: str | bytes = b"x" * 10, at: float = NOW - 3600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (at, at))
    return path


def settle(folder: Path, at: float) -> Path:
    for below, _, _ in os.walk(folder):
        os.utime(below, (at, at))
    return folder


def metadata(step: int, at: float, temporary: bool = False) -> str:
    stamp = datetime.fromtimestamp(at, tz=UTC).replace(tzinfo=None).isoformat()
    return json.dumps({"step": step, "timestamp": stamp, "is_temporary": temporary})


def levanter(
    root: Path,
    step: int,
    *,
    at: float = NOW - 3600,
    name: str | None = None,
    temporary: bool = False,
    marker: str | None = "",
) -> Path:
    """One save; ``marker`` replaces the metadata's text, ``None`` leaves it out (torn)."""
    folder = root / (name or f"step-{step}")
    put(folder / "d" / "0c0ffee0", b"a" * 1000, at - 2)
    put(folder / "manifest.ocdbt", b"m" * 200, at - 1)
    if marker is not None:
        put(folder / "metadata.json", marker or metadata(step, at, temporary), at)
    return settle(folder, at)


def root_from_files(path: str, files: Iterable[Listed]) -> Root:
    """Return a root from a flat listing (paths relative to the root), as stores give it."""
    folders: dict[str, list[Listed]] = {}
    loose: list[Listed] = []
    for file in files:
        head, slash, rest = file.path.partition("/")
        if not slash:
            loose.append(file)
        elif rest:
            inner = Listed(rest, file.size, file.mtime, file.content, file.error)
            folders.setdefault(head, []).append(inner)
        else:
            folders.setdefault(head, [])
    children = tuple(Folder(name, tuple(inside)) for name, inside in folders.items())
    return Root(path, children, tuple(loose))


def hugging_face(root: Path, step: int, *, at: float = NOW - 3600, **state: object) -> Path:
    """One save of the Hugging Face ``Trainer``; ``state`` is what else its state says."""
    folder = root / f"checkpoint-{step}"
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        put(folder / name, b"x" * 100, at - 1)
    said = {"best_model_checkpoint": None, "global_step": step, "log_history": [], **state}
    put(folder / "trainer_state.json", json.dumps(said, indent=2, sort_keys=True) + "\n", at)
    return settle(folder, at)


def roots_at(folder: Path, survey: Survey | None = None) -> tuple[Root, ...]:
    """Return what a folder of this machine holds."""
    want = Want(place_of(str(folder)))
    found = listed_here(survey or survey_here(), [want], 60.0)[want]
    assert isinstance(found, Surveyed)
    return found.roots
