"""Where a first run file is read from: state files, logbooks, W&B runs, jobs of this user.

Blocking.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.config.check import NAME
from cockpit.init.proposal import Clue, Key
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.facet import Problem
from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.kinds import PLATFORMS
from cockpit.platforms.table import Platforms
from cockpit.records.logbook.reading import LabelledValue, read_logbook, value_of
from cockpit.runtime.mounts import read_text
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.listing import looks_like_checkpoint
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.sources.monitor import StateRead, read_state
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PATTERN: Final = "*_monitoring_state.json"
MOST_BESIDE: Final = 200
"""State files beside one that are looked at."""


class SourceError(Exception):
    """A source that cannot be read; the text is one line that says what was expected."""


def kind_of_id(job_id: str) -> str | None:
    """Return the kind of job that has ids of this shape, ``None`` if none does."""
    for kind, row in PLATFORMS.items():
        if row.id_shape is not None and re.fullmatch(row.id_shape[0], job_id):
            return kind
    return None


def state_clues(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield what the file tells; raises ``SourceError``.

    ``folder`` is where the run file is to stand: paths are written as seen from there.
    """
    found = read_state(str(path))
    if found is None or isinstance(found, Problem):
        raise SourceError(f"{clean(path)} does not exist" if found is None else found.message)
    source = relative(path, folder)
    yield Clue(("monitor", "state"), _pattern(path, folder, found.job_id), source)
    if found.cadence_s is not None:
        yield Clue(("monitor", "cadence"), f"{found.cadence_s:g}s", source)
    for key, value in ((("name",), found.run), (("dri",), found.owner)):
        if value is not None:
            yield Clue(key, value, source)
    if found.job_id is not None:
        yield Clue(("job", "id"), found.job_id, source)
        kind = kind_of_id(found.job_id)
        if kind is not None:
            yield Clue(("job", "kind"), kind, f"{source}: the shape of its job id")
    yield from _setup(path, folder, found.job_id, source)


def _setup(path: Path, folder: Path, job_id: str | None, source: str) -> Iterator[Clue]:
    """Yield what the loop's own set-up tells: how to submit again, which cluster."""
    document = _document(path)
    command = document.get("resubmit_command")
    # A secret in the clear must not reach another file; its variable's name may.
    if isinstance(command, str) and command.strip() and scrub(command) == command:
        yield Clue(("resubmit",), clean(command, 4096), source)
    cluster = document.get("config") or document.get("cluster")
    row = PLATFORMS.get(kind_of_id(job_id or "") or "")
    if isinstance(cluster, str) and cluster and row is not None and "cluster" in row.fields:
        yield Clue(("job", "cluster"), clean(cluster, 1024), source)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _pattern(path: Path, folder: Path, job_id: str | None) -> str:
    """Return a pattern that the next monitor's file matches too, if it is this job's alone."""
    if not path.match(PATTERN):
        return relative(path, folder)
    beside = sorted(path.parent.glob(PATTERN))
    alone = len(beside) == 1 or (job_id is not None and len(beside) <= MOST_BESIDE)
    return relative(path.parent / PATTERN if alone and _all_of(beside, job_id) else path, folder)


def _all_of(paths: Iterable[Path], job_id: str | None) -> bool:
    """Tell whether all files are surely of one job; one that cannot be read may be another's."""
    found = (read_state(str(path)) for path in paths)
    return all(isinstance(each, StateRead) and each.job_id == job_id for each in found)


def relative(path: Path, folder: Path) -> str:
    """Return a path as the run file in ``folder`` would write it."""
    whole, base = path.absolute(), folder.absolute()
    return str(whole.relative_to(base)) if whole.is_relative_to(base) else str(whole)


_NOTHING: Final = frozenset(("", "-", "–", "—", "none", "n/a", "tbd", "todo", "unknown", "?"))
_LINK: Final = re.compile(r"https?://[^\s)>\]`]+")
_COUNT: Final = re.compile(r"\d[\d,_]*")
_TITLE: Final = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*:\s*Hero Run Logbook", re.IGNORECASE)
TEXTS: Final[tuple[tuple[str, Key], ...]] = (
    ("DRI", ("dri",)),
    ("Goal", ("goal",)),
    ("Stop/escalation criteria", ("stop_criteria",)),
    ("Output root", ("output_root",)),
)


def logbook_clues(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield what the logbook tells; raises ``SourceError``."""
    try:
        book = read_logbook(read_text(path))
    except OSError as error:
        raise SourceError(
            f"{clean(path)}: {(error.strerror or 'cannot be read').lower()}"
        ) from None
    source = relative(path, folder)
    if not book.contract and not book.entries:
        raise SourceError(f"{clean(path)} is not a logbook: it has neither a contract nor entries")
    yield Clue(("records", "logbook"), source, source)
    title = _TITLE.fullmatch(book.title.strip())
    if title is not None:
        yield Clue(("name",), title["name"], f"{source}: its title")
    yield from _contract(book.contract, source)
    if book.instances:
        yield from _instance(book.instances[-1].fields, source)


def _contract(fields: Iterable[LabelledValue], source: str) -> Iterator[Clue]:
    fields = tuple(fields)
    for label, key in TEXTS:
        value = _field_text(fields, label)
        if value is not None:
            yield Clue(key, value, f"{source}: {label}")
    issue = _LINK.search(_field_text(fields, "Issue") or "")
    if issue is not None and "/issues/" in issue[0]:
        yield Clue(("records", "issue"), issue[0], f"{source}: Issue")
    wandb = _LINK.search(_field_text(fields, "W&B") or "")
    if wandb is not None and "/runs/" in wandb[0]:
        yield Clue(("wandb", "url"), wandb[0], f"{source}: W&B")
    step = _COUNT.fullmatch(_field_text(fields, "Final step") or "")
    if step is not None:
        yield Clue(("final_step",), int(re.sub(r"[,_]", "", step[0])), f"{source}: Final step")


def _instance(fields: Iterable[LabelledValue], source: str) -> Iterator[Clue]:
    fields = tuple(fields)
    where = f"{source}: the newest launched instance"
    command = _field_text(fields, "Command")
    if command is not None and "[" not in command and scrub(command) == command:
        yield Clue(("resubmit",), command, where)
    for label, key in (
        ("Hardware/topology", ("hardware",)),
        ("initialize_from", ("checkpoints", "initialize_from")),
    ):
        value = _field_text(fields, label)
        if value is not None:
            yield Clue(key, value, where)


def _field_text(fields: Iterable[LabelledValue], label: str) -> str | None:
    value = clean((value_of(fields, label) or "").strip().strip("`").strip(), 2000)
    return None if value.lower() in _NOTHING else value


_JOB: Final = re.compile(rf"(?P<kind>{'|'.join(PLATFORMS)})(?::(?P<id>[^@]*))?(?:@(?P<where>.+))?")
_BY_ADDRESS: Final = [kind for kind, row in PLATFORMS.items() if row.address not in (None, "host")]
_AT_ADDRESS: Final = re.compile(
    rf"(?P<kind>{'|'.join(_BY_ADDRESS)}):(?P<id>.+?)@(?P<where>[a-z]+://.+)"
)
"""A job at an address: a user's own name may hold an ``@``."""
_WANDB_RUN: Final = re.compile(r"https?://[^\s]+/runs/[^\s]+")
_MLFLOW_RUN: Final = re.compile(
    r"(?P<uri>https?://[^\s#@]+?)/?#/experiments/\d+/runs/(?P<run>[0-9a-f]{32})(?:/\S*)?"
)
_FRAGMENT: Final = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(?P<id>.+)")
_MADE_UP: Final = re.compile(r"[a-z0-9]{8}")
"""An id that the W&B client made up; one that a person gave has a name."""
LOGS: Final = ("*.log", "*.out", "logs/*.log", "logs/*.out", "*/*.log")
_ONE: Final = (f"{kind}:{''.join(row.spelled)}" for kind, row in PLATFORMS.items())
_ALL: Final = (f"{kind}{row.spelled[1]}" for kind, row in PLATFORMS.items() if row.address)
EXPECTED: Final = (
    "expected the folder that a trainer writes, a monitoring state file (.json), a logbook (.md), "
    "a wandb folder, an mlruns folder or mlflow.db, the address of a W&B or MLflow run, "
    f"or a job: {', '.join(_ONE)}; or all jobs of this user: {', '.join(_ALL)}"
)
MOST: Final = 50


_AT: Final = (("%", "%25"), ("@", "%40"))
"""How a session's name is spelled where an ``@`` would begin its host."""


class Suggestion(NamedTuple):
    """Something that ``init`` could start from: how to name it, and what it is."""

    what: str
    text: str


def clues_of(what: str, folder: Path) -> Iterator[Clue]:
    """Yield the clues of one source; raises ``SourceError`` if it is not one.

    ``folder`` is where the run file is to stand.
    """
    if _WANDB_RUN.fullmatch(what) and "/#/" not in what:
        yield Clue(("wandb", "url"), what, "the address given")
        return
    page = _MLFLOW_RUN.fullmatch(what)
    if page is not None:
        yield Clue(("mlflow", "uri"), page["uri"], "the address given")
        yield Clue(("mlflow", "run"), page["run"], "the address given")
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
    if _is_mlflow(path):
        yield Clue(("mlflow", "uri"), relative(path, folder), relative(path, folder))
    elif path.is_dir():
        yield from _folder(path, folder)
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
    row = PLATFORMS[kind]
    if row.named_by == "session" and job_id:
        for sign, written in reversed(_AT):
            job_id = job_id.replace(written, sign)
    if where and row.address is None:
        raise SourceError(f"{clean(what)}: a job of kind {kind} is on this machine; leave @… out")
    settings = {"kind": kind, row.address or "": where, row.named_by: job_id}
    return JobSpec.model_validate({name: value for name, value in settings.items() if value})


def spelled(kind: str, job_id: str) -> str:
    """Return how a job is named so that ``job_named`` gives it back."""
    for sign, written in _AT if PLATFORMS[kind].named_by == "session" else ():
        job_id = job_id.replace(sign, written)
    return job_id


def named_by(job: JobSpec) -> str | None:
    """Return what names the job itself: its id, session or log."""
    value = getattr(job, PLATFORMS[job.kind].named_by)
    return None if value is None else str(value)


def _job(named: JobSpec, what: str, folder: Path) -> Iterator[Clue]:
    row = PLATFORMS[named.kind]
    for name in filter(None, ("kind", row.named_by, row.address)):
        value = getattr(named, name)
        if value is not None:
            yield Clue(("job", name), str(value), f"{clean(what)}, as given")
    if row.named_by == "log" and named.log is not None:
        yield from _beside_log(Path(str(named.log)), folder)


def _is_mlflow(path: Path) -> bool:
    """Tell a store of MLflow: its SQLite file, or a folder of experiments."""
    if path.is_file():
        return path.suffix == ".db" and "mlflow" in path.stem
    return path.is_dir() and any(path.glob("*/meta.yaml"))


def _folder(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield what lies in a folder: W&B runs, or all that a trainer writes there.

    One that is empty yet is the output root of a run that has just begun.
    """
    one = _FRAGMENT.fullmatch(path.name)
    ids = [one["id"]] if one is not None else list(_ids_in(path))
    if ids:
        yield from _wandb_runs(path, folder, ids)
        yield from local_job_in(folder, folder)
        return
    if path.name in ("wandb", "mlruns"):
        raise SourceError(f"{clean(path)} holds no run; {EXPECTED}")
    yield Clue(("output_root",), relative(path, folder), "the folder given")
    if NAME.fullmatch(path.absolute().name):
        yield Clue(("name",), path.absolute().name, "the name of the folder given")
    yield from _written_in(path, folder)


def _written_in(path: Path, folder: Path) -> Iterator[Clue]:
    """Yield the checkpoints, the W&B runs and the one local job that lie in a trainer's folder.

    W&B runs and a job that lie beside it are its own where no other folder there has checkpoints.
    """
    roots = [relative(each, folder) for each in _roots_in(path)]
    if roots:
        value = roots if len(roots) > 1 else roots[0]
        yield Clue(("checkpoints", "path"), value, "checkpoints lie there")
    own = path.absolute()
    others = (each.absolute() for each in folders_with_saves(folder))
    alone = all(each.is_relative_to(own) for each in others)
    places = (path, folder) if alone else (path,)
    for wandb in (each / "wandb" for each in places):
        if wandb.is_dir() and (ids := list(_ids_in(wandb))):
            yield from _wandb_runs(wandb, folder, ids)
            break
    jobs = (list(local_job_in(each, folder)) for each in places)
    yield from next(filter(None, jobs), ())


def _roots_in(path: Path) -> list[Path]:
    """Return the folders that hold checkpoints of any layout, as ``cockpit checkpoints`` does."""
    try:
        value = list_checkpoints([str(path)], "auto", None, now=SystemClock().now())
    except (ListingError, TimeoutError, ValueError):
        return []
    return sorted({Path(item.path).parent for item in value.items})


def _wandb_runs(path: Path, folder: Path, ids: Sequence[str]) -> Iterator[Clue]:
    """Yield the folder and each W&B id in it: several ids are a question."""
    place = relative(path, folder)
    yield Clue(("wandb", "dir"), place, place)
    for each in ids:
        if not _MADE_UP.fullmatch(each):  # the next start has another: the folder's newest counts
            yield Clue(("wandb", "id"), each, f"a run in {place}")


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


def local_job_in(place: Path, folder: Path) -> Iterator[Clue]:
    """Yield the one local job whose log and process id lie in ``place``; of several none."""
    logs = logs_in(place)
    if len(logs) == 1:
        log = relative(logs[0], folder)
        yield Clue(("job", "kind"), "local", f"{log}, beside its process id")
        yield Clue(("job", "log"), log, log)
        yield from _beside_log(logs[0], folder)


def folders_with_saves(folder: Path) -> list[Path]:
    """Return the folders below one that hold checkpoints by their names; never raises."""
    found: list[Path] = []
    for pattern in ("*", "*/*"):
        with suppress(OSError):
            found += filter(_holds_saves, sorted(folder.glob(pattern))[:MOST])
    return found


def _holds_saves(place: Path) -> bool:
    """Tell by names alone, so as to be quick, whether a folder holds checkpoints.

    One that cannot be read holds none, and hides no other.
    """
    with suppress(OSError):
        return place.is_dir() and any(
            looks_like_checkpoint(each.name) for each in islice(place.iterdir(), MOST)
        )
    return False


def saves_in(folder: Path) -> Iterator[Clue]:
    """Yield the folders with checkpoints, as what might be meant; never raises."""
    for place in folders_with_saves(folder):
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


def here(folder: Path) -> Iterator[Suggestion]:
    """Yield what lies in a folder that ``init`` could begin from; never raises."""
    for pattern, text in (
        (PATTERN, "a monitor's state file"),
        (f"scratch/{PATTERN}", "a monitor's state file"),
        (".agents/logbooks/*.md", "a logbook"),
    ):
        for path in sorted(folder.glob(pattern), reverse=True)[:MOST]:
            yield Suggestion(relative(path, folder), text)
    for place in folders_with_saves(folder)[:MOST]:
        yield Suggestion(relative(place, folder), "a folder with checkpoints")
    for log in logs_in(folder)[:MOST]:
        yield Suggestion(f"local:{relative(log, folder)}", "a log with its process id beside it")
    for name in ("mlflow.db", "mlruns"):
        if _is_mlflow(folder / name):
            yield Suggestion(name, "MLflow runs on disk")
    wandb = folder / "wandb"
    try:
        ids = list(_ids_in(wandb)) if wandb.is_dir() else []
    except OSError:
        ids = []
    if ids:
        yield Suggestion(
            "wandb", f"W&B runs on disk: {', '.join(clean(each, 80) for each in ids[:5])}"
        )


RAY_ADDRESS: Final = "RAY_ADDRESS"
"""Ray's own variable; it may name a port of the cluster instead of the dashboard's."""


async def own_jobs(named: JobSpec, clock: Clock) -> Sequence[OwnJob]:
    """Return this user's jobs at a system; raises ``SourceError``."""
    try:
        return await Platforms(clock).own_jobs(named)
    except CannotError as error:
        raise SourceError(str(error)) from None


async def job_clues(named: JobSpec, clock: Clock) -> tuple[list[Clue], list[Clue]]:
    """Return what its system tells of a job, and what it suggests.

    Raises ``SourceError``, for a job that the system does not list too.
    """
    for each in await own_jobs(named, clock):
        if each.id == named_by(named):
            source = clean(f"{named.kind} job {each.id}", 200)
            told = [
                Clue(tuple(key.split(".")), clean(value, 4096), source)
                for key, value in each.settings.items()
            ]
            return told, [Clue(("name",), clean(each.name, 200), source)]
    raise SourceError("it is not among your jobs listed there")


def listed(named: JobSpec, jobs: Sequence[OwnJob]) -> Iterator[Suggestion]:
    """Yield each job as ``init`` would be asked for it."""
    address = PLATFORMS[named.kind].address
    where = getattr(named, address) if address else None
    for job in jobs:
        what = f"{named.kind}:{spelled(named.kind, job.id)}" + (f"@{where}" if where else "")
        yield Suggestion(clean(what, 300), clean(f"{job.name}, {job.text}", 200))


def at_hand() -> Iterator[JobSpec]:
    """Yield the systems that this machine and environment name by themselves."""
    if shutil.which("squeue"):
        yield JobSpec(kind="slurm")
    address = os.environ.get(RAY_ADDRESS, "")
    if address.startswith(("http://", "https://")):
        yield JobSpec(kind="ray", address=address)
