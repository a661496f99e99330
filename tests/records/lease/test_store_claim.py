"""The claim under a root in a bucket: one of many takes it, whatever becomes of the answers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.guards import ByRoot
from cockpit.model.clock import FixedClock
from cockpit.model.place import place_of
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.records.lease.root_claim import RootClaim
from cockpit.records.lease.store_claim import BELOW, StoreClaim
from cockpit.runtime import buckets
from cockpit.store.journal import Holder
from cockpit.verbs.findings import claim_findings
from tests.sources.checkpoints.store_server import Handler, ObjectStore, serving

pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
BUCKET, KEY = "hero", f"runs/toy/{BELOW}"
SCHEMES = pytest.mark.parametrize("scheme", ["s3", "gs"])
DEAD = 77


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    with serving(ObjectStore({BUCKET: {}})) as served:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in (
            *(("AWS_ENDPOINT_URL", served.url), ("STORAGE_EMULATOR_HOST", served.url)),
            *(("AWS_REGION", "here"), ("AWS_ACCESS_KEY_ID", "t"), ("AWS_SECRET_ACCESS_KEY", "t")),
        ):
            monkeypatch.setenv(name, value)
        yield served


def run_at(scheme: str, name: str = "toy", root: str = "toy") -> RunSpec:
    return RunSpec(name=name, output_root=place_of(f"{scheme}://{BUCKET}/runs/{root}"))


def guard(host: str = "here", pid: int = 1, ahead: float = 0.0) -> StoreClaim:
    holder = Holder(host=host, pid=pid, boot=f"boot-{host}", ticks=5)

    def alive(other: Holder) -> bool | None:
        return None if other.host != host else other.pid != DEAD

    return StoreClaim(FixedClock(1773219300.0 + ahead), lambda: f"op{pid}", holder, alive)


def written(store: ObjectStore, key: str = KEY) -> dict[str, Any]:
    return dict(json.loads(store.buckets[BUCKET][key][0]))


@SCHEMES
async def test_it_is_taken_seen_elsewhere_and_given_back_by_what_it_says(
    store: ObjectStore, scheme: str
) -> None:
    run, mine, other = run_at(scheme), guard(), guard("there", 9, ahead=-9e6)
    assert (await mine.survey(run)).level == "pass" and not store.buckets[BUCKET]
    taken = await mine.take(run, "toy-i003", "relaunch", over=False)
    assert (taken.level, taken.text) == ("pass", f"claimed: {scheme}://{BUCKET}/{KEY}")
    assert await mine.still_mine(run) is True and (await mine.survey(run)).level == "pass"
    for seen in (await other.survey(run), await other.take(run, "toy-i004", "stop", over=False)):
        assert (seen.level, seen.launch_id) == ("block", "toy-i003")
        assert seen.text == (
            f"{scheme}://{BUCKET}/{KEY} is held by op1 on here (pid 1) "
            "since 2026-03-11T08:55:00.000Z for relaunch of toy-i003"
        )
    await other.release(run)
    await other.clear(run)
    assert await mine.still_mine(run) is True and await other.still_mine(run) is False
    await mine.release(run)
    free = await other.survey(run)
    assert (free.level, free.launch_id, free.launched_by) == ("pass", "toy-i003", "here, pid 1")
    late = await other.take(run, "toy-i003", "relaunch", over=False)
    assert late.level == "block" and "given out" in late.text
    assert (await other.take(run, "toy-i004", "relaunch", over=False)).level == "pass"
    assert list(store.buckets[BUCKET]) == [KEY]
    assert written(store)["state"] == "held" and not [a for a in store.asked if "DELETE" in a]


@SCHEMES
async def test_what_a_dead_process_of_this_machine_left_is_free_and_is_cleared(
    store: ObjectStore, scheme: str
) -> None:
    run = run_at(scheme)
    await guard(pid=DEAD).take(run, "toy-i001", "launch", over=False)
    assert (await guard().survey(run)).level == "pass"
    assert (await guard("there").survey(run)).level == "block"
    await guard("there").clear(run)
    assert written(store)["state"] == "held"
    await guard().clear(run)
    assert written(store)["state"] == "released"
    await guard(pid=DEAD).take(run, "toy-i002", "launch", over=False)
    assert (await guard().take(run, "toy-i003", "launch", over=False)).level == "pass"


async def test_over_replaces_only_what_was_shown(store: ObjectStore) -> None:
    run, mine, second, third = run_at("s3"), guard(), guard("there", 9), guard("third", 5)
    await mine.take(run, None, "stop", over=False)
    await second.survey(run)
    await third.take(run, None, "stop", over=True)
    assert (await second.take(run, None, "stop", over=True)).level == "block"
    await second.survey(run)
    assert (await second.take(run, None, "stop", over=True)).level == "pass"
    assert await mine.still_mine(run) is False and await third.still_mine(run) is False


async def test_launch_ids_of_another_run_at_the_root_do_not_count(store: ObjectStore) -> None:
    other, run = run_at("s3", "was-named"), run_at("s3")
    await guard().take(other, "was-named-i007", "launch", over=False)
    await guard().release(other)
    assert (await guard().survey(run)).launch_id is None
    assert (await guard().take(run, "toy-i001", "launch", over=False)).level == "pass"


Lose = Callable[[Handler], bool]


def losing(times: int, *, put: bool) -> Lose:
    """Lose the answers to the first puts, which were done or were not."""
    left = [times]

    def fault(handler: Handler) -> bool:
        if handler.command != "PUT" or not left[0]:
            return False
        left[0] -= 1
        if put:
            handler.take(BUCKET, KEY, handler.body, answers=False)
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True

    return fault


@SCHEMES
@pytest.mark.parametrize("put", [True, False])
async def test_a_put_whose_answer_was_lost_counts_as_what_it_did(
    store: ObjectStore, scheme: str, put: bool
) -> None:
    run, mine = run_at(scheme), guard()
    await mine.survey(run)
    store.fault = losing(1, put=put)
    taken = await mine.take(run, "toy-i001", "launch", over=False)
    assert taken.level == "pass" and await mine.still_mine(run) is True
    store.fault = losing(1, put=put)
    await mine.release(run)
    assert written(store)["state"] == "released"
    store.fault = losing(1, put=put)
    assert (await guard("there").take(run, "toy-i002", "stop", over=False)).level == "pass"


async def test_a_store_that_never_answers_a_put_refuses_what_the_plan_had_promised(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "RETRIES", 0)
    run, mine = run_at("s3"), guard()
    assert (await mine.survey(run)).level == "pass"
    store.fault = losing(9, put=False)
    lost = await mine.take(run, "toy-i001", "launch", over=False)
    assert (lost.level, lost.unanswered) == ("block", True) and "try again" in lost.text
    again = await mine.take(run, "toy-i001", "launch", over=False)
    assert again.level == "warn", "it was said once: whoever acts now knows"
    seen = await mine.survey(run)
    assert (seen.level, seen.unanswered) == ("warn", True)
    assert (await mine.take(run, "toy-i001", "launch", over=False)).level == "warn"
    store.fault = None
    assert (await mine.take(run, "toy-i001", "launch", over=False)).level == "pass"
    assert (await mine.survey(run)).level == "pass"


async def test_a_hung_store_ends_at_the_deadline(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "DEADLINE", 0.2)
    hold = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    mine, run = guard(), run_at("s3")
    for claim in (await mine.survey(run), await mine.take(run, None, "stop", over=False)):
        assert (claim.level, claim.unanswered) == ("warn", True)
        assert "no answer within 0.2 s" in claim.text
    assert await mine.still_mine(run) is None
    await mine.release(run)
    hold.set()
    server.close()


@SCHEMES
async def test_a_missing_right_is_named_and_refuses_once(store: ObjectStore, scheme: str) -> None:
    def forbidden(handler: Handler) -> bool:
        if handler.command == "PUT":
            handler.refuse(403, "AccessDenied")
            return True
        return False

    run, mine, store.fault = run_at(scheme), guard(), forbidden
    assert (await mine.survey(run)).level == "pass"
    refused = await mine.take(run, "toy-i001", "launch", over=False)
    right = {"s3": "s3:PutObject", "gs": "storage.objects.create"}[scheme]
    assert refused.level == "block" and f"grant {right}" in refused.text
    assert "may not be written" in refused.text and "second-machine" in refused.text
    told = await mine.survey(run)
    assert told.level == "warn" and f"grant {right}" in told.text, "the next plan warns of it"
    other = guard("there")
    await other.survey(run)
    assert (await other.take(run, "toy-i001", "launch", over=True)).level == "warn"


@SCHEMES
async def test_a_store_that_heeds_no_condition_is_found_out_and_remembered(
    store: ObjectStore, scheme: str
) -> None:
    store.heeds = False
    run, mine = run_at(scheme), guard()
    await mine.survey(run)
    taken = await mine.take(run, "toy-i001", "launch", over=False)
    assert taken.level == "block" and "condition does not hold" in taken.text
    assert written(store)["conditional"] is False and written(store)["state"] == "released"
    seen = await guard("there").survey(run)
    assert seen.level == "warn" and "no claim can be held" in seen.text


async def test_one_that_was_seen_to_heed_them_is_not_tried_again(store: ObjectStore) -> None:
    run, mine = run_at("s3"), guard()
    await mine.take(run, None, "stop", over=False)
    await mine.release(run)
    assert written(store)["conditional"] is True
    store.asked.clear()
    assert (await guard("there").take(run, None, "stop", over=False)).level == "pass"
    assert [line.split()[0] for line in store.asked] == ["GET", "PUT"]


async def test_doctor_reads_how_it_stands_and_writes_nothing(
    store: ObjectStore, tmp_path: Path
) -> None:
    gone = RunSpec(name="gone", output_root=place_of("s3://nobodys/run"))
    runs = run_at("s3"), run_at("gs", "other", "other"), RunSpec(name="here"), gone
    mine = guard()
    await mine.take(runs[0], None, "stop", over=False)
    await mine.release(runs[0])
    store.asked.clear()
    file = CockpitFile(path=str(tmp_path / "cockpit.toml"), runs=runs)
    found = await claim_findings(file, (), FixedClock(1773219300.0))
    said = {each.run: (each.level, each.text) for each in found}
    assert list(said) == ["toy", "other", "gone"]
    assert said["toy"][0] == "ok" and "honours conditional puts (seen)" in said["toy"][1]
    assert said["other"][0] == "ok" and "when the first claim is taken" in said["other"][1]
    assert said["gone"][0] == "note" and "does not exist" in said["gone"][1]
    assert {line.split()[0] for line in store.asked} == {"GET"}


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"\xff", b'{"schema": 2}', b"x" * 70_000])
async def test_something_else_in_its_place_is_left_alone(store: ObjectStore, text: bytes) -> None:
    store.put(BUCKET, KEY, text)
    for claim in (
        await guard().survey(run_at("s3")),
        await guard().take(run_at("s3"), None, "stop", over=False),
    ):
        assert claim.level == ("warn" if len(text) > 65536 else "block") and KEY in claim.text
    assert store.buckets[BUCKET][KEY][0] == text


async def test_what_is_said_of_other_places(store: ObjectStore) -> None:
    nowhere = await guard().survey(RunSpec(name="x", output_root=place_of("/out")))
    assert nowhere.level == "warn" and "in no bucket" in nowhere.text
    missing = RunSpec(name="x", output_root=place_of("s3://nobodys/run"))
    claim = await guard().survey(missing)
    assert claim.level == "warn" and "does not exist" in claim.text


async def test_the_guard_of_a_root_is_that_of_its_place(store: ObjectStore, tmp_path: Path) -> None:
    clock = FixedClock(1773219300.0)
    both = ByRoot(RootClaim(clock, lambda: "ada"), {"s3": guard()})
    here, there = RunSpec(name="toy", output_root=place_of(str(tmp_path))), run_at("s3")
    for run, path in ((here, tmp_path / BELOW), (there, None)):
        assert (await both.survey(run)).level == "pass"
        assert (await both.take(run, "toy-i001", "launch", over=False)).level == "pass"
        assert await both.still_mine(run) is True
        assert path is None or path.exists()
        await both.release(run)
        await both.clear(run)
        assert path is None or not path.exists()
    assert written(store)["state"] == "released"


@SCHEMES
async def test_of_machines_that_race_exactly_one_wins_each_time(
    store: ObjectStore, scheme: str
) -> None:
    """One after another takes it over, gives it back, finds it left: never two at once."""
    racers = [guard(f"m{number}", number) for number in range(3)]
    for round_ in range(6):
        run = run_at(scheme, root=f"r{round_ // 2}")
        claims = await asyncio.gather(
            *(each.take(run, f"toy-i{round_ + 1:03d}", "launch", over=False) for each in racers)
        )
        levels = [claim.level for claim in claims]
        assert sorted(levels) == ["block", "block", "pass"], (round_, levels)
        winner = racers[levels.index("pass")]
        assert [await each.still_mine(run) for each in racers].count(True) == 1
        await winner.release(run)
