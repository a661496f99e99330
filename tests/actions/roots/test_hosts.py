"""A-4 and A-6 on this machine and on an ssh host: the same renames and deletions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import Action
from cockpit.actions.retention import ways as acting
from cockpit.actions.retention.retain import Retain
from cockpit.actions.retention.ways import Move, RootError
from cockpit.actions.stopping.rollback import Rollback
from cockpit.hosts import link
from cockpit.hosts.here import call
from cockpit.hosts.link import link_to
from cockpit.model.facet import ErrorKind
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec
from cockpit.runtime.ssh import RemoteError
from tests.actions.resting import Rest, blocks
from tests.machines import Machine
from tests.machines import machine as machine
from tests.sources.checkpoints.trees import NOW, hugging_face, levanter, put
from tests.sshd import needs_sshd, reachable
from tests.waiting import until


def rest_of(machine: Machine, folder: Path, action: Action, *steps: int, keep: int = 1) -> Rest:
    rest = Rest(folder / "it's here", action, final_step=None)
    rest.save(*(steps or (100, 200, 300)))
    address = str(machine.at(rest.root))
    spec = CheckpointSpec(path=(address,), keep=keep, rollback_depth=1, save_every=900.0)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


async def test_newer_ones_are_moved_aside_and_marked_there(
    machine: Machine, tmp_path: Path
) -> None:
    rest = rest_of(machine, tmp_path, Rollback())
    plan = await rest.plan(to="200")
    assert not plan.blocked, blocks(plan)
    assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 200
    result = await rest.act(plan.words, to="200")
    assert (result.outcome, result.recorded) == (Outcome.DONE, True), result.message
    assert len(list(rest.root.glob("rejected-20*/step-300/metadata.json"))) == 1
    marks = json.loads((rest.root / ".cockpit/rejected.json").read_text())["rejected"]
    assert [one["name"] for one in marks] == ["step-300"]
    value = await rest.listing()
    assert value.latest_complete == 200
    rest.save(300)  # an older save at that place is of the rejected lineage all the same
    assert (await rest.listing()).latest_complete == 200


async def test_marks_of_others_stay_and_a_file_not_understood_is_left(
    machine: Machine, tmp_path: Path
) -> None:
    rest = rest_of(machine, tmp_path, Rollback(), 100, 200, 300, 400)
    await rest.act("rollback toy 300", to="300", move="yes")
    await rest.act("rollback toy 200", to="200", move="yes")
    path = rest.root / ".cockpit/rejected.json"
    marks = json.loads(path.read_text())["rejected"]
    assert [one["name"] for one in marks] == ["step-300", "step-400"]
    path.write_text("{ half")
    assert "cannot be parsed" in blocks(await rest.plan(to="100"))["checkpoint"]
    assert path.read_text() == "{ half"


async def test_a_move_that_did_not_come_back_is_unknown_and_found(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = rest_of(machine, tmp_path, Rollback())

    async def breaks(host: str | None, what: str, function: str, **more: Any) -> Any:
        done = await call(host, what, function, **more)
        if function == "move_save":
            raise RemoteError(ErrorKind.TIMEOUT, "self: the link broke off", sent=True)
        return done

    monkeypatch.setattr(acting, "call", breaks)
    result = await rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.UNKNOWN and "cannot tell whether" in result.message
    (_, entry) = rest.book.entries
    assert "step-300 -> " in entry.evidence, "it had moved, and that is what is logged"


async def test_what_was_listed_is_deleted_and_the_marker_first(
    machine: Machine, tmp_path: Path
) -> None:
    rest = rest_of(machine, tmp_path, Retain())
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy" and not plan.blocked, blocks(plan)
    rest.save(50)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.names() == {"step-50", "step-300"}


async def test_one_that_is_another_now_is_left(machine: Machine, tmp_path: Path) -> None:
    rest = rest_of(machine, tmp_path, Retain())
    plan = await rest.plan()
    levanter(rest.root, 200, at=NOW - 7200 + 205)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED and "is not the one that was listed" in result.message
    assert len(rest.names()) == 3


async def test_what_was_left_half_deleted_goes_with_the_next(
    machine: Machine, tmp_path: Path
) -> None:
    rest = rest_of(machine, tmp_path, Retain())
    (rest.root / "step-100").rename(rest.root / "step-100.deleting-abcdef")
    (rest.root / "step-100.deleting-abcdef" / "metadata.json").unlink()
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {200, None}
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.names() == {"step-300"}


async def test_a_link_is_no_checkpoint_to_delete(machine: Machine, tmp_path: Path) -> None:
    rest = rest_of(machine, tmp_path, Retain(), 200, 300)
    outside = levanter(tmp_path / "other", 100, at=NOW - 7200 + 100)
    (rest.root / "step-100").symlink_to(outside)
    plan = await rest.plan()
    spared = {target.path.rpartition("/")[2]: target.why for target in plan.keeps}
    assert "is a link" in spared.get("step-100", ""), spared
    await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert (outside / "metadata.json").exists()


async def test_what_is_named_there_stays(machine: Machine, tmp_path: Path) -> None:
    rest = Rest(tmp_path / "it's here", Retain(), final_step=None)
    for step in range(100, 601, 100):
        best = "out/checkpoint-200"
        at = NOW - 7200 + step
        hugging_face(rest.root, step, at=at, best_model_checkpoint=best, padding="x" * 9000)
    (rest.root / "serve").symlink_to("checkpoint-300")
    (rest.root / "gone").symlink_to("checkpoint-50")
    put(rest.root / "LATEST", "checkpoint-400\n")
    spec = CheckpointSpec(path=(str(machine.at(rest.root)),), layout="hf", keep=1, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {100, 500}
    kept = {target.step: target.why for target in plan.keeps}
    assert "the trainer's best" in kept[200] and "serve leads to it" in kept[300]
    assert "LATEST names it" in kept[400]
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert (rest.root / "serve" / "trainer_state.json").exists()


async def test_nothing_outside_a_root_is_deleted(machine: Machine, tmp_path: Path) -> None:
    inside, outside = levanter(tmp_path / "in", 1), levanter(tmp_path / "out", 1)
    ways = acting.FolderWays(machine.host, [machine.at(tmp_path / "in")])

    async def delete(path: str) -> None:
        address = str(machine.at(path))
        await ways.delete(address, await ways.identity(address, ()), "abcdef12", ())

    (tmp_path / "in" / "led").symlink_to(tmp_path / "out")
    for sly in (str(outside), f"{tmp_path}/in/../out/step-1", f"{tmp_path}/in/led/step-1"):
        with pytest.raises(RootError, match="not inside"):
            await delete(sly)
    with pytest.raises(RootError, match="not inside"):
        await delete(str(tmp_path / "in"))
    await delete(str(inside))
    assert outside.exists() and not inside.exists()


async def test_another_one_in_its_place_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    folder = levanter(tmp_path, 1)
    ways, address = acting.FolderWays(machine.host, [machine.at(tmp_path)]), machine.at(folder)
    was = await ways.identity(str(address), ())
    put(folder / "metadata.json", b"{}")
    with pytest.raises(RootError, match="has changed since it was listed"):
        await ways.delete(str(address), was, "abcdef12", ())
    assert folder.exists()


async def test_a_move_overwrites_nothing_and_goes_behind_no_link(
    machine: Machine, tmp_path: Path
) -> None:
    saved, other = levanter(tmp_path, 1), levanter(tmp_path / "rejected-1", 1)
    ways, was = acting.FolderWays(machine.host, [machine.at(tmp_path)]), str(machine.at(saved))
    with pytest.raises(RootError, match="is there already"):
        await ways.move(Move(was, str(machine.at(other))))
    (tmp_path / "rejected-2").symlink_to(tmp_path / "rejected-1")
    with pytest.raises(RootError, match="is a link"):
        await ways.move(Move(was, str(machine.at(tmp_path / "rejected-2" / "x"))))
    target = Move(was, str(machine.at(tmp_path / "rejected-3" / "step-1")))
    assert await ways.has_moved(target) is False
    await ways.move(target)
    assert await ways.has_moved(target) is True and not saved.exists()
    await ways.move(target)  # once more, after a lost answer


@needs_sshd
async def test_a_link_that_breaks_in_the_middle_of_a_deletion_leaves_it_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent ends with its link: what was begun has its new name, and goes with the next."""
    with reachable() as server:
        away = Machine(server.host)
        rest = rest_of(away, tmp_path, Retain())
        plan = await rest.plan()
        os.mkfifo(tmp_path / "gate")
        slow = (
            "import shutil\nrmtree = shutil.rmtree\n"
            f"shutil.rmtree = lambda path: open({str(tmp_path / 'gate')!r}).read()\n"
        )
        text = link._text
        monkeypatch.setattr(
            link, "_text", lambda name: text(name) + slow * (name == "cockpit.hosts.saves")
        )
        link._load.cache_clear()
        link_to(server.host).close()

        def cut() -> None:
            with (tmp_path / "gate").open("w"):
                server.signal(signal.SIGKILL)
                until(lambda: not server.sessions()[:-1])

        acted = rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
        result, _ = await asyncio.gather(acted, asyncio.to_thread(cut))
        monkeypatch.undo()
        link._load.cache_clear()
    assert result.outcome is Outcome.UNKNOWN and "broke off" in result.message, result.message
    left = [name for name in rest.names() if ".deleting-" in name]
    assert len(left) == 1 and rest.names() - {*left} == {"step-200", "step-300"}
    assert not (rest.root / left[0] / "metadata.json").exists(), "it looks whole no more"
