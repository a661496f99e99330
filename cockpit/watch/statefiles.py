"""The state files of a headless watch: one per run, written each cadence (SPEC W)."""

from __future__ import annotations

import shlex
from pathlib import Path

from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.model.run import Command, RunSpec
from cockpit.sources.offload import offload
from cockpit.store.ownership import Owner
from cockpit.watch.statefile import MonitorState, StateFile

DEADLINE = 5.0
DEFAULT_FOLDER = "scratch"


class StateFiles:
    """Writes the state of each run as ``me``; a failure is a line, never an end of the watch."""

    def __init__(self, config_path: str, me: Owner, clock: Clock) -> None:
        self._config = Path(config_path)
        self._me = me
        self._clock = clock
        self._created_at = clock.now()
        self._files: dict[str, StateFile] = {}

    async def write(self, report: RunReport) -> str | None:
        """Write one run's state; return what went wrong, if anything did."""
        folder = state_folder(report.spec, self._config)
        file = self._files.setdefault(report.name, StateFile(folder, self._created_at))
        try:
            await offload(file.write, self._state(report), deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            return f"{report.name}: the state file in {folder} cannot be written: {error}"
        return None

    def _state(self, report: RunReport) -> MonitorState:
        job, monitor = report.facets.job.value, report.facets.monitor.value
        return MonitorState(
            ts=self._clock.now(),
            run=report.name,
            job_id=None if job is None else job.id,
            owner=self._me.name,
            cadence_s=report.spec.cadence,
            last_signal=last_signal(report),
            restart_count=(monitor.restart_count if monitor is not None else None) or 0,
            config=str(self._config),
            resubmit_command=_shell_words(report.spec.resubmit),
        )


def state_folder(run: RunSpec, config: Path) -> Path:
    """Return where a run's state files lie: beside those it names, else ``scratch``."""
    named = run.monitor.state if run.monitor is not None else None
    return Path(named).parent if named else config.parent / DEFAULT_FOLDER


def last_signal(report: RunReport) -> str:
    """Return the newest state in one line: phase, progress, verdict, worst alert."""
    job = report.facets.job.value
    phase = "unknown" if job is None else job.phase.value
    worst = f"; {report.worst.id} {report.worst.title}" if report.worst is not None else ""
    return f"{phase}, {report.progress.text}, {report.verdict.value}{worst}"


def _shell_words(command: Command | None) -> str | None:
    return command if command is None or isinstance(command, str) else shlex.join(command)
