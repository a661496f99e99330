"""The claim under an output root: taken by one of many, freed by nobody's death but its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher import notes
from cockpit.platforms.local.launcher.notes import machine_id
from cockpit.records.lease.holder import this_holder
from cockpit.records.lease.root_claim import RootClaim
from cockpit.store.journal import Holder

REPO = Path(__file__).resolve().parents[3]
ELSEWHERE = Holder(host="another-machine.example", pid=7)


def run_at(root: Path | str, name: str = "toy") -> RunSpec:
    return RunSpec(name=name, output_root=str(root))


def guard(who: str = "ada", holder: Holder | None = None) -> RootClaim:
    clock = FixedClock(1_800_000_000.0)
    return RootClaim(clock, lambda: who, (lambda: holder) if holder else this_holder)


def claim_file(root: Path) -> Path:
    return root / ".cockpit" / "claim.json"


def dead() -> Holder:
    """Return a process of this machine that lived and lives no more."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    process.communicate()
    return this_holder().model_copy(update={"pid": process.pid, "ticks": ticks})


async def test_it_is_free_taken_and_given_back(tmp_path: Path) -> None:
    run, one, two = run_at(tmp_path), guard(), guard("bob")
    assert (await one.survey(run)).level == "pass"
    assert not claim_file(tmp_path).parent.exists()
    taken = await one.take(run, "toy-i001", "relaunch", over=False)
    assert (taken.level, taken.launch_id) == ("pass", "toy-i001")
    assert await one.still_mine(run) is True
    for claim in (await two.survey(run), await two.take(run, None, "stop", over=False)):
        assert claim.level == "block"
        assert "relaunch by ada (" in claim.text and "since 2027-01-15 08:00:00Z" in claim.text
    assert (await one.survey(run)).level == "pass"
    await two.release(run)
    assert await one.still_mine(run) is True
    await one.release(run)
    assert not claim_file(tmp_path).exists()
    assert (await two.take(run, None, "stop", over=False)).level == "pass"
    assert await one.still_mine(run) is None


async def test_what_a_dead_process_left_is_free_and_can_be_cleared(tmp_path: Path) -> None:
    run, gone = run_at(tmp_path), dead()
    await guard("ada", gone).take(run, "toy-i001", "stop", over=False)
    assert (await guard().survey(run)).level == "pass"
    assert (await guard().take(run, "toy-i002", "stop", over=False)).level == "pass"
    claim_file(tmp_path).unlink()
    await guard("ada", gone).take(run, "toy-i001", "stop", over=False)
    await guard().clear(run)
    assert not claim_file(tmp_path).exists()


async def test_another_machine_blocks_until_somebody_takes_over(tmp_path: Path) -> None:
    run, far, mine = run_at(tmp_path), guard("bob", ELSEWHERE), guard()
    await far.take(run, "toy-i001", "relaunch", over=False)
    held = await mine.survey(run)
    assert held.level == "block" and "another-machine.example" in (held.holder or "")
    assert "cannot tell from here whether it still runs" in held.text
    await mine.clear(run)
    assert (await mine.take(run, None, "stop", over=False)).level == "block"
    assert (await mine.take(run, None, "stop", over=True)).level == "pass"
    assert await far.still_mine(run) is False
    await far.release(run)
    assert await mine.still_mine(run) is True


async def test_a_holder_that_lives_here_is_never_taken_over(tmp_path: Path) -> None:
    run, ada = run_at(tmp_path), guard("ada")
    await ada.take(run, "toy-i001", "relaunch", over=False)
    mine = guard("bob")
    held = await mine.survey(run)
    assert held.living and "it lives on this machine" in held.text
    assert (await mine.take(run, None, "stop", over=True)).level == "block"
    assert await ada.still_mine(run) is True


async def test_only_the_claim_that_was_surveyed_is_taken_over(tmp_path: Path) -> None:
    run, far, mine = run_at(tmp_path), guard("bob", ELSEWHERE), guard()
    await far.take(run, "toy-i001", "relaunch", over=False)
    await mine.survey(run)
    await far.release(run)
    third = guard("eve", ELSEWHERE)
    await third.take(run, "toy-i002", "relaunch", over=False)
    assert (await mine.take(run, None, "stop", over=True)).level == "block"
    assert await third.still_mine(run) is True


async def test_where_it_cannot_be_put_it_warns_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for root, why in (
        ("gs://bucket/x", "not on this machine"),
        (tmp_path / "file" / "such", f"may not make it in {tmp_path / 'file'}"),
        (tmp_path / "file", "is not a folder"),
    ):
        claim = await guard().survey(run_at(root))
        assert claim.level == "warn" and why in claim.text
        assert (await guard().take(run_at(root), None, "stop", over=False)).level == "warn"
    assert (tmp_path / "file").is_file()
    deep = run_at(tmp_path / "out" / "my-run")
    assert (await guard().survey(deep)).level == "pass" and not (tmp_path / "out").exists()
    nowhere = await guard().survey(RunSpec(name="toy"))
    assert nowhere.level == "warn" and "not set" in nowhere.text


async def test_a_root_that_is_not_there_yet_is_made_by_taking(tmp_path: Path) -> None:
    run = run_at(tmp_path / "new")
    assert (await guard().survey(run)).level == "pass"
    assert not (tmp_path / "new").exists()
    assert (await guard().take(run, "toy-i001", "launch", over=False)).level == "pass"
    assert claim_file(tmp_path / "new").exists()


async def test_it_knows_the_highest_launch_id(tmp_path: Path) -> None:
    folder = tmp_path / notes.BELOW
    for name in ("toy-i002", "toy-i011", "toy-i100x", "other-i200"):
        notes.claim_launch(folder, name, {"state": notes.ENDED})
    notes.note_intent(folder, "toy-i012", {})
    assert (await guard().survey(run_at(tmp_path))).launch_id == "toy-i012"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"holder": 1}', "\0\xff"])
async def test_a_claim_that_is_none_of_ours_blocks(tmp_path: Path, text: str) -> None:
    claim_file(tmp_path).parent.mkdir()
    claim_file(tmp_path).write_text(text, encoding="latin-1")
    run = run_at(tmp_path)
    for claim in (await guard().survey(run), await guard().take(run, None, "stop", over=False)):
        assert claim.level == "block" and "is no cockpit's claim" in claim.text
    assert claim_file(tmp_path).read_text(encoding="latin-1") == text


async def test_hostile_words_are_made_safe(tmp_path: Path) -> None:
    await guard("\x1b[31m<b>\n", ELSEWHERE).take(run_at(tmp_path), None, "x\ny", over=False)
    held = await guard().survey(run_at(tmp_path))
    assert "\x1b" not in held.text and "\n" not in held.text


RACER = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {repo!r})
from cockpit.records.lease.root_claim import RootClaim
from cockpit.model.clock import SystemClock
from cockpit.model.run import RunSpec
mine = RootClaim(SystemClock(), lambda: "ada")
print("ready", flush=True)
for line in sys.stdin:
    run = RunSpec(name="toy", output_root=line.strip())
    claim = asyncio.run(mine.take(run, None, "stop", over=False))
    print(claim.level, asyncio.run(mine.still_mine(run)), claim.text, flush=True)
"""


def racer() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RACER.format(repo=str(REPO))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO,
    )  # fmt: skip


@pytest.mark.slow
def test_of_many_takers_one_wins_hundreds_of_times(tmp_path: Path) -> None:
    """Each other time a dead process's claim lies there, which all of them may replace."""
    racers = [racer() for _ in range(3)]
    gone = dead()
    stale = {
        "holder": gone.model_dump(), "operator": "bob", "what": "stop", "at": 1.0, "nonce": "n" * 32
    }  # fmt: skip
    try:
        assert all(each.stdout and each.stdout.readline() == "ready\n" for each in racers)
        for round_ in range(300):
            root = tmp_path / str(round_)
            (root / ".cockpit").mkdir(parents=True)
            if round_ % 2:
                claim_file(root).write_text(json.dumps({**stale, "nonce": f"{round_:032}"}))
            for each in racers:
                assert each.stdin is not None
                each.stdin.write(f"{root}\n")
                each.stdin.flush()
            said = [each.stdout.readline() for each in racers if each.stdout is not None]
            assert sorted(line.split()[0] for line in said) == ["block", "block", "pass"], said
            assert [line.split()[1] for line in said if line.startswith("pass")] == ["True"]
    finally:
        for each in racers:
            each.kill()
            each.communicate()


def test_a_taker_killed_at_any_time_leaves_nothing_that_blocks(tmp_path: Path) -> None:
    for round_ in range(5):
        root = tmp_path / str(round_)
        root.mkdir()
        each = racer()
        assert each.stdin is not None and each.stdout is not None
        each.stdout.readline()
        each.stdin.write(f"{root}\n")
        each.stdin.flush()
        if round_ % 2:
            each.stdout.readline()
        os.kill(each.pid, signal.SIGKILL)
        each.communicate()
        mine = RootClaim(SystemClock())
        claim = asyncio.run(mine.take(run_at(root), None, "stop", over=False))
        assert claim.level == "pass", claim


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
