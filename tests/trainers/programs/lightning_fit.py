"""A tiny model under Lightning: its bar, its own SIGTERM, metric-named files and ``last.ckpt``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from common import Faults, Options, Truth, pause
from lightning.pytorch.callbacks import (
    Callback,
    ModelCheckpoint,
    RichProgressBar,
    TQDMProgressBar,
)
from lightning.pytorch.loggers import WandbLogger

WIDTH = 16


class Model(lightning.LightningModule):
    """One layer that learns to sum."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)
        self._faults = faults

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        pause()
        inputs, labels = batch
        if self._faults.broken(self.global_step + 1):
            inputs = inputs[:, :-1]
        loss = (self.layer(inputs).squeeze(-1) - labels).pow(2).mean()
        if self._faults.poisoned(self.global_step + 1):
            loss = loss * float("nan")
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.02)


class Telling(Callback):
    """Writes down what the trainer's own state says."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        path = trainer.ckpt_path and str(Path(trainer.ckpt_path).absolute())
        self._truth.tell("load", path=path)
        self._truth.tell("begin", step=trainer.global_step, final_step=trainer.max_steps)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, index: int
    ) -> None:
        loss = float(outputs["loss"])
        self._truth.tell("step", step=trainer.global_step, loss=loss)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._truth.tell("end", step=trainer.global_step)


class Saving(ModelCheckpoint):
    """The trainer's own saving, which tells when a file is there."""

    def __init__(self, truth: Truth, **settings: Any) -> None:
        super().__init__(**settings)
        self._truth = truth

    def _save_checkpoint(self, trainer: Any, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        self._truth.tell("saved", step=trainer.global_step, path=str(Path(filepath).absolute()))


def main() -> None:
    """Train; ``--ckpt_path last`` goes on from ``last.ckpt``, or begins."""
    parser = Options("--default_root_dir", main.__doc__)
    parser.add_argument("--ckpt_path", default=None)
    parser.add_argument("--bar", choices=("tqdm", "rich"), default="tqdm")
    parser.add_argument("--filename", default="{epoch}-{step}")
    asked = parser.parse_args()
    truth = Truth(asked.out)
    lightning.seed_everything(0)
    inputs = torch.randn(1920, WIDTH)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(dim=1) + 3)
    bar = RichProgressBar() if asked.bar == "rich" else TQDMProgressBar()
    saving = Saving(
        truth,
        dirpath=asked.out / "checkpoints",
        filename=asked.filename,
        every_n_train_steps=asked.save_every,
        save_top_k=-1,
        save_last=True,
    )
    trainer = lightning.Trainer(
        max_steps=asked.steps,
        accelerator="cpu",
        log_every_n_steps=5,
        default_root_dir=asked.out,
        logger=WandbLogger(project="trainers", save_dir=asked.out),
        callbacks=[saving, bar, Telling(truth)],
    )
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    trainer.fit(Model(Faults()), loader, ckpt_path=asked.ckpt_path)


if __name__ == "__main__":
    main()
