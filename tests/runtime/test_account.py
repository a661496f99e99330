"""Who runs this, and their folders."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from cockpit.model.run import CockpitFile
from cockpit.runtime import account
from cockpit.runtime import account as tested
from cockpit.runtime.account import ask_operator, login_name, machine_folder
from cockpit.runtime.private_folder import MachineFolderError, private_folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tested, "_SCRATCH", tmp_path / "tmp")
    monkeypatch.setattr(tested, "_SESSIONS", tmp_path / "user")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def test_it_is_private_and_the_same_every_time(tmp_path: Path) -> None:
    found = machine_folder()
    assert found.parent == tmp_path / "tmp"
    assert str(os.geteuid()) in found.name
    assert found.stat().st_mode & 0o777 == 0o700
    assert machine_folder() == found


def test_the_session_s_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = tmp_path / "user" / str(os.geteuid())
    session.mkdir(parents=True, mode=0o700)
    assert machine_folder().parent == session  # as under cron, where the variable is missing
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert machine_folder().parent == own


@pytest.mark.parametrize("told", ["", "here", "/no/such/folder", "/etc/hostname"])
def test_a_variable_that_names_no_folder_of_ours_is_passed_over(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", told)
    assert machine_folder().parent == tmp_path / "tmp"


def test_a_session_s_folder_that_others_write_to_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(loose))
    assert machine_folder().parent == tmp_path / "tmp"


def test_machines_that_share_everything_have_each_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = machine_folder()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    assert machine_folder() != one


def test_a_folder_that_others_can_enter_is_refused() -> None:
    machine_folder().chmod(0o750)
    with pytest.raises(MachineFolderError, match="0750, expected 0700"):
        machine_folder()


def test_a_stranger_s_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine_folder()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(MachineFolderError, match="another user"):
        private_folder(folder)


def test_a_link_or_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = machine_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(MachineFolderError, match="not a folder"):
        machine_folder()
    folder.unlink()
    folder.write_text("")
    with pytest.raises(MachineFolderError, match="not a folder"):
        machine_folder()


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
    monkeypatch.setattr(account, "ANSWER", 0.3)
    found = await asyncio.wait_for(ask_operator(file), 60)
    assert found.name == login_name()
    assert found.notice is not None and found.notice.startswith("git did not say who you are")
