"""A run whose attempts its tracker has under different ids: one curve, one account, its joints."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.run import RunSpec
from cockpit.sources.trackers import Trackers
from tests.sources import fake_mlflow
from tests.sources.wandb import writer

EVENTS = Path(__file__).resolve().parents[1] / "data" / "tensorboard" / "scalars.tfevents"
T0 = 1_768_032_000.0
PACE = 10.0
FIRST, SECOND = range(71), range(51, 121)
"""The steps of two attempts: the second resumes from 50."""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def logged(folder: Path, run_id: str, steps: range, began: float, **more: str) -> None:
    """Write a W&B folder as a client with an id of its own does."""
    own = folder / "wandb" / f"run-20260110_{8 + int(began - T0) // 3600:02d}0000-{run_id}"
    own.mkdir(parents=True)
    write(own / f"run-{run_id}.wandb", run_id, steps, began, **more)


def write(path: Path, run_id: str, steps: range, began: float, **more: str) -> None:
    rows = [
        writer.row(step, str(5 / (step + 1)), began + PACE * at, **more)
        for at, step in enumerate(steps)
    ]
    path.write_bytes(writer.log([writer.run(run_id, began), *rows]))


def wandb(tmp_path: Path, second: range = SECOND) -> tuple[str, str]:
    logged(tmp_path, "aaaa1111", FIRST, T0)
    logged(tmp_path, "bbbb2222", second, T0 + 3600)
    for path, at in zip(sorted(tmp_path.glob("wandb/*/*")), (T0 + 900, T0 + 5400), strict=True):
        os.utime(path, (at, at))
    return f'[run.wandb]\ndir = "{tmp_path}"\n', 'former = ["aaaa1111"]\n'


def mlflow(tmp_path: Path, second: range = SECOND) -> tuple[str, str]:
    runs = [fake_mlflow.FakeRun(1, "a", "KILLED"), fake_mlflow.FakeRun(3600, "b")]
    for run, steps in zip(runs, (FIRST, second), strict=True):
        for step in steps:
            run.log(step, PACE, loss=5 / (step + 1))
    runs[0].ended = runs[0].began + 900_000
    fake_mlflow.folder(tmp_path / "mlruns", runs)
    where = f'[run.mlflow]\nuri = "{tmp_path}/mlruns"\nexperiment = "pretrain"\n'
    return where, f'former = ["{runs[0].id}"]\n'


KINDS = {"wandb": wandb, "mlflow": mlflow}


@pytest.fixture(params=list(KINDS))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    return KINDS[request.param](tmp_path)


def written(tmp_path: Path, table: str) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "toy"\n{table}')
    return path


async def value(run: RunSpec, source: Trackers) -> TrackerValue:
    facet = (await source.observe([Query(run=run)]))["toy"]
    assert facet.value is not None, facet.error
    return facet.value


async def test_the_rows_of_all_attempts_come_in_order(
    tables: tuple[str, str], tmp_path: Path
) -> None:
    run, source = load(written(tmp_path, "".join(tables))).runs[0], Trackers(SystemClock())
    steps: list[int | None] = []
    while True:
        chunk = await source.more_rows(run)
        assert not chunk.unread, chunk.unread
        steps += [row.step for row in chunk.rows]
        if chunk.caught_up:
            break
    assert steps == [*FIRST, *SECOND]
    told = await value(run, source)
    assert told.step == 120
    assert [each.step for each in told.attempts] == [70] and told.notes is not None
    recent = await source.recent(run, 80)
    assert [row.step for row in recent.rows] == [*range(61, 71), *SECOND]


def curve_of(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["plot", "toy", "--json", "--config", str(path)]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    found: dict[str, Any] = curve
    return found


def test_the_verbs_show_one_curve_and_one_account(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, former = tables
    alone = curve_of(written(tmp_path, table), capsys)
    assert alone["restarts"] == [] and alone["rows"] == 70
    path = written(tmp_path, table + former)
    curve = curve_of(path, capsys)
    assert [each["step"] for each in curve["restarts"]] == [51] and curve["rows"] == 141
    assert curve["before_restarts"], "what was trained again is kept apart"
    main(["backtest", "toy", "--json", "--config", str(path)])
    assert json.loads(capsys.readouterr().out)["steps"] == 141
    main(["check", "--json", "--config", str(path)])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert told["goodput"]["steps_lost"] == 20 and told["goodput"]["share"] is not None
    assert [each["step"] for each in told["facets"]["tracker"]["value"]["attempts"]] == [70]


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_ended_before_in_the_same_place_may_be_an_attempt(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next one began at step 0: neither the rows nor a journal tell what the first one was."""
    table, former = KINDS[kind](tmp_path, range(121))
    main(["check", "--json", "--config", str(written(tmp_path, table))])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert told["goodput"]["steps_lost"] is None and not told["goodput"]["restarts"]["known"]
    assert any("perhaps former attempts" in each for each in told["goodput"]["evidence"])
    main(["check", "--json", "--config", str(written(tmp_path, table + former))])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert told["goodput"]["steps_lost"] == 71


def test_a_joint_without_a_step_back_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(tmp_path, "aaaa1111", range(50), T0)
    logged(tmp_path, "bbbb2222", range(50, 100), T0 + 3600)
    logged(tmp_path, "cccc3333", range(100, 120), T0 + 7200)
    table = f'[run.wandb]\ndir = "{tmp_path}"\nformer = ["bbbb2222", "aaaa1111"]\n'
    curve = curve_of(written(tmp_path, table), capsys)
    assert [each["step"] for each in curve["restarts"]] == [50, 100], "in the order of their times"
    assert curve["before_restarts"] == []


def test_an_attempt_that_is_not_there_is_said_and_hides_nothing(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, tables[0] + 'former = ["ffff0000"]\n')
    main(["check", "--json", "--config", str(path)])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    found = told["facets"]["tracker"]["value"]
    assert found["step"] == 120 and found["attempts"] == []
    assert any("former attempt ffff0000 is not joined: no " in note for note in found["notes"])


def test_the_present_attempt_is_not_joined_to_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, _ = wandb(tmp_path)
    path = written(tmp_path, table + 'former = ["aaaa1111", "bbbb2222"]\n')
    assert curve_of(path, capsys)["rows"] == 141


def test_former_attempts_of_a_server_are_said_not_to_be_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    place = 'entity = "e"\nproject = "p"\nid = "bbbb2222"\nbase_url = "http://127.0.0.1:1"\n'
    path = written(tmp_path, f'[run.wandb]\n{place}former = ["aaaa1111"]\n')
    main(["check", "--json", "--config", str(path)])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    source = told["facets"]["tracker"]["source"]
    assert source.endswith("; wandb.former is joined where dir is read")


def test_folders_of_event_files_are_named_by_their_places(tmp_path: Path) -> None:
    table = '[run.tensorboard]\ndir = "runs/b"\nformer = ["runs/a"]\n'
    run = load(written(tmp_path, table)).runs[0]
    assert run.tensorboard is not None
    assert [each.path for each in run.tensorboard.former] == [str(tmp_path / "runs/a")]


def test_folders_of_one_name_are_two_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "tb").mkdir(parents=True)
        shutil.copy(EVENTS, tmp_path / name / "tb" / "events.out.tfevents.1795340000.node-1")
    table = '[run.tensorboard]\ndir = "b/tb"\n'
    alone = curve_of(written(tmp_path, table), capsys)
    curve = curve_of(written(tmp_path, table + 'former = ["a/tb"]\n'), capsys)
    assert curve["rows"] == 2 * alone["rows"] and curve["restarts"]


def test_an_attempt_that_is_named_twice_is_joined_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, former = mlflow(tmp_path)
    path = written(tmp_path, table + former.replace("]", ', "a"]'))
    assert curve_of(path, capsys)["rows"] == 141
    main(["check", "--json", "--config", str(path)])
    found = json.loads(capsys.readouterr().out)["runs"][0]["facets"]["tracker"]["value"]
    assert len(found["attempts"]) == 1
    assert any("former attempt a is 0" in note for note in found["notes"])


def file_of(folder: Path, run_id: str) -> Path:
    (found,) = folder.glob(f"wandb/*-{run_id}/*")
    return found


async def all_steps(run: RunSpec, source: Trackers) -> list[int | None]:
    """Return the steps of all rows that come, of the last beginning alone."""
    steps: list[int | None] = []
    while True:
        chunk = await source.more_rows(run)
        steps = [*([] if chunk.restarted else steps), *(row.step for row in chunk.rows)]
        if chunk.caught_up:
            return steps


async def test_an_attempt_that_goes_on_is_said_and_joined_whole_once_it_has_ended(
    tmp_path: Path,
) -> None:
    began = T0 + 3600
    logged(tmp_path, "aaaa1111", range(50), began - 510)
    logged(tmp_path, "bbbb2222", range(50, 60), began)
    former, present = (file_of(tmp_path, name) for name in ("aaaa1111", "bbbb2222"))
    table = f'[run.wandb]\ndir = "{tmp_path}"\nid = "bbbb2222"\nformer = ["aaaa1111"]\n'
    run, source = load(written(tmp_path, table)).runs[0], Trackers(SystemClock())
    assert not [note for note in (await value(run, source)).notes if "former" in note]
    assert await all_steps(run, source) == [*range(60)]

    write(former, "aaaa1111", range(70), began - 510)
    notes = (await value(run, source)).notes
    assert any("has logged later than the present one: it may still run" in each for each in notes)
    assert any("its rows after step 49 may not be joined yet" in each for each in notes)

    write(present, "bbbb2222", range(50, 130), began)
    assert not [note for note in (await value(run, source)).notes if "former" in note]
    assert await all_steps(run, source) == [*range(70), *range(50, 130)]


@pytest.mark.parametrize(
    ("before", "after", "alerts"),
    [
        ({"tokens_per_second": "50000"}, {"tokens_per_second": "10"}, {"C-05"}),
        ({"tokens_per_second": "50000"}, {"samples_per_second": "10"}, set()),
        ({"perf/mfu": "0.45"}, {"perf/mfu": "0.1"}, {"C-27"}),
        ({"perf/mfu_percent": "45"}, {"perf/mfu": "0.45"}, set()),
        ({"eval/web/loss": "1.5"}, {"eval/code/loss": "1.9"}, set()),
    ],
)
def test_what_another_attempt_logs_by_another_name_is_not_compared(
    before: dict[str, str],
    after: dict[str, str],
    alerts: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logged(tmp_path, "aaaa1111", range(400), T0, **before)
    logged(tmp_path, "bbbb2222", range(400, 900), T0 + 7200, **after)
    path = written(tmp_path, f'[run.wandb]\ndir = "{tmp_path}"\nformer = ["aaaa1111"]\n')
    main(["backtest", "toy", "--json", "--config", str(path)])
    found = {each["id"] for each in json.loads(capsys.readouterr().out)["alerts"]}
    assert found - {"C-06"} == alerts, "its job stood still between the two"
