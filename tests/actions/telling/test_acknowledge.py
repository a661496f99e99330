"""A-14: who, until when, why; seen by every cockpit of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.telling.acknowledge import Acknowledge
from cockpit.model.plan import Outcome, Request
from cockpit.store.alerts import Alerts
from cockpit.store.launches import Endings
from cockpit.store.store import run_key
from tests.actions.resting import RUN, Rest, blocks, job

KEY = f"C-01:{RUN}"


@pytest.fixture
def rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Acknowledge())
    world.save(100)
    (tmp_path / "exit").write_text("1\n")
    return world


async def key_of(rest: Rest) -> str:
    report = await rest.look(RUN)
    return next(alert.key for alert in report.alerts if alert.id == "C-01")


async def test_it_is_taken_where_every_cockpit_looks(rest: Rest) -> None:
    key = await key_of(rest)
    result = await rest.act("ack toy", key=key, by="bob", until="2h", reason="on it")
    assert result.outcome is Outcome.DONE, result.message
    (kept,) = Alerts(rest.store).open(run_key(rest.file.path, RUN))
    taken = kept.alert.acknowledged
    assert taken is not None and taken.by == "bob, typed by ada"
    assert taken.until is not None and abs(taken.until - taken.at - 7200) < 1
    report = await rest.look(RUN)
    assert next(a for a in report.alerts if a.key == key).acknowledged == taken


async def test_an_agent_takes_it_for_nobody_but_itself(rest: Rest) -> None:
    key, agent = await key_of(rest), "agent:sonnet"
    for by in ("ada", "agent:other"):
        asked = Request(action="ack", run=RUN, operator=agent, params={"key": key, "by": by})
        with pytest.raises(RefuseError, match="as itself alone"):
            await rest.service.plan(asked)
    own = asked.model_copy(update={"params": {"key": key, "by": agent}})
    facts = (await rest.service.plan(own)).facts
    assert facts["by"] == agent


async def test_until_now_gives_it_back(rest: Rest) -> None:
    key = await key_of(rest)
    await rest.act("ack toy", key=key)
    result = await rest.act("ack toy", key=key, until="now")
    assert result.outcome is Outcome.DONE, result.message
    report = await rest.look(RUN)
    assert next(a for a in report.alerts if a.key == key).acknowledged is None


async def test_a_key_that_is_not_open_is_told_with_those_that_are(rest: Rest) -> None:
    key = await key_of(rest)
    assert key in blocks(await rest.plan(key="C-99:toy"))["alert"]


async def test_the_end_is_acknowledged_and_can_be_taken_back(rest: Rest) -> None:
    key = run_key(rest.file.path, RUN)
    assert (await rest.act("ack toy", key="end")).outcome is Outcome.DONE
    assert len(Endings(rest.store).acknowledged(key)) == 1
    assert (await rest.act("ack toy", key="end", until="now")).outcome is Outcome.DONE
    assert not Endings(rest.store).acknowledged(key)


async def test_a_running_job_has_no_end_to_acknowledge(rest: Rest) -> None:
    (rest.folder / "exit").unlink()
    rest.platform.living = (job(),)
    assert "end" in blocks(await rest.plan(key="end"))


@pytest.mark.parametrize("until", ["soon", "2026-99-99", "-2h", "2x", "\x1b[31m"])
async def test_a_time_that_is_none_is_refused(rest: Rest, until: str) -> None:
    with pytest.raises(RefuseError, match="expected a time"):
        await rest.plan(key="end", until=until)


async def test_a_moment_is_taken_as_it_is(rest: Rest) -> None:
    key = await key_of(rest)
    await rest.act("ack toy", key=key, until="2099-03-11T09:00:00Z")
    (kept,) = Alerts(rest.store).open(run_key(rest.file.path, RUN))
    assert kept.alert.acknowledged is not None
    at = datetime(2099, 3, 11, 9, tzinfo=UTC).timestamp()
    assert kept.alert.acknowledged.until == at
