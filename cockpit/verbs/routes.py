"""``doctor`` on ``[notify]``: can each route be used from here, and does a test message arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cockpit.model.alert import Severity
from cockpit.model.clock import Clock
from cockpit.model.run import CockpitFile
from cockpit.notify.channels import NOT_SET, Channels, terminal_of_this_process
from cockpit.notify.heartbeat import Heartbeat
from cockpit.notify.message import Delivery, Message
from cockpit.notify.routes import Named
from cockpit.verbs.findings import Finding

TRY_AGAIN: Final = "set the variable to the address as the service shows it, and try again"
LOOK_THERE: Final = "look whether it arrived; if it did, the service only answers late"
REMEDIES: Final = {
    "terminal": "run it in a terminal; without one this route is passed over",
    "desktop": "run it in a desktop session with notify-send; else this route is passed over",
    "command": "run the command by hand; it gets the message on standard input",
}


async def route_findings(file: CockpitFile, clock: Clock, *, send: bool) -> list[Finding]:
    """Return a finding for each route and for the dead man's switch; with ``send``, try them."""
    channels = Channels(
        file.notify, folder=str(Path(file.path).parent), ring=terminal_of_this_process()
    )
    if send and not channels.routes:
        remedy = 'add [notify] routes = [{ min = "alert", url_env = "SLACK_URL" }]'
        text = "no route: nobody is told of anything"
        return [Finding(name="notify", level="problem", text=text, remedy=remedy)]
    tests = (_tested(channels, route, clock.now(), send=send) for route in channels.routes)
    return [*await asyncio.gather(*tests), *_switch(file, clock)]


async def _tested(channels: Channels, route: Named, now: float, *, send: bool) -> Finding:
    trouble = channels.trouble(route)
    if trouble is not None:
        return _unusable(route, trouble)
    if not send:
        return _finding(route, "ok", "can be used from here (--notify sends a test)", None)
    delivery = await channels.deliver(_test_message(now), route)
    if delivery.ok:
        return _finding(route, "ok", f"a test message was sent: {delivery.note}", None)
    return _finding(route, "problem", f"failed: {delivery.note}", _remedy(route, delivery))


def _test_message(now: float) -> Message:
    return Message(
        run="cockpit",
        event=f"test {now:.3f}",
        title="[test] cockpit: this is how an alert reaches you",
        body="sent by `cockpit doctor --notify`; nothing is wrong",
        severity=Severity.INFO,
    )


def _unusable(route: Named, trouble: str) -> Finding:
    if route.local:
        return _finding(route, "note", trouble, REMEDIES[route.kind])
    if trouble == NOT_SET:
        remedy = f"export {route.route.url_env}=… where the cockpit and its watch are started"
        return _finding(route, "problem", f"{route.route.url_env} is not set", remedy)
    return _finding(route, "problem", trouble, "correct this route in the run file")


def _remedy(route: Named, delivery: Delivery) -> str:
    return LOOK_THERE if delivery.lost else REMEDIES.get(route.kind, TRY_AGAIN)


def _switch(file: CockpitFile, clock: Clock) -> Iterator[Finding]:
    heartbeat = Heartbeat(file.notify, clock)
    if not heartbeat.wanted:
        return
    variable, trouble = file.notify.heartbeat_url_env, heartbeat.trouble()
    yield Finding(
        name="dead man's switch",
        level="ok" if trouble is None else "problem",
        text=f"{variable} is set; `watch` pings it" if trouble is None else trouble,
        remedy=None if trouble is None else f"export {variable}=… where the watch is started",
    )


def _finding(route: Named, level: str, text: str, remedy: str | None) -> Finding:
    return Finding.model_validate(
        {"name": f"notify {route.name}", "level": level, "text": text, "remedy": remedy}
    )
