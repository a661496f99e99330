"""``cockpit doctor``: what is installed, reachable and authorised; each finding with its remedy."""

from __future__ import annotations

import argparse
import asyncio
import curses
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cockpit import __version__
from cockpit.config import find, store_path
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.report import FleetReport, RunReport
from cockpit.store.store import Store, StoreError
from cockpit.verbs.check import checked
from cockpit.verbs.common import (
    ATTENTION,
    NO_FILE,
    OK,
    USAGE,
    UsageError,
    add_json,
    add_runs,
    print_document,
    put,
    run_file,
)
from cockpit.verbs.findings import Finding, Level
from cockpit.verbs.routes import route_findings

EXAMPLE = "example: cockpit doctor --config cockpit.toml --json"
PACKAGES = (*("textual", "rich", "wandb", "httpx", "gitpython", "plotext", "pydantic", "apprise"),)
PYTHON = (3, 11)
PROGRAMS = {
    "git": "install git: the code and logbook facets, and every record, need it",
    "ssh": "install an OpenSSH client if any run lives on another host",
    "tmux": "install tmux to keep the cockpit open on a machine you leave",
}
NEEDED = ("git",)
COLOURS = 256
REMEDIES = {
    ErrorKind.UNAUTHORIZED: "log in again, or set the variable that the run file names",
    ErrorKind.FORBIDDEN: "ask for access: the credentials are good, the right is missing",
    ErrorKind.NOT_FOUND: "compare the path or id in the run file with what is there",
    ErrorKind.RATE_LIMITED: "wait: it is asked for less often by itself",
    ErrorKind.TIMEOUT: "look whether the file system or host answers at all",
    ErrorKind.REFUSED: "look whether the service runs, and at its address in the run file",
    ErrorKind.DNS: "look at the host's name in the run file, and at the network",
    ErrorKind.TLS: "look at the certificate and the machine's clock",
    ErrorKind.BAD_ANSWER: "look at the file or service itself: its answer makes no sense",
    ErrorKind.PERMISSION: "give this user the right to read it",
    ErrorKind.NOT_CONFIGURED: "add it to the run file to see this facet",
}


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``doctor`` to the table of verbs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "doctor",
        help="what is installed, reachable, authorised; remedies",
        description="Looks at the installation, the terminal, the store, the run file, and asks "
        "every facet of every run once. Exit code: 0 no problem, 1 a problem, 2 the run file.",
        epilog=EXAMPLE,
    )
    add_runs(parser)
    add_json(parser)
    parser.add_argument(
        "--notify", action="store_true", help="send a test message by every route of [notify]"
    )


def run(args: argparse.Namespace) -> int:
    """Look at everything, print the findings; return 0, 1 or 2."""
    findings = [*_installation(), *_terminal(), _store()]
    about_file, usable = _run_file(args.config)
    findings += about_file
    if usable:
        file = run_file(args.config)
        findings += asyncio.run(route_findings(file, SystemClock(), send=args.notify))
        findings += _facets(asyncio.run(checked(file, args.runs, SystemClock())))
    if args.json:
        print_document({"schema": 1, "findings": [finding.to_json() for finding in findings]})
    else:
        put("\n".join(_lines(findings)))
    if any(finding.name == "run file" and finding.level == "problem" for finding in findings):
        return USAGE
    return ATTENTION if any(finding.level == "problem" for finding in findings) else OK


def _installation() -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= PYTHON
    yield _finding("cockpit", True, __version__)
    yield _finding("python", good, version, "use Python 3.11 or newer")
    for name in PACKAGES:
        yield _package(name)
    for name, remedy in PROGRAMS.items():
        place = shutil.which(name)
        text = place or "not installed"
        yield _finding(name, place is not None, text, remedy, needed=name in NEEDED)


def _package(name: str) -> Finding:
    try:
        return _finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return _finding(name, False, "not installed", f"python -m pip install {name}")


def _terminal() -> Iterator[Finding]:
    term = os.environ.get("TERM", "")
    yield _finding("TERM", bool(term), term or "not set", "set TERM", needed=sys.stdout.isatty())
    colours = _colours(term)
    text = "24-bit" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else str(colours)
    remedy = "set TERM=xterm-256color, and COLORTERM=truecolor if the terminal can"
    yield _finding("colours", colours >= COLOURS, text, remedy, needed=False)
    yield _finding("inside tmux", True, "yes" if os.environ.get("TMUX") else "no")


def _colours(term: str) -> int:
    try:
        curses.setupterm(term or "dumb", fd=sys.__stdout__.fileno() if sys.__stdout__ else -1)
    except (curses.error, OSError, ValueError):
        return 0
    return max(0, curses.tigetnum("colors"))


def _store() -> Finding:
    path = store_path()
    try:
        with Store(path).writing():
            pass
    except StoreError as error:
        return _finding("store", False, str(error), "without it nothing is remembered")
    return _finding("store", True, f"{path} can be written")


def _run_file(config: Path | None) -> tuple[list[Finding], bool]:
    if config is None and find(Path.cwd()) is None:
        return [_finding("run file", False, NO_FILE, needed=False)], False
    try:
        file = run_file(config)
    except UsageError as error:
        return [_finding("run file", False, line, "edit this line") for line in error.lines], False
    return [_finding("run file", True, f"{file.path}: {len(file.runs)} runs")], True


def _facets(report: FleetReport) -> Iterator[Finding]:
    for each in report.runs:
        for name, facet in each.facets.items():
            yield _facet(each, name, facet)


def _facet(run: RunReport, name: str, facet: Facet[Any]) -> Finding:
    if facet.error is None:
        return Finding(name=name, level="ok", text=facet.source, run=run.name)
    level: Level = "problem" if facet.configured else "note"
    return Finding(
        name=name,
        level=level,
        text=f"{facet.error.kind.value}: {facet.error.message}",
        remedy=REMEDIES[facet.error.kind],
        run=run.name,
    )


def _finding(
    name: str, good: bool, text: str, remedy: str | None = None, *, needed: bool = True
) -> Finding:
    level: Level = "ok" if good else "problem" if needed else "note"
    return Finding(name=name, level=level, text=text, remedy=None if good else remedy)


def _lines(findings: list[Finding]) -> Iterator[str]:
    named = [
        f"{finding.run} {finding.name}" if finding.run else finding.name for finding in findings
    ]
    width = max(len(name) for name in named)
    for name, finding in zip(named, findings, strict=True):
        yield f"{finding.level:<7}  {name:<{width}}  {finding.text}"
        if finding.remedy is not None:
            yield f"{'':<7}  {'':<{width}}  → {finding.remedy}"
