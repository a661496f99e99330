"""The claim under a root in a bucket: what only a bucket has (all places: ``test_lease.py``)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.place import place_of
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import BELOW, RootSeats
from cockpit.runtime import buckets
from cockpit.store.journal import Holder
from cockpit.verbs.doctor import claim_findings
from tests.records.lease.rigs import DEAD, holder_of
from tests.sources.checkpoints.store_server import Handler, ObjectStore, serving, variables

pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
BUCKET, KEY = "hero", f"runs/toy/{BELOW}"
SCHEMES = pytest.mark.parametrize("scheme", ["s3", "gs"])


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    with serving(ObjectStore({BUCKET: {}})) as served:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in variables(served.url).items():
            monkeypatch.setenv(name, value)
        yield served


def run_at(scheme: str, name: str = "toy", root: str = "toy") -> RunSpec:
    return RunSpec(name=name, output_root=place_of(f"{scheme}://{BUCKET}/runs/{root}"))


def guard(host: str = "here", pid: int = 1, ahead: float = 0.0) -> Lease:
    def alive(other: Holder) -> bool | None:
        return None if other.host != host else other.pid != DEAD

    clock = FixedClock(1773219300.0 + ahead)
    return Lease(clock, RootSeats(clock), lambda: f"op{pid}", holder_of(host, pid), alive)


def written(store: ObjectStore, key: str = KEY) -> dict[str, Any]:
    return dict(json.loads(store.buckets[BUCKET][key][0]))


async def test_launch_ids_of_another_run_at_the_root_do_not_count(store: ObjectStore) -> None:
    other, run, mine = run_at("s3", "was-named"), run_at("s3"), guard()
    await mine.take(other, "was-named-i007", "launch", over=False)
    await mine.release(other)
    assert written(store)["state"] == "released" and not [a for a in store.asked if "DELETE" in a]
    assert (await guard().survey(run)).launch_id is None
    assert (await guard().take(run, "toy-i001", "launch", over=False)).level == "pass"


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


async def test_something_too_large_in_its_place_is_left_alone(store: ObjectStore) -> None:
    store.put(BUCKET, KEY, b"x" * 70_000)
    for claim in (
        await guard().survey(run_at("s3")),
        await guard().take(run_at("s3"), None, "stop", over=True),
    ):
        assert claim.level == "warn" and KEY in claim.text
    assert store.buckets[BUCKET][KEY][0] == b"x" * 70_000


async def test_what_is_said_of_other_places(store: ObjectStore) -> None:
    nowhere = await guard().survey(RunSpec(name="x", output_root=place_of("hdfs://c/out")))
    assert (
        nowhere.level == "warn"
        and "is not on this machine, an ssh host or in a bucket" in nowhere.text
    )
    missing = RunSpec(name="x", output_root=place_of("s3://nobodys/run"))
    claim = await guard().survey(missing)
    assert claim.level == "warn" and "does not exist" in claim.text


async def test_the_guard_of_a_root_is_that_of_its_place(store: ObjectStore, tmp_path: Path) -> None:
    clock = FixedClock(1773219300.0)
    both = Lease(clock, RootSeats(clock), lambda: "ada")
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
