"""A cockpit that was stopped in the middle while somebody took its run over: it submits nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core import execution
from cockpit.actions.core.execution import look_up
from cockpit.actions.core.guards import FRESH_FOR
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.plan import Outcome, Result, StepState
from cockpit.model.run import RunSpec
from cockpit.store.journal import Journal
from cockpit.store.store import run_key
from tests.actions.toys import RUN, WORDS, FilePlatform, World, approval, request

OVER = [approval("second-machine")]


class Shifted(SystemClock):
    """A clock that somebody can move on."""

    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


def other(folder: Path) -> World:
    """Return the cockpit of another machine: its store knows nothing of the first."""
    return World(folder, me="b", store_name="b.sqlite")


def taken_over_in(world: World, where: str, rival: World) -> list[Result]:
    """Let the rival take the run over while the first is within ``where``, before it acts."""
    owner = world.toy if where == "_stop" else world.platform
    plain, results = getattr(owner, where), list[Result]()

    async def late(*args: Any) -> Any:
        if not results:
            await rival.service.plan(request())
            results.append(await rival.service.act(request(), WORDS, OVER))
        return "nothing to stop" if where == "_stop" else await plain(*args)

    setattr(owner, where, late)
    return results


@pytest.mark.parametrize("where", ["_stop", "accept", "go"])
async def test_whoever_wakes_up_after_it_was_taken_over_starts_nothing(
    tmp_path: Path, where: str
) -> None:
    """Wherever the first is stopped: one job, the second's, and each journal says so."""
    first = World(tmp_path, me="a")
    results = taken_over_in(first, where, World(tmp_path, me="b", store_name="b.sqlite"))
    result = await first.service.act(request(), WORDS)
    assert [each.outcome for each in results] == [Outcome.DONE], results[0].message
    assert result.outcome is Outcome.FAILED, result.message
    assert first.platform.started == first.platform.living == [results[0].launch_id]
    entry = (await first.service.history(RUN))[-1]
    assert entry.outcome is Outcome.FAILED and entry.job_id is None


async def test_one_that_was_accepted_is_closed_when_the_run_is_lost(tmp_path: Path) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            (tmp_path / "claim").write_text("another machine")

    world = World(tmp_path, at=at)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED
    assert "another machine has taken over the run" in result.message
    assert "what was accepted is cancelled" in result.message
    assert (world.platform.started, list(world.platform.held.iterdir())) == ([], [])


async def test_whether_it_is_closed_may_stay_unknown_and_is_looked_up_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            (tmp_path / "claim").write_text("another machine")
            world.platform.blind = True

    world = World(tmp_path, at=at)
    monkeypatch.setattr(FilePlatform, "definite_within", 0.0)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.UNKNOWN and "not released" in result.message
    world.platform.blind = False
    settled = await world.service.recover(RUN)
    assert [each.outcome for each in settled] == [Outcome.FAILED]
    assert world.platform.started == []


async def test_an_action_that_another_cockpit_has_ended_lets_nothing_go(tmp_path: Path) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            journal = Journal(world.store)
            (entry,) = journal.unfinished(run_key(world.file.path, RUN))
            journal.end(entry.number, Outcome.FAILED, 1.0, "somebody says that it is over")

    world = World(tmp_path, at=at)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED
    assert "another cockpit has ended this action" in result.message
    assert world.platform.started == []


@pytest.mark.parametrize("shift", [2 * FRESH_FOR, -2 * FRESH_FOR])
async def test_between_two_steps_it_is_asked_again_after_a_while(
    tmp_path: Path, shift: float
) -> None:
    """A step that only comes later than it should finds out before it does anything."""
    clock, accepted = Shifted(), []

    def at(point: str) -> None:
        if point == "stop:done":
            clock.shift = shift
            (tmp_path / "claim").write_text("another machine")

    world = World(tmp_path, clock=clock, at=at)
    plain = world.platform.accept

    async def accept(*args: Any) -> Any:
        accepted.append(args)
        return await plain(*args)

    world.platform.accept = accept  # type: ignore[assignment,method-assign]
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED and accepted == []
    assert {step.name: step.state for step in result.steps}["submit"] is StepState.FAILED


async def test_nothing_is_taken_over_while_its_launch_may_still_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilePlatform, "definite_within", 0.0)
    world = World(tmp_path)
    (tmp_path / "claim").write_text("another machine\ntoy-i003")
    await world.service.plan(request())
    world.platform.blind = True
    refused = await world.service.act(request(), WORDS, OVER)
    assert refused.outcome is Outcome.REFUSED
    assert "cannot tell whether toy-i003 was started" in refused.message
    assert (tmp_path / "claim").read_text() == "another machine\ntoy-i003", "it holds it still"
    world.platform.blind = False
    assert (await world.service.act(request(), WORDS, OVER)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i004"]


async def test_where_all_see_the_jobs_the_look_up_decides_about_a_launch_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilePlatform, "shared", True)
    world = World(tmp_path)
    world.guard.elsewhere = "box-a, pid 7"
    world.platform.blind = True
    plan = await world.service.plan(request())
    (check,) = [each for each in plan.checks if each.id == "launched-elsewhere"]
    assert plan.blocked and "does not answer" in check.text
    world.platform.blind = False
    plan = await world.service.plan(request())
    (check,) = [each for each in plan.checks if each.id == "launched-elsewhere"]
    assert not plan.blocked and "looked up: it was never started" in check.text
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i005"]


class Faulty(FilePlatform):
    """Breaks what a platform promises: it raises, or hangs."""

    hangs = False

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        if self.hangs:
            await asyncio.sleep(3600)
        raise ValueError("a fault")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_look_up_that_raises_or_hangs_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(execution, "ANSWER_WITHIN", 0.05)
    platform = Faulty(tmp_path / "jobs")
    platform.hangs = hangs
    found = await look_up(platform, World(tmp_path).file.runs[0], "toy-i001")
    assert found.found is LaunchState.UNKNOWN
    assert ("no answer within" if hangs else "a fault") in found.text


class Ticking:
    """A clock whose waiting costs no time, and is counted."""

    def __init__(self) -> None:
        self.at, self.waits = 1000.0, list[float]()

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds


@pytest.mark.parametrize(("every", "within", "most"), [(0.5, 10.0, 12), (2.0, 90.0, 20)])
async def test_it_is_looked_up_for_as_long_as_the_platform_needs_and_not_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float, within: float, most: int
) -> None:
    monkeypatch.setattr(FilePlatform, "look_every", every)
    monkeypatch.setattr(FilePlatform, "definite_within", within)
    world, clock = World(tmp_path), Ticking()
    world.platform.blind = True
    found = await execution.settled(world.platform, world.file.runs[0], "toy-i001", clock)
    assert found.found is LaunchState.UNKNOWN
    assert within <= sum(clock.waits) <= within + 10.0
    assert clock.waits[0] == every and world.platform.looked <= most


def test_who_must_look_is_told_where_for_which_name_and_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    (run,) = world.file.runs
    told = execution.where_to_look(world.platform, run, "toy-i001", None)
    assert told == "check by hand for toy-i001"
    monkeypatch.setattr(FilePlatform, "endpoint", lambda self, run: "slurm@isambard")
    told = execution.where_to_look(world.platform, run, "toy-i001", "4711")
    assert told == "check by hand for toy-i001 at slurm@isambard, accepted as 4711"
