"""Tries the places of a launch before anything is stopped (SPEC A), and compares regions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cockpit.actions.checks import checkpoint
from cockpit.actions.core.action import ActionContext
from cockpit.hosts.here import ask_host, host_of
from cockpit.hosts.link import Ask, ask
from cockpit.hosts.notes import BELOW
from cockpit.model import check_rows as rows
from cockpit.model.check_rows import CheckRow
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.jobs import Submission
from cockpit.model.lineage import local_root
from cockpit.model.observed import CheckpointsValue, Pick
from cockpit.model.place import FILE, SSH, Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.wording import size, steps
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kinds import PLATFORMS
from cockpit.rules.lineage.paths import named_in, of_command, plain
from cockpit.runtime.bucket_client import AMAZON, settings_of
from cockpit.runtime.buckets import BUCKETS
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.mounts import holds_disks
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

WITHIN: Final = 2.5


async def region_checks(
    run: RunSpec, words: Sequence[str], pick: Pick | None, clock: Clock
) -> list[Check]:
    """Return a warning for each place that lies in another region than where the job runs.

    Where the job's region is not known, the output root's stands for it.
    """
    places = list(_places(run, pick))
    if not any(place.scheme in BUCKETS for _, place in places):
        return []
    known: dict[str, tuple[str, Basis] | None] = {}
    for _, place in places:
        if place.endpoint not in known:
            known[place.endpoint] = await region_of(place, clock)
    told = [(what, place, known[place.endpoint]) for what, place in places]
    base, flag = of_command(words)
    whose = "" if flag is None else f"the job ({shown(flag)})"
    for what, place, region in told:
        if base is None and region is not None:
            base, whose = region[0], f"{what} {place}"
    if base is None:
        return []
    checks = []
    for what, place, region in told:
        if region is not None and region[0] != base:
            text = f"{what} {place} is in {region[0]}, {whose} in {base}: traffic goes"
            text += " across regions, which is slow and billed"
            checks.append(warned(rows.REGION, text, region[1], str(place)))
    if checks:
        return checks
    return [passed(rows.REGION, f"every known region is {base}", value=base)]


def _places(run: RunSpec, pick: Pick | None) -> Iterator[tuple[str, Place]]:
    if run.output_root is not None:
        yield "the output root", run.output_root
    spec = run.checkpoints
    for root in spec.path if spec is not None else ():
        yield "the checkpoint root", root
    source = None if spec is None else spec.initialize_from
    if source is not None:
        yield "initialize_from", source
    if pick is not None and (source is None or str(source) != pick.path):
        yield "the checkpoint", place_of(pick.path)


async def region_of(place: Place, clock: Clock) -> tuple[str, Basis] | None:
    """Return the region of a bucket and how that is known; ``None``: it is not."""
    if place.scheme == "s3":
        told = await _told(place, clock)
        if told is not None:
            return told, Basis.OBSERVED
    found = named_in(place)
    return None if found is None else (found, Basis.INFERRED)


async def _told(place: Place, clock: Clock) -> str | None:
    settings = settings_of(place.scheme, place.host)
    url = f"{settings.endpoint or AMAZON}/{place.host}"
    try:
        answer = await Http(clock, deadline=WITHIN).send("HEAD", url)
    except HttpError:
        return None
    region = answer.headers.get("x-amz-bucket-region")
    return plain(clean(region, 40)) if region else None


DEADLINE: Final = 8.0
AWAY: Final = 12.0
"""Seconds for the answers of an ssh host, a login among them."""
MOST_READ: Final = 64
LEAST: Final = 16_000_000
"""Bytes that a log and a few notes need where the size of a checkpoint is not known."""
SAVES: Final = 2
"""Checkpoints for which there should be room: one beside the one that it follows (C-22)."""
FEW: Final = 64
"""Files that must still fit: a checkpoint of a few shards, the log, the notes."""
HOLDS_SAVES: Final = ("the output root", "the checkpoints' folder")


class Folder(NamedTuple):
    """A folder that something of the launch is written into, and makes where it is missing.

    ``told``: that it is not there is said of it, not of a folder above it. ``file`` in it must be
    appended to or replaced.
    """

    what: str
    place: Place
    told: bool = True
    file: Place | None = None


class Question(NamedTuple):
    """What a machine is asked about a place, and what its answer speaks for and against."""

    row: CheckRow
    what: str
    place: Place
    ask: Ask
    checks: Callable[[Any], list[Check]]


async def places(
    context: ActionContext, run: RunSpec, words: Sequence[str], pick: Pick | None
) -> list[Check]:
    """Return what speaks against starting this run's job here and now, tried by doing."""
    saved, platform = context.report.facets.checkpoints.value, context.platform
    here = platform is not None and platform.found_by_files
    checks = await tried(run, words if here else (), pick, _newest_size(saved), None)
    origin = None if pick is None else place_of(pick.path)
    if origin is not None and origin.scheme not in (FILE, SSH):
        checks += await checkpoint.unreadable(origin, context.parts.clock)
    checks += await _start_tried(context, run, words)
    for each in await asyncio.gather(
        *(tried(run, words, pick, _newest_size(saved), host) for host in hosts_of(run, pick))
    ):
        checks += each
    return [*checks, *await region_checks(run, words, pick, context.parts.clock)]


async def _start_tried(context: ActionContext, run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return why the platform would refuse to start this now, of what it opens for that."""
    platform = context.acting_platform
    if platform is None or context.launch_id is None or not words:
        return []
    submission = Submission(run=run.name, launch_id=context.launch_id, command=tuple(words))
    try:
        await platform.try_start(run, submission)
    except (CannotError, LostError, TimeoutError) as error:
        return [finding(rows.START, f"a start would fail: {error}")]
    return []


def _newest_size(saved: CheckpointsValue | None) -> int | None:
    sized = [item for item in (saved.items if saved is not None else ()) if item.size]
    return sized[-1].size if sized else None


def hosts_of(run: RunSpec, pick: Pick | None) -> list[str]:
    """Return the ssh hosts on which something of a launch lies."""
    used = [each.place for each in folders(run)] + ([] if pick is None else [place_of(pick.path)])
    found = [place.host for place in used if place.scheme == SSH]
    job = run.job
    if job is not None and job.host and PLATFORMS[job.kind].starts == "host":
        found.append(job.host)
    return list(dict.fromkeys(found))


async def tried(
    run: RunSpec, words: Sequence[str], pick: Pick | None, need: int | None, host: str | None
) -> list[Check]:
    """Return what speaks against a launch on one machine (``None``: this one), tried by doing."""
    own = [each for each in folders(run) if host_of(each.place) == host]
    checks = await _asked(host, [*_of_folders(own, need), *_of_job(run, words, host),
                                 *_of_checkpoint(pick, host)])  # fmt: skip
    if own and not any(check.id == rows.PLACES.id for check in checks):
        said = ", ".join(dict.fromkeys(each.what for each in own))
        on = "" if host is None else f" on {host}"
        checks.insert(0, passed(rows.PLACES, f"writable{on}: {said}"))
    return checks


async def _asked(host: str | None, questions: Sequence[Question]) -> list[Check]:
    """Ask a machine all at once; one that cannot be asked at all is one check."""
    if not questions:
        return []
    about = ask("its own facts", "about")
    asks = [about, *(each.ask for each in questions)]
    answers = await ask_host(host, asks, DEADLINE if host is None else AWAY)
    if isinstance(unknown := answers[about], Problem):
        where = "here" if host is None else f"on {host}"
        return [blocked(rows.PLACES, f"its folders {where} cannot be checked: {unknown.message}")]
    checks: list[Check] = []
    for each in questions:
        said = answers[each.ask]
        checks += (
            [_unanswered(each, host, said)] if isinstance(said, Problem) else each.checks(said)
        )
    return checks


def _unanswered(each: Question, host: str | None, problem: Problem) -> Check:
    if host is not None:
        return blocked(each.row, f"{each.what} on {host} did not answer: {problem.message}")
    return blocked(each.row, f"{problem.message}: {shown(each.place.path)}")


def folders(run: RunSpec) -> Iterator[Folder]:
    """Yield the folders of this machine and of ssh hosts that a launch writes into."""
    root, job = _root(run), run.job
    if root is not None:
        yield Folder("the output root", root)
        for below in (BELOW.parent, BELOW):
            yield Folder("the cockpit's notes in it", root.below(*below.parts), told=False)
    starts = None if job is None else PLATFORMS[job.kind].starts
    if job is not None and (starts == "here" or (starts == "host" and job.host)):
        for what, place in (
            ("the log's folder", job.log),
            ("the pid file's folder", job.pid_file),
            ("the exit file's folder", job.exit_file),
        ):
            if place is None or set("*?[%") & set(place.path):
                continue
            if place.here if starts == "here" else place.scheme == SSH:
                above = str(PurePosixPath(place.path).parent)
                yield Folder(what, Place(place.scheme, place.host, above), file=place)
    for place in run.checkpoints.path if run.checkpoints is not None else ():
        if place.scheme == SSH or (place.here and place.path.startswith("/")):
            yield Folder("the checkpoints' folder", place)


def _root(run: RunSpec) -> Place | None:
    if run.output_root is not None and run.output_root.scheme == SSH:
        return run.output_root.normal()
    root = local_root(run)
    return None if root is None else Place(FILE, "", root)


def _of_folders(own: Sequence[Folder], need: int | None) -> Iterator[Question]:
    for each in own:
        file = "" if each.file is None else each.file.path
        asked = ask(
            each.what, "try_folder", path=each.place.path, file=file,
            append=each.what.startswith("the log"),
        )  # fmt: skip
        yield Question(rows.PLACES, each.what, each.place, asked,
                       lambda said, of=each: _writable(of, said))  # type: ignore[misc]  # fmt: skip
    for each in {each.place: each for each in own}.values():  # their disks are looked at with each
        asked = ask(f"the disk of {each.what}", "room", path=each.place.path)
        yield Question(rows.DISK, each.what, each.place, asked,
                       lambda said, of=each: _room(of, said, need))  # type: ignore[misc]  # fmt: skip


def _at(place: Place, path: str) -> str:
    """Return a path of the machine that a place lies on, as people read it."""
    return path if place.here else f"{place.host}:{path}"


def _writable(folder: Folder, said: Mapping[str, Any]) -> list[Check]:
    """Return what trying to write into a folder has shown."""
    what, path = folder.what, shown(str(folder.place))
    if "refused" in said:
        why, where = said["refused"]
        text = f"{what} is not writable by this user: {clean(why, 160)}"
        return [blocked(rows.PLACES, f"{text} ({shown(_at(folder.place, where))})")]
    if "other" in said:
        return [blocked(rows.PLACES, f"{what} is not a folder: {path}")]
    if "above" not in said or not folder.told:
        return []
    missing = f"{what} is not there ({path}), and"
    if said["unmounted"] is not None:
        text = f"{missing} the disk at {shown(said['unmounted'])} is not mounted"
        return [blocked(rows.PLACES, text)]
    if holds_disks(said["above"]):
        text = f"it would be made in {shown(said['above'])}: check whether a disk is missing"
        return [warned(rows.PLACES, f"{missing} {text}")]
    return []


def _room(folder: Folder, said: Mapping[str, Any], need: int | None) -> list[Check]:
    """Return whether a disk has room for a save of ``need`` bytes, and for its files."""
    what, free, files = folder.what, said["free"], said["files"]
    holds_saves = what in HOLDS_SAVES
    least = max(LEAST, need or 0) if holds_saves else LEAST
    where = f"the disk of {what} ({shown(_at(folder.place, said['there']))})"
    checks = []
    if free is not None and free < least:
        kept = "a checkpoint" if need is not None and least == need else "a log"
        text = f"{where} has {size(free)} free, and {kept} takes {size(least)}"
        checks.append(blocked(rows.DISK, text, moves=True))
    elif free is not None and holds_saves and free < SAVES * (need or 0):
        text = f"{where} has {size(free)} free: less than {SAVES} checkpoints of {size(need)}"
        checks.append(warned(rows.DISK, text, moves=True))
    if files is not None and files < FEW:
        checks.append(
            blocked(rows.DISK, f"{where} has inodes for only {files} more files", moves=True)
        )
    return checks


def _of_job(run: RunSpec, words: Sequence[str], host: str | None) -> Iterator[Question]:
    """Yield what tries whether the command could begin on the machine that starts it."""
    job = run.job
    if job is None or PLATFORMS[job.kind].starts != ("here" if host is None else "host"):
        return
    if (job.host or None) != host and host is not None:
        return
    workdir = _workdir(run, job, host)
    if words and workdir is not None:
        script = script_of(words)
        asked = ask(
            "the workdir", "why_not_begun", workdir=workdir.path, program=words[0],
            script=script or "",
        )  # fmt: skip
        yield Question(rows.PROGRAM, "the workdir", workdir, asked,
                       lambda said: _begun(said, workdir, words[0], script))  # fmt: skip
    if PLATFORMS[job.kind].supervised and host is not None:
        place = workdir or Place(SSH, host, "~")
        asked = ask("the launcher", "missing_for_launcher")
        yield Question(rows.LAUNCHER, "the launcher", place, asked, _launcher)


def _workdir(run: RunSpec, job: JobSpec, host: str | None) -> Place | None:
    if host is None:
        return Place(FILE, "", job.workdir.path if job.workdir is not None else ".")
    return job.workdir or run.workdir


def _begun(
    said: Sequence[Any] | None, workdir: Place, program: str, script: str | None
) -> list[Check]:
    """Return why a command cannot begin."""
    if said is None:
        return []
    missing, is_file = said
    where = shown(_at(workdir, workdir.path))
    if missing == "workdir":
        return [finding(rows.PROGRAM, f"workdir does not exist: {where}")]
    if missing == "enter":
        return [finding(rows.PROGRAM, f"workdir cannot be entered: {where}")]
    if missing == "program":
        text = f"no executable program {shown(program)}"
        return [finding(rows.PROGRAM, text + (f" (chmod +x {shown(program)})" if is_file else ""))]
    text = f"{shown(script or '')} does not exist, seen from workdir {where}"
    return [finding(rows.SCRIPT, text)]


def _launcher(missing: str | None) -> list[Check]:
    if missing is None:
        return []
    return [finding(rows.LAUNCHER, f"the host has no {missing}: nothing can be started there")]


_TAKE_ONE: Final = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that are followed by a value."""


def script_of(words: Sequence[str]) -> str | None:
    """Return the Python file that a command probably runs, where that can be told.

    Only of a plain ``python [options] file.py``: anything else is the command's own affair.
    """
    if not Path(words[0]).name.startswith("python"):
        return None
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-" or (option[1:2] != "-" and set("cm") & set(option[1:])):
            return None
        if option in _TAKE_ONE:
            rest = rest[1:]
    plain = bool(rest) and rest[0].endswith(".py") and "$" not in rest[0]
    return rest[0] if plain else None


def _of_checkpoint(pick: Pick | None, host: str | None) -> Iterator[Question]:
    """Yield what tries whether a job of this user could load a checkpoint."""
    origin = None if pick is None else place_of(pick.path)
    if pick is None or origin is None or origin.scheme not in (FILE, SSH):
        return
    if host_of(origin) != host or (host is None and not origin.path.startswith("/")):
        return
    asked = ask("the checkpoint", "why_unreadable", path=origin.path, most=MOST_READ)

    def checks(said: Sequence[str] | None) -> list[Check]:
        if said is None:
            return []
        where = shown(str(Place(origin.scheme, origin.host, said[1])))
        text = f"step {steps(pick.step)} cannot be read by this user: {clean(said[0], 160)}"
        return [blocked(rows.READABLE, f"{text} ({where})")]

    yield Question(rows.READABLE, "the checkpoint", origin, asked, checks)
