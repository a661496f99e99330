"""The same against moto, a server that was not made for these tests; it serves GCS's lists too."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import place_of
from cockpit.runtime import buckets
from cockpit.runtime.buckets import Bucket
from cockpit.runtime.http import Http
from cockpit.sources.checkpoints import source as reading
from cockpit.sources.checkpoints.source import Checkpoints
from tests.moto import address as address
from tests.moto import made_bucket, needs_moto
from tests.sources.checkpoints.test_buckets import failure, looked, run_of, states
from tests.sources.checkpoints.trees import metadata

obstore = pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
pytestmark = needs_moto


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(buckets, "TIMEOUT", 30.0)  # it serves one request at a time
    monkeypatch.setattr(reading, "AT_FIRST", 60.0)
    monkeypatch.setattr(reading, "SECONDS", 60.0)
    return made_bucket(address, monkeypatch, tmp_path)


def put(
    address: str, bucket: str, key: str, data: bytes, more: Mapping[str, str] | None = None
) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    headers = {"x-amz-acl": "public-read", **kind, **(more or {})}
    asked = urllib.request.Request(f"{address}/{bucket}/{key}", data, headers, method="PUT")
    urllib.request.urlopen(asked).close()


@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_steps_are_listed_and_the_torn_one_is_told(
    scheme: str, address: str, bucket: str
) -> None:
    for step in (900, 10000):
        put(address, bucket, f"run%201/step-{step}/d/0", b"x" * 10)
        put(address, bucket, f"run%201/step-{step}/metadata.json", metadata(step, 0.0).encode())
    put(address, bucket, "run%201/step-10100/d/0", b"x")
    source, run = Checkpoints(SystemClock()), run_of(f"{scheme}://{bucket}/run 1")
    facet = await looked(source, run)
    assert states(facet) == [(900, "complete"), (10000, "complete"), (10100, "writing")]
    put(address, bucket, "run%201/step-10100/metadata.json", metadata(10100, 0.0).encode())
    assert states(await looked(source, run))[-1] == (10100, "complete")


async def test_a_bucket_that_does_not_exist_and_a_prefix_without_keys(bucket: str) -> None:
    source = Checkpoints(SystemClock())
    for path, told in (("s3://nobodys/run", "does not exist"), (f"s3://{bucket}/x", "no key")):
        kind, said = failure(await looked(source, run_of(path, name=path)))
        assert kind is ErrorKind.NOT_FOUND and told in said


async def test_its_clock_is_ours(bucket: str) -> None:
    place = place_of(f"s3://{bucket}/run")
    for clock in (SystemClock(), FixedClock(1_000_000_000.0)):
        assert await Bucket(place.scheme, place.host, clock, Http(clock)).skew() == 0.0


PARTS = ("model", "optimizer", "trainer_state")


def hugging_face(address: str, bucket: str, root: str, step: int, **classes: str) -> None:
    """Put a whole save of transformers; ``classes``: the storage classes of its files."""
    parts = {"model": b"w" * 1000, "optimizer": b"o" * 500, "trainer_state": b'{"global_step": 1}'}
    names = {"model": "model.safetensors", "optimizer": "optimizer.pt"}
    for part, data in parts.items():
        name = names.get(part, f"{part}.json")
        kept = {"x-amz-storage-class": classes[part]} if part in classes else {}
        put(address, bucket, f"{root}/checkpoint-{step}/{name}", data, kept)


def test_a_key_with_an_empty_part_costs_only_itself(
    address: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hugging_face(address, bucket, "run", 100)
    hugging_face(address, bucket, "run", 200)
    put(address, bucket, "run//wandb/x", b"x")
    assert main(["checkpoints", f"s3://{bucket}/run"]) == 0
    out = capsys.readouterr().out
    assert "a relaunch would take step 200" in out
    assert f"s3://{bucket}/run: the key run// is spelled in a way that cannot be read" in out


def test_keys_that_all_have_an_empty_part_are_unknown_and_not_nothing(
    address: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hugging_face(address, bucket, "all/", 100)
    assert main(["checkpoints", f"s3://{bucket}/all"]) == 3
    said = capsys.readouterr()
    assert "the key all// is spelled in a way that cannot be read (an empty part: //)" in said.err
    assert "from scratch" not in said.out + said.err


def test_an_archived_save_must_be_restored_first(
    address: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hugging_face(address, bucket, "run", 100)
    hugging_face(address, bucket, "run", 200, **dict.fromkeys(PARTS, "DEEP_ARCHIVE"))
    assert main(["checkpoints", f"s3://{bucket}/run", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    first, second = value["items"]
    assert (first["state"], second["state"]) == ("complete", "unknown")
    assert second["note"] == "archived (DEEP_ARCHIVE): restore it first"
    assert value["relaunch_from"]["step"] == 100


def test_a_save_is_archived_when_only_its_big_files_are(
    address: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hugging_face(address, bucket, "run", 100)
    hugging_face(address, bucket, "run", 200, model="GLACIER")
    assert main(["checkpoints", f"s3://{bucket}/run"]) == 0
    out = capsys.readouterr().out
    assert "archived (GLACIER): restore it first" in out
    assert "a relaunch would take step 100" in out
