"""The HTTP client against servers on this machine that misbehave."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.runtime import http
from cockpit.runtime.http import ATTEMPTS, Http, HttpError, LostAnswerError, limited_for
from tests.records.issue_services import SkipClock

SECRET = {"authorization": "Bearer ghp_" + "q1W2e3R4t5Y6" * 3}
Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(handle: Handler) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await handle(head, writer)
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()


def answering(*replies: bytes) -> tuple[Handler, list[bytes]]:
    """A handler that gives these replies in turn (the last one for ever), and what it was asked."""
    asked: list[bytes] = []

    async def handle(head: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append(head)
        writer.write(replies[min(len(asked), len(replies)) - 1])
        await writer.drain()

    return handle, asked


def reply(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def failing(url: str, deadline: float = 2.0) -> HttpError:
    with pytest.raises(HttpError) as caught:
        await Http(SkipClock(), deadline=deadline).get(url, SECRET)
    text = f"{caught.value} {caught.value!r} {caught.value.args}"
    assert "ghp_" not in text and "\n" not in str(caught.value)
    return caught.value


async def test_a_get_is_repeated_until_it_succeeds() -> None:
    handle, asked = answering(b"", reply(503), reply(200, b"[1]"))
    async with server(handle) as url:
        answer = await Http(SkipClock()).get(url)
    assert answer.json() == [1] and len(asked) == 3


async def test_attempts_are_bounded() -> None:
    handle, asked = answering(reply(502))
    async with server(handle) as url:
        error = await failing(url)
    assert error.status == 502 and len(asked) == ATTEMPTS


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "answer",
    [
        *(b"", reply(500), b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf", b"gibberish"),
        *(reply(503, b"", "retry-after: 5"), reply(408), reply(499)),
    ],
)
async def test_a_change_is_sent_once_and_its_lost_answer_is_said(
    method: str, answer: bytes
) -> None:
    handle, asked = answering(answer)
    async with server(handle) as url:
        with pytest.raises(LostAnswerError):
            await Http(SkipClock()).send(method, url, {"a": 1}, SECRET)
    assert len(asked) == 1


async def test_a_change_that_never_left_is_not_lost() -> None:
    with pytest.raises(HttpError) as caught:
        await Http(SkipClock()).send("POST", f"http://127.0.0.1:{closed_port()}/", {})
    assert not isinstance(caught.value, LostAnswerError)
    assert caught.value.kind is ErrorKind.REFUSED


async def test_refused_dns_timeout_and_nonsense_are_told_apart() -> None:
    assert (await failing(f"http://127.0.0.1:{closed_port()}/")).kind is ErrorKind.REFUSED
    assert (await failing("http://nowhere.invalid/")).kind is ErrorKind.DNS
    assert (await failing("gopher://127.0.0.1/")).kind is ErrorKind.BAD_ANSWER

    async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async def drip(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n")
        for _ in range(50):
            writer.write(b".")
            await asyncio.sleep(0.1)

    for handle in (hang, drip):
        async with server(handle) as url:
            assert (await failing(url, deadline=0.4)).kind is ErrorKind.TIMEOUT


async def test_a_server_without_tls_is_a_tls_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 no\r\n\r\n")
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    assert (await failing(f"https://127.0.0.1:{port}/")).kind is ErrorKind.TLS
    running.close()


async def test_an_endless_answer_is_cut() -> None:
    async def pour(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        for _ in range(100):
            writer.write(b"x" * 10_000)
            await writer.drain()

    async with server(pour) as url:
        with pytest.raises(HttpError, match="longer than 50,000"):
            await Http(SkipClock(), cap=50_000).get(url)
        with pytest.raises(LostAnswerError):
            await Http(SkipClock(), cap=50_000).send("POST", url, {})


async def test_credentials_are_not_taken_to_another_host() -> None:
    handle, asked = answering(reply(200))
    async with server(handle) as other:
        away, _ = answering(reply(302, b"", f"location: {other}/"))
        async with server(away) as url:
            error = await failing(url)
    assert asked == [] and "not followed" in str(error)


async def test_inside_a_host_redirects_are_followed_for_a_while() -> None:
    handle, asked = answering(reply(301, b"", "location: /moved"), reply(200, b"[2]"))
    async with server(handle) as url:
        assert (await Http(SkipClock()).get(url, SECRET)).json() == [2]
    assert asked[1].startswith(b"GET /moved ") and b"Bearer" in asked[1]
    circle, _ = answering(reply(301, b"", "location: /again"))
    async with server(circle) as url:
        assert "in a loop" in str(await failing(url))


async def test_a_redirected_change_is_not_followed() -> None:
    handle, asked = answering(reply(307, b"", "location: /moved"))
    async with server(handle) as url:
        assert (await Http(SkipClock()).send("POST", url, {})).status == 307
    assert len(asked) == 1


async def test_a_host_that_wants_to_be_left_alone_is_left_alone() -> None:
    handle, asked = answering(reply(429, b"{}", "retry-after: 60"), reply(200, b"[3]"))
    clock = SkipClock()
    http = Http(clock)
    async with server(handle) as url:
        for _ in range(2):
            with pytest.raises(HttpError) as caught:
                await http.get(url)
            assert caught.value.kind is ErrorKind.RATE_LIMITED
            assert 55 < (caught.value.retry_in or 0) <= 60
        assert len(asked) == 1
        clock.skip(61)
        assert (await http.get(url)).json() == [3]


async def test_a_short_wait_is_waited_for() -> None:
    handle, asked = answering(reply(429, b"{}", "retry-after: 0"), reply(200, b"[4]"))
    async with server(handle) as url:
        assert (await Http(SkipClock()).get(url)).json() == [4]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "headers", "body", "wait"),
    [
        (403, {"retry-after": "30"}, b"", 30.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1100"}, b"", 100.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}, b"", 0.0),
        (403, {"x-ratelimit-remaining": "0"}, b"", 60.0),
        (403, {"x-ratelimit-remaining": "9"}, b"locked", None),
        (403, {}, b"You have exceeded a secondary rate limit", 60.0),
        (429, {}, b"", 60.0),
        (429, {"retry-after": "x"}, b"", 60.0),
        (429, {"retry-after": "99999999999"}, b"", 3600.0),
        (503, {"retry-after": "5"}, b"", 5.0),
        (503, {}, b"", None),
        (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1100"}, b"", None),
        (404, {"retry-after": "5"}, b"", None),
    ],
)
def test_limits_are_read_from_what_the_server_says(
    status: int, headers: dict[str, str], body: bytes, wait: float | None
) -> None:
    assert limited_for(status, headers, body, 1000.0) == wait


def test_the_servers_own_clock_counts() -> None:
    date = {"date": formatdate(5000.0, usegmt=True)}
    reset = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "5040", **date}
    assert limited_for(403, reset, b"", 1000.0) == 40.0
    later = {"retry-after": formatdate(5030.0, usegmt=True), **date}
    assert limited_for(429, later, b"", 1000.0) == 30.0


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, asked = answering(reply(200, b"[5]"))
    async with server(handle) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        answer = await Http(SkipClock()).get("http://only-the-proxy-knows.invalid/x")
    assert answer.json() == [5]
    assert asked[0].startswith(b"GET http://only-the-proxy-knows.invalid/x")


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def test_a_query_is_repeated_although_it_is_a_post() -> None:
    handle, asked = answering(b"", reply(200, b'{"data": 1}'))
    async with server(handle) as url:
        answer = await Http(SkipClock()).query(url, {"query": "{ viewer }"}, SECRET)
    assert answer.json() == {"data": 1} and len(asked) == 2
    assert all(head.startswith(b"POST ") for head in asked)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"errors": [{"message": "no such project"}]}', ": no such project"),
        (b'{"code": "internal", "message": "controller is\\u001b[2J loading"}', "is"),
        (b"Traceback: Job a/b already exists", ": Traceback: Job a/b already exists"),
        (b"<html><body>Bad gateway</body></html>", ""),
        (b"", ""),
        (b'{"message": {"deep": 1}}', ""),
    ],
)
async def test_a_server_error_is_told_in_the_servers_own_words(body: bytes, words: str) -> None:
    handle, _ = answering(reply(500, body))
    async with server(handle) as url:
        said = str(await failing(url))
    assert "server error 500" in said and words in said and "\x1b" not in said
    assert words or said.endswith("500")


async def test_words_of_a_server_hold_no_secret() -> None:
    handle, _ = answering(reply(500, b"bad token " + SECRET["authorization"].encode()))
    async with server(handle) as url:
        assert "q1W2e3" not in str(await failing(url))


async def test_kept_connections_are_used_again_and_closed_when_idle() -> None:
    accepted, closed = [], asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        while await reader.read(1 << 16):
            writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\n{}")
        closed.set()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    client = Http(SystemClock(), keep=0.3)
    for _ in range(3):
        await client.get(url)
    assert len(accepted) == 1 and not closed.is_set()
    await asyncio.wait_for(closed.wait(), 5.0)
    await client.get(url)
    assert len(accepted) == 2
    running.close()


def test_the_wait_that_wandb_names_is_in_seconds_from_now() -> None:
    headers = {"ratelimit-limit": "1000", "ratelimit-remaining": "0", "ratelimit-reset": "17"}
    assert limited_for(429, headers, b"", 1000.0) == 17.0
    assert limited_for(200, headers, b"{}", 1000.0) is None


async def test_a_server_that_hangs_delays_no_other_and_takes_no_connection_away() -> None:
    silent = asyncio.Event()

    async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
        await silent.wait()

    handle, asked = answering(reply(200))
    client = Http(SystemClock(), keep=5.0, connections=2)

    async def given_up(url: str) -> None:
        async with asyncio.timeout(0.6):
            await client.get(url)

    async with server(hang) as hung, server(handle) as sound:
        await client.get(sound)
        waiting = asyncio.gather(*(given_up(hung) for _ in range(9)), return_exceptions=True)
        await asyncio.sleep(0)
        for _ in range(3):
            assert (await client.get(sound, deadline=1.0)).status == 200
        assert not waiting.done()
        assert all(isinstance(each, TimeoutError) for each in await waiting)
        assert (await client.get(sound, deadline=1.0)).status == 200
        with pytest.raises(HttpError) as caught:
            await client.get(hung, deadline=0.2)
        assert caught.value.kind is ErrorKind.TIMEOUT and len(asked) == 5
        silent.set()


async def test_certificates_that_are_slow_to_read_are_no_bad_certificates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(http, "CONNECT", 0.05)
    monkeypatch.setattr(http, "_trust", go_on.wait)
    try:
        with pytest.raises(HttpError, match="were not read within") as caught:
            await Http(SystemClock()).get("http://127.0.0.1:9/")
    finally:
        go_on.set()
    assert caught.value.kind is ErrorKind.TIMEOUT and "SSL_CERT_FILE" not in str(caught.value)
