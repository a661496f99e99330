"""A headless Chromium, driven over its debugging pipe: pages, keys, requests, pictures."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
_PIPED = (
    "import os, sys, fcntl as f; a, b = (f.fcntl(int(n), f.F_DUPFD, 20) for n in sys.argv[1:3]); "
    "os.dup2(a, 3); os.dup2(b, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""Its debugging pipe is descriptors 3 (commands) and 4 (answers)."""
WITHIN = 60.0
"""Seconds for one answer, on a busy machine."""


class Page:
    """One tab: what it asked for, what its console said, and what can be done with it."""

    def __init__(self, reader: asyncio.StreamReader, out: int) -> None:
        self._reader = reader
        self._out = out
        self._last = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session: dict[str, str] = {}
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def open(self, width: int, height: int, mobile: bool) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        given = {"targetId": target["targetId"], "flatten": True}
        self._session = {
            "sessionId": (await self.call("Target.attachToTarget", **given))["sessionId"]
        }
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.resize(width, height, mobile)
        await self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)

    async def resize(self, width: int, height: int, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1 + mobile}
        await self.call("Emulation.setDeviceMetricsOverride", **size, mobile=mobile)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        future = self._answers[self._last] = asyncio.get_running_loop().create_future()
        said = {"id": self._last, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(said).encode() + b"\0")
        return await asyncio.wait_for(future, WITHIN)

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def text(self) -> str:
        """Return the painted rows, one a line."""
        rows = "[...document.querySelectorAll('.row')].map(e => e.textContent).join('\\n')"
        return str(await self.value(rows) or "")

    async def until(self, words: str, where: str = "#screen") -> str:
        """Wait until something is painted; return all rows."""
        place, wanted = json.dumps(where), json.dumps(words)
        await self.true(f"document.querySelector({place})?.textContent.includes({wanted})")
        return await self.text()

    async def true(self, expression: str) -> None:
        """Wait until an expression is true."""
        look = (
            f"new Promise((done) => {{ const look = () => ({expression})"
            " ? done(1) : requestAnimationFrame(look); look(); })"
        )
        async with asyncio.timeout(WITHIN):
            found: dict[str, Any] = {}
            while found.get("result", {}).get("value") != 1:  # a page that follows ends the look
                found = await self.call("Runtime.evaluate", expression=look, awaitPromise=True)

    async def tap(self, words: str) -> None:
        """Tap the first place where words are painted."""
        wanted = json.dumps(words)
        x, y = await self.value(
            "(() => { const row = [...document.querySelectorAll('.row')]"
            f".find((each) => each.textContent.includes({wanted}));"
            "const { left, top, width, height } = row.getBoundingClientRect();"
            f"const cell = row.textContent.indexOf({wanted}) + 1.5;"
            "return [left + cell * width / shown.width, top + height / 2]; })()"
        )
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            await self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    async def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def picture(self) -> bytes:
        """Return what is shown, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                said = json.loads((await self._reader.readuntil(b"\0"))[:-1])
                self._take(said.get("method", ""), said.get("params", {}), said)

    def _take(self, method: str, params: dict[str, Any], said: dict[str, Any]) -> None:
        if "id" in said and said["id"] in self._answers:
            future = self._answers.pop(said["id"])
            if not future.done():
                future.set_result(said.get("result", said.get("error", {})))
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(params["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))


@asynccontextmanager
async def chromium(
    home: Path, width: int = 1400, height: int = 900, mobile: bool = False
) -> AsyncIterator[Page]:
    """Run one until the block ends; ``home`` is its profile."""
    assert PROGRAM is not None, "asked for where there is one"
    theirs, out = os.pipe()
    back, mine = os.pipe()
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PIPED, str(theirs), str(mine), PROGRAM, *FLAGS),
        *(f"--user-data-dir={home}", "about:blank"),
        pass_fds=(theirs, mine), stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    os.close(mine)
    reader = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(back, "rb")
    )
    page = Page(reader, out)
    try:
        await page.open(width, height, mobile)
        yield page
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
        transport.close()
        os.close(out)
        page._reading.cancel()
