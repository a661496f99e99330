"""Tries the places of a launch before anything is stopped (SPEC A), and compares regions."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.actions.checks import checkpoint
from cockpit.actions.checks.places_away import (
    DISK,
    ID,
    PROGRAM,
    READABLE,
    Room,
    missing_place,
    no_folder,
    no_program,
    no_script,
    no_workdir,
    places_away,
    room_of,
    script_of,
    unreadable,
    unwritable,
)
from cockpit.actions.core.action import ActionContext
from cockpit.model.clock import Clock
from cockpit.model.jobs import Submission
from cockpit.model.lineage import local_root
from cockpit.model.observed import CheckpointsValue, Pick
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kinds import PLATFORMS
from cockpit.platforms.local.launcher.notes import BELOW, refuse_links
from cockpit.rules.lineage.paths import named_in, of_command, plain
from cockpit.runtime.bucket_client import AMAZON, settings_of
from cockpit.runtime.buckets import BUCKETS
from cockpit.runtime.http import Http, HttpError
from cockpit.runtime.mounts import missing_disk, nearest
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

REGION: Final = "C-17:region"
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
            checks.append(warned(REGION, text, region[1], str(place)))
    if checks:
        return checks
    return [passed(REGION, f"every known region is {base}", Basis.INFERRED, base)]


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
TRIED: Final = 65_536
"""Bytes that are written to see that a file system takes any: a quota tells only so."""
MOST_READ: Final = 64
START: Final = "start"


class _Folder(NamedTuple):
    """A folder that something of the launch is written into, and makes where it is missing.

    ``told``: that it is not there is said of it, not of a folder above it.
    """

    what: str
    path: Path
    told: bool = True
    files: tuple[Path, ...] = ()


async def places(
    context: ActionContext, run: RunSpec, words: Sequence[str], pick: Pick | None
) -> list[Check]:
    """Return what speaks against starting this run's job here and now, tried by doing."""
    saved, platform = context.report.facets.checkpoints.value, context.platform
    checks: list[Check] = []
    folders = list(_folders(run))
    for folder in folders:
        checks += await _asked(ID, folder.what, folder.path, partial(_tried, folder))
    if folders and not checks:
        said = ", ".join(dict.fromkeys(folder.what for folder in folders))
        checks.append(passed(ID, f"writable: {said}"))
    need = _newest_size(saved)
    for folder in _each_disk(folders):
        checks += await _asked(DISK, folder.what, folder.path, partial(_room, folder, need))
    job = run.job
    here = platform is not None and platform.found_by_files
    if job is not None and PLATFORMS[job.kind].starts == "here" and here and words:
        workdir = Path(job.workdir.path) if job.workdir is not None else Path()
        checks += await _asked(PROGRAM, "the workdir", workdir, lambda: _program(workdir, words))
    if pick is not None and pick.path.startswith("/"):
        origin = Path(pick.path)
        checks += await _asked(
            READABLE, "the checkpoint", origin, lambda: list(_unreadable(origin, pick))
        )
    elif pick is not None and place_of(pick.path).scheme != SSH:
        checks += await checkpoint.unreadable(place_of(pick.path), context.parts.clock)
    checks += await _start_tried(context, run, words)
    there = await places_away(run, words, pick, need)
    return [*checks, *there, *await region_checks(run, words, pick, context.parts.clock)]


async def _start_tried(context: ActionContext, run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return why the platform would refuse to start this now, of what it opens for that."""
    platform = context.acting_platform
    if platform is None or context.launch_id is None or not words:
        return []
    submission = Submission(run=run.name, launch_id=context.launch_id, command=tuple(words))
    try:
        await platform.try_start(run, submission)
    except (CannotError, LostError, TimeoutError) as error:
        return [blocked(START, f"a start would fail: {error}")]
    return []


async def _asked(name: str, what: str, path: Path, look: Callable[[], list[Check]]) -> list[Check]:
    try:
        return await offload(look, deadline=DEADLINE)
    except TimeoutError:
        text = f"{what} did not answer within {DEADLINE:g} s: {shown(str(path))}"
        return [blocked(name, text)]


def _folders(run: RunSpec) -> Iterator[_Folder]:
    """Yield the folders of this machine that a launch writes into."""
    root, job = local_root(run), run.job
    if root is not None:
        yield _Folder("the output root", Path(root))
        for below in (BELOW.parent, BELOW):
            yield _Folder("the cockpit's notes in it", Path(root) / below, told=False)
    if job is not None and PLATFORMS[job.kind].starts == "here":
        yield from _of_job(job)
    for place in run.checkpoints.path if run.checkpoints is not None else ():
        if place.here and place.path.startswith("/"):
            yield _Folder("the checkpoints' folder", Path(place.path))


def _of_job(job: JobSpec) -> Iterator[_Folder]:
    for what, place in (
        ("the log's folder", job.log),
        ("the pid file's folder", job.pid_file),
        ("the exit file's folder", job.exit_file),
    ):
        if place is not None and place.here and not set("*?[") & set(place.path):
            path = Path(place.path).expanduser()
            yield _Folder(what, path.parent, files=(path,))


def _tried(folder: _Folder) -> list[Check]:
    """Write into a folder and into what is there of its files; blocking."""
    try:
        refuse_links(folder.path)
        if folder.path.is_dir():
            _write(folder.path)
        elif os.path.lexists(folder.path):
            return [no_folder(folder.what, str(folder.path))]
        else:
            _make(folder.path)
            return _would_be_made(folder)
        for path in folder.files:
            _take(path, append=folder.what.startswith("the log"))
    except OSError as error:
        why = (error.strerror or str(error) or "it cannot be written").lower()
        where = error.filename if isinstance(error.filename, str) else str(folder.path)
        return [unwritable(folder.what, why, _plain(where))]
    return []


def _would_be_made(folder: _Folder) -> list[Check]:
    """Return what speaks against making a folder that is not there, though it can be made."""
    missing = missing_disk(folder.path)
    if missing is None or not folder.told:
        return []
    return [missing_place(folder.what, str(folder.path), missing)]


def _plain(where: str) -> str:
    """Return a path without the name of what was only tried there."""
    path = Path(where)
    return str(path.parent if path.name.startswith(_TRY) else path)


_TRY: Final = ".cockpit-try-"


def _write(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=_TRY, dir=folder)
    try:
        os.write(handle, bytes(TRIED))
        os.fsync(handle)
    finally:
        os.close(handle)
        with suppress(OSError):
            Path(name).unlink()


def _make(path: Path) -> None:
    """See that a missing folder could be made: where the nearest one above it takes a folder."""
    made = tempfile.mkdtemp(prefix=_TRY, dir=nearest(path))
    Path(made).rmdir()


def _take(path: Path, *, append: bool) -> None:
    """See that a file that is there can be appended to, or replaced; raises ``OSError``."""
    if not os.path.lexists(path):
        return
    if append:
        os.close(os.open(str(path), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK))
        return
    above, mine = path.parent.stat(), os.geteuid()
    owners = (0, path.lstat().st_uid, above.st_uid)
    if above.st_mode & stat.S_ISVTX and mine not in owners:
        raise PermissionError(1, "only its owner may replace it", str(path))


def _newest_size(saved: CheckpointsValue | None) -> int | None:
    sized = [item for item in (saved.items if saved is not None else ()) if item.size]
    return sized[-1].size if sized else None


def _each_disk(folders: Sequence[_Folder]) -> list[_Folder]:
    """Return one folder for each distinct path: which disks they share is looked at with each."""
    return list({folder.path: folder for folder in folders}.values())


def _room(folder: _Folder, need: int | None) -> list[Check]:
    """Return whether the disk below has room for a save, in bytes and in files; blocking."""
    try:
        there = next(each for each in (folder.path, *folder.path.parents) if each.is_dir())
        disk = os.statvfs(there)
    except (OSError, StopIteration) as error:
        return [blocked(DISK, f"free space of {folder.what} unknown: {error}")]
    root = os.geteuid() == 0
    free = disk.f_frsize * (disk.f_bfree if root else disk.f_bavail)
    files = disk.f_ffree if root else disk.f_favail
    return room_of(folder.what, str(there), Room(free, files, disk.f_blocks, disk.f_ffree), need)


def _program(workdir: Path, words: Sequence[str]) -> list[Check]:
    """Return why the command could not even begin; blocking."""
    if not workdir.is_dir():
        return [no_workdir(str(workdir))]
    if not os.access(workdir, os.X_OK):
        return [blocked(PROGRAM, f"workdir cannot be entered: {shown(str(workdir))}")]
    program = str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0]
    if "$" in program:
        return []
    found = program if "/" not in program else str(workdir / program)
    if shutil.which(found) is None:
        return [no_program(program, is_file="/" in program and Path(found).is_file())]
    script = script_of(words)
    if script is not None and not (workdir / script).exists():
        return [no_script(script, str(workdir))]
    return []


def _unreadable(origin: Path, pick: Pick) -> Iterator[Check]:
    """Yield why a job of this user could not load a checkpoint; blocking."""
    try:
        files = [origin] if origin.is_file() else _some_files(origin)
        for path in files:
            with path.open("rb") as file:
                file.read(1)
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        where = error.filename if isinstance(error.filename, str) else str(origin)
        yield unreadable(pick, why, where)


def _some_files(folder: Path) -> list[Path]:
    """Return some files of a checkpoint, at any depth; raises ``OSError``."""

    def fail(error: OSError) -> None:
        raise error

    found: list[Path] = []
    for where, _, names in os.walk(folder, onerror=fail):
        regular = (Path(where, name) for name in names)
        found += [path for path in regular if path.is_file()]
        if len(found) >= MOST_READ:
            break
    return found[:MOST_READ]
