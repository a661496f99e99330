"""What a training tells: glog-style lines on its own log, and rows to the real W&B client, offline.

Only the trainer's process imports this.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

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
    """One W&B run; started again with the same id it adds a fragment in the same folder."""

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        _keep_to(folder)
        import wandb  # costs half a second: only where it is used

        settings = wandb.Settings(
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            x_transaction_log_flush_interval=1.0,
        )
        self._lives = True
        self._run = wandb.init(
            project="cockpit-demo",
            id=config.trainer.id,
            name=config.trainer.id,
            dir=str(folder),
            mode="offline",
            resume="allow",
            config=config.to_dict(),
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
