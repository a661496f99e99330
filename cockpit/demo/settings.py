"""What a training run is told: its config file, and the faults that its command line asks for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True)
class CheckpointerConfig:
    """When checkpoints are saved: temporary every so many seconds, permanent every n steps."""

    save_interval: float = 10.0
    permanent_every: int = 100
    keep_last_temporary_checkpoints: int = 1


@dataclass(frozen=True)
class TrainerConfig:
    """How long, how fast and how often; ``steps_per_second`` is the pace that is kept."""

    id: str
    num_train_steps: int
    seed: int = 0
    train_batch_size: int = 32
    steps_per_second: float = 5.0
    evaluate_every: int = 100
    checkpointer: CheckpointerConfig = field(default_factory=CheckpointerConfig)


@dataclass(frozen=True)
class OptimizerConfig:
    """Gradient descent with momentum and a linear warm-up."""

    learning_rate: float = 0.1
    momentum: float = 0.9
    warmup: int = 20


@dataclass(frozen=True)
class ModelConfig:
    """The model's sizes."""

    context: int = 3
    embedding: int = 8
    hidden: int = 24


@dataclass(frozen=True)
class TrainingConfig:
    """The whole config, as the file holds it and as the tracker is given it."""

    trainer: TrainerConfig
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain nested dictionaries."""
        return asdict(self)


@dataclass(frozen=True)
class Faults:
    """What is made to go wrong, by really going wrong. Nothing by default."""

    input_slows_after: int | None = None
    input_bytes_per_second: float = 200.0
    learning_rate_jump: tuple[int, float] | None = None
    break_at: int | None = None
    shard_seconds: float = 0.0
    killed_in_save: int | None = None
    time_limit: int | None = None


def read_config(path: Path) -> TrainingConfig:
    """Read the config file. Raises ``OSError``, ``ValueError``, ``KeyError`` or ``TypeError``."""
    document = json.loads(path.read_text(encoding="utf-8"))
    trainer = dict(document["trainer"])
    checkpointer = CheckpointerConfig(**trainer.pop("checkpointer", {}))
    return TrainingConfig(
        trainer=TrainerConfig(**trainer, checkpointer=checkpointer),
        optimizer=OptimizerConfig(**document.get("optimizer", {})),
        model=ModelConfig(**document.get("model", {})),
    )


def write_config(config: TrainingConfig, path: Path) -> None:
    """Write the config file."""
    path.write_text(json.dumps(config.to_dict(), indent=2) + "\n", encoding="utf-8")


def read_arguments(argv: Sequence[str]) -> tuple[Path, Faults]:
    """Return the config file and the faults that the command line asks for."""
    given = vars(_parser().parse_args(argv))
    jump = given.pop("learning_rate_jump")
    config: Path = given.pop("config")
    pair = None if jump is None else (int(jump[0]), float(jump[1]))
    return config, Faults(learning_rate_jump=pair, **given)


_FAULTS: Final[tuple[tuple[str, Callable[[str], float], str, str | None], ...]] = (
    ("--input-slows-after", int, "STEP", None),
    ("--input-bytes-per-second", float, "N", None),
    ("--break-at", int, "STEP", "at STEP evaluate on a part of the text that does not exist"),
    ("--shard-seconds", float, "S", "each data file of a checkpoint takes S seconds to write"),
    ("--killed-in-save", int, "N",
     "in the middle of its Nth save it is killed with -9, unless it resumed"),
    ("--time-limit", int, "S", "leave after S seconds as if told to by SIGTERM"),
)  # fmt: skip
"""Options: what they are, their kind of number, what stands for it in the help, and their help."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cockpit.demo.trainer",
        description="Train a tiny character model; output goes beside the config file.",
        epilog="example: python -m cockpit.demo.trainer --config runs/mine/config.json",
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE")
    jump = "after STEP the learning rate is multiplied by FACTOR at every step"
    parser.add_argument("--learning-rate-jump", nargs=2, metavar=("STEP", "FACTOR"), help=jump)
    for name, kind, metavar, said in _FAULTS:
        default = getattr(Faults, name[2:].replace("-", "_"))
        parser.add_argument(name, type=kind, default=default, metavar=metavar, help=said)
    return parser
