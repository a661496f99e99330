"""A logbook as it stood at a moment: from git, else by the dates of its entries, else unknown."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.records.logbook.reading import book_then
from tests.records.remotes import git

AT = datetime(2026, 3, 11, 3, 0, tzinfo=UTC).timestamp()
HEAD = "# Run\n\n## Event Log\n\n"


def entry(hour: int, words: str) -> str:
    return f"### 2026-03-11 {hour:02d}:00 UTC - {words}\n\nbody of {words}\n\n"


def commit(folder: Path, at: float) -> None:
    when = f"{int(at)} +0000"
    env = {
        "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "PATH": "/usr/bin:/bin",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b", "HOME": str(folder),
    }  # fmt: skip
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run(("git", *words), cwd=folder, env=env, check=True)


async def test_git_tells_what_was_committed_by_then_and_nothing_later(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    book = folder / "run.md"
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    book.write_text(HEAD + entry(1, "one, as edited later") + entry(2, "two") + entry(4, "four"))
    commit(tmp_path, AT + 3600)
    link = tmp_path / "link.md"
    link.symlink_to(book)
    for path in (book, link):
        found = await book_then(str(path), AT)
        assert found.text == HEAD + entry(1, "one")
        assert found.told.endswith(" of 2026-03-11 02:00:00Z")
    assert "four" in (await book_then(str(book), AT + 7200)).text


async def test_before_the_first_commit_and_without_git_the_dates_tell(tmp_path: Path) -> None:
    book = tmp_path / "run.md"
    book.write_text(
        HEAD + entry(4, "four") + entry(2, "two") + "### no date\n\nundated\n" + entry(1, "one")
    )
    without = await book_then(str(book), AT)
    commit(tmp_path, AT + 60)
    assert await book_then(str(book), AT) == without
    assert "body of two" in without.text and "body of one" in without.text
    assert "four" not in without.text and "undated" not in without.text
    assert without.told.endswith("entries dated by then, 1 without a date left out")


async def test_an_entry_with_a_date_alone_may_be_of_the_end_of_its_day(tmp_path: Path) -> None:
    book = tmp_path / "run.md"
    days = "".join(f"### 2026-03-{day} - of {day}\n\nbody\n\n" for day in (10, 11))
    book.write_text(HEAD + days + "### 02:30 - that night\n\nbody\n")
    found = await book_then(str(book), AT)
    assert "of 10" in found.text and "that night" in found.text and "of 11" not in found.text
    assert "of 11" in (await book_then(str(book), AT + 86400)).text


async def test_a_shallow_clone_does_not_know_what_was_committed_before(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for hour in (1, 4):
        (whole / "run.md").write_text(HEAD + entry(1, f"edited at {hour}"))
        commit(whole, AT + 3600 * (hour - 3))
    git(tmp_path, "clone", "-q", "--depth=1", whole.as_uri(), str(tmp_path / "cut"))
    found = await book_then(str(tmp_path / "cut/run.md"), AT)
    assert found.told == "git cannot tell (a shallow clone): entries dated by then"


@pytest.mark.parametrize("text", ["", "no entry at all\n", HEAD + entry(4, "four")])
async def test_what_nothing_tells_is_unknown(tmp_path: Path, text: str) -> None:
    book = tmp_path / "run.md"
    book.write_text(text)
    found = await book_then(str(book), AT)
    assert found.text == "" and found.told.startswith("unknown: nothing committed by then")
    gone = await book_then(str(tmp_path / "none.md"), AT)
    assert gone == ("", "unknown: no such file or directory")


@pytest.mark.parametrize("name", ["log*.md", ":(top)run.md", "-n.md"])
async def test_a_name_is_no_pattern(name: str, tmp_path: Path) -> None:
    book = tmp_path / name
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    (tmp_path / "log-of-another.md").write_text("another\n")
    commit(tmp_path, AT - 60)
    found = await book_then(str(book), AT)
    assert found.text == HEAD + entry(1, "one")
    assert found.told.endswith(" of 2026-03-11 02:00:00Z")


async def test_a_git_that_cannot_tell_is_not_said_to_have_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "run.md"
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    assert "commit" in (await book_then(str(book), AT)).told
    (tmp_path / ".git/config").write_text("[core\n")
    found = await book_then(str(book), AT)
    assert found.told.startswith("git cannot tell (bad config") and "body of one" in found.text
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert (await book_then(str(book), AT)).told.startswith("git cannot tell (")
