"""One lease, wherever it lies: one of many takes it, and nobody's death frees it but its holder's.

A file here and on an ssh host, an object of two stores, a ref on a git remote.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.moto import address as address
from tests.moto import made_bucket, needs_moto
from tests.records.lease.rigs import BUCKET, DEAD, Rig, dead, folder_rig, racers, ref_rig
from tests.sources.checkpoints.store_server import ObjectStore, serving, variables
from tests.sshd import needs_sshd, reachable

FAULTY = ["here", pytest.param("host", marks=needs_sshd), "s3", "gs", "ref"]
"""The places of which answers can be lost."""
ALL = [*FAULTY, "ref, two places", pytest.param("moto", marks=needs_moto)]
faulty = pytest.mark.parametrize("rig", FAULTY, indirect=True)
racing = contextmanager(racers)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with reachable() as found:
        yield found.host


@pytest.fixture(params=ALL)
def rig(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rig]:
    kind = request.param
    if kind.startswith("ref"):
        yield ref_rig(tmp_path, twice=kind != "ref")
    elif kind == "host":
        yield folder_rig(kind, tmp_path, request.getfixturevalue("host"))
    elif kind == "here":
        yield folder_rig(kind, tmp_path)
    else:
        pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
        if kind == "moto":
            name = made_bucket(request.getfixturevalue("address"), monkeypatch, tmp_path)
            yield Rig(kind, f"s3://{name}/runs")
            return
        with serving(ObjectStore({BUCKET: {}})) as store:
            monkeypatch.setenv("HOME", str(tmp_path))
            for name, value in variables(store.url).items():
                monkeypatch.setenv(name, value)
            yield Rig(kind, f"{kind}://{BUCKET}/runs", store=store)


async def test_it_is_taken_seen_elsewhere_and_given_back(rig: Rig) -> None:
    run, theirs = rig.run(), rig.run(clone_of="bob")
    mine, other = rig.lease(), rig.lease("there", 9)
    assert (await mine.survey(run)).level == "pass"
    taken = await mine.take(run, "toy-i003", "relaunch", over=False)
    assert (taken.level, taken.launch_id) == ("pass", "toy-i003") and taken.text.endswith(
        " is ours"
    )
    assert await mine.still_mine(run) is True and (await mine.survey(run)).level == "pass"
    for seen in (
        await other.survey(theirs),
        await other.take(theirs, "toy-i004", "stop", over=False),
    ):
        assert (seen.level, seen.launch_id, seen.final) == ("block", "toy-i003", False)
        assert seen.holder == "op1 on here, pid 1"
        assert (
            " is held by op1 on here (pid 1) since 2026-03-11T08:55:00.000Z for relaunch of "
            "toy-i003; cannot tell from here whether it still runs"
        ) in seen.text
    await other.release(theirs)
    await other.clear(theirs)
    assert await mine.still_mine(run) is True and await other.still_mine(theirs) is False
    await mine.release(run)
    assert await mine.still_mine(run) is False
    assert (await other.take(theirs, "toy-i004", "stop", over=False)).level == "pass"


async def test_what_a_dead_process_of_this_boot_left_is_free_and_is_cleared(rig: Rig) -> None:
    run = rig.run()
    await rig.lease(pid=DEAD).take(run, "toy-i001", "launch", over=False)
    assert (await rig.lease().survey(run)).level == "pass"
    for stranger in (rig.lease("there"), rig.lease(boot="another")):
        assert (await stranger.survey(run)).level == "block"
        await stranger.clear(run)
    assert '"nonce"' in rig.text(run) or rig.kind == "moto"
    assert (await rig.lease().take(run, "toy-i002", "launch", over=False)).level == "pass"
    await rig.lease(pid=DEAD).take(rig.run("two"), "two-i001", "launch", over=False)
    await rig.lease().clear(rig.run("two"))
    assert (await rig.lease("there").take(rig.run("two"), None, "stop", over=False)).level == "pass"


async def test_only_what_was_shown_is_taken_over(rig: Rig) -> None:
    run, mine = rig.run(), rig.lease()
    second, third = rig.lease("there", 9), rig.lease("third", 5)
    await mine.take(run, None, "stop", over=False)
    assert (await third.take(run, None, "stop", over=True)).level == "block", "it saw nothing"
    await second.survey(run)
    await third.survey(run)
    assert (await third.take(run, None, "stop", over=True)).level == "pass"
    assert (await second.take(run, None, "stop", over=True)).level == "block"
    assert await mine.still_mine(run) is False and await third.still_mine(run) is True
    await mine.release(run)
    assert await third.still_mine(run) is True


async def test_a_holder_that_lives_here_is_never_taken_over(rig: Rig) -> None:
    run, ada, bob = rig.run(), rig.lease(pid=7), rig.lease(pid=8)
    await ada.take(run, None, "stop", over=False)
    held = await bob.survey(run)
    assert held.final and "it lives on this machine" in held.text
    assert (await bob.take(run, None, "stop", over=True)).level == "block"
    same = rig.lease(pid=7)
    await same.survey(run)
    assert (await same.take(run, None, "stop", over=True)).level == "block", "one action at a time"
    assert await ada.still_mine(run) is True


async def test_a_launch_id_is_given_out_once(rig: Rig) -> None:
    """A plan that was shown before another machine launched must not go ahead after it."""
    run, mine, other = rig.run(), rig.lease(), rig.lease("there", 9)
    await other.take(run, "toy-i003", "relaunch", over=False)
    await mine.survey(run)
    late = await mine.take(run, "toy-i003", "relaunch", over=True)
    assert late.level == "block" and "given out" in late.text
    assert (await mine.take(run, "toy-i004", "relaunch", over=True)).level == "pass"
    await mine.release(run, used=False)
    seen = await other.survey(run)
    if rig.remembers:
        assert (seen.launch_id, seen.launched_by) == ("toy-i003", None)
        assert (await mine.survey(run)).launched_by == "there, pid 9"
        await mine.take(run, None, "stop", over=False)
        await mine.release(run)
        assert (await mine.survey(run)).launched_by == "there, pid 9"
        late = await mine.take(run, "toy-i003", "relaunch", over=False)
        assert late.level == "block" and "given out" in late.text
    else:
        assert (seen.launch_id, rig.text(run)) == (None, ""), "its notes remember"
    for _ in range(2):
        assert (await mine.take(run, "toy-i005", "relaunch", over=False)).level == "pass"


@faulty
@pytest.mark.parametrize("done", [True, False])
async def test_a_swap_whose_answer_was_lost_counts_as_what_it_did(
    rig: Rig, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mine = rig.run(), rig.lease()
    await mine.survey(run)
    rig.lose(1, done=done, patch=monkeypatch)
    taken = await mine.take(run, "toy-i001", "launch", over=False)
    assert taken.level == "pass" and await mine.still_mine(run) is True
    assert rig.losses.left < 0
    rig.lose(1, done=done, patch=monkeypatch)
    await mine.release(run)
    assert '"held"' not in rig.text(run) and '"launch_id": "toy-i001"' not in rig.text(run)
    assert (await rig.lease("there").take(run, "toy-i002", "stop", over=False)).level == "pass"


@faulty
async def test_a_swap_of_which_nobody_tells_refuses_once_and_is_told_then(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mine = rig.run(), rig.lease()
    rig.lose(99, done=False, patch=monkeypatch)
    for survey in (True, False):
        fresh = rig.lease("there", 9)
        assert not survey or (await fresh.survey(run)).level == "pass"
        lost = await fresh.take(run, "toy-i001", "launch", over=False)
        assert (lost.level, lost.unanswered) == ("block", True) and "try again" in lost.text
    lost = await mine.take(run, "toy-i001", "launch", over=False)
    again = await mine.take(run, "toy-i001", "launch", over=False)
    assert (lost.level, again.level) == ("block", "warn"), "whoever acts now knows"
    seen = await mine.survey(run)
    assert (seen.level, seen.unanswered) == ("warn", True)
    assert (await mine.take(run, "toy-i001", "launch", over=False)).level == "warn"
    rig.losses.left = 0
    assert (await mine.take(run, "toy-i001", "launch", over=False)).level == "pass"
    assert (await mine.survey(run)).level == "pass"


@faulty
async def test_nobody_goes_on_beside_a_lease_that_could_not_be_taken_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mine, other = rig.run(), rig.lease(), rig.lease("there", 9)
    await other.take(run, None, "stop", over=False)
    await mine.survey(run)
    rig.lose(99, done=False, patch=monkeypatch)
    claim = await mine.take(run, "toy-i001", "launch", over=True)
    assert claim.level == "block" and "was not taken over" in claim.text
    assert await other.still_mine(run) is True


@faulty
@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', '{"holder": 1}', "\0\xff"])
async def test_what_is_no_lease_of_ours_is_left_alone(rig: Rig, text: str) -> None:
    if rig.kind == "ref" and "\0" in text:
        pytest.skip("a commit's message has no such bytes")
    run, mine = rig.run(), rig.lease()
    rig.plant(run, text)
    before = rig.text(run)
    for claim in (await mine.survey(run), await mine.take(run, None, "stop", over=True)):
        assert claim.level == "block" and claim.final
        assert "is not a lease that this version understands" in claim.text
    await mine.release(run)
    await mine.clear(run)
    assert rig.text(run) == before


HOLDER = {
    "host": "there", "pid": 9, "machine": None, "boot": "boot-there", "space": None, "ticks": 5,
    "started_at": None, "login": None,
}  # fmt: skip
OF_FOLDER = {
    "holder": HOLDER, "operator": "bob", "what": "stop", "launch_id": None, "at": 1.0,
    "nonce": "b" * 32,
}  # fmt: skip
OF_OTHERS = {
    **OF_FOLDER, "schema": 1, "state": "held", "run": "toy", "last_launch_id": None,
    "last_holder": None,
}  # fmt: skip


@faulty
async def test_older_cockpits_read_what_is_written_and_write_what_is_read(rig: Rig) -> None:
    older = OF_OTHERS if rig.remembers else OF_FOLDER
    more = {} if rig.store is None else {"conditional": True}
    run, mine, two = rig.run(), rig.lease(), rig.run("two")
    rig.plant(run, json.dumps({**older, **more}, indent=1))
    seen = await mine.survey(run)
    assert seen.level == "block" and "held by bob on there (pid 9)" in seen.text
    assert (await mine.take(run, None, "stop", over=True)).level == "pass"
    await rig.lease("there", 9).take(two, None, "stop", over=False)
    text = rig.text(two)
    said = json.loads(text)
    assert set(said) == {*older, *more} and said["holder"] == HOLDER
    assert rig.remembers or (list(said) == list(older) and '\n "nonce": "' in text)


async def test_hostile_words_are_made_safe(rig: Rig) -> None:
    one, other = rig.lease(), rig.lease("there", 9)
    one._operator = lambda: "\x1b[31m<b>\n"
    await one.take(rig.run(), None, "x\ny", over=False)
    held = await other.survey(rig.run())
    assert held.level == "block" and not {"\x1b", "\n"} & set(held.text)


def test_of_two_processes_that_race_one_wins_each_time(rig: Rig) -> None:
    """Each other time a dead process's lease lies there, which both may replace."""
    with racing(rig, (), ()) as both:
        gone = rig.real_lease(dead())
        for round_ in range(10):
            name = f"r{round_}"
            if round_ % 2:
                asyncio.run(gone.take(rig.run(name), None, "stop", over=False))
            for each, clone in zip(both, ("ada", "bob"), strict=True):
                each.begin(name, clone)
            said = sorted(each.answer() for each in both)
            assert [line.split()[:2] for line in said] == [["block", "False"], ["pass", "True"]]


def test_one_that_is_killed_between_read_and_swap_leaves_nothing_that_blocks(rig: Rig) -> None:
    with racing(rig, ("halt",), ()) as (first, second):
        first.begin("toy")
        assert first.answer() == "read"
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        second.begin("toy")
        assert second.answer().startswith("pass True")
        second.end()
        lease = rig.real_lease()
        assert asyncio.run(lease.take(rig.run(), "toy-i002", "launch", over=False)).level == "pass"


def test_one_that_goes_on_after_another_took_it_takes_nothing(rig: Rig) -> None:
    with racing(rig, ("halt",), ()) as (first, second):
        first.begin("toy")
        assert first.answer() == "read"
        second.begin("toy")
        assert second.answer().startswith("pass True")
        first.say("go")
        said = first.answer()
        assert said.startswith("block False") and "lives on this machine" in said
