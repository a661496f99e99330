"""What a training leaves behind, written as it goes on: ``.wandb`` file, log, checkpoints.

Every file carries the time at which it was written, as a file system would.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cockpit.sources.wandb.decode import CONFIG
from tests.sources.wandb import writer

TrackedRow = tuple[int, float, dict[str, float]]
"""Step, time, metrics."""


def touch(path: Path, at: float) -> None:
    """Say that a file was written at ``at``."""
    os.utime(path, (at, at))


def number(value: float) -> str:
    """Return a figure as W&B's client writes it."""
    return repr(value) if math.isfinite(value) else json.dumps(value)


@dataclass
class Fragment:
    """One launch's ``.wandb`` file in the format of the client, appended to."""

    path: Path
    run_id: str
    began: float
    name: str | None = None
    project: str = "lm"
    config: Mapping[str, object] = field(default_factory=dict)
    _size: int = 0

    def open(self) -> None:
        """Write its head: the run's record."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        told = {"project": self.project, "name": self.name or self.run_id}
        texts = {key: json.dumps(value) for key, value in self.config.items()}
        head = writer.record(3, CONFIG, writer.items(texts))
        data = writer.log([writer.run(self.run_id, self.began, **told), *([head] if texts else [])])
        self.path.write_bytes(data)
        self._size = len(data)
        touch(self.path, self.began)

    def add(self, rows: Sequence[TrackedRow], at: float) -> None:
        """Append rows of (step, time, metrics); ``at`` is when the client wrote them."""
        records = [
            writer.row(step, None, stamp, **{key: number(value) for key, value in metrics.items()})
            for step, stamp, metrics in rows
        ]
        self._append([*records, writer.stats(at)], at)

    def pulse(self, at: float) -> None:
        """Append what the client records of the machine: no training."""
        self._append([writer.stats(at)], at)

    def close(self, code: int, at: float) -> None:
        """Append the exit record."""
        self._append([writer.exited(code)], at)

    def _append(self, records: Sequence[bytes], at: float) -> None:
        data = writer.frame(records, self._size)
        with self.path.open("ab") as file:
            file.write(data)
        self._size += len(data)
        touch(self.path, at)


@dataclass
class Log:
    """A run's log: lines with a time in front."""

    path: Path
    offset: float = 0.0
    """By how much (s) the clock of its machine is ahead."""

    def say(self, lines: Sequence[tuple[float, str]]) -> None:
        """Append lines of (time, text)."""
        if not lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{iso(at + self.offset)} {line}\n" for at, line in lines)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
        touch(self.path, lines[-1][0])


def iso(at: float) -> str:
    """Return an instant as log lines have it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass
class Saves:
    """Checkpoints in Levanter's layout; the newest ``keep`` of them stay."""

    root: Path
    keep: int = 5
    size: int = 4096
    protected: tuple[int, ...] = ()
    cleaning: bool = True

    def save(self, step: int, at: float, *, whole: bool = True) -> None:
        """Write a checkpoint; one that is not ``whole`` lacks its marker."""
        folder = self.root / f"step-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder / "weights.bin", bytes(self.size), at)
        if whole:
            text = json.dumps({"step": step, "timestamp": iso(at), "is_temporary": False})
            self._write(folder / "metadata.json", text.encode(), at)
        touch(folder, at)
        if whole and self.cleaning:
            self.clean(self.keep)

    def steps(self) -> list[int]:
        """Return the steps that are there, ascending."""
        return sorted(int(each.name.partition("-")[2]) for each in self.root.glob("step-*"))

    def clean(self, keep: int) -> None:
        """Delete all but the newest ``keep``."""
        free = [step for step in self.steps() if step not in self.protected]
        for step in free[: -keep or None]:
            self.delete(step)

    def delete(self, step: int) -> None:
        """Delete one."""
        shutil.rmtree(self.root / f"step-{step}")

    @staticmethod
    def _write(path: Path, data: bytes, at: float) -> None:
        path.write_bytes(data)
        touch(path, at)
