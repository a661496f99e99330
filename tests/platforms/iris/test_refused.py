"""A controller that refuses, hangs or talks nonsense: unknown with the reason, then well again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.platforms.iris import jobs as iris_jobs
from tests.platforms.iris.controller import Controller, Fault, Reply, job, running
from tests.platforms.iris.making import Later, facet, facets, platform_of, run_of, value

HTML = b"<!doctype html><title>502 Bad Gateway</title>"
METHODS = ("GetJobState", "ListJobs")


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        controller.put(job("/ada/x"))
        yield controller


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ((401, b'{"code":"unauthenticated","message":"Missing authentication"}', ()),
         ErrorKind.UNAUTHORIZED, "Missing authentication: set job.auth"),
        ((403, b'{"code":"permission_denied","message":"User \'bob\' cannot"}', ()),
         ErrorKind.FORBIDDEN, "User 'bob' cannot"),
        ((404, b"", ()), ErrorKind.NOT_FOUND, "is this the address of an Iris controller"),
        ((404, b"Not Found", ()), ErrorKind.NOT_FOUND, "is this the address of an Iris controller"),
        ((404, b'{"code":"not_found","message":"Job /ada/x not found"}', ()),
         ErrorKind.NOT_FOUND, "Job /ada/x not found"),
        ((429, b"", ("retry-after: 30",)), ErrorKind.RATE_LIMITED, "next in 30 s"),
        ((429, b"", ()), ErrorKind.RATE_LIMITED, "next in 60 s"),
        ((302, b"", ("location: https://accounts.example.com/login",)),
         ErrorKind.UNAUTHORIZED, "asks to log in"),
        ((200, HTML, ("content-type: text/html",)), ErrorKind.BAD_ANSWER, "not JSON"),
        ((200, b'{"jobs": [{"jobId": "/ada', ()), ErrorKind.BAD_ANSWER, "not JSON"),
        ((200, b"[]", ()), ErrorKind.BAD_ANSWER, "no document"),
        ((200, b'{"jobs": {}, "states": []}', ()), ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b'{"jobs": [7], "states": {"/ada/x": {}}}', ()),
         ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b'{"jobs": [{"jobId": "/ada/x"}], "states": {"/ada/x": true}}', ()),
         ErrorKind.BAD_ANSWER, "is this an Iris"),
        ((200, b" " * 9_000_000, ()), ErrorKind.BAD_ANSWER, "longer than 8,000,000 B"),
    ],
)  # fmt: skip
async def test_a_bad_answer_is_unknown_and_passes(
    iris: Controller, method: str, reply: Reply, kind: ErrorKind, words: str
) -> None:
    platform, run = platform_of(clock := Later()), run_of(iris.url, "/ada/x")
    iris.reply[method] = reply
    found = await facet(platform, run)
    assert found.value is None and found.error is not None and found.error.kind is kind
    assert words in found.error.message and "\n" not in found.error.message
    assert found.retry_after == (float(words.split()[-2]) if "next in" in words else None)
    assert len(iris.asked) <= 8, "retries are bounded"
    live = (await platform.live([run]))["toy"]
    assert live.unknown and not live.jobs
    iris.reply.clear()
    clock.ahead += 61.0
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"


async def test_a_server_error_is_told_in_its_own_words(iris: Controller) -> None:
    reply = b'{"code":"unknown","message":"no such table: jobs"}'
    iris.reply["GetJobState"] = (500, reply, ())
    found = await facet(platform_of(), run_of(iris.url, "/ada/x"))
    assert found.error is not None and found.error.message.endswith("500: no such table: jobs")
    assert iris.counted["GetJobState"] <= 3


async def silent(writer: asyncio.StreamWriter) -> None:
    """Accepts, and never answers: a stopped process."""
    await asyncio.sleep(60)


async def half(writer: asyncio.StreamWriter) -> None:
    """Hangs in the middle of a body."""
    writer.write(b'HTTP/1.1 200 X\r\ncontent-length: 500\r\n\r\n{"jobs": [')
    await writer.drain()
    await asyncio.sleep(60)


async def cut(writer: asyncio.StreamWriter) -> None:
    """Breaks off in the middle of a body."""
    writer.write(b'HTTP/1.1 200 X\r\ncontent-length: 500\r\n\r\n{"jobs": [')
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(silent, ErrorKind.TIMEOUT), (half, ErrorKind.TIMEOUT), (cut, ErrorKind.REFUSED)],
)
async def test_who_hangs_is_given_up_and_found_again(
    iris: Controller, fault: Fault, kind: ErrorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iris_jobs, "QUICK", 1.5)
    monkeypatch.setattr(iris_jobs, "PATIENT", 2.5)
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    iris.fault = fault
    found = await facet(platform, run)
    assert found.error is not None and found.error.kind is kind
    assert "is it up, and its tunnel?" in found.error.message
    iris.fault = None
    assert (await value(platform, run)).state == "JOB_STATE_RUNNING"


async def test_a_closed_port_is_refused_at_once_and_the_others_go_on(iris: Controller) -> None:
    gone = run_of("http://127.0.0.1:1", "/ada/x", "gone")
    found = await facets(platform_of(), gone, run_of(iris.url, "/ada/x", "good"))
    error = found["gone"].error
    assert error is not None and error.kind is ErrorKind.REFUSED
    assert found["good"].value is not None


@pytest.mark.parametrize("method", ["ListTasks", "GetTaskStatus", "GetJobStatus", "ListEndpoints"])
async def test_what_only_adds_details_costs_only_them(iris: Controller, method: str) -> None:
    iris.put(job("/ada/x", "FAILED", error="Exit code: 3"), job("/ada/y"))
    iris.reply[method] = (400, b'{"code":"invalid_argument","message":"no"}', ())
    platform = platform_of()
    found = await value(platform, run_of(iris.url, "/ada/x"))
    assert found.reason is not None and found.reason.startswith("Exit code: 3")
    asked = iris.counted[method]
    await value(platform, run_of(iris.url, "/ada/x"))
    assert iris.counted[method] == asked, "what failed is not asked again at once"


async def test_slow_details_come_with_a_later_look(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iris_jobs, "DETAILS", 0.1)
    go = asyncio.Event()
    iris.put(job("/ada/toy-fail", "FAILED", error="Exit code: 1"))
    held = iris._one

    async def slow(head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if "ListTasks" in head:
            await go.wait()
        await held(head, body, writer)

    monkeypatch.setattr(iris, "_one", slow)
    platform, run = platform_of(), run_of(iris.url, "/ada/toy-fail")
    assert (await value(platform, run)).exit_code is None
    go.set()
    assert (await value(platform, run)).exit_code == 1
