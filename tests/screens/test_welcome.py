"""The first run: what lies around is shown, and a key makes a run file from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.app.application import CockpitApp
from cockpit.app.first_run import look_around
from cockpit.init.sources import clues_of
from cockpit.model.clock import SystemClock
from screens.welcome import INIT, MOST, Around, Welcome, paint_welcome
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import text_of

KEYS = ("enter", "d", "q")
STATE = "scratch/20260311-0904_monitoring_state.json"


def page(shown: Welcome, width: int = 76, height: int = 21) -> str:
    lines = paint_welcome(shown, width, height)
    assert all(line.cell_length <= width for line in lines)
    return "\n".join(line.plain for line in lines)


def test_while_it_looks_it_says_so_and_claims_nothing() -> None:
    shown = page(Welcome("~/.config/cockpit", KEYS))
    assert "looking for state files" in shown and "Nothing here" not in shown
    assert "enter" not in shown


def test_nothing_is_said_only_where_everything_has_answered() -> None:
    nothing = Welcome("~/c", KEYS, looking=False)
    assert "Nothing here to make one from" in page(nothing)
    silent = nothing._replace(troubles=("slurm: squeue did not answer",))
    assert "? slurm: squeue did not answer" in page(silent)
    assert "Nothing here" not in page(silent)


@pytest.mark.parametrize(("width", "height"), [(76, 21), (36, 8), (92, 46)])
def test_the_selected_one_is_in_sight_and_the_example_is_whole_or_not_there(
    width: int, height: int
) -> None:
    found = tuple((f"slurm:{number}", "運行 \x1b[2J" * 30) for number in range(20))
    for at in range(20):
        shown = page(Welcome("~/c", KEYS, found, (), at, looking=False), width, height)
        assert f"▸ slurm:{at} " in shown
        assert f"{20 - MOST} more" in shown
        assert ("[[run]]" in shown) == ("Save it, then run cockpit." in shown) == (height > 30)
        assert "\x1b" not in shown


def seen(folder: Path) -> list[Around]:
    async def all_of_it() -> list[Around]:
        return [each async for each in look_around(folder, SystemClock())]

    return asyncio.run(all_of_it())


def left(folder: Path) -> None:
    (folder / "scratch").mkdir()
    (folder / STATE).write_text(json.dumps({"ts": 1773219840000, "job_id": "/ada/grug"}))
    (folder / "wandb" / "run-20260311_090400-abc").mkdir(parents=True)


def test_what_lies_in_the_folder_is_found_and_init_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no squeue
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert seen(tmp_path) == [Around(())]
    left(tmp_path)
    (here,) = seen(tmp_path)
    assert [what for what, _ in here.found] == [STATE, "wandb"]
    assert all(list(clues_of(what, tmp_path)) for what, _ in here.found)


def test_a_system_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")
    _, ray = seen(tmp_path)
    assert not ray.found and ray.trouble.startswith("ray: ")


async def test_a_key_leaves_to_make_a_run_file_from_the_selected_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(*_: object) -> AsyncIterator[Around]:
        yield Around((("wandb", "W&B runs"), ("slurm:7", "big")))

    monkeypatch.setattr("cockpit.app.first_run.look_around", found)
    app = CockpitApp(None, None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "slurm:7" in text_of(app) and "looking" not in text_of(app))
        await pilot.press("j", "enter")
    assert app.return_value == f"{INIT}slurm:7"


async def test_with_nothing_found_the_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> AsyncIterator[Around]:
        yield Around(())

    monkeypatch.setattr("cockpit.app.first_run.look_around", nothing)
    app = CockpitApp(None, None)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Nothing here" in text_of(app))
        await pilot.press("enter")
        assert app.is_running and "nothing was found here" in text_of(app)
