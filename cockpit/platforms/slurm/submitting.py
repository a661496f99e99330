"""Submits in two steps: a held job that nobody starts, then the one of its launch id let go.

Numbers are handed out in order, so two machines that have accepted the same launch id choose the
same job, the lowest; each cancels its own otherwise. The tag is read back right before the
release: a job that Slurm's own plugins gave another comment cannot be known again, and never runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cockpit.model.jobs import Accepted, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.act_script import (
    SUBMIT,
    WRAPPER,
    accept_script,
    cancel_script,
    go_script,
)
from cockpit.platforms.slurm.ask import Run
from cockpit.platforms.slurm.book import Book
from cockpit.platforms.slurm.command import names_export, sbatch_at, with_names
from cockpit.platforms.slurm.held import is_held, never_began
from cockpit.platforms.slurm.jobs import SlurmJobs, where_of
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.script import CONTROLLER, new_mark, parts_of
from cockpit.platforms.slurm.trouble import Trouble, last_words
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SLACK: Final = 15.0
CAP: Final = 200_000
_NUMBER: Final = re.compile(r"(?:^|Submitted batch job )(\d{1,12})(?:[;\s]|$)", re.MULTILINE)
_PERHAPS: Final = re.compile(
    "timed out|Message receive|send/recv|Zero Bytes|Connection reset|Unexpected message", re.I
)
"""What sbatch and scontrol say when the controller may have done it all the same."""
KILLED, REFUSED = 128, 255
"""A status between these is that of a command that a signal has ended; sbatch's own is 255 for
options that it does not know."""
_FENCED: Final = "Invalid --open-mode"


async def acted(
    run: Run, host: str | None, script: str, mark: str, within: float
) -> dict[str, str]:
    """Return the parts of what an acting script tells; raises ``CannotError``, ``LostError``."""
    try:
        done = await run(host, script, deadline=within, cap=CAP)
    except RemoteError as error:
        text = f"{where_of(host)}: {error}"
        raise (LostError if error.sent else CannotError)(text) from error
    found = parts_of(done.text, mark)
    if "end" not in found:
        raise LostError(f"{where_of(host)}: the answer is cut off: {last_words(done.text)}")
    return found


def tagged(book: Book, launch_id: str) -> list[Record]:
    """Return the records whose comment is exactly this launch id, the lowest number first."""
    found = [each for each in book.records.values() if each.comment == launch_id]
    return sorted(found, key=lambda each: int(each.raw))


def bases(records: list[Record]) -> list[str]:
    """Return the numbers that these are cancelled by: of arrays and het jobs their leader's."""
    return list(dict.fromkeys(each.base for each in records))


class Submitting:
    """Accepts and lets go on one cluster after another; each call has its own deadline."""

    def __init__(self, run: Run, jobs: SlurmJobs) -> None:
        self._run = run
        self._jobs = jobs

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Submit a held job; the same launch id is taken in only while no job has it."""
        host, workdir = _host(run), _workdir(run, submission)
        book = await self._book(run, "nothing was submitted")
        there = tagged(book, submission.launch_id)
        if there:
            text = f"job {there[0].id} has {submission.launch_id} already ({there[0].word})"
            raise CannotError(f"{text}; nothing was submitted")
        words = with_names(submission.command, sorted(submission.env))
        mark, wrapped = new_mark(), sbatch_at(words) is None
        sees = bool(submission.env) and not names_export(words)
        script = accept_script(
            mark, run, submission.launch_id, words, workdir, submission.env, sees_exports=sees
        )
        within = (WRAPPER if wrapped else SUBMIT) + CONTROLLER + SLACK
        found = await acted(self._run, host, script, mark, within)
        _refused_before(found, workdir)
        job = _submitted(found)
        if "--export" in found.get("script", ""):
            await self._cancel(host, job)
            text = f"its batch script says {clean(found['script'], 120)}, which keeps"
            raise CannotError(f"{text} {', '.join(submission.env)} from the job; it was cancelled")
        return Accepted(id=job, submission=submission, handle={"job": job})

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let the accepted job run if it is the lowest of its launch id, and return its number."""
        host, job, launch_id = _host(run), accepted.id, accepted.submission.launch_id
        if not job.isdecimal():
            raise CannotError(f"{clean(job, 40)} is not a Slurm job")
        book = await self._book(run, None)
        others = await self._chosen(host, book, job, launch_id)
        mark = new_mark()
        script = go_script(mark, run, launch_id, job)
        found = await acted(self._run, host, script, mark, 4 * CONTROLLER + SLACK)
        await self._let_go(host, found, job, launch_id)
        if others:  # they are held: whether this succeeds decides nothing
            mark = new_mark()
            script = cancel_script(mark, others, pending=True)
            try:
                await acted(self._run, host, script, mark, CONTROLLER + SLACK)
            except (CannotError, LostError):
                return job
        return job

    async def _chosen(self, host: str | None, book: Book, job: str, launch_id: str) -> list[str]:
        """See that the job is ours to let go; return the later ones of the same launch id."""
        mine = book.find(job)
        if mine is None:
            raise LostError(f"{where_of(host)} does not list job {job}: it is held, or gone")
        record = mine.main
        if record.comment != launch_id:
            await self._cancel(host, job)
            told = f'"{scrub(clean(record.comment, 80))}"' if record.comment else "nothing"
            text = f"job {job} says {told} in place of its launch id {launch_id}: it could not be"
            raise CannotError(f"{text} known again, and was cancelled")
        same = [each for each in tagged(book, launch_id) if each.base != record.base]
        first = [each for each in same if int(each.base) < int(job) or not is_held(each)]
        first = [each for each in first if not never_began(each)]
        if first:
            await self._cancel(host, job)
            text = f"job {first[0].id} has {launch_id} too, and was first"
            raise CannotError(f"{text}; ours ({job}) was cancelled before it ran")
        if not is_held(record):
            raise CannotError(f"job {job} is {record.word}: it was closed before it was released")
        return bases([each for each in same if is_held(each)])

    async def _let_go(
        self, host: str | None, found: Mapping[str, str], job: str, launch_id: str
    ) -> None:
        """Judge what the release has told; raises ``CannotError``, ``LostError``."""
        note = found.get("note", "")
        if note.startswith("used"):
            if "rc=0" not in found.get("cancel", ""):
                text = f"{launch_id} was used up meanwhile, and whether job {job} is cancelled"
                raise LostError(f"{text} is not known: {last_words(found.get('cancel', ''))}")
            raise CannotError(f"{launch_id} was used up meanwhile; job {job} was cancelled")
        if note.startswith("unwritable"):
            await self._cancel(host, job)
            raise CannotError(f"its launch cannot be noted there any more; job {job} was cancelled")
        tag = found.get("tag", "").strip()
        if tag != launch_id:
            if not tag or "error" in tag:
                raise LostError(f"job {job} could not be read back: {last_words(tag)}")
            await self._cancel(host, job)
            raise CannotError(f"job {job} has another comment now; it was cancelled")
        said = found.get("release", "")
        if found.get("release.rc", "").strip() == "0":
            return
        if "already finished" in said or "Invalid job id" in said:
            raise CannotError(f"job {job} was cancelled before it was released")
        raise LostError(f"no answer to the release of job {job}: {last_words(said)}")

    async def _cancel(self, host: str | None, job: str) -> None:
        """Cancel our own held job; raises ``LostError`` where this is not known to be done."""
        mark = new_mark()
        try:
            found = await acted(
                self._run, host, cancel_script(mark, [job]), mark, CONTROLLER + SLACK
            )
        except CannotError as error:
            raise LostError(f"job {job} is held and could not be cancelled: {error}") from error
        if "rc=0" not in found.get("cancel", ""):
            said = last_words(found.get("cancel", "").rpartition("rc=")[0])
            raise LostError(f"job {job} is held and could not be cancelled: {said}")

    async def _book(self, run: RunSpec, undone: str | None) -> Book:
        """Return the cluster's jobs; ``undone`` says that nothing was done yet."""
        seen = await self._jobs.look(_host(run), [])
        if not isinstance(seen, Trouble):
            return seen[1]
        if undone is None:
            raise LostError(seen.line)
        raise CannotError(f"{seen.line}; {undone}")


def _host(run: RunSpec) -> str | None:
    return None if run.job is None else run.job.host


def _workdir(run: RunSpec, submission: Submission) -> str:
    own = (None if run.job is None else run.job.workdir) or run.workdir
    place = submission.workdir or (None if own is None else own.path)
    if not place:
        raise CannotError("no job.workdir in cockpit.toml to run the command in")
    if not submission.command:
        raise CannotError("no command to run")
    return place


def _refused_before(found: Mapping[str, str], workdir: str) -> None:
    """Raise ``CannotError`` where the script has ended before anything was submitted."""
    if "used" in found:
        raise CannotError("this launch id was used up before; nothing was submitted")
    if "nonotes" in found:
        where = scrub(clean(found["nonotes"].strip(), 200))
        text = f"its launch cannot be noted there ({where} cannot be written)"
        raise CannotError(f"{text}; nothing was submitted")
    if "folder" in found:
        raise CannotError(f"the working folder {clean(workdir, 200)} does not exist")
    if "nosbatch" in found:
        raise CannotError("sbatch is not installed there, or not on the PATH of a plain command")
    if "nofolder" in found:
        raise CannotError("no temporary folder could be made there (mktemp -d)")
    if "unset" in found:
        name = clean(found["unset"].strip(), 80)
        raise CannotError(f"the command uses ${name}, which is not set there; nothing was started")


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
    if lost or _PERHAPS.search(said):
        raise LostError(f"sbatch: {told or 'it has printed no number'}")
    raise CannotError(f"sbatch: {told or f'it ended with {code}'}")
