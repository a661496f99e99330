"""What a trainer told of itself: the events of its ``truth.jsonl``, asked as of a moment."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Event = dict[str, Any]


class Truth:
    """The events of one run, over all its starts, as they stood when they were read."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = [line for line in text.split("\n")[:-1] if line]
        self.events: list[Event] = [json.loads(line) for line in whole]

    def all(self, *names: str, until: float = math.inf) -> list[Event]:
        """Return the events of these names that had happened by ``until``."""
        return [each for each in self.events if each["event"] in names and each["at"] <= until]

    def last(self, *names: str) -> Event | None:
        """Return the newest event of these names."""
        found = self.all(*names)
        return found[-1] if found else None

    @property
    def step(self) -> int:
        """The newest step that was done."""
        last = self.last("step", "begin")
        return -1 if last is None else int(last["step"])

    @property
    def starts(self) -> int:
        """How often the trainer has begun to train."""
        return len(self.all("begin"))

    @property
    def began_at(self) -> float:
        """When the present start did its first step; infinity before."""
        begun = self.last("begin")
        steps = [each for each in self.all("step") if begun and each["at"] >= begun["at"]]
        return steps[0]["at"] if steps else math.inf

    def step_by(self, moment: float) -> int:
        """Return the newest step done by ``moment`` in the present start; -1 for none."""
        begun = self.last("begin")
        since = begun["at"] if begun is not None else math.inf
        done = [each["step"] for each in self.all("step", until=moment) if each["at"] >= since]
        return done[-1] if done else -1

    def losses(self, step: int) -> list[float]:
        """Return what the loss was at ``step``: as logged, else as computed, newest first."""
        told = [each for each in self.all("logged", "evaluated", "step") if each["step"] == step]
        return [each["loss"] for each in reversed(told) if "loss" in each]

    def rate(self) -> float | None:
        """Return steps per second over the newest steps of the present start."""
        times = [each["at"] for each in self.all("step") if each["at"] >= self.began_at][-60:]
        gaps = [after - before for before, after in pairwise(times)]
        return 1 / median(gaps) if len(gaps) >= 5 else None

    def saved(self) -> dict[str, int]:
        """Return path → step of what was saved and is still there."""
        paths = {each["path"]: int(each["step"]) for each in self.all("saved")}
        return {path: step for path, step in paths.items() if Path(path).exists()}
