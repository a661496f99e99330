"""Roots away from this machine are read, and so are listed in plans: nothing acts on them yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import Action
from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.actions.stopping.stop import Stop
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec, JobSpec
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import run_script
from cockpit.sources.checkpoints import host
from tests.actions.resting import Rest, blocks, job

ADDRESS = "ssh://self"


@pytest.fixture(autouse=True)
def _host_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(where: str | None, script: str, **more: Any) -> Completed:
        return await run_script(None, script, **more)

    monkeypatch.setattr(host, "run_script", run)


def rest_of(folder: Path, action: Action) -> Rest:
    rest = Rest(folder, action)
    rest.save(100, 200, 300)
    spec = CheckpointSpec(path=(f"{ADDRESS}{rest.root}",), keep=1, rollback_depth=1)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


async def test_a_rollback_sees_them_and_is_blocked(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Rollback())
    plan = await rest.plan(to="200", move="no")
    assert [target.path for target in plan.targets] == [f"{ADDRESS}{rest.root}/step-300"]
    assert f"{ADDRESS}{rest.root} is not on this machine" in blocks(plan)["mark"]
    assert "not on this machine" in blocks(await rest.plan(to="200", move="yes"))["move"]
    result = await rest.act(plan.words, to="200", move="no")
    assert result.outcome is Outcome.REFUSED
    assert sorted(rest.names()) == ["step-100", "step-200", "step-300"]
    assert not (rest.root / ".cockpit").exists()


async def test_a_clean_up_deletes_nothing_there(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Retain())
    plan = await rest.plan()
    assert plan.blocked and not plan.targets
    assert "not cleaned up from here" in blocks(plan)["checkpoint"]


async def test_whether_a_save_is_complete_there_is_not_followed(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, Stop())
    saves = JobSpec(kind="local", log=str(tmp_path / "run.log"), save_signal="USR1")
    rest.spec = rest.spec.model_copy(update={"job": saves})
    rest.platform.living = (job(),)
    plan = await rest.plan(save_first="yes")
    assert not plan.can_save_first and "not followed" in blocks(plan)["save"]
    assert not (await rest.plan()).blocked, "it can be stopped without"
