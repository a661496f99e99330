from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cockpit.actions.core.guards import claim_checks
from cockpit.model.clock import FixedClock
from cockpit.model.records import Claim
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.lease.state import lease_ref
from cockpit.records.lease.swapped import LeaseRef
from cockpit.store.journal import Holder
from tests.records.remotes import LOGBOOK, clone, git, hook, shared, snapshot

DEAD = {77}


def service(host: str = "here", pid: int = 1, deadline: float = 60.0) -> LeaseRef:
    holder = Holder(host=host, pid=pid, boot=f"boot-{host}", ticks=5)

    def alive(other: Holder) -> bool | None:
        return None if other.host != host else other.pid not in DEAD

    return LeaseRef(FixedClock(1773219300.0), holder, lambda: f"op{pid}", alive, deadline)


def run_of(folder: Path, name: str = "a.run") -> RunSpec:
    return RunSpec(name=name, records=RecordsSpec(logbook=str(folder / LOGBOOK)))


async def test_a_lease_is_taken_seen_elsewhere_and_given_back(tmp_path: Path) -> None:
    ada = run_of(shared(tmp_path))
    bob = run_of(clone(tmp_path, "bob"))
    mine, other = service(), service("there", 9)
    assert (await mine.survey(ada)).level == "pass"
    assert (await mine.take(ada, "a.run-i003", "relaunch", over=False)).level == "pass"
    assert await mine.still_mine(ada) is True and (await mine.survey(ada)).level == "pass"
    seen = await other.survey(bob)
    assert seen.level == "block" and seen.launch_id == "a.run-i003"
    assert seen.text == (
        "held by op1 on here (pid 1) since 2026-03-11T08:55:00.000Z for relaunch of a.run-i003"
    )
    assert (await other.take(bob, "a.run-i004", "relaunch", over=False)).level == "block"
    assert await other.still_mine(bob) is False
    await other.release(bob)
    await other.clear(bob)
    assert await mine.still_mine(ada) is True
    await mine.release(ada)
    free = await other.survey(bob)
    assert (free.level, free.launch_id) == ("pass", "a.run-i003")
    assert (await other.take(bob, None, "stop", over=False)).launch_id == "a.run-i003"


async def test_a_lease_disturbs_nothing(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    before, refs = snapshot(ada), git(ada, "for-each-ref")
    await service().take(run_of(ada), "x-i001", "launch", over=False)
    await service("there").survey(run_of(ada))
    assert snapshot(ada) == before and git(ada, "for-each-ref") == refs
    assert not (ada / ".git/FETCH_HEAD").exists()
    assert git(ada, "fetch", "-q") == "" and git(ada, "for-each-ref") == refs


async def test_what_a_dead_process_of_this_machine_left_is_free(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    await service(pid=77).take(run, "x-i001", "launch", over=False)
    assert (await service().survey(run)).level == "pass"
    await service("there").clear(run)
    assert await service(pid=77).still_mine(run) is True
    await service().clear(run)
    assert await service(pid=77).still_mine(run) is False
    await service(pid=77).take(run, "x-i002", "launch", over=False)
    assert (await service().take(run, "x-i003", "launch", over=False)).level == "pass"


async def test_another_machine_of_the_same_name_is_not_taken_for_this_one(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    await service(pid=77).take(run, None, "launch", over=False)
    twin = LeaseRef(
        FixedClock(0.0), Holder(host="here", pid=3, boot="other"), lambda: "eve", lambda held: False
    )
    assert (await twin.survey(run)).level == "block"
    await twin.clear(run)
    assert await service(pid=77).still_mine(run) is True


async def test_over_replaces_only_what_was_seen(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    mine, second, third = service(), service("there", 9), service("third", 5)
    await mine.take(run, None, "stop", over=False)
    await second.survey(run)
    await third.take(run, None, "stop", over=True)
    assert (await second.take(run, None, "stop", over=True)).level == "block"
    await second.survey(run)
    assert (await second.take(run, None, "stop", over=True)).level == "pass"
    assert await mine.still_mine(run) is False and await third.still_mine(run) is False


async def test_a_holder_that_lives_on_this_machine_is_never_taken_over(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    ada, bob = service(pid=7), service(pid=8)
    await ada.take(run, None, "stop", over=False)
    held = await bob.survey(run)
    assert held.living and "it lives on this machine" in held.text
    assert (await bob.take(run, None, "stop", over=True)).level == "block"
    assert await ada.still_mine(run) is True


@pytest.mark.parametrize("setting", ["receive.denyNonFastForwards", "receive.denyDeletes"])
async def test_a_strict_remote_serves_as_well(tmp_path: Path, setting: str) -> None:
    run = run_of(shared(tmp_path))
    git(tmp_path / "remote.git", "config", setting, "true")
    for number in range(3):
        taken = await service().take(run, f"x-i00{number}", "launch", over=False)
        assert taken.level == "pass"
        await service().release(run)
    assert (await service().survey(run)).launch_id == "x-i002"


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


async def test_a_push_whose_answer_was_lost_counts_as_what_it_did(tmp_path: Path) -> None:
    run = run_of(shared(tmp_path))
    hook(tmp_path / "remote.git", "post-receive", "sleep 60")
    claim = await service(deadline=8).take(run, None, "stop", over=False)
    assert claim.level == "pass" and await service().still_mine(run) is True


@pytest.mark.parametrize(
    "name", ["x", "a..b", "-x", "ends.lock", "sp ace\n~^:?*[\\", "日本", "a/b"]
)
async def test_any_name_of_a_run_gives_a_ref(tmp_path: Path, name: str) -> None:
    ada = shared(tmp_path)
    git(ada, "check-ref-format", lease_ref(name))
    assert (await service().take(run_of(ada, name), None, "stop", over=False)).level == "pass"
    other = await service("there").survey(run_of(ada, name))
    assert other.level == "block" and "\n" not in other.text


async def test_something_else_in_the_ref_blocks(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "push", "-q", "origin", f"HEAD:{lease_ref('a.run')}")
    assert (await service().survey(run_of(ada))).level == "block"


RACER = """
import asyncio, sys
from cockpit.model.clock import SystemClock
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.lease.swapped import LeaseRef
from cockpit.store.journal import Holder
async def go():
    holder = Holder(host=sys.argv[1], pid=1, boot=sys.argv[1], ticks=1)
    lease = LeaseRef(SystemClock(), holder, lambda: sys.argv[1], lambda other: None, 60.0)
    records = RecordsSpec(logbook=sys.argv[2])
    for line in sys.stdin:
        claim = await lease.take(RunSpec(name=line.strip(), records=records), None, "x", over=False)
        print(claim.level, flush=True)
asyncio.run(go())
"""


@pytest.mark.slow
def test_two_racing_machines_never_both_win(tmp_path: Path) -> None:
    folders = [shared(tmp_path), clone(tmp_path, "bob"), clone(tmp_path, "eve")]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, folder.name, str(folder / LOGBOOK)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for folder in folders
    ]  # fmt: skip
    for round_ in range(25):
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"race-{round_}\n")
            racer.stdin.flush()
        levels = [racer.stdout.readline().strip() for racer in racers if racer.stdout]
        assert sorted(levels) == ["block", "block", "pass"], (round_, levels)
    for racer in racers:
        racer.communicate(timeout=60)


async def test_a_launch_id_that_another_machine_was_given_is_not_given_again(
    tmp_path: Path,
) -> None:
    """A plan that was shown before the other machine launched must not go ahead after it."""
    ada, bob = run_of(shared(tmp_path)), run_of(clone(tmp_path, "bob"))
    mine, other = service(), service("there", 9)
    await other.take(bob, "a.run-i003", "relaunch", over=False)
    await other.release(bob)
    late = await mine.take(ada, "a.run-i003", "relaunch", over=False)
    assert late.level == "block" and "given out" in late.text
    assert (await mine.take(ada, "a.run-i004", "relaunch", over=False)).level == "pass"
    assert (await mine.take(ada, "a.run-i004", "relaunch", over=False)).level == "pass"


async def test_who_launched_is_remembered_and_a_launch_id_that_was_not_used_is_not(
    tmp_path: Path,
) -> None:
    ada, bob = run_of(shared(tmp_path)), run_of(clone(tmp_path, "bob"))
    mine, other = service(), service("there", 9)
    await other.take(bob, "a.run-i003", "relaunch", over=False)
    await other.release(bob)
    await mine.take(ada, "a.run-i004", "relaunch", over=False)
    await mine.release(ada, used=False)
    seen = await mine.survey(ada)
    assert (seen.launch_id, seen.launched_by) == ("a.run-i003", "there, pid 9")
    assert (await other.survey(bob)).launched_by is None
    await mine.take(ada, None, "stop", over=False)
    await mine.release(ada)
    assert (await mine.survey(ada)).launched_by == "there, pid 9"
