from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet, known
from cockpit.model.observed import RecordsValue
from cockpit.model.place import place_of
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.logbook.reading import output_root_in
from cockpit.runtime.shell import Completed
from cockpit.sources import records
from cockpit.sources.git import command
from cockpit.sources.records import Records
from tests.sources.git.repos import commit, git, repository
from tests.widgets.reports import report as report_of
from widgets.run_header import paint_head

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC).timestamp()
ENTRY = "### 2026-01-10 08:00 UTC - {}\n- Status: ok\n"


async def look(path: Path | None, source: Records | None = None) -> Facet[RecordsValue]:
    spec = RecordsSpec(logbook=None if path is None else str(path), issue="https://example.org/7")
    run = RunSpec(name="a", records=spec)
    return (await (source or Records(FixedClock(NOW))).observe([run]))["a"]


async def value_of(path: Path | None, source: Records | None = None) -> RecordsValue:
    facet = await look(path, source)
    assert facet.value is not None, facet.error
    return facet.value


def logbook(repo: Path) -> Path:
    path = repo / "logbooks" / "toy.md"
    path.parent.mkdir()
    path.write_text("# Toy\n## Event Log\n" + ENTRY.format("started"))
    return path


async def test_a_logbook_is_pushed_only_when_its_last_change_is_on_the_remote(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "notes")
    path = logbook(repo)
    assert (await value_of(path)).pushed is False, "not tracked"
    commit(repo, "log")
    assert (await value_of(path)).pushed is False, "not pushed"
    git(repo, "push", "-q")
    value = await value_of(path)
    assert value.pushed is True
    assert value.last_entry_at == datetime(2026, 1, 10, 8, tzinfo=UTC).timestamp()
    assert (value.logbook, value.issue) == (str(path), "https://example.org/7")
    path.write_text(path.read_text() + ENTRY.format("more"))
    assert (await value_of(path)).pushed is False, "changed"


async def test_without_an_output_root_nothing_is_looked_for_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Mock(return_value=())
    monkeypatch.setattr(records, "told_under", asked)
    path = logbook(repository(tmp_path / "notes"))
    source = Records(FixedClock(NOW))
    run = RunSpec(name="a", records=RecordsSpec(logbook=str(path)))
    assert (await source.observe([run]))["a"].known and not asked.called
    rooted = run.model_copy(update={"output_root": place_of(str(tmp_path / "out"))})
    assert (await source.observe([rooted]))["a"].known and asked.called


async def test_commits_that_leave_the_logbook_alone_do_not_count(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes")
    path = logbook(repo)
    commit(repo, "log")
    git(repo, "push", "-q")
    (repo / "train.py").write_text("other")
    commit(repo, "code")
    (repo / "dirty.py").write_text("other")
    assert (await value_of(path)).pushed is True


async def test_why_the_cockpit_does_not_push_is_told_and_stands_in_the_header(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "notes")
    path = logbook(repo)
    commit(repo, "log")
    git(repo, "push", "-q")
    (repo / "idea.py").write_text("x = 1\n")
    commit(repo, "WIP: do not push")
    path.write_text(path.read_text() + ENTRY.format("more"))
    commit(repo, "by hand")
    value = await value_of(path)
    assert value.pushed is False
    assert "WIP: do not push" in (value.held or "") and "push yourself" in (value.held or "")
    facet = known(value, "the logbook", NOW)
    report = report_of("toy")
    facets = report.facets.model_copy(update={"records": facet})
    report = report.model_copy(update={"facets": facets})
    assert "records not pushed" in paint_head(report, NOW, 120)[0].plain
    git(repo, "push", "-q")
    assert (await value_of(path)).held is None
    git(repo, "checkout", "-q", "--no-track", "-b", "mine")
    assert "no upstream" in ((await value_of(path)).held or "")


async def test_a_comparison_that_git_did_not_finish_is_not_read_as_not_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "notes")
    path = logbook(repo)
    commit(repo, "log")

    async def lost(folder: str, *words: str) -> Completed:
        silent = Completed(-9, b"", b"", timed_out=True)
        return silent if words[0] == "diff" else await command.git(folder, *words)

    monkeypatch.setattr("cockpit.sources.records.git", lost)
    assert (await value_of(path)).pushed is None


async def test_an_ignored_logbook_or_one_outside_git_is_not_pushed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes")
    (repo / ".gitignore").write_text("logbooks/\n")
    commit(repo, "ignore")
    git(repo, "push", "-q")
    assert (await value_of(logbook(repo))).pushed is False
    outside = tmp_path / "toy.md"
    outside.write_text(ENTRY.format("x"))
    assert (await value_of(outside)).pushed is False


async def test_without_an_upstream_nothing_is_pushed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes", remote=False)
    path = logbook(repo)
    commit(repo, "log")
    assert (await value_of(path)).pushed is False


async def test_no_logbook_no_file_nothing_configured(tmp_path: Path) -> None:
    assert (await value_of(None)) == RecordsValue(logbook=None, issue="https://example.org/7")
    gone = await look(tmp_path / "nowhere.md")
    assert gone.error is not None and gone.error.kind is ErrorKind.NOT_FOUND
    folder = await look(tmp_path)
    assert folder.error is not None and folder.error.kind is ErrorKind.BAD_ANSWER
    assert (await look(Path("/tmp/\0"))).error is not None
    facets = await Records(FixedClock(NOW)).observe([RunSpec(name="a")])
    assert not facets["a"].configured


async def test_the_output_root_of_the_run_contract_is_told(tmp_path: Path) -> None:
    book = tmp_path / "book.md"
    book.write_text("# A\n\n## Run Contract\n\n- Output root: `gs://b/a`\n\n## Event Log\n")
    run = RunSpec(name="a", records=RecordsSpec(logbook=str(book)))
    source = Records(FixedClock(NOW), root_in=output_root_in)
    for text in ("gs://b/a", "/moved"):
        book.write_text(book.read_text().replace("gs://b/a", text))
        value = (await source.observe([run]))["a"].value
        assert value is not None and (value.output_root or "").strip("`") == text
