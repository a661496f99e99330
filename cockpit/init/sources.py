"""From what a person names on the command line to clues, and what there is to name (blocking)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.init.logbook import logbook_clues
from cockpit.init.proposal import KINDS, Clue
from cockpit.init.state_file import PATTERN, SourceError, relative, state_clues
from cockpit.model.run import JobSpec
from cockpit.sources.checkpoints.listing import looks_like_checkpoint
from cockpit.text.safe import clean

_JOB: Final = re.compile(rf"(?P<kind>{'|'.join(KINDS)})(?::(?P<id>[^@]*))?(?:@(?P<where>.+))?")
_AT_ADDRESS: Final = re.compile(r"(?P<kind>iris|ray):(?P<id>.+?)@(?P<where>[a-z]+://.+)")
"""A job at an address: a user's own name may hold an ``@``."""
_WANDB_RUN: Final = re.compile(r"https?://[^\s]+/runs/[^\s]+")
_FRAGMENT: Final = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(?P<id>.+)")
_MADE_UP: Final = re.compile(r"[a-z0-9]{8}")
"""An id that the W&B client made up; one that a person gave has a name."""
LOGS: Final = ("*.log", "*.out", "logs/*.log", "logs/*.out", "*/*.log")
EXPECTED: Final = (
    "expected a monitoring state file (.json), a logbook (.md), a wandb folder, a W&B run's "
    "address, or a job: slurm:ID[@HOST], ray:ID@ADDRESS, iris:/USER/JOB@ADDRESS, box:SESSION@HOST, "
    "local:LOGFILE; or all jobs of this user: slurm[@HOST], ray@ADDRESS, iris@ADDRESS, box@HOST"
)
WHERE: Final = {
    "iris": "controller_url", "ray": "address", "slurm": "host", "box": "host",
}  # fmt: skip
NAMED: Final = {"box": "session", "local": "log"}
"""The setting that names the job, where that is not its id."""
MOST: Final = 50


_AT: Final = (("%", "%25"), ("@", "%40"))
"""How a session's name is spelled where an ``@`` would begin its host."""


class Found(NamedTuple):
    """Something that ``init`` could begin from: how to name it, and what it is."""

    what: str
    text: str


def clues_of(what: str, folder: Path) -> Iterator[Clue]:
    """Yield what one source tells; raises ``SourceError`` for one that is none.

    ``folder`` is where the run file is to stand.
    """
    if _WANDB_RUN.fullmatch(what):
        yield Clue(("wandb", "url"), what, "the address given")
        return
    named = job_named(what)
    if named is not None:
        yield from _job(named, what, folder)
        return
    try:
        yield from _file(what, folder)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{clean(what, 200)} cannot be read: {clean(why, 200).lower()}") from None


def _file(what: str, folder: Path) -> Iterator[Clue]:
    path = Path(what).expanduser()
    if path.is_dir():
        yield from _wandb_folder(path, folder)
    elif path.suffix == ".json":
        yield from state_clues(path, folder)
    elif path.suffix == ".md":
        yield from logbook_clues(path, folder)
    else:
        raise SourceError(f"{clean(what)} is not a source; {EXPECTED}")


def job_named(what: str) -> JobSpec | None:
    """Return the job that ``slurm:12@login1`` and its like name; raises ``SourceError``.

    Without an id it is the system only: ``slurm``, ``box@gpu1``.
    """
    found = _AT_ADDRESS.fullmatch(what) or _JOB.fullmatch(what)
    if found is None:
        return None
    kind, job_id, where = found["kind"], found["id"], found["where"]
    if kind == "box" and job_id:
        job_id = _unspelled(job_id)
    if where and kind not in WHERE:
        raise SourceError(f"{clean(what)}: a job of kind {kind} is on this machine; leave @… out")
    settings = {"kind": kind, WHERE.get(kind, ""): where, NAMED.get(kind, "id"): job_id}
    return JobSpec.model_validate({name: value for name, value in settings.items() if value})


def spelled(kind: str, job_id: str) -> str:
    """Return how a job is named so that ``job_named`` gives it back."""
    for sign, written in _AT if kind == "box" else ():
        job_id = job_id.replace(sign, written)
    return job_id


def _unspelled(job_id: str) -> str:
    for sign, written in reversed(_AT):
        job_id = job_id.replace(written, sign)
    return job_id


def named_by(job: JobSpec) -> str | None:
    """Return what names the job itself: its id, session or log."""
    value = getattr(job, NAMED.get(job.kind, "id"))
    return None if value is None else str(value)


def _job(named: JobSpec, what: str, folder: Path) -> Iterator[Clue]:
    for name in ("kind", "id", "session", "log", "host", "address", "controller_url"):
        value = getattr(named, name)
        if value is not None:
            yield Clue(("job", name), str(value), f"{clean(what)}, as given")
    if named.kind == "local" and named.log is not None:
        yield from _beside_log(Path(str(named.log)), folder)


def _wandb_folder(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield the folder and each W&B id in it: several ids are a question."""
    one = _FRAGMENT.fullmatch(path.name)
    ids = [one["id"]] if one is not None else list(_ids_in(path))
    if not ids:
        raise SourceError(f"{clean(path)} holds no W&B run; {EXPECTED}")
    place = relative(path, folder)
    yield Clue(("wandb", "dir"), place, place)
    for each in ids:
        if not _MADE_UP.fullmatch(each):  # the next start has another: the folder's newest counts
            yield Clue(("wandb", "id"), each, f"a run in {place}")
    yield from beside(folder)


def _ids_in(path: Path) -> Iterator[str]:
    found = (_FRAGMENT.fullmatch(each.name) for each in sorted(path.iterdir(), reverse=True))
    yield from list(dict.fromkeys(match["id"] for match in found if match is not None))[:MOST]


def logs_in(folder: Path) -> list[Path]:
    """Return the logs beside which a process id is noted, the newest first; never raises."""
    found: dict[Path, float] = {}
    for pattern in LOGS:
        with suppress(OSError):
            for log in sorted(folder.glob(pattern))[:MOST]:
                if log.is_file() and _pid_file(log) is not None:
                    found[log] = log.stat().st_mtime
    return sorted(found, key=lambda log: -found[log])


def beside(folder: Path) -> Iterator[Clue]:
    """Yield the one local job whose log and process id lie in a folder; of several none."""
    logs = logs_in(folder)
    if len(logs) == 1:
        log = relative(logs[0], folder)
        yield Clue(("job", "kind"), "local", f"{log}, beside its process id")
        yield Clue(("job", "log"), log, log)
        yield from _beside_log(logs[0], folder)


def saves_in(folder: Path) -> Iterator[Clue]:
    """Yield the folders with checkpoints by their names, as what might be meant; never raises."""
    for pattern in ("*", "*/*"):
        with suppress(OSError):
            for place in sorted(folder.glob(pattern))[:MOST]:
                if place.is_dir() and any(
                    looks_like_checkpoint(each.name) for each in islice(place.iterdir(), MOST)
                ):
                    source = "checkpoints lie there"
                    yield Clue(("checkpoints", "path"), relative(place, folder), source)
                    yield Clue(("output_root",), relative(place, folder), source)


def _beside_log(log: Path, folder: Path) -> Iterator[Clue]:
    """Yield the process id and the exit status that a launcher notes beside a log."""
    pid = _pid_file(folder / log)
    if pid is None:
        return
    yield Clue(("job", "pid_file"), relative(pid, folder), f"beside {clean(log)}")
    status = pid.with_suffix(".exit")
    if status.is_file():
        yield Clue(("job", "exit_file"), relative(status, folder), f"beside {clean(log)}")


def _pid_file(log: Path) -> Path | None:
    """Return the file with the process id: of the log's own name, else the only one there."""
    own = log.with_suffix(".pid")
    if own.is_file():
        return own
    there = [each for each in sorted(log.parent.glob("*.pid")) if each.is_file()]
    return there[0] if len(there) == 1 else None


def here(folder: Path) -> Iterator[Found]:
    """Yield what lies in a folder that ``init`` could begin from; never raises."""
    for pattern, text in (
        (PATTERN, "a monitor's state file"),
        (f"scratch/{PATTERN}", "a monitor's state file"),
        (".agents/logbooks/*.md", "a logbook"),
    ):
        for path in sorted(folder.glob(pattern), reverse=True)[:MOST]:
            yield Found(relative(path, folder), text)
    for log in logs_in(folder)[:MOST]:
        yield Found(f"local:{relative(log, folder)}", "a log with its process id beside it")
    wandb = folder / "wandb"
    try:
        ids = list(_ids_in(wandb)) if wandb.is_dir() else []
    except OSError:
        ids = []
    if ids:
        yield Found("wandb", f"W&B runs on disk: {', '.join(clean(each, 80) for each in ids[:5])}")
