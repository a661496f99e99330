"""What is missing of a save by many ranks, by what its own files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, put, settle


def shard(parts: object) -> bytes:
    return archive({"optimizer_state_dict": {"zero_stage": 2, "partition_count": parts}})


def saved(root: Path, step: int, ranks: tuple[int, ...], parts: object) -> None:
    folder = root / f"global_step{step}"
    put(folder / "mp_rank_00_model_states.pt", archive({"module": {}}))
    for rank in ranks:
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        put(folder / name, shard(parts) if parts is not None else b"x")
    put(root / "latest", f"global_step{step}".encode())


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    settle(root, NOW - 3600)
    assert main(["checkpoints", str(root), "--json"]) == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


@pytest.mark.parametrize(
    ("ranks", "parts", "state", "note"),
    [
        ((0, 1, 2, 3), [4, 4], "complete", None),
        ((0, 1, 2), [4, 4], "incomplete", "3 of 4 parts of the optimizer (rank 3 is missing)"),
        ((0, 1, 2), 4, "incomplete", "3 of 4 parts of the optimizer (rank 3 is missing)"),
        ((0, 1, 3), None, "incomplete", "files of some ranks are missing"),
        ((0, 1, 2), None, "unknown", "cannot tell how many ranks have saved"),
    ],
)
def test_the_last_ranks_part_of_a_save_of_deepspeed(
    ranks: tuple[int, ...],
    parts: object,
    state: str,
    note: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(tmp_path, 500, ranks, parts)
    (item,) = listed(tmp_path, capsys)
    assert (item["step"], item["state"]) == (500, state)
    assert item["note"] == note or (note is not None and note in item["note"])


def test_another_save_from_as_many_ranks_bears_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, 400, (0, 1, 2), None)
    saved(tmp_path, 500, (0, 1, 2), None)
    assert [item["state"] for item in listed(tmp_path, capsys)] == ["complete", "complete"]


@pytest.mark.parametrize(
    ("lost", "state"),
    [
        ((), "complete"),
        (("random_states_0.pkl", "random_states_1.pkl"), "incomplete"),
        (("random_states_0.pkl",), "incomplete"),
        (("model.safetensors",), "incomplete"),
        (("optimizer.bin",), "unknown"),
    ],
)
def test_a_save_of_accelerate(
    lost: tuple[str, ...], state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl",
        "random_states_1.pkl",
    }  # fmt: skip
    for step in (200, 300):
        for name in names - set(lost if step == 300 else ()):
            put(tmp_path / f"step_{step}" / name, b"x")
    found = listed(tmp_path, capsys)
    assert [(item["step"], item["state"]) for item in found] == [(200, "complete"), (300, state)]
