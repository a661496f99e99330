"""The job facet of Slurm runs: one question to each cluster for all of its runs (SPEC S-3, J)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cockpit.hosts.notes import launch_id_in
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, Query
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.slurm.ask import (
    MOST_SCRIPTS,
    ClusterRecords,
    Run,
    ask,
    is_job_id,
    new_mark,
    parts,
    scripts_script,
)
from cockpit.platforms.slurm.book import Book, Chains, Job, book_of, live_job
from cockpit.platforms.slurm.command import needles_of, programs_of, signal_of
from cockpit.platforms.slurm.lineage import Lineage, lineage_of, values_of, words_of
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.slurm.value import value_of
from cockpit.platforms.table import UnansweredError, ask_each, by_place, unanswered, unknown_lives
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SKEWED: Final = 5.0
"""Seconds by which a host's clock may differ before its times are moved onto ours."""
STEPS: Final = "steps"
"""The word of a job's handle that tells whether a step of srun runs in it."""
INSTANTS: Final = (
    *("submitted", "eligible", "started", "ended", "suspended", "expected", "until", "preempted"),
)
TEXTS: Final = ("comment", "command", "script", "name", "workdir", "output")
KEPT: Final = 5000
"""Ends of jobs that are remembered after the controller has forgotten them."""


def where_of(host: str | None) -> str:
    """Return how a cluster is called: by the machine that its commands are run on."""
    return f"slurm {host or 'here'}"


def host_of(run: RunSpec) -> str | None:
    """Return the ssh host of a run's cluster; ``None``: this machine."""
    return None if run.job is None else run.job.host


@dataclass
class _Cluster:
    """What is remembered of one cluster between two looks."""

    chains: Chains = field(default_factory=Chains)
    ended: dict[str, Record] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    """Jobs whose end accounting has told, or never will: they are not asked for again."""
    estimates: dict[tuple[str, float | None], float] = field(default_factory=dict)
    """When the scheduler first meant to start a job: it may be late only by its own word."""
    scripts: dict[tuple[str, float | None], str] = field(default_factory=dict)
    """Batch scripts by their job's number and submit, and what files held, by their path."""
    current: dict[str, Job] = field(default_factory=dict)
    """The job that each run had last: the controller forgets within minutes of its end."""


class SlurmJobs:
    """Observes the jobs of Slurm clusters; never raises."""

    def __init__(self, clock: Clock, run: Run, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._run = run
        self._wall = wall
        self._clusters: dict[str | None, _Cluster] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by run name: one question per cluster."""
        groups = by_place(
            [each for each in queries if each.run.job], lambda each: host_of(each.run)
        )
        return await ask_each(groups, self._facets, unanswered(where_of, self._clock))

    async def live(self, runs: Sequence[RunSpec]) -> dict[str, Live]:
        """Return what lives of each run's lineage, from one question per cluster."""
        return await ask_each(by_place(runs, host_of), self._living, unknown_lives)

    async def named(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what a cluster tells of a job by its id, whoever's it is; never raises."""
        host = host_of(run)
        if run.job is None or not is_job_id(job_id):
            return NamedJob(id=job_id, text=_no_id(job_id), lives=False)
        spec = run.model_copy(update={"job": run.job.model_copy(update={"id": job_id})})
        try:
            job = (await self.ask_cluster(host, [spec]))[1].find(job_id)
        except UnansweredError as error:
            return NamedJob(id=job_id, text=str(error))
        if job is None:
            text = f"{where_of(host)}: neither squeue nor scontrol lists job {job_id}"
            return NamedJob(id=job_id, text=text, lives=False)
        main = job.main
        text = f"{where_of(host)}: job {job.id} ({main.name}) is {main.word}"
        return NamedJob(
            id=job.id,
            text=scrub(clean(text, 300)),
            lives=job.lives,
            launch_id=launch_id_in(words_of(main.comment)),
            started_at=main.started,
            values=(*values_of(main), ("output", main.output), ("workdir", main.workdir)),
        )

    async def ask_cluster(
        self, host: str | None, runs: Sequence[RunSpec], *, steps: bool = False
    ) -> tuple[ClusterRecords, Book]:
        """Return what a cluster tells now, its times moved onto our clock.

        Raises ``UnansweredError``.
        """
        cluster = self._clusters.setdefault(host, _Cluster())
        wanted = {run.job.id for run in runs if run.job is not None and run.job.id is not None}
        wanted |= {cluster.current[run.name].id for run in runs if run.name in cluster.current}
        asked = sorted(wanted - cluster.settled)
        known = [record for job in cluster.current.values() for record in job.records]
        needles = needles_of(runs, known) if runs else ""
        told = await ask(self._run, host, where_of(host), asked, steps=steps, needles=needles)
        told = _on_our_clock(told, 0.0 if host is None else self._off(told))
        # accounting is not asked for a comment or a command, by which alone a job may be known
        former = {record.id: record for record in known}
        texted = tuple(_texted(each, former.get(each.id)) for each in told.accounted)
        told = replace(told, accounted=texted)
        book = book_of(told, tuple(cluster.ended.values()))
        cluster.chains.learn(book)
        _remember(cluster, told, book, wanted)
        if runs:
            book = replace(book, scripts=await self._scripts(host, cluster, runs, book))
        return told, book

    async def book(self, run: RunSpec, runs: Sequence[RunSpec] = ()) -> Book:
        """Return all jobs of a run's cluster; raises ``UnansweredError``."""
        return (await self.ask_cluster(host_of(run), runs))[1]

    async def _scripts(
        self, host: str | None, cluster: _Cluster, runs: Sequence[RunSpec], book: Book
    ) -> dict[str, str]:
        """Return the batch scripts of my jobs, each read once (C-25, C-26).

        A copy of a script, a heredoc and ``--wrap`` are known by what they call alone.
        """
        texts = cluster.scripts
        mine = {main.base: main for _, main in book.living if not book.is_foreign(main)}
        keys = {base: (base, main.submitted) for base, main in mine.items()}
        unread = [base for base in mine if keys[base] not in texts]
        own, now = _claimed(runs, cluster), self._clock.now()
        if any(base not in own or _ends_soon(mine[base], now) for base in unread):
            newest = sorted(unread, key=lambda base: -(mine[base].submitted or 0.0))[:MOST_SCRIPTS]
            records = [record for job in cluster.current.values() for record in job.records]
            files = programs_of(runs, records)[:MOST_SCRIPTS]
            mark = new_mark()
            script = scripts_script(mark, newest, files)
            with suppress(UnansweredError):
                found = await parts(self._run, host, where_of(host), mark, script)
                read = [base for base in newest if f"job.{base}" in found]
                texts |= {keys[base]: found[f"job.{base}"] for base in read}
                texts |= {(path, None): found.get(f"file.{n}", "") for n, path in enumerate(files)}
        for old in list(texts)[: max(0, len(texts) - KEPT)]:
            del texts[old]
        paths = {path: text for (path, at), text in texts.items() if path.startswith("/")}
        return paths | {base: texts[key] for base, key in keys.items() if key in texts}

    def _off(self, told: ClusterRecords) -> float:
        """Return by how many seconds the host's clock is behind ours, where that is too much."""
        off = 0.0 if told.host_now is None else self._wall() - told.host_now
        return off if abs(off) > SKEWED else 0.0

    async def _facets(
        self, host: str | None, queries: Sequence[Query]
    ) -> dict[str, Facet[JobValue]]:
        runs = [query.run for query in queries]
        told, book = await self.ask_cluster(host, runs)
        where, now = where_of(host), self._clock.now()
        cluster, facets = self._clusters[host], {}
        claimed = _claimed(runs, cluster)
        for query in queries:
            found = lineage_of(query.run, book, cluster.chains, claimed)
            facets[query.name] = (
                _unlisted(query.run, where, told, found, query.over, now)
                if found.job is None
                else self._facet(query.run, where, found, found.job, book, cluster)
            )
            await asyncio.sleep(0)  # hundreds of runs: others go on meanwhile
        return facets

    def _facet(
        self, run: RunSpec, where: str, found: Lineage, job: Job, book: Book, cluster: _Cluster
    ) -> Facet[JobValue]:
        cluster.current[run.name] = job
        value = value_of(run, job, found.passed, found.queued, found.freed)
        value = _first_estimate(cluster, value)
        value = value.model_copy(update=_company(found, where))
        if value.ends_by is not None:
            signal = signal_of(run, job.main, book.scripts)
            value = value.model_copy(update={"signal_before_end": signal})
        why = f"; {found.why}" if found.why else ""
        return known(value, f"{where}, {job.main.said_by}{why}", self._clock.now())

    async def _living(self, host: str | None, runs: Sequence[RunSpec]) -> dict[str, Live]:
        told, book = await self.ask_cluster(host, runs, steps=True)
        cluster = self._clusters[host]
        claimed = _claimed(runs, cluster)
        return {
            run.name: _live(lineage_of(run, book, cluster.chains, claimed), told, book)
            if run.job is None or run.job.id is None or is_job_id(run.job.id)
            else Live(unknown=_no_id(run.job.id))
            for run in runs
        }


def _texted(record: Record, former: Record | None) -> Record:
    """Return an ended job with the texts that it had when it was listed."""
    if former is None:
        return record
    texts = {name: getattr(record, name) or getattr(former, name) for name in TEXTS}
    return replace(record, **texts)


def _no_id(named: str) -> str:
    return f'job.id "{clean(named, 60)}" is not a Slurm job id; expected 123, 123_4 or 123+0'


def _live(found: Lineage, told: ClusterRecords, book: Book) -> Live:
    """Return what lives of a lineage; what starts after it by itself is shown by its job (J)."""
    jobs = [*found.beside.rivals]
    if found.job is not None and found.job.lives:
        why = found.mark.why if found.mark is not None else "the recorded job"
        launch = found.mark.launch_id if found.mark is not None else None
        jobs.insert(0, live_job(found.job, why, launch))
    stepped = (_stepped(job, told, book) for job in jobs)
    beside = {name: tuple(getattr(found.beside, name)) for name in ("possible", "spared", "held")}
    return Live(jobs=tuple(stepped), **beside)


def _stepped(live: LiveJob, told: ClusterRecords, book: Book) -> LiveJob:
    """Return a job with whether a step of srun runs in it: only those hear a signal."""
    job = book.find(live.id)
    own = {live.id, *(each.id for each in (job.records if job is not None else ()))}
    has = "yes" if own & told.stepped else "no"
    return live.model_copy(update={"handle": {**live.handle, STEPS: has}})


ENDS_SOON: Final = 6 * 3600.0
"""Seconds before a time limit from which on the batch script is read: it may ask for a signal."""


def _ends_soon(record: Record, now: float) -> bool:
    until = record.until
    return record.phase is Phase.RUNNING and until is not None and 0 < until - now < ENDS_SOON


def _claimed(runs: Sequence[RunSpec], cluster: _Cluster) -> dict[str, str]:
    """Return the jobs that are known to be a run's own, by number, each with its run."""
    found = {each.base: name for name, job in cluster.current.items() for each in job.records}
    named = ((run.job.id, run.name) for run in runs if run.job is not None and run.job.id)
    return found | {re.split(r"[_+]", job)[0]: name for job, name in named}


def _company(found: Lineage, where: str) -> dict[str, object]:
    """Return what else there is of a lineage beside its job, as the fields that tell it."""
    return {
        "rivals": tuple(found.beside.rivals),
        "possible": tuple(found.beside.possible),
        "held": tuple(found.beside.held),
        "diagnostic": tuple(job.id for job in found.beside.spared),
        "rivals_source": where,
    }


def _unlisted(
    run: RunSpec,
    where: str,
    told: ClusterRecords,
    found: Lineage,
    over: JobValue | None,
    now: float,
) -> Facet[JobValue]:
    """Return the facet of a run whose job the cluster, which has answered, does not tell of.

    The controller forgets an ended job within minutes, and not every cluster has accounting: an
    end that was seen (``over``) stands. Only one that was not is unknown. What stood beside the job
    then is as the cluster tells it now.
    """
    if over is not None:
        value = over.model_copy(update={**_company(found, where), "queued": found.queued})
        return known(value, f"{where}, as it was seen to end; not listed any more", now)
    kind, text = _absent(run, where, told)
    left = "".join(f"; {job.id}: {job.why}" for job in found.beside.held)
    return unknown(kind, text + left, where, now)


def _absent(run: RunSpec, where: str, told: ClusterRecords) -> tuple[ErrorKind, str]:
    """Return why nothing is known of a run's job, though the cluster has answered."""
    named = run.job.id if run.job is not None else None
    if named is None:
        text = f"{where}: no job of yours has a launch id of {run.name} as its comment, or writes"
        return ErrorKind.NOT_FOUND, f"{text} to its output root; name job.id"
    if not is_job_id(named):
        return ErrorKind.NOT_FOUND, _no_id(named)
    text = f"{where}: neither squeue nor scontrol lists job {named} any more"
    if told.no_accounting is not None:
        return ErrorKind.NOT_FOUND, f"{text}, and {told.no_accounting}: how it ended is unknown"
    return ErrorKind.NOT_FOUND, f"{text}, and accounting does not know it; is the id right?"


def _remember(cluster: _Cluster, told: ClusterRecords, book: Book, wanted: set[str]) -> None:
    """Keep how jobs that runs name have ended, and which of them accounting need not tell again."""
    accounted = {each.id for each in told.accounted if each.phase.terminal}
    for job_id in wanted:
        job = book.find(job_id)
        if job is None:
            continue
        for record in job.records:
            if record.phase.terminal:
                cluster.ended[record.id] = record  # an array's tasks are forgotten one by one
            else:
                cluster.ended.pop(record.id, None)
        if not job.over:
            cluster.settled.discard(job_id)
            continue
        if told.no_accounting is not None or accounted & {job_id, *(r.id for r in job.records)}:
            cluster.settled.add(job_id)
    for old in list(cluster.ended)[: max(0, len(cluster.ended) - KEPT)]:
        del cluster.ended[old]


def _first_estimate(cluster: _Cluster, value: JobValue) -> JobValue:
    """Return a waiting job with the first start that its scheduler gave: each later one is late."""
    if value.expected_start is None:
        return value
    first = cluster.estimates.setdefault(
        (value.id or "", value.pending_since), value.expected_start
    )
    for old in list(cluster.estimates)[: max(0, len(cluster.estimates) - KEPT)]:
        del cluster.estimates[old]
    return value.model_copy(update={"expected_start": first})


def _on_our_clock(told: ClusterRecords, off: float) -> ClusterRecords:
    """Return an answer with all of its times moved by ``off`` seconds."""
    if not off:
        return told
    parts = ("queue", "shown", "accounted")
    moved: dict[str, Any] = {each: _moved(getattr(told, each), off) for each in parts}
    return replace(told, **moved)


def _moved(records: Sequence[Record], off: float) -> tuple[Record, ...]:
    times = [{name: getattr(each, name) for name in INSTANTS} for each in records]
    return tuple(
        replace(each, **{name: at + off for name, at in own.items() if at is not None})
        for each, own in zip(records, times, strict=True)
    )
