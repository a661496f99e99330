"""What ``check`` says of steps and times is true of the run's own files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verbs.seen_run import SeenRun, living, steps_of


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[bytes]]:
    yield from living()


@pytest.fixture
def seen(tmp_path: Path, process: subprocess.Popen[bytes]) -> SeenRun:
    return SeenRun(tmp_path, process)


def test_the_newest_step_wins_and_names_its_source(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(0, 46)], 48)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in range(75)), 76)
    progress = seen.check(capsys, 77)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~74/300", "log")
    assert progress["eta_s"] == pytest.approx(300 - 74)
    seen.saved(80, 84)
    progress = seen.check(capsys, 85)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~80/300", "checkpoints")


def test_a_step_of_the_former_job_does_not_win_by_being_larger(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.saved(240, -30)
    early = [seen.row(step, "2.5", step - 300.0) for step in range(200, 251)]
    seen.tracked(early, -50)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in (*range(200, 251), 205)), 12)
    progress = seen.check(capsys, 14)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~205/300", "log")


def test_before_the_first_step_the_former_one_is_told_as_such(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", step - 300.0) for step in range(200, 251)], -50)
    progress = seen.check(capsys, 5)["progress"]
    assert (progress["text"], progress["step_source"]) == ("~250/300", "tracker, before this job")


def test_a_copied_checkpoint_is_no_progress(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(100, 150)], 53)
    seen.saved(290, 52)
    assert seen.check(capsys, 54)["progress"]["text"] == "~150/300"


def test_a_bar_that_is_drawn_counts_before_it_is_overwritten(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = "".join(
        f"\r {step // 3}%|██        | {step}/300 [00:{step}<04:01,  1.00it/s, loss=2.5]"
        for step in range(1, 60)
    )
    seen.log(bars, 60)
    run = seen.check(capsys, 61)
    assert run["progress"]["text"] == "~59/300"
    assert "59/300" in run["facets"]["log"]["value"]["lines"][-1]


def test_the_end_is_told_by_the_log_where_the_tracker_lost_its_last_rows(
    seen: SeenRun, capsys: pytest.CaptureFixture[str]
) -> None:
    seen.tracked([seen.row(step, "2.5", at) for step, at in steps_of(0, 280)], 282)
    seen.log("".join(f"iter {step}/300: loss 2.5\n" for step in range(1, 301)), 302)
    (seen.folder / "run.exit").write_text("0\n")
    assert seen.check(capsys, 310)["progress"]["text"] == "~300/300"
