"""A seal in the repository of a real ssh host: tagged there, pushed where its remote takes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place, on_host
from cockpit.records.git import sealing
from cockpit.records.git.repository import Limits
from cockpit.records.git.sealing import SealDone, seal, seal_plan
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.git.command import run_there
from tests.records.remotes import git, hook, shared, snapshot
from tests.sshd import Sshd, needs_sshd, reachable

pytestmark = needs_sshd
QUICK = Limits(local=60, hook=60, network=60, locked=0.3)
RUN = "demo-run"
TAG = f"seal/{RUN}/100"


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with reachable() as found:
        yield found


@pytest.fixture
def ada(tmp_path: Path, server: Sshd) -> Path:
    """A repository of the host, whose git knows nobody."""
    (server.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    (tmp_path / "a b").mkdir()
    return shared(tmp_path / "a b")


def of(server: Sshd, repo: Path) -> Place:
    return on_host(server.host, str(repo))


async def sealed(repo: Place) -> SealDone:
    return await seal(repo, RUN, 100, f"{RUN}: log final seal", (), QUICK)


async def test_it_is_tagged_there_by_who_seals_here_and_pushed_once(
    server: Sshd, ada: Path
) -> None:
    repo, before, head = of(server, ada), snapshot(ada), git(ada, "rev-parse", "HEAD").strip()
    facts = await seal_plan(repo, RUN, 100)
    assert (facts.sha, facts.dirty, facts.remote) == (head, (), "origin")
    assert (facts.tag_at, facts.on_remote, facts.trouble) == (None, False, None)
    done = await sealed(repo)
    assert (done.commit, done.tagged, done.pushed, done.trouble) == (head, True, True, None)
    bare = ada.parent / "remote.git"
    assert git(bare, "rev-parse", f"{TAG}^{{}}").strip() == head
    who = git(ada, "log", "-1", "--format=%cn <%ce>").strip()
    assert f"tagger {who}" in git(bare, "cat-file", "-p", TAG)
    refs = git(ada, "for-each-ref"), git(bare, "for-each-ref")
    assert (await sealed(repo)) == done.model_copy(update={"already": True})
    assert (git(ada, "for-each-ref"), git(bare, "for-each-ref")) == refs
    facts = await seal_plan(repo, RUN, 100)
    assert (facts.tag_at, facts.on_remote) == (head, True) and snapshot(ada) == before


async def test_what_its_remote_refuses_is_said_with_the_host(server: Sshd, ada: Path) -> None:
    hook(ada.parent / "remote.git", "pre-receive", "echo no tags here >&2; exit 1")
    done = await sealed(of(server, ada))
    assert done.tagged and not done.pushed
    assert "refused the push" in str(done.trouble) and "no tags here" in str(done.trouble)


async def test_changes_there_are_never_committed_from_here(server: Sshd, ada: Path) -> None:
    (ada / "train.py").write_text("lr = 9\n")
    assert (await seal_plan(of(server, ada), RUN, 100)).dirty == ("train.py",)
    before = git(ada, "for-each-ref")
    done = await seal(of(server, ada), RUN, 100, "m", ("train.py",), QUICK)
    assert "committed there by hand" in str(done.trouble) and not done.tagged
    assert git(ada, "for-each-ref") == before


async def test_an_answer_that_is_lost_is_no_absence_and_sealing_again_finds_it(
    server: Sshd, ada: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = of(server, ada)

    def cut(word: str) -> None:
        async def lost(place: Place, rows: Any, *given: Any, **more: Any) -> list[Completed]:
            done = await run_there(place, rows, *given, **more)
            if word not in f"{rows}":
                return done
            text = f"{place.host}: the connection broke off"
            raise RemoteError(ErrorKind.REFUSED, text, sent=True)

        monkeypatch.setattr(sealing, "run_there", lost)

    for word in ("for-each-ref", "ls-remote", TAG):
        cut(word)
        assert "broke off" in str((await seal_plan(repo, RUN, 100)).trouble), word
    cut("'tag', '-a'")
    lost = await sealed(repo)
    assert not lost.tagged and "broke off" in str(lost.trouble)
    cut("'push'")
    unsure = await sealed(repo)
    assert (
        unsure.tagged
        and unsure.already
        and "cannot tell whether it is pushed" in str(unsure.trouble)
    )
    monkeypatch.undo()
    done = await sealed(repo)
    assert (done.already, done.pushed, done.trouble) == (True, True, None)
    assert git(ada.parent / "remote.git", "tag").split() == [TAG]


async def test_where_it_cannot_be_looked_the_reason_names_the_place(
    server: Sshd, ada: Path, tmp_path: Path, _own_home: Path
) -> None:
    nowhere = str((await seal_plan(of(server, tmp_path / "none"), RUN, 100)).trouble)
    assert server.host in nowhere and "no such folder" in nowhere
    (_own_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    nobody = str((await seal_plan(of(server, ada), RUN, 100)).trouble)
    assert server.host in nobody and "user.name" in nobody
    git(ada, "remote", "remove", "origin")
    git(ada, "config", "user.name", "Ada")
    git(ada, "config", "user.email", "ada@x")
    assert (await seal_plan(of(server, ada), RUN, 100)).remote is None
