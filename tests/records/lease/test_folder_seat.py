"""The claim under an output root: what only a folder has, on this machine and on an ssh host.

That one of many takes it is tested for all places (``test_lease.py``).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.retention.ways import FolderWays, RootError
from cockpit.hosts import notes
from cockpit.hosts.folders import read_claim
from cockpit.hosts.here import call
from cockpit.hosts.link import know_pythons
from cockpit.hosts.notes import machine_id
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import on_host
from cockpit.model.run import RunSpec
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import FolderSeat, RootSeats, Seat
from cockpit.runtime.shell import run_blocking
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.store.journal import Holder
from tests.machines import Machine
from tests.machines import machine as machine
from tests.records.lease.rigs import REPO
from tests.sshd import needs_sshd, reachable

ELSEWHERE = Holder(host="another-machine.example", pid=7)


HERE = Machine(None)


def run_at(root: Path | str, name: str = "toy", machine: Machine = HERE) -> RunSpec:
    where = str(root) if "://" in str(root) else machine.at(root)
    return RunSpec(name=name, output_root=where)


def guard(who: str = "ada", holder: Holder | None = None, do: Any = None) -> Lease:
    clock = FixedClock(1_800_000_000.0)

    async def seat(run: RunSpec) -> Seat:
        assert run.output_root is not None
        return FolderSeat(run.name, run.output_root, do)

    return Lease(clock, RootSeats(clock) if do is None else seat, lambda: who, holder)


def claim_file(root: Path) -> Path:
    return root / ".cockpit" / "claim.json"


async def test_where_it_cannot_be_put_it_warns_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    claim_file(tmp_path / "piped").parent.mkdir(parents=True)
    os.mkfifo(claim_file(tmp_path / "piped"))
    for root, why in (
        ("hdfs://cluster/x", "is not on this machine"),
        (tmp_path / "file" / "such", f"may not make it in {tmp_path / 'file'}"),
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "piped", "not a regular file"),
    ):
        claim = await guard().survey(run_at(root))
        assert claim.level == "warn" and why in claim.text
        assert (await guard().take(run_at(root), None, "stop", over=False)).level == "warn"
    assert (tmp_path / "file").is_file()
    deep = run_at(tmp_path / "out" / "my-run")
    assert (await guard().survey(deep)).level == "pass" and not (tmp_path / "out").exists()
    nowhere = await guard().survey(RunSpec(name="toy"))
    assert nowhere.level == "warn" and "not set" in nowhere.text


async def test_a_root_that_is_not_there_yet_is_made_by_taking(
    machine: Machine, tmp_path: Path
) -> None:
    run = run_at(tmp_path / "new", machine=machine)
    assert (await guard().survey(run)).level == "pass"
    assert not (tmp_path / "new").exists()
    assert (await guard().take(run, "toy-i001", "launch", over=False)).level == "pass"
    assert claim_file(tmp_path / "new").exists()


async def test_it_knows_the_highest_launch_id(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / notes.BELOW
    for name in ("toy-i002", "toy-i011", "toy-i100x", "other-i200"):
        notes.claim_launch(folder, name, {"state": notes.ENDED})
    notes.note_intent(folder, "toy-i012", {})
    assert (await guard().survey(run_at(tmp_path, machine=machine))).launch_id == "toy-i012"


async def test_who_holds_a_root_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    async def closed(host: str | None, what: str, function: str, **more: Any) -> Any:
        if function == "swap_claim":
            raise PermissionError(13, "Permission denied", str(tmp_path))
        return {**await call(host, what, function, **more), "closed": True}

    mine, run = guard(do=closed), run_at(tmp_path)
    for claim in (await mine.survey(run), await mine.take(run, None, "stop", over=False)):
        assert claim.level == "warn" and "cannot be written to" in claim.text
    await guard("bob", ELSEWHERE).take(run, "toy-i001", "relaunch", over=False)
    held = await mine.survey(run)
    assert held.level == "block" and "held by bob on another-machine.example" in held.text
    assert (await mine.take(run, None, "stop", over=True)).level == "warn", "it was approved"


async def test_a_claim_that_a_plan_had_promised_refuses_once(tmp_path: Path) -> None:
    async def full(host: str | None, what: str, function: str, **more: Any) -> Any:
        if function == "swap_claim":
            raise OSError(28, "No space left on device", str(tmp_path))
        return await call(host, what, function, **more)

    mine, run = guard(do=full), run_at(tmp_path)
    assert (await mine.take(run, None, "stop", over=False)).level == "warn"
    assert "No space left" in (await mine.survey(run)).text
    other = guard(do=full)
    assert (await other.survey(run)).level == "pass"
    refused = await other.take(run, None, "stop", over=False)
    assert refused.level == "block" and "approving second-machine by name" in refused.text
    assert (await other.take(run, None, "stop", over=False)).level == "warn"


@pytest.mark.parametrize(
    ("state", "machine", "told"),
    [
        ("running", "another", True),
        ("starting", "another", True),
        ("ended", "another", False),
        ("running", None, False),
    ],
)
async def test_what_another_machine_runs_under_the_same_root_is_told(
    tmp_path: Path, state: str, machine: str | None, told: bool
) -> None:
    folder = tmp_path / notes.BELOW
    note = {"state": state, "machine": machine, "host": "box-a"}
    notes.claim_launch(folder, "toy-i003", note)
    seen = await guard().survey(run_at(tmp_path))
    assert (seen.level, seen.launch_id) == ("pass", "toy-i003")
    assert seen.launched_by == ("box-a (by its note)" if told and machine_id() else None)


async def test_what_this_machine_runs_is_not_elsewhere(tmp_path: Path) -> None:
    note = {"state": "running", "machine": machine_id(), "host": "here"}
    notes.claim_launch(tmp_path / notes.BELOW, "toy-i003", note)
    assert (await guard().survey(run_at(tmp_path))).launched_by is None


async def test_the_host_itself_sees_the_same_claim(machine: Machine, tmp_path: Path) -> None:
    mine, there = guard(), guard("bob")
    run, local = run_at(tmp_path / "out a", machine=machine), run_at(tmp_path / "out a")
    assert (await mine.survey(run)).level == "pass" and not (tmp_path / "out a").exists()
    assert (await mine.take(run, "toy-i001", "relaunch", over=False)).level == "pass"
    assert "held by ada on" in (await there.survey(local)).text
    await mine.release(run)
    assert (await there.take(local, None, "stop", over=False)).level == "pass"
    assert "held by bob on" in (await guard().take(run, None, "stop", over=False)).text
    await there.release(local)
    names = [path.name for path in (tmp_path / "out a" / ".cockpit").iterdir()]
    assert names == ["claim.lock"]


async def test_a_launch_id_that_is_noted_meanwhile_is_not_given_out_again(
    machine: Machine, tmp_path: Path
) -> None:
    """Another may have taken the claim, launched, and given it back between a look and a take."""
    run, noted = run_at(tmp_path, machine=machine), tmp_path / notes.BELOW
    noted.mkdir(parents=True)

    async def launched(host: str | None, what: str, function: str, **more: Any) -> Any:
        if function == "swap_claim":
            (noted / "toy-i001").write_text("")
        return await call(host, what, function, **more)

    claim = await guard(do=launched).take(run, "toy-i001", "relaunch", over=False)
    assert claim.level == "block" and not claim_file(tmp_path).exists()
    claim = await guard().take(run, "toy-i001", "relaunch", over=False)
    assert "given out" in claim.text and claim.launch_id == "toy-i001"


async def test_what_comes_late_replaces_nobodys_claim(machine: Machine, tmp_path: Path) -> None:
    late: list[dict[str, Any]] = []
    run = run_at(tmp_path, machine=machine)

    async def cut(host: str | None, what: str, function: str, **more: Any) -> Any:
        if function != "swap_claim" or late:
            return await call(host, what, function, **more)
        late.append(more)
        raise RemoteError(ErrorKind.TIMEOUT, f"{host}: no answer", sent=True)

    async def comes() -> None:
        await call(machine.host, "the claim", "swap_claim", **late[0])

    mine, other = guard(do=cut), guard("bob", ELSEWHERE)
    assert (await mine.take(run, "toy-i001", "relaunch", over=False)).level == "pass"
    await mine.release(run)
    assert (await other.take(run, None, "stop", over=False)).level == "pass"
    await comes()
    assert await other.still_mine(run) is True
    await other.release(run)
    await comes()
    assert (await other.take(run, None, "stop", over=False)).level == "block"
    assert (await mine.take(run, None, "stop", over=False)).level == "pass", "it was ours"


async def test_a_host_that_is_away_warns() -> None:
    away = RunSpec(name="toy", output_root=on_host("no-such.invalid", "/x"))
    claim = await guard().survey(away)
    assert claim.level == "warn" and claim.unanswered


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("hidden", [".cockpit", ".cockpit/launches", ".cockpit/claim.json"])
def test_what_another_user_keeps_closed_is_not_free(hidden: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cockpit-test-") as name:
        root = Path(name)
        root.chmod(0o755)
        (root / ".cockpit" / "launches").mkdir(parents=True)
        (root / ".cockpit" / "claim.json").write_text("{}")
        (root / hidden).chmod(0)
        code = (
            "import os, sys; from cockpit.hosts.folders import read_claim;"
            "os.setuid(65534); print(read_claim(sys.argv[1], 'toy'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, check=True, cwd=REPO
        )
        assert "'unreadable': '.cockpit" in done.stdout
        assert "unreadable" not in read_claim(name, "toy"), "root may read it"


OLDER = """\
[ ! -L {root}/.cockpit ] || exit 74
mkdir -p -- {root}/.cockpit && cd -- {root}/.cockpit || exit 74
c=claim.json; x={expected}; n={nonce}
exec 9<>claim.lock || exit 74
i=0; until flock -n 9; do
  i=$((i + 1)); [ $i -lt {patience} ] || {{ echo busy; exit; }}; sleep 0.1
done
{then}
has() {{ grep -qF "\\"nonce\\": \\"$1\\"" "$2" 2>/dev/null; }}
if has "$n" $c; then echo mine; exit; fi
if [ -z "$x" ] && [ -e $c ]; then echo changed; exit; fi
if [ -n "$x" ]; then
  has "$x" $c || {{ echo changed; exit; }}
  mv -f $c ".claim.$x.old" || exit 74
  has "$x" ".claim.$x.old" || {{ ln ".claim.$x.old" $c; echo changed; exit; }}
fi
trap 'rm -f ".claim.$n.new" ".claim.$x.old"' EXIT
[ -n "$n" ] || {{ echo gone; exit; }}
printf '%s' {text} >".claim.$n.new" || exit 74
if ln ".claim.$n.new" $c 2>/dev/null; then echo mine; else echo changed; fi"""
"""How cockpits have swapped a claim on a host that had no agent: they are still in use."""


def older(root: Path, expected: str, nonce: str, then: str = ":", patience: int = 50) -> str:
    holder = ELSEWHERE.model_dump()
    claim = {"holder": holder, "operator": "bob", "what": "stop", "at": 1.0, "nonce": nonce}
    script = OLDER.format(
        root=quote(str(root)), expected=quote(expected), nonce=quote(nonce), then=then,
        text=quote(json.dumps(claim, indent=1) + "\n"), patience=patience,
    )  # fmt: skip
    return run_blocking(["sh", "-c", script], deadline=20.0).text.strip()


async def test_an_older_cockpit_and_this_one_exclude_each_other(
    machine: Machine, tmp_path: Path
) -> None:
    run, mine, nonce = run_at(tmp_path, machine=machine), guard(), "b" * 32
    assert older(tmp_path, "", nonce) == "mine"
    assert "held by bob on" in (await mine.survey(run)).text
    assert (await mine.take(run, None, "stop", over=False)).level == "block"
    assert older(tmp_path, nonce, "") == "gone"
    assert (await mine.take(run, None, "stop", over=False)).level == "pass"
    assert older(tmp_path, "", "c" * 32) == "changed"
    assert await mine.still_mine(run) is True
    await mine.release(run)
    assert older(tmp_path, "", "c" * 32) == "mine"


async def test_an_older_cockpit_and_this_one_have_one_lock(tmp_path: Path) -> None:
    """While one changes a claim, the other waits: it never sees the moment in between."""
    run, gate = run_at(tmp_path), tmp_path / "gate"
    os.mkfifo(gate)
    then = f"read line <{quote(str(gate))}"
    slow = asyncio.create_task(asyncio.to_thread(older, tmp_path, "", "b" * 32, then))
    with await asyncio.to_thread(
        gate.open, "w"
    ) as opened:  # the older one holds the lock from now on
        take = asyncio.create_task(guard().take(run, None, "stop", over=False))
        await asyncio.sleep(0.2)
        assert not take.done() and not claim_file(tmp_path).exists()
        opened.write("go\n")
        opened.flush()
        claim, said = await take, await slow
    assert (said, claim.level) == ("mine", "block")
    with (tmp_path / ".cockpit" / "claim.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert older(tmp_path, "b" * 32, "", patience=2) == "busy"


async def test_of_an_older_cockpit_and_this_one_exactly_one_wins(
    machine: Machine, tmp_path: Path
) -> None:
    for number in range(10):
        root, mine = tmp_path / str(number), guard("ada", ELSEWHERE)
        root.mkdir()
        run = run_at(root, machine=machine)
        claim, said = await asyncio.gather(
            mine.take(run, None, "stop", over=False),
            asyncio.to_thread(older, root, "", f"{number:032}"),
        )
        assert (claim.level == "pass") != (said == "mine"), (claim, said)
        assert await mine.still_mine(run) is (claim.level == "pass")


@needs_sshd
async def test_a_host_without_python_is_never_acted_on(tmp_path: Path) -> None:
    with reachable() as server:
        know_pythons({server.host: "no-such-python"})
        away = Machine(server.host)
        claim = await guard().take(run_at(tmp_path, machine=away), None, "stop", over=False)
        ways = FolderWays(away.host, [away.at(tmp_path)])
        access = await ways.access(away.at(tmp_path), delete=True)
        with pytest.raises(RootError, match="never acted on"):
            await ways.identity(str(away.at(tmp_path / "step-1")), ())
        know_pythons({})
    assert claim.level == "block" and not claim_file(tmp_path).exists()
    for text in (claim.text, access.trouble or ""):
        assert "it has no no-such-python: install it" in text and "never acted on" in text
