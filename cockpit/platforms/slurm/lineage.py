"""Which jobs of a cluster belong to a run, which one is current, what lives beside it (SPEC J)."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cockpit.hosts.notes import launch_id_in, number_of
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import Phase
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import alike, keys_of, may_be_one, of_another_run
from cockpit.platforms.local import programs
from cockpit.platforms.slurm.ask import is_job_id
from cockpit.platforms.slurm.book import (
    LONGEST,
    Book,
    Chains,
    Job,
    is_held,
    live_job,
    never_let_go,
    queued_after,
)
from cockpit.platforms.slurm.command import own_starts, started
from cockpit.platforms.slurm.record import Record, never_starts

_WORDS: Final = re.compile(r"[\s'\"`;,()]+")
_SBATCH: Final = re.compile(r"^(-o|-e|-i|--output|--error|--input|-J|--job-name)$")


class LineageSign(NamedTuple):
    """Why a job is one of the run, whether that is proven, and its launch id if it tells one."""

    why: str
    proven: bool = True
    launch_id: str | None = None


def words_of(text: str) -> list[str]:
    """Return the words of a job's command or comment."""
    return [word for word in _WORDS.split(text) if word]


def values_of(record: Record) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of what a job's command and comment say."""
    return tuple(_values(words_of(f"sbatch {record.command} {record.comment}")))


def launch_of(run: RunSpec, record: Record) -> str | None:
    """Return the launch id of the run in a job's comment (``sbatch --comment=<run>-i003``)."""
    for word in _WORDS.split(record.comment):
        if number_of(run.name, word) is not None:
            return word
    return None


def is_diagnostic(run: RunSpec, record: Record) -> bool:
    """Tell whether the run file calls a job of this name diagnostic (C-21)."""
    patterns = run.job.diagnostic if run.job is not None else ()
    return any(fnmatch.fnmatchcase(record.name, pattern) for pattern in patterns)


def mark_of(run: RunSpec, record: Record) -> LineageSign | None:
    """Return why a job is one of the run's lineage, ``None`` if nothing says so."""
    if not _may_be(run, record):
        return None
    launch_id = launch_of(run, record)
    if launch_id is not None:
        return LineageSign(f"its comment says launch {launch_id}", True, launch_id)
    told = next(_command_signs(run, record), None)
    return told or _by_folder(run, record)


def _may_be(run: RunSpec, record: Record) -> bool:
    """Tell at little cost whether a job's texts hold any of the run's names at all."""
    root = run.output_root
    names = (
        f"{run.name}-i",
        None if root is None else posixpath.basename(root.path.rstrip("/")),
        None if run.wandb is None else run.wandb.run_id,
    )
    told = (record.comment, record.command, record.output, record.workdir)
    return any(name in text for name in names if name for text in told if text)


def _command_signs(run: RunSpec, record: Record) -> Iterator[LineageSign]:
    """Yield what its command and its comment say, what is proven first."""
    if any(programs.only_looks(word) for word in record.command.split()[:1]):
        return
    told = values_of(record)
    found = [mark for key, value in told if (mark := _sign_of_value(run, record, key, value))]
    yield from sorted(found, key=lambda mark: not mark.proven)


def _values(words: list[str]) -> Iterator[tuple[str, str]]:
    for key, value in programs.arguments(words):
        if not _SBATCH.match(f"-{key}" if len(key) == 1 else f"--{key}"):
            yield key, value


def _sign_of_value(run: RunSpec, record: Record, key: str, value: str) -> LineageSign | None:
    use = programs.use_of(key) if key else programs.Use.EITHER
    shown = f" ({key})" if key else ""
    root = None if use is programs.Use.READS else run.output_root
    if root is not None and _within(run, root, value, record.workdir):
        return LineageSign(f"its command names the output root{shown}", use is programs.Use.WRITES)
    wandb_id = None if run.wandb is None else run.wandb.run_id
    if wandb_id and value == wandb_id:
        certain = "wandb" in key.lower() or programs.names_the_tracker_run(key)
        if certain is not False:
            return LineageSign(f"its command or comment names the W&B id{shown}", certain is True)
    return None


def _by_folder(run: RunSpec, record: Record) -> LineageSign | None:
    """Return that its output or its working folder lies where only the run writes."""
    root = run.output_root
    if root is None:
        return None
    if record.output and _within(run, root, posixpath.dirname(record.output), None):
        return LineageSign("its output goes into the output root")
    if record.workdir and _within(run, root, record.workdir, None):
        return LineageSign("it works in the output root", proven=False)
    return None


def _within(run: RunSpec, root: Place, value: str, workdir: str | None) -> bool:
    """Tell whether a value is the output root as the job sees it, or lies below it."""
    seen = root.normal().seen_from(run.job)
    if not value or value in (".", ".."):
        return False
    path = value.rstrip("/")
    if "://" not in value:
        if not value.startswith("/") and (workdir is None or "/" not in value):
            return False
        path = posixpath.normpath(posixpath.join(workdir or "/", value))
    return path == seen or path.startswith(seen.rstrip("/") + "/")


WAITED: Final = 2.0
"""Seconds from which on a job was not eligible at once: Slurm tells whole ones."""
UNNAMED: Final = "wrap"
"""How every job is called that ``sbatch --wrap`` has made of a command."""
FREED_WITHIN: Final = 900.0
"""Seconds after a job's end within which the scheduler sees that others need not wait for it.

A job that is still completing on its nodes holds up those that wait for it.
"""
LAST_MOMENTS: Final = 300.0
"""Seconds before a job's end in which it submits the job that goes on for it."""


@dataclass
class OtherJobs:
    """What lives beside the current job, sorted by what it is.

    ``possible`` can never start by itself; ``held`` were accepted for a launch and never released;
    ``spared`` are diagnostic (C-21).
    """

    rivals: list[LiveJob] = field(default_factory=list)
    possible: list[LiveJob] = field(default_factory=list)
    spared: list[LiveJob] = field(default_factory=list)
    held: list[LiveJob] = field(default_factory=list)

    def as_rival(self, job: LiveJob) -> None:
        """Count a job among the rivals, once."""
        self.possible = [each for each in self.possible if each.id != job.id]
        if all(each.id != job.id for each in self.rivals):
            self.rivals.append(job)


@dataclass(frozen=True)
class Lineage:
    """What an answer tells of a run: its current job, what came before it, and what else lives.

    ``why`` tells how the current job was found where it is not
    the one that the run file names.
    """

    job: Job | None
    passed: tuple[str, ...] = ()
    freed: float | None = None
    queued: tuple[LiveJob, ...] = ()
    beside: OtherJobs = field(default_factory=OtherJobs)
    mark: LineageSign | None = None
    why: str = ""


def lineage_of(
    run: RunSpec, book: Book, chains: Chains, claimed: Mapping[str, str] | None = None
) -> Lineage:
    """Return what a book tells of a run; ``claimed`` are jobs that runs name, with their run."""
    named = run.job.id if run.job is not None else None
    if named is not None and not is_job_id(named):
        return Lineage(None)
    found = book.find(named) if named is not None else None
    job, passed, freed = _moved_on(run, book, chains, named, found)
    why = f"follows {passed[-1]}" if passed else ""
    newer = _launched_since(run, book, job)
    if newer is not None:
        job, passed, freed = _moved_on(run, book, chains, newer.id, newer)
        why = f"{_by_launch(run, newer)}, newer than {named}"
    if job is None:
        job, why = _unnamed(run, book)
        if job is not None and named is not None:
            why = f"{why}; {named} is not listed any more"
    former, matched = job, _matched(run, book)
    if matched is not None and (job is None or _was_submitted_after(matched, job)):
        job, passed, freed = _moved_on(run, book, chains, matched.id, matched)
        than = "" if named is None else f", newer than {named}"
        why = f"the newest of your jobs that fits job.match{than}"
    if job is None:
        beside = _other_jobs(run, book, None, set(), claimed or {})
        return Lineage(None, beside=beside)
    queued = tuple(queued_after(chains, book, job))
    own = {*passed, *(each.id for each in queued)}
    beside = _other_jobs(run, book, job, own, claimed or {})
    if former is not None and former.id not in {job.id, *own} and former.lives:
        beside.as_rival(live_job(former, "the recorded job"))
    mark = mark_of(run, job.main)
    if mark is None and job is matched:
        mark = LineageSign("its name fits job.match")
    return Lineage(
        job=job,
        passed=passed,
        freed=freed,
        queued=queued,
        beside=beside,
        mark=mark,
        why=why,
    )


def _moved_on(
    run: RunSpec, book: Book, chains: Chains, named: str | None, job: Job | None
) -> tuple[Job | None, tuple[str, ...], float | None]:
    """Return the newest job of the chain that has begun, or stands next; and those before it."""
    passed: list[str] = []
    freed = None
    at = named
    while at is not None and len(passed) < LONGEST and (job is None or job.over):
        after = _successor(run, book, chains, at, job)
        if after is None or after.id in passed:
            break
        passed.append(at)
        freed = job.main.ended if job is not None else freed
        job, at = after, after.id
    return job, tuple(passed), freed


def _successor(run: RunSpec, book: Book, chains: Chains, at: str, job: Job | None) -> Job | None:
    """Return the job that goes on where one has ended: what waited for it, and is of its kind."""
    after = chains.after(book, at, job.records if job is not None else ())
    able = [
        one
        for one, _ in after
        if one.id != at and not (one.lives and never_starts(one.main.reason))
        if job is None or _alike(run, one, job)
    ]
    if able:
        return min(able, key=lambda one: (not one.lives, -(one.main.submitted or 0.0)))
    return _freed_by_its_end(run, book, job) if job is not None else None


def _alike(run: RunSpec, one: Job, job: Job) -> bool:
    """Tell whether two jobs do the same: one name, one script, or one lineage."""
    mine, its = job.main, one.main
    same = mine.name == its.name or (bool(mine.command) and mine.command == its.command)
    return not is_diagnostic(run, its) and (same or mark_of(run, its) is not None)


def _freed_by_its_end(run: RunSpec, book: Book, job: Job) -> Job | None:
    """Return the job like it that could start only from its end on; of several the one that lives.

    Slurm forgets what a job has waited for, but not since when it was eligible. A job follows the
    last one like it that ended before that: the links of a chain may come within seconds. A job
    that submits its successor with its last words leaves no time between the two.
    """
    ended = job.main.ended
    if ended is None:
        return None
    like = [
        one
        for one in book.jobs
        if one.records[0].base != job.records[0].base and _alike(run, one, job)
        if one.main.workdir == job.main.workdir
        if one.main.name != UNNAMED or (one.main.command and one.main.command == job.main.command)
    ]
    ends = [one.main.ended for one in like if one.over and one.main.ended is not None]
    freed = [
        one
        for one in like
        if _was_freed(one.main, ended) or _was_submitted_by(run, job.main, one.main)
        if not any(ended < end <= (one.main.eligible or 0.0) for end in ends)
    ]
    living = [one for one in freed if one.lives]
    if len(living) > 1:
        return None  # which of them goes on for the run is not known
    newest = max(freed, key=lambda one: _raw_number(one.records[0]), default=None)
    return living[0] if living else newest


def _raw_number(record: Record) -> int:
    return int(record.base) if record.base.isdecimal() else 0


def _was_freed(record: Record, at: float) -> bool:
    submitted, eligible = record.submitted, record.eligible
    if submitted is None or eligible is None or never_starts(record.reason):
        return False
    waited = eligible - submitted >= WAITED
    return waited and submitted < at <= eligible <= at + FREED_WITHIN


def _was_submitted_by(run: RunSpec, former: Record, record: Record) -> bool:
    """Tell whether a job came from the former one's machine in its last moments, and began after.

    One that says of itself that it is another run's is none: scripts of a sweep do that, too. On
    a machine on which people submit as well, one that is started with other arguments is none.
    """
    submitted, began, ended = record.submitted, record.started, former.ended
    if submitted is None or ended is None or not former.node or record.uid != former.uid:
        return False
    node = _short(former.node)
    one_session = former.submit_host == record.submit_host and (
        "" != former.submit_session == record.submit_session
    )
    if _short(record.submit_host) != node or one_session:  # from no session of the former one
        return False
    came = max(former.started or ended, ended - LAST_MOMENTS) <= submitted <= ended
    if not came or _raw_number(record) <= _raw_number(former) or (began or ended) < ended:
        return False
    before, after = started(former), started(record)
    if of_another_run(run, [before], after):
        return False
    return _short(former.submit_host) != node or may_be_one(run, before, after)


def _short(machine: str) -> str:
    return machine.partition(".")[0]


def _matched(run: RunSpec, book: Book) -> Job | None:
    """Return the newest of my jobs whose name fits ``job.match`` and that may be the run's."""
    pattern = run.job.match if run.job is not None else None
    if pattern is None:
        return None
    fits = [
        one
        for one in book.jobs
        if fnmatch.fnmatchcase(one.main.name, pattern) and not book.is_foreign(one.main)
        if not is_diagnostic(run, one.main) and not never_let_go(one.main)
        if launch_id_in(words_of(one.main.comment)) in (None, launch_of(run, one.main))
    ]
    return max(fits, key=lambda one: (one.main.submitted or 0.0, one.id), default=None)


def _was_submitted_after(one: Job, job: Job) -> bool:
    return one.id != job.id and (one.main.submitted or 0.0) > (job.main.submitted or 0.0)


def _launched_since(run: RunSpec, book: Book, job: Job | None) -> Job | None:
    """Return the newest launch where it has outlived the job that is named, which is over.

    A cockpit that was killed between a start and its records leaves the old job named.
    """
    newest = _newest_launch(run, book)
    if job is None or newest is None or newest.id == job.id or not job.over:
        return None
    was, now = job.main, newest.main
    if newest.lives and never_starts(now.reason) and not is_held(now):  # a person may release it
        return None
    if (now.submitted or 0.0) < (was.submitted or 0.0):
        return None
    return newest if newest.lives or (now.ended or 0.0) >= (was.ended or 0.0) else None


def _newest_launch(run: RunSpec, book: Book) -> Job | None:
    """Return the job of the newest launch id that was let go."""
    launched = [
        (number_of(run.name, launch) or 0, one.main.submitted or 0.0, one)
        for one in book.jobs
        if (launch := launch_of(run, one.main)) is not None and not never_let_go(one.main)
        if not book.is_foreign(one.main)
    ]
    return max(launched, key=lambda each: each[:2])[2] if launched else None


def _by_launch(run: RunSpec, job: Job) -> str:
    return f"found by launch id {launch_of(run, job.main)}"


def _unnamed(run: RunSpec, book: Book) -> tuple[Job | None, str]:
    """Return the job of the newest launch id; else the newest living one of the lineage."""
    newest = _newest_launch(run, book)
    if newest is not None:
        return newest, _by_launch(run, newest)
    marked = [
        (main.phase is Phase.RUNNING, main.submitted or 0.0, one, mark)
        for one, main in book.living
        if (mark := mark_of(run, main)) is not None and not is_diagnostic(run, main)
        if mark.launch_id is None or not never_let_go(main)
        if not book.is_foreign(main)
    ]
    if not marked:
        return None, ""
    _, _, job, mark = max(marked, key=lambda each: each[:2])
    return job, f"found because {mark.why}"


def _other_jobs(
    run: RunSpec, book: Book, job: Job | None, own: set[str], claimed: Mapping[str, str]
) -> OtherJobs:
    """Return the other living jobs of the run's lineage, and those that may be (C-25)."""
    beside = OtherJobs()
    records = () if job is None else job.records
    bases = {each.base for each in records}
    named = run.job.id if run.job is not None else None
    bases |= {re.split(r"[_+]", named)[0]} if named is not None else set()
    starts = own_starts(run, records, book.scripts)
    shared = keys_of(starts)
    for (one, main), (other, calls) in zip(book.living, book.starts, strict=True):
        if one.id in own or main.base in bases:
            continue
        mark = mark_of(run, main)
        if mark is None:
            of_another = claimed.get(main.base, run.name) != run.name
            similar = calls or not shared.isdisjoint(keys_of([other]))
            why = alike(run, starts, other, calls) if similar and not of_another else None
            if why is not None and not is_diagnostic(run, main):
                beside.possible.append(_may_be_one_more(book, one, why))
            continue
        if is_diagnostic(run, main):
            beside.spared.append(live_job(one, "a diagnostic job (job.diagnostic)"))
        elif mark.launch_id is not None and never_let_go(main):
            beside.held.append(_left_held(one, mark.launch_id))
        elif never_starts(main.reason) and main.phase is Phase.WAITING:
            why = f"{mark.why}; {main.reason}: it never starts by itself"
            beside.possible.append(live_job(one, why, mark.launch_id))
        else:
            rival = live_job(one, mark.why, mark.launch_id, mark.proven)
            beside.rivals.append(_whose(book, one, rival))
    return beside


def _may_be_one_more(book: Book, job: Job, why: str) -> LiveJob:
    """Return a job that runs what the run's job runs; one that never starts is only shown."""
    main = job.main
    never = main.phase is Phase.WAITING and never_starts(main.reason)
    more = f"; {main.reason}: it never starts by itself" if never else ""
    live = live_job(job, f"{why}{more}").model_copy(update={"alike": not never})
    return _whose(book, job, live)


def _whose(book: Book, job: Job, live: LiveJob) -> LiveJob:
    """Return a living job with whose it is, where that is another user: not ours to stop."""
    if not book.is_foreign(job.main):
        return live
    whose = f"it is a job of user {job.main.uid}"
    return live.model_copy(update={"why": f"{live.why}; {whose}", "beyond": whose})


def _left_held(job: Job, launch_id: str) -> LiveJob:
    """Return a job that was accepted and not let go; it began to wait when it was submitted."""
    live = live_job(job, f"held leftover of {launch_id}: never released", launch_id)
    handle = {**live.handle, "held": launch_id}
    return live.model_copy(update={"handle": handle, "started_at": job.main.submitted})
