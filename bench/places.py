"""A thousand runs over five places, this machine and four ssh hosts, beside a few on the same ones.

The hosts are this machine behind a real sshd each, reached by names of their own; what they have
to do is not the engine's, and is told apart. Counted are the trips to each host (a trip is one
script of its one connection), and the processor time of the engine with the ssh clients that it
has started. At last one host is stopped for a cadence: how long ago the others were looked at then,
and how many runs of the stopped one are not said to be unknown by then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Final

from bench import fleets
from bench.fleets import CADENCE, Figures, make_fleet, status
from bench.program import cost_of
from cockpit.config.file import load
from cockpit.hosts import link
from cockpit.model.clock import SystemClock
from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import census, descendants
from cockpit.store.store import Store
from cockpit.watch import engine as engine_module
from cockpit.watch.asking import Answers, Asker
from cockpit.watch.engine import Engine
from cockpit.watch.runstate import RunState
from tests.sshd import SSH, SSHD, Sshd, serving

PLACES: Final = 5
FEW: Final = 20
"""Runs of the small fleet: four at each place."""
FIGURES: Final = (
    *("read_s", "rss_mb", "cadence_cpu_s", "clients_cpu_s", "hosts_cpu_s", "trips", "local_looks"),
    *("hung_others_s", "hung_untold"),
)
SKIP: Final = "no OpenSSH server here: apt-get install openssh-server"
SETTLE: Final = 32.0
"""Seconds in which each log has been looked at once more, and what is under way has ended."""
BACK_OFF: Final = 30.0
"""Seconds beyond a cadence after which whoever does not answer must have been missed."""


@contextlib.contextmanager
def hosts(folder: Path, count: int) -> Iterator[list[Sshd]]:
    """Give servers that listen, and put an ``ssh`` into ``folder/bin`` that knows all of them."""
    with contextlib.ExitStack() as stack:
        servers = []
        for number in range(count):
            root = folder / f"host{number}"
            root.mkdir()
            servers.append(stack.enter_context(serving(root)))
        known = "\n".join((each.root / "ssh_config").read_text() for each in servers)
        (folder / "ssh_config").write_text(known)
        program = folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {SSH} -F "{folder}/ssh_config" "$@"\n')
        program.chmod(0o755)
        yield servers


@contextlib.contextmanager
def training() -> Iterator[int]:
    """Give a process that stands for all jobs: none of what is measured descends from it."""
    argv = [sys.executable, "-c", "import time; time.sleep(1000000)"]
    process = subprocess.Popen(argv, start_new_session=True, cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _cpu(pids: set[int]) -> float:
    return sum(cost_of(Path(f"/proc/{pid}")).cpu for pid in pids)


def _spent(pids: set[int]) -> float:
    """Return the seconds that processes have computed: bursts between two ticks count."""
    spent = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            spent += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return spent


def _clients() -> set[int]:
    """Return the processes that this one has started, also those that have left it.

    The ssh that holds a connection has written the name of its socket over its environment.
    """
    mark = f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}\0".encode()
    master = f"ssh: {os.environ['XDG_RUNTIME_DIR']}/"
    return {
        pid
        for pid, each in census().items()
        if mark in (each.env or b"") or each.argv[0].startswith(master)
    } - {os.getpid()}


def _below(server: int) -> set[int]:
    return {server, *descendants(census(), [server])}


class Counting(Asker):
    """Counts the trips to each host, and the looks at runs of each place."""

    trips: ClassVar[Counter[str]] = Counter()
    looks: ClassVar[Counter[str]] = Counter()

    async def ask(self, facet: str, place: str, runs: Sequence[RunSpec]) -> Answers:
        """Ask as an engine does."""
        self.looks[place] += len(runs)
        return await super().ask(facet, place, runs)

    @classmethod
    def begin(cls) -> None:
        """Count whatever engines begin from now on."""
        sent = link.HostLink._send

        def counted(self: link.HostLink, each: link.Ask) -> Future[Any]:
            cls.trips[self.host] += 1
            return sent(self, each)

        setattr(link.HostLink, "_send", counted)  # noqa: B010 - a method of somebody else's
        vars(engine_module)["Asker"] = cls


async def watch(config: Path, *, within: float, servers: list[int]) -> Figures:
    """Watch a fleet until it is read, then for a cadence, then for one in which a host hangs."""
    Counting.begin()
    file = load(config)
    engine = Engine(file, store=Store(config.parent / "store.sqlite"), clock=SystemClock())
    watching, began = asyncio.create_task(engine.run()), time.perf_counter()
    states = list(engine._fleet.states.values())
    unread = states
    while unread and time.perf_counter() - began < within:
        await asyncio.sleep(0.2)
        unread = [each for each in unread if not _is_read(each)]
    if unread:
        names = [each.spec.name for each in unread[:3]]
        raise SystemExit(f"{len(unread)} runs not read within {within:.0f} s: {names}")
    found = {"read_s": time.perf_counter() - began}
    fleets.step_on(config.parent)
    found |= await _quiet(servers)
    found |= await _hung(states, servers[-1])
    found["rss_mb"] = status("VmHWM:") / 1024
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return found


def _is_read(state: RunState) -> bool:
    """Tell whether all of a run has been read; before that no cadence is a quiet one."""
    tracker = state.facets.tracker
    known = tracker.known or not tracker.configured
    return known and state.report is not None and state.rows_read and state.looked_at_all


async def _quiet(servers: list[int]) -> Figures:
    """Return what a cadence costs in which nothing changes."""
    await asyncio.sleep(SETTLE)
    Counting.trips.clear()
    Counting.looks.clear()
    theirs = set().union(*map(_below, servers))
    before = time.process_time(), _spent(_clients()), _cpu(theirs)
    await asyncio.sleep(CADENCE)
    own, clients = time.process_time() - before[0], _spent(_clients()) - before[1]
    return {
        "cadence_cpu_s": own + clients,
        "clients_cpu_s": clients,
        "hosts_cpu_s": _cpu(theirs) - before[2],
        "trips": max(Counting.trips.values()),
        "local_looks": Counting.looks["this machine"],
    }


async def _hung(states: list[RunState], server: int) -> Figures:
    """Stop all that serves the last host; return what is told after a cadence."""
    stopped = _below(server)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(CADENCE + BACK_OFF)
        there = states[PLACES - 1 :: PLACES]  # they take turns
        others = [each for each in states if each not in there]
        now = time.time()
        return {
            "hung_others_s": max(now - (each.facets.job.observed_at or 0.0) for each in others),
            "hung_untold": sum(each.facets.job.error is None for each in there),
        }
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def measured(count: int, *, rows: int, within: float) -> Figures:
    """Return the figures of a fleet of ``count`` runs, watched in a process of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="ck", dir="/tmp") as name,
        hosts(Path(name), PLACES - 1) as servers,
        training() as pid,
    ):
        places = [None, *(each.host for each in servers)]
        config = make_fleet(Path(name), count, rows, places, pid)
        options = {"--within": (within,), "--servers": [each.pid for each in servers]}
        return fleets.watched("bench.places", config, options, path=f"{name}/bin")


def main() -> None:
    """Print the table, or JSON."""
    parser = fleets.parser(__doc__, 300.0)
    parser.add_argument("--servers", type=int, nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if SSHD is None or SSH is None:
        raise SystemExit(SKIP)
    watching = functools.partial(watch, within=args.within, servers=args.servers)
    measuring = functools.partial(measured, rows=args.rows, within=args.within)
    fleets.main(args, FEW, FIGURES, watching, measuring)


if __name__ == "__main__":
    main()
