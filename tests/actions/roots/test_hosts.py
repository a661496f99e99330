"""A-4 and A-6 on an ssh host: the same renames and deletions as here, done by its shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import Action
from cockpit.actions.retention import host as acting
from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.hosts.script import run_script
from cockpit.model.facet import ErrorKind
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.checkpoints import host
from tests.actions.resting import Rest, blocks
from tests.sources.checkpoints.trees import NOW, hugging_face, levanter, put

ADDRESS = "ssh://self"


@pytest.fixture(autouse=True)
def _host_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(where: str | None, script: str, **more: Any) -> Completed:
        return await run_script(None, script, **more)

    monkeypatch.setattr(host, "run_script", run)
    monkeypatch.setattr(acting, "run_script", run)


def rest_of(folder: Path, action: Action, *steps: int, keep: int = 1) -> Rest:
    rest = Rest(folder / "it's here", action, final_step=None)
    rest.save(*(steps or (100, 200, 300)))
    address = f"{ADDRESS}{rest.root}"
    spec = CheckpointSpec(path=(address,), keep=keep, rollback_depth=1, save_every=900.0)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


async def test_newer_ones_are_moved_aside_and_marked_there(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Rollback())
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


async def test_marks_of_others_stay_and_a_file_not_understood_is_left(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Rollback(), 100, 200, 300, 400)
    await rest.act("rollback toy 300", to="300", move="yes")
    await rest.act("rollback toy 200", to="200", move="yes")
    path = rest.root / ".cockpit/rejected.json"
    marks = json.loads(path.read_text())["rejected"]
    assert [one["name"] for one in marks] == ["step-300", "step-400"]
    path.write_text("{ half")
    assert "cannot be parsed" in blocks(await rest.plan(to="100"))["checkpoint"]
    assert path.read_text() == "{ half"


async def test_a_move_that_did_not_come_back_is_unknown_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = rest_of(tmp_path, Rollback())

    async def breaks(where: str | None, script: str, **more: Any) -> Completed:
        done = await run_script(None, script, **more)
        if 'mv -- "$p" "$t"' in script:
            raise RemoteError(ErrorKind.TIMEOUT, "self: the link broke off", sent=True)
        return done

    monkeypatch.setattr(acting, "run_script", breaks)
    result = await rest.act("rollback toy 200", to="200")
    assert result.outcome is Outcome.UNKNOWN and "cannot tell whether" in result.message
    (_, entry) = rest.book.entries
    assert "step-300 -> " in entry.evidence, "it had moved, and that is what is logged"


async def test_what_was_listed_is_deleted_and_the_marker_first(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Retain())
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy" and not plan.blocked, blocks(plan)
    rest.save(50)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.names() == {"step-50", "step-300"}


async def test_one_that_is_another_now_is_left(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Retain())
    plan = await rest.plan()
    levanter(rest.root, 200, at=NOW - 7200 + 205)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED and "is not the one that was listed" in result.message
    assert len(rest.names()) == 3


async def test_what_was_left_half_deleted_goes_with_the_next(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Retain())
    (rest.root / "step-100").rename(rest.root / "step-100.deleting-abcdef")
    (rest.root / "step-100.deleting-abcdef" / "metadata.json").unlink()
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {200, None}
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.names() == {"step-300"}


async def test_a_link_is_no_checkpoint_to_delete(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Retain(), 200, 300)
    outside = levanter(tmp_path / "other", 100, at=NOW - 7200 + 100)
    (rest.root / "step-100").symlink_to(outside)
    plan = await rest.plan()
    spared = {target.path.rpartition("/")[2]: target.why for target in plan.keeps}
    assert "is a link" in spared.get("step-100", ""), spared
    await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert (outside / "metadata.json").exists()


async def test_what_is_named_there_stays(tmp_path: Path) -> None:
    rest = Rest(tmp_path / "it's here", Retain(), final_step=None)
    for step in range(100, 601, 100):
        best = "out/checkpoint-200"
        at = NOW - 7200 + step
        hugging_face(rest.root, step, at=at, best_model_checkpoint=best, padding="x" * 9000)
    (rest.root / "serve").symlink_to("checkpoint-300")
    (rest.root / "gone").symlink_to("checkpoint-50")
    put(rest.root / "LATEST", "checkpoint-400\n")
    spec = CheckpointSpec(path=(f"{ADDRESS}{rest.root}",), layout="hf", keep=1, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    plan = await rest.plan()
    assert {target.step for target in plan.targets} == {100, 500}
    kept = {target.step: target.why for target in plan.keeps}
    assert "the trainer's best" in kept[200] and "serve leads to it" in kept[300]
    assert "LATEST names it" in kept[400]
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert (rest.root / "serve" / "trainer_state.json").exists()
