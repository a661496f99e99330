"""The checkout of an ssh host: what its own git says, in one trip."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.here import call
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import CodeValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import CodeSpec, RunSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.git import command
from cockpit.sources.git.code import AT_ONCE, Code, changes_since
from tests.sources.git.repos import commit, git, repository
from tests.sshd import Sshd, needs_sshd, serving

NOW = 1_770_000_000.0


class Box:
    """A host that is this machine; counts what it is asked, and can be gone."""

    def __init__(self) -> None:
        self.trips = self.under_way = self.most = 0
        self.down: RemoteError | None = None
        self.answer: list[list[Any]] | None = None

    async def __call__(self, host: str, what: str, function: str, /, **given: Any) -> Any:
        assert host == "box"
        self.trips += 1
        if self.down is not None:
            raise self.down.again()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        found = await call(None, what, function, **given)
        self.under_way -= 1
        return found if self.answer is None else self.answer


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box()
    monkeypatch.setattr(command, "call", made)
    return made


async def look(*repos: Path | str) -> list[Facet[CodeValue]]:
    runs = [
        RunSpec(name=str(number), code=CodeSpec(repo=f"ssh://box{repo}"))
        for number, repo in enumerate(repos)
    ]
    return list((await Code(FixedClock(NOW)).observe(runs)).values())


async def here(repo: Path) -> CodeValue:
    run = RunSpec(name="a", code=CodeSpec(repo=str(repo)))
    value = (await Code(FixedClock(NOW)).observe([run]))["a"].value
    assert value is not None
    return value


def changed(repo: Path) -> Path:
    (repo / "note.md").write_text("x\n")
    commit(repo, "second")
    git(repo, "tag", "seal/0/500")
    (repo / "train.py").write_text("lr = 1\n" * 19 + "lr = 2\n")
    (repo / "new '$(x)'.py").write_text("")
    return repo


async def test_it_says_what_git_here_would_say(tmp_path: Path, box: Box) -> None:
    odd = tmp_path / "o'dd $(touch pwned)"
    odd.mkdir()
    repos = [
        repository(tmp_path / "clean"),
        changed(repository(odd / "changed")),
        repository(tmp_path / "untracked"),
    ]
    (repos[2] / "new.py").write_text("")
    found = await look(*repos)
    for repo, facet in zip(repos, found, strict=True):
        assert facet.error is None and facet.value is not None, facet
        without = {"sealed": None, "sealed_steps": ()}
        assert facet.value.model_copy(update=without) == await here(repo)
        assert facet.source == f"git ssh://box{repo}"
    assert found[1].value is not None and found[1].value.patch_id is not None
    assert box.trips == len(repos) and not list(Path.cwd().glob("pwned"))


async def test_few_repositories_of_a_host_are_looked_at_at_once(tmp_path: Path, box: Box) -> None:
    """One login node may have those of a hundred runs."""
    found = await look(*(tmp_path / f"none{number}" for number in range(3 * AT_ONCE)))
    assert {facet.error and facet.error.kind for facet in found} == {ErrorKind.NOT_FOUND}
    assert (box.trips, box.most) == (3 * AT_ONCE, AT_ONCE)


async def test_a_seal_s_tag_is_seen(tmp_path: Path, box: Box) -> None:
    facet = (await look(changed(repository(tmp_path / "code"))))[0]
    assert facet.value is not None and facet.value.sealed == "seal/0/500"


async def test_what_cannot_be_told_says_why(
    tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = repository(tmp_path / "good")
    (tmp_path / "plain").mkdir()
    found = await look(tmp_path / "none", tmp_path / "plain", good)
    kinds = [facet.error and facet.error.kind for facet in found]
    assert kinds == [ErrorKind.NOT_FOUND, ErrorKind.NOT_FOUND, None]
    assert found[0].error is not None and "no such folder" in found[0].error.message
    box.down = RemoteError(ErrorKind.UNAUTHORIZED, "box: log in")
    (lost,) = await look(good)
    assert lost.error is not None
    assert (lost.error.kind, lost.error.message) == (ErrorKind.UNAUTHORIZED, "box: log in")
    box.down = None
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    (tmp_path / "bin").mkdir()
    for name in ("env", "timeout"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    (lost,) = await look(good)
    assert lost.error is not None and lost.error.kind is ErrorKind.NOT_FOUND
    assert "git is not installed there" in lost.error.message


async def test_a_host_without_a_process_left_is_no_host_without_git(
    tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "code")

    def begin(argv: Any, **given: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", begin)
    (lost,) = await look(repo)
    assert lost.error is not None and lost.error.kind is ErrorKind.BAD_ANSWER
    assert "Resource temporarily unavailable" in lost.error.message
    assert "not installed" not in lost.error.message


async def test_a_dead_disk_is_entered_by_what_has_a_deadline(
    tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could end a process that hangs on its way into its first folder."""
    repo, begun, real = repository(tmp_path / "code"), list[dict[str, Any]](), subprocess.Popen

    def begin(argv: Any, **given: Any) -> Any:
        begun.append(given)
        return real(argv, **given)

    monkeypatch.setattr(subprocess, "Popen", begin)
    (found,) = await look(repo)
    assert found.value is not None
    assert len(begun) == 4 and all(given.get("cwd") is None for given in begun)


async def test_a_git_that_hangs_costs_its_limit_and_the_rest_is_told(
    tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, hung = repository(tmp_path / "good"), repository(tmp_path / "hung")
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin/git"
    hangs = 'case "$PWD $*" in *hung*status*) sleep 30;; esac'
    slow.write_text(f'#!/bin/sh\n{hangs}\nexec /usr/bin/git "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(command, "LIMIT", 0.5)
    begun = time.monotonic()
    first, second = await look(good, hung)
    assert time.monotonic() - begun < 10.0
    assert first.value is not None
    assert second.error is not None and second.error.kind is ErrorKind.TIMEOUT


@pytest.mark.parametrize("cut", [False, True])
async def test_an_answer_that_broke_off_is_no_clean_tree(
    tmp_path: Path, box: Box, cut: bool
) -> None:
    box.answer = [[0, "# branch.oid abc", "", True] if cut else [9, "", "", False]] * 3
    (found,) = await look(repository(tmp_path / "code"))
    assert found.value is None
    assert found.error is not None and found.error.kind is ErrorKind.BAD_ANSWER


async def test_nothing_of_the_repository_s_own_configuration_is_run(
    tmp_path: Path, box: Box
) -> None:
    repo = changed(repository(tmp_path / "code"))
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.editor"):
        git(repo, "config", key, f"touch {tmp_path}/ran-{key};")
    index = (repo / ".git/index").stat().st_mtime_ns
    assert (await look(repo))[0].value is not None
    assert not any(name.startswith("ran-") for name in os.listdir(tmp_path))  # noqa: PTH208
    assert (repo / ".git/index").stat().st_mtime_ns == index


async def test_what_changed_since_a_commit_is_asked_there(tmp_path: Path, box: Box) -> None:
    repo = repository(tmp_path / "code")
    base = git(repo, "rev-parse", "HEAD")
    changed(repo)
    now, place = await here(repo), Place(SSH, "box", str(repo))
    found = await changes_since(place, now, base, "launch 1")
    assert found.committed == ("note.md",) and found.untracked == ("new '$(x)'.py",)
    assert found.unpushed == ("note.md",) and found.trouble is None
    box.down = RemoteError(ErrorKind.REFUSED, "box: the connection broke off")
    lost = await changes_since(place, now, base, "launch 1")
    assert (lost.committed, lost.trouble) == (None, "box: the connection broke off")


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


@needs_sshd
async def test_over_a_real_ssh(real: Sshd) -> None:
    repo = changed(repository(real.home / "my code"))
    run = RunSpec(name="0", code=CodeSpec(repo=f"ssh://{real.host}/~/my code"))
    facet = (await Code(FixedClock(NOW)).observe([run]))["0"]
    assert facet.value is not None, facet.error
    assert facet.value.sealed_steps == (500,)
    without = {"sealed": None, "sealed_steps": ()}
    assert facet.value.model_copy(update=without) == await here(repo)
    place = Place(SSH, real.host, "~/my code")
    found = await changes_since(place, facet.value, git(repo, "rev-parse", "HEAD~"), "x")
    assert found.committed == ("note.md",)
