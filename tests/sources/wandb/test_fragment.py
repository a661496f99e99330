from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.run import MetricNames
from cockpit.sources.wandb.fragment import Fragment, find, id_in_name
from cockpit.sources.wandb.launches import LocalFile
from cockpit.sources.wandb.metrics import MetricKeys, choose
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
