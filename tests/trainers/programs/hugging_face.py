"""A tiny model under Hugging Face's ``Trainer``: its bar, its dict lines, ``checkpoint-N``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from common import Faults, Options, Truth, pause
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

WIDTH = 16


class Model(torch.nn.Module):
    """One layer; its batches come late, as from a slow disk, and one of them may be bad."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)
        self.step = 0
        self._faults = faults

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        pause()
        if self._faults.broken(self.step + 1):
            inputs = inputs[:, :-1]
        loss = (self.layer(inputs).squeeze(-1) - labels).pow(2).mean()
        return {"loss": loss * float("nan") if self._faults.poisoned(self.step + 1) else loss}


class Data(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """A linear function to learn."""

    def __init__(self, rows: int) -> None:
        self._inputs = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))
        self._labels = self._inputs.sum(dim=1) + 3

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"inputs": self._inputs[index], "labels": self._labels[index]}


class Telling(TrainerCallback):
    """Writes down what the trainer's own state says."""

    def __init__(self, truth: Truth, model: Model) -> None:
        self._truth, self._model = truth, model

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._model.step = state.global_step
        self._truth.tell("begin", step=state.global_step, final_step=state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._model.step = state.global_step
        self._truth.tell("step", step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in (logs or {}):
            loss, norm = float(logs["loss"]), float(logs.get("grad_norm", 0.0))
            self._truth.tell("logged", step=state.global_step, loss=loss, grad_norm=norm)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        path = Path(args.output_dir).absolute() / f"checkpoint-{state.global_step}"
        self._truth.tell("saved", step=state.global_step, path=str(path))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._truth.tell("end", step=state.global_step)


def main() -> None:
    """Train; ``--resume_from_checkpoint auto`` goes on from the newest, or begins."""
    parser = Options("--output_dir", main.__doc__)
    parser.add_argument("--resume_from_checkpoint", default=None)
    asked = parser.parse_args()
    truth, faults = Truth(asked.out), Faults()
    model = Model(faults)
    arguments = TrainingArguments(
        output_dir=str(asked.out),
        max_steps=asked.steps,
        per_device_train_batch_size=64,
        logging_steps=5,
        save_steps=asked.save_every,
        save_total_limit=10,
        learning_rate=0.02,
        report_to=["wandb"],
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Data(1920), callbacks=[Telling(truth, model)]
    )
    found = asked.resume_from_checkpoint
    if found == "auto":
        root = Path(arguments.output_dir)
        found = get_last_checkpoint(str(root)) if root.is_dir() else None
    truth.tell("load", path=None if found is None else str(Path(found).absolute()))
    trainer.train(resume_from_checkpoint=found)


if __name__ == "__main__":
    main()
