"""``cockpit check``: one check of every facet and every rule, now (writes nothing)."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime

from cockpit.model.clock import Clock, FixedClock, SystemClock
from cockpit.model.report import FleetReport
from cockpit.model.run import CockpitFile
from cockpit.sources.logs.spool import passing
from cockpit.verbs.common import (
    UsageError,
    exit_code,
    helps,
    opened_store,
    put_answer,
    run_file,
    say,
)
from cockpit.verbs.table import fleet_lines
from cockpit.watch.asking import Sources
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import UnknownRunError

DEADLINE = 20.0


HELP = """
Checks every facet of every run once and prints the result; writes nothing. Exit code: 0 all
healthy, 1 something needs attention, 2 usage or configuration, 3 nothing could be observed.

runs --config --json
--now TIME: judge as if it were this time (RFC 3339)

example: cockpit check demo-slow --config cockpit.toml --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``check`` takes."""
    helps(parser, HELP, now={"type": instant})


def run(args: argparse.Namespace) -> int:
    """Check and print; return INTERFACE's exit code."""
    file = run_file(args.config)
    clock = SystemClock() if args.now is None else FixedClock(args.now)
    report = asyncio.run(checked(file, args.runs, clock))
    put_answer(args.json, report.document, lambda: fleet_lines(report))
    return exit_code(report)


async def checked(
    file: CockpitFile, names: list[str], clock: Clock, sources: Sources | None = None
) -> FleetReport:
    """Return what one check sees; raises ``UsageError`` for a run that is not in the file."""
    until = time.monotonic() + DEADLINE
    with opened_store(read_only=True) as store:
        engine = Engine(file, store=store, clock=clock, sources=sources)
        try:
            with passing():
                report = await engine.check(names or None, until - time.monotonic())
        except UnknownRunError as error:
            raise UsageError(str(error)) from error
    for notice in engine.notices:
        say(notice)
    return report


def instant(text: str) -> float:
    """Return epoch seconds for RFC 3339 text (no zone means UTC); raises for argparse."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; expected 2026-03-11T08:57:00Z"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
