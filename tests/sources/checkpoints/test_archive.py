"""A checkpoint that is one file: its step is read without running anything of it.

A marker without data is no checkpoint, in any layout (SPEC K).

What is missing of a save by many ranks, by what its own files say.

Very many step folders: the newest at once, the others over later looks, the rest counted.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.cli import main
from cockpit.model.clock import FixedClock
from cockpit.model.run import CheckpointSpec
from cockpit.sources.checkpoints import host
from cockpit.sources.checkpoints.archive import ArchiveSays, archive_says
from cockpit.sources.checkpoints.bucket import WALK_EVERY
from cockpit.sources.checkpoints.contents import HERE, TreeListing
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.queries import queries_of
from tests.rules.making import run_spec
from tests.sources.checkpoints.test_source import observed, run_of, value_of
from tests.sources.checkpoints.trees import NOW, levanter, metadata, put, settle


def archive(state: object, how: int = zipfile.ZIP_STORED) -> bytes:
    """Pack bytes (a pickle as it stands) or an object the way ``torch.save`` does."""
    data = state if isinstance(state, bytes) else pickle.dumps(state, protocol=2)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as packed:
        packed.writestr("archive/data.pkl", data)
        packed.writestr("archive/data/0", b"\0" * 64)
        packed.writestr("archive/version", b"3\n")
    return file.getvalue()


def says(content: bytes) -> ArchiveSays:
    return archive_says(lambda count, at: content[at : at + count], len(content))


def legacy(state: object) -> bytes:
    """Pack an object the way ``torch.save`` did before it wrote zips."""
    magic, system = 0x1950A86A20F9469CFC6C, {"protocol_version": 1001, "little_endian": True}
    parts = (magic, 1001, system, state, ["0"])
    return b"".join(pickle.dumps(part, protocol=2) for part in parts) + b"\0" * 64


def test_a_file_of_the_older_form_tells_its_step_and_not_whether_it_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (
        ("ckpt.pt", legacy({"model": {"w": Weights()}, "iter_num": 250})),
        ("ckpt_none.pt", legacy({"model": {}})),
        ("ckpt_cut.pt", legacy({"iter_num": 250})[:60]),
    ):
        put(tmp_path / name, content)
    assert main(["checkpoints", str(tmp_path), "--json"]) == 0
    items = {
        item["path"].rpartition("/")[2]: item
        for item in json.loads(capsys.readouterr().out)["items"]
    }
    assert {name: (item["step"], item["state"]) for name, item in items.items()} == {
        "ckpt.pt": (250, "unknown"), "ckpt_none.pt": (None, "unknown"),
        "ckpt_cut.pt": (None, "unknown"),
    }  # fmt: skip
    assert "old torch.save format" in items["ckpt.pt"]["note"]
    assert "names none" in items["ckpt_none.pt"]["note"]
    assert "not followed" in items["ckpt_cut.pt"]["note"]


class Weights:
    """Something that a pickle would build by calling it."""


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ({"model": OrderedDict(w=Weights()), "iter_num": 250, "best_val_loss": 2.5}, 250),
        ({"epoch": 3, "global_step": 1200, "state_dict": {}, "loops": {"n": [1, (2, 3)]}}, 1200),
        ({"step": 7, "args": SimpleNamespace(step=99)}, 7),
        ({"iteration": 12, "state": {"step": 3}}, 12),
        ({"trainer": {"global_step": 31}}, 31),
        (OrderedDict(train_state=SimpleNamespace(step=9)), 9),
        ({"model": {"step": 4}}, None),
        ({"step": -4}, None),
        ({"step": True}, None),
        ({"step": "500"}, None),
        ({"step": Weights()}, None),
        ([1, 2], None),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_the_step_is_what_the_trainer_wrote(
    tmp_path: Path, state: object, step: int | None, protocol: int
) -> None:
    found = says(archive(pickle.dumps(state, protocol=protocol)))
    assert found.whole and found.step == step


class Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


def test_nothing_in_it_is_called(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    found = says(archive({"iter_num": 5, "x": Evil(str(mark))}))
    assert found.step == 5 and not mark.exists()
    assert says(archive(Evil(str(mark)))).step is None
    assert not mark.exists()


def long_number(count: int) -> bytes:
    head = b"\x80\x02}(X\x04\x00\x00\x00step\x8b"
    return head + struct.pack("<i", count) + b"\x7f" * count + b"u."


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\x80\x02.",
        b"\x80\x02" + b"(" * 1_000_000 + b".",
        b"\x80\x02]" + b"\x85" * 300_000 + b".",
        b"\x80\x04)" + b"2\x86" * 100 + b".",
        b"\x80\x02}r\xff\xff\xff\xff.",
        b"\x80\x04\x96" + struct.pack("<Q", 1 << 60) + b".",
        b"}(Vstep\nL" + b"9" * 500_000 + b"L\nu.",
        long_number(2_000_000),
        b"cos\nsystem\n(Vtouch x\ntR.",
        b"\x80\x02h\x05.",
        b"\x80\x02}(K\x01u.",
    ],
)
def test_a_hostile_one_costs_little_and_tells_nothing(tmp_path: Path, hostile: bytes) -> None:
    assert says(archive(hostile)).step is None


def test_a_bomb_is_not_blown_up(tmp_path: Path) -> None:
    bomb = archive(b"\x80\x02" + b"}" * (40 << 20), zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    assert "larger than" in (says(bomb).problem or "")


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    for content in (data, archive(b"\x80\x02" + data), archive({"step": 1})[: len(data)]):
        assert isinstance(says(content), ArchiveSays)


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["checkpoints", str(root), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_files_without_a_step_in_their_name_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "last.ckpt", archive({"epoch": 3, "global_step": 1200}), NOW - 100)
    put(tmp_path / "epoch=2-val_loss=0.12.ckpt", archive({"epoch": 2}), NOW - 200)
    put(tmp_path / "epoch=1-step=400.ckpt", archive({"epoch": 1, "global_step": 400}), NOW - 300)
    put(tmp_path / "cut.ckpt", archive({"global_step": 1300})[:-30], NOW - 50)
    document = listed(tmp_path, capsys)
    found = {Path(item["path"]).name: item for item in document["items"]}
    assert {name: (item["step"], item["state"]) for name, item in found.items()} == {
        "last.ckpt": (1200, "complete"),
        "epoch=2-val_loss=0.12.ckpt": (None, "complete"),
        "epoch=1-step=400.ckpt": (400, "complete"),
        "cut.ckpt": (None, "incomplete"),
    }
    assert "epoch 2" in found["epoch=2-val_loss=0.12.ckpt"]["note"]
    assert all(item["size"] for item in found.values())
    assert document["relaunch_from"]["step"] == 1200


def test_a_later_file_without_a_step_is_picked_by_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "epoch=1-step=400.ckpt", archive({"global_step": 400}), NOW - 300)
    put(tmp_path / "last.ckpt", archive({"epoch": 9}), NOW - 100)
    pick = listed(tmp_path, capsys)["relaunch_from"]
    assert pick["step"] is None and pick["path"].endswith("/last.ckpt")
    assert "by the time of its save" in pick["why"]
    (tmp_path / "last.ckpt").unlink()
    (tmp_path / "last.ckpt").symlink_to("epoch=1-step=400.ckpt")
    (only,) = listed(tmp_path, capsys)["items"]
    assert only["step"] == 400


def test_exports_beside_checkpoints_do_not_hide_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("model.safetensors", "optimizer.pt", "trainer_state.json"):
        put(tmp_path / "checkpoint-500" / name, b"{}")
    for name in ("best.pt", "last.pt", "model_best.pth.tar"):
        put(tmp_path / name, archive({"model": {}}))
    (item,) = listed(tmp_path, capsys)["items"]
    assert (item["step"], item["state"]) == (500, "complete")
    run = tmp_path / "run"
    put(run / "files" / "best.pt", archive({"step": 5}))
    put(run / "latest.pt", archive({"step": 6}))
    assert [item["step"] for item in listed(run, capsys)["items"]] == [6]
    put(run / "checkpoints" / "ckpt.pt", archive({"step": 7}))
    assert [item["step"] for item in listed(run, capsys)["items"]] == [7]


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


def emptied_listed(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["checkpoints", str(root), "--json", *words]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("name", EMPTIED)
def test_a_marker_without_data_is_incomplete_at_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in EMPTIED[name].items():
        put(tmp_path / path, content, at=tmp_path.stat().st_mtime)
    document = emptied_listed(tmp_path, capsys, "--layout", name.partition(",")[0])
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
    document = emptied_listed(tmp_path, capsys)
    (item,) = document["items"]
    assert (item["state"], item["note"]) == ("incomplete", TORN[name][1])
    assert document["relaunch_from"] is None


@pytest.mark.parametrize("name", WHOLE)
def test_what_real_trainers_leave_is_complete(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in WHOLE[name].items():
        put(tmp_path / path, content)
    (item,) = emptied_listed(tmp_path, capsys)["items"]
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
    found = {
        item["step"]: item["state"] for item in emptied_listed(tmp_path, capsys, *words)["items"]
    }
    assert found == {6: "complete", 7: "incomplete"}
    document = emptied_listed(tmp_path, capsys, "--pattern", "best", "--marker", "DONE")
    assert document["relaunch_from"]["path"].endswith("/best")
    put(tmp_path / "model_latest.bin", b"w")
    document = emptied_listed(tmp_path, capsys, "--pattern", r"model_latest\.bin", "--marker", "")
    assert [item["state"] for item in document["items"]] == ["complete"]


def test_what_only_a_marker_is_left_of_the_trainer_would_load_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path, 400)
    shutil.rmtree(levanter(tmp_path, 500) / "d")
    document = emptied_listed(tmp_path, capsys)
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


def shard(parts: object) -> bytes:
    return archive({"optimizer_state_dict": {"zero_stage": 2, "partition_count": parts}})


def saved(root: Path, step: int, ranks: tuple[int, ...], parts: object) -> None:
    folder = root / f"global_step{step}"
    put(folder / "mp_rank_00_model_states.pt", archive({"module": {}}))
    for rank in ranks:
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        put(folder / name, shard(parts) if parts is not None else b"x")
    put(root / "latest", f"global_step{step}".encode())


def parts_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
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
    (item,) = parts_listed(tmp_path, capsys)
    assert (item["step"], item["state"]) == (500, state)
    assert item["note"] == note or (note is not None and note in item["note"])


def test_another_save_from_as_many_ranks_bears_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, 400, (0, 1, 2), None)
    saved(tmp_path, 500, (0, 1, 2), None)
    assert [item["state"] for item in parts_listed(tmp_path, capsys)] == ["complete", "complete"]


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
    found = parts_listed(tmp_path, capsys)
    assert [(item["step"], item["state"]) for item in found] == [(200, "complete"), (300, state)]


COUNT, NEWEST, MORE = 90, 10, 10


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root with many folders, of which a look has time for ``MORE`` beside the newest."""
    for step in range(1, COUNT + 1):
        levanter(tmp_path / "c", 7 * step, at=NOW - 1000)
    monkeypatch.setattr(host, "HERE", HERE._replace(newest=NEWEST, growth=1, rounds=3))
    return tmp_path / "c"


async def test_the_newest_steps_come_first_and_the_rest_over_later_looks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    left = []
    for _ in range(3):
        value = value_of(await observed(source, run, alive=True))
        seen = [item.step for item in value.items]
        assert seen == [7 * step for step in range(COUNT - len(seen) + 1, COUNT + 1)]
        assert value.latest_complete == 7 * COUNT and value.relaunch_from is not None
        assert len(seen) + value.unjudged == COUNT
        assert value.to_json().get("unjudged", 0) == value.unjudged
        assert (value.trainer_would_load is None) == bool(value.unjudged), "it may go by others"
        left.append(value.unjudged)
    assert left == [COUNT - NEWEST - MORE, COUNT - 2 * (NEWEST + MORE), 0]
    monkeypatch.undo()
    assert value.items == list_checkpoints([str(root)], now=NOW).items


async def test_none_is_picked_while_the_only_whole_ones_have_had_no_turn(root: Path) -> None:
    for step in range(COUNT - NEWEST - MORE + 1, COUNT + 1):
        (root / f"step-{7 * step}" / "metadata.json").unlink()
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    value = value_of(await observed(source, run, alive=True))
    assert value.unlisted == (str(root),) and value.latest_complete is None
    value = value_of(await observed(source, run, alive=True))
    assert value.unlisted == () and value.latest_complete == 7 * (COUNT - NEWEST - MORE)
    whole = [item for item in value.items if item.complete]
    assert len(value.items) == 2 * (NEWEST + MORE) and len(whole) == NEWEST + MORE, (
        "none is lost again"
    )


async def test_one_that_goes_bad_later_is_noticed_when_its_turn_comes(root: Path) -> None:
    source, run = Checkpoints(FixedClock(NOW)), run_of(root)
    for _ in range(3):
        await observed(source, run, alive=True)
    (root / "step-7" / "metadata.json").unlink()
    for _ in range(3):
        value = value_of(await observed(source, run, alive=True))
    assert [item.step for item in value.items if not item.complete] == [7]


async def test_a_folder_above_one_that_came_late_is_looked_into_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levanter(tmp_path / "c" / "run" / "checkpoints", 7)
    monkeypatch.setattr(host, "HERE", HERE._replace(barren=5))
    asked, late = HostTree.fetch, {str(tmp_path / "c" / "run" / "checkpoints")}

    async def without_some(tree: HostTree, *what: Any, **more: Any) -> TreeListing:
        found = await asked(tree, *what, **more)
        for path in late:
            found.levels.pop(path, None)
        return found

    monkeypatch.setattr(HostTree, "fetch", without_some)
    source, run = Checkpoints(FixedClock(NOW)), run_of(tmp_path / "c")
    first = value_of(await observed(source, run, alive=True))
    assert first.items == () and first.unjudged
    late.clear()
    assert value_of(await observed(source, run, alive=True)).latest_complete == 7
