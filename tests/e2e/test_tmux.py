"""The program as a person uses it: in tmux, on real processes, by its keys and what it shows."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tiny_fleet import NAMES, TinyFleet
from tests.e2e.tmux import PROMPT, Tmux

pytestmark = [
    pytest.mark.tty,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
ROOT = Path(__file__).resolve().parents[2]
STATES = ("RUNNING", "FAILED", "SUCCEEDED")
A_FEW_SECONDS = 40.0
"""Far less than the cadence of a minute: it was announced, not looked at in its turn."""
TABS = {"1": "log ", "2": "loss ", "3": "checkpoints", "4": "sources", "5": "timeline",
        "6": "logbook"}  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[TinyFleet]:
    made = TinyFleet(tmp_path)
    yield made
    made.end()


@pytest.fixture
def tmux(request: pytest.FixtureRequest, fleet: TinyFleet) -> Iterator[Tmux]:
    """Open the program on ``fleet``; the parameter is the window's (columns, rows)."""
    env = {
        "XDG_STATE_HOME": str(fleet.folder / "state"),
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
    }
    opened = Tmux(fleet.folder, request.param, env)
    try:
        opened.ready()
        opened.run(sys.executable, "-m", "cockpit", "--config", str(fleet.config))
        yield opened
    finally:
        opened.end()


def leave(tmux: Tmux) -> None:
    """Press ``q``; the shell has the whole screen again and tells a clean exit."""
    tmux.press("q")
    seen = tmux.see_that(
        lambda seen: "left with 0" in seen and seen.split()[-1] == PROMPT,
        "left with 0, and a shell",
    )
    assert "FAILED" not in seen


def line_of(name: str, screen: str) -> str:
    """Return the first line that names a run, or nothing."""
    return next((line for line in screen.splitlines() if f" {name} " in line), "")


@pytest.mark.parametrize("tmux", [(80, 24), (120, 40), (200, 50)], indirect=True)
def test_the_fleet_is_read_and_left(tmux: Tmux) -> None:
    tmux.see(*NAMES, *STATES)
    tmux.press("c")
    seen = tmux.see(*NAMES, *STATES, "200 ✗ torn", "relaunch", "from step 100")
    assert "RUNNING" in line_of("trains", seen)
    leave(tmux)


@pytest.mark.parametrize("tmux", [(80, 24)], indirect=True)
def test_a_killed_run_is_failed_within_seconds(tmux: Tmux, fleet: TinyFleet) -> None:
    tmux.see(*NAMES, *STATES)
    fleet.kill("trains")
    tmux.see_that(lambda seen: "FAILED" in line_of("trains", seen), patience=A_FEW_SECONDS)
    tmux.see("2 critical")
    leave(tmux)


@pytest.mark.parametrize("tmux", [(120, 40)], indirect=True)
def test_the_run_screen_its_tabs_and_its_help(tmux: Tmux) -> None:
    tmux.see(*NAMES, *STATES)
    tmux.press("g", "Enter")
    tmux.see("1 log │ 2 charts", "╭ log ", "step 201/1000", "Killed by signal 9")
    assert "FAILED" in line_of("torn", tmux.screen)
    for key, words in TABS.items():
        tmux.press(key)
        tmux.see(f"╭ {words}")
    tmux.press("?")
    tmux.see("╭ Keys, codes and signs", "esc back", "lineage: shows a plan")
    tmux.press("Escape")
    tmux.see("╭ logbook")
    tmux.press("Escape")
    tmux.see(*NAMES)
    leave(tmux)


@pytest.mark.parametrize("tmux", [(200, 50)], indirect=True)
def test_a_window_that_changes_its_size_stays_readable(tmux: Tmux) -> None:
    tmux.see(*NAMES, *STATES, "╭")
    tmux.resize(80, 24)
    tmux.see_that(lambda seen: "READ-WRITE" not in seen and all(name in seen for name in NAMES))
    tmux.resize(120, 40)
    tmux.see(*NAMES, *STATES, "╭")
    leave(tmux)


@pytest.mark.parametrize("tmux", [(80, 24)], indirect=True)
def test_keys_typed_ahead_confirm_nothing(tmux: Tmux, fleet: TinyFleet) -> None:
    tmux.see(*NAMES, *STATES)
    tmux.press("g")
    pids = fleet.pids()
    tmux.tell("send-keys", "-l", "rrelaunch torn")
    tmux.press("Enter", "Enter")
    tmux.see("╭ relaunch torn", "cancel, nothing done")
    tmux.press("Enter")
    tmux.see("╭ relaunch torn", "cancel, nothing done")
    tmux.press("Escape")
    tmux.see(*NAMES, "enter open")
    assert fleet.pids() == pids
    leave(tmux)


@pytest.mark.parametrize("tmux", [(80, 24)], indirect=True)
def test_the_palette_says_what_a_run_is_not_offered(tmux: Tmux) -> None:
    tmux.see(*NAMES, *STATES)
    tmux.see_that(lambda seen: "next soon" not in seen, "the first look")  # it sorts the list
    tmux.press("g", ":", "t", "e", "a", "r")
    tmux.see("Commands and runs", "✗ no [run.teardown] in cockpit.toml")
    tmux.press("Escape")
    tmux.see_that(lambda seen: "Commands and runs" not in seen)
    tmux.press("e")
    tmux.see("no logbook in cockpit.toml")
    leave(tmux)
