"""A system that the demo's trainings run on: what each kind does its own way. All calls block.

Nothing here touches a job that is not the demo's own: each carries the demo's token in its name
or its command line, is listed by that, and is stopped by the exact id that the list gave.
"""

from __future__ import annotations

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.model.place import on_host

TIME_LIMIT: Final = 3600
"""Seconds after which a training leaves by itself: a forgotten demo ends."""
OLDEST: Final = (3, 10)
"""The Python that the training needs at least."""
LOOK_EVERY: Final = 1.0


@dataclass(frozen=True)
class Ground:
    """What the trainings find where they run.

    ``folder`` (absolute) holds code and runs: on ``host`` (an ssh alias), or in sight of this
    machine, or neither (``seen`` is False: of what lies there nothing can be read from here).
    ``tracker`` says that W&B's client is installed there.
    """

    folder: str
    python: str
    host: str | None = None
    tracker: bool = True
    seen: bool = True

    def place(self, *parts: str) -> str:
        """Return how a run file names what lies in the folder."""
        return str(on_host(self.host, "/".join((self.folder, *parts))))

    def words(self, situation: Situation) -> tuple[str, ...]:
        """Return the training command, to be started in the folder of the code."""
        own = ("-E",) if self.python == sys.executable else ()
        config = f"../runs/{situation.name}/config.json"
        limit = ("--time-limit", str(TIME_LIMIT))
        start = (self.python, *own, "-m", "cockpit.demo.trainer", "--config", config)
        return (*start, *situation.faults, *limit)


class Site(ABC):
    """One system. Every call raises ``CannotError`` (nothing was done) or ``LostError``."""

    kind: ClassVar[str]
    where: str
    """How a person calls it."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What names it again: the arguments of its class."""

    @abstractmethod
    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Ask the system once whether the demo can run there, and return where.

        The demo's folder exists; its journal holds the token.
        """

    @abstractmethod
    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Put what the trainings need where they run."""

    @abstractmethod
    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return ``[run.job]`` but for its kind."""

    @abstractmethod
    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the command that starts the training again, as a run file holds it."""

    @abstractmethod
    def submit(self, situation: Situation, ground: Ground) -> str:
        """Submit the training under its launch id, once; return the system's own id."""

    @abstractmethod
    def living(self, token: str) -> Mapping[str, str]:
        """Return all jobs of a demo that run or wait: what stops each, and what it is called."""

    @abstractmethod
    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Tell these jobs to end; those that are gone are no error."""

    @abstractmethod
    def forget(self, token: str) -> None:
        """Remove what the system remembers of the demo's jobs, where that can be."""

    @abstractmethod
    def clear(self, ground: Ground) -> None:
        """Remove the folder there, if it is not this machine's."""

    def stop_all(self, token: str, patience: float) -> list[str]:
        """Stop every job of a demo; return the names of those that still live after ``patience``.

        Gently at first, so that they save and leave by themselves.
        """
        until = time.monotonic() + patience
        told: dict[str, float] = {}
        while living := self.living(token):
            now = time.monotonic()
            if now >= until:
                break
            new = [each for each in living if each not in told]
            late = [each for each in living if now - told.get(each, now) > patience / 2]
            if new:
                self.stop(new, gently=True)
                told |= dict.fromkeys(new, now)
            elif late:
                self.stop(late, gently=False)
            time.sleep(LOOK_EVERY)
        return sorted(living.values())


def is_own(name: str, token: str) -> bool:
    """Tell whether a job's name, or its launch id, is one of this demo."""
    return re.fullmatch(rf"demo-[a-z]+-{re.escape(token)}(-i\d+)?", name) is not None
