"""What an engine tells a window next, by what it told it before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from cockpit.attach.meeting import Meeting
from cockpit.attach.server import EngineServer, Window
from cockpit.attach.wire import ASKS, Document, frame
from cockpit.model.clock import SystemClock
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile
from cockpit.watch.engine import Engine
from tests.widgets import reports as made

REPORT = made.fleet()[0]
NAME = REPORT.name


def a_window(folder: Path) -> Window:
    file = CockpitFile(path=str(folder / "cockpit.toml"), runs=(REPORT.spec,))
    clock = SystemClock()
    engine = Engine(file, store=None, clock=clock)
    meeting = Meeting(folder, "engine", file.path)
    server = EngineServer(engine, meeting, "engine", clock)
    window = Window(server, asyncio.StreamReader(), cast(asyncio.StreamWriter, None))
    server.windows.add(window)
    return window


def told(window: Window, report: RunReport) -> list[Document]:
    window._server._news(report)
    return [json.loads(data[4:]) for data in window._newest()]


async def test_a_window_is_told_all_of_a_run_once_and_then_what_has_changed(tmp_path: Path) -> None:
    window = a_window(tmp_path)
    (first,) = told(window, REPORT)
    assert "of" not in first and first["report"]["next_action"] == REPORT.next_action
    (then,) = told(window, REPORT.model_copy(update={"checked_at": 7.0}))
    assert (then["of"], then["report"]) == (NAME, {"checked_at": 7.0, "facets": {}})
    assert list(window._newest()) == []


GIVEN: tuple[object, ...] = (None, True, -1, 10**30, 1.5, float("nan"), "one", [], ["a"], [1.0], {})


@pytest.mark.parametrize("what", ASKS)
async def test_whatever_is_asked_is_answered(what: str, tmp_path: Path) -> None:
    server = a_window(tmp_path)._server
    for count in range(len(ASKS[what].arguments) + 2):
        for value in GIVEN:
            answer = await server.asked(what, [value] * count)
            assert answer.get("trouble") == "value" or "value" in answer, (what, value, count)
            frame(answer)
    assert (await server.asked("no-such", []))["trouble"] == "value"


async def test_a_run_with_another_table_or_back_in_the_file_is_told_whole(tmp_path: Path) -> None:
    window = a_window(tmp_path)
    told(window, REPORT)
    other = REPORT.model_copy(update={"spec": REPORT.spec.model_copy(update={"dri": "eve"})})
    assert "of" not in told(window, other)[0]
    assert "of" in told(window, other)[0]
    window.keep(())
    assert "of" not in told(window, other)[0]
