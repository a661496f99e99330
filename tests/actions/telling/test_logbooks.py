"""A person's own entries on a real repository: nothing typed is lost, nothing secret is written.

What saving an entry would change, and what it can begin as: on a real repository.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cockpit.actions.core.recording import NO_LOGBOOK
from cockpit.actions.telling.log_entry import Logbooks
from cockpit.model.clock import SystemClock
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.report import RunReport
from cockpit.records.logbook.entry_text import TEMPLATES
from tests.widgets import reports as made

BOOK = """# Run

## Event Log

### 2026-03-10 21:00 UTC - sleep
- Status: RUNNING
- Next: wake
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Return a committed logbook whose repository has a remote."""
    remote, repo = tmp_path / "remote.git", tmp_path / "repo"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(tmp_path, "clone", "-q", str(remote), str(repo))
    for name, value in (("user.name", "ada"), ("user.email", "ada@example.org")):
        git(repo, "config", name, value)
    git(repo, "checkout", "-q", "-b", "main")
    path = repo / "book.md"
    path.write_text(BOOK)
    git(repo, "add", "book.md")
    git(repo, "commit", "-q", "-m", "begin")
    git(repo, "push", "-q", "-u", "origin", "main")
    return path


def report(path: Path | None) -> RunReport:
    found = made.report("run-a")
    records = found.spec.records.model_copy(update={"logbook": None if path is None else str(path)})
    return found.model_copy(update={"spec": found.spec.model_copy(update={"records": records})})


def written(path: Path) -> str:
    return path.read_text()


def service(tmp_path: Path) -> Logbooks:
    return Logbooks(SystemClock(), tmp_path / "drafts")


async def test_an_entry_is_begun_written_committed_and_pushed(book: Path, tmp_path: Path) -> None:
    books, run = service(tmp_path), report(book)
    opened = await books.open(run, made.NOW)
    assert opened.tail[-1] == "- Next: wake" and not opened.draft and not opened.trouble
    assert "note" in opened.text.splitlines()[0]
    stages: list[SaveStage] = []
    text = opened.text + "\n- Decision: hold"
    saved = await books.save(run, text, lambda each: stages.append(each.stage))
    assert (saved.stage, saved.trouble) == (SaveStage.PUSHED, None)
    assert SaveStage.COMMITTED in stages
    assert text in written(book) and written(book).startswith(BOOK.rstrip("\n"))
    assert git(book.parent, "log", "-1", "--format=%s") == "run-a: log note"
    assert git(book.parent, "status", "--porcelain") == ""


async def test_a_draft_outlives_the_program_and_ends_with_the_save(
    book: Path, tmp_path: Path
) -> None:
    run = report(book)
    assert await service(tmp_path).keep(run, "half a sent") == ""
    again = service(tmp_path)
    opened = await again.open(run, made.NOW)
    assert (opened.text, opened.draft) == ("half a sent", True)
    await again.save(run, "### 2026-03-11 09:00 UTC - whole\n- Status: fine", _ignore)
    assert not (await again.open(run, made.NOW)).draft


async def test_what_cannot_be_written_stays_a_draft(tmp_path: Path) -> None:
    nowhere = tmp_path / "file" / "book.md"
    (tmp_path / "file").write_text("in the way")
    books, run = service(tmp_path), report(nowhere)
    saved = await books.save(run, "### x - y\n- Status: fine", _ignore, "ada")
    assert saved.stage is SaveStage.NOTHING and saved.trouble
    left = await books.unfinished(run)
    assert left is not None and left.words.startswith("an unfinished draft by ada, ")
    assert (await books.open(run, made.NOW)).draft


async def test_a_run_without_a_logbook_says_so(tmp_path: Path) -> None:
    books = service(tmp_path)
    assert (await books.open(report(None), made.NOW)).trouble == NO_LOGBOOK
    assert (await books.save(report(None), "x", _ignore)).trouble == NO_LOGBOOK


async def test_a_secret_is_never_written(book: Path, tmp_path: Path) -> None:
    books, run = service(tmp_path), report(book)
    secret = "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"
    assert secret not in books.masked(secret)
    await books.save(run, f"### 2026-03-11 09:00 UTC - x\n- Status: {secret}", _ignore)
    assert "0123456789abcdef" not in written(book)


def _ignore(recorded: Recorded) -> None:
    return None


__all__ = ["book"]
HOSTILE = "### 2026-03-11 09:00 UTC - whole\n- Status: fine \x1b[31m 日本"


async def test_the_diff_has_the_lines_that_the_commit_then_has(book: Path, tmp_path: Path) -> None:
    books, run = service(tmp_path), report(book)
    shown = await books.diff(run, HOSTILE)
    assert shown[0].startswith("@@ line ") and not any(line[0] == "-" for line in shown)
    await books.save(run, HOSTILE, _ignore)
    commit = git(book.parent, "show", "--format=", "HEAD", "--", "book.md").splitlines()
    added = [line[1:].replace("\x1b[31m", "") for line in commit if line[:1] == "+"
             and not line.startswith("+++")]  # fmt: skip
    assert [" ".join(line[1:].split()) for line in shown if line[0] == "+"] == [
        " ".join(line.split()) for line in added]  # fmt: skip
    assert await books.diff(run, HOSTILE) == ()


async def test_a_diff_shows_no_secret_and_a_new_file_is_all_new(tmp_path: Path) -> None:
    books, run = service(tmp_path), report(tmp_path / "new.md")
    secret = "ghp_" + "a1B2" * 9
    shown = "\n".join(await books.diff(run, f"### 2026-03-11 09:00 UTC - x\n- Status: {secret}"))
    assert secret not in shown and "+### 2026-03-11 09:00 UTC - x" in shown
    assert await books.diff(report(None), "x") == ()


@pytest.mark.parametrize("name", TEMPLATES)
async def test_a_template_is_in_the_file_s_own_style_and_decides_nothing(
    name: str, book: Path, tmp_path: Path
) -> None:
    lines = (await service(tmp_path).begin(report(book), name, made.NOW)).splitlines()
    assert lines[0].startswith("### ") and name in lines[0]
    assert [line for line in lines if line.startswith("- Decision")] == ["- Decision:"]
    assert any(line.startswith("- Status: ") for line in lines)
