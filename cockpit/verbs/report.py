"""``cockpit report``: what happened to the runs since a time, what was done, what is open."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from functools import partial

from cockpit.model.base import rfc3339
from cockpit.model.clock import SystemClock
from cockpit.model.report import URGENCY
from cockpit.model.run import RunSpec
from cockpit.model.summary import RunSummary
from cockpit.runtime.offload import offload
from cockpit.store.store import Store, StoreError, run_key
from cockpit.text.times import read_moment
from cockpit.verbs.common import (
    OK,
    UsageError,
    opened_store,
    print_document,
    put,
    run_file,
    run_named,
    takes,
)
from cockpit.verbs.reading import write_picture
from cockpit.verbs.report_page import html, markdown, text_lines
from cockpit.watch.summary import summary

EXAMPLE = "example: cockpit report --since 22:00 --html report.html"
READ_WITHIN = 60.0
WIDTH = 80


TAKES = """
runs
--since TIME: from when on: 22:00 (the last one, UTC), '9h ago' or RFC 3339
--html FILE: write one page that loads nothing else
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``report`` takes."""
    parser.description = (
        "Prints for each run, the worst first, what is open and the next safe action, how far it "
        "came, what it cost, what happened, what was done and by whom, and when nobody watched. "
        "All of it is what the cockpits of this machine have seen and done: nothing is asked anew."
    )
    parser.epilog = EXAMPLE
    takes(parser, TAKES, since={"type": past_instant, "required": True})
    printed = parser.add_mutually_exclusive_group()
    takes(printed, "--markdown: print Markdown, such as for a comment of an issue")
    takes(parser, "--config")
    takes(printed, "--json")


def past_instant(text: str) -> float:
    """Return epoch seconds of a moment that is over (no zone means UTC); raises for argparse."""
    try:
        return read_moment(text, SystemClock().now())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Print the report; return 0. Raises ``UsageError`` for a run that is not there."""
    file = run_file(args.config)
    specs = [run_named(file, name) for name in dict.fromkeys(args.runs)] or list(file.runs)
    until = SystemClock().now()
    try:
        with opened_store(read_only=True) as store:
            read = partial(_summaries, store, file.path, specs, args.since, until)
            found = asyncio.run(offload(read, deadline=READ_WITHIN))
    except (StoreError, TimeoutError) as error:
        raise UsageError(str(error)) from error
    if args.html is not None:
        write_picture("--html", args.html, html(found, args.since, until))
    if args.json:
        runs = [each.document() for each in found]
        times = {"since": rfc3339(args.since), "until": rfc3339(until)}
        print_document({"schema": 1, **times, "runs": runs})
    elif args.markdown:
        put(markdown(found, args.since, until))
    elif args.html is None:
        width = min(120, max(40, shutil.get_terminal_size((WIDTH, 24)).columns))
        put("\n".join(text_lines(found, args.since, until, width)))
    return OK


def _summaries(
    store: Store | None, file: str, specs: list[RunSpec], since: float, until: float
) -> list[RunSummary]:
    """Return what is kept of each run, the worst first; blocking."""
    found = [summary(store, run_key(file, each.name), each, since, until) for each in specs]
    return sorted(found, key=lambda each: URGENCY.index(each.verdict))
