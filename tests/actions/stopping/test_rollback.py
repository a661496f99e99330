"""A-4: newer checkpoints are rejected for good, and the trainer cannot load them either.

What a stop would lose, and how much more than was shown is another loss.

``stop --only held``: what a launch has left is cancelled, and nothing that runs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.stopping.losses import lost_of
from cockpit.actions.stopping.rollback import Rollback
from cockpit.actions.stopping.stop import Stop
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import CheckpointState
from cockpit.model.plan import Loss, Outcome
from cockpit.model.report import Progress, RunReport
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.store.launches import Rejections, Stops
from cockpit.store.store import Store, run_key
from tests.actions.contexts import item, listing, report
from tests.actions.resting import RUN, Rest, blocks, job
from tests.rules.making import run_spec
from tests.sources.checkpoints.trees import levanter, put

COMMAND = "train --init {checkpoint}"


@pytest.fixture
def rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Rollback())
    world.save(100, 200, 300, 400)
    world.save(450, temporary=True)
    return world


async def test_it_blocks_while_the_trainer_would_load_another_one(rest: Rest) -> None:
    plan = await rest.plan(to="300", move="no")
    assert plan.words == "rollback toy 300"
    assert list(blocks(plan)) == ["C-17"]
    assert "step 450, not 300" in blocks(plan)["C-17"]
    assert "--move yes" in blocks(plan)["C-17"]
    assert [target.step for target in plan.targets] == [400, 450]
    assert plan.checkpoint is not None and plan.checkpoint.step == 300
    assert (await rest.act("rollback toy 300", to="300", move="no")).outcome is Outcome.REFUSED
    assert (await rest.listing()).latest_complete == 450


async def test_unless_told_it_moves_them_aside_where_nothing_else_would_do(rest: Rest) -> None:
    plan = await rest.plan(to="300")
    assert not plan.blocked
    assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 300
    assert "moved aside" in plan.targets[0].why


async def test_moved_aside_neither_we_nor_the_trainer_take_them(rest: Rest) -> None:
    plan = await rest.plan(to="300", move="yes")
    assert not plan.blocked
    assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 300
    result = await rest.act(plan.words, to="300", move="yes")
    assert (result.outcome, result.recorded) == (Outcome.DONE, True), result.message
    assert "step-400" not in rest.names() and "step-450" not in rest.names()
    aside = sorted(path.parent.name for path in rest.folder.glob("out/*/rejected-*/step-*"))
    assert len(aside) == 2 and all(name.startswith("rejected-20") for name in aside)
    value = await rest.listing()
    assert value.latest_complete == 300
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 300


async def test_a_named_checkpoint_needs_no_move(tmp_path: Path) -> None:
    world = Rest(tmp_path, Rollback(), resubmit=COMMAND)
    world.save(300, 400)
    result = await world.act("rollback toy 300", to="300")
    assert result.outcome is Outcome.DONE, result.message
    value = await world.listing()
    assert value.relaunch_from is not None and value.relaunch_from.step == 300
    assert [item.state for item in value.items] == [
        CheckpointState.COMPLETE, CheckpointState.REJECTED,
    ]  # fmt: skip
    assert "rejected by ada" in (value.items[1].note or "")
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 400


@pytest.mark.parametrize("forgotten", ["store", "marks", "logbook"])
async def test_a_fresh_cockpit_knows_from_what_is_left(tmp_path: Path, forgotten: str) -> None:
    world = Rest(tmp_path, Rollback(), resubmit=COMMAND)
    world.save(300, 400)
    assert (await world.act("rollback toy 300", to="300")).outcome is Outcome.DONE
    if forgotten == "store":
        world.store = Store(tmp_path / "empty.sqlite")
    if forgotten == "marks":
        shutil.rmtree(world.root / ".cockpit")
    if forgotten == "logbook":
        world.logbook.unlink()
    assert (await world.listing()).latest_complete == 300


async def test_the_logbook_alone_is_enough(tmp_path: Path) -> None:
    world = Rest(tmp_path, Rollback(), resubmit=COMMAND)
    world.save(300, 400)
    await world.act("rollback toy 300", to="300")
    shutil.rmtree(world.root / ".cockpit")
    world.store = Store(tmp_path / "empty.sqlite")
    assert (await world.listing()).latest_complete == 300
    world.logbook.unlink()
    assert (await world.listing()).latest_complete == 400


async def test_the_root_alone_is_enough(tmp_path: Path) -> None:
    world = Rest(tmp_path, Rollback(), resubmit=COMMAND)
    world.save(300, 400)
    await world.act("rollback toy 300", to="300")
    value = list_checkpoints([str(world.root)], now=0.0)
    assert (value.latest_complete, value.items[1].state) == (300, CheckpointState.REJECTED)
    (world.root / ".cockpit" / "rejected.json").write_text("{ half")
    with pytest.raises(ValueError, match="cannot be parsed"):
        list_checkpoints([str(world.root)], now=0.0)


async def test_what_is_saved_there_later_is_a_new_one(rest: Rest) -> None:
    await rest.act("rollback toy 300", to="300", move="yes")
    later = max(one.at for one in Rejections(rest.store).of(run_key(rest.file.path, RUN))) + 60
    levanter(rest.root, 400, at=later)
    value = await rest.listing()
    assert value.latest_complete == 400


@pytest.mark.parametrize("live", ["job", "unknown", "running"])
async def test_it_blocks_unless_nothing_is_known_to_live(rest: Rest, live: str) -> None:
    if live == "job":
        rest.platform.living = (job(),)
    if live == "unknown":
        rest.platform.unknown = "the process table does not answer"
    if live == "running":
        (rest.folder / "exit").unlink()
    assert "job-state" in blocks(await rest.plan(to="300", move="yes"))


async def test_only_a_complete_one_of_this_lineage_can_be_chosen(rest: Rest) -> None:
    levanter(rest.root, 350, marker=None)
    assert "incomplete" in blocks(await rest.plan(to="350", move="yes"))["checkpoint"]
    assert "no checkpoint of step 360" in blocks(await rest.plan(to="360"))["checkpoint"]
    await rest.act("rollback toy 200", to="200", move="yes")
    assert "no checkpoint of step 300" in blocks(await rest.plan(to="300"))["checkpoint"]
    assert "nothing is newer" in blocks(await rest.plan(to="200"))["rejected"]


async def test_a_rejected_one_cannot_be_gone_back_to(tmp_path: Path) -> None:
    world = Rest(tmp_path, Rollback(), resubmit=COMMAND)
    world.save(100, 200, 300)
    await world.act("rollback toy 100", to="100")
    assert "rejected by ada" in blocks(await world.plan(to="200"))["checkpoint"]


@pytest.mark.parametrize("to", ["", "x", "-1", "1e3", "../300", "٣"])
async def test_a_step_that_is_none_is_refused(rest: Rest, to: str) -> None:
    with pytest.raises(RefuseError, match="expected a step"):
        await rest.plan(to=to)


async def test_nothing_is_overwritten_when_the_day_has_one_of_that_name(rest: Rest) -> None:
    await rest.act("rollback toy 300", to="300", move="yes")
    first = next(rest.root.glob("rejected-*/step-400"))
    put(first / "mine", b"mine")
    levanter(rest.root, 400, at=rest.clock.now() + 10)
    stale = await rest.act("rollback toy 300", to="300", move="yes")
    assert stale.outcome is Outcome.REFUSED and "changed since it was shown" in stale.message
    await rest.plan(to="300", move="yes")
    result = await rest.act("rollback toy 300", to="300", move="yes")
    assert result.outcome is Outcome.DONE, result.message
    assert (first / "mine").read_bytes() == b"mine"
    assert len(list(rest.root.glob("rejected-*/step-400"))) == 2


async def test_a_root_that_may_not_be_written_blocks_the_move(rest: Rest, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    rest.root.chmod(0o500)
    try:
        assert "may not be written" in blocks(await rest.plan(to="300", move="yes"))["move"]
    finally:
        rest.root.chmod(0o700)


class Killed(BaseException):
    """The process dies here."""


async def test_killed_anywhere_it_is_safe_and_a_second_one_finishes(tmp_path: Path) -> None:
    points: list[str] = []
    whole = Rest(tmp_path / "all", Rollback())
    whole.save(300, 400, 450)
    service = whole.another(at=points.append)
    plan = await service.plan(whole.request(to="300", move="yes"))
    await service.act(whole.request(to="300", move="yes"), plan.words)
    inside = [point for point in points if ":" in point]
    assert {"reject:did", "mark:did", "intent:did", "move:did", "log:did"} <= set(inside)
    assert inside.index("mark:did") < inside.index("reject:did") < inside.index("move:begun")
    for number, fatal in enumerate(inside):
        await _killed_at(tmp_path / str(number), fatal)


async def _killed_at(folder: Path, fatal: str) -> None:
    world = Rest(folder, Rollback())
    world.save(300, 400, 450)

    def die(point: str) -> None:
        if point == fatal:
            raise Killed

    request = world.request(to="300", move="yes")
    with pytest.raises(Killed):
        await world.another(at=die).act(request, "rollback toy 300")
    value = await world.listing()
    if fatal != "mark:begun":
        assert value.latest_complete == 300, fatal
        there = list_checkpoints([str(world.root), str(world.temporary)], now=0.0)
        assert there.latest_complete == 300, f"another store, at {fatal}"
    assert value.latest_complete in (300, 450)
    await world.another().recover(RUN)
    _told_as_it_is(world, fatal)
    await world.another().plan(request)
    result = await world.another().act(request, "rollback toy 300")
    after = await world.listing()
    assert after.latest_complete == 300, (fatal, result)
    assert after.trainer_would_load is not None and after.trainer_would_load.step == 300, fatal


def _told_as_it_is(world: Rest, fatal: str) -> None:
    """What is public after the recovery: each entry once, and what it says of the disk is so."""
    titles = [entry.title.removeprefix("rollback to step 300") for entry in world.book.entries]
    aside = len(list(world.folder.glob("out/*/rejected-*/step-*")))
    whole = aside == 2
    last = "" if whole else ": not finished"
    assert titles == [" begun", last], fatal
    outcome = world.book.entries[-1].evidence.split("\n")[0]
    moved = "moved aside in the root" if whole else f"{aside} of 2 moved aside"
    assert outcome == f"2 newer checkpoints rejected, {moved}", fatal


async def test_a_pointer_that_names_a_moved_one_blocks(tmp_path: Path) -> None:
    spec = CheckpointSpec(path=(str(tmp_path / "out" / "checkpoints"),), layout="megatron")
    world = Rest(tmp_path, Rollback(), checkpoints=spec)
    for step in (300, 400):
        put(world.root / f"iter_{step:07d}" / "mp_rank_00" / "model.pt")
    put(world.root / "latest_checkpointed_iteration.txt", b"400")
    plan = await world.plan(to="300", move="yes")
    assert "C-17" in blocks(plan)


async def test_it_is_written_down(rest: Rest) -> None:
    await rest.act("rollback toy 300", to="300", move="yes", reason="loss spike at 320")
    begun, entry = rest.book.entries
    assert (begun.title, entry.title) == ("rollback to step 300 begun", "rollback to step 300")
    assert "moved aside" not in begun.evidence and "rejected checkpoint: step 400" in begun.said
    assert "moved aside in the root" in entry.evidence
    assert "loss spike at 320" in entry.decision
    marks = json.loads((rest.root / ".cockpit" / "rejected.json").read_text())
    assert [one["name"] for one in marks["rejected"]] == ["step-400"]


EVERY_HOUR = run_spec(checkpoints=CheckpointSpec(save_every=3600.0))


def told_by_its_log(step: int, eta: float | None, run: RunSpec = EVERY_HOUR) -> RunReport:
    """Return a run without a tracker, its one temporary checkpoint at step 100."""
    found = report(run, checkpoints=listing(item(100)))
    progress = Progress(
        step=step, step_source="log", final_step=10_100, final_step_source="run file",
        text=f"~{step}/10100", eta_s=eta,
    )  # fmt: skip
    return found.model_copy(update={"progress": progress})


def loss(step: int, eta: float | None, run: RunSpec = EVERY_HOUR) -> Loss:
    found = lost_of(told_by_its_log(step, eta, run))
    assert found is not None
    return found


def test_a_stop_right_after_a_save_holds_while_the_run_steps_on() -> None:
    """Half a second a step: 7,200 of them lie between two saves, of which one is left at most."""
    shown, now = loss(100, 5000.0), loss(110, 4995.0)
    assert (shown.count, now.count, now.worth) == (0, 10, 7200)
    assert "≈ 5s" in now.text
    assert not now.beyond(shown)
    assert loss(7301, 1399.5).beyond(shown)


@pytest.mark.parametrize(
    ("eta", "run"), [(None, EVERY_HOUR), (4995.0, run_spec(checkpoints=CheckpointSpec()))]
)
def test_without_pace_or_interval_the_figure_shown_is_the_measure(
    eta: float | None, run: RunSpec
) -> None:
    assert loss(110, eta, run).worth is None
    assert loss(110, eta, run).beyond(loss(100, eta, run))


@pytest.mark.parametrize(("step", "source"), [(100, "checkpoints: /c"), (90, "log")])
def test_a_step_that_only_the_checkpoint_tells_counts_none_of_those_after_it(
    step: int, source: str
) -> None:
    """The log is read later than the folder is listed: '0 steps' would be false."""
    found = told_by_its_log(step, None)
    progress = found.progress.model_copy(update={"step_source": source})
    lost = lost_of(found.model_copy(update={"progress": progress}))
    assert lost is not None
    assert (lost.count, lost.text) == (0, "what came after step 100 (no step seen since)")
    assert lost_of(told_by_its_log(100, None)) != lost


@pytest.fixture
def held_rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Stop())
    world.platform.living = (job("13"),)
    world.platform.held = (job("12"),)
    (tmp_path / "exit").unlink()
    return world


async def test_only_what_is_held_is_cancelled(held_rest: Rest) -> None:
    plan = await held_rest.plan(only="held")
    assert (plan.words, plan.stops, plan.spares) == ("stop toy held", ("12",), ("13",))
    assert plan.loses is None and not plan.blocked
    result = await held_rest.act(plan.words, only="held")
    assert result.outcome is Outcome.DONE, result.message
    assert held_rest.platform.stopped == ["12"]
    assert "never having run: 12" in held_rest.book.entries[0].status


async def test_what_was_let_go_meanwhile_is_not_said_to_be_cancelled(held_rest: Rest) -> None:
    held_rest.platform.held = (job("12"), job("14"))
    plan = await held_rest.plan(only="held")
    stop = held_rest.platform.stop

    async def let_go_before(run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        held_rest.platform.held = tuple(one for one in held_rest.platform.held if one.id != "14")
        held_rest.platform.living = (job("13"), job("14"))
        await stop(run, [one for one in jobs if one.id != "14"])

    held_rest.platform.stop = let_go_before  # type: ignore[method-assign]
    result = await held_rest.act(plan.words, only="held")
    assert result.outcome is Outcome.DONE, result.message
    assert held_rest.platform.stopped == ["12"]
    (entry,) = held_rest.book.entries
    assert entry.status.startswith("cancelled by ada, never having run: 12;")
    assert entry.status.endswith("not held any more, so not cancelled: 14")
    assert entry.next == "check whether what is no longer held is running"
    assert "stopped: `12`" in entry.said and "`14`" not in entry.said
    assert Stops(held_rest.store).of(run_key(held_rest.file.path, RUN))[0].job_ids == ("12",)


async def test_nothing_is_said_to_be_cancelled_where_all_was_let_go(held_rest: Rest) -> None:
    plan = await held_rest.plan(only="held")

    def let_go(point: str) -> None:
        held_rest.platform.held, held_rest.platform.living = (), (job("12"), job("13"))

    acting = held_rest.another(at=lambda point: let_go(point) if point == "stop:begun" else None)
    result = await acting.act(held_rest.request(only="held"), plan.words)
    assert result.outcome is Outcome.DONE, result.message
    assert held_rest.platform.stopped == []
    assert held_rest.book.entries[0].status == "not held any more, so not cancelled: 12"


async def test_a_plain_stop_leaves_it(held_rest: Rest) -> None:
    plan = await held_rest.plan()
    assert (plan.stops, plan.spares) == (("13",), ("12",))
    assert (await held_rest.act(plan.words)).outcome is Outcome.DONE
    assert held_rest.platform.stopped == ["13"]


async def test_nothing_held_is_nothing_to_cancel(held_rest: Rest) -> None:
    held_rest.platform.held = ()
    assert "no held job of this run" in blocks(await held_rest.plan(only="held"))["job-state"]
    held_rest.platform.unknown = "no answer"
    assert "no answer" in blocks(await held_rest.plan(only="held"))["job-state"]


async def test_another_word_is_refused(held_rest: Rest) -> None:
    with pytest.raises(RefuseError, match="expected held"):
        await held_rest.plan(only="all")


async def test_where_only_something_held_is_left_a_stop_says_what_cancels_it(
    held_rest: Rest,
) -> None:
    held_rest.platform.held, held_rest.platform.living = (job("12"),), ()
    plan = await held_rest.plan()
    (check,) = [each for each in plan.checks if each.id == "job-state"]
    assert plan.blocked and "is only held: cockpit stop toy --only held" in check.text
