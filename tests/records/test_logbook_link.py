from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.records.issue_new import logbook_link, page_of
from tests.sources.repos import git, repository


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("git@github.com:ada/runs.git", "https://github.com/ada/runs/blob/main/a.md"),
        ("https://github.com/ada/runs", "https://github.com/ada/runs/blob/main/a.md"),
        ("https://x:ghp_secret@github.com/ada/runs.git",
         "https://github.com/ada/runs/blob/main/a.md"),
        ("ssh://git@github.acme.org:22/ada/runs.git",
         "https://github.acme.org/ada/runs/blob/main/a.md"),
        ("git@gitlab.com:ada/runs.git", None),
        ("/srv/runs.git", None),
        ("https://github.com/ada/runs/evil)x", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_remote_on_github_has_pages(remote: str, page: str | None) -> None:
    assert page_of(remote, "main", "a.md") == page


def test_odd_names_are_quoted() -> None:
    page = page_of("git@github.com:a/b.git", "run/x y", "lög (1).md")
    assert page == "https://github.com/a/b/blob/run/x%20y/l%C3%B6g%20%281%29.md"


async def test_a_logbook_is_found_in_its_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes")
    folder = repo / ".agents" / "logbooks"
    folder.mkdir(parents=True)
    (folder / "toy.md").write_text("# Toy\n")
    assert await logbook_link(str(folder / "toy.md")) == (".agents/logbooks/toy.md", None)
    git(repo, "remote", "set-url", "origin", "git@github.com:ada/runs.git")
    found = await logbook_link(str(folder / "toy.md"))
    assert found.url == "https://github.com/ada/runs/blob/main/.agents/logbooks/toy.md"
    git(repo, "checkout", "-q", "--detach")
    assert (await logbook_link(str(folder / "toy.md"))).url is None
    assert (await logbook_link(str(tmp_path / "alone.md"))).path == "alone.md"
