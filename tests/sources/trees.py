"""Builds checkpoint trees on the disk, in the shape that trainers leave them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

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
