"""Small sources that answer what a test tells them to, and a clock that runs fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cockpit.model.facet import Facet, known, not_configured
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    LogValue,
    Phase,
    Row,
    TrackerValue,
)
from cockpit.model.report import FACETS
from cockpit.model.run import CockpitFile, JobSpec, RunSpec, WandbSpec
from cockpit.platforms.table import Platforms
from cockpit.runtime import offload
from cockpit.watch.asking import Sources

START = 1_800_000_000.0
PATIENCE = 180.0
STEPPING = 3600.0
"""Seconds for which a fleet goes on stepping: on a busy machine its clock runs far ahead."""


class FastClock:
    """Time that passes ``speed`` times as fast as it does."""

    def __init__(self, speed: float = 20.0) -> None:
        self.speed = speed
        self._begin = time.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._begin) * self.speed

    def now(self) -> float:
        return START + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)


class SteppedClock(FastClock):
    """Time that only waiting moves on: a machine that is late adds nothing to a wait.

    Who waits goes on in the order of the times waited for, and once nobody has anything to do.
    """

    def __init__(self, speed: float = 20.0) -> None:
        super().__init__(speed)
        self._at = 0.0
        self._waiting: list[tuple[float, float, asyncio.Future[None]]] = []
        self._looks = False

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waits = (self._at + seconds, loop.time() + seconds / self.speed, loop.create_future())
        self._waiting.append(waits)
        if not self._looks:
            self._looks = True
            loop.call_later(0.001, self._go_on, loop)
        try:
            await waits[2]
        finally:
            self._waiting.remove(waits)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake whoever waits for the earliest time, if that has come; look again soon."""
        still = [each for each in self._waiting if not each[2].done()]
        if still and not _at_work(loop):
            due = min(each[0] for each in still)
            for _, at, waits in (each for each in still if each[0] == due):
                if loop.time() >= at:
                    self._at = max(self._at, due)
                    waits.set_result(None)
        self._looks = bool(self._waiting)
        if self._looks:
            loop.call_later(0.001, self._go_on, loop)


def _at_work(loop: Any) -> bool:
    """Tell whether a task can go on, or a thread works for one."""
    pool = offload._POOL
    works = any(not call.abandoned for call in tuple(pool._running))
    return bool(loop._ready or pool._calls or works or offload._mail_of(loop))


class Chunk(NamedTuple):
    rows: tuple[Row, ...] = ()
    caught_up: bool = True
    restarted: bool = False
    share: float = 1.0
    later: bool = False
    unread: str = ""


class Fake:
    """One source: ``answers`` by run name; ``hanging`` never answer; keeps what it is asked."""

    def __init__(self, clock: FastClock, value: Any = None) -> None:
        self.clock = clock
        self.value = value
        self.answers: dict[str, Facet[Any]] = {}
        self.hanging: set[str] = set()
        self.asked: list[tuple[str, ...]] = []
        self.given: list[Sequence[Any]] = []
        self.raising: Exception | None = None

    async def observe(self, runs: Sequence[Any], at: str | None = None) -> dict[str, Facet[Any]]:
        self.asked.append(tuple(run.name for run in runs))
        self.given.append(runs)
        if self.raising is not None:
            raise self.raising
        if any(run.name in self.hanging for run in runs):
            await asyncio.get_running_loop().create_future()
        return {run.name: self._answer(run.name) for run in runs}

    def join(self, at: str, answers: Mapping[str, Facet[Any]]) -> Mapping[str, Facet[Any]]:
        return answers

    def _answer(self, name: str) -> Facet[Any]:
        if name in self.answers:
            return self.answers[name]
        if self.value is None:
            return not_configured("it")
        return known(self.value, "fake", self.clock.now())


class FakeTracker(Fake):
    def __init__(self, clock: FastClock, value: Any = None) -> None:
        super().__init__(clock, value)
        self.rows: list[Row] = []
        self.read = 0
        self.chunk = 5000
        self.unread = True
        """What a look has found of rows that were not given out."""
        self.asked_for_rows = 0

    async def more_rows(self, run: RunSpec) -> Chunk:
        self.asked_for_rows += 1
        rows = tuple(self.rows[self.read : self.read + self.chunk])
        self.read += len(rows)
        share = self.read / len(self.rows) if self.rows else 1.0
        return Chunk(rows, caught_up=self.read >= len(self.rows), share=share)

    def may_have_rows(self, run: RunSpec) -> bool:
        return self.unread

    def forget(self, names: Iterable[str]) -> None:
        self.read = 0

    async def recent(self, run: RunSpec, rows: int = 3000) -> Chunk:
        return Chunk(tuple(self.rows[-rows:]), share=min(1.0, rows / max(1, len(self.rows))))


class World:
    """A fleet whose every facet a test can set."""

    def __init__(
        self,
        *names: str,
        speed: float = 20.0,
        cadence: float = 30.0,
        clock: FastClock | None = None,
    ) -> None:
        self.clock = clock or FastClock(speed)
        now = self.clock.now()
        self.fakes: dict[str, Any] = {name: Fake(self.clock) for name in FACETS}
        on = now + STEPPING
        self.tracker = FakeTracker(self.clock, tracker_value(on))
        self.fakes["tracker"] = self.tracker
        self.fakes["job"].value = running(now)
        self.fakes["log"].value = LogValue(path="/x/log", size=9, mtime=on, last_line_at=on)
        self.file = CockpitFile(
            path="/x/cockpit.toml", runs=tuple(run_spec(name, cadence) for name in names or ("r",))
        )
        platforms = Platforms(self.clock)
        self.sources = Sources(**self.fakes, platform_of=platforms.of, findings=platforms.findings)


def run_spec(name: str, cadence: float = 30.0) -> RunSpec:
    job = JobSpec(kind="local", pid_file=f"/nonexistent/{name}.pid")
    wandb = WandbSpec(id=name, dir=f"/nonexistent/{name}")
    return RunSpec(name=name, cadence=cadence, job=job, wandb=wandb, final_step=1000)


def running(now: float, **more: Any) -> JobValue:
    return JobValue(id="pid:1", state="running", phase=Phase.RUNNING, started_at=now, **more)


def failed(now: float) -> JobValue:
    return JobValue(id="pid:1", state="exited", phase=Phase.FAILED, exit_code=1, ended_at=now)


def tracker_value(now: float, **more: Any) -> TrackerValue:
    return TrackerValue(
        **{"id": None, "state": "running", "step": 5, "loss": 2.5, "last_step_at": now, **more}
    )


def checkpoints(*steps: int) -> CheckpointsValue:
    items = tuple(
        Checkpoint(
            step=step, name_step=step, path=f"/x/step-{step}", root="/x",
            state=CheckpointState.COMPLETE,
        )
        for step in steps
    )  # fmt: skip
    return CheckpointsValue(latest_complete=max(steps, default=None), items=items)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what a test expects; fail after a patience no slow machine needs."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.005)
