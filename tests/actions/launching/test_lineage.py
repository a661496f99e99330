from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.new_run import new_run, typed_root
from cockpit.actions.launching.lineage import PARAM as FORK
from cockpit.actions.launching.lineage import fork_allowed
from cockpit.model.place import place_of
from cockpit.model.plan import Level, Outcome
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec, WandbSpec
from cockpit.store.memory import RunMemory
from cockpit.store.store import run_key
from tests.actions.contexts import by_id, hard
from tests.actions.launch_place import Place, save

COMMAND = "train --root {output_root} --id {wandb_id} --init {checkpoint}"


@pytest.fixture
def old(tmp_path: Path) -> Place:
    found = Place(tmp_path, changes={"resubmit": COMMAND})
    save(found.root / "checkpoints", 80)
    save(found.root / "checkpoints", 90, complete=False)
    return found


def params(old: Place, **changes: str) -> dict[str, Any]:
    return {
        "run_id": "toy-b", "wandb_id": "toy-b1", "output_root": str(old.folder / "new"),
        "from": "80", "reason": "the optimizer was wrong", **changes,
    }  # fmt: skip


async def test_a_new_lineage_begins_with_one_checkpoint_under_a_new_identity(old: Place) -> None:
    plan = await old.plan("lineage", **params(old))
    assert plan.words == "lineage toy toy-b"
    assert not plan.blocked, [check for check in plan.checks if check.stands_in_the_way]
    result = await old.act("lineage", **params(old))
    assert result.outcome is Outcome.DONE, result.message
    (sent,) = old.platform.submitted
    source = str(old.root / "checkpoints" / "step-80")
    assert sent.command == (
        "train", "--root", str(old.folder / "new"), "--id", "toy-b1", "--init", source,
    )  # fmt: skip
    assert sent.env["WANDB_RUN_ID"] == "toy-b1" and sent.run == "toy-b"
    key = run_key(old.file.path, "toy-b")
    assert RunMemory(old.store).launches(key)
    assert not RunMemory(old.store).launches(old.key)
    (event,) = old.book.events
    assert "the optimizer was wrong" in event.decision and source in event.status
    assert "W&B id: toy → toy-b1" in event.evidence and "commit " in event.evidence
    assert len(old.book.comments) == 1 and old.book.instances == []


async def test_the_w_and_b_run_can_begin_as_a_fork_and_the_plan_says_what_may_go_wrong(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await old.plan("lineage", **params(old))
    assert "fork" not in {each.id for each in plain.checks}
    plan = await old.plan("lineage", **params(old, **{FORK: "81"}))
    check = by_id(plan.checks, "fork")
    assert (check.level, check.value) == (Level.WARN, "toy?_step=81")
    assert "resume" in check.text and "cannot be told" in check.text
    assert plan.differences[-1].would_run == "toy?_step=81" and not plan.blocked
    guessed = by_id((await old.plan("lineage", **params(old, **{FORK: "yes"}))).checks, "fork")
    assert guessed.value == "toy?_step=80" and "taken for W&B's own _step" in guessed.text
    monkeypatch.setenv("WANDB_RESUME", "allow")
    here = await old.plan("lineage", **params(old, **{FORK: "81"}))
    assert by_id(here.checks, "fork:resume").level is Level.WARN
    monkeypatch.delenv("WANDB_RESUME")
    assert hard(fork_allowed(["env", "WANDB_RESUME=must", "train"], "toy?_step=81")[0])
    with pytest.raises(RefuseError):
        await old.plan("lineage", **params(old, **{FORK: "soon"}))
    result = await old.act("lineage", **params(old, **{FORK: "81"}))
    assert result.outcome is Outcome.DONE, result.message
    assert old.platform.submitted[0].env["WANDB_FORK_FROM"] == "toy?_step=81"


async def test_the_block_for_the_run_file_is_shown_and_reads_back(old: Place) -> None:
    page = (await old.plan("lineage", **params(old))).page
    assert page is not None
    (told,) = tomllib.loads(page)["run"]
    assert (told["name"], told["wandb"]["id"]) == ("toy-b", "toy-b1")
    assert told["output_root"] == str(old.folder / "new")
    assert told["checkpoints"]["initialize_from"].endswith("step-80")
    assert told["checkpoints"]["path"] == [str(old.folder / "new" / "checkpoints")]


@pytest.mark.parametrize("source", ["90", "7", "/etc", "step-90", "../../x"])
async def test_only_a_complete_checkpoint_of_this_run_will_do(old: Place, source: str) -> None:
    plan = await old.plan("lineage", **params(old, **{"from": source}))
    assert hard(by_id(plan.checks, "source"))


async def test_what_is_in_use_is_refused(old: Place) -> None:
    old.others = (RunSpec(name="toy-b", output_root="/data/b", wandb=WandbSpec(id="toy-b1")),)
    (old.folder / "full").mkdir()
    (old.folder / "full" / "x").write_text("x")
    plan = await old.plan("lineage", **params(old, output_root=str(old.folder / "full")))
    for name in ("run-id", "wandb-id", "C-16"):
        assert hard(by_id(plan.checks, name)), name
    inside = await old.plan("lineage", **params(old, output_root=str(old.root / "deeper")))
    assert hard(by_id(inside.checks, "C-16"))


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("train --id {wandb_id}", "identity"),
        ("train --root {output_root}", "identity"),
        (COMMAND + " --wandb toy", "identity:old"),
    ],
)
async def test_a_command_that_cannot_take_the_identity_is_refused(
    old: Place, command: str, check: str
) -> None:
    old.changes["resubmit"] = command
    assert hard(by_id((await old.plan("lineage", **params(old))).checks, check))


async def test_a_client_that_only_takes_the_environment_is_said(old: Place) -> None:
    old.changes["resubmit"] = "train --root {output_root} --init {checkpoint}"
    plan = await old.plan("lineage", **params(old))
    assert by_id(plan.checks, "identity").level is Level.WARN and not plan.blocked


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "a b"}, {"run_id": "-x"}, {"run_id": "../x"}, {"wandb_id": ""},
        {"output_root": "relative"}, {"output_root": "/"}, {"output_root": "gs://"},
        {"reason": " "}, {"run_id": "x\n"[:1] + "\ny"},
    ],
)  # fmt: skip
async def test_what_is_no_identity_is_refused_at_once(old: Place, changes: dict[str, str]) -> None:
    with pytest.raises(RefuseError):
        await old.plan("lineage", **params(old, **changes))


def test_no_file_of_the_job_is_shared_with_the_old_run() -> None:
    old = RunSpec(
        name="toy", output_root="/o/toy",
        job=JobSpec(kind="local", pid_file="/o/toy/run.pid", log="/logs/toy.log", id="x"),
        checkpoints=CheckpointSpec(path=("/o/toy/c", "gs://tmp/toy")),
        wandb=WandbSpec(id="toy", dir="/o/toy/wandb", resume="must"),
    )  # fmt: skip
    new = new_run(old, {"run-id": "b", "wandb-id": "b1", "output-root": "/n/b"})
    assert new.job is not None and new.checkpoints is not None and new.wandb is not None
    assert (str(new.job.pid_file), str(new.job.log)) == ("/n/b/run.pid", "/n/b/toy.log")
    assert new.job.id is None
    assert [str(root) for root in new.checkpoints.path] == ["/n/b/c", "/n/b/toy"]
    assert (str(new.wandb.dir), new.wandb.resume) == ("/n/b/wandb", "allow")


def test_a_place_is_made_normal() -> None:
    assert typed_root(" /a/../b/ ") == place_of("/b")
    assert typed_root("gs://b//x/") == place_of("gs://b/x")


async def test_its_launch_is_looked_up_where_it_was_made(old: Place) -> None:
    plan = await old.plan("lineage", **params(old))
    assert new_run(old.spec, plan.params).output_root == place_of(str(old.folder / "new"))
