"""What became of a launch id: by the comment of my jobs, and by the note of what was let go.

A job that was accepted and never let go is ended by looking. Where no job has the id, a note
closes it: a ``go`` that comes later is refused. A late answer of the controller still can bring
a job, held: so where an sbatch got no answer the id is unknown until the controller has told of no
job for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.clock import Clock
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.ask import (
    CONTROLLER,
    Run,
    Trouble,
    ask,
    is_job_id,
    last_words,
    new_mark,
)
from cockpit.platforms.slurm.book import Book, Job, book_of, is_held, never_began
from cockpit.platforms.slurm.jobs import SlurmJobs, where_of
from cockpit.platforms.slurm.record import Record, in_words
from cockpit.platforms.slurm.submitting import (
    CLOSED,
    COMES_WITHIN,
    LOOSE,
    RUNNING,
    SENDING,
    SLACK,
    acted,
    bases,
    close_script,
    host_of,
    ids_script,
    tagged,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SCHEDULED: Final = 5.0
"""Seconds within which a scheduler has looked at a new job: by then it runs, or waits."""
SENT: Final = "sent"
"""The key of what is known of sbatch where its answer is not known."""
_NOTHING: Final = "none of your jobs there has it as its comment"


class LookingUp:
    """Looks launch ids up; never raises."""

    def __init__(self, clock: Clock, run: Run, jobs: SlurmJobs) -> None:
        self._clock = clock
        self._run = run
        self._jobs = jobs
        self._fresh: dict[str, float] = {}

    async def find(self, run: RunSpec, launch_id: str) -> LookUp | str:
        """Return the job of a launch id that was let go; raises ``LostError``."""
        records = tagged(await self._book(run), launch_id)
        begun, held = _begun(records), bases([each for each in records if is_held(each)])
        if not begun:
            return f"job {', '.join(held)} is held" if held else _NOTHING
        job = Job(begun[0].base, tuple(r for r in begun if r.base == begun[0].base))
        return self._scheduled(launch_id, job)

    async def close(self, run: RunSpec, launch_id: str) -> LookUp:
        """End what is held and close the id; a job that was released is reported instead."""
        records = tagged(await self._book(run), launch_id)
        if _begun(records):
            raise LostError("it begins at this moment: check again")
        held, host = bases([each for each in records if is_held(each)]), host_of(run)
        noted = await self._noted(run, host, launch_id, [])
        if noted.get("state") == RUNNING and noted.get("job") in held:
            text = f"job {noted['job']} was released, and is held again"
            return LookUp(
                found=LaunchState.LIVE, text=text, job_id=noted["job"], waits=True, reason="held"
            )
        if held:
            noted = await self._noted(run, host, launch_id, held)
            return await self._ended(run, launch_id, held)
        return await self._by_note(host, launch_id, noted)

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that notes and jobs there have; raises ``CannotError``."""
        host, mark = host_of(run), new_mark()
        try:
            book = await self._book(run)
            found = await acted(self._run, host, ids_script(mark, run), mark, SLACK)
        except LostError as error:
            raise CannotError(str(error)) from error
        if "failed" in found:
            text = "the launches that are noted there cannot be listed"
            raise CannotError(f"{where_of(host)}: {text}: {last_words(found.get('ids', ''))}")
        names = {*found.get("ids", "").split(), *(each.comment for each in book.records.values())}
        return frozenset(name for name in names if number_of(run.name, name))

    def _scheduled(self, launch_id: str, job: Job) -> LookUp:
        """Return a job; one just let go does not wait before the scheduler says for what."""
        found, now = _lookup_of(job), self._clock.monotonic()
        if not found.waits or job.main.reason not in ("", "None"):
            return found
        first = self._fresh.setdefault(launch_id, now)
        return found.model_copy(update={"waits": now - first > SCHEDULED})

    async def _book(self, run: RunSpec) -> Book:
        seen = await self._jobs.ask_cluster(host_of(run), [])
        if isinstance(seen, Trouble):
            raise LostError(seen.line)
        return seen[1]

    async def _noted(
        self, run: RunSpec, host: str | None, launch_id: str, held: list[str]
    ) -> dict[str, str]:
        """Cancel what is held, close the id, and return the note that stood there before.

        With nothing held, a note is only made where none is.
        """
        mark = new_mark()
        script = close_script(mark, run, launch_id, held)
        found = await acted(self._run, host, script, mark, 2 * CONTROLLER + SLACK)
        if held and "rc=0" not in found.get("cancel", ""):
            raise LostError(f"job {', '.join(held)} is held, and scancel did not answer")
        if not held and found.get("note", "").startswith("unwritable"):
            text = "no job there has it, but it cannot be closed: no note can be written there"
            raise LostError(f"{where_of(host)}: {text} (is the disk full?)")
        lines = found.get("note", "").splitlines()[1:]
        noted = dict(line.split("=", 1) for line in lines if "=" in line)
        return noted | {SENT: found.get("sent", "").strip()}

    async def _ended(self, run: RunSpec, launch_id: str, held: list[str]) -> LookUp:
        """Check that what was held is over, and that it did not start in between."""
        named = ", ".join(held)
        for record in tagged(await self._book(run), launch_id):
            if record.phase.terminal and never_began(record):
                continue
            if is_held(record):
                raise LostError(f"job {record.id} is held, and was not cancelled yet")
            return _lookup_of(Job(record.base, (record,)))
        text = f"job {named} was accepted and never released; it was cancelled before it ran"
        return LookUp(found=LaunchState.ABSENT, text=text)

    async def _by_note(self, host: str | None, launch_id: str, noted: Mapping[str, str]) -> LookUp:
        """Return what a note says of an id that no job has any more."""
        state, job = noted.get("state"), noted.get("job", "")
        if state is None or state == CLOSED:
            if noted.get(SENT):
                raise LostError(f"{where_of(host)}: {_NOTHING}, and {_may_come(noted[SENT])}")
            return LookUp(found=LaunchState.ABSENT, text=f"{where_of(host)}: {_NOTHING}")
        if state == LOOSE:
            text = "a wrapper ran that did not call sbatch: what it started is unknown"
            raise LostError(f"{text}; check there, and remove its note once you know")
        return await self._forgotten(host, state, job)

    async def _forgotten(self, host: str | None, state: str, job: str) -> LookUp:
        """Return how a job ended that the controller has forgotten, by accounting if there is."""
        if is_job_id(job):
            told = await ask(self._run, host, where_of(host), [job])
            if isinstance(told, Trouble):
                raise LostError(told.line)
            found = book_of(told).find(job)
            if found is not None:
                return _lookup_of(found)
        text = f"job {clean(job, 20)} was released; the controller has forgotten it"
        if state == RUNNING:
            return LookUp(found=LaunchState.ENDED, text=f"{text}, and how it ended", job_id=job)
        raise LostError(f"job {clean(job, 20)} was about to be released; it is no longer listed")


def _may_come(sent: str) -> str:
    """Return why a job may still appear: sbatch runs, or the controller may still do as it said."""
    if SENDING in sent:
        return "sbatch has not ended there yet"
    return (
        f"sbatch got no answer: a controller that was busy may still take its job in, held; "
        f"it is looked up again for {COMES_WITHIN} s"
    )


def _begun(records: list[Record]) -> list[Record]:
    """Return those that were let go."""
    return [each for each in records if not is_held(each) and not never_began(each)]


def _lookup_of(job: Job) -> LookUp:
    """Return a job that runs, waits for its turn, or is over."""
    main = job.main
    reason = in_words(main.reason) or main.word.lower()
    text = scrub(clean(f"job {job.id} is {main.state}", 200))
    if job.lives:
        waits = main.phase is Phase.WAITING
        why = scrub(clean(reason, 200)) if waits else None
        return LookUp(found=LaunchState.LIVE, text=text, job_id=job.id, waits=waits, reason=why)
    if not job.over:
        return LookUp(found=LaunchState.UNKNOWN, text=text)
    why = "" if main.reason in ("", "None") else f" ({reason})"
    return LookUp(found=LaunchState.ENDED, text=scrub(clean(text + why, 300)), job_id=job.id)
