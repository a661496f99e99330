"""One tree, here and on an ssh host: links, names, marks and changes are judged the same."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Checkpoints, list_anywhere
from tests.machines import Machine
from tests.machines import machine as machine
from tests.queries import queries_of
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import hugging_face, levanter, put, settle

QUIET = 3600.0


def saved(root: Path, step: int, **more: Any) -> Path:
    return levanter(root, step, at=time.time() - QUIET, **more)


def linked(root: Path) -> None:
    saved(root, 100)
    saved(root, 200)
    (root / "latest").symlink_to("step-200")
    (root / "zz-best").symlink_to(root / "step-100")
    (root.parent / "best").symlink_to(root / "step-100")
    (root / "last.ckpt").symlink_to("step-200")


def linked_nowhere(root: Path) -> None:
    saved(root, 100)
    (root / "step-300").symlink_to("/nowhere/step-300")
    (root / "best").symlink_to("gone")


def linked_inside(root: Path) -> None:
    step = saved(root, 100)
    put(root.parent / "pool" / "shard.safetensors", b"x" * 700)
    (step / "shard.safetensors").symlink_to(root.parent / "pool" / "shard.safetensors")
    (step / "broken.pt").symlink_to("nowhere")


def one_file_twice(root: Path) -> None:
    put(root / "a-step=5.ckpt", archive({"global_step": 5}), time.time() - QUIET)
    os.link(root / "a-step=5.ckpt", root / "best.ckpt")
    (root / "last.ckpt").symlink_to("a-step=5.ckpt")


def only_a_link_has_the_name(root: Path) -> None:
    saved(root, 100)
    saved(root, 300, name="weird")
    (root / "step-300").symlink_to("weird")


def rejected(root: Path) -> None:
    saved(root, 100)
    saved(root, 200)
    mark = {"name": "step-200", "step": 200, "at": time.time(), "by": "ada", "reason": "spike"}
    put(root / ".cockpit" / "rejected.json", json.dumps({"rejected": [mark]}))


def named_elsewhere(root: Path) -> None:
    for step in (100, 200):
        saved(root, step)
    put(root / "best.txt", "step-100\n")


def half_a_folder(root: Path) -> None:
    os.mkfifo(saved(root, 100) / "metadata.json.new")
    step = saved(root, 200, marker=None)
    os.mkfifo(step / "metadata.json")


def nested(root: Path) -> None:
    for number in range(3):
        saved(root / f"run-{number}" / "checkpoints", 100 + number)


TREES: tuple[Callable[[Path], None], ...] = (
    linked, linked_nowhere, linked_inside, one_file_twice, only_a_link_has_the_name, rejected,
    named_elsewhere, half_a_folder, nested,
)  # fmt: skip
PICKED = {
    "linked": 200, "linked_nowhere": 100, "linked_inside": 100, "one_file_twice": 5,
    "only_a_link_has_the_name": 300, "rejected": 100, "named_elsewhere": 200, "half_a_folder": 100,
    "nested": 102,
}  # fmt: skip
"""The step to relaunch from."""


@pytest.mark.parametrize("grow", TREES, ids=lambda grow: grow.__name__)
async def test_a_tree_is_judged_the_same(
    grow: Callable[[Path], None], machine: Machine, tmp_path: Path
) -> None:
    root = tmp_path / "run" / "ckpts"
    root.mkdir(parents=True)
    grow(root)
    settle(root, time.time() - QUIET)
    here = await list_anywhere([str(root)], clock=SystemClock())
    value = await list_anywhere([str(machine.at(root))], clock=SystemClock())
    prefix = "" if machine.host is None else f"ssh://{machine.host}"
    text = json.dumps(value.to_json()).replace(prefix or "ssh://", "")
    assert json.loads(text) == json.loads(json.dumps(here.to_json()))
    assert value.relaunch_from is not None and value.relaunch_from.step == PICKED[grow.__name__]


async def test_a_checkpoint_that_is_named_itself_falls_under_the_marks_of_its_root(
    machine: Machine, tmp_path: Path
) -> None:
    rejected(tmp_path)
    (item,) = (
        await list_anywhere([str(machine.at(tmp_path / "step-200"))], clock=SystemClock())
    ).items
    assert item.state.value == "rejected"


@pytest.mark.parametrize("name", ["nowhere", "file"])
async def test_a_root_that_is_no_folder_says_so(
    name: str, machine: Machine, tmp_path: Path
) -> None:
    put(tmp_path / "file")
    with pytest.raises(ListingError) as found:
        await list_anywhere([str(machine.at(tmp_path / name))], clock=SystemClock())
    what = {"nowhere": "does not exist", "file": "is not a folder"}[name]
    assert str(found.value) == f"{machine.shown(tmp_path / name)} {what}"
    assert found.value.missing == (name == "nowhere"), "a file stands in its way"


async def test_a_complete_save_that_loses_data_is_seen_at_the_next_look(
    machine: Machine, tmp_path: Path
) -> None:
    for step in (100, 200):
        saved(tmp_path, step)
    path = (str(machine.at(tmp_path)),)
    (query,) = queries_of([RunSpec(name="a", checkpoints=CheckpointSpec(path=path))])
    source = Checkpoints(SystemClock())

    async def states() -> dict[int | None, str]:
        value = (await source.observe([query]))["a"].value
        assert value is not None
        return {item.step: item.state.value for item in value.items}

    assert [await states() for _ in range(3)] == [{100: "complete", 200: "complete"}] * 3
    (tmp_path / "step-100" / "d" / "0c0ffee0").unlink()
    assert await states() == {100: "incomplete", 200: "complete"}
    (tmp_path / "step-200" / "metadata.json").write_text("")
    assert (await states())[200] != "complete", "its marker was written again in place"
    shutil.rmtree(tmp_path / "step-200")
    assert set(await states()) == {100}


@pytest.mark.parametrize("state", [b"", b"\0" * 300, b'{"best_model_ch'])
async def test_a_state_that_cannot_be_read_is_not_one_without_a_best(
    state: bytes, machine: Machine, tmp_path: Path
) -> None:
    for step in (100, 200, 300):
        hugging_face(tmp_path, step, at=time.time() - QUIET)
    put(tmp_path / "checkpoint-200" / "trainer_state.json", state)
    value = await list_anywhere([str(machine.at(tmp_path))], clock=SystemClock())
    assert "the best one is unknown" in json.dumps(value.to_json())
