"""A-4: newer checkpoints are rejected for good, and the trainer cannot load them either."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.stopping.rollback import Rollback
from cockpit.model.observed import CheckpointState
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.store.launches import Rejections
from cockpit.store.store import Store, run_key
from tests.actions.resting import RUN, Rest, blocks, job
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
