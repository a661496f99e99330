"""A launch on a Ray head, at most once: its id is used once there, and a look-up can close it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE
from cockpit.model import check_rows as rows
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Accepted, LaunchState, LiveJob, LookUp, Submission
from cockpit.model.lineage import tag_of
from cockpit.model.observed import Phase
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import places_in, resolved, save_by_command
from cockpit.platforms.local.programs import SUBMITS
from cockpit.platforms.protocol import (
    MAX_POLL_GAP,
    NOTHING_STOPPED,
    EndingJobs,
    LaunchingPlatform,
    absent,
    looked_up,
)
from cockpit.platforms.ray.answers import (
    NONCE,
    RayJob,
    closing_of,
    document_of,
    is_closing,
    name_of,
    phase_of,
    reason_of,
)
from cockpit.platforms.ray.head import CAP, COMMAND_WITHIN, MOST_PATIENCE, Head, RayTokens, base_of
from cockpit.platforms.ray.jobs import OUTSIDE, STARTED, SUBMISSION, RayJobs, launch_id_of, stamp_of
from cockpit.runtime.http import Http, HttpError, LostAnswerError
from cockpit.runtime.moment import Awake
from cockpit.runtime.shell import Completed, run_command
from cockpit.sources.logs.source import Logs
from cockpit.text.checks import blocked, finding, passed
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

GONE_WITHIN: Final = 30.0
"""Seconds beyond ``job.grace`` in which a job must have ended that was told to."""
WAITS_FOR: Final = 15.0
"""Seconds after which a job that waits, and was told to stop, is not going to heed it."""


class Target(NamedTuple):
    """One execution: what Ray calls it, and when it was submitted by the head's clock."""

    name: str
    submitted_at: str


def target_of(job: LiveJob) -> Target:
    """Return what a job is ended by; raises ``CannotError`` for a driver from outside."""
    name = job.handle.get(SUBMISSION)
    if not name:
        raise CannotError(f"{job.id}: {OUTSIDE}")
    return Target(name, job.handle.get(STARTED, ""))


class EndingRayJobs(EndingJobs):
    """Jobs of one head that are told to end by their exact submission ids."""

    slack: ClassVar[float] = GONE_WITHIN

    def __init__(self, head: Head, targets: Sequence[Target], clock: Clock) -> None:
        self._head = head
        self._left = list(targets)
        self._now: dict[Target, RayJob] = {}
        self._heard: dict[Target, Awake] = {}
        self._clock = clock

    async def left(self) -> Sequence[str]:
        """Return those of which the head does not say that they are over."""
        for target in list(self._left):
            try:
                job = await self._head.find(target.name)
            except HttpError as error:
                raise LostError(clean(str(error), 400)) from error
            if job is None and self.told:
                text = f"{self._head.name} has forgotten {target.name}: has it begun anew?"
                raise LostError(text)
            if job is None:
                text = f"{self._head.name} no longer lists {target.name}: {NOTHING_STOPPED}"
                raise CannotError(text)
            self._now[target] = job
            if phase_of(job).terminal:
                self._left.remove(target)
            elif target.submitted_at and stamp_of(job) != target.submitted_at:
                raise CannotError(f"{target.name} is another job now: it was not told to stop")
            elif self._does_not_heed(target):
                raise CannotError(_heedless(target))
        return [f"{each.name} ({clean(self._now[each].status, 40)})" for each in self._left]

    async def tell(self, *, late: bool) -> None:
        """Tell each of which the head has not said that it heard it."""
        lost: list[str] = []
        for target in self._left:
            if target in self._heard:
                continue
            try:
                heard = await self._head.stop_job(target.name)
            except LostAnswerError as error:
                self.told = True
                lost.append(f"the answer to its stop was lost: {clean(str(error), 300)}")
            except HttpError as error:
                why = clean(str(error), 400)
                raise self.unreached(f"{target.name} was not told to stop: {why}") from error
            else:
                self.told = True
                if heard:
                    self._heard[target] = Awake(WAITS_FOR, MAX_POLL_GAP, self._clock.monotonic)
                else:
                    lost.append(f"{self._head.name} has nothing to stop under {target.name}")
        if lost:
            raise LostError("; ".join(lost))

    def _does_not_heed(self, target: Target) -> bool:
        """Tell whether it was told a while ago, and still only waits."""
        heard = self._heard.get(target)
        waits = phase_of(self._now[target]) is Phase.WAITING
        return heard is not None and heard.left() <= 0 and waits


def _heedless(target: Target) -> str:
    return (
        f"{target.name} waits and does not heed its stop, which Ray keeps for when it begins; "
        f"free what it waits for, or let Ray give it up (RAY_JOB_START_TIMEOUT_SECONDS, 15 min); "
        f"DELETE is refused until then"
    )


NO_WAY: Final = (
    "Ray sends a driver nothing but its end: name a command that asks the trainer, run here "
    "(job.save_command, with {job_id})"
)


KEEP: Final = 90.0
"""Seconds that connections to a head outlive a request: longer than any cadence but a slow one."""
ADDRESS: Final = "job.address"
OPERATORS: Final = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
FORGETS: Final = (
    "the head alone knows what was submitted: if it begins anew without a kept memory "
    "(GCS fault tolerance) it forgets that, and what became of a launch is unknown then"
)


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks for and against the recorded words (placeholders unfilled)."""
    by_command = run.job is not None and run.job.resubmit_runs == "command"
    checks = _of_submitter(words) if by_command else _of_entrypoint(words)
    return [*checks, finding(rows.RAY_MEMORY, FORGETS)]


def _of_entrypoint(words: Sequence[str]) -> Iterator[Check]:
    bare = next((word for word in words if word in OPERATORS), None)
    if bare is not None:
        text = f"{bare} means something to a shell, and no shell splits these words: "
        yield finding(rows.RAY_SHELL, f'{text}write ["sh", "-c", "…"]')
    if _submits(words) is not None:
        text = 'the command submits a job itself: set resubmit_runs = "command" in [run.job]'
        yield finding(rows.RAY_SUBMITTER, text)


def _of_submitter(words: Sequence[str]) -> Iterator[Check]:
    if "launch_id" not in places_in(words):
        text = "the submitter must name its job {launch_id}, as in --submission-id {launch_id}: "
        text += "only by its id can a launch be found, and kept from coming twice"
        yield blocked(rows.RAY_LAUNCH_ID, text)
        return
    text = "the submitter names its job by the launch id; what came is looked up by it"
    yield passed(rows.RAY_LAUNCH_ID, text)
    own = _submits(words)
    if own is not None and "--no-wait" not in own:
        text = "without --no-wait `ray job submit` follows the job and is ended by force"
        yield finding(rows.RAY_NO_WAIT, text)


def _submits(words: Sequence[str]) -> Sequence[str] | None:
    """Return the options of `ray job submit` in a command, ``None`` if it is another command."""
    for place in range(len(words) - 2):
        program = words[place].rpartition("/")[2]
        if program == "ray" and tuple(words[place + 1 : place + 3]) == ("job", "submit"):
            rest = words[place + 3 :]
            return rest[: rest.index("--")] if "--" in rest else rest
    return None


WITHIN: Final = 180.0
"""Seconds that a submitter may take: it packs the code and uploads it."""
OUTPUT_CAP: Final = 200_000
API_ADDRESS: Final = "RAY_API_SERVER_ADDRESS"
"""Where Ray's own client looks for the head that its command line does not name."""


async def submitted(head: Head, run: RunSpec, submission: Submission) -> str:
    """Run the command to its end or the deadline; return how it ended, in one line.

    Raises ``CannotError`` where it was not run: it names a variable that is not set.
    """
    tag = tag_of(run)
    own = {LAUNCH_ID: submission.launch_id, SUBMITS: submission.launch_id}
    own |= {API_ADDRESS: head.base, **submission.env}
    own |= {LINEAGE: tag} if tag else {}
    words = resolved(submission.command, own)
    done = await run_command(
        words, deadline=WITHIN, cwd=submission.workdir, env=own, cap=OUTPUT_CAP
    )
    return f"the submitter {_how(done)}, and {head.name} has no job {submission.launch_id}"


def _how(done: Completed) -> str:
    if done.timed_out:
        return f"was ended after {WITHIN:.0f} s"
    said = (done.err.strip() or done.out.strip()).decode("utf-8", "replace").rpartition("\n")[2]
    return f"ended with {done.rc}{f' ({scrub(clean(said, 300))})' if said else ''}"


SESSION: Final = "session"
BY: Final = "by"
COMMAND: Final = "command"
STARTS_WITHIN: Final = 8.0
"""Seconds that a driver takes to begin on a head with room for it; after them it waits."""
POLL_EVERY: Final = 1.0
_NOT_SENT: Final = frozenset(
    {
        *(ErrorKind.REFUSED, ErrorKind.DNS, ErrorKind.TLS, ErrorKind.TIMEOUT),
        *(ErrorKind.UNAUTHORIZED, ErrorKind.FORBIDDEN),
    }
)
"""Errors, other than a lost answer, after which nothing has reached a head that would heed it."""


class RayLaunches(LaunchingPlatform):
    """What acts on the jobs of Ray heads."""

    kind: ClassVar[str] = "ray"
    forgets: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._tokens = RayTokens(clock, COMMAND_WITHIN)
        self._heads: dict[object, Head] = {}
        self._jobs = RayJobs(clock)

    def _head(self, job: JobSpec) -> Head:
        """Return the head that a run names; raises ``ValueError`` for a bad address."""
        assert job.address is not None
        base = base_of(job.address)
        key = (base, job.auth, job.token_env, job.token_command)
        if key not in self._heads:
            # connections of its own: a head that hangs holds back no other
            http = Http(self._clock, deadline=MOST_PATIENCE, cap=CAP, keep=KEEP)
            self._heads[key] = Head(base, job, http, self._tokens, self._clock)
        return self._heads[key]

    def _head_of(self, run: RunSpec) -> Head:
        """Return the head that a run is acted on at; raises ``CannotError``."""
        if run.job is None or not run.job.address:
            raise CannotError(f"{ADDRESS}, the head's dashboard, is not given")
        try:
            return self._head(run.job)
        except ValueError as error:
            raise CannotError(clean(str(error), 400)) from None

    def name_for(self, launch_id: str) -> str:
        """Return the submission id; one with a slash makes a job that nobody can ask for."""
        return name_of(launch_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against an entrypoint, or a submitter of the user's own."""
        return command_checks(run, words)

    async def used_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that its head has used."""
        jobs = await self._head_of(run).ever()
        return frozenset(filter(None, (launch_id_of(run, job) for job in jobs)))

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the head has no job under the id, nor has closed it."""
        head = self._head_of(run)
        found = await head.find(name_of(submission.launch_id))
        if found is not None and is_closing(found):
            raise CannotError(f"{found.id} was closed by a look-up; nothing was started")
        if found is not None:
            text = f"{head.name} has a job {found.id} already ({_state_text(found)}); plan again"
            raise CannotError(text)

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Draw a nonce that tells whose a job is; nothing is sent before ``go``."""
        session = await self._head_of(run).session()
        by = {BY: COMMAND} if _by_command(run) else {NONCE: secrets.token_hex(8)}
        handle = {**by, SESSION: session}
        return Accepted(id=name_of(submission.launch_id), submission=submission, handle=handle)

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Post the job, or run the recorded submitter; return the submission id."""
        head = self._head_of(run)
        why = await self._sent(head, run, accepted)
        if why is None:
            return accepted.id
        try:
            found = await head.find(accepted.id)
        except HttpError:
            raise LostError(why) from None
        if found is None:
            raise LostError(why)
        if is_closing(found):
            raise CannotError(f"{accepted.id} was closed by a look-up; nothing was started")
        if _is_ours(found, accepted.handle):
            return accepted.id
        raise CannotError(_theirs(head, found))

    async def _sent(self, head: Head, run: RunSpec, accepted: Accepted) -> str | None:
        """Send it; return why it is not known whether it came, ``None`` where the head has it."""
        if _by_command(run):
            return await submitted(head, run, accepted.submission)
        try:
            await head.submit(document_of(run, accepted.submission, accepted.handle[NONCE]))
        except LostAnswerError as error:
            return _error_text(error)
        except HttpError as error:
            if error.kind not in _NOT_SENT:
                return _error_text(error)
            raise CannotError(f"nothing was submitted: {_error_text(error)}") from error
        return None

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return what became of a launch; ``handle`` is what the journal keeps of its accept.

        An empty one says that nothing was ever sent; ``None``, that the launch was another
        machine's: then its id alone counts, and what this head does not have is gone with it.
        """
        head = self._head_of(run)
        job = await head.find(name_of(launch_id))
        return f"{head.name} has no job of it" if job is None else await self._of(head, job, handle)

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """Take the id, if no job has it, by one that only says so; else return what has come."""
        head = self._head_of(run)
        return await self._of(head, await _closed(head, run, name_of(launch_id)), handle)

    async def _of(self, head: Head, job: RayJob, handle: Mapping[str, str] | None) -> LookUp:
        if is_closing(job):
            return await self._never_came(head, job.id, handle)
        if handle is not None and not _is_ours(job, handle):
            return absent(_theirs(head, job))
        return await self._came(head, await self._wait_for_start(head, job))

    async def _never_came(self, head: Head, name: str, handle: Mapping[str, str] | None) -> LookUp:
        """Return what a closed id means: of what was sent, only the same head can tell."""
        text = f"{head.name} has no job of ours under {name}, and takes none any more: it is closed"
        if not handle:
            return absent(text)
        session = await head.session()
        if session and session == handle.get(SESSION):
            return absent(text)
        why = "the head has begun anew since and has forgotten its jobs"
        if not session or not handle.get(SESSION):
            why = "the head does not tell whether it has begun anew since"
        return LookUp(
            found=LaunchState.UNKNOWN, text=f"{text}; cannot tell whether it ran: {why}", final=True
        )

    async def _wait_for_start(self, head: Head, job: RayJob) -> RayJob:
        """Return the job once it has started, or is known to wait."""
        until = self._clock.monotonic() + STARTS_WITHIN
        while phase_of(job) is Phase.WAITING and self._is_young(head, job):
            if self._clock.monotonic() >= until:
                return job
            await self._clock.sleep(POLL_EVERY)
            job = await head.find(job.id) or job
        return job

    def _is_young(self, head: Head, job: RayJob) -> bool:
        if job.submitted_at is None:
            return False
        return self._clock.now() - head.clock.ours(job.submitted_at) < STARTS_WITHIN

    async def _came(self, head: Head, job: RayJob) -> LookUp:
        phase, text = phase_of(job), f"{head.name}: {job.id} is {_state_text(job)}"
        reason = None
        if phase is Phase.WAITING:
            reason = await self._jobs.wait_of(head, job) or reason_of(job) or ""
        lives = True if phase.lives else False if phase.terminal else None
        return looked_up(job.id, text, lives=lives, waits_for=reason)

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what ends these jobs: Ray asks with SIGTERM first, and kills after its grace."""
        targets = [target_of(job) for job in jobs]
        return EndingRayJobs(self._head_of(run), targets, self._clock)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that there is no way to ask the trainer, if so."""
        return None if run.job is not None and run.job.save_command else NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command``, run on this machine."""
        why = self.can_save(run, job)
        if why is not None:
            raise CannotError(why)
        await save_by_command(HERE_LINK, run, job)


async def _closed(head: Head, run: RunSpec, name: str) -> RayJob:
    """Close an id, and return the job that has it: ours that came first, or what closes it."""
    trouble: HttpError | None = None
    try:
        await head.submit(closing_of(run, name))
    except HttpError as error:
        trouble = error
    found = await head.find(name)
    if found is None:
        raise trouble or HttpError(ErrorKind.NOT_FOUND, f"{head.name} forgot {name} at once")
    return found


def _is_ours(job: RayJob, handle: Mapping[str, str]) -> bool:
    """Tell whose job it is: by the nonce, of what a command has submitted by the id alone."""
    if handle.get(BY) == COMMAND:
        return True
    nonce = handle.get(NONCE)
    return nonce is not None and job.metadata.get(NONCE) == nonce


def _by_command(run: RunSpec) -> bool:
    return run.job is not None and run.job.resubmit_runs == "command"


def _theirs(head: Head, job: RayJob) -> str:
    name = f"{clean(job.id, 200)} ({_state_text(job)})"
    return (
        f"{head.name} has a job {name} that was not submitted by this launch: another cockpit "
        f"gave the same id; nothing was started by this one"
    )


def _state_text(job: RayJob) -> str:
    code = "" if job.exit_code is None else f", exit {job.exit_code}"
    reason = reason_of(job)
    return f"{clean(job.status, 40)}{code}{f': {reason}' if reason else ''}"


def _error_text(error: HttpError) -> str:
    return clean(str(error), 400)
