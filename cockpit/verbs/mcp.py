"""``cockpit mcp``: the Model Context Protocol on stdio, for an agent at the same desk."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from functools import partial
from typing import Any, BinaryIO, Final

from cockpit.app.replaying import replayed
from cockpit.mcp.desk import Desk, Verbs, agent_name
from cockpit.mcp.wire import Input, Output, protocol_streams
from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.runtime.own_path import Library
from cockpit.store.store import Store
from cockpit.verbs.common import OK, UsageError, helps, opened_store, run_file
from cockpit.verbs.history import document, known_past

WRITES_WITHIN: Final = 2.0


HELP = """
Serves an agent over standard input and output until its client goes. It reads what a person sees,
plans any action, and acts with a plan's id and its words within [agents] may, after a grace in
which a person can veto. What is printed besides goes to stderr.

--name NAME: what the agent goes by: agent:NAME (default: its client's own name)
--config

example: cockpit mcp --config runs/cockpit.toml --name night-watch
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``mcp`` takes."""
    helps(parser, HELP)


def run(args: argparse.Namespace) -> int:
    """Serve; return 0 once the client has gone. What has begun by then ends first."""
    name = None if args.name is None else agent_name(args.name)
    if name == "":
        raise UsageError("--name: expected letters, digits, '.', '_' or '-'")
    with Library("mcp", "cockpit mcp"):
        import mcp.server  # noqa: F401 - to say so before anything is opened
    file = run_file(args.config)
    source, sink = protocol_streams()
    output = Output(sink)
    with opened_store(read_only=False) as store:
        try:
            asyncio.run(_serve(file, store, name, source, output))
        finally:
            output.close(WRITES_WITHIN)
    return OK


async def _serve(
    file: CockpitFile, store: Store | None, name: str | None, source: BinaryIO, output: Output
) -> None:
    from cockpit.mcp.session import Session

    clock, verbs = SystemClock(), Verbs(history=partial(_history, store), backtest=replayed)
    desk = Desk(file, store, clock, verbs, name)
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, leaving.set)
    keeping = asyncio.ensure_future(desk.calls.keep())
    try:
        await Session(desk).serve(Input(source), output, leaving)
    finally:
        keeping.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WRITES_WITHIN):
                await desk.leave()


async def _history(
    store: Store | None, file: CockpitFile, spec: RunSpec, until: float | None
) -> dict[str, Any]:
    return document(await known_past(store, file, spec, until))
