"""A head that refuses, hangs or talks nonsense: unknown with a plain reason, then well again."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
from cockpit.platforms.ray import head as heads
from cockpit.runtime import http
from tests.platforms.ray.recorded import (
    Handler,
    Recorded,
    Writer,
    head,
    job_of,
    platform,
    recorded,
    reply,
    run_of,
)

LIST = "/api/jobs/"
TRUNCATED = json.dumps(recorded("jobs.json")).encode()[:-40]
HTML = b"<!doctype html><title>Sign in</title>"

BAD = [
    (reply(401, b"Unauthorized: Missing authentication token"), "unauthorized", "job.token_env"),
    (reply(403, b"Forbidden: Invalid authentication token"), "forbidden", "refuses the token"),
    (reply(404, b"404: Not Found"), "not_found", "job.address must be the dashboard"),
    (reply(405, b"Method Not Allowed"), "bad_answer", "status 405"),
    (reply(429, b"slow down", "retry-after: 7"), "rate_limited", "in 7 s"),
    (reply(429, b"slow down"), "rate_limited", "in 60 s"),
    (reply(500, b"Traceback: GCS is gone"), "bad_answer", "server error 500: Traceback"),
    (reply(200, HTML), "bad_answer", "is not JSON"),
    (reply(200, TRUNCATED), "bad_answer", "is not JSON"),
    (reply(200, b'{"jobs": []}'), "bad_answer", "no list of jobs"),
    (reply(200, b"[" * 100_000), "bad_answer", "is not JSON"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", "refused", "refused or lost"),
    (b"", "refused", "refused or lost"),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "PATIENCE", 2.0)
    monkeypatch.setattr(http, "BACK_OFF", 0.01)


@asynccontextmanager
async def asked_of(ray: Recorded) -> AsyncIterator[Facet[JobValue]]:
    """Give the facet of a run while the head is bad, then let it be well: it is read again."""
    asked, run = platform(), run_of(ray.url, "hero-i001")
    facet = (await asked.jobs([Query(run=run)]))["hero"]
    assert facet.value is None and facet.error is not None
    assert "\n" not in facet.error.message and len(facet.error.message) < 400
    yield facet
    ray.handlers.clear()
    if facet.retry_after is None:
        assert (await job_of(asked, run)).state == "RUNNING", "no restart is needed"


@pytest.mark.parametrize(("answer", "kind", "text"), BAD, ids=[f"{b} {c}" for _, b, c in BAD])
async def test_a_bad_answer_is_unknown_with_its_reason(answer: bytes, kind: str, text: str) -> None:
    async with head() as ray:
        ray.answers(LIST, answer)
        async with asked_of(ray) as facet:
            assert facet.error is not None
            assert (facet.error.kind, text in facet.error.message) == (kind, True), facet.error
            assert ray.count(LIST) <= http.ATTEMPTS
            limited = facet.error.kind is ErrorKind.RATE_LIMITED
            assert (facet.retry_after is not None) == limited


async def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    facet = (await platform().jobs([Query(run=run_of(url, "hero-i001"))]))["hero"]
    assert facet.error is not None and facet.error.kind is ErrorKind.REFUSED
    assert url.removeprefix("http://") in facet.error.message


async def silence(writer: Writer) -> None:
    await asyncio.sleep(5)


async def half(writer: Writer) -> None:
    writer.write(b'HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n[{"type"')
    await writer.drain()
    await asyncio.sleep(5)


@pytest.mark.parametrize("handler", [silence, half])
async def test_a_head_whose_jobs_hang_while_its_version_answers(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "PATIENCE", 0.2)
    monkeypatch.setattr(heads, "PROBE", 0.2)
    async with head() as ray:
        ray.handlers[LIST] = handler
        asked, run = platform(), run_of(ray.url, "hero-i001")
        first = (await asked.jobs([Query(run=run)]))["hero"]
        ray.handlers["/api/version"] = silence
        second = (await asked.jobs([Query(run=run)]))["hero"]
        ray.handlers.clear()
        assert (await job_of(asked, run)).state == "RUNNING"
    assert first.error is not None and first.error.kind is ErrorKind.TIMEOUT
    assert "though the dashboard of Ray 2.60.0 answers: its GCS hangs" in first.error.message
    assert second.error is not None and "though" not in second.error.message


async def test_job_log_and_host_wait_for_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "PATIENCE", 0.2)
    monkeypatch.setattr(heads, "PROBE", 0.1)
    async with head() as ray:
        ray.handlers[LIST] = silence
        asked, query = platform(), Query(run=run_of(ray.url, "hero-i001"))
        answers = (asked.jobs([query]), asked.logs([query]), asked.hosts([query]))
        facets = [answer["hero"] for answer in await asyncio.gather(*answers)]
        assert ray.count(LIST) == 1
    assert len({facet.error.message for facet in facets if facet.error is not None}) == 1


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 X\r\n\r\n[")
        while True:
            writer.write(b" " * 1_000_000)
            await writer.drain()

    monkeypatch.setattr("cockpit.platforms.ray.launching.CAP", 4_000_000)
    async with head() as ray:
        ray.handlers[LIST] = endless
        async with asked_of(ray) as facet:
            assert facet.error is not None and "longer than 4,000,000 B" in facet.error.message


ODD: list[dict[str, Any]] = [
    {"status": ["RUNNING"]}, {"start_time": "yesterday"}, {"start_time": 1e300}, {"end_time": -1},
    {"driver_exit_code": "3"}, {"driver_exit_code": 10**400}, {"metadata": [1]},
    {"runtime_env": "pip"}, {"runtime_env": {"env_vars": {"A": 1}}}, {"entrypoint": None},
    {"message": {"a": 1}}, {"driver_node_id": 7}, {"submission_id": None, "job_id": None},
    {"entrypoint": "x" * 400_000}, {"submission_id": "a\x00b\u202e"},
]  # fmt: skip


async def test_odd_jobs_cost_no_other_its_answer() -> None:
    async with head() as ray:
        for number, odd in enumerate(ODD):
            ray.add(f"odd{number}").update(odd)
        ray.documents[LIST] += [None, 3, "x", []]
        names = [f"odd{number}" for number in range(len(ODD))]
        runs = [run_of(ray.url, "hero-i001"), *(run_of(ray.url, name, name) for name in names)]
        facets = await platform().jobs([Query(run=run) for run in runs])
    assert facets["hero"].value is not None and facets["hero"].value.state == "RUNNING"
    assert all(facets[name].value or facets[name].error for name in names)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (path, body)
        for path in ("/api/v0/actors", "/logical/actors", "/api/v0/nodes", "/api/cluster_status")
        for body in (b"[]", b'{"data": {"result": 1}}', b'{"data": null}', HTML)
    ],
)
async def test_what_is_asked_besides_never_costs_the_job(path: str, body: bytes) -> None:
    async with head() as ray:
        ray.answers(path, reply(200, body))
        job = await job_of(platform(), run_of(ray.url, "never-i003"))
        hero = await job_of(platform(), run_of(ray.url, "hero-i001"))
    assert job.state == "PENDING" and hero.state == "RUNNING"
    if path != "/logical/actors":
        assert not job.never, "what is not known is not said"
    assert (hero.started_at is None) == (path in ("/api/v0/actors", "/logical/actors"))


async def test_bad_addresses_are_told() -> None:
    for address in ("ray://head:10001", "http://", "ftp://a", "http://a:b:c"):
        facet = (await platform().jobs([Query(run=run_of(address, "x"))]))["toy"]
        assert facet.error is not None and "job.address" in facet.error.message
    run = run_of("", "x")
    facet = (await platform().jobs([Query(run=run)]))["toy"]
    assert not facet.configured
    (finding,) = await platform().findings([run])
    assert finding.remedy is not None and "job.address" in finding.text
