from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.demo.settings import (
    CheckpointerConfig,
    Faults,
    TrainerConfig,
    TrainingConfig,
    read_arguments,
    read_config,
    write_config,
)


def test_a_config_comes_back_as_it_was_written(tmp_path: Path) -> None:
    trainer = TrainerConfig("mine", 70, checkpointer=CheckpointerConfig(permanent_every=7))
    write_config(TrainingConfig(trainer), tmp_path / "config.json")
    assert read_config(tmp_path / "config.json") == TrainingConfig(trainer)


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"trainer": {"id": "a", "num_train_stepz": 3}}')
    with pytest.raises(TypeError, match="num_train_stepz"):
        read_config(tmp_path / "c.json")


def test_nothing_goes_wrong_by_itself() -> None:
    assert read_arguments(["--config", "c.json"]) == (Path("c.json"), Faults())


def test_faults_are_asked_for_on_the_command_line() -> None:
    argv = ["--config", "c", "--learning-rate-jump", "60", "1.12", "--break-at", "9"]
    assert read_arguments(argv)[1] == Faults(learning_rate_jump=(60, 1.12), break_at=9)
