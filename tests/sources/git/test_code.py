from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import CodeValue
from cockpit.model.place import Place
from cockpit.model.run import CodeSpec, RecordsSpec, RunSpec
from cockpit.runtime.shell import Completed
from cockpit.sources.git import code as code_state
from cockpit.sources.git import command
from cockpit.sources.git.code import Code
from cockpit.sources.git.command import trouble
from tests.sources.git.repos import commit, git, repository

NOW = 1_770_000_000.0


def make(repo: Path, name: bytes) -> None:
    (repo / os.fsdecode(name)).touch()


async def look(repo: Path) -> Facet[CodeValue]:
    run = RunSpec(name="a", code=CodeSpec(repo=str(repo)))
    return (await Code(FixedClock(NOW)).observe([run]))["a"]


async def value_of(repo: Path) -> CodeValue:
    facet = await look(repo)
    assert facet.value is not None, facet.error
    return facet.value


async def test_looking_runs_no_hook_of_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    (repo / "model.py").write_text("width = 1\n")
    commit(repo, "second")
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        hook = repo / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    (repo / "train.py").write_text("lr = 2\n")
    os.utime(repo / "model.py", (1.0, 1.0))
    assert (await value_of(repo)).patch_id is not None
    assert not (tmp_path / "ran").exists()


async def test_dirty_and_unpushed_are_named_and_the_diff_has_an_identity(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    (repo / "note.md").write_text("x\n")
    commit(repo, "second")
    (repo / "train.py").write_text("lr = 1\n" * 19 + "lr = 2\n")
    (repo / "new.py").write_text("")
    git(repo, "mv", "note.md", "moved to here.md")
    value = await value_of(repo)
    assert value.unpushed == 1
    assert set(value.dirty) == {"train.py", "new.py", "moved to here.md"}
    first = value.patch_id
    assert first is not None and len(first) == 40
    (repo / "train.py").write_text("lr = 1\n" * 19 + "lr = 3\n")
    assert (await value_of(repo)).patch_id not in (None, first)


async def test_hostile_names_are_made_safe(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    make(repo, b"evil\x1b]0;title\x07\n\xff.py")
    value = await value_of(repo)
    assert len(value.dirty) == 1 and "evil" in value.dirty[0]
    assert not any(ord(char) < 32 or char == "\x7f" for char in value.dirty[0])


async def test_a_subfolder_shows_the_whole_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    (repo / "sub").mkdir()
    (repo / "train.py").write_text("changed")
    assert (await value_of(repo / "sub")).dirty == ("train.py",)


async def test_looking_changes_nothing_in_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    os.utime(repo / "train.py", (1, 1))
    before = (repo / ".git" / "index").read_bytes()
    await value_of(repo)
    assert (repo / ".git" / "index").read_bytes() == before


async def test_a_program_that_the_repository_names_is_not_run(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    trap.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(trap))
    git(repo, "config", "diff.external", str(trap))
    git(repo, "config", "core.pager", str(trap))
    (repo / "train.py").write_text("changed")
    assert (await value_of(repo)).patch_id is not None
    assert not (tmp_path / "ran").exists()


async def test_no_repository_no_folder_nothing_configured(tmp_path: Path) -> None:
    plain = await look(tmp_path)
    assert plain.error is not None and plain.error.kind is ErrorKind.NOT_FOUND
    assert "is not a git repository" in plain.error.message
    gone = await look(tmp_path / "nowhere")
    assert gone.error is not None and gone.error.kind is ErrorKind.NOT_FOUND
    facets = await Code(FixedClock(NOW)).observe([RunSpec(name="a"), RunSpec(name="b")])
    assert not any(facet.configured for facet in facets.values())


async def test_a_broken_repository_is_one_line(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    (repo / ".git" / "index").write_bytes(b"garbage")
    facet = await look(repo)
    assert facet.error is not None and facet.error.kind is ErrorKind.BAD_ANSWER
    assert "\n" not in facet.error.message and "index" in facet.error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_repository_of_someone_else_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "code")
    for name in (repo, repo / ".git"):
        os.chown(name, 12345, 12345)
    monkeypatch.delenv("SUDO_UID", raising=False)
    facet = await look(repo)
    assert facet.error is not None and facet.error.kind is ErrorKind.PERMISSION
    assert "safe.directory" in facet.error.message


def test_each_way_to_fail_is_one_line_of_its_kind() -> None:
    ways = {
        ErrorKind.TIMEOUT: Completed(-9, b"", b"", timed_out=True),
        ErrorKind.NOT_FOUND: Completed(127, b"", b"git: not found\nmore"),
        ErrorKind.PERMISSION: Completed(
            128, b"", b"fatal: detected dubious ownership in repository"
        ),
        ErrorKind.BAD_ANSWER: Completed(128, b"", b"fatal: something\nelse"),
    }
    for kind, done in ways.items():
        problem = trouble("/code", done)
        assert problem.kind is kind and "\n" not in problem.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter everything")
async def test_a_folder_that_may_not_be_entered_is_no_permission(tmp_path: Path) -> None:
    closed = repository(tmp_path / "code")
    closed.chmod(0)
    facet = await look(closed)
    closed.chmod(0o700)
    assert facet.error is not None and facet.error.kind is ErrorKind.PERMISSION
    assert str(closed) in facet.error.message


def test_a_git_that_may_not_be_run_is_no_permission() -> None:
    problem = trouble("/code", Completed(126, b"", b"folder /code: Permission denied"))
    assert problem.kind is ErrorKind.PERMISSION
    assert problem.message == "folder /code: Permission denied"


async def test_one_repository_of_many_runs_is_asked_once(tmp_path: Path) -> None:
    repo = str(repository(tmp_path / "code"))
    runs = [RunSpec(name=str(n), code=CodeSpec(repo=repo)) for n in range(20)]
    facets = await Code(FixedClock(NOW)).observe(runs)
    assert len({id(facet) for facet in facets.values()}) == 1


async def test_the_logbooks_newest_launch_tells_the_recorded_commit(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    book = tmp_path / "toy.md"
    book.write_text(
        "## Launched Instances\n### 2026-01-02 08:00 UTC - toy-i002\n- **Git SHA**: `4567DEF`\n"
        "### 2026-01-01 08:00 UTC - toy-i001\n- Git SHA: 0123abc\n"
        "## Event Log\n### 2026-01-03 08:00 UTC - note\n- Git SHA: fffffff\n"
    )
    records = RecordsSpec(logbook=str(book))
    run = RunSpec(name="a", code=CodeSpec(repo=str(repo)), records=records)
    facet = (await Code(FixedClock(NOW)).observe([run]))["a"]
    assert facet.value is not None and facet.value.record_sha == "4567def"
    book.unlink()
    facet = (await Code(FixedClock(NOW)).observe([run]))["a"]
    assert facet.known and facet.value is not None and facet.value.record_sha is None


async def test_the_newest_seal_of_this_very_run_is_found(tmp_path: Path) -> None:
    repo = repository(tmp_path / "code")
    for name in ("seal/a/9", "seal/ab/10", "seal/a/b/11", "other"):
        git(repo, "tag", "-a", "-m", "x", name)
    runs = [RunSpec(name=name, code=CodeSpec(repo=str(repo))) for name in ("a", "ab", "b")]
    found = await Code(FixedClock(NOW)).observe(runs)
    sealed = {name: facet.value.sealed for name, facet in found.items() if facet.value}
    assert sealed == {"a": "seal/a/9", "ab": "seal/ab/10", "b": None}


async def test_a_lost_answer_of_what_is_not_pushed_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "code")
    (repo / "note.md").write_text("x\n")
    commit(repo, "second")
    book = tmp_path / "toy.md"
    sha = git(repo, "rev-parse", "HEAD")
    book.write_text(f"## Launched Instances\n### 2026-01-02 08:00 UTC - a-i1\n- Git SHA: {sha}\n")
    run = RunSpec(name="a", code=CodeSpec(repo=str(repo)), records=RecordsSpec(logbook=str(book)))
    ask, code = command.git, Code(FixedClock(NOW))

    async def lost(folder: str | Place, *words: str) -> Completed:
        slow = "@{upstream}" in words
        return Completed(rc=1, out=b"", err=b"") if slow else await ask(folder, *words)

    async def ahead() -> tuple[str, ...] | None:
        value = (await code.observe([run]))["a"].value
        return None if value is None else value.ahead_files

    monkeypatch.setattr(code_state, "git", lost)
    assert await ahead() is None
    monkeypatch.setattr(code_state, "git", ask)
    assert await ahead() == ("note.md",)
