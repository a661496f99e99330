"""``cockpit doctor``: what is installed, reachable and authorised; each finding with its remedy."""

from __future__ import annotations

import argparse
import asyncio
import curses
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from cockpit import __version__
from cockpit.actions.core.wiring import build_records
from cockpit.app.for_verbs import key_problems
from cockpit.app.output.stage import in_gnu_screen
from cockpit.config.advice import shared_places, unaddressed_paths, unread_settings
from cockpit.config.file import find, store_path
from cockpit.hosts.link import know_pythons
from cockpit.model.alert import Severity
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import address_of
from cockpit.model.plan import Level
from cockpit.model.report import FleetReport, RunReport
from cockpit.model.run import CockpitFile, JobSpec, RunSpec, pythons_of, remedies_of
from cockpit.notify.answers import Reader, desk_of
from cockpit.notify.message import Message
from cockpit.notify.readers import readers_of
from cockpit.notify.routes import NOT_SET, Channels, Named, terminal_of_this_process
from cockpit.platforms.kinds import PLATFORMS
from cockpit.platforms.table import kind_of
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import RootSeats
from cockpit.runtime.account import login_name
from cockpit.runtime.buckets import BUCKETS
from cockpit.runtime.shell import run_command
from cockpit.runtime.ssh import know_remedies
from cockpit.services.notifying import Heartbeat
from cockpit.store.store import StoreError, close_to_others, described
from cockpit.text.safe import Charset, given_variables, terminal_charset
from cockpit.verbs.check import checked
from cockpit.verbs.common import (
    ATTENTION,
    NO_FILE,
    OK,
    USAGE,
    UsageError,
    helps,
    is_terminal,
    put_answer,
    run_file,
)
from cockpit.watch.asking import real_sources

REMEDIES = {
    ErrorKind.UNSUPPORTED: "check it yourself: this version cannot read it",
    ErrorKind.UNAUTHORIZED: "log in again, or set the variable named in cockpit.toml",
    ErrorKind.FORBIDDEN: "ask for access: the credentials work, the permission is missing",
    ErrorKind.NOT_FOUND: "check the path or id in cockpit.toml against what exists",
    ErrorKind.RATE_LIMITED: "wait: it is polled less often automatically",
    ErrorKind.TIMEOUT: "check whether the file system or host responds at all",
    ErrorKind.REFUSED: "check that the service is running, and its address in cockpit.toml",
    ErrorKind.DNS: "check the host name in cockpit.toml and the network",
    ErrorKind.TLS: "check the certificate and the machine's clock",
    ErrorKind.BAD_ANSWER: "check the file or service itself: its answer makes no sense",
    ErrorKind.PERMISSION: "give this user read permission",
    ErrorKind.NOT_CONFIGURED: "add it to cockpit.toml to see this facet",
}
ITS_JOB: Final = "its job"
"""In what a facet says that could be asked for only if the job were known."""
FindingLevel = Literal["ok", "note", "problem"]


class DoctorFinding(Frozen):
    """One thing that was looked at. ``remedy`` is ``None`` where all is well."""

    name: str
    level: FindingLevel
    text: str
    remedy: str | None = None
    run: str | None = None


def note(name: str, text: str, remedy: str | None, run: str | None = None) -> DoctorFinding:
    """Return what is worth knowing and no problem."""
    return DoctorFinding(name=name, level="note", text=text, remedy=remedy, run=run)


def problem(name: str, text: str, remedy: str | None, run: str | None = None) -> DoctorFinding:
    """Return what is wrong, and what helps."""
    return DoctorFinding(name=name, level="problem", text=text, remedy=remedy, run=run)


def facet_findings(
    run: RunReport, endpoints: Sequence[DoctorFinding], *, named: bool
) -> Iterator[DoctorFinding]:
    """Yield a finding for each facet; ``named`` says that the run file names a job of the run.

    What its endpoint or its job failed of has that one's remedy.
    """
    of_job = None
    for name, facet in run.facets.items():
        if facet.error is None:
            yield DoctorFinding(name=name, level="ok", text=facet.source, run=run.name)
            continue
        message = facet.error.message
        remedy = of_job if of_job is not None and ITS_JOB in message else None
        remedy = remedy or _of_endpoint(message, endpoints) or REMEDIES[facet.error.kind]
        asked = facet.configured or (name == "job" and named)
        text = f"{facet.error.kind.value}: {message}"
        yield (problem if asked else note)(name, text, remedy, run.name)
        if name == "job":
            of_job = remedy


def _of_endpoint(message: str, endpoints: Sequence[DoctorFinding]) -> str | None:
    """Return what helps with the endpoint that a message tells the trouble of."""
    bad = (each for each in endpoints if each.remedy is not None)
    told = (each.remedy for each in bad if each.text.startswith(message) or _repeats(message, each))
    return next(told, None)


def _repeats(message: str, finding: DoctorFinding) -> bool:
    return message.startswith(f"{finding.text}; {finding.remedy}")


def contradictions(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name the runs whose W&B address and W&B id are of two runs."""
    for run in file.runs:
        if run.wandb is None or run.wandb.id is None:
            continue
        other = address_of(run.wandb.url).run
        if other is not None and other != run.wandb.id:
            text = f"wandb.id is {run.wandb.id}, but wandb.url points to {other}: the id is used"
            yield problem("run file", text, "remove the wrong one", run.name)


def key_findings(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name what is wrong in ``[keys]``: the UI does not open with it."""
    remedy = "correct [keys]; `cockpit schema` and docs/keys.md have the action ids"
    return (problem("keys", text, remedy) for text in key_problems(file.keys))


NO_CLAIM: Final = (
    "until then only the logbook's remote keeps other machines out: set records.logbook in a"
    " repository with a remote, or fix this"
)


async def claim_findings(
    file: CockpitFile, names: Sequence[str], clock: Clock
) -> list[DoctorFinding]:
    """Return a finding for each run whose output root lies in a bucket; all are asked at once."""
    runs = [run for run in file.runs if not names or run.name in names]
    asked = [run for run in runs if run.output_root and run.output_root.scheme in BUCKETS]
    seats = RootSeats(clock)
    lease = Lease(clock, seats, lambda: login_name() or "unknown")
    return list(await asyncio.gather(*(_found(lease, seats, run) for run in asked)))


async def _found(lease: Lease, seats: RootSeats, run: RunSpec) -> DoctorFinding:
    claim = await lease.survey(run)
    if claim.level == Level.WARN.value:
        return note("claim", claim.text, NO_CLAIM, run.name)
    heeds = seats.in_bucket(run).heeds
    seen = "the store honours conditional puts (seen)" if heeds else (
        "whether the store honours conditional puts shows when the first claim is taken"
    )  # fmt: skip
    return DoctorFinding(name="claim", level="ok", text=f"{claim.text}; {seen}", run=run.name)


PACKAGES = (
    *("textual", "rich", "wandb", "httpx", "gitpython", "plotext", "pydantic", "apprise", "shtab"),
)
DISTRIBUTION = "run-cockpit"
PYTHON = (3, 11)
PROGRAMS = {
    "git": "install git: code, logbook and all records need it",
    "ssh": "install an OpenSSH client if any run is on another host",
    "tmux": "install tmux to keep the cockpit open after you disconnect",
}
NEEDED = ("git",)
COLOURS = 256
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
ESCAPE_MS: Final = 100
"""Milliseconds that nobody notices; tmux before 3.5 has 500."""
ESCAPE: Final = (
    "set -s escape-time 20 in ~/.tmux.conf; for the server that runs: tmux set -s escape-time 20"
)
RELAUNCH_NEEDS: Final = {
    "output_root": 'output_root = "out/my-run", the one folder that the run writes',
    "resubmit": 'resubmit = "python train.py --resume", with the trainer\'s own flag to go on',
}
REMEDY_THERE: Final = "check whether it arrived; if so, the service is just slow to answer"


HELP = """
Checks the installation, the terminal, the store and the run file, and queries every facet of every
run once. Exit code: 0 no problem, 1 a problem, 2 the run file.

runs --config --json
--notify: send a test message by every route of [notify]

example: cockpit doctor --config cockpit.toml --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``doctor`` takes."""
    helps(parser, HELP)


def run(args: argparse.Namespace) -> int:
    """Look at everything, print the findings; return 0, 1 or 2."""
    findings = [*_installation(), *_terminal(), _store()]
    findings += about_run_file(args.config, args.runs, send=args.notify)
    document = {"schema": 1, "findings": [finding.to_json() for finding in findings]}
    put_answer(args.json, lambda: document, lambda: _finding_lines(findings))
    if any(finding.name == "run file" and finding.level == "problem" for finding in findings):
        return USAGE
    return ATTENTION if any(finding.level == "problem" for finding in findings) else OK


def about_run_file(
    config: Path | None, runs: Sequence[str] = (), *, send: bool = False
) -> list[DoctorFinding]:
    """Return what is found of a run file and of its runs; ``send`` a message by every route."""
    findings, usable = _run_file(config)
    findings = list(findings)
    if not usable:
        return findings
    file = run_file(config)
    findings += [*_unread_settings(file), *_foreign_settings(file), *_unaddressed_paths(file)]
    findings += [*_shared_places(file), *key_findings(file)]
    findings += _watched_only(file)
    report, endpoints = asyncio.run(_looked_at(file, list(runs), SystemClock()))
    findings += [*contradictions(file), *endpoints]
    findings += asyncio.run(claim_findings(file, list(runs), SystemClock()))
    findings += asyncio.run(route_findings(file, SystemClock(), send=send))
    findings += (_owner(each) for each in report.runs if each.owner and each.owner.differs)
    with_job = {each.name for each in file.runs if each.job is not None}
    for each in report.runs:
        findings += facet_findings(each, endpoints, named=each.name in with_job)
    return findings


def _installation() -> Iterator[DoctorFinding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= PYTHON
    yield _program()
    yield _finding("python", good, version, "use Python 3.11 or newer")
    for name in PACKAGES:
        yield _package(name)
    for name, remedy in PROGRAMS.items():
        place = shutil.which(name)
        text = place or "not installed"
        yield _finding(name, place is not None, text, remedy, needed=name in NEEDED)


def _program() -> DoctorFinding:
    """Say which version runs, and whether it is the one that was installed."""
    try:
        installed = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        installed = __version__  # run as it lies somewhere: nothing can be stale
    text = __version__ if installed == __version__ else f"{__version__}, installed as {installed}"
    remedy = "reinstall it (in a clone: make demo): its requirements may have changed"
    return _finding("cockpit", installed == __version__, text, remedy)


def _package(name: str) -> DoctorFinding:
    try:
        return _finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return _finding(name, False, "not installed", f"python -m pip install {name}")


def _terminal() -> Iterator[DoctorFinding]:
    term = os.environ.get("TERM", "")
    yield _finding(
        "TERM", bool(term), term or "not set", "set TERM", needed=is_terminal(sys.stdout)
    )
    colours = _colours(term)
    text = str(colours)
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        text = "256 inside GNU screen" if in_gnu_screen(os.environ) else "24-bit"
    remedy = "set TERM=xterm-256color, and COLORTERM=truecolor if the terminal can"
    yield _finding("colours", colours >= COLOURS, text, remedy, needed=False)
    yield _characters()
    inside = bool(os.environ.get("TMUX"))
    yield _finding("inside tmux", True, "yes" if inside else "no")
    if inside:
        yield _escape_time()


def _characters() -> DoctorFinding:
    """Say which characters are drawn here, and what the locale has to do with it."""
    found, given = terminal_charset(), given_variables()
    named = next((f"{each}={given[each]}" for each in LOCALE if given.get(each)), "no LANG is set")
    why = f"{found.value} ({named})"
    remedy = "export LANG=C.UTF-8 where the terminal (and tmux) is started, if it shows UTF-8"
    return _finding("characters", found is not Charset.ASCII, why, remedy, needed=False)


def _escape_time() -> DoctorFinding:
    """Say how long tmux waits after Esc: a key pressed meanwhile comes joined to it."""
    asked = asyncio.run(run_command(["tmux", "show", "-sv", "escape-time"], deadline=2.0))
    said = asked.out.decode("ascii", "replace").strip()
    if asked.rc != 0 or not said.isdecimal():
        return _finding("tmux escape-time", False, "tmux does not report it", ESCAPE, needed=False)
    text = f"{int(said)} ms: how long tmux holds back Esc"
    return _finding("tmux escape-time", int(said) <= ESCAPE_MS, text, ESCAPE, needed=False)


def _colours(term: str) -> int:
    try:
        curses.setupterm(term or "dumb", fd=sys.__stdout__.fileno() if sys.__stdout__ else -1)
    except (curses.error, OSError, ValueError):
        return 0
    return max(0, curses.tigetnum("colors"))


def _store() -> DoctorFinding:
    path = store_path()
    open_to_others = close_to_others(path)
    if open_to_others is not None:
        return _finding("store", False, open_to_others, "only this user may write there")
    try:
        text = described(path)
    except StoreError as error:
        return _finding("store", False, str(error), "without it nothing is kept between sessions")
    return _finding("store", True, text)


def _run_file(config: Path | None) -> tuple[list[DoctorFinding], bool]:
    if config is None and find(Path.cwd()) is None:
        return [_finding("run file", False, NO_FILE, needed=False)], False
    try:
        file = run_file(config)
    except UsageError as error:
        return [_finding("run file", False, line, "edit this line") for line in error.lines], False
    return [_finding("run file", True, f"{file.path}: {len(file.runs)} runs")], True


def _unread_settings(file: CockpitFile) -> Iterator[DoctorFinding]:
    remedy = "remove it, or keep it for a version that uses it: it has no effect here"
    for each in unread_settings(file):
        yield note("setting", each.text, remedy, each.run)


def _foreign_settings(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name the keys of ``[run.job]`` that belong to another kind of job than the run's."""
    for run in file.runs:
        if run.job is None:
            continue
        known = {"kind", *PLATFORMS[run.job.kind].fields}
        written = (key for key in JobSpec.model_fields if key in run.job.model_fields_set)
        for key in written:
            if key not in known and getattr(run.job, key) is not None:
                text = f"run.job.{key} is set, but not used for {run.job.kind} jobs"
                yield note("setting", text, "remove it, or check that job.kind is right", run.name)


def _shared_places(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name the runs that would write to one place: two live jobs there are a duplicate (C-25)."""
    remedy = "give each run its own; one run needs one [[run]], even if it was renamed"
    for each in shared_places(file):
        yield problem("run file", each.text, remedy, each.one)


def _watched_only(file: CockpitFile) -> Iterator[DoctorFinding]:
    """Name the runs whose job could be relaunched, if the run file said how and where."""
    for run in file.runs:
        kind = kind_of(run)
        if kind is None or not kind.acts:
            continue
        missing = [key for key in ("output_root", "resubmit") if getattr(run, key) is None]
        if missing:
            text = f"{' and '.join(missing)} not set: the run can be watched, not relaunched"
            remedy = "; ".join(RELAUNCH_NEEDS[key] for key in missing)
            yield note("relaunch", text, remedy, run.name)


async def _looked_at(
    file: CockpitFile, names: list[str], clock: Clock
) -> tuple[FleetReport, list[DoctorFinding]]:
    """Return what a check sees, and what each system behind the runs' jobs says besides.

    Both ask by the same platforms: what the check has seen of a system is not asked for again.
    """
    know_remedies(remedies_of(file))
    know_pythons(pythons_of(file))
    sources = real_sources(clock)
    report = await checked(file, names, clock, sources)
    runs = [run for run in file.runs if not names or run.name in names]
    return report, [
        DoctorFinding(
            name=found.endpoint,
            level="ok" if found.remedy is None else "note",
            text=found.text,
            remedy=found.remedy,
        )
        for found in await sources.findings(runs)
    ]


def _unaddressed_paths(file: CockpitFile) -> Iterator[DoctorFinding]:
    for run, host, fields in unaddressed_paths(file):
        text = f"{', '.join(fields)}: no scheme, so it means this machine; the job is on {host}"
        remedy = f"write ssh://{host}/path, or file:///path if this machine is meant"
        yield note("paths", text, remedy, run)


def _owner(run: RunReport) -> DoctorFinding:
    """Say that the run file and the last handover name different people."""
    assert run.owner is not None
    text = f"{run.owner.name}, {run.owner.why} ({run.owner.source}); {run.owner.differs}"
    return note("owner", text, run.owner.remedy, run.name)


def _finding(
    name: str, good: bool, text: str, remedy: str | None = None, *, needed: bool = True
) -> DoctorFinding:
    level: FindingLevel = "ok" if good else "problem" if needed else "note"
    return DoctorFinding(name=name, level=level, text=text, remedy=None if good else remedy)


def _finding_lines(findings: list[DoctorFinding]) -> Iterator[str]:
    named = [
        f"{finding.run} {finding.name}" if finding.run else finding.name for finding in findings
    ]
    width = max(len(name) for name in named)
    for name, finding in zip(named, findings, strict=True):
        yield f"{finding.level:<7}  {name:<{width}}  {finding.text}"
        if finding.remedy is not None:
            yield f"{'':<7}  {'':<{width}}  → {finding.remedy}"


async def route_findings(file: CockpitFile, clock: Clock, *, send: bool) -> list[DoctorFinding]:
    """Return a finding for each route and for the dead man's switch; with ``send``, try them."""
    channels = Channels(
        file.notify, folder=str(Path(file.path).parent), ring=terminal_of_this_process()
    )
    if send and not channels.routes and not file.notify.answers:
        remedy = 'add [notify] routes = [{ min = "alert", url_env = "SLACK_URL" }]'
        text = "no route: nobody is notified of anything"
        return [problem("notify", text, remedy)]
    tests = (_tested(channels, route, clock.now(), send=send) for route in channels.routes)
    answers = await answer_findings(file, clock)
    return [*await asyncio.gather(*tests), *answers, *_switch(file, clock)]


async def answer_findings(file: CockpitFile, clock: Clock) -> list[DoctorFinding]:
    """Return for each of ``[notify] answers`` whether it can be read; reads, and does nothing."""
    issues = build_records(lambda: file, None, clock)[1]
    readers = readers_of(file.notify.answers, desk_of(lambda: file, issues, clock))
    return list(await asyncio.gather(*(_answers_read(reader, file) for reader in readers)))


async def _answers_read(reader: Reader, file: CockpitFile) -> DoctorFinding:
    name, row = f"answers {reader.spec.kind}", reader.row
    found = () if reader.trouble is not None else (await reader.read(file.runs)).troubles
    trouble = reader.trouble or "; ".join(found)
    if trouble:
        return problem(name, f"cannot be read: {trouble}", row.remedy)
    told = [each.to for each in file.notify.routes if each.kind == reader.spec.kind and each.to]
    people = ", ".join(sorted({*reader.spec.people.values()} or {*told}))
    return _finding(name, good=True, text=f"answers of {people} can be read from {row.label}")


async def _tested(channels: Channels, route: Named, now: float, *, send: bool) -> DoctorFinding:
    trouble = channels.trouble(route)
    if trouble is not None:
        return _unusable(route, trouble)
    if not send:
        return _route_finding(route, "ok", "usable from here (--notify sends a test)", None)
    delivery = await channels.deliver(_test_message(now), route)
    if delivery.ok:
        return _route_finding(route, "ok", f"a test message was sent: {delivery.note}", None)
    remedy = REMEDY_THERE if delivery.lost else route.row.remedy
    return _route_finding(route, "problem", f"failed: {delivery.note}", remedy)


def _test_message(now: float) -> Message:
    return Message(
        run="cockpit",
        event=f"test {now:.3f}",
        title="[test] cockpit: this is how an alert reaches you",
        body="sent by `cockpit doctor --notify`; nothing is wrong",
        severity=Severity.INFO,
    )


def _unusable(route: Named, trouble: str) -> DoctorFinding:
    if route.local:
        return _route_finding(route, "note", trouble, route.row.remedy)
    if trouble == NOT_SET:
        remedy = f"export {route.route.url_env}=… where the cockpit and its watch are started"
        return _route_finding(route, "problem", f"{route.route.url_env} is not set", remedy)
    return _route_finding(route, "problem", trouble, "fix this route in cockpit.toml")


def _switch(file: CockpitFile, clock: Clock) -> Iterator[DoctorFinding]:
    heartbeat = Heartbeat(file.notify, clock)
    if not heartbeat.wanted:
        return
    variable, trouble = file.notify.heartbeat_url_env, heartbeat.trouble()
    yield DoctorFinding(
        name="dead man's switch",
        level="ok" if trouble is None else "problem",
        text=f"{variable} is set; `watch` pings it" if trouble is None else trouble,
        remedy=None if trouble is None else f"export {variable}=… where the watch is started",
    )


def _route_finding(route: Named, level: str, text: str, remedy: str | None) -> DoctorFinding:
    return DoctorFinding.model_validate(
        {"name": f"notify {route.name}", "level": level, "text": text, "remedy": remedy}
    )
