"""The window in a browser: what is sent over the wire, and what Chromium makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.app.browser.door import Seats
from cockpit.app.browser.served import LOOKING, ServedApp
from cockpit.app.browser.server import Server
from cockpit.model.run import CockpitFile
from screens.hotkeys import BY_ID
from screens.run import RunScreen
from tests.app.browser.chromium import PROGRAM, chromium
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, StillClock
from tests.widgets import reports as made


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


def path_of(link: str) -> str:
    return "/open/" + link.rpartition("/")[2]


async def test_the_token_is_swapped_for_a_strict_cookie_once() -> None:
    async with serving() as own:
        link = path_of(own.server.link)
        ahead = await own.ask(link, "Sec-Purpose: prefetch")
        assert ahead.startswith("HTTP/1.1 403 ") and own.told == []
        first = await own.ask(link)
        assert first.startswith("HTTP/1.1 200 ")
        cookie = next(line for line in first.splitlines() if line.startswith("Set-Cookie: "))
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert own.told == [own.server.link] and path_of(own.server.link) != link
        again = await own.ask(link)
        assert again.startswith("HTTP/1.1 403 ") and "each opens once" in again
        assert "Set-Cookie" not in again
        value = cookie.removeprefix("Set-Cookie: ").partition(";")[0]
        page = await own.ask("/", f"Cookie: {value}")
        assert page.startswith("HTTP/1.1 200 ") and "<script src=" in page
        assert "default-src 'none'" in page and "http://" not in page.partition("\r\n\r\n")[2]
        assert (await own.ask("/x", f"Cookie: {value}")).startswith("HTTP/1.1 404 ")


async def test_over_the_wire_too_nothing_is_told_to_strangers() -> None:
    async with serving() as own:
        for headers, method, status in (
            ((), "GET", 403),
            (("Origin: http://evil.example",), "GET", 403),
            ((), "POST", 405),
        ):
            answer = await own.ask("/", *headers, method=method)
            assert answer.startswith(f"HTTP/1.1 {status} ")
            assert "run-failed" not in answer and "Content-Security-Policy: " in answer
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
        assert (await own.ask("/frames", *upgrade)).startswith("HTTP/1.1 403 ")
        assert (await own.ask("nonsense")).startswith("HTTP/1.1 400 ")


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


def test_nothing_that_looks_writes() -> None:
    assert not [each for each in LOOKING if BY_ID[each].writes]
    assert not LOOKING & {"quit", "interrupt", "suspend", "copy", "sheet_copy", "check", "settle"}


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
        await page.go(link)
        await page.until("each opens once", "body")
