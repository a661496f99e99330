"""Every layout of checkpoints is found by the command line in the smallest tree that it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.sources.checkpoints.layouts import LAYOUTS
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, metadata, put, settle

ZIP = b"PK\x03\x04" + b"\0" * 18 + b"PK\x05\x06" + b"\0" * 18
CUSTOM = ("--pattern", r"snap_(\d+)", "--marker", "DONE")
TREES: dict[str, dict[str, bytes]] = {
    "levanter": {
        "step-500/metadata.json": metadata(500, NOW - 3600).encode(), "step-500/d/0": b"x",
    },
    "orbax": {"500/_CHECKPOINT_METADATA": b"{}", "500/items/manifest.ocdbt": b"x"},
    "hf": {
        "checkpoint-500/trainer_state.json": b"{}", "checkpoint-500/optimizer.pt": b"x",
        "checkpoint-500/model.safetensors": b"x",
    },
    "accelerate": {
        "step_500/model.safetensors": b"x", "step_500/optimizer.bin": b"x",
        "step_500/scheduler.bin": b"x", "step_500/sampler.bin": b"x",
        "step_500/random_states_0.pkl": b"x",
    },
    "deepspeed": {
        "latest": b"global_step500", "global_step500/mp_rank_00_model_states.pt": b"x",
        "global_step500/zero_pp_rank_0_mp_rank_00_optim_states.pt": archive(
            {"optimizer_state_dict": {"partition_count": [1]}}
        ),
    },
    "megatron": {
        "latest_checkpointed_iteration.txt": b"500",
        "iter_0000500/mp_rank_00/model_optim_rng.pt": b"x",
    },
    "torchtitan": {"step-500/.metadata": b"x", "step-500/__0_0.distcp": b"x"},
    "lightning": {"epoch=1-step=500.ckpt": ZIP},
    "nanogpt": {"ckpt.pt": ZIP},
    "custom": {"snap_500/DONE": b"x", "snap_500/weights": b"x"},
}  # fmt: skip
"""One complete save of step 500 in each layout."""
FOUND: dict[str, tuple[int | None, str]] = {"nanogpt": (None, "unknown")}
"""What is told of it, where that is not (500, complete): nanoGPT has no step outside the file."""


def grown(folder: Path, layout: str) -> Path:
    root = folder / layout
    for path, content in TREES[layout].items():
        put(root / path, content)
    return settle(root, NOW - 3600)


def listed(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["checkpoints", str(root), "--json", *words]) == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_no_layout_is_without_a_tree() -> None:
    assert sorted(TREES) == sorted([*LAYOUTS, "custom"])


@pytest.mark.parametrize("layout", TREES)
def test_a_layout_is_listed_by_its_name(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = CUSTOM if layout == "custom" else ()
    (item,) = listed(grown(tmp_path, layout), capsys, "--layout", layout, *more)
    assert (item["step"], item["state"]) == FOUND.get(layout, (500, "complete"))


@pytest.mark.parametrize("layout", [layout for layout in TREES if layout != "custom"])
def test_a_layout_is_recognised(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (item,) = listed(grown(tmp_path, layout), capsys)
    assert (item["step"], item["state"]) == FOUND.get(layout, (500, "complete"))


@pytest.mark.parametrize("layout", ["auto", *TREES])
def test_the_run_file_takes_a_layout_and_a_check_uses_it(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = "levanter" if layout == "auto" else layout
    root = grown(tmp_path, tree)
    custom = "custom = { pattern = 'snap_(\\d+)', marker = 'DONE' }\n" if tree == "custom" else ""
    path = tmp_path / "cockpit.toml"
    path.write_text(
        f'[[run]]\nname = "toy"\n[run.checkpoints]\npath = "{root}"\nlayout = "{layout}"\n{custom}'
    )
    assert load(path).runs[0].checkpoints is not None
    main(["check", "--json", "--config", str(path)])
    facet = json.loads(capsys.readouterr().out)["runs"][0]["facets"]["checkpoints"]
    assert facet["error"] is None
    (item,) = facet["value"]["items"]
    assert (item["step"], item["state"]) == FOUND.get(tree, (500, "complete"))
