"""The window in a browser: what is sent over the wire, and what Chromium makes of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from cockpit.app import browser_app
from cockpit.app.browser_app import LEAST, MOST, SETTLES, ServedApp
from cockpit.app.browser_server import NOWHERE, WAITING, Seats, Server, address_of
from cockpit.model.report import Verdict
from cockpit.model.run import CockpitFile
from screens.fleet import FleetScreen
from screens.run import RunScreen
from tests.app.chromium import PROGRAM, chromium
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, StillClock
from tests.widgets import reports as made
from widgets.facet_table import FacetTable
from widgets.fleet_header import KeyLine
from widgets.painted import KeyClicked

ROOT = Path(__file__).resolve().parents[2]


class Serving:
    """A served app on runs that stand still, and its listener."""

    def __init__(self, url: str = "", token: str = "") -> None:
        self.engine = StandIn(*made.fleet())
        runs = tuple(each.spec for each in self.engine.runs)
        file = CockpitFile(path="/data/cockpit.toml", operator="ada", runs=runs)
        clock = StillClock()
        self.app = ServedApp(file, self.engine, present=True, read_only=True, clock=clock)
        self.told: list[str] = []
        address = address_of(url, token) if url else NOWHERE
        self.server = Server(self.app, Seats(), self.told.append, address)
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

    async def until_size(self, columns: int, rows: int) -> None:
        """Wait until the screen has this size, painted."""
        await until(self.pilot, lambda: self.app.size == (columns, rows))
        await until(self.pilot, lambda: len(self.app.picture()) == rows)


@asynccontextmanager
async def serving(url: str = "", token: str = "") -> AsyncIterator[Serving]:
    """Serve, without the app's own signal handlers: a test's belong to the tests."""
    own = Serving(url, token)
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
    async def connect(cls, port: int, word: str, *headers: str, target: str = "/frames") -> Viewer:
        """Connect and say the first word: ``link TOKEN``, or a seat."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        own = f"127.0.0.1:{port}"
        named = headers or (f"Host: {own}", f"Origin: http://{own}")
        writer.write("\r\n".join([f"GET {target} HTTP/1.1", *named, *UPGRADE, "", ""]).encode())
        status = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert status.startswith("HTTP/1.1 101 "), status
        viewer = cls(reader, writer)
        viewer.say(word)
        return viewer

    def say(self, word: str) -> None:
        payload = word.encode()
        self.writer.write(bytes((0x81, 0x80 | len(payload), 0, 0, 0, 0)) + payload)

    async def heard(self) -> None:
        """Wait until all that was said is heard: a ping is answered in its turn."""
        self.writer.write(bytes((0x89, 0x82, 0, 0, 0, 0)) + b"{}")
        while await self.hear():
            pass

    async def until(self, words: str) -> dict[str, Any]:
        """Return the first document with these words."""
        while words not in json.dumps(document := await self.hear(), ensure_ascii=False):
            pass
        return document

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


async def seated(own: Serving) -> Viewer:
    viewer = await Viewer.connect(own.server.port, f"link {token_of(own.server.link)}")
    assert "seat" in await viewer.hear()
    return viewer


async def test_the_screen_follows_the_window_of_whoever_did_something_last() -> None:
    async with serving() as own:
        phone, desk = await seated(own), await seated(own)
        phone.say("size 58x62")
        await own.until_size(58, 62)
        assert (await phone.until('"width": 58'))["height"] == 62
        desk.say("size 145x48")
        await own.until_size(145, 48)
        phone.say("ArrowDown")
        await own.until_size(58, 62)
        phone.say("size 114x24")  # turned
        await own.until_size(114, 24)
        phone.writer.close()
        await own.until_size(145, 48)
        desk.writer.close()


async def test_a_tab_that_is_back_takes_no_screen_from_anybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser_app, "SETTLES", 0)
    async with serving() as own:
        link = f"link {token_of(own.server.link)}"
        phone = await Viewer.connect(own.server.port, link)
        seat, desk = (await phone.hear())["seat"], await seated(own)
        phone.say("size 58x62")
        await own.until_size(58, 62)
        desk.say("size 145x48")
        await own.until_size(145, 48)
        phone.writer.close()
        again = await Viewer.connect(own.server.port, seat)
        again.say("size 58x62")
        await again.heard()
        await own.pilot.pause()
        assert own.app.size == (145, 48)
        desk.writer.close()
        await own.until_size(58, 62)
        again.writer.close()


@pytest.mark.parametrize(
    ("said", "wanted"), [("size 1x1", LEAST), ("size 0x0", LEAST), ("size 9999x9999", MOST)]
)
async def test_a_window_of_any_size_gets_a_screen(said: str, wanted: tuple[int, int]) -> None:
    async with serving() as own:
        viewer = await seated(own)
        viewer.say(said)
        await own.until_size(*wanted)
        viewer.writer.close()


async def test_a_window_that_is_drawn_larger_lays_out_few_screens() -> None:
    async with serving() as own:
        viewer, widths, begun = await seated(own), set[int](), time.monotonic()
        for columns in range(60, 160):
            viewer.say(f"size {columns}x40")
        while own.app.size != (159, 40):
            widths.add((await viewer.hear())["width"])
        assert len(widths) <= 3 + (time.monotonic() - begun) / SETTLES
        viewer.writer.close()


@pytest.mark.parametrize(
    "word",
    [
        "size",
        "size x",
        "size -1x5",
        "size 1x2x3",
        "size 1e9x1",
        "tap 99999x1",
        "tap 9999x1",
        "tap ",
    ],
)
async def test_what_is_no_word_of_the_page_changes_nothing(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_app, "SETTLES", 0)
    async with serving() as own:
        viewer, before = await seated(own), own.app.picture()
        viewer.say(word)
        await viewer.heard()
        await own.pilot.pause()
        assert own.app.picture() == before
        viewer.writer.close()


async def test_with_a_fixed_size_no_window_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_app, "SETTLES", 0)
    async with serving() as own:
        own.app.follows = False
        viewer = await seated(own)
        viewer.say("size 58x62")
        await viewer.heard()
        await own.pilot.pause()
        assert own.app.size == (100, 30)
        viewer.writer.close()


def cell_of(app: ServedApp, words: str) -> str:
    """Return the cell in which words stand, as the page names it."""
    lines = ["".join(run[0] for run in row) for row in app.picture()]
    row = next(y for y, line in enumerate(lines) if words in line)
    return f"{cell_len(lines[row][: lines[row].index(words)])}x{row}"


async def test_taps_open_a_run_turn_its_tabs_and_press_the_keys_of_the_foot() -> None:
    async with serving() as own:
        viewer, app = await seated(own), own.app
        name = own.engine.runs[2].name
        for _ in range(2):  # chosen, then opened
            viewer.say(f"tap {cell_of(app, name)}")
            await until(own.pilot, lambda: getattr(app.screen, "selected", None) == name)
        await until(own.pilot, lambda: isinstance(app.screen, RunScreen))
        await own.pilot.pause()
        viewer.say(f"tap {cell_of(app, '4 sources')}")
        await until(own.pilot, lambda: app.screen.query_one(FacetTable).display)
        viewer.say(f"tap {cell_of(app, 'esc back')}")
        await until(own.pilot, lambda: isinstance(app.screen, FleetScreen))
        viewer.writer.close()


async def test_a_tap_does_no_more_than_a_key() -> None:
    """The foot of a window that others look at names no key that acts; if it did, it is refused."""
    async with serving() as own:
        viewer, app = await seated(own), own.app
        for key, said in (("q", "quit: not from a browser"), ("r", "presenting, read-only")):
            app.query_one(KeyLine).post_message(KeyClicked(key))
            await until(own.pilot, partial(_says, app, said))
        assert app.is_running and own.engine.poked == []
        viewer.writer.close()


async def test_a_page_is_told_what_is_critical_and_which_keys_look() -> None:
    async with serving() as own:
        viewer = await seated(own)
        update = await viewer.hear()
        critical = sum(each.verdict is Verdict.CRITICAL for each in own.app.reports)
        assert update["critical"] == critical > 0
        titles = [title for _, title in update["keys"]]
        assert "open" in titles and "keys" in titles
        assert not {"quit", "relaunch", "handoff", "log entry"} & {*titles}
        own.engine.silent = "nobody watches"
        assert (await viewer.until('"critical": null'))["critical"] is None
        viewer.writer.close()


ORIGIN, AT = "https://ops.example", "https://ops.example/cockpit/"
TOKEN = "s" * 32


@pytest.mark.parametrize("host", ["ops.example", "127.0.0.1:8765"])
@pytest.mark.parametrize("target", ["/frames", "/cockpit/frames"])
async def test_behind_a_proxy_the_link_opens_with_and_without_its_path(
    host: str, target: str
) -> None:
    async with serving(AT) as own:
        assert own.server.link.startswith(f"{AT}#")
        headers = (f"Host: {host}", f"Origin: {ORIGIN}", "X-Forwarded-For: 203.0.113.9")
        word = f"link {token_of(own.server.link)}"
        viewer = await Viewer.connect(own.server.port, word, *headers, target=target)
        assert "seat" in await viewer.hear()
        stranger = await Viewer.connect(own.server.port, "none", *headers, target=target)
        assert "refused" in await stranger.hear()
        for page in ("/cockpit/", "/cockpit/view.js", "/view.css"):
            assert (await own.ask(page)).startswith("HTTP/1.1 200 ")
        assert "Location: /cockpit/\r\n" in await own.ask("/cockpit")
        assert (await own.ask("/cockpit/x")).startswith("HTTP/1.1 404 ")
        for each in (viewer, stranger):
            each.writer.close()


async def test_whom_the_proxy_has_let_in_needs_no_link() -> None:
    async with serving(AT, TOKEN) as own:
        link, host = own.server.link, "Host: ops.example"
        vouched = (host, f"Origin: {ORIGIN}", f"X-Cockpit-Token: {TOKEN}")
        viewer = await Viewer.connect(own.server.port, "none", *vouched)
        seat = (await viewer.hear())["seat"]
        again = await Viewer.connect(own.server.port, seat, *vouched)
        assert (await again.hear())["seat"] == seat
        assert own.server.link == link and own.told == []
        for headers in (
            (host, f"Origin: {ORIGIN}", f"X-Cockpit-Token: {TOKEN[1:]}"),
            (host, f"Origin: {ORIGIN}"),
            ("Host: localhost", "Origin: http://localhost", f"X-Cockpit-Token: {TOKEN}"),
        ):
            stranger = await Viewer.connect(own.server.port, "none", *headers)
            assert "refused" in await stranger.hear()
            stranger.writer.close()
        for each in (viewer, again):
            each.writer.close()


async def test_who_floods_us_holds_up_nobody_else() -> None:
    async with serving() as own:
        flood, other = await seated(own), await seated(own)
        for _ in range(5000):
            flood.say("ArrowDown")
            flood.say("tap 3x3")
        other.say("Enter")
        await until(own.pilot, lambda: isinstance(own.app.screen, RunScreen))
        for each in (flood, other):
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


FOLLOWS = "shown.width === cut().columns && shown.height === cut().rows"
"""Whether the screen has the cells of the page's own window."""
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium here: apt-get install chromium"
)


@needs_chromium
async def test_in_chromium_the_screen_is_painted_and_keys_turn_it(tmp_path: Path) -> None:
    async with serving() as own, chromium(tmp_path / "one") as page:
        link = own.server.link
        await page.go(link)
        painted = await page.until("run-failed")
        assert "READ-ONLY" in painted
        await page.true(FOLLOWS)
        assert len((await page.text()).splitlines()) == own.app.size.height > 30
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


@needs_chromium
async def test_in_chromium_a_phone_gets_text_it_can_read_and_taps(tmp_path: Path) -> None:
    async with serving() as own, chromium(tmp_path / "one", 390, 844, mobile=True) as page:
        await page.go(own.server.link)
        await page.until("run-failed")
        for width, height in ((390, 844), (844, 390), (390, 420)):  # turned; with the keyboard
            await page.resize(width, height, mobile=True)
            await page.true(FOLLOWS)
            assert own.app.size.width >= 58
            assert await page.value("parseFloat(getComputedStyle(screen_).fontSize)") >= 11
            fits = "screen_.offsetWidth <= innerWidth && bar.offsetHeight >= 44"
            assert await page.value(f"{fits} && document.body.scrollHeight <= innerHeight")
        assert await page.value("document.title") == "2 critical · cockpit"
        await page.tap("run-failed")
        await page.until("1 log")
        await page.tap("esc back")
        await page.until("/ filter")
        await page.value("[...bar.children].find((each) => each.textContent === 'filter').click()")
        await page.until("filter: words")
        await page.value("typed.focus()")
        await page.call("Input.imeSetComposition", text="faile", selectionStart=5, selectionEnd=5)
        await page.call("Input.insertText", text="failed")
        await page.until("1 of 5")
        own.server.close()
        await page.true("document.title.startsWith('?') && !trouble.hidden")
        assert page.complaints == [] or "WebSocket" in page.complaints[0]
