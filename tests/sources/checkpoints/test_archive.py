"""A checkpoint that is one file: its step is read without running anything of it."""

from __future__ import annotations

import io
import json
import pickle
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
from cockpit.sources.checkpoints.archive import ArchiveSays, archive_says
from tests.sources.checkpoints.trees import NOW, put


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
