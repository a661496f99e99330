from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.records.recorder import trouble_with
from tests.records.remotes import LOGBOOK, git, shared


async def test_nothing_stands_in_the_way_of_ones_own_clone(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    assert await trouble_with(ada / LOGBOOK) is None
    assert await trouble_with(tmp_path / "no" / "repository.md") is None
    assert git(ada, "status", "--porcelain") == "", "asking has changed nothing"


async def test_a_lock_that_another_left_is_named_with_its_owner(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    lock = ada / ".git/index.lock"
    lock.touch()
    assert await trouble_with(ada / LOGBOOK) is None, "another git may be at work just now"
    os.utime(lock, (1.0, 1.0))
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and str(lock) in said and "was left by" in said


async def test_what_this_user_may_not_write_is_told_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    place = next(each for each in (ada / ".git/objects").iterdir() if len(each.name) == 2)
    may, book = os.access, (ada / LOGBOOK).resolve()
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != place.name and may(path, mode)
    )
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and str(place) in said and "core.sharedRepository" in said
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != book and may(path, mode))
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and f"chmod g+w {book}" in said


async def test_a_commit_that_would_lock_the_owner_out_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and "would lock" in said and "chmod g+s" in said
    git(ada, "config", "core.sharedRepository", "group")
    assert await trouble_with(ada / LOGBOOK) is None
