"""Starts the fleet and makes its situations by doing the thing: beside the UI, in a thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from git import GitError

from cockpit.config.file import ConfigError, load
from cockpit.demo import folder
from cockpit.demo.layout import DemoLayout
from cockpit.demo.run_file import command
from cockpit.demo.situations import CADENCE, MORTAL, SITUATIONS, Situation
from cockpit.model.lineage import keys_of, tag_of
from cockpit.platforms.local.launcher.detached import (
    Launch,
    LaunchError,
    LockedError,
    Started,
    UnansweredError,
    start,
)
from cockpit.platforms.local.launcher.locks import LockError
from cockpit.platforms.local.launcher.stopping import kill, noted
from cockpit.platforms.local.lineage_locks import lock_files, locks_folders
from cockpit.runtime.own_path import own_python

STAGGER = 0.4
"""Seconds between two starts, so that a small machine has time for the first paint."""
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

    def _start_run(self, situation: Situation, sha: str) -> bool:
        """Start a training unless it was, and write its launch down; return whether it was now."""
        if noted(self.layout.run(situation.name).pid_file) is not None:
            return False
        self._start_here(situation)
        folder.log_launch(self.layout, situation, sha)
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
