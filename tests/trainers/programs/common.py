"""What the four trainers share: their options, the faults they are asked for, their own truth.

The truth is what the trainer's own state says (its step counter, its loss, what its loader
returned), a JSON object a line, written at once: what the cockpit shows is compared with it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path


class Truth:
    """Appends to ``truth.jsonl`` in the run's folder; a line is whole or not there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "truth.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, event: str, **facts: object) -> None:
        """Write one event, with the time."""
        line = json.dumps({"event": event, "at": time.time(), **facts})
        os.write(self._file, f"{line}\n".encode())


class Faults:
    """Breaks the training at a step, in a way that trainings really break."""

    def __init__(self) -> None:
        self._nan_from = int(_asked("NAN_FROM", "0"))
        self._raise_at = int(_asked("RAISE_AT", "0"))

    def poisoned(self, step: int) -> bool:
        """Tell whether the loss of this step is to be NaN; what learns from it stays so."""
        return 0 < self._nan_from <= step

    def broken(self, step: int) -> bool:
        """Tell whether this step is to fail."""
        return 0 < self._raise_at <= step


def pause() -> None:
    """Take the time of a step: the seconds that stand in the file ``pace``, as of now."""
    path = Path("pace")
    time.sleep(float(path.read_text()) if path.exists() else 0.1)


class Options(argparse.ArgumentParser):
    """A trainer's own options; what it is to live through stands in the environment."""

    def __init__(self, output: str, about: str | None) -> None:
        super().__init__(description=about)
        self.add_argument(output, dest="out", type=Path, required=True)
        self.set_defaults(
            steps=int(_asked("STEPS", "100")),
            save_every=int(_asked("SAVE_EVERY", "20")),
        )


def _asked(name: str, default: str) -> str:
    return os.environ.get(f"TRAINER_{name}", default)
