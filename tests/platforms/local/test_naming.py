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

USES = {
    Use.WRITES: (
        "output_dir output-root OUTPUT_DIR out o save save_dir saveDir SAVE_TO"
        " trainer.default_root_dir hydra.run.dir results_dir WANDB_DIR checkpoint_out"
        " model.output_path export-dir"
    ),
    Use.READS: (
        "init_from load resume resume_from_checkpoint checkpoint ckpt config data input teacher"
        " eval_data logfile weights restore-path source"
    ),
    Use.EITHER: " dir root run_dir work_dir path eval_output",
}


@pytest.mark.parametrize("use", USES)
def test_what_a_value_is_used_for_is_told_by_its_name(use: Use) -> None:
    names = USES[use].split(" ")
    assert {name: use_of(name) for name in names} == dict.fromkeys(names, use)


def test_ids_of_the_tracker() -> None:
    told = {
        "wandb_id": True, "wandb.id": True, "run_id": True, "WANDB_RUN_ID": True, "id": None,
        "name": None, "note": False, "": False,
    }  # fmt: skip
    assert {name: names_the_tracker_run(name) for name in told} == told


def test_programs_that_only_look() -> None:
    told = {
        "plot.py": True, "eval_last.sh": True, "sample.py": True, "train.py": False,
        "train_and_eval.py": False, "main.py": False, "explot.py": False, "run_sync.sh": False,
    }  # fmt: skip
    assert {program: only_looks(program) for program in told} == told


def test_wrappers_are_what_they_run() -> None:
    told = {
        "timeout 60 tail -f x": True, "nice -n 5 less x": True, "env A=1 python -m wandb x": True,
        "uv run tensorboard --logdir x": True, "python -m tensorboard.main --logdir x": True,
        "wandb-core leet x": True, "wandb-core --port-filename x": False,
        "timeout 60 python train.py": False, "torchrun --nproc 8 train.py": False,
    }  # fmt: skip
    assert {command: is_tool(command.split()) for command in told} == told
    assert inner(["timeout", "-k", "5", "1h", "nice", "a", "b"]) == ["a", "b"]


def test_code_is_no_argument() -> None:
    argv = ["python", "-S", "-c", "out=open('x'); y = 1", "--out=z", "a b = c"]
    assert list(arguments(argv)) == [("out", "z"), ("", "a b = c")]
