"""``stop --only held``: what a launch has left is cancelled, and nothing that runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.stopping.stop import Stop
from cockpit.model.jobs import LiveJob
from cockpit.model.plan import Outcome
from cockpit.model.run import RunSpec
from cockpit.store.launches import Stops
from cockpit.store.store import run_key
from tests.actions.resting import RUN, Rest, blocks, job


@pytest.fixture
def rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Stop())
    world.platform.living = (job("13"),)
    world.platform.held = (job("12"),)
    (tmp_path / "exit").unlink()
    return world


async def test_only_what_is_held_is_cancelled(rest: Rest) -> None:
    plan = await rest.plan(only="held")
    assert (plan.words, plan.stops, plan.spares) == ("stop toy held", ("12",), ("13",))
    assert plan.loses is None and not plan.blocked
    result = await rest.act(plan.words, only="held")
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["12"]
    assert "never having run: 12" in rest.book.entries[0].status


async def test_what_was_let_go_meanwhile_is_not_said_to_be_cancelled(rest: Rest) -> None:
    rest.platform.held = (job("12"), job("14"))
    plan = await rest.plan(only="held")
    stop = rest.platform.stop

    async def let_go_before(run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        rest.platform.held = tuple(one for one in rest.platform.held if one.id != "14")
        rest.platform.living = (job("13"), job("14"))
        await stop(run, [one for one in jobs if one.id != "14"])

    rest.platform.stop = let_go_before  # type: ignore[method-assign]
    result = await rest.act(plan.words, only="held")
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["12"]
    (entry,) = rest.book.entries
    assert entry.status.startswith("cancelled by ada, never having run: 12;")
    assert entry.status.endswith("not held any more, so not cancelled: 14")
    assert entry.next == "check whether what is no longer held is running"
    assert "stopped: `12`" in entry.said and "`14`" not in entry.said
    assert Stops(rest.store).of(run_key(rest.file.path, RUN))[0].job_ids == ("12",)


async def test_nothing_is_said_to_be_cancelled_where_all_was_let_go(rest: Rest) -> None:
    plan = await rest.plan(only="held")

    def let_go(point: str) -> None:
        rest.platform.held, rest.platform.living = (), (job("12"), job("13"))

    acting = rest.another(at=lambda point: let_go(point) if point == "stop:begun" else None)
    result = await acting.act(rest.request(only="held"), plan.words)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == []
    assert rest.book.entries[0].status == "not held any more, so not cancelled: 12"


async def test_a_plain_stop_leaves_it(rest: Rest) -> None:
    plan = await rest.plan()
    assert (plan.stops, plan.spares) == (("13",), ("12",))
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.platform.stopped == ["13"]


async def test_nothing_held_is_nothing_to_cancel(rest: Rest) -> None:
    rest.platform.held = ()
    assert "no held job of this run" in blocks(await rest.plan(only="held"))["job-state"]
    rest.platform.unknown = "no answer"
    assert "no answer" in blocks(await rest.plan(only="held"))["job-state"]


async def test_another_word_is_refused(rest: Rest) -> None:
    with pytest.raises(RefuseError, match="expected held"):
        await rest.plan(only="all")


async def test_where_only_something_held_is_left_a_stop_says_what_cancels_it(rest: Rest) -> None:
    rest.platform.held, rest.platform.living = (job("12"),), ()
    plan = await rest.plan()
    (check,) = [each for each in plan.checks if each.id == "job-state"]
    assert plan.blocked and "is only held: cockpit stop toy --only held" in check.text
