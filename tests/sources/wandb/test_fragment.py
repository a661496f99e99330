from __future__ import annotations

from pathlib import Path

from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import MetricKeys, choose
from cockpit.sources.wandb.file import LaunchFile
from cockpit.sources.wandb.fragment import Fragment
from cockpit.sources.wandb.listing import LaunchFiles, Wanted
from tests.sources.wandb import writer

T0 = 1_700_000_000.0


def written(path: Path, rows: int) -> None:
    records = [writer.row(step, "2.5", T0 + step) for step in range(rows)]
    path.write_bytes(writer.log([writer.run("abc", T0), *records]))


def test_a_file_that_has_grown_a_little_is_not_sampled_again(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    files, wanted = LaunchFiles(), Wanted(str(path), None, "")
    file = LaunchFile(str(path), files.host(wanted), files.measured)
    fragment = Fragment(file, MetricNames())

    def grow(rows: int) -> None:
        written(path, rows)
        files.chosen(wanted)
        fragment.refresh()

    grow(300)
    keys = choose(list(fragment.layout.rows), MetricNames(), MetricKeys())
    first = fragment.sample(keys, 20)
    grow(305)
    assert fragment.sample(keys, 20) is first
    grow(600)
    again = fragment.sample(keys, 20)
    assert len(again) >= 20 and max(row.step or 0 for row in again) > 305
