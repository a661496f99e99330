"""What ``ckpt_path="last"`` makes Lightning load, and what a relaunch says of it (C-17)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.actions.launching.relaunch import Relaunch
from cockpit.model.plan import Check, Level, Plan
from cockpit.model.run import CheckpointSpec
from tests.actions.resting import Rest, blocks
from tests.sources.checkpoints.trees import NOW, hugging_face, put

COMMAND = "python train.py --ckpt_path last"


def rest_of(folder: Path, *steps: int, command: str = COMMAND) -> Rest:
    spec = CheckpointSpec(path=(str(folder / "out" / "checkpoints"),), layout="lightning")
    rest = Rest(folder, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    for step in steps:
        save(rest, f"epoch=0-step={step}.ckpt", step)
    (folder / "run.log").write_text("".join(f"step {step} loss 2.0\n" for step in range(1, 211)))
    return rest


def save(rest: Rest, name: str, step: int, at: float | None = None) -> None:
    put(rest.root / name, b"x" * 99, NOW - 7200 + step if at is None else at)


def loads(plan: Plan) -> Check:
    return next(check for check in plan.checks if check.id == "C-17")


async def test_the_plan_says_the_step_that_last_ckpt_leads_to(tmp_path: Path) -> None:
    """The trainer was killed between a save and the next ``last.ckpt``."""
    rest = rest_of(tmp_path, 50, 100, 150, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=150.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 150
    assert plan.loses is not None and "60 steps" in plan.loses
    check = loads(plan)
    assert check.level is Level.WARN and "step 200 is complete and newer" in check.text


async def test_one_that_leads_nowhere_begins_at_0(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=300.ckpt")
    assert "Lightning would start at step 0" in blocks(await rest.plan())["C-17"]
    (rest.root / "last.ckpt").unlink()
    assert "finds no last*.ckpt" in blocks(await rest.plan())["C-17"]


async def test_of_several_the_one_that_was_written_last_is_loaded(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 150, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=200.ckpt")
    (rest.root / "last-v1.ckpt").symlink_to("epoch=0-step=100.ckpt")
    (rest.root / "last-v2.ckpt").symlink_to("epoch=0-step=150.ckpt")
    os.utime(rest.root / "epoch=0-step=150.ckpt", (NOW, NOW))
    value = await rest.listing()
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 150
    assert "last-v2.ckpt" in value.trainer_would_load.why


async def test_the_newest_is_loaded_where_last_is_that_one(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=200.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 200
    assert loads(plan).level is Level.PASS and "the trainer agrees" in loads(plan).text


@pytest.mark.parametrize(
    "command", ["python train.py", "python train.py --ckpt_path {checkpoint}", "train fit"]
)
async def test_where_the_command_does_not_say_last_nothing_is_said_of_it(
    tmp_path: Path, command: str
) -> None:
    rest = rest_of(tmp_path, 100, 200, command=command)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=100.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 200
    assert plan.trainer_would_load is None and "C-17" not in blocks(plan)


async def test_a_path_in_the_command_is_what_is_loaded(tmp_path: Path) -> None:
    command = "python train.py --ckpt_path={}/epoch=0-step=100.ckpt"
    for folder in ("out/checkpoints", str(tmp_path / "out" / "checkpoints"), "$OUT"):
        plan = await rest_of(tmp_path, 100, 200, command=command.format(folder)).plan()
        assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 100
    for folder in ("/pretrained/checkpoints", "c"):
        plan = await rest_of(tmp_path, 100, 200, command=command.format(folder)).plan()
        assert plan.trainer_would_load is None, "a save of that name in another folder"


@pytest.mark.parametrize(
    ("words", "fine"),
    [
        ("--resume_from_checkpoint /base/checkpoint-100", False),
        ("train.resume_from_checkpoint=old/checkpoint-100/", False),
        ("--resume_from_checkpoint true", True),
        ("--resume_from_checkpoint /workspace/out/checkpoint-200", True),
        ("--model_name_or_path /base/checkpoint-100", True),
        ("--resume_from_checkpoint {checkpoint}", True),
    ],
)
async def test_a_command_that_always_resumes_from_one_save_takes_no_other(
    tmp_path: Path, words: str, fine: bool
) -> None:
    """Whatever the trainer would find by itself, it loads the one that its command names."""
    spec = CheckpointSpec(path=(str(tmp_path / "out" / "checkpoints"),), layout="hf")
    command = f"python train.py {words}"
    rest = Rest(tmp_path, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    for step in (100, 200):
        hugging_face(rest.root, step, at=NOW - 7200 + step)
    plan = await rest.plan()
    found = blocks(plan).get("C-17")
    assert (found is None) is fine
    assert fine or (found is not None and "always resumes from" in found)


@pytest.mark.parametrize(
    ("command", "sure"),
    [
        ("python train.py --resume_from_checkpoint {root}/checkpoint-200", True),
        ("python train.py --resume_from_checkpoint out/checkpoint-200", True),
        ("python train.py --resume_from_checkpoint /runs/other/checkpoint-200", False),
        ("docker run -v {root}:/c img python train.py --resume /c/checkpoint-200", True),
        ("docker run -v /runs/other:/c img python train.py --resume /c/checkpoint-200", False),
    ],
)
async def test_a_save_of_the_same_name_in_another_folder_is_not_said_to_be_the_same(
    tmp_path: Path, command: str, sure: bool
) -> None:
    root = tmp_path / "out" / "checkpoints"
    spec = CheckpointSpec(path=(str(root),), layout="hf")
    command = command.format(root=root)
    rest = Rest(tmp_path, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    hugging_face(rest.root, 200, at=NOW - 7200)
    plan = await rest.plan()
    (check,) = (each for each in plan.checks if each.id == "C-17")
    assert ("is not known" in check.text) is not sure, check.text
