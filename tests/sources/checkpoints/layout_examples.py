"""The smallest whole save of step 500 in each layout, as the files of its root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit.sources.checkpoints.listing import ITERATION, LAST_CHECKPOINT

ZIP: Final = b"PK\x03\x04" + b"\0" * 18 + b"PK\x05\x06" + b"\0" * 18
"""The smallest file that ends as a zip of torch does."""
_X: Final = b"x"

EXAMPLES: Final[Mapping[str, Mapping[str, bytes]]] = {
    "verl": {
        "latest_checkpointed_iteration.txt": b"500",
        "global_step_500/data.pt": _X,
        "global_step_500/actor/model_world_size_1_rank_0.pt": _X,
        "global_step_500/actor/optim_world_size_1_rank_0.pt": _X,
        "global_step_500/actor/extra_state_world_size_1_rank_0.pt": _X,
    },
    "veomni": {
        "global_step_500/checkpoint_manifest.json": b"{}",
        "global_step_500/model/ckpt/.metadata": _X,
        "global_step_500/model/ckpt/__0_0.distcp": _X,
        "global_step_500/extra_state/rank_0.pt": _X,
    },
    "automodel": {
        "epoch_0_step_500/model/shard-00001-model-00001-of-00001.safetensors": _X,
        "epoch_0_step_500/optim/__0_0.distcp": _X,
        "epoch_0_step_500/optim/.metadata": _X,
    },
    "nemo": {
        "gpt--val_loss=2.35-step=500-last/weights/.metadata": _X,
        "gpt--val_loss=2.35-step=500-last/weights/__0_0.distcp": _X,
        "gpt--val_loss=2.35-step=500-last/weights/common.pt": _X,
        "gpt--val_loss=2.35-step=500-last/context/model.yaml": _X,
    },
    "composer": {"ep0-ba500-rank0.pt": ZIP},
    "torchtune": {
        "step_500/model-00001-of-00001.safetensors": _X,
        "step_500/model.safetensors.index.json": b"{}",
        "step_500/recipe_state.pt": _X,
    },
    "litgpt": {
        "step-00000500/lit_model.pth": _X,
        "step-00000500/hyperparameters.yaml": _X,
        "step-00000500/model_config.yaml": _X,
    },
    "olmo": {
        "step500/.metadata.json": b"{}",
        "step500/train/rank0.pt": _X,
        "step500/model_and_optim/.metadata": _X,
        "step500/model_and_optim/__0_0.distcp": _X,
    },
    "nanochat": {
        "model_000500.pt": ZIP,
        "meta_000500.json": b'{"step": 500}',
        "optim_000500_rank0.pt": ZIP,
    },
    "fairseq": {"checkpoint_2_500.pt": ZIP},
    "speechbrain": {
        "CKPT+2026-11-21+10-00-00+00/CKPT.yaml": b"unixtime: 1795255200.0",
        "CKPT+2026-11-21+10-00-00+00/model.ckpt": ZIP,
    },
    "mmengine": {"iter_500.pth": ZIP, LAST_CHECKPOINT: b"work_dirs/run/iter_500.pth"},
    "detectron2": {"model_0000500.pth": ZIP, LAST_CHECKPOINT: b"model_0000500.pth"},
    "accelerate": {
        "step_500/model.safetensors": _X,
        "step_500/optimizer.bin": _X,
        "step_500/scheduler.bin": _X,
        "step_500/sampler.bin": _X,
        "step_500/random_states_0.pkl": _X,
    },
    "lightning": {"epoch=1-step=500.ckpt": ZIP},
    "lightning-sharded": {
        "epoch=1-step=500.ckpt/.metadata": _X,
        "epoch=1-step=500.ckpt/__0_0.distcp": _X,
        "epoch=1-step=500.ckpt/meta.pt": _X,
    },
    "nanogpt": {"ckpt.pt": ZIP},
    "megatron": {ITERATION: b"500", "iter_0000500/mp_rank_00/model_optim_rng.pt": _X},
    "orbax": {"500/_CHECKPOINT_METADATA": b"{}", "500/items/manifest.ocdbt": _X},
    "t5x": {"checkpoint_500/checkpoint": _X, "checkpoint_500/target.kernel/0.0": _X},
    "torchtitan": {"step-500/.metadata": _X, "step-500/__0_0.distcp": _X},
    "deepspeed": {
        "latest": b"global_step500",
        "global_step500/mp_rank_00_model_states.pt": _X,
    },
    "hf": {
        "checkpoint-500/trainer_state.json": b"{}",
        "checkpoint-500/optimizer.pt": _X,
        "checkpoint-500/model.safetensors": _X,
    },
    "levanter": {
        "step-500/metadata.json": b'{"step": 500, "timestamp": "2026-11-21T10:00:00"}',
        "step-500/d/0": _X,
    },
}
SHOWN: Final[Mapping[str, tuple[int | None, str]]] = {
    "speechbrain": (None, "unknown"),  # its first file is its only mark
    "nanogpt": (None, "unknown"),  # it has no step outside the file
}
"""What is told of it, where that is not (500, complete)."""
