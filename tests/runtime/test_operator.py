"""Who acts, whatever git does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cockpit.model.run import CockpitFile
from cockpit.runtime import operator
from cockpit.runtime.login import login_name
from cockpit.runtime.operator import ask_operator


@pytest.fixture
def file(tmp_path: Path) -> CockpitFile:
    return CockpitFile(path=str(tmp_path / "cockpit.toml"))


def hanging_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git first on PATH that never answers, whatever it is asked."""
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


async def test_the_operator_is_gits_user_unless_the_run_file_says(file: CockpitFile) -> None:
    assert await ask_operator(file) == ("Test Person", None)
    assert await ask_operator(file.model_copy(update={"operator": "ada"})) == ("ada", None)


async def test_without_any_name_it_is_the_account(
    file: CockpitFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert await ask_operator(file) == (login_name(), None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert await ask_operator(file) == (login_name(), None)


async def test_a_git_that_hangs_leaves_the_account_and_a_notice(
    file: CockpitFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging_git(tmp_path, monkeypatch)
    monkeypatch.setattr(operator, "ANSWER", 0.3)
    began = time.monotonic()
    found = await ask_operator(file)
    assert time.monotonic() - began < 3
    assert found.name == login_name()
    assert found.notice is not None and found.notice.startswith("git did not say who you are")
