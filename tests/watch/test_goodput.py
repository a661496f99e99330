"""Goodput through whole engines: what one has watched, the next one knows; a gap is a gap."""

from __future__ import annotations

from pathlib import Path

from cockpit.model.goodput import Goodput
from cockpit.model.observed import JobValue, Phase, Row
from cockpit.store.store import Store
from tests.watch.fakes import SteppedClock, World, failed, until
from tests.watch.test_engine import run_of, watching


class Hours(SteppedClock):
    """A clock on which hours go by at once."""

    def __init__(self) -> None:
        super().__init__(speed=200.0)
        self._passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._passed

    def pass_by(self, seconds: float) -> None:
        self._passed += seconds


class Life(World):
    """A run that trains a step a second, on a clock that only waiting moves on."""

    clock: Hours

    def __init__(self) -> None:
        super().__init__(cadence=10.0, clock=Hours())
        self.trained(1, 120, self.clock.now() - 120.0)

    def trained(self, first: int, last: int, begin: float) -> None:
        self.tracker.rows += [
            Row(step, begin + step - first, 2.0) for step in range(first, last + 1)
        ]


async def account(life: Life, store: Store, phase: Phase) -> Goodput:
    """What an engine of its own says once it has seen this phase, and watched for five cadences."""
    life.tracker.read = 0
    async with watching(life, store) as engine:
        began = life.clock.now()
        await until(lambda: _known(engine, phase, began + 50.0))
        found = run_of(engine).goodput
    assert found is not None
    return found


def _known(engine: object, phase: Phase, at: float) -> bool:
    """Tell whether a report made past ``at`` knows the phase: the clock runs on meanwhile."""
    report = run_of(engine)  # type: ignore[arg-type]
    job = report.facets.job.value
    account = report.goodput
    if job is None or account is None:
        return False
    return job.phase is phase and account.until > at and bool(account.split)


async def test_what_an_engine_saw_is_known_to_the_next_and_what_none_saw_is_unwatched(
    tmp_path: Path,
) -> None:
    life, store = Life(), Store(tmp_path / "store.sqlite")
    begin = life.clock.now()
    life.fakes["job"].value = JobValue(
        id="pid:1", state="running", phase=Phase.RUNNING, started_at=begin - 125.0
    )
    first = await account(life, store, Phase.RUNNING)
    assert first.split.productive_s >= 118.0
    assert first.split.starting_s == 5.0
    died = life.clock.now()
    life.fakes["job"].value = failed(died)
    watched = await account(life, store, Phase.FAILED)
    assert 45.0 <= watched.split.down_s <= life.clock.now() - died
    assert watched.split.unwatched_s == 0.0

    life.clock.pass_by(1000.0)  # nobody watches; a job that no system dates comes and runs
    life.trained(101, 140, life.clock.now() - 40.0)
    life.fakes["job"].value = JobValue(id="pid:2", state="running", phase=Phase.RUNNING)
    again = await account(life, store, Phase.RUNNING)
    assert again.steps_lost == 20
    assert again.restarts.total == 1
    assert again.split.rework_s == 19.0
    assert 900.0 <= again.split.unwatched_s <= 1000.0
    assert watched.split.down_s <= again.split.down_s <= watched.split.down_s + 30.0
    assert again.share is not None
    lost = again.until - again.since - again.split.unwatched_s - again.split.productive_s
    assert abs(again.share - again.split.productive_s / (lost + again.split.productive_s)) < 1e-9
