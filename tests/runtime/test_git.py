from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.clock import Clock
from cockpit.model.observed import CodeValue
from cockpit.model.run import CodeSpec, RecordsSpec, RunSpec
from cockpit.runtime import git as runtime_git
from cockpit.runtime import shell
from cockpit.runtime.git import FULL_EVERY, SETTLED, asked_anew
from cockpit.sources.git.code import Code
from cockpit.sources.records import Records
from cockpit.sources.told import Remotes
from tests.sources.git.repos import commit, git, repository


class Later:
    """The machine's clock, ahead by what a test has let pass: its files have stood still since."""

    def __init__(self) -> None:
        self.ahead = 2 * SETTLED

    def now(self) -> float:
        return time.time() + self.ahead

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.ahead += seconds


class Watched:
    """A source over one repository, and how many programs each look at it started."""

    def __init__(
        self, source: Code | Records, run: RunSpec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.source, self.run, self.started = source, run, 0
        start = shell._Run._start

        def counted(running: shell._Run) -> object:
            self.started += 1
            return start(running)

        monkeypatch.setattr(shell._Run, "_start", counted)

    async def look(self) -> tuple[object, int]:
        self.started = 0
        return (await self.source.observe([self.run]))[self.run.name].value, self.started


@pytest.fixture
def clock() -> Clock:
    return Later()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "code")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "model.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "conf" / "exp").mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "notes" / "of.log").write_text("")
    commit(folder, "second")
    return folder


async def settled(repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Watched:
    run = RunSpec(name="a", code=CodeSpec(repo=str(repo)))
    watched = Watched(Code(clock), run, monkeypatch)
    await watched.look()
    await watched.look()
    return watched


def edited(repo: Path) -> None:
    (repo / "deep" / "er" / "model.py").write_text("x = 2\n")  # as long as before


def untracked(repo: Path) -> None:
    (repo / "deep" / "new.py").write_text("")


def packed(repo: Path) -> None:
    git(repo, "tag", "seal/a/100")
    git(repo, "pack-refs", "--all")


def pushed(repo: Path) -> None:
    git(repo, "push", "-q", "origin", "HEAD:main")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file is edited": edited,
    "a file is removed": lambda repo: (repo / "train.py").unlink(),
    "a new file": untracked,
    "staged": lambda repo: git(repo, "rm", "-q", "--cached", "train.py"),
    "another branch": lambda repo: git(repo, "checkout", "-q", "-b", "other"),
    "a seal": lambda repo: git(repo, "tag", "seal/a/100"),
    "a seal, packed": packed,
    "pushed": pushed,
    "a new file in an empty folder": lambda repo: (repo / "conf" / "exp" / "a.py").write_text(""),
    "a new file beside what is ignored": lambda repo: (repo / "notes" / "a.py").write_text(""),
    "no upstream": lambda repo: git(repo, "branch", "-q", "--unset-upstream"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_whatever_changes_is_seen_at_the_next_look(
    what: str, repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = await settled(repo, clock, monkeypatch)
    former, _ = await watched.look()
    CHANGES[what](repo)
    found, started = await watched.look()
    assert started > 0
    assert found != former
    assert found == (await Code(clock).observe([watched.run]))["a"].value


async def test_a_linked_worktree_is_known_by_its_own_files_and_the_shared_ones(
    repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "worktree", "add", "-q", str(repo.parent / "linked"), "-b", "linked")
    watched = await settled(repo.parent / "linked", clock, monkeypatch)
    former, started = await watched.look()
    assert started == 0
    git(repo, "tag", "seal/a/7")
    sealed, started = await watched.look()
    assert started > 0
    assert sealed != former
    await watched.look()
    (repo.parent / "linked" / "train.py").write_text("")
    assert (await watched.look())[0] not in (former, sealed)


async def test_what_was_written_just_now_is_asked_for_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Later()
    clock.ahead = 0.0
    watched = await settled(repo, clock, monkeypatch)
    assert (await watched.look())[1] > 0


async def test_git_itself_is_asked_again_after_a_while(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Later()
    watched = await settled(repo, clock, monkeypatch)
    clock.ahead += FULL_EVERY / 2
    assert (await watched.look())[1] == 0
    clock.ahead += FULL_EVERY
    assert (await watched.look())[1] > 0


async def test_what_a_plan_rests_on_is_asked_of_git_itself(
    repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = await settled(repo, clock, monkeypatch)
    with asked_anew():
        assert (await watched.look())[1] > 0
    assert (await watched.look())[1] == 0


async def test_an_answer_that_was_lost_in_part_is_asked_for_again(
    repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(repo)

    async def lost(folder: str, found: object) -> None:
        return None

    with monkeypatch.context() as lately:
        lately.setattr("cockpit.sources.git.code._patch_id", lost)
        watched = await settled(repo, clock, lately)
        assert (await watched.look())[1] > 0
    await watched.look()
    found, started = await watched.look()
    assert started == 0
    assert isinstance(found, CodeValue)
    assert found.patch_id is not None


@pytest.mark.parametrize("why", ["a repository in it", "submodules", "too many files"])
async def test_where_files_do_not_tell_git_is_asked_each_time(
    why: str, repo: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "a repository in it":
        repository(repo / "other", remote=False)
        commit(repo, "third")
    elif why == "submodules":
        (repo / ".gitmodules").write_text("")
        commit(repo, "third")
    else:
        monkeypatch.setattr(runtime_git, "MOST", 1)
    watched = await settled(repo, clock, monkeypatch)
    assert (await watched.look())[1] > 0


async def test_a_git_folder_of_a_stranger_holds_nobody_up(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / "elsewhere").mkdir()
    os.mkfifo(tmp_path / "elsewhere" / "commondir")
    assert runtime_git.stamps_of(str(tmp_path)) is not None


@pytest.mark.parametrize("remote", [False, True])
async def test_a_logbook_that_stands_still_starts_nothing_until_it_is_written(
    remote: bool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "book", remote=remote)
    book = repo / "run.md"
    book.write_text("# Run: a\n\n## Event Log\n")
    commit(repo, "book")
    if remote:
        git(repo, "push", "-q", "origin", "HEAD:main")
    run = RunSpec(name="a", records=RecordsSpec(logbook=str(book)))
    remotes = None if remote else Remotes(clock)  # a remote itself is asked, once a minute
    watched = Watched(Records(clock, remotes=remotes), run, monkeypatch)
    await watched.look()
    former, started = await watched.look()
    assert started == 0
    with book.open("a") as file:
        file.write("\n### 2026-03-11 08:55 UTC - check\n")
    found, started = await watched.look()
    assert started > 0
    assert found != former
