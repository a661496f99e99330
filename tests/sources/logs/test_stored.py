"""A log in a bucket is followed and read as a file is, whatever its writer puts there anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.sources.logs import remote
from cockpit.sources.logs.file import LogFile, line_at, nearest_step
from cockpit.sources.logs.ranged import BLOCK
from cockpit.sources.logs.remote import log_at
from cockpit.sources.logs.source import Logs
from tests.sources.checkpoints.store_server import ObjectStore
from tests.sources.checkpoints.test_buckets import denied
from tests.sources.checkpoints.test_buckets import store as store

SCHEMES = ("s3", "gs")


@pytest.fixture(autouse=True)
def _fresh(store: ObjectStore) -> Iterator[None]:
    remote._bucket.cache_clear()
    yield
    remote._bucket.cache_clear()


def query(address: str) -> Query:
    return Query(run=RunSpec(name="r", job=JobSpec(kind="local", log=address)))


async def looked(logs: Logs, address: str) -> Facet[LogValue]:
    return (await logs.observe([query(address)]))["r"]


def lines(first: int, last: int) -> bytes:
    return b"".join(b"step %d loss 2.5\n" % number for number in range(first, last + 1))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_it_is_followed_where_it_grows(scheme: str, store: ObjectStore) -> None:
    store.put("b", "logs/run.log", lines(1, 20))
    logs, address = Logs(SystemClock()), f"{scheme}://b/logs/run.log"
    facet = await looked(logs, address)
    assert facet.value is not None and facet.value.path == address
    assert [row.step for row in facet.value.rows] == [*range(1, 21)]
    again = await looked(logs, address)
    assert again.value is not None and not again.value.rows
    store.put("b", "logs/run.log", lines(1, 22))
    grown = await looked(logs, address)
    assert grown.value is not None and [row.step for row in grown.value.rows] == [21, 22]
    assert grown.value.begun_anew_at is None
    store.put("b", "logs/run.log", lines(1, 2))
    anew = await looked(logs, address)
    assert anew.value is not None and anew.value.begun_anew_at is not None
    assert [row.step for row in anew.value.rows] == [1, 2]


async def test_a_large_one_is_read_in_a_few_requests(store: ObjectStore) -> None:
    text = lines(1, 400_000)
    store.put("b", "big.log", text)
    log = log_at(place_of("s3://b/big.log"))
    store.asked.clear()
    page = LogFile(log).tail(20)
    assert [line.plain for line in page.lines] == [
        f"step {number} loss 2.5" for number in range(399_981, 400_001)
    ]
    assert len(store.asked) <= 4, store.asked
    near = nearest_step(log, 200_000)
    assert near is not None and near.value == 200_000
    assert near.offset == text.index(b"step 200000 ")
    assert line_at(log, 3) == len(lines(1, 2))
    there = LogFile(log).page(near.offset, 2)
    assert [line.plain for line in there.lines] == ["step 200000 loss 2.5", "step 200001 loss 2.5"]
    assert len(text) > 100 * BLOCK


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [(404, ErrorKind.NOT_FOUND, "no log s3://b/none.log"), (403, ErrorKind.FORBIDDEN, "b")],
)
async def test_why_it_cannot_be_read_is_one_line(
    status: int, kind: ErrorKind, words: str, store: ObjectStore
) -> None:
    if status == 403:
        store.fault = denied
    facet = await looked(Logs(SystemClock()), "s3://b/none.log")
    assert facet.value is None and facet.error is not None and facet.error.kind is kind
    assert words in facet.error.message and "\n" not in facet.error.message
