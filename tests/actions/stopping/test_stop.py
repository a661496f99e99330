"""A-5: exactly the jobs that were shown, after saying what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.stopping.stop import Stop, save_within
from cockpit.model.facet import known
from cockpit.model.observed import JobValue, Phase
from cockpit.model.place import place_of
from cockpit.model.plan import Level, Outcome, StepResult, StepState
from cockpit.model.report import RunReport
from cockpit.model.run import JobSpec
from cockpit.records.lease.holder import this_holder
from cockpit.store.journal import Journal
from cockpit.store.store import run_key
from tests.actions.contexts import NOW, context, done, entry
from tests.actions.resting import RUN, Rest, blocks, job
from tests.sources.checkpoints.trees import levanter


@pytest.fixture
def rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Stop())
    world.save(100, 200)
    world.platform.living = (job("pid:7"),)
    world.platform.spared = (job("pid:8"),)
    (tmp_path / "exit").unlink()
    return world


async def test_it_names_what_dies_and_what_does_not(rest: Rest) -> None:
    plan = await rest.plan()
    assert plan.words.startswith("stop toy")
    assert (plan.stops, plan.spares) == (("pid:7",), ("pid:8",))
    assert plan.facts["stops"] == "pid:7"
    assert not plan.blocked


async def test_exactly_that_is_stopped_and_the_journal_knows_who_did_it(rest: Rest) -> None:
    plan = await rest.plan()
    rest.platform.spared = (job("pid:8"), job("pid:9"))
    result = await rest.act(plan.words)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["pid:7"]
    entry = Journal(rest.store).last_stop(run_key(rest.file.path, RUN), "pid:7")
    assert entry is not None and entry.operator == "ada"
    assert "stopped by ada: pid:7" in rest.book.entries[0].status


async def test_what_starts_by_itself_after_it_is_named(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Rest.look

    async def queued(self: Rest, run: str) -> RunReport:
        found = await looked(self, run)
        value = JobValue(id="pid:7", state="running", phase=Phase.RUNNING, queued=(job("slurm:8"),))
        facets = found.facets.model_copy(update={"job": known(value, "test", 1.0)})
        return found.model_copy(update={"facets": facets})

    monkeypatch.setattr(Rest, "look", queued)
    again = Rest(rest.folder, Stop())
    again.platform.living = rest.platform.living
    plan = await again.plan()
    (check,) = [check for check in plan.checks if check.id == "queued"]
    assert "slurm:8" in check.text and "starts by itself" in check.text
    assert (check.value, plan.stops, plan.blocked) == ("slurm:8", ("pid:7",), False)
    assert (await again.act(plan.words)).outcome is Outcome.DONE
    assert again.book.entries[-1].next == "slurm:8 starts by itself now"


async def test_one_that_was_killed_while_it_was_recorded_is_recorded_by_the_next(
    rest: Rest,
) -> None:
    """What was done counts as done, and the logbook gets its entry, once."""
    plan = await rest.plan()
    journal, key = Journal(rest.store), run_key(rest.file.path, RUN)
    dead = this_holder().model_copy(update={"ticks": 1})
    left = journal.begin(key, plan, "ada", dead, 5.0, exclusive=True, launch_id=None)
    for place, name in enumerate(("evidence", "save", "stop")):
        journal.step(left.number, place, StepResult(name=name, state=StepState.DONE, at=6.0))
    journal.note(left.number, dict(plan.facts))
    journal.step(left.number, 3, StepResult(name="log", state=StepState.BEGUN, at=7.0))
    (settled,) = await rest.service.recover(RUN)
    ended = journal.entry(left.number)
    assert ended is not None and ended.outcome is Outcome.DONE and ended.recorded
    assert "interrupted in log" in settled.text
    assert len(rest.book.entries) == 1
    assert await rest.service.recover(RUN) == ()


async def test_a_job_that_appeared_since_stops_the_stop(rest: Rest) -> None:
    plan = await rest.plan()
    rest.platform.living = (job("pid:7"), job("pid:10"))
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert rest.platform.stopped == []


async def test_nothing_alive_and_nothing_known_block(rest: Rest) -> None:
    rest.platform.living = ()
    assert "nothing of this run is alive" in blocks(await rest.plan())["job-state"]
    rest.platform.unknown = "no answer"
    assert "not known" in blocks(await rest.plan())["job-state"]


async def test_a_job_that_will_not_die_is_a_failure_not_a_success(rest: Rest) -> None:
    rest.platform.stubborn = True
    plan = await rest.plan()
    result = await rest.act(plan.words)
    assert result.outcome is Outcome.FAILED
    assert "still alive" in result.message


async def test_asked_to_save_first_it_waits_for_the_checkpoint(tmp_path: Path) -> None:
    world = _saving(tmp_path)
    world.platform.on_save = lambda: levanter(world.root, 300)
    plan = await world.plan(save_first="yes")
    assert plan.can_save_first
    result = await world.act(plan.words, save_first="yes")
    assert result.outcome is Outcome.DONE, result.message
    assert (world.platform.saved, world.platform.stopped) == (["pid:7"], ["pid:7"])
    saved = next(step for step in result.steps if step.name == "save")
    assert saved.state is StepState.DONE and "300" in (saved.note or "")


async def test_without_the_checkpoint_nothing_is_stopped(tmp_path: Path) -> None:
    world = _saving(tmp_path, clock=Hasty())
    plan = await world.plan(save_first="yes")
    result = await world.act(plan.words, save_first="yes")
    assert result.outcome is Outcome.FAILED
    assert "nothing was stopped" in result.message
    assert world.platform.stopped == []


async def test_a_trainer_that_cannot_save_blocks_the_wish(rest: Rest) -> None:
    told = blocks(await rest.plan(save_first="yes"))["save"]
    assert told == "it has no way to save", "the platform says why"
    rest.platform.living = ()
    plan = await rest.plan(save_first="yes")
    assert "nothing lives" in blocks(plan)["save"] and not plan.can_save_first


def test_how_long_a_save_may_take_is_learned_from_former_ones() -> None:
    assert save_within(context()) == 120.0
    former = entry("stop", NOW - 900, done("evidence", NOW - 900), done("save", NOW - 600))
    failed = entry(
        "stop", NOW - 900, done("evidence", NOW - 900), done("save", NOW, StepState.FAILED)
    )
    assert save_within(context(entries=[former, failed])) == 600.0


async def test_the_words_of_a_healthy_run_hold_its_step(rest: Rest) -> None:
    (rest.folder / "run.pid").write_text(_own_pid())
    (rest.folder / "run.log").write_text("step 450/500 loss=2.0\n")
    spec = rest.spec.job
    assert spec is not None
    changed = spec.model_copy(update={"pid_file": place_of(str(rest.folder / "run.pid"))})
    rest.spec = rest.spec.model_copy(update={"job": changed})
    plan = await rest.plan()
    report = await rest.look(RUN)
    assert report.verdict.value == "healthy", report.alerts
    assert plan.words == "stop toy 450"
    assert plan.loses is not None and plan.loses.startswith("250 steps since step 200")
    (rest.folder / "run.log").write_text("step 450/500 loss=2.0\nstep 460/500 loss=2.0\n")
    result = await rest.act("stop toy 450")
    assert result.outcome is Outcome.DONE, result.message
    health = next(check for check in plan.checks if check.id == "health")
    assert health.level is Level.WARN


class Hasty:
    """A clock whose waiting costs no time."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def _saving(folder: Path, **more: Any) -> Rest:
    spec = JobSpec(kind="local", log=str(folder / "run.log"), save_signal="USR1")
    world = Rest(folder, Stop(), job=spec, **more)
    world.save(100, 200)
    world.platform.living = (job("pid:7"),)
    return world


def _own_pid() -> str:
    import os

    return f"{os.getpid()}\n"
