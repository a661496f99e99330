"""Sockets and locks of one machine lie where only this user comes, and no other machine does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cockpit.runtime import machine_folder as tested
from cockpit.runtime.machine_folder import MachineFolderError, machine_folder, private_folder


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
