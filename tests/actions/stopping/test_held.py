"""``stop --only held``: what a launch has left is cancelled, and nothing that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.stopping.stop import Stop
from cockpit.model.plan import Outcome
from tests.actions.resting import Rest, blocks, job


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


async def test_a_plain_stop_leaves_it(rest: Rest) -> None:
    plan = await rest.plan()
    assert (plan.stops, plan.spares) == (("13",), ("12",))
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.platform.stopped == ["13"]


async def test_nothing_held_is_nothing_to_cancel(rest: Rest) -> None:
    rest.platform.held = ()
    assert "nothing of a launch" in blocks(await rest.plan(only="held"))["job-state"]
    rest.platform.unknown = "no answer"
    assert "no answer" in blocks(await rest.plan(only="held"))["job-state"]


async def test_another_word_is_refused(rest: Rest) -> None:
    with pytest.raises(RefuseError, match="expected held"):
        await rest.plan(only="all")
