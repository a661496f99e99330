"""Jobs of kind ``local``, acted on: started detached, looked up, saved and stopped (SPEC S-5).

What keeps "at most once" here lies below: the lineage's locks are held by the kernel for as long
as anything of a job lives, and a launch id's note is made once
(``cockpit.hosts.supervisor``).
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from cockpit.hosts import notes
from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.launches import LaunchError, UnansweredError, start
from cockpit.hosts.notes import JOB_LOCK, LockError, try_open
from cockpit.hosts.own_folder import refuse_links
from cockpit.hosts.supervisor import Launch, expand
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet
from cockpit.model.jobs import (
    Accepted,
    LaunchState,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    Query,
    Submission,
)
from cockpit.model.lineage import keys_of, local_root, tag_of
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.place import HERE
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError, Platform, refuse_beside
from cockpit.platforms.command import NO_WAY
from cockpit.platforms.local import lookup
from cockpit.platforms.local.ending import Acting, ProcessTarget
from cockpit.platforms.local.evidence import gather
from cockpit.platforms.local.host import HostHealth
from cockpit.platforms.local.jobs import DEADLINE, LocalJobs
from cockpit.platforms.local.lineage import live_jobs
from cockpit.platforms.local.sight import Sight
from cockpit.runtime.account import MachineFolderError, machine_tag, private_folder
from cockpit.runtime.offload import offload
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

WRITABLE: Final = 0o022


def locks_folders() -> tuple[Path, ...]:
    """Return where this user's locks lie on this machine: a job holds them in each.

    Not ``machine_folder()``: no setting moves them (a cockpit started by cron has other variables
    than one in a terminal), since two that lock different files do not exclude each other. A
    container that is given this machine's ``/tmp`` is excluded by the first, whatever it calls
    itself; the second lies at home, where no other account can take the name before us.
    """
    found = [Path("/tmp") / f"cockpit-locks-{os.getuid()}"]
    with suppress(KeyError):
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        found.append(home / ".local" / "state" / "cockpit" / f"locks-{machine_tag()}")
    return tuple(found)


def lock_files(
    output_root: Path | None, keys: Iterable[str], folders: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the lock files of a lineage: one under its local output root, and for each key.

    Makes the folders, private to this user; those for the keys lie in each that is. Raises
    ``LockError`` if none is: then another account has taken the names before us.
    """
    named = [f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lock" for key in keys]
    usable, troubles = [], []
    for folder in folders:
        try:
            usable.append(_private(folder))
        except MachineFolderError as error:
            troubles.append(str(error))
    if not usable:
        raise LockError(f"no locks: {'; '.join(troubles)}")
    root = [] if output_root is None else [output_root / JOB_LOCK]
    return (*root, *(folder / name for folder in usable for name in named))


def _private(folder: Path) -> Path:
    """Return a folder that is private to this user, made if its home is there."""
    home = next((each for each in folder.parents if each.name == ".local"), folder).parent
    if home.is_dir():
        with suppress(OSError):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return private_folder(folder, refused=WRITABLE)


def try_locks(output_root: Path | None, keys: Iterable[str], folders: Sequence[Path]) -> None:
    """See that a launch could open every lock; takes none. Raises ``LockError``."""
    try:
        try_open(lock_files(output_root, keys, folders))
    except OSError as error:
        raise LockError(f"cannot lock {error.filename}: {error.strerror}") from error


LOOK: Final = 10.0
START: Final = 60.0
SLACK: Final = 30.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
T = TypeVar("T")


class LocalPlatform(Platform):
    """Processes of this machine (SPEC S-5). ``locks_folder`` stands for the user's own."""

    kind: ClassVar[str] = "local"
    acts: ClassVar[bool] = True
    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    look_every: ClassVar[float] = 0.5
    shared: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        *,
        locks_folder: Path | None = None,
        answer_within: float = START,
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._jobs = LocalJobs(clock, lambda runs, look: self._live(runs, DEADLINE, look))
        self._health = HostHealth(clock, lambda _: HERE_LINK)
        folders = locks_folders()
        self._locks = folders if locks_folder is None else (locks_folder,)
        self._answer_within = answer_within
        self._supervisors: list[subprocess.Popen[bytes]] = []

    def endpoint(self, run: RunSpec) -> str:
        """Return this machine."""
        return HERE

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return what files and the process table tell of each run's job."""
        return await self._jobs.observe(queries)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return what each run's log file tells."""
        return await self._logs.observe(queries)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of this machine."""
        return await self._health.observe(HERE, queries)

    @classmethod
    def watched_files(cls, run: RunSpec, job: JobValue | None) -> tuple[str, ...]:
        """Return the files that its wrapper writes, and its places in the process table."""
        spec = run.job
        if spec is None or spec.host is not None:
            return ()
        files = (spec.pid_file, spec.exit_file, spec.done_marker)
        named = [place.path for place in files if place is not None]
        pid = (job.id or "").removeprefix("pid:") if job is not None else ""
        known = (int(pid),) if pid.isdigit() else ()
        pids = dict.fromkeys((*known, *(job.processes if job is not None else ())))
        return (*named, *(f"/proc/{each}" for each in pids))

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return the live jobs of each lineage on this machine, from one look at all processes."""
        return await self._live(runs, LOOK)

    async def _live(
        self, runs: Sequence[RunSpec], deadline: float, look: Sight | None = None
    ) -> Mapping[str, Live]:
        try:
            key = (live_jobs, tuple(runs))
            return await offload(live_jobs, tuple(runs), look, deadline=deadline, key=key)
        except TimeoutError as error:
            text = f"cannot read the process table or the job's files: {error}"
            return {run.name: Live(unknown=text) for run in runs}

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the process table tells of a process by its id."""
        return await Acting(HERE_LINK).named(job_id)

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Note a process in the run's pid file, with its own start."""
        await offload(lookup.adopt, run, job, deadline=LOOK)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a file can be named by it."""
        if not _ID.fullmatch(launch_id):
            raise CannotError(f"bad launch id {clean(launch_id, 80)}")
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words as they are: the launch id goes into the job's environment."""
        return tuple(words)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id.

        One that was meant and never used is closed by looking: nothing can start under it after.
        """
        if not _ID.fullmatch(launch_id):
            return LookUp(found=LaunchState.ABSENT, text="no launch id of ours has such a name")
        try:
            return await offload(lookup.look_up, run, launch_id, deadline=LOOK)
        except (TimeoutError, OSError) as error:
            text = f"the notes of its launch cannot be read: {_line(error)}"
            return LookUp(found=LaunchState.UNKNOWN, text=text)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that a start would be taken in, opening every lock and note that it would open."""
        try:
            await offload(lambda: self._try(run, submission), deadline=LOOK)
        except TimeoutError as error:
            raise CannotError(f"the files of a start did not answer: {error}") from error

    def _try(self, run: RunSpec, submission: Submission) -> None:
        _startable(run, submission)
        root = None if (place := local_root(run)) is None else Path(place)
        try:
            try_locks(root, keys_of(run), self._locks)
            refuse_links(_launches(run))
        except notes.LockError as error:
            raise CannotError(str(error)) from error
        except OSError as error:
            raise CannotError(f"{error.filename}: {error.strerror}") from error

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Note that the launch id is meant; nothing runs before ``go``, and a look-up closes it."""
        await self._at_most_once(lambda attempt: self._intend(run, submission, attempt))
        return Accepted(id=submission.launch_id, submission=submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Start the job detached and return ``pid:N``."""
        self._supervisors = [each for each in self._supervisors if each.poll() is None]
        return await self._at_most_once(
            lambda attempt: self._begin(run, accepted.submission, attempt)
        )

    async def _at_most_once(self, work: Callable[[_Attempt], T]) -> T:
        """Do blocking work that is given up for good if it has not begun to act in time."""
        attempt = _Attempt()
        try:
            return await offload(lambda: work(attempt), deadline=self._answer_within + SLACK)
        except TimeoutError as error:
            if attempt.give_up():
                text = f"the machine did not answer ({error}); nothing was started"
                raise CannotError(text) from error
            raise LostError(f"no answer to the start: {error}") from error

    def _intend(self, run: RunSpec, submission: Submission, attempt: _Attempt) -> None:
        _startable(run, submission)
        self.name_for(submission.launch_id)
        refuse_beside(live_jobs((run,))[run.name])
        self._lock_files(run)
        folder = _launches(run)
        if not attempt.commit():
            raise CannotError("it was given up before anything was noted")
        note = {"by": os.getpid(), "at": f"{self._clock.now():.2f}"}
        try:
            notes.note_intent(folder, submission.launch_id, note)
        except OSError as error:
            raise CannotError(f"cannot note the launch in {folder}: {error.strerror}") from error

    def _begin(self, run: RunSpec, submission: Submission, attempt: _Attempt) -> str:
        job = _startable(run, submission)
        refuse_beside(live_jobs((run,))[run.name])
        assert job.pid_file is not None and job.log is not None
        pid_file = Path(job.pid_file.path)
        launch = Launch(
            command=submission.command,
            log=Path(job.log.path),
            pid_file=pid_file,
            exit_file=Path(job.exit_file.path) if job.exit_file else pid_file.with_suffix(".exit"),
            cwd=_workdir(run, submission),
            launch_id=submission.launch_id,
            env=submission.env,
            run=submission.run,
            lineage=tag_of(run),
            locks=self._lock_files(run),
            launches=_launches(run),
        )
        if not attempt.commit():
            raise CannotError("it was given up before anything was started")
        return self._start(launch)

    def _lock_files(self, run: RunSpec) -> tuple[Path, ...]:
        """Return the lineage's lock files, made if they are not there."""
        root = None if (place := local_root(run)) is None else Path(place)
        try:
            return lock_files(root, keys_of(run), self._locks)
        except notes.LockError as error:
            raise CannotError(str(error)) from error
        except OSError as error:
            where = error.filename or self._locks[0]
            raise CannotError(f"cannot note the launch in {where}: {error.strerror}") from error

    def _start(self, launch: Launch) -> str:
        try:
            started = start(launch, self._answer_within)
        except LaunchError as error:
            raise CannotError(_line(error)) from error
        except UnansweredError as error:
            raise LostError(_line(error)) from error
        self._supervisors.append(started.supervisor)
        return f"pid:{started.pid}"

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and what descends from them; waits for their real end."""
        grace = 60.0 if run.job is None else run.job.grace
        await Acting(HERE_LINK).end([target_of(job) for job in jobs], grace)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that nothing is configured to ask it by, if so."""
        spec = run.job
        if spec is not None and (spec.save_signal or spec.save_command):
            return None
        return NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_signal``, else by ``save_command``."""
        await Acting(HERE_LINK).save(run, job, target_of(job))

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return files, notes, stacks and device state of these jobs."""
        targets = [target_of(job) for job in jobs if "pid" in job.handle]
        return await gather(HERE_LINK, run, targets)


class _Attempt:
    """Decides, once, whether a start goes ahead or was given up before it could."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decided: str | None = None

    def commit(self) -> bool:
        """Go ahead, unless it was given up."""
        return self._decide("start")

    def give_up(self) -> bool:
        """Give up; False if it has gone ahead."""
        return self._decide("no")

    def _decide(self, word: str) -> bool:
        with self._lock:
            self._decided = self._decided or word
            return self._decided == word


def target_of(job: LiveJob) -> ProcessTarget:
    """Return what a live job is ended by; raises ``CannotError`` if it is not a local one."""
    try:
        pid, ticks = int(job.handle["pid"]), int(job.handle["ticks"])
    except (KeyError, ValueError) as error:
        raise CannotError(f"{job.id} is not a process of this machine") from error
    told = (each.split(":") for each in job.handle.get("also", "").split())
    also = tuple((int(one), int(start)) for one, start in told)
    launch_id, lineage = job.handle.get("launch_id"), job.handle.get("lineage", "")
    return ProcessTarget(pid, ticks, launch_id, lineage, also)


def _launches(run: RunSpec) -> Path:
    """Return the folder in which launch ids are used up."""
    root = None if (place := local_root(run)) is None else Path(place)
    assert run.job is not None and run.job.pid_file is not None
    return notes.launches_folder(root, Path(run.job.pid_file.path))


def _startable(run: RunSpec, submission: Submission) -> JobSpec:
    """Return the job's settings if they name everything that a start needs."""
    job = run.job
    if job is None or job.kind != "local":
        raise CannotError("only a job of kind local can be started on this machine")
    if not job.pid_file or not job.log:
        raise CannotError("job.pid_file and job.log must be set: where would it be noted?")
    if not _ID.fullmatch(submission.launch_id):
        raise CannotError(f"bad launch id {clean(submission.launch_id, 80)}")
    if not submission.command:
        raise CannotError("no command to run")
    if any("\0" in part for part in (*submission.command, *submission.env.values())):
        raise CannotError("the command holds a zero byte")
    if not keys_of(run):
        raise CannotError("no output root and no W&B id in cockpit.toml to guard the run by")
    try:
        expand(submission.command, {**os.environ, **submission.env, **OWN})
    except KeyError as error:
        name = clean(str(error.args[0]), 80)
        text = f"the command uses ${name}, which is not set; nothing was started"
        raise CannotError(text) from error
    _workdir(run, submission)
    return job


OWN: Final = {"COCKPIT_LAUNCH_ID": "", "COCKPIT_RUN": "", "COCKPIT_LINEAGE": ""}


def _workdir(run: RunSpec, submission: Submission) -> Path:
    own = (None if run.job is None else run.job.workdir) or run.workdir
    place = submission.workdir or (None if own is None else own.path)
    if not place:
        raise CannotError("no job.workdir in cockpit.toml to run the command in")
    if not Path(place).is_dir():
        raise CannotError(f"the working folder {clean(place, 200)} does not exist")
    return Path(place)


def _line(error: BaseException) -> str:
    return scrub(clean(str(error) or type(error).__name__))
