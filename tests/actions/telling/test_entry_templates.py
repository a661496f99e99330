"""What saving an entry would change, and what it can begin as: on a real repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.records.logbook.entry_text import TEMPLATES
from tests.actions.telling.test_logbooks import _ignore, book, git, report, service
from tests.widgets import reports as made

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
