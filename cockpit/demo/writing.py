"""What a training run writes: log lines, W&B rows, and checkpoints."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cockpit.demo.model import Matrix, ModelShape, Weights, zeros
from cockpit.demo.settings import TrainingConfig

QUIET = {
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
}


def say(logger: str, text: str, level: str = "I") -> None:
    """Write one line: ``I20261121 08:10:43 4211 checkpoint Saved …`` (local time)."""
    stamp = f"{datetime.now():%Y%m%d %H:%M:%S}"
    sys.stdout.write(f"{level}{stamp} {threading.get_native_id()} {logger} {text}\n")
    sys.stdout.flush()


class Tracker:
    """Where the rows of a run go; this one keeps none: the run's log alone tells of them."""

    def log(self, row: dict[str, Any], step: int) -> None:
        """Log one row at the trainer's own step."""

    def finish(self, exit_code: int) -> None:
        """Write the exit record and flush."""


def tracker_of(config: TrainingConfig, folder: Path) -> Tracker:
    """Return the tracker, one that keeps nothing where the client is not installed."""
    if importlib.util.find_spec("wandb") is not None:
        return WandbTracker(config, folder)
    say("trainer", "wandb is not installed here: this log alone tells the loss.", "W")
    return Tracker()


class WandbTracker(Tracker):
    """One W&B run; started again with the same id it adds a fragment in the same folder.

    The client is loaded at the first row: the log shows a step a second earlier.
    """

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._lives = True

    @cached_property
    def _run(self) -> Any:  # noqa: ANN401 - the client has no types
        _keep_to(self._folder)
        import wandb  # costs half a second: only where it is used

        settings = wandb.Settings(
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            x_transaction_log_flush_interval=1.0,
        )
        return wandb.init(
            project="cockpit-demo",
            id=self._config.trainer.id,
            name=self._config.trainer.id,
            dir=str(self._folder),
            mode="offline",
            resume="allow",
            config=self._config.to_dict(),
            settings=settings,
        )

    def log(self, row: dict[str, Any], step: int) -> None:
        """Log one row at the trainer's own step."""
        self._tell(lambda: self._run.log({"global_step": step, **row}, step=step))

    def finish(self, exit_code: int) -> None:
        """Write the exit record and flush."""
        self._tell(lambda: self._run.finish(exit_code=exit_code))

    def _tell(self, deed: Callable[[], object]) -> None:
        """Do it while the client's own process lives; a scheduler ends that with the trainer.

        What is left to do then is to save a checkpoint and to leave.
        """
        try:
            if self._lives:
                deed()
        except OSError as error:
            self._lives = False
            say(
                "trainer",
                f"wandb takes no more rows ({error}): this log alone tells the loss.",
                "W",
            )


def _keep_to(folder: Path) -> None:
    """Keep everything that the client writes inside the run's own folder, and send nothing.

    The person's own settings for the client are for their runs, not for these.
    """
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        del os.environ[name]
    os.environ.update(QUIET)
    for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"):
        place = folder / "wandb-client" / name.lower()
        os.environ[f"WANDB_{name}_DIR"] = str(place)


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
