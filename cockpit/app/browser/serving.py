"""``cockpit serve``: the app and its listener in one process, which ends both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cockpit.app.browser.door import Seats
from cockpit.app.browser.served import ServedApp
from cockpit.app.browser.server import Server
from cockpit.app.making import make
from cockpit.app.opening import CONFIG
from cockpit.app.terminal import CRASHED
from cockpit.model.run import CockpitFile
from screens.keys import KeysError

Tell = Callable[[str], object]


def serve_app(
    file: CockpitFile, *, run: str | None, port: int, size: tuple[int, int], tell: Tell
) -> int:
    """Serve a window on a run file until a signal; return the exit status, 130 for ctrl+c.

    ``size`` is in columns and rows. ``tell`` prints one line of what a person should know: the
    link, and the next one whenever one was used. Raises ``OSError`` where it cannot listen.
    """
    made = make(file, read_only=True)
    try:
        app = ServedApp(file, made.engine, present=True, read_only=True, run=run, means=made.means)
    except KeysError as error:
        for problem in error.problems:
            tell(f"{file.path}: {problem}")
        return CONFIG
    app.trouble = made.trouble
    asyncio.run(_serve(app, port, size, tell))
    if app.crash_line is not None:
        tell(app.crash_line)
        return CRASHED
    return app.return_code or 0


async def _serve(app: ServedApp, port: int, size: tuple[int, int], tell: Tell) -> None:
    server = Server(app, Seats(), lambda link: tell(f"opened; for the next viewer: {link}"))
    await server.listen(port)
    app.on_picture = server.painted
    tell(f"a read-only window, masked as with --present, on port {server.port} of this machine")
    tell(f"from elsewhere: ssh -L {server.port}:127.0.0.1:{server.port} THIS-MACHINE; ends: ctrl+c")
    tell(f"this link opens once: {server.link}")
    try:
        await app.run_async(headless=True, size=size, mouse=False)
    finally:
        server.close()
