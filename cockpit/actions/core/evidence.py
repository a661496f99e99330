"""Keeps what a later reader needs, before anything is stopped or relaunched (SPEC A).

One folder for each action, private, put there whole. Everything in it is made safe and scrubbed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cockpit.config.file import state_dir
from cockpit.model.base import Frozen
from cockpit.model.jobs import Live
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.table import kind_of
from cockpit.runtime.offload import offload
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.ranged import Ranged, Span, Wish
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

LOG_TAIL: Final = 5_000_000
"""Bytes of the log's end that are kept."""
FILE_CAP: Final = 6_000_000
DEADLINE: Final = 60.0
PLATFORM_WITHIN: Final = 120.0
"""Seconds in which a platform must have told what it knows, which keeps deadlines of its own."""


class Archived(Frozen):
    """Where the evidence lies (``None``: nothing could be kept), its files and size in bytes.

    ``missing`` holds one line for everything that could not be had.
    """

    path: str | None
    files: tuple[str, ...] = ()
    size: int = 0
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line for the journal."""
        lost = f"; not had: {'; '.join(self.missing)}" if self.missing else ""
        if self.path is None:
            return f"no evidence was kept{lost}"
        return f"{len(self.files)} files, {self.size} bytes in {self.path}{lost}"


def evidence_folder() -> Path:
    """Return where evidence lies unless another place is asked for."""
    return state_dir() / "evidence"


async def archive(
    run: RunSpec,
    report: RunReport,
    platform: Platform | None,
    live: Live,
    folder: Path | None = None,
    *,
    launch_id: str | None = None,
) -> Archived:
    """Keep the evidence under ``folder/<run>/<stamp>-<launch>``; never raises.

    Whatever could not be had or written is named; a full disk too. The caller decides.
    """
    job = report.facets.job.value
    launch = launch_id or (job.launch_id if job is not None else None) or "no-launch"
    base = (folder or evidence_folder()) / run.name
    missing: list[str] = []
    document = {"report": report.document(), "live": live.to_json()}
    files = {"report.json": json.dumps(document, indent=1, default=str).encode("utf-8", "replace")}
    if platform is not None:
        files |= await _told(platform, run, live, missing)
    log = await _log(run, report, missing)
    if log is not None:
        files["log-tail.txt"] = log
    stamp = datetime.fromtimestamp(report.checked_at, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{stamp}-{launch}"
    try:
        path, sizes = await offload(lambda: _keep(base, name, files), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Archived(path=None, missing=(*missing, f"cannot write under {base}: {why}"))
    missing += _not_had(files)
    return Archived(
        path=str(path), files=tuple(sizes), size=sum(sizes.values()), missing=tuple(missing)
    )


async def _told(
    platform: Platform, run: RunSpec, live: Live, missing: list[str]
) -> dict[str, bytes]:
    """Return the platform's own answers; what goes wrong there stops nothing."""
    try:
        async with asyncio.timeout(PLATFORM_WITHIN):
            return await platform.evidence(run, live.jobs)
    except TimeoutError:
        missing.append(f"the platform's answer: none within {PLATFORM_WITHIN:g} s")
    except Exception as error:  # noqa: BLE001 - evidence is no reason not to act
        missing.append(f"the platform's answer: {type(error).__name__}: {scrub(clean(error, 200))}")
    return {}


async def _log(run: RunSpec, report: RunReport, missing: list[str]) -> bytes | None:
    """Return the end of the log that the run file names, else of the one that was last read."""
    kind, seen = kind_of(run), report.facets.log.value
    place = None if kind is None else kind.log_place(run, None) or kind.log_place(run, seen)
    if place is None:
        missing.append("the log: none that can be read in pages is known")
        return None
    try:
        return await offload(_tail, log_at(place), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        missing.append(f"the log {place}: {getattr(error, 'strerror', None) or error}")
        return None


def _tail(log: Ranged) -> bytes:
    """Return the end of a log, from the start of a line; raises ``OSError``."""
    with log.newest().open(Wish((Span(0, last=LOG_TAIL),))) as opened:
        size, begin = opened.stat.size, opened.stat.begin
        start = max(begin, size - LOG_TAIL)
        data = opened.read(start, size)
    return data if start == begin else data.partition(b"\n")[2]


def _keep(base: Path, name: str, files: Mapping[str, bytes]) -> tuple[Path, dict[str, int]]:
    """Write everything beside its place, then move it there in one go; raises ``OSError``."""
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = base / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
    fresh.mkdir(mode=0o700)
    try:
        sizes = {each: _write(fresh / each, data) for each, data in files.items()}
        return _placed(fresh, base, name), sizes
    except OSError:
        with suppress(OSError):
            shutil.rmtree(fresh)
        raise


def _write(path: Path, data: bytes) -> int:
    text = safe_text(data[-FILE_CAP:])
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return len(text)


def safe_text(data: bytes) -> bytes:
    """Return text of others without control sequences and secrets."""
    lines = [line.plain for line in safe_lines(data, limit=10_000)]
    return (scrub("\n".join(lines)) + "\n").encode("utf-8", "replace")


def _placed(fresh: Path, base: Path, name: str) -> Path:
    for number in range(1, 1000):
        place = base / (name if number == 1 else f"{name}-{number}")
        try:
            fresh.rename(place)
        except OSError:
            if not place.exists():
                raise
            continue
        return place
    raise OSError(17, f"too many folders {name}")


def _not_had(files: Mapping[str, bytes]) -> list[str]:
    """Return what the files themselves say that could not be had."""
    return [
        f"{name}: {data.split(b': ', 1)[-1].splitlines()[0].decode('utf-8', 'replace')}"
        for name, data in files.items()
        if data.startswith(b"not had: ")
    ]
