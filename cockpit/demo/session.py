"""One demo from beginning to end: a folder of its own, the fleet in it, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from git import GitError

from cockpit.config.file import ConfigError, load, store_path
from cockpit.demo import folder
from cockpit.demo.folder import command
from cockpit.demo.guard import PATIENCE, DemoGuard, await_guard
from cockpit.demo.layout import DemoLayout
from cockpit.demo.processes import kill, noted, stop
from cockpit.demo.situations import CADENCE, MORTAL, SITUATIONS, Situation
from cockpit.hosts.launches import (
    LaunchError,
    LockedError,
    Started,
    UnansweredError,
    lock_files,
    locks_folders,
    start,
)
from cockpit.hosts.notes import LockError
from cockpit.hosts.supervisor import Launch
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import keys_of, tag_of
from cockpit.runtime.own_path import own_python
from cockpit.store.launches import AUTOLOG, Consent, Consents
from cockpit.store.store import StoreError, open_within

STAGGER = 0.4
"""Seconds between two starts, so that a small machine has time for the first paint."""
FIRST = 3.0
"""Seconds that the first run has the machine for itself, unless it has logged a step before."""
LOOK = 0.05
REAP = 2.0
"""Seconds that a stopped process's supervisor has to end."""
TRIES, LINGER = 6, 0.5
"""How often, and how many seconds apart, a start is tried whose locks are still held."""
MONITORS_AFTER = 2
"""Runs that are started before the monitors are."""


class DemoFleet:
    """The processes of one demo, and the thread that brings them up and their troubles about."""

    def __init__(self, layout: DemoLayout, situations: Sequence[Situation] = SITUATIONS) -> None:
        self.layout = layout
        self.situations = situations
        self.trouble: str | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._conduct, name="demo", daemon=True)
        self._started: list[Started] = []

    def begin(self) -> None:
        """Start everything, bit by bit, in the background. What runs already is left alone."""
        self._thread.start()

    def leave(self) -> None:
        """Start nothing more and do nothing more to anyone."""
        self._leaving.set()
        self._thread.join()

    def reap(self) -> None:
        """Wait for the end of everything that was started here, even if its pid file is gone."""
        for started in self._started:
            try:
                started.supervisor.wait(REAP)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(started.pid, signal.SIGKILL)
                started.supervisor.wait()

    def _conduct(self) -> None:
        try:
            self._start_all()
            self._make_situations()
        except (LaunchError, LockError, UnansweredError, GitError, ConfigError, OSError) as error:
            self.trouble = f"the demo could not start everything: {error}"

    def _start_all(self) -> None:
        sha = folder.code_sha(self.layout)
        for number, situation in enumerate(self.situations):
            if number == MONITORS_AFTER:
                self._start_monitors()
            if self._leaving.is_set():
                return
            if self._start_run(situation, sha):
                self._leaving.wait(STAGGER)

    def _await_step(self, log: Path) -> None:
        """Wait until a run has logged a step, ``FIRST`` seconds at most."""
        until = time.monotonic() + FIRST
        while time.monotonic() < until and not self._leaving.wait(LOOK):
            with suppress(OSError):
                if b" step " in log.read_bytes():
                    return

    def _start_run(self, situation: Situation, sha: str) -> bool:
        """Start a training unless it was, and write its launch down; return whether it was now."""
        if noted(self.layout.run(situation.name).pid_file) is not None:
            return False
        self._start_here(situation)
        folder.log_launch(self.layout, situation, sha)
        if situation is self.situations[0]:
            self._await_step(self.layout.run(situation.name).log)
        return True

    def _start_here(self, situation: Situation) -> None:
        """Start a training as an action would: under its lineage's locks, its launch id used up."""
        places = self.layout.run(situation.name)
        spec = next(run for run in load(self.layout.run_file).runs if run.name == situation.name)
        launch = Launch(
            command=command(self.layout, situation, sys.executable),
            log=places.log,
            pid_file=places.pid_file,
            exit_file=places.exit_file,
            cwd=self.layout.code,
            launch_id=situation.launch_id,
            run=situation.name,
            lineage=tag_of(spec),
            locks=lock_files(places.folder, keys_of(spec), locks_folders()),
            launches=places.launches,
        )
        self._started.append(self._start_patiently(launch))

    def _start_patiently(self, launch: Launch) -> Started:
        """Start it; what an earlier demo left here may still be on its way out."""
        for _ in range(TRIES - 1):
            try:
                return start(launch)
            except LockedError:
                self._leaving.wait(LINGER)
        return start(launch)

    def _start_monitors(self) -> None:
        for name in ("fleet", MORTAL):
            runs = [each.name for each in self.situations if each.monitor == name]
            pid_file = self.layout.monitors / f"{name}.pid"
            if noted(pid_file) is None:
                watch = own_python("cockpit", "watch", *runs, "--config")
                launch = Launch(
                    (*watch, str(self.layout.run_file)),
                    log=pid_file.with_suffix(".log"),
                    pid_file=pid_file,
                    exit_file=pid_file.with_suffix(".exit"),
                    cwd=self.layout.folder,
                )
                self._started.append(start(launch))

    def _make_situations(self) -> None:
        """Do to each run what is to be done to it, once its moment has come."""
        waiting = self._to_be_done()
        while waiting and not self._leaving.wait(LOOK):
            for attempt in tuple(waiting):
                with suppress(FileNotFoundError):  # gone under the look (rotation): not yet
                    if attempt():
                        waiting.remove(attempt)

    def _to_be_done(self) -> list[Callable[[], bool]]:
        """Return what is done to the runs; each is tried until it returns True."""
        return [self._tear, self._kill_monitor, self._log_end]

    def _tear(self) -> bool:
        """Kill the run in the middle of a save, once an older checkpoint is complete."""
        places = self.layout.run("demo-torn")
        victim = noted(places.pid_file)
        if victim is None or victim.launch_id != "demo-torn-i001" or not victim.alive:
            return victim is not None
        steps = [step for root in places.roots for step in root.glob("step-*")]
        complete = [step for step in steps if (step / "metadata.json").exists()]
        half = [step for step in steps if step not in complete and any(step.glob("d/*.__lock"))]
        if not complete or not half:
            return False
        kill(victim, signal.SIGKILL)
        return True

    def _kill_monitor(self) -> bool:
        """Kill the one monitor when it has kept its state file for two cadences."""
        victim = noted(self.layout.monitors / f"{MORTAL}.pid")
        if victim is None or not victim.alive:
            return victim is not None
        watched = (each.name for each in self.situations if each.monitor == MORTAL)
        states = (self.layout.run(name).scratch.glob("*_monitoring_state.json") for name in watched)
        newest = max((path.stat().st_mtime for each in states for path in each), default=0.0)
        if newest < victim.start + 2 * CADENCE:
            return False
        kill(victim, signal.SIGKILL)
        return True

    def _log_end(self) -> bool:
        """Write the end of the finished run into its logbook, as whoever watches it would."""
        situation = next(each for each in SITUATIONS if each.name == "demo-finished")
        places = self.layout.run(situation.name)
        if not places.exit_file.exists():
            return False
        if places.exit_file.read_text(encoding="utf-8").strip() == "0":
            folder.log_end(self.layout, situation)
        return True


F = TypeVar("F", bound=DemoFleet)


def prepare(layout: DemoLayout) -> bool:
    """Make the folder ready; return True if a kept fleet still runs there and is taken up again.

    Otherwise what an earlier demo left (files, processes, what is remembered of its runs) goes
    and everything is built anew. The lock is held. Raises ``DemoBusyError``.
    """
    await_guard(layout)
    if layout.kept.exists() and layout.living():
        return True
    stop(layout.living, PATIENCE)
    forget(layout)
    folder.empty(layout)
    folder.build(layout)
    allow_entries(layout)
    return False


def running(
    layout: DemoLayout, *, keep: bool, patience: float = PATIENCE
) -> AbstractContextManager[DemoFleet]:
    """Run the fleet in the background; on leaving, however it comes, stop it unless ``keep``.

    Stopping gives the runs ``patience`` seconds to save a checkpoint and leave by themselves.
    """
    return conducted(layout, DemoFleet(layout), keep=keep, patience=patience)


@contextmanager
def conducted(layout: DemoLayout, fleet: F, *, keep: bool, patience: float) -> Iterator[F]:
    """Run a fleet under a guard that stops what it has started here, whatever ends us."""
    layout.kept.unlink(missing_ok=True)
    guard = DemoGuard(layout)
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.leave()
        if keep:
            layout.kept.touch()
        guard.release(keep=keep, patience=patience)
        if not keep:
            fleet.reap()


def remove(layout: DemoLayout) -> None:
    """Stop and remove everything. The folder is ours and the lock is held.

    Raises ``DemoBusyError``.
    """
    await_guard(layout)
    stop(layout.living, PATIENCE)
    forget(layout)
    folder.remove(layout)


def allow_entries(layout: DemoLayout) -> None:
    """Allow the cockpit to write into the demo's own logbooks: they are there to show that."""
    try:
        store = open_within(store_path())
    except StoreError:
        return
    with suppress(StoreError):
        who = Consent(who="demo", at=SystemClock().now())
        Consents(store).give(str(layout.run_file), AUTOLOG, who)
    store.close()


def forget(layout: DemoLayout) -> None:
    """Delete what the store remembers of these runs: the next ones are others."""
    path = store_path()
    if not path.exists():
        return
    try:
        store = open_within(path)
    except StoreError:
        return  # whoever uses the store next says what is wrong with it
    store.forget(str(layout.run_file))
    store.close()
