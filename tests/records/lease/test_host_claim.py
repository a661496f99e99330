"""A claim on a real ssh host: one holder at a time, whoever takes it and whatever gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import on_host
from cockpit.model.run import RunSpec
from cockpit.records.lease.host_claim import HostClaim
from cockpit.records.lease.root_claim import RootClaim
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.store.journal import Holder
from cockpit.store.ownership import this_holder
from tests.sshd import Sshd, needs_sshd, reachable

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with reachable() as found:
        yield found


@pytest.fixture
def run(server: Sshd, tmp_path: Path) -> RunSpec:
    return RunSpec(name="toy", output_root=on_host(server.host, str(tmp_path / "out a")))


def elsewhere() -> Holder:
    """Return a holder of another machine, of which nothing is known from here."""
    return this_holder().model_copy(update={"host": "other", "machine": "f" * 32, "boot": "b"})


def guard(who: str = "ada", **more: Any) -> HostClaim:
    return HostClaim(SystemClock(), lambda: who, **more)


async def test_it_is_free_taken_given_back_and_seen_by_the_host_itself(
    run: RunSpec, tmp_path: Path
) -> None:
    mine, root = guard(), tmp_path / "out a"
    assert "not there yet" in (await mine.survey(run)).text
    assert (await mine.take(run, "toy-i001", "relaunch", over=False)).level == "pass"
    assert await mine.still_mine(run) is True and (await mine.survey(run)).level == "pass"
    there = RootClaim(SystemClock(), lambda: "bob")
    local = run.model_copy(update={"output_root": on_host(None, str(root))})
    claim = await there.survey(local)
    assert claim.level == "block" and "relaunch by ada (" in claim.text
    await mine.release(run)
    assert (await there.take(local, None, "stop", over=False)).level == "pass"
    claim = await guard().take(run, None, "stop", over=False)
    assert claim.level == "block" and "stop by bob (" in claim.text
    assert await mine.still_mine(run) is None
    await there.release(local)
    assert [path.name for path in (root / ".cockpit").iterdir()] == ["claim.lock"]


async def test_another_machine_blocks_until_somebody_takes_over(
    run: RunSpec, tmp_path: Path
) -> None:
    other, mine = guard("bob", holder=elsewhere), guard()
    await other.take(run, "toy-i002", "relaunch", over=False)
    claim = await mine.take(run, "toy-i003", "relaunch", over=False)
    assert claim.level == "block" and "cannot tell from here whether it still runs" in claim.text
    await mine.clear(run)
    assert (await mine.survey(run)).level == "block"
    assert (await mine.take(run, "toy-i003", "relaunch", over=True)).level == "pass"
    assert await other.still_mine(run) is False
    await other.release(run)
    assert await mine.still_mine(run) is True
    await mine.release(run)
    noted = tmp_path / "out a" / ".cockpit" / "launches"
    noted.mkdir()
    for name in ("toy-i007", "toy-i009.intent", "toyish-i011"):
        (noted / name).write_text("")
    claim = await mine.take(run, "toy-i009", "relaunch", over=False)
    assert claim.level == "block" and "given out" in claim.text and claim.launch_id == "toy-i009"


async def test_what_a_dead_process_left_is_free_and_can_be_cleared(run: RunSpec) -> None:
    dead = this_holder().model_copy(update={"pid": 2**22 + 5, "started_at": 1.0, "ticks": 1})
    await guard(holder=lambda: dead).take(run, None, "stop", over=False)
    assert (await guard().survey(run)).level == "pass"
    await guard().clear(run)
    assert (await guard().survey(run)).text.endswith("is free")


async def test_of_many_takers_one_wins_every_time(run: RunSpec) -> None:
    for number in range(1, 4):
        guards = [guard(str(each), holder=elsewhere) for each in range(5)]
        takes = (each.take(run, f"toy-i{number:03d}", "relaunch", over=False) for each in guards)
        won = [claim.level for claim in await asyncio.gather(*takes)]
        assert sorted(won) == ["block"] * 4 + ["pass"]
        assert [await each.still_mine(run) for each in guards].count(True) == 1
        for each in guards:
            await each.release(run)


@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_that_was_lost_is_read_back(run: RunSpec, done: bool) -> None:
    late: list[str] = []

    async def cut(host: str | None, script: str, **more: Any) -> Completed:
        if "claim.lock" not in script or late:
            return await run_script(host, script, **more)
        late.append(script)
        if done:
            await run_script(host, script, **more)
        raise RemoteError(ErrorKind.TIMEOUT, f"{host}: no answer", sent=True)

    mine, other = guard(send=cut), guard("bob", holder=elsewhere)
    claim = await mine.take(run, "toy-i001", "relaunch", over=False)
    assert claim.level == ("pass" if done else "block"), claim
    if not done:
        assert (await other.take(run, None, "stop", over=False)).level == "pass"
        await run_script(run.output_root.host, late[0], deadline=20.0)  # type: ignore[union-attr]
        assert await other.still_mine(run) is True, "what comes late replaces nobody's claim"
        await other.release(run)
        await run_script(run.output_root.host, late[0], deadline=20.0)  # type: ignore[union-attr]
        assert (await mine.take(run, None, "stop", over=False)).level == "pass"


async def test_a_strangers_file_blocks_and_a_host_that_is_away_warns(
    run: RunSpec, tmp_path: Path
) -> None:
    (tmp_path / "out a" / ".cockpit").mkdir(parents=True)
    (tmp_path / "out a" / ".cockpit" / "claim.json").write_text("[]")
    claim = await guard().take(run, None, "stop", over=True)
    assert claim.level == "block" and "is no cockpit's claim" in claim.text
    away = run.model_copy(update={"output_root": on_host("no-such.invalid", "/x")})
    claim = await guard().survey(away)
    assert claim.level == "warn" and claim.unanswered


async def test_what_another_user_keeps_closed_is_not_free(run: RunSpec, tmp_path: Path) -> None:
    """The tests may run as root, who may do everything: the host's shell says what it sees."""
    root = tmp_path / "out a"
    (root / ".cockpit" / "launches").mkdir(parents=True)
    (root / ".cockpit" / "claim.json").write_text("{}")

    async def another(host: str | None, script: str, **more: Any) -> Completed:
        assert "[ -r $f ]" in script
        return await run_script(host, script.replace("[ -r $f ]", f"[ $f != {hidden} ]"), **more)

    for hidden in (".cockpit", ".cockpit/launches", ".cockpit/claim.json"):
        claim = await guard(send=another).survey(run)
        assert claim.level == "warn" and f"{hidden} there" in claim.text, claim
