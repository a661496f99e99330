"""What an engine tells a window next, by what it told it before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

from cockpit.attach.meeting import Meeting
from cockpit.attach.server import EngineServer, Window
from cockpit.attach.wire import Document
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


async def test_a_run_with_another_table_or_back_in_the_file_is_told_whole(tmp_path: Path) -> None:
    window = a_window(tmp_path)
    told(window, REPORT)
    other = REPORT.model_copy(update={"spec": REPORT.spec.model_copy(update={"dri": "eve"})})
    assert "of" not in told(window, other)[0]
    assert "of" in told(window, other)[0]
    window.keep(())
    assert "of" not in told(window, other)[0]
