"""Slurm's answers to the launch protocol, and the orders that its scheduler is given (SPEC A).

A job is submitted held with its launch id as its comment; the lowest number of a launch id alone is
ever released. A look-up goes by the comments of my jobs and by the note of what was let go. What
was accepted and never let go is ended by looking. Where no job has the id, a note closes it: a
``go`` that comes later is refused. A late answer of the controller still can bring a job, held: so
where an sbatch got no answer the id is unknown until the controller has told of no job for a while.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from cockpit.hosts.notes import number_of
from cockpit.hosts.script import run_script
from cockpit.model.clock import Clock
from cockpit.model.jobs import Accepted, LiveJob, LookUp, SchedulerOrder, Submission
from cockpit.model.observed import Phase
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.model.wording import duration
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import NO_WAY, WITHIN, save_words
from cockpit.platforms.local.ending import NUMBERS, signal_name
from cockpit.platforms.protocol import EndingJobs, LaunchingPlatform, absent, beside, looked_up
from cockpit.platforms.slurm import command, scripts
from cockpit.platforms.slurm.ask import (
    CONTROLLER,
    Run,
    ask,
    is_job_id,
    last_words,
)
from cockpit.platforms.slurm.book import Book, Job, book_of, is_held, never_began
from cockpit.platforms.slurm.jobs import STEPS, SlurmJobs, host_of, where_of
from cockpit.platforms.slurm.record import Record, in_words
from cockpit.runtime.moment import Awake
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBER: Final = re.compile(r"(?:^|Submitted batch job )(\d{1,12})(?:[;\s]|$)", re.MULTILINE)
"""Such as ``Submitted batch job 71``."""
KILLED, REFUSED = 128, 255
"""A status between these is that of a command that a signal has ended; sbatch's own is 255 for
options that it does not know."""
_FENCED: Final = "Invalid --open-mode"
SCHEDULED: Final = 5.0
"""Seconds within which a scheduler has looked at a new job: by then it runs, or waits."""
SENT: Final = "sent"
"""The key of what is known of sbatch where its answer is not known."""
_NOTHING: Final = "none of your jobs there has it as its comment"
_CANCELLED: Final = "was cancelled before it ran"
_REFUSALS: Final = {
    "used": "this launch id was used up before; nothing was submitted",
    "nonotes": "its launch cannot be noted there ({} cannot be written); nothing was submitted",
    "folder": "the working folder {workdir} does not exist",
    "nosbatch": "sbatch is not installed there, or not on the PATH of a plain command",
    "nofolder": "no temporary folder could be made there (mktemp -d)",
    "unset": "the command uses ${}, which is not set there; nothing was started",
}
"""What it means that the script ended at one of its parts, before anything was submitted."""


class SlurmLaunches(LaunchingPlatform):
    """What acts on the jobs of a Slurm cluster; each call has its own deadline."""

    kind: ClassVar[str] = "slurm"
    bundled: ClassVar[bool] = False
    """The checkout of the login node is what runs: nothing travels but the batch script."""
    definite_within: ClassVar[float] = 45.0
    forgets: ClassVar[bool] = True
    """The controller within minutes of a job's end; not every cluster has accounting."""

    def __init__(self, clock: Clock, logs: Logs, run: Run = run_script) -> None:
        super().__init__(clock, logs)
        self._run = run
        self._jobs = SlurmJobs(clock, run)
        self._fresh: dict[str, float] = {}

    async def _act(self, run: RunSpec, script: str, within: float) -> dict[str, str]:
        return await scripts.acted(self._run, host_of(run), script, within + scripts.SLACK)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if it can stand as a comment and name a file."""
        if not _ID.fullmatch(launch_id):
            raise CannotError(f"bad launch id {clean(launch_id, 80)}")
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words with the hold and the launch id as sbatch's comment (INTERFACE)."""
        return command.held_words(words, launch_id)

    def unformed(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words of a submit without the hold, the comment and how it prints."""
        return command.plain_words(words)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against the recorded words."""
        return command.command_checks(words)

    async def check_alone(self, run: RunSpec) -> None:
        """Leave it to the plan, which knows what waits in a chain behind the run's own job."""

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Submit a held job; the same launch id is taken in only while no job has it."""
        workdir, launch_id = _workdir(run, submission), submission.launch_id
        try:
            there = tagged(await self._jobs.book(run), launch_id)
        except LostError as error:
            raise CannotError(f"{error}; nothing was submitted") from error
        if there:
            text = f"job {there[0].id} has {launch_id} already ({there[0].word})"
            raise CannotError(f"{text}; nothing was submitted")
        words = command.with_names(submission.command, sorted(submission.env))
        sees = bool(submission.env) and not command.names_export(words)
        script = scripts.accept_script(
            run, launch_id, words, workdir, submission.env, sees_exports=sees
        )
        within = scripts.WRAPPER if command.sbatch_at(words) is None else scripts.SUBMIT
        found = await self._act(run, script, within + CONTROLLER)
        for part, text in _REFUSALS.items():
            if part in found:
                said = scrub(clean(found[part].strip(), 200))
                raise CannotError(text.format(said, workdir=clean(workdir, 200)))
        job = _submitted(found)
        if "--export" in found.get("script", ""):
            await self._cancel(run, job)
            text = f"its batch script says {clean(found['script'], 120)}, which keeps"
            raise CannotError(f"{text} {', '.join(submission.env)} from the job; it was cancelled")
        return Accepted(id=job, submission=submission, handle={"job": job})

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Let the accepted job run if it is the lowest of its launch id, and return its number."""
        job, launch_id = accepted.id, accepted.submission.launch_id
        if not job.isdecimal():
            raise CannotError(f"{clean(job, 40)} is not a Slurm job")
        others = await self._chosen(run, job, launch_id)
        live = (await self._jobs.live([run]))[run.name]
        began = [each for each in live.jobs if each.id != job and each.started_at is not None]
        # what waits behind the run's own job is the plan's affair
        why = beside(live.model_copy(update={"jobs": tuple(began)}))
        if why is not None:
            await self._cancel(run, job)
            raise CannotError(f"{why}; ours ({job}) {_CANCELLED}")
        found = await self._act(run, scripts.go_script(run, launch_id, job), 4 * CONTROLLER)
        await self._let_go(run, found, job, launch_id)
        if others:  # they are held: whether this succeeds decides nothing
            try:
                await self._act(run, scripts.cancel_script(others, pending=True), CONTROLLER)
            except (CannotError, LostError):
                return job
        return job

    async def _chosen(self, run: RunSpec, job: str, launch_id: str) -> list[str]:
        """See that the job is ours to let go; return the later ones of the same launch id."""
        book = await self._jobs.book(run)
        mine = book.find(job)
        if mine is None:
            raise LostError(
                f"{where_of(host_of(run))} does not list job {job}: it is held, or gone"
            )
        record = mine.main
        if record.comment != launch_id:
            await self._cancel(run, job)
            told = f'"{scrub(clean(record.comment, 80))}"' if record.comment else "nothing"
            text = f"job {job} says {told} in place of its launch id {launch_id}: it could not be"
            raise CannotError(f"{text} known again, and was cancelled")
        same = [each for each in tagged(book, launch_id) if each.base != record.base]
        first = [each for each in same if int(each.base) < int(job) or not is_held(each)]
        first = [each for each in first if not never_began(each)]
        if first:
            await self._cancel(run, job)
            text = f"job {first[0].id} has {launch_id} too, and was first"
            raise CannotError(f"{text}; ours ({job}) {_CANCELLED}")
        if not is_held(record):
            raise CannotError(f"job {job} is {record.word}: it was closed before it was released")
        return bases([each for each in same if is_held(each)])

    async def _let_go(
        self, run: RunSpec, found: Mapping[str, str], job: str, launch_id: str
    ) -> None:
        """Judge the answer to the release; raises ``CannotError``, ``LostError``."""
        note = found.get("note", "")
        if note.startswith("used"):
            why = scripts.not_cancelled(found)
            if why is not None:
                text = f"{launch_id} was used up meanwhile, and whether job {job} is cancelled"
                raise LostError(f"{text} is not known: {why}")
            raise CannotError(f"{launch_id} was used up meanwhile; job {job} was cancelled")
        if note.startswith("unwritable"):
            await self._cancel(run, job)
            raise CannotError(f"its launch cannot be noted there any more; job {job} was cancelled")
        tag = found.get("tag", "").strip()
        if tag != launch_id:
            if not tag or "error" in tag:
                raise LostError(f"job {job} could not be read back: {last_words(tag)}")
            await self._cancel(run, job)
            raise CannotError(f"job {job} has another comment now; it was cancelled")
        said = found.get("release", "")
        if found.get("release.rc", "").strip() == "0":
            return
        if "already finished" in said or "Invalid job id" in said:
            raise CannotError(f"job {job} was cancelled before it was released")
        raise LostError(f"no answer to the release of job {job}: {last_words(said)}")

    async def _cancel(self, run: RunSpec, job: str) -> None:
        """Cancel our own held job; raises ``LostError`` where this is not known to be done."""
        try:
            why = scripts.not_cancelled(
                await self._act(run, scripts.cancel_script([job]), CONTROLLER)
            )
        except CannotError as error:
            why = str(error)
        if why is not None:
            raise LostError(f"job {job} is held and could not be cancelled: {why}")

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return the job that says the launch id as its comment and was let go."""
        records = tagged(await self._jobs.book(run), launch_id)
        begun, held = _begun(records), bases([each for each in records if is_held(each)])
        if not begun:
            return f"job {', '.join(held)} is held" if held else _NOTHING
        job = Job(begun[0].base, tuple(r for r in begun if r.base == begun[0].base))
        found, now = _lookup_of(job), self._clock.monotonic()
        if not found.waits or job.main.reason not in ("", "None"):
            return found
        # one just let go does not wait before the scheduler says for what
        first = self._fresh.setdefault(launch_id, now)
        return found.model_copy(update={"waits": now - first > SCHEDULED})

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """End what is held and close the id; a job that was released is reported instead."""
        records = tagged(await self._jobs.book(run), launch_id)
        if _begun(records):
            raise LostError("it begins at this moment: check again")
        held = bases([each for each in records if is_held(each)])
        noted = await self._noted(run, launch_id, [])
        if noted.get("state") == scripts.RUNNING and noted.get("job") in held:
            text = f"job {noted['job']} was released, and is held again"
            return looked_up(noted["job"], text, lives=True, waits_for="held")
        if held:
            await self._noted(run, launch_id, held)
            return await self._ended(run, launch_id, held)
        return await self._by_note(run, noted)

    async def used_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that notes and jobs there have."""
        book = await self._jobs.book(run)
        found = await self._act(run, scripts.ids_script(run), 0)
        if "failed" in found:
            text = "the launches that are noted there cannot be listed"
            said = last_words(found.get("ids", ""))
            raise CannotError(f"{where_of(host_of(run))}: {text}: {said}")
        names = {*found.get("ids", "").split(), *(each.comment for each in book.records.values())}
        return frozenset(name for name in names if number_of(run.name, name))

    async def _noted(self, run: RunSpec, launch_id: str, held: list[str]) -> dict[str, str]:
        """Cancel what is held, close the id, and return the note that stood there before.

        With nothing held, a note is only made where none is.
        """
        found = await self._act(run, scripts.close_script(run, launch_id, held), 2 * CONTROLLER)
        if held and scripts.not_cancelled(found) is not None:
            raise LostError(f"job {', '.join(held)} is held, and scancel did not answer")
        if not held and found.get("note", "").startswith("unwritable"):
            text = "no job there has it, but it cannot be closed: no note can be written there"
            raise LostError(f"{where_of(host_of(run))}: {text} (is the disk full?)")
        lines = found.get("note", "").splitlines()[1:]
        noted = dict(line.split("=", 1) for line in lines if "=" in line)
        return noted | {SENT: found.get("sent", "").strip()}

    async def _ended(self, run: RunSpec, launch_id: str, held: list[str]) -> LookUp:
        """Check that what was held is over, and that it did not start in between."""
        for record in tagged(await self._jobs.book(run), launch_id):
            if record.phase.terminal and never_began(record):
                continue
            if is_held(record):
                raise LostError(f"job {record.id} is held, and was not cancelled yet")
            return _lookup_of(Job(record.base, (record,)))
        return absent(f"job {', '.join(held)} was accepted and never released; it {_CANCELLED}")

    async def _by_note(self, run: RunSpec, noted: Mapping[str, str]) -> LookUp:
        """Return what a note says of an id that no job has any more."""
        state, where = noted.get("state"), where_of(host_of(run))
        if state is None or state == scripts.CLOSED:
            if noted.get(SENT):
                raise LostError(f"{where}: {_NOTHING}, and {_may_come(noted[SENT])}")
            return absent(f"{where}: {_NOTHING}")
        if state == scripts.LOOSE:
            text = "a wrapper ran that did not call sbatch: what it started is unknown"
            raise LostError(f"{text}; check there, and remove its note once you know")
        return await self._forgotten(run, state, noted.get("job", ""))

    async def _forgotten(self, run: RunSpec, state: str, job: str) -> LookUp:
        """Return how a job ended that the controller has forgotten, by accounting if there is."""
        if is_job_id(job):
            told = await ask(self._run, host_of(run), where_of(host_of(run)), [job])
            found = book_of(told).find(job)
            if found is not None:
                return _lookup_of(found)
        text = f"job {clean(job, 20)} was released; the controller has forgotten it"
        if state == scripts.RUNNING:
            return looked_up(job, f"{text}, and how it ended", lives=False)
        raise LostError(f"job {clean(job, 20)} was about to be released; it is no longer listed")

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what cancels these jobs until none of them runs, waits or is ending."""
        return scripts.EndingSlurmJobs(run, jobs, self._run, self._jobs, self.look_every)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return why a job cannot be asked: nothing is configured, or no step would hear it."""
        spec = run.job
        if spec is None or not (spec.save_signal or spec.save_command):
            return NO_WAY
        if spec.save_command or job.handle.get(STEPS) == "yes":
            return None
        text = f"job {job.id} runs no step of srun, and no other process of it hears a signal"
        return f"{text}; name job.save_command, such as scancel --batch -s USR1 {{job_id}}"

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command`` on the job's host, else by a signal to the job's steps."""
        why, spec = self.can_save(run, job), run.job
        if why is not None or spec is None:
            raise CannotError(why or "no job in cockpit.toml")
        if spec.save_command:
            words, limit = save_words(run, spec.save_command, job, scripts.target_of(job)), WITHIN
        else:
            number = NUMBERS[signal_name(spec.save_signal or "")]
            words, limit = ["scancel", f"--signal={number}", scripts.target_of(job)], CONTROLLER
        own = spec.workdir or run.workdir
        found = await self._act(
            run, scripts.save_script(words, "." if own is None else own.path, limit), limit
        )
        if "folder" in found:
            raise CannotError("the working folder does not exist: job.save_command was not run")
        if "unset" in found:
            variable = clean(found["unset"].strip(), 80)
            raise CannotError(f"job.save_command uses ${variable}, which is not set there")
        code, name = found.get("rc", "").strip(), scrub(clean(words[0], 80))
        scripts.heard(found, "no answer when it was asked to save", f"{name} ended with {code}")

    async def why_no_order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return why scontrol would refuse, as the job stands now; ``None``: it may do it."""
        row = scripts.ORDERS.get(order.verb)
        if row is None:
            return "Slurm has no such order"
        try:
            return row.why_not(await self._record(run, job), order)
        except (CannotError, LostError) as error:
            return str(error)

    async def order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str:
        """Give the order by scontrol, once, and wait until the controller shows it."""
        row, target = scripts.ORDERS[order.verb], scripts.target_of(job)
        try:
            why = row.why_not(await self._record(run, job), order)
        except LostError as error:
            raise CannotError(str(error)) from error
        if why is not None:
            raise CannotError(f"job {job.id}: {why}")
        script = scripts.order_script(target, row.states, scripts.order_words(row, target, order))
        found = await self._act(run, script, 2 * CONTROLLER)
        if "other" in found:
            now = last_words(found["other"]) or "not listed any more"
            raise CannotError(f"job {job.id} is {now} now: nothing was ordered")
        where = where_of(host_of(run))
        if found.get("rc", "").strip() != "0":
            scripts.heard(found, f"{where} did not answer in time", where)
        within = row.within + (run.job.grace if run.job is not None else 0.0)
        until, trouble = Awake(within, within / 2, self._clock.monotonic), ""
        while True:
            try:
                said = await self.shown_order(run, job, order)
            except (CannotError, LostError) as error:
                said, trouble = None, f": {error}"
            if said is not None:
                return said
            if until.left() <= 0:
                text = f"{order.verb} of job {job.id} was accepted, and does not show"
                raise LostError(f"{text} after {duration(within)}{trouble}")
            await self._clock.sleep(self.look_every)

    async def shown_order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return that the order shows at the controller; ``None`` where it does not."""
        row, record = scripts.ORDERS[order.verb], await self._record(run, job)
        limit = "" if order.limit is None else f" of {duration(order.limit)}"
        return f"job {job.id} {row.done}{limit}" if row.shown(record, job, order) else None

    async def _record(self, run: RunSpec, job: LiveJob) -> Record:
        now = scripts.job_now(await self._jobs.book(run, [run]), job)
        if now is None or not scripts.is_same(job, now):
            raise CannotError(f"job {clean(job.id, 60)} is not listed any more")
        if len(now.records) > 1:
            text = f"job {job.id} has {len(now.records)} tasks or parts: name one (job.id)"
            raise CannotError(text)
        return now.main


def tagged(book: Book, launch_id: str) -> list[Record]:
    """Return the records whose comment is exactly this launch id, the lowest number first."""
    found = [each for each in book.records.values() if each.comment == launch_id]
    return sorted(found, key=lambda each: int(each.raw))


def bases(records: list[Record]) -> list[str]:
    """Return the numbers that these are cancelled by: of arrays and het jobs their leader's."""
    return list(dict.fromkeys(each.base for each in records))


def _workdir(run: RunSpec, submission: Submission) -> str:
    own = (None if run.job is None else run.job.workdir) or run.workdir
    place = submission.workdir or (None if own is None else own.path)
    if not place:
        raise CannotError("no job.workdir in cockpit.toml to run the command in")
    return place


def _submitted(found: Mapping[str, str]) -> str:
    """Return the number of the job that was taken in; raises ``CannotError``, ``LostError``."""
    wrapper = found.get("wrapper.rc", "").strip()
    said = found.get("wrapper.err" if wrapper else "sbatch.err", "")
    told = last_words(said.partition("Try ")[0])
    if wrapper and "sbatch.rc" not in found:
        if _FENCED in said:
            text = "it called another sbatch than the first on its PATH, which was refused"
            raise CannotError(f"{text}: let it call plain sbatch; nothing was submitted")
        if wrapper in ("0", "124"):
            text = "the wrapper did not call sbatch: what it started, if anything, is unknown"
            raise LostError(text)
        raise CannotError(f"the wrapper ended with {wrapper} and had not called sbatch: {told}")
    code, number = found.get("sbatch.rc", "").strip(), _NUMBER.search(found.get("sbatch.out", ""))
    if code == "0" and number is not None:
        return number[1]
    lost = code in ("", "0", "124") or KILLED < int(code) < REFUSED or number is not None
    if lost or scripts.PERHAPS.search(said):
        raise LostError(f"sbatch: {told or 'it has printed no number'}")
    raise CannotError(f"sbatch: {told or f'it ended with {code}'}")


def _may_come(sent: str) -> str:
    """Return why a job may still appear: sbatch runs, or the controller may still do as it said."""
    if scripts.SENDING in sent:
        return "sbatch has not ended there yet"
    return (
        f"sbatch got no answer: a controller that was busy may still take its job in, held; "
        f"it is looked up again for {scripts.COMES_WITHIN} s"
    )


def _begun(records: list[Record]) -> list[Record]:
    """Return those that were let go."""
    return [each for each in records if not is_held(each) and not never_began(each)]


def _lookup_of(job: Job) -> LookUp:
    """Return a job that runs, waits for its turn, or is over."""
    main = job.main
    reason = in_words(main.reason) or main.word.lower()
    text, waits = f"job {job.id} is {main.state}", main.phase is Phase.WAITING
    if job.over and main.reason not in ("", "None"):
        text = f"{text} ({reason})"
    lives = True if job.lives else False if job.over else None
    shown = scrub(clean(text, 300))
    return looked_up(job.id, shown, lives=lives, waits_for=reason if waits else None)
