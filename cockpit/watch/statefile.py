"""Our own monitor state file: what another monitor, or a person after us, reads (SPEC W)."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import field_serializer

from cockpit.model.base import Frozen, Seconds
from cockpit.model.clock import Clock
from cockpit.model.figures import phase_told
from cockpit.model.report import RunReport
from cockpit.platforms.local.launcher.modes import follow, make_folder
from cockpit.records.git.documents import sync_folder
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import open_regular
from cockpit.store.ownership import Owner
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SUFFIX: Final = "_monitoring_state.json"
_TRIES: Final = 100
DEADLINE: Final = 5.0
DEFAULT_FOLDER: Final = "scratch"


class MonitorState(Frozen):
    """IRIS's fields plus ``run``, ``owner``, ``cadence_s`` and ``last_signal``.

    ``ts`` is epoch seconds here and milliseconds in the file. A field that is ``None`` is not
    written, so that it keeps what someone else has put there.
    """

    ts: float
    run: str
    job_id: str | None = None
    owner: str | None = None
    cadence_s: Seconds | None = None
    last_signal: str | None = None
    restart_count: int | None = None
    config: str | None = None
    mcp_url: str | None = None
    tunnel_session: str | None = None
    server_session: str | None = None
    tunnel_log: str | None = None
    server_log: str | None = None
    resubmit_command: str | None = None

    @field_serializer("ts")
    def _milliseconds(self, ts: float) -> int:
        return round(ts * 1000)


class StateFile:
    """One watch's state file in ``folder``, named by ``created_at`` (epoch seconds, in UTC).

    The same file is kept over the life of the watch. A file of another run or owner that was
    created in the same minute is left alone: ours is then called ``YYYYMMDD-HHMM-2_…``.
    """

    def __init__(self, folder: Path, created_at: float) -> None:
        self._folder = folder
        self._stamp = datetime.fromtimestamp(created_at, tz=UTC).strftime("%Y%m%d-%H%M")
        self._path: Path | None = None

    def write(self, payload: MonitorState) -> Path:
        """Write ``payload`` atomically and return the file; blocking.

        A reader sees the former or the new content, never a half. Raises ``OSError``, also for
        a file that is another run's by now: the next call takes another one.
        """
        ours = _plain(payload)
        make_folder(self._folder)
        if self._path is None:
            self._path = self._claim(ours)
        found = _read(self._path) or {}
        if found.get("run", payload.run) != payload.run:
            taken, self._path = self._path, None
            who = clean(found.get("owner") or "no owner", 100)
            text = f"{taken.name} now belongs to run {clean(found['run'], 100)} ({who})"
            raise OSError(0, f"{text}; expected run {payload.run}; it is left as it is")
        _replace(self._path, _merged(found, ours))
        return self._path

    def _claim(self, ours: dict[str, Any]) -> Path:
        for count in range(1, _TRIES):
            path = self._folder / f"{self._stamp}{f'-{count}' if count > 1 else ''}{SUFFIX}"
            if _create(path, ours):
                return path
            found = _read(path)  # of the same watch, if that was started again at once
            if found is not None and all(found.get(k) == ours.get(k) for k in ("run", "owner")):
                return path
        raise FileExistsError(f"{self._folder}: {_TRIES} state files of {self._stamp} exist")


class StateFiles:
    """Writes the state of each run as ``me``: beside the files that it names, else in ``scratch``.

    A failure is a line, never an end of the watch.
    """

    def __init__(self, config_path: str, me: Owner, clock: Clock) -> None:
        self._config = Path(config_path)
        self._me = me
        self._clock = clock
        self._created_at = clock.now()
        self._files: dict[str, StateFile] = {}

    async def write(self, report: RunReport) -> str | None:
        """Write one run's state; return what went wrong, if anything did."""
        named = report.spec.monitor.state if report.spec.monitor is not None else None
        folder = Path(named).parent if named else self._config.parent / DEFAULT_FOLDER
        file = self._files.setdefault(report.name, StateFile(folder, self._created_at))
        try:
            await offload(file.write, self._state(report), deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or error
            return f"{report.name}: the state file in {folder} cannot be written: {why}"
        return None

    def _state(self, report: RunReport) -> MonitorState:
        job, monitor = report.facets.job.value, report.facets.monitor.value
        command = report.spec.resubmit
        return MonitorState(
            ts=self._clock.now(),
            run=report.name,
            job_id=None if job is None else job.id,
            owner=self._me.name,
            cadence_s=report.spec.cadence,
            last_signal=_last_signal(report),
            restart_count=(monitor.restart_count if monitor is not None else None) or 0,
            config=str(self._config),
            resubmit_command=shlex.join(command) if isinstance(command, tuple) else command,
        )


def _last_signal(report: RunReport) -> str:
    """Return the newest state in one line: phase, progress, verdict, worst alert."""
    worst = f"; {report.worst.id} {report.worst.title}" if report.worst is not None else ""
    return f"{phase_told(report.facets.job)}, {report.progress.text}, {report.verdict.value}{worst}"


def restarted(path: Path, job_id: str, restart_count: int, now: float) -> None:
    """Note a restart in a monitor's state file: the new job, the count; all else stays.

    The entry of the former job is retired with it (``retired_job_id``); done twice it is the
    same. Blocking; raises ``OSError``, also for a file that is no state file any more.
    """
    found = _read(path)
    if found is None:
        raise OSError(0, "is no longer a monitor state file (JSON object)")
    former = found.get("job_id")
    ours: dict[str, Any] = {"job_id": job_id, "restart_count": restart_count}
    if former not in (None, job_id):
        ours |= {"retired_job_id": former, "retired_at": round(now * 1000)}
    _replace(path, _merged(found, ours))


def _merged(found: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Return what stands there with ours put in; a count of restarts never goes down."""
    counts = [each.get("restart_count") for each in (found, ours)]
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    return {**found, **ours, **({"restart_count": max(whole)} if whole else {})}


def _plain(payload: MonitorState) -> dict[str, Any]:
    document = payload.model_dump(mode="json", exclude_none=True)
    return {
        key: scrub(value) if isinstance(value, str) else value for key, value in document.items()
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with open_regular(str(path)) as (handle, found):
            document = json.loads(os.read(handle, found.st_size))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _create(path: Path, document: dict[str, Any]) -> bool:
    """Create ``path`` with all its content at once; False when it exists already."""
    temporary = _written(path, document)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _replace(path: Path, document: dict[str, Any]) -> None:
    temporary = _written(path, document)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _written(path: Path, document: dict[str, Any]) -> Path:
    """Return a temporary file beside ``path``, its content safely on the disk."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            follow(file.fileno(), path.parent, 0o644)
            file.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
