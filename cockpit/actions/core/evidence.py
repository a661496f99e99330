"""Keeps what a later reader needs, before anything is stopped or relaunched (SPEC A).

One folder for each action, private, put there whole. Everything in it is made safe and scrubbed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.config.file import state_dir
from cockpit.model.base import Frozen
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Live
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.wording import plural, size
from cockpit.platforms.base import Platform
from cockpit.platforms.rank_stacks import RANKS
from cockpit.platforms.table import kind_of
from cockpit.runtime.offload import offload
from cockpit.sources.logs.ranged import Ranged, Span, Wish
from cockpit.sources.logs.remote import HostError, log_at
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

LOG_TAIL: Final = 5_000_000
"""Bytes of the log's end that are kept."""
SHORTER: Final = (500_000, 50_000)
"""Bytes that are tried where a host does not bring more in time."""
FILE_CAP: Final = 6_000_000
MOST_FILES: Final = 64
ALTOGETHER: Final = 40_000_000
"""Bytes that are kept of one action's evidence."""
DEADLINE: Final = 60.0
_OWN: Final = frozenset({"report.json", "log.json", "log-tail.txt"})
_MARGIN: Final = 4096
"""Bytes behind a cut that are looked at for secrets, so that none is cut in two."""


class Archived(Frozen):
    """Where the evidence lies (``None``: nothing could be kept), its files and size in bytes.

    ``missing`` holds one line for everything that could not be had.
    """

    path: str | None
    files: tuple[str, ...] = ()
    size: int = 0
    missing: tuple[str, ...] = ()
    log: str = ""
    """How much of which log was kept."""
    ranks: str = ""
    """Where the ranks stand, the odd ones first."""

    @property
    def text(self) -> str:
        """One line for the journal."""
        lost = f"; missing: {'; '.join(self.missing)}" if self.missing else ""
        told = "".join(f"; {each}" for each in (self.ranks, self.log) if each)
        lost = f"{told}{lost}"
        if self.path is None:
            return f"no evidence was kept{lost}"
        return f"{plural(len(self.files), 'file')}, {size(self.size)} in {self.path}{lost}"


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
    log, told = await asyncio.gather(
        _log(run, report, missing), _of_platform(run, platform, live, missing)
    )
    files |= told
    if log is not None:
        files |= {"log-tail.txt": log.data, "log.json": log.document}
    files = _bounded(files, missing)
    stamp = datetime.fromtimestamp(report.checked_at, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{stamp}-{launch}"
    try:
        path, sizes = await offload(lambda: _keep(base, name, files), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Archived(path=None, missing=(*missing, f"cannot write under {base}: {why}"))
    # What the files themselves say that could not be had
    missing += [
        f"{name}: {data.split(b': ', 1)[-1].splitlines()[0].decode('utf-8', 'replace')}"
        for name, data in files.items()
        if data.startswith(b"missing: ")
    ]
    return Archived(
        path=str(path), files=tuple(sizes), size=sum(sizes.values()), missing=tuple(missing),
        log="" if log is None else log.text,
        ranks=clean(files.get(RANKS, b"").decode().partition("\n")[0], 300),
    )  # fmt: skip


async def _of_platform(
    run: RunSpec, platform: Platform | None, live: Live, missing: list[str]
) -> dict[str, bytes]:
    """Return what the platform gives, with plain names; a system that hangs costs a deadline."""
    if platform is None:
        return {}
    try:
        async with asyncio.timeout(DEADLINE):
            found = await platform.evidence(run, live.jobs)
    except TimeoutError:
        missing.append(f"what {platform.kind} tells of the job: no answer within {DEADLINE:g} s")
        return {}
    return {_plain(name): data for name, data in found.items()}


def _plain(name: str) -> str:
    """Return a name as one that a file can have."""
    return re.sub(r"[^\w.+@-]", "_", name).lstrip(".")[:100] or "unnamed"


def _bounded(files: Mapping[str, bytes], missing: list[str]) -> dict[str, bytes]:
    """Return the files as far as they may be kept; what is left out or cut is named."""
    kept: dict[str, bytes] = {}
    room = ALTOGETHER
    for name, data in sorted(files.items(), key=lambda item: (item[0] not in _OWN, len(item[1]))):
        if len(kept) >= MOST_FILES or min(len(data), FILE_CAP) > room:
            missing.append(f"{name}: {size(len(data))}, too much beside the other files")
            continue
        if len(data) > FILE_CAP:
            missing.append(f"{name}: only the first {size(FILE_CAP)} of {size(len(data))}")
        kept[name] = data
        room -= min(len(data), FILE_CAP)
    return kept


class LogTail(NamedTuple):
    """The end of a log: where it lies, its size in bytes, and from which byte on it was kept."""

    data: bytes
    place: str
    size: int
    start: int

    @property
    def text(self) -> str:
        """One line: how much of what."""
        what = "all " if not self.start else f"the last {size(self.size - self.start)} of "
        return f"the log: {what}{size(self.size)} of {self.place}"

    @property
    def document(self) -> bytes:
        """The same for programs."""
        told = {"path": self.place, "size": self.size, "kept_from": self.start}
        return (json.dumps(told, indent=1) + "\n").encode("utf-8", "replace")


async def _log(run: RunSpec, report: RunReport, missing: list[str]) -> LogTail | None:
    """Return the end of the log that the run file names, else of the one that was last read."""
    kind, seen = kind_of(run), report.facets.log.value
    place = None if kind is None else kind.log_place(run, None) or kind.log_place(run, seen)
    if place is None:
        missing.append(f"the log: {_no_log(report)}")
        return None
    try:
        return await offload(_tail, log_at(place), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        missing.append(f"the log {place}: {getattr(error, 'strerror', None) or error}")
        return None


def _no_log(report: RunReport) -> str:
    """Say why there is no log to keep: what its facet says, else that nothing names one."""
    error = report.facets.log.error
    return "nothing names one" if error is None else clean(error.message, 300)


def _tail(log: Ranged) -> LogTail:
    """Return the end of a log, from the start of a line; raises ``OSError``.

    Of one that its host does not bring in time, less is tried.
    """
    newest = log.newest()
    for most in (LOG_TAIL, *SHORTER):
        try:
            return _end(newest, most)
        except HostError as error:
            if error.kind is not ErrorKind.TIMEOUT or most == SHORTER[-1]:
                raise
    raise AssertionError("the last one returns or raises")


def _end(log: Ranged, most: int) -> LogTail:
    with log.open(Wish((Span(0, last=most),))) as opened:
        size, begin = opened.stat.size, opened.stat.begin
        start = max(begin, size - most)
        data = opened.read(start, size)
    if start > begin:
        whole = data.partition(b"\n")[2]
        start, data = start + len(data) - len(whole), whole
    return LogTail(data, clean(str(log.place), 500), size, start)


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
    text = safe_text(data[: FILE_CAP + _MARGIN])[: FILE_CAP if len(data) > FILE_CAP else None]
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
