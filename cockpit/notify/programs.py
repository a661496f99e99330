"""Messages by a program: the desktop's own notifier, or a command of the person's."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from string import Template
from typing import Final

from cockpit.model.alert import Severity
from cockpit.model.run import Route
from cockpit.notify.message import Delivery, Message, cut
from cockpit.notify.routes import command_words
from cockpit.sources.shell import Completed, run_command

DEADLINE: Final = 15.0
DESKTOP_LIMIT: Final = 400
_APPLE: Final = "\n".join(
    (
        "on run {title, body}",
        "display notification body with title title",
        "end run",
    )
)
"""The texts are arguments: AppleScript never parses them."""


def desktop_trouble(environ: Mapping[str, str]) -> str | None:
    """Return why no desktop can be reached from here, or ``None``."""
    program = _desktop_program()
    if shutil.which(program, path=environ.get("PATH")) is None:
        return f"{program} is not installed"
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
    if program == "notify-send" and not any(environ.get(name) for name in shown):
        return "no desktop here (no DISPLAY)"
    return None


async def to_desktop(message: Message, route: str) -> Delivery:
    """Show the message on this machine's desktop."""
    body = cut(message.text, DESKTOP_LIMIT)
    if _desktop_program() == "osascript":
        argv = ["osascript", "-e", _APPLE, message.title, body]
    else:
        urgent = "critical" if message.severity is Severity.CRITICAL else "normal"
        plain = body.replace("&", "&amp;").replace("<", "&lt;")
        argv = ["notify-send", "--app-name=cockpit", f"--urgency={urgent}", "--"]
        argv += [message.title, plain]
    return _told(await run_command(argv, deadline=DEADLINE), route)


async def to_command(
    message: Message, route: Route, name: str, folder: str | None, environ: Mapping[str, str]
) -> Delivery:
    """Give the message to the route's command on standard input."""
    words = [Template(word).safe_substitute(environ) for word in command_words(route)]
    if not words:
        return Delivery(route=name, ok=False, note="the command is empty or has an open quote")
    about = {
        "COCKPIT_RUN": message.run,
        "COCKPIT_EVENT": message.event,
        "COCKPIT_SEVERITY": message.severity.value,
        "COCKPIT_TITLE": message.title,
    }
    text = f"{message.title}\n\n{message.text}".rstrip() + "\n"
    done = await run_command(words, deadline=DEADLINE, cwd=folder, env=about, stdin=text)
    return _told(done, name)


def _desktop_program() -> str:
    return "osascript" if sys.platform == "darwin" else "notify-send"


def _told(done: Completed, route: str) -> Delivery:
    """Say how a program ended; what it printed is not repeated, it may hold an address."""
    if done.ok:
        return Delivery(route=route, ok=True, note="sent")
    if done.timed_out:
        return Delivery(route=route, ok=False, note=f"no end within {DEADLINE:g} s", lost=True)
    if done.rc in (126, 127):
        return Delivery(route=route, ok=False, note="the program cannot be run (is it installed?)")
    return Delivery(route=route, ok=False, note=f"it ended with {done.rc}")
