"""Rows of a JSON-lines history: each line as Python's own reader takes it, only faster.

What a logbook's remote tells, to a clone that nobody has pulled into.

Paths that are not what the run file says they are: each is unknown with a reason, at once.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.facet import ErrorKind, Facet, known
from cockpit.model.observed import RecordsValue, Row
from cockpit.model.place import place_of
from cockpit.model.records import EventEntry
from cockpit.model.run import CheckpointSpec, CodeSpec, JobSpec, MonitorSpec, RecordsSpec, RunSpec
from cockpit.model.shared_facts import SharedFact
from cockpit.records.logbook.reading import output_root_in
from cockpit.records.logbook.writing import with_event
from cockpit.runtime.git import run_git
from cockpit.runtime.shell import Completed
from cockpit.sources import records
from cockpit.sources import told as module
from cockpit.sources.curves import EVERY, RowFile
from cockpit.sources.git import command
from cockpit.sources.records import Records
from cockpit.sources.told import Remotes
from cockpit.text.logbook_lines import message_lines
from cockpit.watch.asking import real_sources
from tests.queries import queries_of
from tests.records.remotes import LOGBOOK, clone, shared
from tests.records.remotes import git as told_git
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


def rows_of(*lines: bytes) -> tuple[list[Row], RowFile]:
    file = RowFile(io.BytesIO(b"\n".join(lines)))
    return list(file), file


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (b'{"step": 7, "loss": NaN}', math.nan),
        (b'{"step": 7, "loss": -Infinity}', -math.inf),
        (b'{"step": 7.0, "loss": "Infinity"}', math.inf),
        (b'{"step": 7, "loss": 1e999}', math.inf),
        (b'{"step": 7, "loss": 3}', 3.0),
        (b'{"step": 7, "loss": 1' + b"0" * 400 + b"}", None),
        (b'{"step": 7, "loss": [2.0]}', None),
        (b'\xef\xbb\xbf{"step": 7, "loss": 2.5}', 2.5),
        (b'{"step": 7, "loss": 2.5, "note": "\\ud800"}', 2.5),
        (b'{"step": 6, "step": 7, "loss": 2.5}', 2.5),
    ],
)
def test_a_row_is_read_however_its_line_is_written(line: bytes, loss: float | None) -> None:
    (row,), file = rows_of(line)
    assert row.step == 7 and file.bad == 0
    assert row.loss == loss or (loss is not None and math.isnan(loss))


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": true}',
        b'{"step": 1.5}',
        b'{"step": 9007199254740993}',
        b'{"step": 1}x',
        b"[" * 5000,
        b'{"loss": 1.0}',
        b"[1]",
        b'{"step": 1, "note": "\xff"}',
    ],
)
def test_a_line_that_is_no_row_is_counted_and_left_out(line: bytes) -> None:
    (row,), file = rows_of(line, json.dumps({"step": 2}).encode())
    assert (row.step, file.bad, file.first_bad) == (2, 1, 1)


def test_rows_without_a_time_are_taken_one_per_ten_seconds_from_the_last_one_with_one() -> None:
    rows, _ = rows_of(b'{"step": 1}', b'{"step": 2, "time": 500}', b'{"step": 3}')
    assert [row.at for row in rows] == [0.0, 500.0, 500.0 + EVERY]


def test_a_row_may_tell_its_learning_rate_and_its_batch() -> None:
    (row, plain), _ = rows_of(b'{"step": 3, "lr": 3e-4, "batch_size": 512}', b'{"step": 4}')
    assert (row.lr, row.batch, row.skipped) == (3e-4, 512.0, None)
    assert (plain.lr, plain.batch) == (None, None)


AT = 1_773_219_331.0


def tell(folder: Path, to: str, at: float = AT) -> None:
    told = SharedFact(what="owner", value=to, at=at, typed_by="ada", parts={"from": "ada"})
    entry = EventEntry(title=f"handoff to {to}", at=at, said=message_lines([told]))
    book = folder / LOGBOOK
    book.write_bytes(with_event(book.read_bytes(), entry))
    told_git(folder, "commit", "-q", "-am", f"log handoff to {to}")
    told_git(folder, "push", "-q")


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
    told_git(bob, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
    again = Remotes(SystemClock())
    lost = await again.heard(str(bob / LOGBOOK))
    assert lost.told == () and lost.trouble is not None and "origin was not read" in lost.trouble


@pytest.mark.parametrize("lost", ["rev-parse", "for-each-ref", "remote"])
async def test_a_git_that_does_not_answer_has_not_said_that_there_is_no_remote(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    told_git(ada, "branch", "-q", "--unset-upstream")
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
    told_git(bob, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
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
    told_git(ada, "remote", "remove", "origin")
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
    told_git(ada, "add", "-A")
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


FACETS = ("job", "log", "checkpoints", "monitor", "records", "code", "host")
DEADLINE = 3.0


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = Path.cwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            made.bind(path.name)
        finally:
            os.chdir(folder)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _nothing(path: Path) -> None:
    assert not path.exists()


def odd(path: str) -> RunSpec:
    return RunSpec(
        name="odd",
        job=JobSpec(kind="local", log=path, pid_file=path, exit_file=path),
        checkpoints=CheckpointSpec(path=(path,)),
        monitor=MonitorSpec(state=path, events=path),
        records=RecordsSpec(logbook=path),
        code=CodeSpec(repo=path),
    )


def sound(folder: Path) -> RunSpec:
    (folder / "run.pid").write_text(f"{os.getpid()}\n")
    (folder / "run.log").write_text("step 1/10 loss=2.0\n")
    (folder / "step-1").mkdir()
    (folder / "step-1" / "metadata.json").write_text('{"step": 1}')
    (folder / "step-1" / "weights").write_bytes(b"w")
    (folder / "book.md").write_text("# Book\n")
    return RunSpec(
        name="sound",
        job=JobSpec(kind="local", log=f"{folder}/run.log", pid_file=f"{folder}/run.pid"),
        checkpoints=CheckpointSpec(path=(str(folder),)),
        monitor=MonitorSpec(events=f"{folder}/run.log"),
        records=RecordsSpec(logbook=f"{folder}/book.md"),
    )


@pytest.mark.parametrize("made", [_pipe, _socket, _loop, _device, _nothing])
async def test_an_odd_path_is_a_reason_and_costs_no_other_run_its_facet(
    tmp_path: Path, made: Callable[[Path], None]
) -> None:
    (tmp_path / "sound").mkdir()
    made(tmp_path / "odd")
    await _both(odd(str(tmp_path / "odd")), sound(tmp_path / "sound"))


async def test_a_name_that_is_too_long_is_a_reason_too(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    await _both(odd(str(tmp_path / ("n" * 300))), sound(tmp_path / "sound"))


async def _both(bad: RunSpec, good: RunSpec) -> None:
    sources = real_sources(SystemClock())
    for name in FACETS:
        runs = [bad, good]
        queries: Any = queries_of(runs) if name in ("job", "log", "checkpoints", "host") else runs
        asked: Any = getattr(sources, name).observe(queries)
        found = await asyncio.wait_for(asked, DEADLINE)
        if name != "host":
            assert found["odd"].value is None, name
            assert found["odd"].error is not None and found["odd"].error.message, name
        if name != "code":
            assert found["sound"].known, (name, found["sound"].error)


async def test_a_pipe_in_a_checkpoint_keeps_nobody_waiting(tmp_path: Path) -> None:
    run = sound(tmp_path)
    (tmp_path / "step-2").mkdir()
    os.mkfifo(tmp_path / "step-2" / "metadata.json")
    observed = real_sources(SystemClock()).checkpoints.observe(queries_of([run]))
    found = (await asyncio.wait_for(observed, DEADLINE))["sound"]
    assert found.value is not None and found.value.latest_complete == 1
