"""``cockpit demo``: seven real small training runs, and the UI on them."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cockpit.config.file import load, state_dir
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.report import FleetReport
from cockpit.runtime.own_path import Library
from cockpit.verbs.check import checked
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    check_screen,
    is_terminal,
    put_answer,
    say,
    takes,
)
from cockpit.verbs.table import fleet_lines

if TYPE_CHECKING:
    from cockpit.demo.away.site import Site
    from cockpit.demo.layout import DemoLayout
    from cockpit.demo.session import DemoFleet

PATIENCE = 120.0
"""Seconds in which every situation must exist."""
AWAY_PATIENCE = 300.0
"""The same on another system, where jobs wait for their turn."""
POLL_EVERY = 1.0
HEADLESS_PATIENCE = 10.0
"""Seconds in which the runs may save and leave by themselves: their files are looked at later."""
LEAVING_PATIENCE = 1.0
"""The same when a person leaves the UI and waits: the next demo starts again anyway."""
NOT_MADE = 70
EXAMPLE = "example: cockpit demo --headless --json --dir /tmp/demo"
DESCRIPTION = """\
Starts seven small, real training runs, makes things go wrong with them, and opens the terminal UI
on them. Leaving stops them. With --on the runs are submitted to a system of yours, each a job of
one CPU that ends by itself within 65 minutes; leaving cancels them by their ids and removes all
files. On Slurm the folder (--dir) must lie on a file system that login and compute nodes share,
and so must the Python; over ssh it is a folder of its own in the home there. On Ray they are
drivers on the head's machine; one that does not see the folder is sent the files by a job, and
then no checkpoints can be shown. The head keeps the drivers' logs until it ends. On a box they are
processes with a folder in the home. On Kubernetes they are Jobs of one namespace; their files are
in a config map, and no checkpoints can be shown.
"""
SYSTEMS: Final = ("slurm", "ray", "box", "kubernetes")
RAY_ADDRESS: Final = "RAY_ADDRESS"
USUAL_RAY: Final = "http://127.0.0.1:8265"

ENGINE_LEAVES: Final = 3.0
"""Seconds within which the engine ends after its last window."""


TAKES = f"""
--dir D: the demo's folder
--keep: leave the runs running
--headless: no UI: wait for every situation, check once, print, stop the runs
--clean: stop and remove everything
--on: run it on this system (default: here)
--host H: box: the ssh host; slurm: the login node (default: here)
--address URL: ray: the dashboard (default: ${RAY_ADDRESS}, {USUAL_RAY})
--python P: with --on: the Python that trains there
--sbatch OPTIONS: slurm: as in --sbatch='-p debug -A x'
--context C: kubernetes: of the kubeconfig (its current)
--namespace N: kubernetes: default: the context's
--image I: kubernetes: one with a Python (python:3.12-slim)
--json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``demo`` takes."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLE
    takes(parser, TAKES, dir={"type": Path}, on={"choices": SYSTEMS}, sbatch={"default": ""})


def run(args: argparse.Namespace) -> int:
    """Run the demo; return INTERFACE's exit code.

    Headless that is 0 when every situation was reached: the alerts in them are what was asked for.
    """
    _check_call(args)
    with Library("git", "the demo"):
        from cockpit.demo.away.session import JournalError, LeftError
        from cockpit.demo.folder import FolderError
        from cockpit.demo.layout import DemoBusyError, DemoLayout
    from cockpit.platforms.base import CannotError, LostError

    name = "demo" if args.on is None else f"demo-{args.on}"
    layout = DemoLayout((args.dir or state_dir() / name).expanduser().absolute())
    try:
        if args.clean:
            return _clean(layout)
        return _demo(layout, args) if args.on is None else _away(layout, args)
    except FolderError as error:
        raise UsageError(str(error)) from error
    except DemoBusyError as error:
        say(str(error))
        return BLOCKED
    except LostError as error:
        say(f"{error}; outcome unknown; --clean removes whatever is there")
        return NOT_MADE
    except (CannotError, LeftError, JournalError) as error:
        say(str(error))
        return NOT_MADE


def _check_call(args: argparse.Namespace) -> None:
    if args.json and not args.headless:
        raise UsageError("--json prints a check: it goes with --headless")
    if args.clean and (args.headless or args.keep):
        raise UsageError("--clean removes the demo: it goes with --dir alone")
    _check_system(args)
    if not args.clean and shutil.which("git") is None:
        raise UsageError("git is not installed; the demo keeps code and logbooks in git")
    if not (args.clean or args.headless) and not is_terminal(sys.stdin, sys.stdout):
        raise UsageError("the UI needs a terminal; without one use --headless")
    if not (args.clean or args.headless):
        check_screen()


def _check_system(args: argparse.Namespace) -> None:
    if args.on is None and (args.host or args.address or args.python or args.sbatch):
        raise UsageError("--host, --address, --python and --sbatch go with --on")
    if (args.context or args.namespace or args.image) and args.on != "kubernetes":
        raise UsageError("--context, --namespace and --image go with --on kubernetes")
    if args.host and args.on in ("ray", "kubernetes"):
        name = "a Ray head is named by --address" if args.on == "ray" else "a cluster by --context"
        raise UsageError(f"{name}, not by --host")
    if args.address and args.on != "ray":
        raise UsageError("--address goes with --on ray")
    if args.sbatch and args.on != "slurm":
        raise UsageError("--sbatch goes with --on slurm")
    if args.on == "box" and not args.host and not args.clean:
        raise UsageError("name the box: cockpit demo --on box --host H")
    try:
        shlex.split(args.sbatch)
    except ValueError as error:
        raise UsageError(f"--sbatch: {error}") from None


def _clean(layout: DemoLayout) -> int:
    from cockpit.demo.away.session import remove
    from cockpit.demo.folder import FolderError
    from cockpit.demo.layout import Lock

    if not layout.folder.exists():
        say(f"{layout.folder}: there is nothing to remove")
        return OK
    if not layout.marker.exists() and any(layout.folder.iterdir()):
        raise FolderError(f"{layout.folder} was not made by `cockpit demo`; nothing is removed")
    with Lock(layout.lock):
        remove(layout)
    return OK


def _demo(layout: DemoLayout, args: argparse.Namespace) -> int:
    from cockpit.demo import folder
    from cockpit.demo.layout import Lock
    from cockpit.demo.session import prepare, running

    folder.take(layout)
    if layout.away.exists():
        text = f"{layout.folder} belongs to a demo on another system: remove that one with --clean"
        raise folder.FolderError(f"{text}, or name another --dir")
    ending = Ending()
    with Lock(layout.lock):
        if prepare(layout):
            say(f"the runs kept in {layout.folder} are still there: returning to them")
        patience = HEADLESS_PATIENCE if args.headless else LEAVING_PATIENCE
        with running(layout, keep=args.keep, patience=patience) as fleet:
            code = _headless(layout, fleet, args, ending) if args.headless else _open(layout)
            if args.keep:
                say(f"the runs go on in {layout.folder}; `cockpit demo` returns to them")
            elif not args.headless:
                say("stopping the demo's runs")
        if fleet.trouble is not None:
            say(fleet.trouble)
    return code


class Ending:
    """A signal that ends the demo (exit code 128 + its number).

    It is kept: what a handler raises while a finalizer runs is printed on stderr and lost.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def heed(self) -> None:
        """Leave if it has come."""
        if self._number is not None:
            sys.exit(128 + self._number)

    def _on_signal(self, number: int, _: object) -> None:
        self._number = number
        self.heed()


def _away(layout: DemoLayout, args: argparse.Namespace) -> int:
    from cockpit.demo import folder
    from cockpit.demo.away.session import prepare, running
    from cockpit.demo.layout import Lock

    site = _site(layout, args)
    folder.take(layout)
    ending = Ending()
    with Lock(layout.lock):
        journal = prepare(layout, site)
        if journal.ground is not None and not journal.ground.seen:
            say(f"{site.where} does not see {layout.folder}: no checkpoints, and no torn one")
        if journal.jobs:
            say(f"the runs kept on {site.where} are still there: returning to them")
        with running(journal, keep=args.keep) as fleet:
            code = _headless(layout, fleet, args, ending) if args.headless else _open(layout)
            say(f"the runs go on on {site.where}" if args.keep else f"removing all on {site.where}")
    if fleet.trouble is not None:
        say(fleet.trouble)
    return code


def _site(layout: DemoLayout, args: argparse.Namespace) -> Site:
    from cockpit.demo.away.kinds import BoxSite, RaySite, SlurmSite
    from cockpit.demo.away.kubernetes import KubernetesSite

    if args.on == "kubernetes":
        own = (args.context, args.namespace, args.image, args.python)
        return KubernetesSite(*own, str(layout.folder))
    if args.on == "slurm":
        return SlurmSite(args.host, args.python, args.sbatch)
    if args.on == "box":
        return BoxSite(args.host, args.python)
    named = os.environ.get(RAY_ADDRESS, "")
    usual = named if named.startswith(("http://", "https://")) else USUAL_RAY
    return RaySite(args.address or usual, args.python)


def _open(layout: DemoLayout) -> int:
    from cockpit.app.opening import run_app
    from cockpit.attach.meeting import wait_until_left

    file = load(layout.run_file)
    code = run_app(file, tour=True)
    wait_until_left(file.path, ENGINE_LEAVES)  # what it still writes would outlive the demo
    return code


def _headless(
    layout: DemoLayout, fleet: DemoFleet, args: argparse.Namespace, ending: Ending
) -> int:
    patience = PATIENCE if args.on is None else AWAY_PATIENCE
    report, missing = asyncio.run(_until_made(layout, fleet, patience, SystemClock(), ending))
    put_answer(args.json, report.document, lambda: fleet_lines(report))
    for line in missing if fleet.trouble is None else ():
        say(line)
    return NOT_MADE if missing else OK


async def _until_made(
    layout: DemoLayout, fleet: DemoFleet, patience: float, clock: Clock, ending: Ending
) -> tuple[FleetReport, tuple[str, ...]]:
    """Return the first check that sees every situation, or the last one and what is missing."""
    from cockpit.demo.situations import missing

    file = load(layout.run_file)
    deadline = clock.monotonic() + patience
    while True:
        report = await checked(file, [], clock)
        ending.heed()
        lines = missing(report, fleet.situations)
        if not lines or fleet.trouble is not None or clock.monotonic() >= deadline:
            return report, lines
        await clock.sleep(POLL_EVERY)
