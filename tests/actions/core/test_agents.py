"""An agent that acts: within the run file, after its grace, unless a person stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cockpit.actions.core import agents
from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.open_plans import OpenPlans
from cockpit.actions.core.service import ActionService
from cockpit.config.file import load
from cockpit.model.acts import LATE, TAKEN_HOLDS, VETO_HOLDS, Stage
from cockpit.model.plan import Outcome, Plan, Request, Result, StepResult
from cockpit.model.run import AgentsSpec, RunAgentsSpec, RunSpec
from cockpit.notify.message import NobodyReachedError
from cockpit.runtime.private_folder import machine_tag
from cockpit.store.launches import AgentRecords
from cockpit.store.store import StoreError, run_key
from cockpit.watch.past import timeline
from tests.actions.toys import RUN, WORDS, NoNotifier, World, approval, block
from tests.watch.fakes import SteppedClock

AGENT = "agent:sonnet"


class HookedClock(SteppedClock):
    """Time passes by sleeping; ``hooks`` are called at their time."""

    def __init__(self) -> None:
        super().__init__(speed=1e9)
        self.hooks: dict[float, Callable[[], object]] = {}
        self.passed = 0.0

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.passed += seconds
        for at in [each for each in self.hooks if each <= self.passed]:
            found = self.hooks.pop(at)()
            if asyncio.iscoroutine(found):
                await found


def world(folder: Path, may: tuple[str, ...] = ("relaunch",), **more: object) -> World:
    made = World(folder, clock=HookedClock())
    agents = AgentsSpec.model_validate({"may": may, "grace": 60.0, **more})
    made.file = made.file.model_copy(update={"agents": agents})
    return made


def asks(operator: str = AGENT) -> Request:
    return Request(action="relaunch", run=RUN, operator=operator)


def records(made: World) -> AgentRecords:
    return AgentRecords(made.store)


def key(made: World) -> str:
    return run_key(made.file.path, RUN)


def hooks(made: World) -> dict[float, Callable[[], object]]:
    assert isinstance(made.clock, HookedClock)
    return made.clock.hooks


async def planned(made: World) -> Plan:
    return await made.service.plan(asks())


async def acted(made: World, plan: Plan, told: list[StepResult] | None = None) -> Result:
    listen = [] if told is None else told
    return await made.service.act(asks(), WORDS, shown=plan.plan_id, on_step=listen.append)


def stages(made: World) -> list[tuple[Stage, str | None]]:
    return [(act.stage, act.by) for act in records(made).acts(key(made))]


async def test_an_agent_does_what_the_run_file_allows_once_its_grace_is_over(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    assert not plan.blocked
    told: list[StepResult] = []
    result = await acted(made, plan, told)
    assert (result.outcome, made.platform.started) == (Outcome.DONE, ["toy-i001"])
    assert isinstance(made.clock, HookedClock)
    assert made.clock.passed >= 60.0
    assert [step.name for step in told][:2] == ["grace", "grace"]
    assert stages(made) == [(Stage.ENDED, None)]
    (entry,) = await made.service.history(RUN)
    assert entry.operator == AGENT


@pytest.mark.parametrize("own", [None, RunAgentsSpec(may=("log",))])
async def test_what_is_not_allowed_is_blocked_and_nobody_can_approve_it(
    tmp_path: Path, own: RunAgentsSpec | None
) -> None:
    made = world(tmp_path, may=("log",) if own is None else ("relaunch",))
    if own is not None:
        runs = tuple(run.model_copy(update={"agents": own}) for run in made.file.runs)
        made.file = made.file.model_copy(update={"runs": runs})
    plan = await made.service.plan(asks(), [approval("agents")])
    check = next(each for each in plan.checks if each.id == "agents")
    assert check.stands_in_the_way
    assert not check.overridable
    assert "relaunch is for a person to do" in check.text
    result = await made.service.act(asks(), WORDS, [approval("agents")], shown=plan.plan_id)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])


async def test_a_block_stays_whoever_an_agent_says_approves_it(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.toy.checks = (block("C-09", overridable=True),)
    plan = await planned(made)
    given = [approval("C-09")]
    result = await made.service.act(asks(), WORDS, given, shown=plan.plan_id)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])


async def test_an_edit_of_the_run_file_within_the_grace_counts(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = await planned(made)

    def forbid() -> None:
        made.file = made.file.model_copy(update={"agents": AgentsSpec(may=())})

    hooks(made)[30.0] = forbid
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])


async def test_a_veto_stops_it_and_holds_for_every_agent_but_for_no_person(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    other = World(tmp_path, clock=made.clock)
    hooks(made)[20.0] = lambda: other.service.veto(RUN, "ada", "not tonight")
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "vetoed by ada (not tonight)" in result.message
    assert stages(made) == [(Stage.VETOED, "ada")]
    again = await made.service.plan(asks("agent:other"))
    assert [check.id for check in again.checks if check.stands_in_the_way] == ["veto"]
    assert not (await made.service.plan(asks("ada"))).blocked
    await made.clock.sleep(VETO_HOLDS + 1)
    assert not (await made.service.plan(asks("agent:other"))).blocked


async def test_a_person_who_plans_or_acts_takes_the_run_over(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    other = World(tmp_path, clock=made.clock)
    theirs: list[Plan] = []

    async def turns_to_it() -> None:
        theirs.append(await other.service.plan(asks("ada")))

    hooks(made)[20.0] = turns_to_it
    result = await acted(made, plan)
    assert result.outcome is Outcome.REFUSED
    assert "taken over by ada (plans relaunch)" in result.message
    (told,) = [check.text for check in theirs[0].checks if check.id == "agent"]
    assert told == f"{AGENT} waited to relaunch this run and was stopped: you have taken it over"
    held = await planned(made)
    assert [check.id for check in held.checks if check.stands_in_the_way] == ["veto"]
    done = await other.service.act(asks("ada"), WORDS, shown=theirs[0].plan_id)
    assert done.outcome is Outcome.DONE


async def test_of_two_agents_on_one_run_one_waits_and_the_other_is_refused(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    other = World(tmp_path, clock=made.clock)
    other.file = made.file
    theirs: list[Result] = []

    async def second() -> None:
        rival = asks("agent:rival")
        shown = await other.service.plan(rival)
        theirs.append(await other.service.act(rival, WORDS, shown=shown.plan_id))

    hooks(made)[10.0] = second
    result = await acted(made, plan)
    assert result.outcome is Outcome.DONE
    assert theirs[0].outcome is Outcome.REFUSED
    assert f"{AGENT} waits to relaunch toy already" in theirs[0].message
    assert made.platform.started == ["toy-i001"]


async def test_an_agent_that_goes_away_within_its_grace_has_done_nothing(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    acting = asyncio.ensure_future(acted(made, plan))
    hooks(made)[20.0] = acting.cancel
    with pytest.raises(asyncio.CancelledError):
        await acting
    assert stages(made)[-1] == (Stage.WITHDRAWN, None)
    assert made.platform.started == []
    assert await made.service.history(RUN) == ()


async def test_a_process_that_stood_still_past_its_grace_does_nothing_any_more(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    plan = await planned(made)
    hooks(made)[59.0] = lambda: made.clock.sleep(LATE + 10)
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "stood still" in result.message


async def test_one_that_was_killed_while_it_waited_is_no_hindrance_and_can_not_be_vetoed(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    now = made.clock.now()
    records(made).wait(key(made), "agent:dead", "relaunch", "0" * 12, now, now + 60)
    await made.clock.sleep(60 + LATE + 1)
    assert (await made.service.veto(RUN, "ada")).lines == []
    assert (await acted(made, await planned(made))).outcome is Outcome.DONE
    told = records(made).acts(key(made))[0]
    assert "never seen to begin" in told.text


async def test_a_store_that_cannot_be_written_when_it_would_begin_lets_nothing_begin(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    plan = await planned(made)

    def fill() -> None:
        with made.store.writing() as connection:
            connection.execute("ALTER TABLE agent_acts RENAME TO gone")

    hooks(made)[59.0] = fill
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "the journal cannot be written" in result.message


async def test_what_began_only_in_a_store_whose_answer_was_lost_is_not_told_as_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, begin = world(tmp_path), AgentRecords.begin

    def lost(self: AgentRecords, number: int, now: float) -> None:
        begin(self, number, now)
        raise StoreError("the journal did not answer within 5 s")

    plan = await planned(made)
    monkeypatch.setattr(AgentRecords, "begin", lost)
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    (told,) = records(made).acts(key(made))
    assert (told.stage, told.going_on(made.clock.now(), "V")) == (Stage.WITHDRAWN, "")
    assert "did not answer" in told.said


async def test_an_act_that_failed_is_not_told_as_one_that_only_ended(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.toy.stop_fails = True
    result = await acted(made, await planned(made))
    assert result.outcome is Outcome.FAILED
    (told,) = records(made).acts(key(made))
    assert told.text.startswith(f"relaunch by {AGENT}: ended (failed: ")
    assert "it will not die" in told.text


class Bell(NoNotifier):
    """Keeps what was told; ``fault`` is raised instead, a ``hang`` never ends."""

    def __init__(self, fault: Exception | None = None, *, hang: bool = False) -> None:
        self.titles: list[str] = []
        self.fault = fault
        self.hang = hang

    async def send(self, run: RunSpec, event: str, title: str, body: str, severity: str) -> str:
        self.titles.append(f"{severity} {event} {title}. {body}")
        if self.hang:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return "told by ./page.sh"


@pytest.mark.parametrize(
    ("bell", "said"),
    [
        (Bell(), "nobody vetoed; told by ./page.sh"),
        (Bell(NobodyReachedError("nobody was reached: no route")), "nobody was reached: no route"),
        (Bell(ZeroDivisionError()), "telling failed: ZeroDivisionError"),
        (Bell(hang=True), "whether anybody was told is not known yet"),
    ],
)
async def test_people_are_told_before_it_begins_and_that_holds_nothing_up(
    tmp_path: Path, bell: Bell, said: str
) -> None:
    made = world(tmp_path)
    parts = replace(made.parts, notifier=lambda: bell)
    made.service = ActionService(lambda: made.file, parts, {"relaunch": made.toy})
    told: list[StepResult] = []
    assert (await acted(made, await planned(made), told)).outcome is Outcome.DONE
    assert said in str(told[1].note)
    (title,) = bell.titles
    assert title.startswith("alert agent-act:1 agent:sonnet will relaunch toy at 2027-")
    assert "cockpit veto toy stops it" in title


async def test_only_a_person_vetoes(tmp_path: Path) -> None:
    with pytest.raises(RefuseError):
        await world(tmp_path).service.veto(RUN, AGENT)


async def test_what_a_person_has_stopped_already_is_told_to_nobody_and_waits_for_nothing(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    plan, told = await planned(made), list[StepResult]()
    await made.service.veto(RUN, "ada", "not tonight")
    result = await acted(made, plan, told)
    assert (result.outcome, told) == (Outcome.REFUSED, [])
    assert "vetoed by ada (not tonight)" in result.message
    assert stages(made) == [(Stage.VETOED, "ada")]


async def test_a_person_who_planned_first_keeps_agents_off_for_a_while(tmp_path: Path) -> None:
    made = world(tmp_path)
    await made.service.plan(asks("ada"))
    held = await planned(made)
    assert [check.id for check in held.checks if check.stands_in_the_way] == ["veto"]
    assert (await acted(made, held)).outcome is Outcome.REFUSED
    await made.clock.sleep(TAKEN_HOLDS + 1)
    assert not (await planned(made)).blocked


async def test_a_veto_that_cannot_be_read_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(self: AgentRecords, *asked: object) -> None:
        raise StoreError("the store is locked")

    made = world(tmp_path)
    plan = await planned(made)
    hooks(made)[59.0] = lambda: monkeypatch.setattr(AgentRecords, "vetoed", locked)
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "whether a person holds agents off is not known" in result.message


async def test_a_clock_that_is_set_within_the_grace_lets_nothing_begin_that_none_can_veto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path)
    plan, real = await planned(made), made.clock.now
    hooks(made)[20.0] = lambda: monkeypatch.setattr(made.clock, "now", lambda: real() + 3600)
    hooks(made)[30.0] = lambda: made.service.veto(RUN, "ada")
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "the clock was set" in result.message


async def test_a_grace_begins_with_the_act_whenever_it_was_planned(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan, told = await planned(made), list[StepResult]()
    await made.clock.sleep(600.0)
    began = made.clock.now()
    await acted(made, plan, told)
    assert told[0].at >= began


async def test_a_grace_of_hours_is_seen_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "LOOK_EVERY", 10.0)  # 14,400 looks would show no more
    made = world(tmp_path, grace=7200.0)
    plan, seen = await planned(made), list[str]()

    def look() -> None:
        seen.extend(act.agent for act in records(made).current(key(made), made.clock.now()))

    hooks(made)[7000.0] = look
    await acted(made, plan)
    assert seen == [AGENT]


def test_what_was_killed_as_it_began_is_in_the_timeline(tmp_path: Path) -> None:
    made = world(tmp_path)
    now = made.clock.now()
    act = records(made).wait(key(made), AGENT, "relaunch", "0" * 12, now, now + 60)
    records(made).begin(act.number, now + 60)
    found = timeline(made.store, key(made), made.file.runs[0], None, now + 90)
    (told,) = [each.text for each in found.happenings]
    assert told == f"relaunch by {AGENT}: begun, not seen to end"


@pytest.mark.parametrize("text", ['[agents]\nmay = ["log"]\n', "[agents]\nmay = [\n", None])
async def test_the_run_file_that_lies_there_has_the_last_word_whatever_is_in_use(
    tmp_path: Path, text: str | None
) -> None:
    made, path = world(tmp_path), tmp_path / "edited.toml"
    same = {"runs": made.file.runs}
    parts = replace(made.parts, reread=lambda: load(path).model_copy(update=same))
    made.service = ActionService(lambda: made.file, parts, {"relaunch": made.toy})
    good = f'[agents]\nmay = ["relaunch"]\n[[run]]\nname = "{RUN}"\n'
    path.write_text(good)
    assert (await acted(made, await planned(made))).outcome is Outcome.DONE
    plan = await planned(made)
    run = f'[[run]]\nname = "{RUN}"\n'
    hooks(made)[90.0] = lambda: path.unlink() if text is None else path.write_text(text + run)
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, ["toy-i001"])
    assert stages(made)[-1] == (Stage.WITHDRAWN, None)


@pytest.mark.parametrize("who", ["a veto", "a person who acts", "another agent"])
async def test_one_that_stood_still_right_before_it_begins_does_not_begin_after_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Past ``LATE`` there is nothing left to veto: then nothing of it may come any more."""
    made, real = world(tmp_path), AgentRecords.begin

    def stood_still(self: AgentRecords, number: int, now: float) -> object:
        later = now + LATE + 1
        if who == "another agent":
            self.wait(key(made), "agent:other", "relaunch", "p", later, later + 60)
        elif who == "a veto":
            assert self.stop(key(made), "ada", "", later, Stage.VETOED) == ()
        elif self.waiting(key(made)):
            assert self.stop(key(made), "ada", "", later, Stage.TAKEN_OVER) == ()
        return real(self, number, now)

    plan = await planned(made)
    monkeypatch.setattr(AgentRecords, "begin", stood_still)
    result = await acted(made, plan)
    assert (result.outcome, made.platform.started) == (Outcome.REFUSED, [])
    assert "never seen to begin" in result.message
    assert stages(made)[0] == (Stage.WITHDRAWN, None)


ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys, time
from pathlib import Path
from cockpit.actions.core.open_plans import OpenPlans
from cockpit.runtime.private_folder import machine_tag
held = OpenPlans(Path(sys.argv[1]), "/data/cockpit.toml").hold("relaunch", "run-a", 17.0)
print("held", flush=True)
time.sleep(60)
"""


def test_what_a_killed_cockpit_was_planning_is_left_once(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    plans = OpenPlans(tmp_path, "/data/cockpit.toml")
    assert plans.left() == []  # it lives
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert OpenPlans(tmp_path, "/data/other.toml").left() == []
    (found,) = plans.left()
    assert (found.note.action, found.note.run, found.note.at) == ("relaunch", "run-a", 17.0)
    assert plans.left() == []  # somebody is telling of it
    found.release()
    (again,) = plans.left()
    again.forget()
    assert plans.left() == [] and list(tmp_path.rglob("*.plan")) == []


def test_a_file_that_is_no_note_is_taken_away(tmp_path: Path) -> None:
    here = tmp_path / machine_tag()
    here.mkdir()
    (here / "torn.plan").write_text('{"file": "/data')
    assert OpenPlans(tmp_path, "/data/cockpit.toml").left() == []
    assert list(here.iterdir()) == []


def test_another_machine_s_lock_may_not_be_seen_so_its_plans_are_not_told_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = OpenPlans(tmp_path, "/data/cockpit.toml")
    plans.hold("relaunch", "run-a", 17.0).release()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    assert OpenPlans(tmp_path, "/data/cockpit.toml").left() == []
    (found,) = plans.left()
    found.forget()
