"""What the name of an argument or a variable says of its value."""

from __future__ import annotations

import pytest

from cockpit.platforms.local.programs import (
    Use,
    arguments,
    inner,
    is_tool,
    names_the_tracker_run,
    only_looks,
    use_of,
)


@pytest.mark.parametrize(
    "name",
    [
        "output_dir",
        "output-root",
        "OUTPUT_DIR",
        "out",
        "o",
        "save",
        "save_dir",
        "saveDir",
        "SAVE_TO",
        "trainer.default_root_dir",
        "hydra.run.dir",
        "results_dir",
        "WANDB_DIR",
        "checkpoint_out",
        "model.output_path",
        "export-dir",
    ],
)
def test_outputs(name: str) -> None:
    assert use_of(name) is Use.WRITES


@pytest.mark.parametrize(
    "name",
    [
        "init_from",
        "load",
        "resume",
        "resume_from_checkpoint",
        "checkpoint",
        "ckpt",
        "config",
        "data",
        "input",
        "teacher",
        "eval_data",
        "logfile",
        "weights",
        "restore-path",
        "source",
    ],
)
def test_inputs(name: str) -> None:
    assert use_of(name) is Use.READS


@pytest.mark.parametrize("name", ["", "dir", "root", "run_dir", "work_dir", "path", "eval_output"])
def test_of_others_nobody_can_tell(name: str) -> None:
    assert use_of(name) is Use.EITHER


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("wandb_id", True),
        ("wandb.id", True),
        ("run_id", True),
        ("WANDB_RUN_ID", True),
        ("id", None),
        ("name", None),
        ("note", False),
        ("", False),
    ],
)
def test_ids_of_the_tracker(name: str, answer: bool | None) -> None:
    assert names_the_tracker_run(name) is answer


@pytest.mark.parametrize(
    ("program", "looks"),
    [
        ("plot.py", True),
        ("eval_last.sh", True),
        ("sample.py", True),
        ("train.py", False),
        ("train_and_eval.py", False),
        ("main.py", False),
        ("explot.py", False),
        ("run_sync.sh", False),
    ],
)
def test_programs_that_only_look(program: str, looks: bool) -> None:
    assert only_looks(program) is looks


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("timeout 60 tail -f x", True),
        ("nice -n 5 less x", True),
        ("env A=1 python -m wandb x", True),
        ("uv run tensorboard --logdir x", True),
        ("python -m tensorboard.main --logdir x", True),
        ("wandb-core leet x", True),
        ("wandb-core --port-filename x", False),
        ("timeout 60 python train.py", False),
        ("torchrun --nproc 8 train.py", False),
    ],
)
def test_wrappers_are_what_they_run(command: str, tool: bool) -> None:
    assert is_tool(command.split()) is tool
    assert inner(["timeout", "-k", "5", "1h", "nice", "a", "b"]) == ["a", "b"]


def test_code_is_no_argument() -> None:
    argv = ["python", "-S", "-c", "out=open('x'); y = 1", "--out=z", "a b = c"]
    assert list(arguments(argv)) == [("out", "z"), ("", "a b = c")]
