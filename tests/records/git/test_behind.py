"""Records never delay: a push goes on behind, and a remote that hangs is not waited for twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.records import SaveStage
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import PushStage, Saver, push_of
from cockpit.records.recorder import trouble_with
from cockpit.runtime.git import run_git
from cockpit.runtime.shell import Completed
from tests.records.remotes import LOGBOOK, adding, entry, git, hook, remote_logbook, shared

SHORT = Limits(network=1.0)


def hangs(folder: Path) -> None:
    """Let the remote give no answer, ever; it notes that it was asked."""
    server = folder.parent / "hangs"
    server.write_text(f"#!/bin/sh\necho asked >>{server}.log\nexec sleep 60\n")
    server.chmod(0o755)
    git(folder, "config", "protocol.ext.allow", "always")
    git(folder, "remote", "set-url", "origin", f"ext::{server}")


def times_asked(folder: Path) -> int:
    return len((folder.parent / "hangs.log").read_text().splitlines())


def answers(folder: Path) -> None:
    git(folder, "remote", "set-url", "origin", str(folder.parent / "remote.git"))


async def test_a_record_is_committed_at_once_and_its_push_goes_on(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    saver = Saver(SystemClock())
    done = await saver.save(ada / LOGBOOK, adding(entry("relaunch")), "run: log", behind=True)
    assert done.stage.value == "committed" and done.pending and done.lasting
    assert (await saver.pushes(ada / LOGBOOK, within=30.0)).stage is PushStage.PUSHED
    assert b"relaunch" in remote_logbook(tmp_path)
    again = await saver.save(ada / LOGBOOK, adding(entry("relaunch")), "run: log", behind=True)
    assert again.stage.value == "pushed" and not again.pending


async def test_a_remote_that_hangs_delays_nothing_and_is_not_waited_for_twice(
    tmp_path: Path,
) -> None:
    ada = shared(tmp_path)
    hangs(ada)
    saver = Saver(SystemClock(), SHORT)
    assert (await saver.save(ada / LOGBOOK, adding(entry("one")), "m", behind=True)).pending
    assert (await saver.pushes(ada / LOGBOOK)).stage in (PushStage.QUEUED, PushStage.PUSHING)
    failed = await saver.pushes(ada / LOGBOOK, within=60.0)
    assert failed.stage is PushStage.FAILED and "origin" in failed.text
    asked = times_asked(ada)
    other = Saver(SystemClock(), SHORT)  # another cockpit knows it too
    said = await other.push(ada / LOGBOOK)
    assert "no answer since" in (said.trouble or "")
    assert times_asked(ada) == asked
    answers(ada)
    assert (await other.retry(ada / LOGBOOK)).stage.value == "pushed", "a person's retry asks"
    assert (await other.push(ada / LOGBOOK)).trouble is None


def test_a_push_that_its_process_leaves_behind_is_made_by_one_of_its_own(tmp_path: Path) -> None:
    ada = shared(tmp_path)

    async def verb() -> None:
        saver = Saver(SystemClock())
        assert (await saver.save(ada / LOGBOOK, adding(entry("one")), "m", behind=True)).pending

    asyncio.run(verb())
    until = time.monotonic() + 30.0
    while b"one" not in remote_logbook(tmp_path):
        assert time.monotonic() < until, "nobody pushed"
        time.sleep(0.05)


async def test_what_a_killed_cockpit_left_is_pushed_by_the_next(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-push", "exit 1")
    left = await Saver(SystemClock()).save(ada / LOGBOOK, adding(entry("left")), "left")
    assert left.stage is SaveStage.COMMITTED
    (ada / ".git/hooks/pre-push").unlink()
    assert (await push_of(ada / LOGBOOK, Limits())).stage is PushStage.QUEUED
    saver = Saver(SystemClock())
    await saver.push_left(ada / LOGBOOK)
    assert (await saver.pushes(ada / LOGBOOK, within=30.0)).stage is PushStage.PUSHED


async def test_a_git_that_does_not_answer_has_not_said_that_nothing_is_pushed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)

    async def silent(*_: object, **__: object) -> Completed:
        return Completed(-9, b"", b"", timed_out=True)

    monkeypatch.setattr("cockpit.records.git.repository.run_git", silent)
    found = await push_of(ada / LOGBOOK, Limits())
    assert found.stage is PushStage.FAILED and "git did not answer" in str(found.trouble)


async def test_a_git_that_does_not_say_which_branch_it_is_on_has_not_said_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).write_bytes((ada / LOGBOOK).read_bytes() + entry("left"))
    git(ada, "commit", "-qam", "left")
    asked = run_git

    async def slow(*words: object, **how: Any) -> Completed:
        if "symbolic-ref" in words:
            return Completed(-9, b"", b"", timed_out=True)
        return await asked(*words, **how)  # type: ignore[arg-type]

    monkeypatch.setattr("cockpit.records.git.repository.run_git", slow)
    found = await push_of(ada / LOGBOOK, Limits())
    assert found.stage is PushStage.FAILED and "cannot be told" in (found.trouble or "")
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and "detached" not in said
    git(ada, "checkout", "-q", "--detach")
    monkeypatch.undo()
    assert "HEAD is detached" in (await trouble_with(ada / LOGBOOK) or "")
