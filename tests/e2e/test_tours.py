"""The three uses from the first screen to the last, in tmux, by keys alone, which are counted."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tiny_fleet import NAMES, TinyFleet
from tests.e2e.tmux import Tmux

pytestmark = [
    pytest.mark.tty,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
ROOT = Path(__file__).resolve().parents[2]
READ = 0.6
"""Keys count in a dialog only once it could be read: the program's own rule, and a bit."""


class Person:
    """Types, and counts what was typed."""

    def __init__(self, tmux: Tmux) -> None:
        self.tmux = tmux
        self.keys = 0

    def press(self, *keys: str) -> None:
        self.keys += len(keys)
        self.tmux.press(*keys)

    def write(self, words: str) -> None:
        self.keys += len(words)
        self.tmux.tell("send-keys", "-l", words)

    def confirm(self, words: str) -> str:
        """Type the words of a plan and Enter, as fast as a hand; return what comes of it."""
        self.write(words)
        self.read(f"▸ {words}")
        self.press("Enter")
        return self.read("enter or esc close")

    def read(self, *words: str) -> str:
        """See a dialog, for as long as it takes to be one that was read."""
        seen = self.tmux.see(*words)
        time.sleep(READ)
        return seen


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[TinyFleet]:
    """Runs that can be acted on: with an owner, a root, and a command that goes on."""
    made = TinyFleet(tmp_path)
    text = made.config.read_text()
    for name in NAMES:
        own = f'name = "{name}"\ndri = "ada"\noutput_root = "{name}"\n'
        text = text.replace(f'name = "{name}"\n', own)
    again = f'resubmit = "{sys.executable} -S writer.py 101 1000"'
    made.config.write_text(text.replace('resubmit = "false"', again))
    before = made.pids()
    yield made
    for name, first in made.pids().items():
        if first != before[name]:
            os.kill(int(first.split()[0]), signal.SIGKILL)
    made.end()


@pytest.fixture
def person(fleet: TinyFleet) -> Iterator[Person]:
    env = {"XDG_STATE_HOME": str(fleet.folder / "state"), "LC_ALL": "C.UTF-8"}
    tmux = Tmux(fleet.folder, (80, 24), env)
    try:
        tmux.ready()
        program = str(ROOT / "run_cockpit.py")
        tmux.run(sys.executable, program, "--config", str(fleet.config))
        tmux.see("Killed by signal 9", "relaunch", "from step 100")
        yield Person(tmux)
        tmux.press("q")
        tmux.see("left with 0")
    finally:
        tmux.end()


def test_babysitting(person: Person) -> None:
    assert first_run(person.tmux.screen) == "torn", "what needs a person stands first"
    person.press("Enter")
    person.tmux.see("1 log", "Killed by signal 9", "step 201/1000")
    person.press("Enter")
    person.tmux.see("evidence")
    person.press("A")
    person.read("Killed by signal 9", "do not notify")
    person.press("Enter")
    person.tmux.see("acknowledged")
    assert person.keys == 4
    person.press("Escape")
    person.tmux.see_that(lambda seen: "snooze" not in seen)
    person.press("Escape")
    person.tmux.see(*NAMES)


def test_handing_over(person: Person) -> None:
    person.press("H")
    person.read("hand")
    person.write("bob")
    person.press("Enter")
    person.read("Type  handoff torn", "Makes bob the DRI of torn")
    assert "✗" not in person.confirm("handoff torn")
    assert person.keys == len("Hbob") + 1 + len("handoff torn") + 1
    person.press("Enter")
    person.tmux.see(*NAMES)
    person.press("p")
    person.tmux.see("bob")
    person.press("Escape")
    person.tmux.see(*NAMES)


def test_relaunching(person: Person, fleet: TinyFleet) -> None:
    before = fleet.pids()
    person.press("r")
    person.read("Starts from step 100 and loses 10", "Type  relaunch torn")
    outcome = person.confirm("relaunch torn")
    assert "✓ DONE" in outcome and "FAILED" not in outcome
    assert person.keys == len("rrelaunch torn") + 1
    after = fleet.pids()
    assert [name for name in NAMES if after[name] != before[name]] == ["torn"]
    person.press("Enter")
    person.tmux.see(*NAMES)


def first_run(screen: str) -> str:
    """Return the run that stands uppermost."""
    words = (word for line in screen.splitlines() for word in line.split())
    return next(word for word in words if word in NAMES)
