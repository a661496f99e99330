"""``cockpit open``: the terminal UI. Bare ``cockpit`` is the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.app.kept_frame import give_back
from cockpit.app.palette import leave_out_palette
from cockpit.config.file import find, store_path
from cockpit.config.quickstart import quick_imports
from cockpit.model.run import CockpitFile
from cockpit.store.store import Opening
from cockpit.verbs.common import (
    NO_FILE,
    UsageError,
    check_screen,
    helps,
    is_terminal,
    run_file,
    run_named,
)

if TYPE_CHECKING:
    import argparse

NO_TERMINAL = (
    "the terminal UI needs a terminal on standard input and output; "
    "`cockpit check` prints the same state"
)


HELP = """
Opens the fleet, or one run. Without a run file it shows a welcome page.

run_name RUN: open this run's screen
--config
--read-only: nothing can act
--present: for a shared screen: read-only; hosts, users, paths and secrets masked
--ascii: draw with ASCII characters only

example: cockpit open hero-7b --read-only
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``open`` takes."""
    helps(parser, HELP, run_name={"nargs": "?"})


def run(args: argparse.Namespace) -> int:
    """Open the UI; return its exit code."""
    try:
        return _open(args)
    finally:
        give_back()  # whatever is told of a fault belongs on the terminal as it was


def _open(args: argparse.Namespace) -> int:
    on_terminal = is_terminal(sys.stdin, sys.stdout)
    file = _file(args, on_terminal=on_terminal)
    if not on_terminal:
        raise UsageError(NO_TERMINAL)
    check_screen()
    opening = None if file is None else Opening(store_path())  # a new one waits for the disk
    leave_out_palette()
    with quick_imports():
        from cockpit.app.opening import run_app

    return run_app(
        file,
        run=args.run_name,
        read_only=args.read_only or args.present,
        present=args.present,
        ascii=args.ascii,
        opening=opening,
    )


def _file(args: argparse.Namespace, *, on_terminal: bool) -> CockpitFile | None:
    """Return the run file, or ``None`` for the welcome; a broken file is a ``UsageError``."""
    if args.config is None and find(Path.cwd()) is None:
        if on_terminal:
            return None
        raise UsageError(NO_FILE)
    file = run_file(args.config)
    if args.run_name is not None:
        run_named(file, args.run_name)
    return file
