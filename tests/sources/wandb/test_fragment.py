from __future__ import annotations

import os
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import MetricNames, WandbSpec
from cockpit.runtime.process import Held
from cockpit.sources.wandb.file import LocalFile
from cockpit.sources.wandb.fragment import Fragment, find, id_in_name, others_in
from cockpit.sources.wandb.metrics import MetricKeys, choose
from cockpit.sources.wandb.run_files import RunFiles
from tests.sources.wandb import writer

T0 = 1_700_000_000.0


def written(path: Path, rows: int) -> None:
    records = [writer.row(step, "2.5", T0 + step) for step in range(rows)]
    path.write_bytes(writer.log([writer.run("abc", T0), *records]))


def test_a_file_that_has_grown_a_little_is_not_sampled_again(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    written(path, 300)
    fragment = Fragment(LocalFile(str(path)), MetricNames())
    fragment.refresh()
    keys = choose(list(fragment.layout.rows), MetricNames(), MetricKeys())
    first = fragment.sample(keys, 20)
    written(path, 305)
    fragment.refresh()
    assert fragment.sample(keys, 20) is first
    written(path, 600)
    fragment.refresh()
    again = fragment.sample(keys, 20)
    assert len(again) >= 20 and max(row.step or 0 for row in again) > 305


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


def test_all_launches_of_an_id_and_of_no_other(folder: Path) -> None:
    assert names(find(str(folder), "aaa")) == [
        "offline-run-20260101_000000-aaa",
        "offline-run-20260102_000000-aaa",
    ]


def test_without_an_id_the_run_that_was_started_last(folder: Path) -> None:
    assert names(find(str(folder), None)) == ["run-20260103_000000-bbb"]


def test_the_folder_above_will_do(folder: Path) -> None:
    assert find(str(folder.parent), "bbb") == find(str(folder), "bbb")


def test_a_single_launch(folder: Path) -> None:
    launch = folder / "offline-run-20260101_000000-aaa"
    assert names(find(str(launch), "aaa")) == [launch.name]
    assert names(find(str(launch), None)) == [launch.name]
    assert find(str(launch), "other") == []


def test_a_single_file(folder: Path) -> None:
    path = folder / "run-20260103_000000-bbb" / "run-bbb.wandb"
    assert find(str(path), None) == [str(path)]


def test_a_renamed_directory_is_still_found(folder: Path) -> None:
    (folder / "run-20260103_000000-bbb").rename(folder / "kept")
    assert names(find(str(folder), "bbb")) == ["kept"]


def test_a_run_that_is_not_there(folder: Path) -> None:
    assert find(str(folder), "zzz") == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find(str(tmp_path / "wandb"), "aaa")


def test_the_id_in_a_file_name() -> None:
    assert id_in_name("/a/wandb/run-20260103_000000-b-b/run-b-b.wandb") == "b-b"


def begun(folder: Path, after: float, run_id: str, written_at: float, *, rows: int = 5) -> Path:
    at = datetime.fromtimestamp(T0 + after).astimezone().strftime("%Y%m%d_%H%M%S")
    path = folder / f"offline-run-{at}-{run_id}" / f"run-{run_id}.wandb"
    path.parent.mkdir(parents=True)
    path.touch()
    if rows:
        written(path, rows)
    os.utime(path, (written_at, written_at))
    return path


def here(paths: Collection[str]) -> frozenset[str] | None:
    return Held().of(paths)


def test_an_evaluation_that_is_over_does_not_hide_the_run_that_a_process_writes(
    tmp_path: Path,
) -> None:
    train = begun(tmp_path, 0, "train", T0)
    begun(tmp_path, 3600, "eval", T0 + 3610)
    assert find(str(tmp_path), None, here)[0].endswith("run-eval.wandb"), "neither is written now"
    with train.open("ab"):
        assert find(str(tmp_path), None, here) == [str(train)]
        assert others_in(str(tmp_path), "train", here) == ("eval lies there too; train is read",)
    with train.open("rb"):
        assert find(str(tmp_path), None, here)[0].endswith("run-eval.wandb"), "a reader is none"


def test_the_run_that_went_on_is_read_where_no_process_can_be_seen(tmp_path: Path) -> None:
    train = begun(tmp_path, 0, "train", T0 + 3700)
    begun(tmp_path, 3600, "eval", T0 + 3610)
    assert find(str(tmp_path), None) == [str(train)]


def test_a_start_that_wrote_nothing_hides_no_run_unless_it_lives(tmp_path: Path) -> None:
    train = begun(tmp_path, 0, "train", T0)
    failed = begun(tmp_path, 3600, "new", T0 + 3600, rows=0)
    assert find(str(tmp_path), None, here) == [str(train)]
    with failed.open("ab"):
        assert find(str(tmp_path), None, here) == [str(failed)], "it has only not written yet"


def test_two_launches_of_one_id_that_processes_write_are_two_writers(tmp_path: Path) -> None:
    first = begun(tmp_path, 0, "same", T0)
    second = begun(tmp_path, 5, "same", T0 + 5)
    files = RunFiles(WandbSpec.model_validate({"dir": str(tmp_path)}))
    with first.open("ab"), second.open("ab"):
        (found,) = files.value(SystemClock()).writers
    assert found.name == first.parent.name
    apart = RunFiles(WandbSpec.model_validate({"dir": str(tmp_path)}))
    assert apart.value(SystemClock()).writers == ()
