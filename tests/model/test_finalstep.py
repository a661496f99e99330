"""The final step as the usual trainers' configs and commands tell it (SPEC C-20)."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.finalstep import FinalStepSource, differing, final_step_in, final_step_of_command

TRAINERS: list[tuple[dict[str, Any], int | None]] = [
    ({"trainer": {"num_train_steps": 119_209}}, 119_209),  # Levanter
    ({"trainer": {"trainer": {"num_train_steps": 700}}}, 700),  # a hero loop's
    ({"trainer.num_train_steps": 700}, 700),
    ({"max_steps": 5155, "num_train_epochs": 3.0}, 5155),  # Hugging Face
    ({"max_steps": -1, "num_train_epochs": 2.5, "num_update_steps_per_epoch": 101}, 253),
    ({"train_iters": 500_000, "train_samples": None}, 500_000),  # Megatron
    ({"train-iters": "500000"}, 500_000),
    ({"train_iters": None, "train_samples": 1_001, "global_batch_size": 10}, 100),
    ({"trainer": {"max_steps": 10_000, "max_epochs": -1}}, 10_000),  # Lightning, NeMo
    ({"training": {"steps": 10_000, "warmup_steps": 200}}, 10_000),  # torchtitan
    ({"max_iters": 600_000, "lr_decay_iters": 600_000}, 600_000),  # nanoGPT
    ({"SOLVER": {"MAX_ITER": 90_000}}, 90_000),  # Detectron2
    ({"optimization": {"max_update": [], "max_epoch": 0}}, None),  # fairseq, not set
    ({"max_duration": "4800ba"}, 4800),  # Composer
    ({"max_duration": "2ep"}, None),
    ({"num_epochs": 3, "steps_per_epoch": 40}, 120),
    ({"num_epochs": 3}, None),
]

NOT_IT: list[dict[str, Any]] = [
    {},
    {"eval": {"max_steps": 50}},
    {"lr_scheduler": {"num_training_steps": 90}},
    {"optimizer": {"train_steps": 90}},
    {"checkpointer": {"steps": 100}},
    {"max_steps": True},
    {"max_steps": float("nan")},
    {"max_steps": 12.5},
    {"max_steps": "5.16k"},  # a rounded text is never a final step
    {"max_steps": "many"},
]


@pytest.mark.parametrize(("config", "step"), TRAINERS)
def test_the_settings_of_the_usual_trainers_tell_it(
    config: dict[str, Any], step: int | None
) -> None:
    found = final_step_in(config, "config")
    assert (found.step if found is not None else None) == step


@pytest.mark.parametrize("config", NOT_IT)
def test_what_means_something_else_does_not(config: dict[str, Any]) -> None:
    assert final_step_in(config, "config") is None


def test_the_source_names_the_setting_and_a_hostile_key_is_not_repeated() -> None:
    found = final_step_in({"trainer": {"num_train_steps": 9}}, "the tracker's config")
    assert found is not None
    assert found.source == "the tracker's config: trainer.num_train_steps"
    hostile = final_step_in({"a\x1b[31m": {"max_steps": 9}}, "config")
    assert hostile is not None
    assert hostile.source == "config: max_steps"


def test_settings_that_differ_tell_nothing_and_say_so() -> None:
    found = final_step_in({"max_steps": 100, "trainer": {"num_train_steps": 200}}, "config")
    assert found is not None
    assert found.step is None
    assert "max_steps = 100" in str(found.why)
    assert "trainer.num_train_steps = 200" in str(found.why)


def test_samples_of_a_batch_size_that_ramps_up_are_no_exact_count() -> None:
    config = {"train_samples": 1000, "global_batch_size": 10, "rampup_batch_size": [2, 2, 100]}
    found = final_step_in(config, "config")
    assert found is not None
    assert (found.step, "ramps up" in str(found.why)) == (None, True)


def test_a_job_that_ends_at_an_interval_ends_no_run() -> None:
    found = final_step_in({"train_iters": 5000, "exit_interval": 1000}, "config")
    assert found is not None
    assert (found.step, "multiple of 1000" in str(found.note)) == (5000, True)
    late = final_step_in({"train_iters": 5000, "exit_interval": 5000}, "config")
    assert late is not None
    assert late.note is None


COMMANDS = [
    ("torchrun --nproc-per-node 8 pretrain.py --train-iters 500 --lr 1e-4", 500),
    ("python train.py trainer.max_steps=700 +data.train_steps=9", 700),
    ("python train.py --max_iters=10 --max_iters=20", 20),
    ("python train.py --max_steps -1", None),
    ("python train.py --eval.max_steps 5", None),
    ("python train.py 'unclosed", None),
]


@pytest.mark.parametrize(("command", "step"), COMMANDS)
def test_a_commands_flags_tell_it(command: str, step: int | None) -> None:
    found = final_step_of_command(command, "resubmit command")
    assert (found.step if found is not None else None) == step


def test_two_sources_that_differ_are_both_said_and_one_step_apart_is_the_same_end() -> None:
    first = FinalStepSource(step=1000, source="run file", explicit=True)
    assert differing([first, FinalStepSource(step=999, source="config")]) is None
    said = differing([first, FinalStepSource(step=900, source="config: max_steps")])
    assert said == "config: max_steps: 900"
    unread = FinalStepSource(step=None, source="final_step_from c.json", explicit=True, why="gone")
    assert differing([unread, first]) == "final_step_from c.json: gone"
    assert differing([]) is None
