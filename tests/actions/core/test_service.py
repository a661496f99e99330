"""The one way in which anything is done: words, changes, approvals, at most once."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.wiring import build_service
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Accepted, LaunchState, Live, LookUp, Submission
from cockpit.model.plan import Basis, Check, Level, Outcome, Plan, Request, StepResult, StepState
from cockpit.model.records import Claim, Recorded
from cockpit.model.run import RunSpec
from cockpit.records.lease.state import this_holder
from cockpit.runtime.process import process_facts
from cockpit.store.journal import WORDS_FOR, Busy, Holder, Journal
from cockpit.store.store import StoreError, run_key
from cockpit.verbs.history import read
from cockpit.watch.engine import Engine
from tests.actions.toys import RUN, WORDS, World, approval, block, lost, request
from tests.platforms.stand_in import StandIn
from tests.watch.fakes import World as Fleet


async def test_a_plan_changes_nothing_and_acting_on_its_words_does_it_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    assert (plan.words, plan.blocked, world.platform.started) == (WORDS, False, [])
    told: list[StepResult] = []
    result = await world.service.act(request(), WORDS, shown=plan.plan_id, on_step=told.append)
    assert result.outcome is Outcome.DONE
    assert result.recorded
    assert (result.launch_id, result.job_id) == ("toy-i001", "toy-i001")
    assert [(s.name, s.state) for s in result.steps] == [
        (name, StepState.DONE) for name in ("stop", "submit", "count", "log")
    ]
    assert [s.state for s in told] == [StepState.BEGUN, StepState.DONE] * 4
    assert world.platform.living == ["toy-i001"]
    again = await world.service.act(request(), WORDS, shown=plan.plan_id)
    assert again.outcome is Outcome.REFUSED
    assert world.platform.started == ["toy-i001"]


@pytest.mark.parametrize("words", ["", "relaunch", "relaunch to", f"{WORDS} ", f"{WORDS}!", "yes"])
async def test_only_the_exact_words_count(tmp_path: Path, words: str) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    result = await world.service.act(request(), words, shown=plan.plan_id)
    exact = words.strip() == WORDS
    assert (result.outcome is Outcome.DONE) == exact
    assert bool(world.platform.started) == exact


async def test_a_plan_nobody_was_shown_and_one_of_other_options_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    result = await world.service.act(request(), WORDS, shown="0123456789ab")
    assert result.outcome is Outcome.REFUSED
    plan = await world.service.plan(request(save="yes"))
    assert (
        await world.service.act(request(), WORDS, shown=plan.plan_id)
    ).outcome is Outcome.REFUSED
    assert world.platform.started == []


async def test_a_change_since_the_plan_was_shown_stops_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    (world.platform.folder / "stranger").write_text("live")
    result = await world.service.act(request(), WORDS, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert "changed since it was shown" in result.message
    assert world.platform.living == ["stranger"]
    assert not (tmp_path / "claim").exists(), "the claim is given back"


async def test_a_figure_that_moves_by_itself_does_not_stop_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    steps = iter(range(100, 200))

    def moves() -> None:
        world.toy.checks = (
            Check(
                id="step", level=Level.PASS, text=f"at {next(steps)}", basis=Basis.OBSERVED,
                moves=True,
            ),
        )  # fmt: skip

    world.toy.at_planning = moves
    plan = await world.service.plan(request())
    result = await world.service.act(request(), WORDS, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE


@pytest.mark.parametrize("overridable", [True, False])
async def test_blocks_can_be_approved_by_name_only_where_that_is_allowed(
    tmp_path: Path, overridable: bool
) -> None:
    world = World(tmp_path)
    world.toy.checks = (block("C-15", overridable=overridable),)
    assert (await world.service.plan(request())).blocked
    refused = await world.service.act(request(), WORDS)
    assert refused.outcome is Outcome.REFUSED
    assert "C-15 is wrong" in refused.message
    approved = await world.service.plan(request(), [approval("C-15")])
    assert approved.blocked != overridable
    result = await world.service.act(request(), WORDS, [approval("C-15")])
    assert (result.outcome is Outcome.DONE) == overridable
    if overridable:
        entry = (await world.service.history(RUN))[-1]
        given = [check.approved for check in entry.plan.checks if check.approved]
        assert [one.by for one in given] == ["bob"], "who approved is in the journal"


async def test_a_refused_repeat_offers_no_words_that_would_be_refused_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    world.toy.checks = (block("C-15", overridable=True),)
    offer = f'confirm the new plan with "{WORDS}"'
    refused = await world.service.act(request(), WORDS, shown=plan.plan_id)
    assert refused.outcome is Outcome.REFUSED
    assert refused.message.endswith("; plan again") and offer not in refused.message
    taken = [approval("C-15")]
    refused = await world.service.act(request(), WORDS, taken, shown=plan.plan_id)
    assert offer not in refused.message, "that plan did not show the block"
    assert "approval of C-15 not counted" in refused.message
    assert (await world.service.act(request(), WORDS, taken)).outcome is Outcome.DONE


async def test_what_was_killed_is_told_as_interrupted_not_under_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    journal, key = Journal(world.store), run_key(world.file.path, RUN)
    me = this_holder()
    for holder in (me.model_copy(update={"ticks": 1}), Holder(host="another-host", pid=1)):
        journal.begin(key, plan, "ada", holder, 5.0, exclusive=False)
    past = read(world.store, key, RunSpec(name=RUN), None)
    for told in (past.actions, await world.service.history(RUN)):
        assert [each.text for each in told] == [
            "interrupted", "begun on another machine, no end known",
        ]  # fmt: skip


async def test_what_a_stopped_cockpit_holds_is_told_with_what_lets_it_go_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    journal, key = Journal(world.store), run_key(world.file.path, RUN)
    child = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        facts = process_facts(child.pid)
        mine = {"pid": child.pid, "ticks": facts.ticks, "started_at": facts.started_at}
        holder = this_holder().model_copy(update=mine)
        journal.begin(key, plan, "ada", holder, 5.0, exclusive=True)
        (going,) = await world.service.interrupted(RUN)
        assert "in progress, by ada" in going.text and "stopped" not in going.text
        os.kill(child.pid, signal.SIGSTOP)
        for _ in range(500):
            if process_facts(child.pid).stopped:
                break
            await asyncio.sleep(0.01)
        (halted,) = await world.service.interrupted(RUN)
        assert halted.text.endswith(f"is stopped (kill -CONT {child.pid} lets it go on)")
        refused = await world.service.act(request(), WORDS)
        assert refused.outcome is Outcome.REFUSED and not world.platform.started
    finally:
        child.kill()
        await child.wait()


async def test_the_approved_plan_is_what_is_journaled(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.toy.checks = (block("C-15", overridable=True), block("C-18:lr", overridable=True))
    await world.service.act(request(), WORDS, [approval("C-15")])
    assert world.platform.started == []
    await world.service.act(request(), WORDS, [approval("C-15"), approval("C-18:lr")])
    assert world.platform.started == ["toy-i001"], "what was refused has used no launch id"


async def test_read_only_offers_nothing(tmp_path: Path) -> None:
    World(tmp_path)
    world = World(tmp_path, read_only=True)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.REFUSED
    assert "read-only" in result.message
    assert world.platform.started == []


async def test_a_lost_answer_is_unknown_and_stands_in_the_way_until_it_is_looked_up(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.platform.answer = lost
    world.platform.blind = True
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.UNKNOWN
    assert world.platform.living == ["toy-i001"], "the job did start"
    world.platform.answer = lambda: None
    for _ in range(2):
        blocked = await world.service.plan(request())
        assert blocked.blocked
        assert "does not answer" in blocked.checks[0].text
        assert blocked.checks[0].text.endswith(
            "before anything else is done; check by hand for toy-i001"
        )
        assert (await world.service.act(request(), WORDS)).outcome is Outcome.REFUSED
    assert world.platform.started == ["toy-i001"]
    world.platform.blind = False
    settled = await world.service.recover(RUN)
    assert [(one.outcome, one.job_id) for one in settled] == [(Outcome.DONE, "toy-i001")]
    entry = (await world.service.history(RUN))[0]
    assert (entry.outcome, entry.job_id, entry.recorded) == (Outcome.DONE, "toy-i001", True)
    assert len(world.recorder.lines) == 1, "what was done is recorded after all"


async def test_a_lost_answer_of_a_submit_that_never_came_is_found_absent(tmp_path: Path) -> None:
    world = World(tmp_path)

    def vanish() -> None:
        (world.platform.folder / "toy-i001").unlink()
        lost()

    world.platform.answer = vanish
    world.platform.blind = True
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.UNKNOWN
    world.platform.answer = lambda: None
    world.platform.blind = False
    settled = await world.service.recover(RUN)
    assert [one.outcome for one in settled] == [Outcome.FAILED]
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i002"], "a launch id is never given out twice"


async def test_what_was_accepted_is_journaled_before_it_is_let_go(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def at(point: str) -> None:
        if point == "submit:accepted":
            (entry,) = Journal(world.store).unfinished(run_key(world.file.path, RUN))
            seen.append(entry.facts)
            assert world.platform.started == []

    world = World(tmp_path, at=at)
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE
    assert [facts["accepted"] for facts in seen] == ["toy-i001"]


async def test_what_the_platform_wants_to_know_again_is_journaled_and_told_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, told = World(tmp_path), []
    accept, look_up = world.platform.accept, world.platform.look_up

    async def accepts(run: RunSpec, submission: Submission) -> Accepted:
        accepted = await accept(run, submission)
        return accepted.model_copy(update={"handle": {"nonce": "n1"}})

    async def looks(
        run: RunSpec, launch_id: str, handle: dict[str, str], *, settle: bool
    ) -> LookUp:
        told.append((launch_id, handle, settle))
        return await look_up(run, launch_id)

    monkeypatch.setattr(world.platform, "accept", accepts)
    monkeypatch.setattr(world.platform, "look_up", looks)
    world.platform.answer = lost
    world.platform.blind = True
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.UNKNOWN
    await world.service.interrupted(RUN)
    world.platform.blind = False
    await world.service.recover(RUN)
    assert {launch for launch, _, _ in told} == {"toy-i001"}
    assert all(handle == {"nonce": "n1"} for _, handle, _ in told)
    assert [settle for _, _, settle in told][-2:] == [False, True], "a reader closes nothing"


async def test_what_nobody_can_tell_any_more_is_for_a_person_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)

    async def forgot(run: RunSpec, launch_id: str, *_: object, **__: object) -> LookUp:
        return LookUp(found=LaunchState.UNKNOWN, text="it has forgotten its jobs", final=True)

    world.platform.answer = lost
    with monkeypatch.context() as patch:
        patch.setattr(world.platform, "look_up", forgot)
        assert (await world.service.act(request(), WORDS)).outcome is Outcome.UNKNOWN
        world.platform.answer = lambda: None
        (world.platform.folder / "toy-i001").write_text("ended")
        assert (await world.service.act(request(), WORDS)).outcome is Outcome.REFUSED
        answered = await world.service.act(request(), WORDS, [approval("journal:1")])
    assert answered.outcome is Outcome.DONE, answered.message
    was = Journal(world.store).entry(1)
    assert was is not None and was.outcome is Outcome.FAILED
    assert "says that it is over" in was.message and "forgotten" in was.message
    assert not (await world.service.plan(request())).blocked, "asked once, not each time"


async def test_what_a_look_up_has_cancelled_is_never_let_go(tmp_path: Path) -> None:
    """Between accept and go anybody may look it up: then the late ``go`` is refused."""

    def at(point: str) -> None:
        if point == "submit:accepted":
            look = world.platform.look_up(world.file.runs[0], "toy-i001")
            with suppress(StopIteration):
                look.send(None)

    world = World(tmp_path, at=at)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED and "cancelled meanwhile" in result.message
    assert world.platform.started == []
    assert (await World(tmp_path).service.act(request(), WORDS)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i002"]


async def test_a_failed_step_ends_it_and_is_recorded(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.toy.stop_fails = True
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED
    assert [step.name for step in result.steps] == ["stop", "log"]
    assert "failed: stop: it will not die" in world.recorder.lines[0]
    assert world.platform.started == []


async def test_what_could_not_be_recorded_is_done_again_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.recorder.trouble = "push rejected"
    result = await world.service.act(request(), WORDS)
    assert (result.outcome, result.recorded) == (Outcome.DONE, False)
    world.recorder.trouble = None
    await world.service.recover(RUN)
    assert len(world.recorder.lines) == 1
    assert (await world.service.history(RUN))[0].recorded
    assert await world.service.interrupted(RUN) == ()


async def test_two_cockpits_at_once_start_one_job(tmp_path: Path) -> None:
    """Two cockpits, and two keypresses in each, on one store: the lease lets one through."""
    first, second = World(tmp_path), World(tmp_path)
    plan = await first.service.plan(request())
    await second.service.plan(request())
    presses = [
        service.act(request(), WORDS, shown=plan.plan_id)
        for service in (first.service, second.service, first.service, second.service)
    ]
    results = await asyncio.gather(*presses)
    assert sorted(result.outcome.value for result in results) == ["done", *["refused"] * 3]
    assert first.platform.started == ["toy-i001"]


async def test_two_machines_at_once_start_one_job(tmp_path: Path) -> None:
    """Two stores that know nothing of one another: the claim that both can see decides."""
    worlds = [World(tmp_path, me=name, store_name=f"{name}.sqlite") for name in ("a", "b")]
    results = await asyncio.gather(*(world.service.act(request(), WORDS) for world in worlds))
    assert sorted(result.outcome.value for result in results) == ["done", "refused"]
    assert worlds[0].platform.started == ["toy-i001"]


async def test_without_a_claim_the_plan_says_that_a_second_machine_cannot_be_excluded(
    tmp_path: Path,
) -> None:
    plan = await World(tmp_path, guarded=False).service.plan(request())
    assert [(c.id, c.level) for c in plan.checks] == [("second-machine", Level.WARN)], plan.checks


async def test_an_approval_typed_before_its_block_was_shown_counts_for_nothing(
    tmp_path: Path,
) -> None:
    """``--approve second-machine`` typed just in case took a living claim."""
    world = World(tmp_path)
    over = [approval("second-machine")]
    await world.service.plan(request())
    (tmp_path / "claim").write_text("another machine")
    refused = await world.service.act(request(), WORDS, over)
    assert refused.outcome is Outcome.REFUSED
    assert "no plan has shown this block to you as it stands now" in refused.message
    assert (tmp_path / "claim").read_text() == "another machine"
    (tmp_path / "claim").write_text("a third machine")
    refused = await world.service.act(request(), WORDS, over)
    assert refused.outcome is Outcome.REFUSED, "the other one was shown, not this one"
    assert (tmp_path / "claim").read_text() == "a third machine"
    assert (await world.service.act(request(), WORDS, over)).outcome is Outcome.DONE


async def test_a_claim_that_cannot_be_taken_is_passed_over_by_who_was_told_so(
    tmp_path: Path,
) -> None:
    """Only the taking finds out; the refusal shows the block that may be approved then."""
    world = World(tmp_path)
    over = [approval("second-machine")]
    taking = world.guard.take

    async def cannot(*args: Any, over: bool) -> Claim:
        level = "warn" if over else "block"
        return Claim(level=level, text="the claim cannot be put: read-only")

    world.guard.take = cannot  # type: ignore[assignment,method-assign]
    await world.service.plan(request())
    refused = await world.service.act(request(), WORDS, over)
    assert refused.outcome is Outcome.REFUSED and "read-only" in refused.message
    assert (await world.service.act(request(), WORDS, over)).outcome is Outcome.DONE
    world.guard.take = taking  # type: ignore[method-assign]


async def test_a_claim_that_appears_between_the_plan_and_the_act_is_not_taken(
    tmp_path: Path,
) -> None:
    def at(point: str) -> None:
        if point == "begun":
            (tmp_path / "claim").write_text("a third machine")

    world = World(tmp_path, at=at)
    over = [approval("second-machine")]
    for held in (None, "another machine"):
        if held is not None:
            (tmp_path / "claim").write_text(held)
        await world.service.plan(request())
        refused = await world.service.act(request(), WORDS, over)
        assert refused.outcome is Outcome.REFUSED
        assert (tmp_path / "claim").read_text() == "a third machine"
        (tmp_path / "claim").unlink()
    assert world.platform.started == []


async def test_an_approval_that_nothing_needs_is_said_to_be_none(tmp_path: Path) -> None:
    result = await World(tmp_path).service.act(request(), WORDS, [approval("C-15")])
    assert result.outcome is Outcome.DONE
    assert result.message.endswith("approval of C-15 not counted: it blocks nothing here")


async def test_a_claim_that_somebody_left_can_be_taken_over_by_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "claim").write_text("another machine")
    refused = await world.service.act(request(), WORDS)
    assert refused.outcome is Outcome.REFUSED
    assert "another machine holds it" in refused.message
    result = await world.service.act(request(), WORDS, [approval("second-machine")])
    assert result.outcome is Outcome.DONE


async def test_a_full_disk_before_the_act_stops_it_and_leaves_no_trap(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    with world.store.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("CREATE TABLE filler AS SELECT zeroblob(100000000) AS b")
    world.toy.checks = (_wide(),)
    result = await world.service.act(request(), WORDS, shown=plan.plan_id)
    assert result.outcome is not Outcome.DONE
    assert world.platform.started == []
    with world.store.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE


def _wide() -> Check:
    return Check(id="wide", level=Level.PASS, text="w" * 200_000, basis=Basis.OBSERVED)


async def test_a_run_and_an_action_that_do_not_exist_are_refused_in_one_line(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    with pytest.raises(RefuseError, match="has no run"):
        await world.service.plan(request().model_copy(update={"run": "other\x1b[31m"}))
    with pytest.raises(RefuseError, match="no action"):
        await world.service.plan(request().model_copy(update={"action": "explode"}))


async def test_another_machine_that_shares_the_store_is_not_taken_for_dead(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = await world.service.plan(request())
    key = run_key(world.file.path, RUN)
    journal = Journal(world.store)
    there = Holder(host="another-host", pid=1)
    journal.begin(key, plan, "bob", there, 5.0, exclusive=True, launch_id="toy-i007")
    with pytest.raises(Busy):
        journal.begin(key, plan, "ada", there, 6.0, exclusive=True)
    seen = await world.service.plan(request())
    assert seen.blocked
    assert "another machine" in seen.checks[0].text
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.REFUSED
    assert world.platform.started == []


async def test_what_a_lost_machine_left_is_no_trap_once_somebody_answers_for_it(
    tmp_path: Path,
) -> None:
    """A container that was made anew, a machine that burnt down: its submit is looked up first."""
    world = World(tmp_path)
    plan = await world.service.plan(request())
    journal, key = Journal(world.store), run_key(world.file.path, RUN)
    there = Holder(host="another-host", pid=1)
    left = journal.begin(key, plan, "bob", there, 5.0, exclusive=True, launch_id="toy-i007")
    begun = StepResult(name="submit", state=StepState.BEGUN, at=6.0)
    journal.step(left.number, 1, begun)
    (tmp_path / "jobs" / "toy-i007").write_text("live")
    other = await world.service.act(request(), WORDS, [approval("second-machine")])
    assert other.outcome is Outcome.REFUSED
    result = await world.service.act(request(), WORDS, [approval(f"journal:{left.number}")])
    assert result.outcome is Outcome.DONE, result.message
    was = journal.entry(left.number)
    assert was is not None
    assert (was.outcome, was.job_id) == (Outcome.DONE, "toy-i007")
    assert "says that it is over" in was.message
    assert world.platform.living == ["toy-i008"]


async def test_an_entry_of_another_version_is_looked_up_and_no_trap(tmp_path: Path) -> None:
    """Its plan cannot be read here; what it submitted, and its lease, must not be hidden by it."""
    world = World(tmp_path)
    plan = await world.service.plan(request())
    journal, key = Journal(world.store), run_key(world.file.path, RUN)
    dead = Holder(**{**dict(this_holder()), "ticks": 1})
    left = journal.begin(key, plan, "bob", dead, 5.0, exclusive=True, launch_id="toy-i007")
    journal.step(left.number, 1, StepResult(name="submit", state=StepState.BEGUN, at=6.0))
    with world.store.writing() as connection:
        connection.execute("UPDATE actions SET plan = '{\"schema\": 99}'")
    (tmp_path / "jobs" / "toy-i007").write_text("live")
    settled = await world.service.recover(RUN)
    assert [(one.outcome, one.job_id) for one in settled] == [(Outcome.DONE, "toy-i007")]
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE
    assert [one.job_id for one in await world.service.history(RUN)] == ["toy-i007", "toy-i008"]


async def test_a_store_that_is_removed_meanwhile_stops_the_action(tmp_path: Path) -> None:
    """Nothing is submitted that no journal would know of."""
    world = World(tmp_path, at=lambda point: _removed(tmp_path) if point == "planned" else None)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is not Outcome.DONE
    assert world.platform.started == []
    assert (await World(tmp_path).service.act(request(), WORDS)).outcome is Outcome.DONE


def _removed(folder: Path) -> None:
    for path in folder.glob("store-here.sqlite*"):
        path.unlink()


async def test_what_another_machine_launched_since_is_not_launched_beside(tmp_path: Path) -> None:
    """Nothing but the claim is the same for both: what lives there cannot be seen from here."""
    world = World(tmp_path)
    world.guard.elsewhere = "box-a, pid 7"
    plan = await world.service.plan(request())
    assert [c.id for c in plan.checks if c.stands_in_the_way] == ["launched-elsewhere"]
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.REFUSED
    assert world.platform.started == []
    over = [approval("launched-elsewhere")]
    assert (await world.service.act(request(), WORDS, over)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i005"]
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE


class _Jumping(SystemClock):
    """A wall clock that somebody sets while the cockpit acts."""

    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
@pytest.mark.parametrize("point", ["begun", "claimed", "planned", "submit:begun", "submit:did"])
async def test_a_clock_that_jumps_at_any_point_starts_no_second_job(
    tmp_path: Path, jump: float, point: str
) -> None:
    clock, rivals = _Jumping(), []

    def at(now: str) -> None:
        if now == point:
            clock.shift += jump
            rivals.append(asyncio.ensure_future(rival.service.act(request(), WORDS)))

    world = World(tmp_path, clock=clock, at=at)
    rival = World(tmp_path, clock=clock)
    event = world.recorder.event

    async def once_the_rival_is_done(*entry: Any) -> Recorded:
        await asyncio.wait(rivals)  # on a busy machine it would come when all is over, and may act
        return await event(*entry)

    world.recorder.event = once_the_rival_is_done  # type: ignore[assignment,method-assign]
    await world.service.act(request(), WORDS)
    for each in rivals:
        assert (await each).outcome is Outcome.REFUSED
    assert len(rivals) == 1
    assert world.platform.started == ["toy-i001"]
    assert world.platform.living == ["toy-i001"]


class Mute(StandIn):
    """A platform that cannot tell what lives."""

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        return {run.name: Live(unknown="nobody answers") for run in runs}


async def test_what_reads_a_job_is_what_acts_on_it() -> None:
    fleet, platform = Fleet("r"), Mute()
    sources = replace(fleet.sources, platform_of=lambda run: platform)
    engine = Engine(fleet.file, store=None, clock=fleet.clock, sources=sources)
    service = build_service(lambda: fleet.file, engine, None, fleet.clock, operator="ada")
    plan = await service.plan(Request(action="stop", run="r", operator="ada"))
    (check,) = [check for check in plan.checks if check.id == "job-state"]
    assert "nobody answers" in check.text


def test_plans_are_kept_for_as_long_as_their_words_hold_and_not_for_days(tmp_path: Path) -> None:
    world = World(tmp_path)
    journal = Journal(world.store)
    first = Plan(words="w", plan_id="p", action="stop", run="toy", made_at=1e9)
    journal.keep_plan("toy", first)
    journal.keep_plan("toy", first.model_copy(update={"made_at": 1e9 + WORDS_FOR}))
    assert len(journal.plans("toy", "stop", 0.0)) == 2
    journal.keep_plan("toy", first.model_copy(update={"made_at": 1e9 + 2.5 * WORDS_FOR}))
    assert [each.made_at - 1e9 for each in journal.plans("toy", "stop", 0.0)] == [
        2.5 * WORDS_FOR, WORDS_FOR,
    ]  # fmt: skip


def _anew(folder: Path) -> World:
    folder.mkdir()
    return World(folder)


async def test_a_journal_that_is_full_never_says_unknown_of_what_was_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the n-th write on it takes nothing: what is told is what happened, for every n."""
    writes = 0
    full_at = 10**6

    def counted(name: str) -> None:
        real = getattr(Journal, name)

        def write(self: Journal, *words: Any, **more: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes >= full_at:
                raise StoreError("the disk is full")
            return real(self, *words, **more)

        monkeypatch.setattr(Journal, name, write)

    for each in ("step", "note", "recorded", "end"):
        counted(each)
    whole = _anew(tmp_path / "whole")
    assert (await whole.service.act(request(), WORDS)).outcome is Outcome.DONE
    total, seen = writes, set[Outcome]()
    for full_at in range(1, total + 1):
        writes = 0
        world = _anew(tmp_path / str(full_at))
        result = await world.service.act(request(), WORDS)
        started = bool(world.platform.started)
        told = {Outcome.FAILED, Outcome.REFUSED}
        assert (result.outcome in told) is not started, f"{full_at}: {result.message}"
        assert started or not list(world.platform.held.iterdir()), f"{full_at}: left held"
        seen.add(result.outcome)
    assert seen >= {Outcome.FAILED, Outcome.UNKNOWN}
