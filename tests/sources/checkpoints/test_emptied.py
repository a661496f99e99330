"""A marker without data is no checkpoint, in any layout (SPEC K)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.run import CheckpointSpec
from cockpit.sources.checkpoints.bucket import WALK_EVERY
from cockpit.sources.checkpoints.source import Checkpoints
from tests.queries import queries_of
from tests.rules.making import run_spec
from tests.sources.checkpoints.trees import NOW, levanter, metadata, put, settle

HEX = "0bad1eb8d98e1c96ba435d5c737bd233"
META = metadata(500, NOW - 3600).encode()
ORBAX = {
    "500/_CHECKPOINT_METADATA": b"{}", "500/items/_METADATA": b"{}", "500/items/_sharding": b"{}",
    "500/items/array_metadatas/process_0": b"{}", "500/items/manifest.ocdbt": b"m",
    "500/items/ocdbt.process_0/manifest.ocdbt": b"m",
}  # fmt: skip
HF = {
    "checkpoint-500/trainer_state.json": b"{}", "checkpoint-500/config.json": b"{}",
    "checkpoint-500/training_args.bin": b"t", "checkpoint-500/rng_state.pth": b"r",
}  # fmt: skip
EMPTIED: dict[str, dict[str, bytes]] = {
    "levanter": {"step-500/metadata.json": META},
    "levanter, its manifest": {"step-500/metadata.json": META, "step-500/manifest.ocdbt": b"m"},
    "levanter, an empty array": {"step-500/metadata.json": META, f"step-500/d/{HEX}": b""},
    "levanter, zarr's descriptions": {
        "step-500/metadata.json": META, "step-500/model/w/zarr.json": b"{}",
        "step-500/model/w/.zarray": b"{}",
    },
    "orbax": ORBAX,
    "orbax, its marker": {"500/_CHECKPOINT_METADATA": b"{}", "500/commit_success.txt": b"ok"},
    "hf": HF,
    "hf, its optimizer alone": {**HF, "checkpoint-500/optimizer.pt": b"o"},
    "hf, weights cut to nothing": {
        **HF, "checkpoint-500/optimizer.pt": b"o", "checkpoint-500/model.safetensors": b"",
    },
    "torchtitan": {"step-500/.metadata": b"m", "step-500/__0_0.distcp": b""},
    "deepspeed": {"latest": b"global_step500", "global_step500/README.md": b"x"},
    "megatron": {
        "latest_checkpointed_iteration.txt": b"500", "iter_0000500/metadata.json": b"{}",
        "iter_0000500/.metadata": b"m",
    },
}  # fmt: skip
WHOLE: dict[str, dict[str, bytes]] = {
    "levanter": {
        "step-500/metadata.json": META, "step-500/manifest.ocdbt": b"m", f"step-500/d/{HEX}": b"a",
        f"step-500/d/{HEX}.__lock": b"",
    },
    "levanter, zarr": {"step-500/metadata.json": META, "step-500/model/w/c/0/0": b"a"},
    "orbax": {**ORBAX, f"500/items/ocdbt.process_0/d/{HEX}": b"a"},
    "hf": {**HF, "checkpoint-500/optimizer.pt": b"o", "checkpoint-500/model.safetensors": b"w"},
    "hf, an adapter": {
        **HF, "checkpoint-500/optimizer.pt": b"o", "checkpoint-500/adapter_model.safetensors": b"w",
    },
    "torchtitan, a rank with nothing": {
        "step-500/.metadata": b"m", "step-500/__0_0.distcp": b"a", "step-500/__1_0.distcp": b"",
    },
    "megatron, distributed": {
        "latest_checkpointed_iteration.txt": b"500", "iter_0000500/metadata.json": b"{}",
        "iter_0000500/common.pt": b"c", "iter_0000500/__0_0.distcp": b"a",
        "iter_0000500/.metadata": b"m",
    },
}  # fmt: skip


def listed(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["checkpoints", str(root), "--json", *words]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("name", EMPTIED)
def test_a_marker_without_data_is_incomplete_at_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in EMPTIED[name].items():
        put(tmp_path / path, content, at=tmp_path.stat().st_mtime)
    document = listed(tmp_path, capsys, "--layout", name.partition(",")[0])
    (item,) = document["items"]
    assert (item["step"], item["state"]) == (500, "incomplete")
    assert any(word in item["note"] for word in ("no data beside", "empty", "weights beside"))
    assert document["latest_complete"] is None and document["relaunch_from"] is None


STATE = "checkpoint-500/trainer_state.json"
OPTIMIZER = {"checkpoint-500/optimizer.pt": b"o"}
TORN: dict[str, tuple[dict[str, bytes], str]] = {
    "a part of the weights": (
        {**HF, **OPTIMIZER, "checkpoint-500/model-00002-of-00003.safetensors": b"w"},
        "1 of 3 parts of model.safetensors",
    ),
    "a state cut off by a full disk": (
        {**HF, **OPTIMIZER, "checkpoint-500/model.safetensors": b"w", STATE: b'{"log_his' * 99},
        "trainer_state.json is truncated",
    ),
    "shards that nothing describes": (
        {**HF, "checkpoint-500/pytorch_model_fsdp_0/__0_0.distcp": b"w"},
        "no pytorch_model_fsdp_0/.metadata",
    ),
    "an optimizer without its model": (
        {"latest": b"global_step500", "global_step500/zero_pp_rank_0_optim_states.pt": b"o"},
        "no model states beside the optimizer's",
    ),
}


@pytest.mark.parametrize("name", TORN)
def test_what_its_own_names_say_must_be_there_is_missed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in TORN[name][0].items():
        put(tmp_path / path, content)
    settle(tmp_path, NOW - 7200)
    document = listed(tmp_path, capsys)
    (item,) = document["items"]
    assert (item["state"], item["note"]) == ("incomplete", TORN[name][1])
    assert document["relaunch_from"] is None


@pytest.mark.parametrize("name", WHOLE)
def test_what_real_trainers_leave_is_complete(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in WHOLE[name].items():
        put(tmp_path / path, content)
    (item,) = listed(tmp_path, capsys)["items"]
    assert (item["step"], item["state"], item["note"]) == (500, "complete", None)


def test_a_layout_of_ones_own_needs_data_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "snap_7" / "DONE", b"")
    put(tmp_path / "snap_6" / "DONE", b"")
    put(tmp_path / "snap_6" / "w", b"w")
    put(tmp_path / "best" / "DONE", b"")
    put(tmp_path / "best" / "w", b"w")
    words = ("--pattern", r"snap_(\d+)", "--marker", "DONE")
    found = {item["step"]: item["state"] for item in listed(tmp_path, capsys, *words)["items"]}
    assert found == {6: "complete", 7: "incomplete"}
    document = listed(tmp_path, capsys, "--pattern", "best", "--marker", "DONE")
    assert document["relaunch_from"]["path"].endswith("/best")
    put(tmp_path / "model_latest.bin", b"w")
    document = listed(tmp_path, capsys, "--pattern", r"model_latest\.bin", "--marker", "")
    assert [item["state"] for item in document["items"]] == ["complete"]


def test_what_only_a_marker_is_left_of_the_trainer_would_load_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path, 400)
    shutil.rmtree(levanter(tmp_path, 500) / "d")
    document = listed(tmp_path, capsys)
    assert document["relaunch_from"]["step"] == 400
    assert document["trainer_would_load"]["step"] == 500


class Still:
    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return NOW

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


@pytest.mark.parametrize("how", ["removed", "truncated"])
async def test_data_that_goes_later_is_missed_by_a_cockpit_that_watches(
    how: str, tmp_path: Path
) -> None:
    folder = levanter(tmp_path, 500)
    put(folder / "d" / HEX, b"a")
    (folder / "d" / "0c0ffee0").unlink()
    run = run_spec(checkpoints=CheckpointSpec(path=(str(tmp_path),)))
    source = Checkpoints(Still())

    async def state() -> str:
        value = (await source.observe(queries_of([run])))["toy"].value
        assert value is not None
        return value.items[0].state.value

    assert [await state() for _ in range(3)] == ["complete"] * 3
    if how == "removed":
        (folder / "d" / HEX).unlink()
    else:
        (folder / "d" / HEX).write_bytes(b"")
    looks = 1 if how == "removed" else WALK_EVERY + 1
    assert [await state() for _ in range(looks)][-1] == "incomplete"
