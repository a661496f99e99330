"""A pid file that stands still is read once; whatever changes of it is read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.platforms.local import files
from cockpit.platforms.local.files import BadNote, PidNote, read_pid


def pid_in(path: Path) -> int | None:
    note = read_pid(str(path))
    return note.pid if isinstance(note, PidNote) else None


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every file count as settled; return which were read."""
    found: list[str] = []
    read = files._read

    def counted(path: str) -> tuple[str, os.stat_result] | None:
        found.append(path)
        return read(path)

    monkeypatch.setattr(files, "SETTLED", -1.0)
    monkeypatch.setattr(files, "_read", counted)
    return found


def test_a_pid_file_that_stands_still_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "run.pid"
    path.write_text("4711\nlaunch_id=a-i001\n")
    assert [pid_in(path) for _ in range(5)] == [4711] * 5
    assert reads == [str(path)]


@pytest.mark.parametrize("again", ["4712\n", "47\n", "no pid\n"])
def test_one_that_is_written_again_is_read_again(
    tmp_path: Path, reads: list[str], again: str
) -> None:
    path = tmp_path / "run.pid"
    path.write_text("4711\n")
    assert pid_in(path) == 4711
    path.write_text(again)
    os.utime(path, ns=(0, 0))  # whatever its times say, the kernel notes the change
    assert pid_in(path) == (int(again) if again[0].isdigit() else None)
    assert len(reads) == 2


def test_one_that_was_replaced_or_has_gone_is_not_what_it_was(
    tmp_path: Path, reads: list[str]
) -> None:
    path, other = tmp_path / "run.pid", tmp_path / "new"
    path.write_text("4711\n")
    assert pid_in(path) == 4711
    other.write_text("nonsense")
    other.replace(path)
    assert isinstance(read_pid(str(path)), BadNote)
    path.unlink()
    assert read_pid(str(path)) is None
    assert len(reads) == 2


def test_one_that_was_just_written_may_be_written_again_unseen(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED", 3600.0)
    path = tmp_path / "run.pid"
    path.write_text("4711\n")
    assert [pid_in(path), pid_in(path)] == [4711, 4711]
    assert len(reads) == 2
