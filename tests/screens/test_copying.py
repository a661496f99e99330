"""What can be copied of a run, and which way it goes: tmux, OSC 52, a file in any case."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.report import RunReport
from screens.copying import MOST, CopyScreen, copies, copy_text, sequence
from screens.fleet import FleetScreen
from tests.screens.acting.test_plan import failed
from tests.screens.stand_in import cockpit, screen_of, text_of

Sent = list[str]


def names(report: RunReport) -> dict[str, str]:
    return {each.name: each.text for each in copies(report)}


def test_secrets_are_masked_in_what_is_copied() -> None:
    report = failed()
    told = report.spec.model_copy(update={"resubmit": ["run", "--api-key=sk-aaaabbbbccccdddd1234"]})
    found = names(report.model_copy(update={"spec": told}))
    assert found["resubmit"].startswith("run --api-key=") and "bbbb" not in found["resubmit"]


def copied(text: str, write: Callable[[str], object], file: Path) -> str:
    return asyncio.run(copy_text(text, write, file))


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "state" / "copied.txt"


def test_it_goes_by_osc_52_and_lies_in_a_file_for_its_owner(there: Path) -> None:
    sent: Sent = []
    there.parent.mkdir()
    there.symlink_to(there.parent / "somebody's")
    assert copied("one\n二", sent.append, there) == (
        "copied by OSC 52; else: cat ~/state/copied.txt"
    )
    code = base64.b64encode("one\n二".encode()).decode()
    assert sent == [f"\x1b]52;c;{code}\x07"]
    assert there.read_text() == "one\n二\n"
    assert not there.is_symlink() and stat.S_IMODE(there.stat().st_mode) == 0o600


def test_what_is_too_long_for_a_terminal_is_in_the_file_and_says_so(there: Path) -> None:
    sent: Sent = []
    said = copied("x" * MOST, sent.append, there)
    assert said == "too long for the terminal's clipboard; else: cat ~/state/copied.txt"
    assert sent == [] and there.stat().st_size == MOST + 1


def test_without_a_file_it_says_why(there: Path) -> None:
    there.parent.write_text("a file, no folder")
    said = copied("x", lambda _: None, there)
    assert said == "copied by OSC 52; no file: file exists"


@pytest.mark.parametrize(
    ("takes", "said", "passed_on"),
    [
        ("-w", "copied by tmux; else: cat ~/state/copied.txt", False),
        ("-", "in tmux's buffer (prefix ]); else: cat ~/state/copied.txt", False),
        ("nothing", "copied by OSC 52; else: cat ~/state/copied.txt", True),
    ],
)
def test_inside_tmux_tmux_is_asked(
    takes: str, said: str, passed_on: bool, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = there.parents[1] / "bin"
    tools.mkdir()
    (tools / "tmux").write_text(f'#!/bin/sh\n[ "$2" = "{takes}" ] && cat > "$HOME/buffer"\n')
    (tools / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/tmp/t,1,0")
    sent: Sent = []
    assert copied("a text", sent.append, there) == said
    assert bool(sent) is passed_on
    assert passed_on or (there.parents[1] / "buffer").read_text() == "a text"


def test_screen_passes_it_on_in_pieces() -> None:
    code = "QUJD" * 300
    whole = sequence(code, {"STY": "1.pts"})
    pieces = whole.split("\x1b\\")[:-1]
    assert all(piece.startswith("\x1bP") and len(piece) < 256 for piece in pieces)
    assert "".join(piece[2:] for piece in pieces) == sequence(code, {})


async def test_y_chooses_and_enter_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    app = cockpit(failed())
    taken: Sent = []
    monkeypatch.setattr(app, "copy", taken.append)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("y", "j", "enter")
        assert taken == ["run-failed"]
        await pilot.press("y", "escape")
        assert len(taken) == 1 and screen_of(app, FleetScreen)
        await pilot.press("y")
        assert screen_of(app, CopyScreen)
        assert "copy · run-failed" in text_of(app) and "check command" in text_of(app)
