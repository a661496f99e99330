"""What starts by itself after a job is named by its stop, and cancelled with it when wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.actions.stopping.rollback import Rollback
from cockpit.actions.stopping.stop import Stop
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import JobValue, Phase
from cockpit.model.plan import Level, Outcome, Plan, StepState
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.platforms.base import LostError
from cockpit.store.journal import Journal
from cockpit.store.launches import Stops
from cockpit.store.store import run_key
from tests.actions.resting import RUN, Rest, SetJobs, blocks, job


def queued(name: str, why: str, **more: str | None) -> LiveJob:
    return LiveJob(id=name, name=name, why=why, **{"handle": {"job": name}, **more})


NEXT = queued("8", "afternotok:7")
LAST = queued("9", "afterany:8")


class Chain(SetJobs):
    """Jobs of which one waits for the end of another: it starts when that ends, however it does."""

    def __init__(self) -> None:
        super().__init__()
        self.queued: tuple[LiveJob, ...] = (NEXT, LAST)
        self.deaf = False

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        if self.deaf:
            raise LostError("no answer within 30 s")
        for one in jobs:
            self.stopped.append(one.id)
            self.living = tuple(each for each in self.living if each.id != one.id)
            self._free(one.id)

    def _free(self, ended: str) -> None:
        self.queued = tuple(each for each in self.queued if each.id != ended)
        freed = tuple(each for each in self.queued if each.why.endswith(f":{ended}"))
        self.living += freed
        self.queued = tuple(each for each in self.queued if each not in freed)


class ChainedRest(Rest):
    """A run whose job 7 has what a ``Chain`` says behind it."""

    platform: Chain
    lost = False

    async def look(self, run: str) -> RunReport:
        found = await super().look(run)
        phase = Phase.RUNNING if self.platform.living else Phase.FAILED
        value = JobValue(id="7", state="s", phase=phase, queued=self.platform.queued)
        facet = known(value, "test", self.clock.now())
        if self.lost:
            facet = unknown(ErrorKind.TIMEOUT, "squeue gave no answer", "test", self.clock.now())
        facets = found.facets.model_copy(update={"job": facet})
        return found.model_copy(update={"facets": facets})


@pytest.fixture
def rest(tmp_path: Path) -> ChainedRest:
    world = ChainedRest(tmp_path, Stop())
    world.save(100)
    world.platform = Chain()
    world.platform.living = (job("7"),)
    (tmp_path / "exit").unlink()
    return world


def said(plan: Plan) -> list[tuple[Level, str]]:
    return [(check.level, check.text) for check in plan.checks if check.id == "queued"]


async def test_without_the_wish_they_are_named_with_what_cancels_them(rest: ChainedRest) -> None:
    plan = await rest.plan()
    assert (plan.stops, plan.spares, plan.blocked) == (("7",), ("8", "9"), False)
    (level, text), _ = said(plan)
    assert level is Level.WARN and "8 (afternotok:7) starts by itself" in text
    assert "--successors yes cancels it too" in text and plan.can_cancel_next
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.platform.stopped == ["7"]
    assert rest.book.entries[-1].next == "8, 9 starts by itself now"


async def test_one_that_waits_for_a_success_is_not_said_to_start(rest: ChainedRest) -> None:
    rest.platform.queued = (NEXT.model_copy(update={"needs_success": True}), LAST)
    plan = await rest.plan()
    assert "8 (afternotok:7) waits for its success: it never starts" in said(plan)[0][1]
    assert plan.spares == ("8", "9")
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.book.entries[-1].next == "9 starts by itself now"


async def test_waiting_tasks_of_the_array_that_is_stopped_are_cancelled_with_it(
    rest: ChainedRest,
) -> None:
    """Its number means all of its tasks: none of them is said to be spared."""
    rest.platform.queued = (NEXT.model_copy(update={"part_of": "7"}), LAST)
    plan = await rest.plan()
    assert "8 (afternotok:7) is cancelled too: a stop of 7 ends all" in said(plan)[0][1]
    assert (plan.stops, plan.spares) == (("7", "8"), ("9",))
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.platform.stopped == ["8", "7"]
    assert rest.book.entries[-1].next == "9 starts by itself now"


async def test_what_waits_is_not_stopped_where_it_is_listed_as_a_job_too(rest: ChainedRest) -> None:
    """Asked by the job in the run file, a platform knows not which job it waits for."""
    rest.platform.living = (job("7"), NEXT, LAST.model_copy(update={"started_at": 5.0}))
    plan = await rest.plan()
    assert plan.stops == ("7", "9"), "the last has begun: it lives"
    assert plan.spares == ("8",)
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.platform.stopped == ["7", "9"]


async def test_with_it_they_are_cancelled_first_and_none_starts_in_between(
    rest: ChainedRest,
) -> None:
    plan = await rest.plan(successors="yes")
    assert plan.words == (await rest.plan()).words, "the words are those of every stop"
    assert (plan.stops, plan.spares) == (("7", "8", "9"), ())
    assert [level for level, _ in said(plan)] == [Level.PASS, Level.PASS]
    result = await rest.act(plan.words, successors="yes")
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["9", "8", "7"], "no end has freed a next one"
    assert rest.platform.living == ()
    entry = rest.book.entries[-1]
    assert "stopped by ada: 7, 8, 9" in entry.status
    assert entry.next == "relaunch when it may continue"
    key = run_key(rest.file.path, RUN)
    assert Stops(rest.store).of(key)[0].job_ids == ("7", "8", "9")
    assert Journal(rest.store).last_stop(key, "9") is not None, "its end is no failure"


async def test_a_plan_without_them_does_not_cancel_them(rest: ChainedRest) -> None:
    plan = await rest.plan()
    refused = await rest.service.act(
        rest.request(successors="yes"), plan.words, shown=plan.plan_id
    )  # fmt: skip
    assert refused.outcome is Outcome.REFUSED and rest.platform.stopped == []


async def test_what_queues_since_the_plan_stops_the_stop(rest: ChainedRest) -> None:
    plan = await rest.plan(successors="yes")
    rest.platform.queued += (queued("10", "afterany:9"),)
    wish = rest.request(successors="yes")
    refused = await rest.service.act(wish, plan.words, shown=plan.plan_id)
    assert refused.outcome is Outcome.REFUSED and rest.platform.stopped == []


async def test_one_that_has_begun_meanwhile_is_stopped_too_and_nothing_that_came(
    rest: ChainedRest,
) -> None:
    plan = await rest.plan(successors="yes")

    def at(point: str) -> None:
        if point == "save:begun":  # the job ends by itself, and one more is queued
            rest.platform.living = (NEXT,)
            rest.platform.queued = (LAST, queued("10", "singleton"))

    wish = rest.request(successors="yes")
    result = await rest.another(at=at).act(wish, plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["9", "8"]
    assert rest.book.entries[-1].next == "10 starts by itself now"


async def test_of_a_job_that_is_over_what_waits_can_be_cancelled(rest: ChainedRest) -> None:
    rest.platform.living = ()
    assert "no job of this run is alive" in blocks(await rest.plan())["job-state"]
    plan = await rest.plan(successors="yes")
    assert not plan.blocked and plan.stops == ("8", "9")
    assert plan.loses is None and "loses" not in {check.id for check in plan.checks}
    assert rest.action.measured(plan, await rest.look(RUN)) == plan
    assert plan.summary == (
        "Cancels 8 and 9, which would start by itself. No running job is stopped."
    )
    result = await rest.act(plan.words, successors="yes")
    assert result.outcome is Outcome.DONE, result.message
    assert rest.platform.stopped == ["9", "8"]
    assert "stopped by ada: 8, 9" in rest.book.entries[-1].status
    assert {step.name: step.note for step in result.steps}["stop"] == "nothing was running"
    assert Stops(rest.store).of(run_key(rest.file.path, RUN))[0].job_ids == ("8", "9")


async def test_the_job_is_left_alone_where_one_could_not_be_cancelled(rest: ChainedRest) -> None:
    plan = await rest.plan(successors="yes")
    rest.platform.deaf = True
    result = await rest.act(plan.words, successors="yes")
    assert result.outcome is Outcome.UNKNOWN
    assert {step.name: step.state for step in result.steps}["successors"] is StepState.UNKNOWN
    assert rest.platform.stopped == [] and rest.platform.living == (job("7"),)
    assert rest.book.entries[-1].title == "stop: not finished"


async def test_one_that_stays_is_a_failure_and_the_job_goes_on(rest: ChainedRest) -> None:
    plan = await rest.plan(successors="yes")
    rest.platform._free = lambda ended: None  # type: ignore[method-assign]
    result = await rest.act(plan.words, successors="yes")
    assert result.outcome is Outcome.FAILED
    assert "the job was not stopped" in result.message
    assert "7" not in rest.platform.stopped


async def test_a_loop_of_a_shell_has_words_and_no_wish(rest: ChainedRest) -> None:
    loop = queued("pid:3", "run again by the loop of pid 3", beyond="end it yourself (kill 3)")
    rest.platform.queued = (loop,)
    plan = await rest.plan()
    assert not plan.can_cancel_next and said(plan)[0][1].endswith("; end it yourself (kill 3)")
    wished = await rest.plan(successors="yes")
    assert (wished.stops, wished.spares) == (("7",), ("pid:3",))
    told = blocks(wished)["queued"]
    assert told.endswith("cannot be cancelled from here: end it yourself (kill 3)")


async def test_what_cannot_be_told_is_not_taken_for_nothing(rest: ChainedRest) -> None:
    rest.lost = True
    assert "squeue gave no answer" in blocks(await rest.plan(successors="yes"))["queued"]
    rest.lost = False
    plan = await rest.plan(successors="yes")

    def at(point: str) -> None:
        rest.lost = rest.lost or point == "save:done"

    wish = rest.request(successors="yes")
    result = await rest.another(at=at).act(wish, plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.UNKNOWN and rest.platform.stopped == []


@pytest.mark.parametrize("point", ["successors:begun", "successors:did", "stop:begun"])
async def test_one_that_was_cut_short_is_told_as_far_as_it_came(
    rest: ChainedRest, point: str
) -> None:
    plan = await rest.plan(successors="yes")

    def at(now: str) -> None:
        if now == point:
            raise KeyboardInterrupt  # here the process dies

    wish = rest.request(successors="yes")
    with pytest.raises(KeyboardInterrupt):
        await rest.another(at=at).act(wish, plan.words, shown=plan.plan_id)
    (settled,) = await rest.another().recover(RUN)
    assert settled.outcome is Outcome.FAILED, "the job lives: it did not come to its end"
    assert rest.platform.living == (job("7"),)
    cancelled = [] if point == "successors:begun" else ["9", "8"]
    assert rest.platform.stopped == cancelled
    ended = (await rest.another().history(RUN))[-1].step("successors")
    assert ended is not None
    assert (ended.state is StepState.DONE) == bool(cancelled)


async def test_nothing_is_rolled_back_while_one_would_start_by_itself(tmp_path: Path) -> None:
    world = ChainedRest(tmp_path, Rollback())
    world.save(100, 200)
    world.platform = Chain()
    told = blocks(await world.plan(to="100", reason="spike"))["queued"]
    assert "cockpit stop toy --successors yes" in told
