"""What a platform brings to the conformance suite: a system to act on, and a way to count there."""

from __future__ import annotations

import itertools
import os
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.table import platform_of
from cockpit.sources.logs.source import Logs

NUMBERS = itertools.count(1)


class Way(NamedTuple):
    """A function through which a platform reaches its system.

    ``lost`` returns or raises what the platform is given where the answer is lost.
    """

    owner: str
    name: str
    lost: Callable[[], Any]


class Seat(ABC):
    """One platform at its own system, of which a test may ask what a person could do there."""

    kind: ClassVar[str]
    ways: ClassVar[tuple[Way, ...]]
    hangs: ClassVar[bool] = True
    """False where nothing that could hang stands between a cockpit and its jobs."""
    clock: ClassVar[type[SystemClock]] = SystemClock
    """One on which waiting takes no time, where the system is not a real one."""
    one_a_lineage: ClassVar[bool] = True
    """True where the platform alone keeps two launch ids of one moment from both starting."""
    chains: ClassVar[bool] = False
    """True where a job can wait for the end of another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[RunSpec] = []

    @classmethod
    def platform(cls) -> Platform:
        """Return the platform of a new cockpit, which remembers nothing."""
        clock = cls.clock()
        return platform_of(cls.kind)(clock, Logs(clock))

    def spec(self, suffix: str = "") -> RunSpec:
        """Return a new run. With a suffix, its name begins as that of the newest one does."""
        former = self.runs[-1].name if suffix else f"c{os.getpid()}x{next(NUMBERS)}"
        made = self.made(f"{former}{suffix}")
        self.runs.append(made)
        return made

    @abstractmethod
    def made(self, name: str) -> RunSpec:
        """Return a run of this name."""

    def marker(self, launch_id: str) -> Path:
        """Return the file to which a job that begins adds a line."""
        return self.folder / f"ran-{launch_id}"

    def began(self, launch_id: str) -> int:
        """Return how many jobs have ever begun under a launch id."""
        path = self.marker(launch_id)
        return len(path.read_text().splitlines()) if path.exists() else 0

    @abstractmethod
    def words(self, launch_id: str) -> Sequence[str]:
        """Return the recorded command, filled in."""

    def submission(self, run: RunSpec, number: int = 1) -> Submission:
        launch_id = f"{run.name}-i{number:03d}"
        command = self.platform().formed(tuple(self.words(launch_id)), run, launch_id)
        return Submission(run=run.name, launch_id=launch_id, command=tuple(command))

    @abstractmethod
    def living(self, run: RunSpec) -> list[str]:
        """Return the jobs that live of a run by the system's own word, those by hand included."""

    @abstractmethod
    def finish(self, job_id: str) -> None:
        """Let a job end without a cockpit, and return once the system says that it is over."""

    @abstractmethod
    def by_hand(self, run: RunSpec) -> str:
        """Start a job that writes to the run's output root and that no cockpit knows."""

    @abstractmethod
    def take_name(self, run: RunSpec, launch_id: str) -> None:
        """Use a launch id up as somebody else does."""

    def chain(self, run: RunSpec, job_id: str) -> str:
        """Submit a job that waits for the end of another one."""
        raise NotImplementedError

    def halted(self) -> AbstractContextManager[None]:
        """Let the system stand still; what reaches it meanwhile is done afterwards."""
        raise NotImplementedError

    def end(self) -> None:
        """End whatever is left of the runs."""
        for run in self.runs:
            for job_id in self.living(run):
                self.finish(job_id)


@contextmanager
def exchanges(ways: Sequence[Way], at: Callable[[str], object]) -> Iterator[None]:
    """Call ``at`` before and after each exchange with the system; where it says so, drop it.

    What is dropped before was never done; what is dropped after was, and its answer is lost.
    """
    numbers = itertools.count(1)

    def through(former: Callable[..., Any], lost: Callable[[], Any]) -> Callable[..., Any]:
        async def exchange(*words: Any, **more: Any) -> Any:
            number = next(numbers)
            if at(f"exchange {number}, before"):
                return lost()
            answer = await former(*words, **more)
            return lost() if at(f"exchange {number}, after") else answer

        return exchange

    with pytest.MonkeyPatch.context() as patch:
        for way in ways:
            owner = pkgutil.resolve_name(way.owner)
            patch.setattr(owner, way.name, through(getattr(owner, way.name), way.lost))
        yield


def lost_by(error: Callable[[], Exception]) -> Callable[[], Any]:
    """Return a ``Way.lost`` that raises."""

    def lose() -> Any:
        raise error()

    return lose
