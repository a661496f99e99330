"""Which files a run has in a folder: the same on this machine and on a host."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from cockpit.hosts import ranges
from cockpit.model.clock import SystemClock
from cockpit.model.run import WandbSpec
from cockpit.sources.run_folders import Chosen
from cockpit.sources.wandb.listing import LaunchFiles, Wanted
from cockpit.sources.wandb.run_files import read_run
from tests.machines import Machine
from tests.machines import machine as machine
from tests.sources.wandb.test_fragment import written

T0 = 1_600_000_000.0 + os.getpid() * 10.0
"""Other processes that run these tests have open files with other names."""


class Find:
    """Finds the files of a run on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.host = machine.host

    def __call__(self, place: Path, run_id: str | None) -> list[str]:
        return list(self.all(place, run_id).paths)

    def all(self, place: Path, run_id: str | None) -> Chosen:
        wanted = Wanted(str(place), run_id, str(place), self.host or "")
        return LaunchFiles().chosen(wanted)


@pytest.fixture
def find(machine: Machine) -> Find:
    return Find(machine)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "offline-run-20260101_000000-aaa",
        "offline-run-20260102_000000-aaa",
        "run-20260103_000000-bbb",
        "offline-run-20251231_000000-aaab",
    ):
        directory = tmp_path / "wandb" / name
        directory.mkdir(parents=True)
        (directory / f"run-{name.rpartition('-')[2]}.wandb").write_bytes(b"")
    (tmp_path / "wandb" / "latest-run").symlink_to("offline-run-20260102_000000-aaa")
    (tmp_path / "wandb" / "debug.log").write_text("x")
    return tmp_path / "wandb"


def names(paths: list[str]) -> list[str]:
    return [Path(path).parent.name for path in paths]


def test_all_launches_of_an_id_and_of_no_other(folder: Path, find: Find) -> None:
    assert names(find(folder, "aaa")) == [
        "offline-run-20260101_000000-aaa",
        "offline-run-20260102_000000-aaa",
    ]


def test_a_hidden_folder_goes_first_as_the_client_takes_it(folder: Path, find: Find) -> None:
    begun(folder.parent / ".wandb", 0, "hidden", T0)
    assert find(folder.parent, None)[0].endswith("run-hidden.wandb")
    assert len(find(folder.parent, "hidden")) == len(find(folder.parent, "bbb")) == 1
    with pytest.raises(FileNotFoundError, match=r"; there: hidden \(newest first"):
        find(folder.parent, "zzz")


def test_a_single_launch(folder: Path, find: Find) -> None:
    launch = folder / "offline-run-20260101_000000-aaa"
    assert names(find(launch, "aaa")) == [launch.name]
    assert names(find(launch, None)) == [launch.name]
    with pytest.raises(FileNotFoundError, match=r"^no W&B run other in .*; there: aaa "):
        find(launch, "other")


def begun(folder: Path, after: float, run_id: str, written_at: float, *, rows: int = 5) -> Path:
    at = datetime.fromtimestamp(T0 + after).astimezone().strftime("%Y%m%d_%H%M%S")
    path = folder / f"offline-run-{at}-{run_id}" / f"run-{run_id}.wandb"
    path.parent.mkdir(parents=True)
    path.touch()
    if rows:
        written(path, rows)
    os.utime(path, (written_at, written_at))
    return path


def test_an_evaluation_that_is_over_does_not_hide_the_run_that_a_process_writes(
    tmp_path: Path, find: Find
) -> None:
    train = begun(tmp_path, 0, "train", T0)
    begun(tmp_path, 3600, "eval", T0 + 3610)
    assert find(tmp_path, None)[0].endswith("run-eval.wandb"), "neither is written now"
    with train.open("ab"):
        assert find(tmp_path, None) == [str(train)]
        notes = find.all(tmp_path, None).notes
        assert notes == ("eval lies there too; train is read",)
    with train.open("rb"):
        assert find(tmp_path, None)[0].endswith("run-eval.wandb"), "a reader is none"


def test_the_run_that_went_on_is_read_where_no_process_can_be_seen(
    tmp_path: Path, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "open_to_write", lambda *_: None)
    train = begun(tmp_path, 0, "train", T0 + 3700)
    begun(tmp_path, 3600, "eval", T0 + 3610)
    assert find(tmp_path, None) == [str(train)]


def test_one_folder_by_two_names_is_one_writer_s(tmp_path: Path, find: Find) -> None:
    first = begun(tmp_path / "disk", 0, "same", T0)
    second = begun(tmp_path / "disk", 5, "same", T0 + 5)
    (tmp_path / "wandb").symlink_to(tmp_path / "disk")
    with (tmp_path / "wandb" / first.relative_to(tmp_path / "disk")).open("ab"):
        found = find.all(tmp_path, "same")
    assert found.paths == [str(first), str(second)] and found.written == frozenset({str(first)})


def test_odd_names_are_names(tmp_path: Path, find: Find) -> None:
    for run_id in ("a*b", "[x]", "it's \n $HOME", "a"):
        begun(tmp_path, 0, run_id, T0)
        assert len(find(tmp_path, run_id)) == 1, run_id
    (tmp_path / "run-20260103_000000-zz" / "run-zz.wandb").mkdir(parents=True)
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "run-20990103_000000-lost").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="no W&B run zz in "):
        find(tmp_path, "zz")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotADirectoryError):
        find(tmp_path / "pipe", None)
    with pytest.raises(FileNotFoundError):
        find(tmp_path / "pipe" / "below", None)
    with pytest.raises(OSError, match="symbolic links"):
        find(tmp_path / "circle", None)


def test_of_many_launches_the_newest_are_named(tmp_path: Path, find: Find) -> None:
    for day in range(400):
        (tmp_path / f"run-2026{day:04d}_000000-r{day}").mkdir()
        (tmp_path / f"run-2026{day:04d}_000000-r{day}" / f"run-r{day}.wandb").write_bytes(
            b"12345678"
        )
    assert find(tmp_path, None)[0].endswith("run-r399.wandb")
    with pytest.raises(FileNotFoundError, match=r"there: r399, r398, .* and 295 more "):
        find(tmp_path, "nope")


def test_two_launches_of_one_id_that_processes_write_are_two_writers(tmp_path: Path) -> None:
    first = begun(tmp_path, 0, "same", T0)
    second = begun(tmp_path, 5, "same", T0 + 5)
    files = read_run(WandbSpec.model_validate({"dir": str(tmp_path)}))
    with first.open("ab"), second.open("ab"):
        (found,) = files.value(SystemClock()).writers
    assert found.name == first.parent.name
    apart = read_run(WandbSpec.model_validate({"dir": str(tmp_path)}))
    assert apart.value(SystemClock()).writers == ()
