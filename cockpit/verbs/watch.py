"""``cockpit watch``: the headless monitor. Keeps the cadence, owns the runs, writes state files.

``WatchOutput`` prints to whoever reads it, and never holds the watch up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import io
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any, Final, TextIO

from cockpit.attach.host import WindowService
from cockpit.model.acts import going_on
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.report import FleetReport, RunReport, orders_in_force
from cockpit.model.run import CockpitFile
from cockpit.notify.routes import Ring, terminal_of_this_process
from cockpit.runtime.account import ask_operator
from cockpit.runtime.offload import offload
from cockpit.runtime.outlet import Outlet
from cockpit.services.metrics import MetricsServer, is_loopback, listening_place
from cockpit.services.notifying import HeartbeatService
from cockpit.services.service import BackgroundServices, Service, Starting
from cockpit.services.wiring import watch_services
from cockpit.store.store import Store
from cockpit.text.scrub import scrub
from cockpit.verbs.check import instant
from cockpit.verbs.common import (
    BLOCKED,
    INTERRUPTED,
    UsageError,
    document_text,
    encoded,
    exit_code,
    helps,
    opened_store,
    output_error,
    run_file,
    say,
    write,
)
from cockpit.verbs.table import checkpoint_text, job_text, loss_text, monitor_text, rate_text
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import UnknownRunError, this_process, turns_of
from cockpit.watch.headless import HeadlessWatch, StopPoint
from cockpit.watch.reports import events

PORT_FAULTS: Final = (errno.EADDRINUSE, errno.EACCES)
STUCK: Final = 2.0
"""Seconds after which a terminal that takes nothing is one that cannot be rung."""


class WatchOutput:
    """Standard output and standard error of a watch; ``ended`` is when nobody reads it any more.

    A stream without a descriptor of its own (a test's) is written directly.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[OSError] = loop.create_future()
        self._messages = _outlet(sys.stderr, self._tell_of_messages)
        self._lines = _outlet(
            sys.stdout,
            self._tell_of_lines,
            lambda error: loop.call_soon_threadsafe(self._end, error),
        )

    def say(self, line: str) -> None:
        """Print a message for a person on standard error."""
        self._put(self._messages, sys.stderr, f"cockpit: {scrub(line)}\n")

    def put(self, text: str) -> None:
        """Print what was asked for, a line, on standard output."""
        self._put(self._lines, sys.stdout, scrub(text) + "\n")

    def document(self, document: dict[str, Any]) -> None:
        """Print one JSON document, a line, on standard output."""
        self._put(self._lines, sys.stdout, document_text(document, one_line=True) + "\n")

    def ring(self) -> Ring | None:
        """Return how to ring the terminal in front of the person; ``None`` without one."""
        if terminal_of_this_process() is None:
            return None
        to_messages = self._messages is not None and sys.stderr.isatty()
        outlet = self._messages if to_messages else self._lines

        def ring(sequence: str) -> bool:
            if outlet is None or outlet.stuck() > STUCK:
                return False
            outlet.put(sequence.encode("utf-8", "replace"))
            return True

        return ring

    async def end(self, within: float) -> None:
        """Wait for what is being printed; say what never was. Raises what ended the output."""
        for outlet, tell in ((self._lines, self._tell_of_lines), (self._messages, None)):
            left = 0 if outlet is None else await offload(outlet.end, within, deadline=within + 1)
            if left and tell is not None:
                tell(left)
        if self.ended.done():
            raise output_error(self.ended.result())

    def _put(self, outlet: Outlet | None, stream: TextIO | None, text: str) -> None:
        if outlet is not None and stream is not None:
            outlet.put(encoded(stream, text))
        else:
            write(stream, text)

    def _end(self, error: OSError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    def _tell_of_lines(self, count: int) -> None:
        self.say(f"{_line_count(count)} of standard output dropped: no reader")

    def _tell_of_messages(self, count: int) -> None:
        self.say(f"{_line_count(count)} dropped here: no reader")


def _line_count(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


def _outlet(stream: TextIO | None, *calls: Callable[..., object]) -> Outlet | None:
    """Return an outlet to a stream's own descriptor, ``None`` without one."""
    if stream is None:
        return None
    try:
        stream.flush()
        return Outlet(stream.fileno(), *calls)
    except (io.UnsupportedOperation, ValueError):
        return None


LEAVE_WITHIN: Final = 3.0
"""Seconds for which a watch that ends waits for what is being sent or written."""
READ_WITHIN: Final = 1.0
"""Seconds for which it waits for somebody to take what it has printed."""


class Shape(Enum):
    """What a watch prints: a line for each run a round, a document a round, or what happens."""

    TEXT = "text"
    JSON = "json"
    EVENTS = "events"


HELP = """
Watches until every run is over and that is acknowledged, or until the stated point. One owner per
run: a second watch exits with 4 and names the first.

runs --config --json
--events: print one JSON object a line for each thing that happens, nothing else
--once: one cadence, then end
--until step=N|time=T: end at this point
--takeover: take the runs over from whoever watches them now
--metrics HOST:PORT: serve OpenMetrics there, such as 127.0.0.1:9464; a port alone is for this \
machine

example: cockpit watch hero-7b --until step=20000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``watch`` takes."""
    helps(parser, HELP, until={"type": stopping_point}, metrics={"type": metrics_place})


def metrics_place(text: str) -> tuple[str, int]:
    """Return the host and port of ``--metrics``; raises for argparse."""
    try:
        return listening_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@contextlib.contextmanager
def _metrics(place: tuple[str, int] | None, clock: Clock) -> Iterator[MetricsServer | None]:
    """Serve metrics as long as the watch lasts; raises ``UsageError`` if the port is taken."""
    if place is None:
        yield None
        return
    host, port = place
    try:
        server = MetricsServer(host, port, clock)
    except OSError as error:
        why, what = error.strerror or str(error), "port" if error.errno in PORT_FAULTS else "host"
        raise UsageError(f"--metrics {host}:{port}: {why.lower()}; name another {what}") from error
    if not is_loopback(host):
        say(f"metrics on {host}:{server.port} are open to whoever reaches this machine")
    try:
        yield server
    finally:
        server.close()


def stopping_point(text: str) -> StopPoint:
    """Return the point that ``step=N`` or ``time=T`` names; raises for argparse."""
    what, _, value = text.partition("=")
    if what == "time":
        return StopPoint(time=instant(value))
    if what == "step" and re.fullmatch(r"[0-9](_?[0-9]){0,17}", value):
        return StopPoint(step=int(value))
    raise argparse.ArgumentTypeError(f"{text!r}: expected step=20000 or time=2026-03-11T09:00:00Z")


def run(args: argparse.Namespace) -> int:
    """Watch; return INTERFACE's exit code for what was seen last."""
    file = run_file(args.config)
    try:
        clock = SystemClock()
        with _metrics(args.metrics, clock) as metrics, opened_store(read_only=False) as store:
            return asyncio.run(_watch(file, args, store, clock, metrics))
    except UnknownRunError as error:
        raise UsageError(str(error)) from error


async def _watch(
    file: CockpitFile,
    args: argparse.Namespace,
    store: Store | None,
    clock: Clock,
    metrics: MetricsServer | None,
) -> int:
    operator = await ask_operator(file)
    if operator.notice is not None:
        say(operator.notice)
    me = this_process(operator.name)
    stop = args.until or StopPoint()
    engine = Engine(file, store=store, clock=clock, only=args.runs)
    watching = HeadlessWatch(engine, me, clock, stop=stop, once=args.once)
    busy = await watching.claim(takeover=args.takeover)
    if busy:
        for line in busy:
            say(line)
        return BLOCKED
    heartbeat = HeartbeatService(engine, clock, turns_of(store))
    output = WatchOutput()
    whole = not args.runs and not args.once  # windows show all runs of a file
    windows = (WindowService(engine, clock),) if whole else ()
    beside = (_ring_all(output.ring(), windows), watching.owns, heartbeat)
    make = partial(watch_services, engine, store, clock, *beside, began=clock.now())
    services = BackgroundServices((*windows, Starting(make, clock)))
    for each in windows:
        each.more_notices = lambda: services.notices
    told = (watching, services, heartbeat, output, clock)
    if metrics is not None:
        metrics.runs.owns = watching.owns
        engine.subscribe(_of_own(watching, metrics.runs.take))
    if args.events:
        engine.subscribe(_Happenings(watching, output).print)
    shape = Shape.EVENTS if args.events else Shape.JSON if args.json else Shape.TEXT
    printing = _print_rounds(*told, shape)
    return await _until_done(watching, services, printing, output)


def _of_own(
    watching: HeadlessWatch, take: Callable[[RunReport], None]
) -> Callable[[RunReport], None]:
    """Return what hands on the reports of the runs that this watch owns, once they are read."""

    def hand_on(report: RunReport) -> None:
        if watching.owns(report) and report.not_read_yet is None:
            take(report)

    return hand_on


class _Happenings:
    """Prints what happens to the runs that this watch owns, as their reports come."""

    def __init__(self, watching: HeadlessWatch, output: WatchOutput) -> None:
        self._watching = watching
        self._output = output
        self._last: dict[str, RunReport] = {}

    def print(self, report: RunReport) -> None:
        """Print what is new in a report; of a run that nobody has asked about yet nothing is."""
        if self._watching.owns(report) and report.not_read_yet is None:
            for event in events(self._last.get(report.name), report):
                self._output.document(event)
            self._last[report.name] = report


def _ring_all(own: Ring | None, windows: Sequence[WindowService]) -> Ring | None:
    """Return what rings this terminal and those of the windows; ``None`` where there is none."""
    rings = [*([] if own is None else [own]), *(each.ring for each in windows)]

    def ring(sequence: str) -> bool:
        rung = [each(sequence) is not False for each in rings]
        return any(rung)

    return ring if rings else None


async def _until_done(
    watching: HeadlessWatch,
    services: Service,
    printing: Coroutine[Any, Any, None],
    output: WatchOutput,
) -> int:
    """Watch until done, told to leave or read by nobody; the runs are given up in any case."""
    loop = asyncio.get_running_loop()
    services.start()
    task = asyncio.ensure_future(printing)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    output.ended.add_done_callback(lambda ended: task.cancel())
    try:
        await task
    except asyncio.CancelledError:
        return INTERRUPTED
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.gather(services.stop(LEAVE_WITHIN), watching.release())
        for line in watching.messages(services.notices):
            output.say(line)
        await output.end(READ_WITHIN)
    if watching.lost:
        return BLOCKED
    return exit_code(watching.last())


async def _print_rounds(
    watching: HeadlessWatch,
    services: Service,
    heartbeat: HeartbeatService,
    output: WatchOutput,
    clock: Clock,
    shape: Shape,
) -> None:
    async for reports in watching.rounds():
        last, now = watching.last().runs, clock.now()
        acts = [act for report in last for act in report.agents]
        about = [
            *going_on(acts, now, "cockpit veto RUN stops it"),
            *orders_in_force(last, now, "; cockpit veto RUN ends it"),
        ]
        for line in watching.messages((*services.notices, *about)):
            output.say(line)
        if reports and watching.cadence is not None:
            heartbeat.pulse(watching.cadence)
        if reports and shape is Shape.JSON:
            newest = max(report.checked_at for report in reports)
            output.document(FleetReport(checked_at=newest, runs=reports).document())
        elif shape is Shape.TEXT:
            for report in reports:
                output.put(status_line(report))
    await services.finish()
    for line in watching.messages(services.notices):
        output.say(line)


def status_line(run: RunReport) -> str:
    """Return ``TIME RUN VERDICT JOB STEP loss … · worst alert``, without a line break."""
    return " ".join(
        (
            datetime.fromtimestamp(run.checked_at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run.name,
            run.verdict.value,
            job_text(run),
            run.progress.words,
            f"loss {loss_text(run)}",
            f"rate {rate_text(run)}",
            f"ckpt {checkpoint_text(run)}",
            f"monitor {monitor_text(run)}",
            *_worst(run),
        )
    )


def _worst(run: RunReport) -> list[str]:
    if run.worst is None:
        return []
    more = len(run.alerts) - 1
    taken = " (acknowledged)" if run.worst.acknowledged is not None else ""
    others = f" and {more} more" if more else ""
    return [f"· {run.worst.id} {run.worst.title}{taken}{others} · next: {run.next_action}"]
