"""What a logbook's remote tells, to a clone that nobody has pulled into."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.records import EventEntry
from cockpit.model.shared_facts import SharedFact
from cockpit.records.logbook.writing import with_event
from cockpit.runtime.git import run_git
from cockpit.runtime.shell import Completed
from cockpit.sources import told as module
from cockpit.sources.told import Remotes
from cockpit.text.logbook_lines import message_lines
from tests.records.remotes import LOGBOOK, clone, git, shared

AT = 1_773_219_331.0


def tell(folder: Path, to: str, at: float = AT) -> None:
    told = SharedFact(what="owner", value=to, at=at, typed_by="ada", parts={"from": "ada"})
    entry = EventEntry(title=f"handoff to {to}", at=at, said=message_lines([told]))
    book = folder / LOGBOOK
    book.write_bytes(with_event(book.read_bytes(), entry))
    git(folder, "commit", "-q", "-am", f"log handoff to {to}")
    git(folder, "push", "-q")


class Steady(SystemClock):
    """The machine's clock, and what a test adds to it (s)."""

    passed = 0.0

    def now(self) -> float:
        return super().now() + self.passed

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


def make_due(remotes: Remotes) -> None:
    for watched in remotes._watched.values():
        watched.due = float("-inf")
    for branch in remotes._branches.values():
        branch.due = float("-inf")


async def test_a_clone_that_is_behind_hears_it_and_stays_as_it_is(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    bob = clone(tmp_path, "bob")
    tell(ada, "bob")
    files = sorted(str(path) for path in (bob / ".git").rglob("*"))
    remotes = Remotes(SystemClock())
    heard = await remotes.heard(str(bob / LOGBOOK))
    (told,) = heard.told
    assert (told.value, told.source, heard.trouble) == ("bob", "logbook on origin", None)
    assert heard.last_entry_at is not None
    assert sorted(str(path) for path in (bob / ".git").rglob("*")) == files
    git(bob, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
    again = Remotes(SystemClock())
    lost = await again.heard(str(bob / LOGBOOK))
    assert lost.told == () and lost.trouble is not None and "origin was not read" in lost.trouble


@pytest.mark.parametrize("lost", ["rev-parse", "for-each-ref", "remote"])
async def test_a_git_that_does_not_answer_has_not_said_that_there_is_no_remote(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    git(ada, "branch", "-q", "--unset-upstream")
    remotes = Remotes(FixedClock(SystemClock().now() + 60.0))

    async def silent(folder: str, *words: str, **options: Any) -> Completed:
        if words[0] == lost:
            return Completed(-9, b"", b"", timed_out=True)
        return await run_git(folder, *words, **options)

    with monkeypatch.context() as lately:
        lately.setattr(module, "run_git", silent)
        heard = await remotes.heard(str(ada / LOGBOOK))
        assert heard.trouble == "unknown where the logbook is pushed to: no answer in time"
    make_due(remotes)
    await remotes.heard(str(ada / LOGBOOK))
    await asyncio.gather(*remotes._asking)
    assert (await remotes.heard(str(ada / LOGBOOK))).trouble is None


async def test_what_was_heard_stays_while_the_remote_is_silent(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    bob = clone(tmp_path, "bob")
    tell(ada, "bob")
    remotes = Remotes(FixedClock(AT + 60))
    assert [each.value for each in (await remotes.heard(str(bob / LOGBOOK))).told] == ["bob"]
    tell(ada, "carol", AT + 30)
    make_due(remotes)
    await remotes.heard(str(bob / LOGBOOK))
    await asyncio.gather(*remotes._asking)
    newer = await remotes.heard(str(bob / LOGBOOK))
    assert [each.value for each in newer.told] == ["bob", "carol"]
    git(bob, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
    make_due(remotes)
    await remotes.heard(str(bob / LOGBOOK))
    await asyncio.gather(*remotes._asking)
    kept = await remotes.heard(str(bob / LOGBOOK))
    assert len(kept.told) == 2 and kept.trouble is not None


async def test_a_git_that_refused_is_asked_again_though_its_files_stay_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in its way may lie elsewhere: a person's own settings, a full process table."""
    ada = shared(tmp_path)
    tell(ada, "bob")
    remotes = Remotes(FixedClock(SystemClock().now() + 60.0))

    async def refusing(folder: str, *words: str, **options: Any) -> Completed:
        if words[0] == "rev-parse":
            return Completed(128, b"", b"fatal: detected dubious ownership")
        return await run_git(folder, *words, **options)

    with monkeypatch.context() as lately:
        lately.setattr(module, "run_git", refusing)
        assert await remotes.heard(str(ada / LOGBOOK)) == module.NOTHING
    make_due(remotes)
    await remotes.heard(str(ada / LOGBOOK))
    await asyncio.gather(*remotes._asking)
    assert [each.value for each in (await remotes.heard(str(ada / LOGBOOK))).told] == ["bob"]


async def test_where_a_new_logbook_is_pushed_to_is_settled_at_its_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks come a minute apart and no sooner; what had just changed is asked for once more."""
    shared(tmp_path)
    ada, clock, asked = tmp_path / "ada", Steady(), []

    async def counted(folder: str, *words: str, **more: Any) -> Completed:
        asked.append(words[0])
        return await run_git(folder, *words, **more)

    monkeypatch.setattr(module, "run_git", counted)
    git(ada, "remote", "remove", "origin")
    remotes, found = Remotes(clock), []
    for _ in range(4):
        asked.clear()
        await remotes.heard(str(ada / LOGBOOK))
        await asyncio.gather(*remotes._asking)
        found.append(bool(asked))
        clock.passed += module.EVERY - 0.01
    assert found == [True, True, False, False]


async def test_a_branch_is_asked_once_for_all_logbooks_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    bob = clone(tmp_path, "bob")
    books = [f"run-{number}.md" for number in range(20)]
    for name in books:
        (ada / name).write_bytes((ada / LOGBOOK).read_bytes())
    git(ada, "add", "-A")
    tell(ada, "bob")
    asked: list[str] = []

    async def counted(folder: str, *words: str, **more: Any) -> Completed:
        asked.extend(word for word in words if word in ("ls-remote", "fetch"))
        return await run_git(folder, *words, **more)

    monkeypatch.setattr(module, "run_git", counted)
    remotes = Remotes(SystemClock())
    heard = await asyncio.gather(*(remotes.heard(str(bob / name)) for name in (*books, LOGBOOK)))
    assert [each.value for each in heard[-1].told] == ["bob"]
    assert {each.trouble for each in heard} == {None}
    assert asked.count("ls-remote") == 1 and asked.count("fetch") <= 2
