"""The lease as a ref: what only a git remote has (all places: ``test_lease.py``)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.guards import Claims, claim_checks
from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.place import place_of
from cockpit.model.records import Claim
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.git.repository import Repository
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import RefSeats, RootSeats, lease_ref
from cockpit.runtime.shell import Completed
from tests.records.lease.rigs import holder_of
from tests.records.remotes import LOGBOOK, git, hook, push_twice, second_place, shared, snapshot


def service(host: str = "here", pid: int = 1, deadline: float = 60.0) -> Lease:
    clock, holder = FixedClock(1773219300.0), holder_of(host, pid)
    return Lease(clock, RefSeats(deadline), lambda: f"op{pid}", holder, needed=False)


def run_of(folder: Path, name: str = "a.run") -> RunSpec:
    return RunSpec(name=name, records=RecordsSpec(logbook=str(folder / LOGBOOK)))


async def test_a_lease_disturbs_nothing(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    before, refs = snapshot(ada), git(ada, "for-each-ref")
    await service().take(run_of(ada), "x-i001", "launch", over=False)
    await service("there").survey(run_of(ada))
    assert snapshot(ada) == before and git(ada, "for-each-ref") == refs
    assert not (ada / ".git/FETCH_HEAD").exists()
    assert git(ada, "fetch", "-q") == "" and git(ada, "for-each-ref") == refs


@pytest.mark.parametrize("setting", ["receive.denyNonFastForwards", "receive.denyDeletes"])
async def test_a_strict_remote_serves_as_well(tmp_path: Path, setting: str) -> None:
    run = run_of(shared(tmp_path))
    git(tmp_path / "remote.git", "config", setting, "true")
    for number in range(1, 4):
        each = service()
        taken = await each.take(run, f"a.run-i00{number}", "launch", over=False)
        assert taken.level == "pass"
        await each.release(run)
    assert (await service().survey(run)).launch_id == "a.run-i003"


async def test_no_logbook_no_remote_no_answer_only_warn(tmp_path: Path) -> None:
    assert (await service().survey(RunSpec(name="x"))).level == "warn"
    ada = shared(tmp_path)
    held: list[object] = []  # a dropped writer closes its connection, which is an answer

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    git(ada, "remote", "set-url", "origin", f"git://127.0.0.1:{port}/x.git")
    begun = time.monotonic()
    hung = await service(deadline=0.7).take(run_of(ada), None, "stop", over=False)
    assert time.monotonic() - begun < 40 and hung.level == "warn" and "did not answer" in hung.text
    told = claim_checks("a.run", [Claim(level="pass", text="claimed under /out"), hung])
    assert [check.level.value for check in told] == ["pass", "warn"], "another guard holds"
    assert told[1].text == hung.text
    assert await service(deadline=0.7).still_mine(run_of(ada)) is None
    await service(deadline=0.7).release(run_of(ada))
    server.close()
    git(ada, "remote", "remove", "origin")
    none = await service().survey(run_of(ada))
    assert "no remote" in none.text and not none.unanswered


async def test_a_remote_that_refuses_says_why(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(tmp_path / "remote.git", "pre-receive", "echo no refs here; exit 1")
    claim = await service().take(run_of(ada), None, "stop", over=False)
    assert claim.level == "warn" and "no refs here" in claim.text


async def test_a_remote_that_refuses_stands_in_the_way_where_nothing_else_guards(
    tmp_path: Path,
) -> None:
    """The plan had said that no other cockpit holds the run, and nothing was taken."""
    run = run_of(shared(tmp_path)).model_copy(update={"output_root": place_of(str(tmp_path))})
    hook(tmp_path / "remote.git", "pre-receive", "echo no refs here; exit 1")
    root = Lease(SystemClock(), RootSeats(SystemClock()), lambda: "ada")
    both = Claims([root, service()])
    await both.survey(run)
    assert await both.take(run, None, "stop", over=False) is None
    alone = Claims([service()])
    assert [claim.level for claim in await alone.survey(run)] == ["pass"]
    why = await alone.take(run, None, "stop", over=False) or ""
    assert "no refs here" in why and "approving second-machine by name" in why
    assert [claim.level for claim in await alone.survey(run)] == ["warn"]
    assert await alone.take(run, None, "stop", over=False) is None, "the plan warned of it"


async def test_a_push_whose_answer_was_lost_counts_as_what_it_did(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    hook(tmp_path / "remote.git", "post-receive", "sleep 60")
    mine = service(deadline=8)
    claim = await mine.take(run, None, "stop", over=False)
    assert claim.level == "pass" and await mine.still_mine(run) is True


def two_places(folder: Path) -> tuple[RunSpec, Path]:
    """A logbook that is pushed to two places; returns its run, and the second one."""
    ada = shared(folder)
    second = second_place(folder)
    push_twice(ada)
    return run_of(ada), second


def lies_at(folder: Path, run: RunSpec) -> str:
    return git(folder, "log", "-1", "--format=%B", lease_ref(run.name), ok=False)


async def test_what_is_no_lease_at_one_of_two_places_is_left_alone(tmp_path: Path) -> None:
    """A newer version may have put it."""
    run, second = two_places(tmp_path)
    git(second, "update-ref", lease_ref(run.name), "main")
    before = lies_at(second, run)
    claim = await service().survey(run)
    assert claim.level == "block" and claim.final, claim
    assert (await service().take(run, None, "stop", over=True)).level == "block"
    assert lies_at(second, run) == before and lies_at(tmp_path / "remote.git", run) == ""


async def test_a_lease_whose_second_push_lost_its_answer_lies_at_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, second = two_places(tmp_path)
    plain, lost = Repository.network, list[str]()

    async def network(self: Repository, remote: str, *words: str, **more: Any) -> Completed:
        done = await plain(self, remote, *words, **more)
        if "push" in words and remote == str(second) and not lost:
            lost.append(remote)
            monkeypatch.setenv("GIT_COMMITTER_DATE", "2030-01-01 00:00")  # no commit as before
            return Completed(-9, b"", b"", timed_out=True)
        return done

    monkeypatch.setattr(Repository, "network", network)
    mine = service()
    assert (await mine.take(run, None, "stop", over=False)).level == "pass" and lost
    assert await mine.still_mine(run) is True
    here, there = lies_at(tmp_path / "remote.git", run), lies_at(second, run)
    assert here and here == there


async def test_a_lease_that_lies_at_one_of_two_places_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second place refuses it, and then the first one cannot be reached any more."""
    run, second = two_places(tmp_path)
    hook(second, "pre-receive", "echo no refs here; exit 1")
    plain, pushed = Repository.network, []

    async def network(self: Repository, remote: str, *words: str, **more: Any) -> Completed:
        if "push" in words and remote != str(second):
            pushed.append(words)
            if len(pushed) == 2:
                return Completed(-9, b"", b"", timed_out=True)
        return await plain(self, remote, *words, **more)

    monkeypatch.setattr(Repository, "network", network)
    mine = service()
    claim = await mine.take(run, None, "stop", over=False)
    assert claim.level == "warn" and "no refs here" in claim.text, claim
    assert await mine.still_mine(run) is not True


@pytest.mark.parametrize(
    "name", ["x", "a..b", "-x", "ends.lock", "sp ace\n~^:?*[\\", "日本", "a/b"]
)
async def test_any_name_of_a_run_gives_a_ref(tmp_path: Path, name: str) -> None:
    ada = shared(tmp_path)
    git(ada, "check-ref-format", lease_ref(name))
    assert (await service().take(run_of(ada, name), None, "stop", over=False)).level == "pass"
    other = await service("there").survey(run_of(ada, name))
    assert other.level == "block" and "\n" not in other.text
