"""``cockpit checkpoints``: what lies under one or several roots of one run (SPEC K)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from cockpit.model.clock import SystemClock
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.picking import named
from cockpit.model.run import CustomLayout
from cockpit.model.wording import age, size, steps
from cockpit.sources.checkpoints.judge import NAMES
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.text.safe import clean
from cockpit.verbs.common import BLIND, OK, UsageError, add_json, print_document, put, say

EXAMPLE: Final = "example: cockpit checkpoints runs/a/checkpoints /tmp/runs/a/checkpoints --json"
_HEAD: Final = ("", "step", "state", "kind", "size", "age", "path", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``checkpoints`` takes."""
    parser.description = (
        "Lists the checkpoints of one run: step, complete or torn, size, age, and "
        "which one a relaunch would take. Give the permanent root first. Exit code: 0 listed, "
        "2 no such path, 3 it may not be read."
    )
    parser.epilog = EXAMPLE
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a root, or one checkpoint")
    parser.add_argument(
        "--layout", default="auto", metavar="L", help=f"one of {', '.join(NAMES)} (default: auto)"
    )
    parser.add_argument("--pattern", help="custom layout: names; one group is the step")
    parser.add_argument("--marker", help="custom layout: the file that makes one complete")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List and print; return 0, or 3 for a path that may not be read.

    Raises ``UsageError`` for a path that does not exist and a layout that is not known.
    """
    now = SystemClock().now()
    try:
        value = list_checkpoints(args.paths, args.layout, _custom(args), now=now)
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else "is not a folder"
        where = clean(error.filename, 4096)
        raise UsageError(f"{where} {what}; expected a folder that holds checkpoints") from error
    except ValueError as error:
        raise UsageError(clean(error)) from error
    except OSError as error:
        say(f"{clean(error.filename, 4096)} cannot be listed: {(error.strerror or '').lower()}")
        return BLIND
    if args.json:
        print_document({"schema": 1, **value.to_json()})
    else:
        put("\n".join(table(value, now)))
    return OK


def _custom(args: argparse.Namespace) -> CustomLayout | None:
    if args.pattern is None and args.marker is None:
        return None
    if args.pattern is None or args.marker is None:
        raise UsageError(
            'a custom layout needs both --pattern and --marker (--marker "": each is one file)'
        )
    return CustomLayout(pattern=args.pattern, marker=args.marker)


def table(value: CheckpointsValue, now: float) -> list[str]:
    """Return the lines of the table, and below it what a relaunch and the trainer would take."""
    if not value.items:
        return ["no checkpoints: a relaunch would start from scratch"]
    chosen = value.relaunch_from.path if value.relaunch_from is not None else None
    rows = [_HEAD, *(_row(item, item.path == chosen, now) for item in value.items)]
    return [*_aligned(rows), *_picks(value)]


def _row(item: Checkpoint, chosen: bool, now: float) -> tuple[str, ...]:
    since = item.saved_at if item.state is CheckpointState.COMPLETE else item.touched_at
    return (
        "▸" if chosen else "",
        "?" if item.step is None else steps(item.step),
        "suspect" if item.complete and item.suspect else item.state.value,
        {True: "perm", False: "temp", None: ""}[item.permanent],
        "?" if item.size is None else size(item.size),
        "?" if since is None else age(max(0.0, now - since)),
        item.path,
        "; ".join([*filter(None, (item.suspect,)), *item.protected, *filter(None, (item.note,))]),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = {1, 4, 5}
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _picks(value: CheckpointsValue) -> list[str]:
    pick, load = value.relaunch_from, value.trainer_would_load
    whole = any(item.complete for item in value.items)
    none = "every complete one is suspect" if whole else "no checkpoint is known to be complete"
    lines = [f"{none}: nothing that a relaunch could resume from by itself"]
    if pick is not None:
        lines = [f"a relaunch would take {named(pick)} ({pick.why})"]
    if load is not None and (pick is None or load.path != pick.path):
        lines.append(f"the trainer itself would load {load.path} ({load.why})")
    return lines
