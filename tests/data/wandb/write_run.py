"""Write one launch of a small run with the installed ``wandb``: how the files here were made.

``python write_run.py PART``, with PART 0 (60 rows, ends with exit code 3) and then 1 (20 rows
more of the same id, ends well), in an empty folder, once per version of the client. Nothing of
the machine goes into the files.
"""

from __future__ import annotations

import os
import platform
import sys

os.environ |= {"WANDB_MODE": "offline", "SLURM_JOB_NAME": "train"}

import wandb

NEUTRAL = {
    "silent": True,
    "host": "host",
    "username": "user",
    "console": "off",
    "disable_git": True,
    "save_code": False,
    "root_dir": ".",
    "x_disable_machine_info": False,
    "x_disable_stats": True,
    "_disable_stats": True,
}


def settings() -> wandb.Settings:
    """Return the settings that this version of the client knows."""
    known = {}
    for name, value in NEUTRAL.items():
        try:
            wandb.Settings(**{name: value})
        except Exception:  # each version has an error of its own for an unknown setting
            continue
        known[name] = value
    return wandb.Settings(**known)


def row(step: int) -> dict[str, object]:
    """Return one row's metrics: nested, with a dot in a key, and a few that are no number."""
    loss = {20: float("nan"), 21: float("inf"), 22: float("-inf")}
    metrics = {
        "global_step": 1000 + step,
        "train/loss": loss.get(step, 4.0 / (1 + step / 10)),
        "train/loss.v2": 8.0 / (1 + step / 10),
        "throughput/tokens_per_second": 1e6 + step,
        "grad": {"norm": {"total": 0.5 + step / 1000}},
    }
    if step == 30:
        metrics["note"] = "x" * 33000
    return metrics


def main(part: int) -> None:
    """Write part 0 or 1."""
    platform.platform = lambda *_, **__: "Linux"
    if not wandb.__version__.startswith("0.17."):  # it starts itself anew, and keeps no path
        sys.executable = "/train/python"
    os.environ["SLURM_JOB_ID"] = str(4242 + part)
    config = {"lr": 3e-4, "model": {"layers": 4, "name": "tiny"}, "long": "n" * 40}
    run = wandb.init(
        project="golden",
        entity="acme",
        id="gold0001",
        name="hero-small",
        config=config,
        settings=settings(),
    )
    first, last = ((0, 60), (50, 70))[part]
    for step in range(first, last):
        run.log(row(step))
    run.log({"global_step": 1000 + last, "eval/loss": 1.5})
    run.config.update({"late": 7 + part}, allow_val_change=True)
    run.finish(exit_code=(3, 0)[part])


if __name__ == "__main__":
    main(int(sys.argv[1]))
