"""The window in a browser: what is sent over the wire, and what Chromium makes of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.app.browser_app import ServedApp
from cockpit.app.browser_server import WAITING, Seats, Server
from cockpit.model.run import CockpitFile
from screens.run import RunScreen
from tests.app.chromium import PROGRAM, chromium
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, StillClock
from tests.widgets import reports as made

ROOT = Path(__file__).resolve().parents[2]


class Serving:
    """A served app on runs that stand still, and its listener."""

    def __init__(self) -> None:
        self.engine = StandIn(*made.fleet())
        runs = tuple(each.spec for each in self.engine.runs)
        file = CockpitFile(path="/data/cockpit.toml", operator="ada", runs=runs)
        clock = StillClock()
        self.app = ServedApp(file, self.engine, present=True, read_only=True, clock=clock)
        self.told: list[str] = []
        self.server = Server(self.app, Seats(), self.told.append)
        self.app.on_picture = self.server.painted

    pilot: Pilot[Any]

    async def ask(self, target: str, *headers: str, method: str = "GET") -> str:
        """Return a whole answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()


@asynccontextmanager
async def serving() -> AsyncIterator[Serving]:
    """Serve, without the app's own signal handlers: a test's belong to the tests."""
    own = Serving()
    await own.server.listen(0)
    try:
        async with own.app.run_test(size=(100, 30)) as own.pilot:
            yield own
    finally:
        own.server.close()


def _says(app: ServedApp, words: str) -> bool:
    return words in app.notice


UPGRADE = (
    *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: " + base64.b64encode(bytes(16)).decode(),
)


class Viewer:
    """A tab's WebSocket, spoken by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, word: str, origin: str | None = None) -> Viewer:
        """Connect and say the first word: ``link TOKEN``, or a seat."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        own = f"127.0.0.1:{port}"
        head = ("GET /frames HTTP/1.1", f"Host: {own}", f"Origin: {origin or f'http://{own}'}")
        writer.write("\r\n".join([*head, *UPGRADE, "", ""]).encode())
        status = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert status.startswith("HTTP/1.1 101 "), status
        payload = word.encode()
        writer.write(bytes((0x81, 0x80 | len(payload), 0, 0, 0, 0)) + payload)
        return cls(reader, writer)

    async def hear(self) -> dict[str, Any]:
        """Return the next document; raises ``EOFError`` at the end."""
        _, size = await self._reader.readexactly(2)
        if size == 126:
            size = int.from_bytes(await self._reader.readexactly(2))
        elif size == 127:
            size = int.from_bytes(await self._reader.readexactly(8))
        document: dict[str, Any] = json.loads(await self._reader.readexactly(size))
        return document


def token_of(link: str) -> str:
    return link.partition("/#")[2]


async def test_a_link_is_swapped_for_a_seat_once() -> None:
    async with serving() as own:
        link = f"link {token_of(own.server.link)}"
        first = await Viewer.connect(own.server.port, link)
        seat = (await first.hear())["seat"]
        assert own.told == [own.server.link] and token_of(own.server.link) not in link
        assert "run-failed" in json.dumps(await first.hear())
        again = await Viewer.connect(own.server.port, link)
        assert "each opens once" in (await again.hear())["refused"]
        with pytest.raises(EOFError):
            await again.hear()
        reloaded = await Viewer.connect(own.server.port, seat)
        assert (await reloaded.hear())["seat"] == seat
        assert "run-failed" in json.dumps(await reloaded.hear())
        for each in (first, again, reloaded):
            each.writer.close()


async def test_the_page_tells_nothing_and_sets_no_cookie() -> None:
    """A cookie would reach every port of this host, and whoever listens there."""
    async with serving() as own:
        for target in ("/", "/view.js", "/view.css"):
            page = await own.ask(target)
            assert page.startswith("HTTP/1.1 200 ") and "default-src 'none'" in page
            assert "Set-Cookie" not in page and "run-failed" not in page
        assert (await own.ask("/x")).startswith("HTTP/1.1 404 ")
        assert own.told == []


async def test_over_the_wire_too_nothing_is_told_to_strangers() -> None:
    async with serving() as own:
        foreign = "Origin: http://127.0.0.1:1"
        for headers, method, status in (((foreign,), "GET", 403), ((), "POST", 405)):
            answer = await own.ask("/", *headers, method=method)
            assert answer.startswith(f"HTTP/1.1 {status} ")
            assert "run-failed" not in answer and "Content-Security-Policy: " in answer
        for more in ((), (foreign,)):
            assert (await own.ask("/frames", *UPGRADE, *more)).startswith("HTTP/1.1 403 ")
        assert (await own.ask("nonsense")).startswith("HTTP/1.1 400 ")
        for word in ("none", "link ", "seat", ""):
            stranger = await Viewer.connect(own.server.port, word)
            assert list(await stranger.hear()) == ["refused"]
            stranger.writer.close()


async def test_half_open_connections_keep_nobody_out() -> None:
    async with serving() as own:
        seated = await Viewer.connect(own.server.port, f"link {token_of(own.server.link)}")
        await seated.hear()
        strangers = []
        for _ in range(2 * WAITING + 12):
            strangers.append(await asyncio.open_connection("127.0.0.1", own.server.port))
            strangers[-1][1].write(b"GET / HTTP/1.1\r\n")
        assert (await own.ask("/")).startswith("HTTP/1.1 200 ")
        second = await Viewer.connect(own.server.port, f"link {token_of(own.server.link)}")
        assert "seat" in await second.hear()
        assert await strangers[0][0].read() == b""
        own.app.press("Enter")
        assert "rows" in await seated.hear()
        for _, writer in strangers:
            writer.close()
        for each in (seated, second):
            each.writer.close()


async def test_ending_with_a_viewer_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text(
        '[cockpit]\noperator = "ada"\n[[run]]\nname = "r"\noutput_root = "."\n'
        '[run.job]\nkind = "local"\nlog = "run.log"\n'
    )
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": ""}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "run_cockpit.py"), "serve", "--port", "0"),
        cwd=tmp_path,
        env=os.environ | state,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    said = b""
    while b"opens once" not in said:
        line = await asyncio.wait_for(program.stdout.readline(), 60)
        assert line, said
        said += line
    link = said.decode().split()[-1]
    port = int(link.partition("//")[2].partition("/")[0].partition(":")[2])
    viewer = await Viewer.connect(port, f"link {token_of(link)}")
    assert "seat" in await viewer.hear()
    half = await asyncio.open_connection("127.0.0.1", port)
    program.send_signal(signal.SIGINT)
    rest, complaints = await asyncio.wait_for(program.communicate(), 60)
    assert (program.returncode, b"Traceback" in rest + complaints) == (130, False), complaints
    for writer in (viewer.writer, half[1]):
        writer.close()


async def test_only_keys_that_look_do_anything() -> None:
    async with serving() as own:
        app = own.app
        for name, said in (
            ("q", "quit: not from a browser"),
            ("y", "copy: not from a browser"),
            ("c", "check now: not from a browser"),
            ("r", "relaunch: presenting, read-only"),
        ):
            app.press(name)
            await until(own.pilot, partial(_says, app, said))
        assert app.is_running and own.engine.poked == []
        app.press("Enter")
        await until(own.pilot, lambda: isinstance(app.screen, RunScreen))
        assert own.engine.seen == []


@pytest.mark.skipif(PROGRAM is None, reason="no chromium here: apt-get install chromium")
async def test_in_chromium_the_screen_is_painted_and_keys_turn_it(tmp_path: Path) -> None:
    async with serving() as own, chromium(tmp_path / "one") as page:
        link = own.server.link
        await page.go(link)
        painted = await page.until("run-failed")
        assert "READ-ONLY" in painted and len(painted.splitlines()) == 30
        assert await page.value("document.cookie") == ""
        assert await page.value("getComputedStyle(screen_).fontFamily.includes('mono')")
        fits = "screen_.scrollWidth <= innerWidth && screen_.offsetHeight <= innerHeight"
        assert await page.value(fits)
        await page.press("Enter")
        await page.until("1 log")
        await page.press("Escape")
        ours = f"127.0.0.1:{own.server.port}/"
        assert page.complaints == []
        assert {each.partition("//")[2].partition("/")[0] + "/" for each in page.asked} == {ours}
        await page.call("Page.reload")
        await page.until("run-failed")
        await page.go("about:blank")
        await page.go(link)
        await page.until("each opens once", "body")
