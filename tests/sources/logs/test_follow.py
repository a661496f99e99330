from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.sources.logs import follow as log_follow
from cockpit.sources.logs.follow import Follower, News
from cockpit.sources.logs.pieces import LocalLog


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


def test_deleted_and_back(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    log.unlink()
    with pytest.raises(FileNotFoundError):
        follower.look(10)
    log.write_bytes(b"back\n")
    assert look(follower).states == (b"back",)


def test_a_giant_line_does_not_stop_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follow, "MOST", 100)
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"x" * 1000 + b"\nafter\n")
    got: list[bytes] = []
    while (news := follower.look(10)) is not None:
        got += news.states
    assert got[-1] == b"after"


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
