from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.sources.logs import follow as log_follow
from cockpit.sources.logs.follow import Follower, News
from cockpit.sources.logs.local import LocalLog


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def look(follower: Follower) -> News:
    news = follower.look(10)
    assert news is not None
    return news


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "run.log").write_bytes(b"one\ntwo\n")
    return tmp_path / "run.log"


def test_the_first_look_reads_what_is_there(log: Path) -> None:
    news = look(Follower(LocalLog(log)))
    assert news.first and news.states == (b"one", b"two")
    assert news.tail == (b"one\n", b"two\n") and news.size == 8


def test_the_first_look_at_a_long_log_reads_its_end(log: Path) -> None:
    append(log, b"filler\n" * 100_000)
    news = look(Follower(LocalLog(log)))
    assert set(news.states) == {b"filler"}
    assert len(news.states) * 7 <= log_follow.FIRST + 7


def test_only_what_is_new(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    assert follower.look(10) is None
    append(log, b"three\nfour\n")
    news = look(follower)
    assert news.states == (b"three", b"four") and not news.first
    assert follower.look(10) is None


def test_a_partial_line_is_shown_at_once_and_new_once(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"thr")
    news = look(follower)
    assert news.states == () and news.tail[-1] == b"thr"
    assert follower.look(10) is None
    append(log, b"ee\n")
    news = look(follower)
    assert news.states == (b"three",) and news.tail[-1] == b"three\n"


def test_progress_states_are_new_one_by_one(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"\r10%\r20%\r30")
    assert look(follower).states == (b"10%", b"20%")
    append(log, b"%\r\nnext\r\n")
    assert look(follower).states == (b"30%", b"next")


def test_truncated(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    log.write_bytes(b"new\n")
    assert look(follower).states == (b"new",)


def test_truncated_and_grown_beyond_the_old_place(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    inode = log.stat().st_ino
    log.write_bytes(b"a new beginning\nand more\n")
    assert log.stat().st_ino == inode
    assert look(follower).states == (b"a new beginning", b"and more")


def test_truncated_to_nothing(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    log.write_bytes(b"")
    assert look(follower).tail == ()
    append(log, b"again\n")
    assert look(follower).states == (b"again",)


def test_copytruncate_while_the_writer_keeps_its_place(log: Path) -> None:
    follower = Follower(LocalLog(log))
    with log.open("r+b") as writer:
        writer.seek(0, os.SEEK_END)
        look(follower)
        os.truncate(log, 0)
        writer.write(b"after the hole\n")
    news = look(follower)
    assert news.states[-1].lstrip(b"\0") == b"after the hole"


def test_rotated_by_renaming_loses_no_line(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"last of the old\n")
    log.rename(log.with_name("run.log.1"))
    log.write_bytes(b"first of the new\n")
    assert look(follower).states == (b"last of the old", b"first of the new")
    append(log, b"second\n")
    assert look(follower).states == (b"second",)


def test_replaced_by_another_file(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    other = log.with_name("fresh")
    other.write_bytes(b"one\ntwo\nother\n")
    other.replace(log)
    assert look(follower).states == (b"one", b"two", b"other")


def test_deleted_and_back(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    log.unlink()
    with pytest.raises(FileNotFoundError):
        follower.look(10)
    log.write_bytes(b"back\n")
    assert look(follower).states == (b"back",)


def test_a_backlog_comes_in_portions_without_a_gap(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follow, "MOST", 100)
    follower = Follower(LocalLog(log))
    look(follower)
    wanted = tuple(b"line %d" % number for number in range(100))
    append(log, b"\n".join(wanted) + b"\n")
    got: list[bytes] = []
    while (news := follower.look(10)) is not None:
        got += news.states
    assert tuple(got) == wanted


def test_a_giant_line_does_not_stop_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follow, "MOST", 100)
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"x" * 1000 + b"\nafter\n")
    got: list[bytes] = []
    while (news := follower.look(10)) is not None:
        got += news.states
    assert got[-1] == b"after"


def test_names_with_glob_letters(tmp_path: Path) -> None:
    path = tmp_path / "run[0]*.log"
    path.write_bytes(b"one\n")
    follower = Follower(LocalLog(path))
    look(follower)
    append(path, b"old\n")
    path.rename(tmp_path / "run[0]*.log.1")
    path.write_bytes(b"new\n")
    assert look(follower).states == (b"old", b"new")


def bar(step: int) -> bytes:
    return b"train: %d/90000 [00:10<01:00, 1.0it/s]\r" % step


@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_a_state_of_a_bar_is_never_taken_up_in_its_midst(log: Path, shift: int) -> None:
    """A bar that draws for hours is one line: where its reading begins, a state is cut."""
    states = [bar(step) for step in range(10_000, 20_000)]
    log.write_bytes(b"x" * shift + b"\r" + b"".join(states[:4000]))
    follower = Follower(LocalLog(log))
    assert look(follower).states[0] + b"\r" in states
    append(log, b"".join(states[4000:]))
    news = follower.look(10, 20_000)
    assert news is not None and news.skipped is not None
    assert news.states[0] + b"\r" in states and news.states[-1] + b"\r" == states[-1]
    assert news.skipped[1] == log.stat().st_size - sum(len(each) + 1 for each in news.states)
