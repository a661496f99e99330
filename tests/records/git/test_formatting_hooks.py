"""Hooks that format what they are shown: their version is committed, and nothing else gets in."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.records import EventEntry, Recorded, SaveStage
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import Saver
from cockpit.records.logbook.writing import with_event
from tests.records.remotes import LOGBOOK, git, hook, remote_logbook, shared

LIMITS = Limits(local=60, hook=60, network=60, locked=0.3, turn=120)
STARS = f"sed 's/^- /* /' {LOGBOOK} > ../made; "
WORK_TREE = f"{STARS} cmp -s ../made {LOGBOOK} || {{ cat ../made > {LOGBOOK}; exit 1; }}"
"""As a hook of pre-commit does: it formats the file and fails."""
QUIET = f"{STARS} cat ../made > {LOGBOOK}"
ADDS = f"{QUIET}; git add {LOGBOOK}"
ADDS_AND_FAILS = f"{STARS} cmp -s ../made {LOGBOOK} || {{ {ADDS}; exit 1; }}"
IN_THE_INDEX = (
    f"git cat-file blob :{LOGBOOK} | sed 's/^- /* /' > ../made; "
    f"git update-index --cacheinfo 100644,$(git hash-object -w ../made),{LOGBOOK}"
)
HOOKS = {
    "fails": WORK_TREE,
    "says nothing": QUIET,
    "adds": ADDS,
    "adds and fails": ADDS_AND_FAILS,
    "in the index": IN_THE_INDEX,
}


def entry(title: str, minute: int = 0) -> EventEntry:
    at = 1_773_219_120.0 + 60 * minute
    return EventEntry(title=title, at=at, status="RUNNING", decision="none", next="look again")


async def save(folder: Path, event: EventEntry) -> Recorded:
    saver = Saver(SystemClock(), LIMITS)
    return await saver.save(folder / LOGBOOK, lambda data: with_event(data, event), "run: log")


def formatted(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(b"* " + line[2:] if line.startswith(b"- ") else line for line in lines)


@pytest.mark.parametrize("how", HOOKS)
async def test_what_the_hook_made_of_the_entry_is_committed(tmp_path: Path, how: str) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", HOOKS[how])
    for number, title in enumerate(("one", "two")):
        done = await save(ada, entry(title, number))
        assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    book = remote_logbook(tmp_path)
    assert book == formatted(book) == (ada / LOGBOOK).read_bytes()
    assert book.count(b"- one") == book.count(b"- two") == 1
    assert git(ada, "status", "--porcelain") == ""
    again = await save(ada, entry("two", 1))
    assert again.stage is SaveStage.PUSHED and remote_logbook(tmp_path) == book


@pytest.mark.parametrize("how", HOOKS)
async def test_a_persons_uncommitted_text_never_goes_along(tmp_path: Path, how: str) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).write_bytes((ada / LOGBOOK).read_bytes() + b"\n- a private thought\n")
    hook(ada / ".git", "pre-commit", HOOKS[how])
    done = await save(ada, entry("one"))
    kept = (ada / LOGBOOK).read_bytes()
    assert b"a private thought" in kept and kept.count(b"- one") == 1
    assert b"private" not in remote_logbook(tmp_path)
    assert "private" not in git(ada, "log", "-p", "--all")
    if done.stage is not SaveStage.PUSHED:
        assert "holds changes of yours" in str(done.trouble)


async def test_words_that_a_hook_adds_are_committed_and_not_pushed(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", f"echo 'from a hook' >> {LOGBOOK}; git add {LOGBOOK}")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "push yourself" in str(done.trouble)
    assert b"from a hook" not in remote_logbook(tmp_path)


async def test_a_hook_that_takes_the_entry_out_is_refused(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", f"git show HEAD:{LOGBOOK} > {LOGBOOK}; git add {LOGBOOK}")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and "took the entry out" in str(done.trouble)


async def test_other_files_of_a_person_stay_as_they_are(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / "train.py").write_text("lr = 5\n")
    (ada / "new.py").write_text("x = 1\n")
    git(ada, "add", "new.py")
    before = git(ada, "status", "--porcelain")
    hook(ada / ".git", "pre-commit", WORK_TREE)
    assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    assert git(ada, "status", "--porcelain") == before
