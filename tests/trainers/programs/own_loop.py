"""A loop of one's own, shaped as nanoGPT's: one ``ckpt.pt``, an ``iter`` line, rare tracking."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
import wandb
from common import Faults, Options, Truth, pause

WIDTH = 16


class Training:
    """The model, its optimizer, and how far they are."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(WIDTH, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.iter_num = 0
        self.best_val_loss = 1e9

    def load(self, path: Path) -> None:
        """Go on from a file."""
        checkpoint = torch.load(path, map_location="cpu")
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.iter_num = checkpoint["iter_num"]
        self.best_val_loss = checkpoint["best_val_loss"]

    def save(self, path: Path, config: dict[str, Any]) -> None:
        """Write everything over the file."""
        checkpoint = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "model_args": {"width": WIDTH},
            "iter_num": self.iter_num,
            "best_val_loss": self.best_val_loss,
            "config": config,
        }
        torch.save(checkpoint, path)

    def loss(self, inputs: torch.Tensor) -> torch.Tensor:
        """The distance from a sum."""
        return (self.model(inputs).squeeze(-1) - inputs.sum(dim=1) - 3).pow(2).mean()

    def learn(self, loss: torch.Tensor) -> None:
        """One step of the optimizer."""
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main() -> None:
    """Train; ``--init_from=resume`` goes on from ``ckpt.pt``, which must be there."""
    parser = Options("--out_dir", main.__doc__)
    parser.add_argument("--init_from", default="scratch", choices=("scratch", "resume"))
    asked = parser.parse_args()
    truth, faults, training = Truth(asked.out), Faults(), Training()
    path = asked.out / "ckpt.pt"
    resumes = asked.init_from == "resume"
    truth.tell("load", path=str(path.absolute()) if resumes else None)
    if resumes:
        print(f"Resuming training from {asked.out}")
        training.load(path)
    print(f"number of parameters: {(WIDTH + 1) / 1e6:.2f}M")
    run = wandb.init(project="trainers", dir=asked.out, mode="offline")
    truth.tell("begin", step=training.iter_num, final_step=asked.steps)
    began = time.time()
    while training.iter_num <= asked.steps:
        step, inputs = training.iter_num, torch.randn(64, WIDTH)
        if step % asked.save_every == 0:
            evaluate(training, inputs, run, asked, truth)
        if faults.broken(step):
            import tensorbord  # noqa: F401 - the mistake that this script is asked for
        pause()
        loss = training.loss(inputs)
        loss = loss * math.nan if faults.poisoned(step) else loss
        training.learn(loss)
        took, began = time.time() - began, time.time()
        lossf = loss.item()
        truth.tell("step", step=step, loss=lossf)
        if step % 2 == 0:
            print(f"iter {step}: loss {lossf:.4f}, time {took * 1000:.2f}ms, mfu -100.00%")
            truth.tell("logged", step=step, loss=round(lossf, 4))
        training.iter_num += 1
    truth.tell("end", step=asked.steps)


def evaluate(training: Training, inputs: torch.Tensor, run: Any, asked: Any, truth: Truth) -> None:
    """Print and track an evaluation, and save; the only time that the tracker hears of it."""
    step = training.iter_num
    with torch.no_grad():
        val = training.loss(inputs).item()
    print(f"step {step}: train loss {val:.4f}, val loss {val:.4f}")
    run.log({"iter": step, "train/loss": val, "val/loss": val, "lr": 0.02})
    truth.tell("evaluated", step=step, loss=val)
    if step > 0:
        training.best_val_loss = min(training.best_val_loss, val)
        print(f"saving checkpoint to {asked.out}")
        training.save(asked.out / "ckpt.pt", {"max_iters": asked.steps})
        truth.tell("saved", step=step, path=str((asked.out / "ckpt.pt").absolute()))


if __name__ == "__main__":
    main()
