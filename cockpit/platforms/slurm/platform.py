"""Slurm: its jobs are read (SPEC S-3) and acted on: submitted held, released, stopped (SPEC A)."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from cockpit.model.clock import FILE_SKEW
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import (
    Live,
    LiveJob,
    NamedJob,
    OwnJob,
    Query,
)
from cockpit.model.observed import HostValue, JobValue, LogValue, Phase
from cockpit.model.place import Place, on_host, place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.wording import age
from cockpit.platforms.base import CannotError, EndpointFinding, LostError
from cockpit.platforms.reports import clock_text
from cockpit.platforms.slurm.ask import (
    ACCOUNTING,
    CONTROLLER,
    PATHS,
    TAIL,
    Run,
    ask,
    checkup_script,
    is_job_id,
    last_words,
    new_mark,
    nodes_script,
    parts,
    tails_script,
    trouble_of,
)
from cockpit.platforms.slurm.book import Job, book_of
from cockpit.platforms.slurm.command import script_words
from cockpit.platforms.slurm.jobs import host_of, where_of
from cockpit.platforms.slurm.launching import SlurmLaunches
from cockpit.platforms.slurm.record import Record, count_of
from cockpit.platforms.slurm.scripts import target_of
from cockpit.platforms.slurm.value import output_of
from cockpit.platforms.table import UnansweredError, ask_each, by_place, unanswered
from cockpit.runtime.ssh import LIMITED, RemoteError, quote
from cockpit.text.progress import read_progress
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

SKEW: Final = 5.0
_UP: Final = re.compile(r"^Slurmctld\([^)]*\) .*\bis UP", re.M)
"""Such as ``Slurmctld(primary) at ctl is UP``."""
_ACCOUNTING: Final = re.compile(r"^AccountingStorageType\s*=\s*(.*)$", re.M)
"""Such as ``AccountingStorageType = accounting_storage/slurmdbd``."""


async def checkup(run: Run, host: str | None) -> list[EndpointFinding]:
    """Return what is found at one cluster, asked once; never raises."""
    where, mark = where_of(host), new_mark()
    try:
        found = await parts(run, host, where, mark, checkup_script(mark))
    except UnansweredError as error:
        return [_bad(where, error)]
    return list(_findings(where, found, time.time()))


def _findings(where: str, found: dict[str, str], now: float) -> Iterator[EndpointFinding]:
    version, ping = found.get("version", ""), found.get("ping", "")
    if not version.startswith("slurm"):
        yield _bad(where, trouble_of(where, version or ping, 127))
        return
    if not _UP.search(ping):
        down = f"Unable to contact slurm controller: {ping.strip()}" if "DOWN" in ping else ping
        yield _bad(where, trouble_of(where, down, 1))
        return
    yield EndpointFinding(endpoint=where, text=f"{clean(version, 60)}; {last_words(ping)}")
    accounting = _ACCOUNTING.search(found.get("config", ""))
    if accounting is not None and accounting[1].strip() in (
        "accounting_storage/none",
        "(null)",
        "",
    ):
        text = "accounting is off: how a job ended is known only while the controller remembers it"
        remedy = "keep a watch running over the ends of jobs; ask who runs the cluster for slurmdbd"
        yield EndpointFinding(endpoint=where, text=text, remedy=remedy)
    date = found.get("date", "").strip()
    off = now - float(date) if date.isdecimal() else 0.0
    if abs(off) > SKEW:
        text = clock_text(-off)
        remedy = "set the clocks by NTP; until then its times are moved onto ours"
        yield EndpointFinding(endpoint=where, text=text, remedy=remedy)


def _bad(where: str, trouble: UnansweredError) -> EndpointFinding:
    text, _, advice = trouble.text.rpartition("; ")
    if trouble.remedy or not text:
        text, advice = trouble.text, trouble.remedy
    return EndpointFinding(endpoint=where, text=text, remedy=advice or "see what it says")


_NODE: Final = re.compile(r"^NodeName=(\S+)(.*?)(?=^NodeName=|\Z)", re.M | re.S)
_LOAD: Final = re.compile(r"\bCPULoad=(\d+(?:\.\d+)?)")
"""Such as `` CPULoad=3.14``."""
_STATE: Final = re.compile(r"^\s+State=(\S+)", re.M)
_REASON: Final = re.compile(r"^\s+Reason=(.+)$", re.M)
_OUT: Final = re.compile(r"DRAIN|DOWN|FAIL|MAINT|INVAL|NOT_RESPONDING|[*$]")
"""Words and signs of a node's state on which nothing new is started."""
NODE_LOST: Final = "NODE_FAIL"


def _out_of_service(node: str, state: str, reason: re.Match[str] | None) -> str | None:
    """Return why nothing new starts on a node, and who says so: Slurm's own words."""
    if reason is None and _OUT.search(state) is None:
        return None
    why = "" if reason is None else f": {reason[1]}"
    return scrub(clean(f"node {node} is {state}{why}", 300))


def _node(query: Query) -> str | None:
    """Return the machine of a living job, or the one that was lost under it."""
    job = query.job
    there = job is not None and (job.phase.lives or job.state == NODE_LOST)
    return job.node if job is not None and there else None


_LAUNCH: Final = re.compile(r"(.+)-i\d{3,6}")
"""Such as ``toy-i003``."""


async def own_jobs(run: Run, host: str | None) -> Sequence[OwnJob]:
    """Return this user's jobs, living ones and then the newest first; raises ``CannotError``."""
    try:
        told = await ask(run, host, where_of(host), ())
    except UnansweredError as error:
        raise CannotError(str(error)) from error
    last = {
        job.id: max(each.submitted or 0.0 for each in job.records) for job in book_of(told).jobs
    }
    jobs = sorted(book_of(told).jobs, key=lambda job: (not job.lives, -last[job.id]))
    return [_own_job(job) for job in jobs]


def _own_job(job: Job) -> OwnJob:
    """Return a job as its records tell of it.

    Not where it writes: each job's ``StdOut`` is read by itself, and the next one has another.
    """
    main = job.main
    settings = {}
    if main.workdir.startswith("/"):
        settings["job.workdir"] = main.workdir
    resubmit = _resubmit(main)
    if resubmit is not None:
        settings["resubmit"] = resubmit
    launch = _LAUNCH.fullmatch(main.comment)
    reason = f" ({main.reason})" if main.reason and main.phase is Phase.WAITING else ""
    return OwnJob(
        id=clean(job.id, 80),
        name=_shown(main.name if launch is None else launch[1]),
        text=_shown(f"{main.state}{reason}"),
        settings={name: clean(value, 4096) for name, value in settings.items()},
    )


def _resubmit(main: Record) -> str | None:
    """Return how the job was submitted; without its whole line, its script and arguments."""
    line = main.command.removeprefix(main.script).strip()
    for words in (line.split(), ["sbatch", *main.script.split()]):
        if words[:1] == ["sbatch"] and script_words(words):
            text = " ".join(words)
            return text if scrub(text) == text else None
    return None


def _shown(text: str) -> str:
    return clean(scrub(text), 200)


FILE: Final = "slurm.txt"
CAP: Final = 2_000_000
MOST: Final = 8
TASKS: Final = 100
"""Tasks of an array whose logs are looked into."""
STACKS: Final = 12
"""Processes of which a stack dump is tried."""
DEADLINE: Final = 60.0
_BEGIN: Final = (
    f"{PATHS}\n"
    + LIMITED
    + f"""\
TZ=UTC0 SLURM_TIME_FORMAT=standard; export TZ SLURM_TIME_FORMAT
told() {{ printf '\\n$ %s\\n' "$*"; limited "$limit" "$@" 2>&1 || echo "(status $?)"; }}
limit={CONTROLLER}; date -u
"""
)
_CLUSTER: Final = """\
told squeue --me -t all -o '%i %T %r %M %l %N %k'
told sinfo -N -o '%N %T %E'
"""
_JOB: Final = f"""
limit={CONTROLLER}; told scontrol show job {{job}}
limit={ACCOUNTING}
told sacct -a -P -j {{job}} -o JobID,JobName,State,ExitCode,Submit,Start,End,NodeList,MaxRSS
"""
_QUEUE: Final = f"""
limit={CONTROLLER}; told squeue --start -j {{job}} -o '%i %T %S %Q %q %P %r'
told sinfo -R -o '%30N %12T %19H %E'
"""
_PROCESSES: Final = f"""
pids=$(limited 5 scontrol listpids {{job}} 2>/dev/null |
 awk '$1 ~ /^[0-9]+$/ {{{{ print $1 }}}}' | sort -u | head -n {STACKS})
if [ -z "$pids" ]; then echo '(its processes are not on this machine: no stacks, no devices)'
else
ps -o pid,ppid,stat,wchan:20,args -p "$(echo $pids | tr ' ' ,)" 2>&1
limit=5; for pid in $pids; do
command -v py-spy >/dev/null && told py-spy dump --pid "$pid"; done
command -v nvidia-smi >/dev/null && told nvidia-smi
fi
"""


async def gather(run: Run, host: str | None, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
    """Return one file with what the cluster tells; never raises."""
    try:
        ids = [quote(target_of(job)) for job in jobs[:MOST]]
        of_each = "".join((_JOB + _PROCESSES).format(job=each) for each in ids)
        done = await run(host, _BEGIN + _CLUSTER + of_each, deadline=DEADLINE, cap=CAP)
        out = done.out
    except RemoteError as error:
        out = error.out + f"\nmissing: {clean(str(error), 400)}\n".encode()
    except (CannotError, LostError, TimeoutError) as error:
        out = f"missing: {clean(str(error), 400)}\n".encode()
    lines = [line.plain for line in safe_lines(out, limit=20_000)]
    return {FILE: (scrub("\n".join(lines)) + "\n").encode("utf-8", "replace")}


async def describe(run: Run, host: str | None, job_id: str) -> str:
    """Return what Slurm's tools print of a job, its queue and the nodes that are out of service."""
    script = _BEGIN + (_JOB + _QUEUE).format(job=quote(job_id))
    try:
        done = await run(host, script, deadline=DEADLINE, cap=CAP)
    except RemoteError as error:
        raise CannotError(f"{where_of(host)}: {clean(str(error), 400)}") from error
    return done.out.decode("utf-8", "replace")


class TasksProgress(NamedTuple):
    """What the tasks of an array log, and why it is not known of all of them."""

    ends: Mapping[str, tuple[str, str, float]] = MappingProxyType({})
    """By task: its step, its loss, and when its log was written (epoch s)."""
    note: str = ""


NO_PROGRESS: Final = TasksProgress()
LOGS_WITHIN: Final = 8.0
"""Seconds in which the logs must be read: what the tools have printed does not wait longer."""


async def tasks_progress(run: Run, host: str | None, records: Sequence[Record]) -> TasksProgress:
    """Return what each task's own log tells of its progress; never raises.

    A log that several tasks write to is no task's own, and one that was not written since the task
    began holds what an earlier one has logged.
    """
    begun = [(each, output_of(each), each.started) for each in records]
    shared = Counter(path for _, path, started in begun if started is not None)
    own = [
        (each, path, started)
        for each, path, started in sorted(begun, key=lambda one: not one[0].phase.lives)
        if path is not None and started is not None and shared[path] == 1
    ]
    if not own:
        return NO_PROGRESS
    note = f"step and loss: of {TASKS} of {len(own)} logs" if len(own) > TASKS else ""
    own = own[:TASKS]
    mark = new_mark()
    script = tails_script(mark, [path for _, path, _ in own])
    try:
        async with asyncio.timeout(LOGS_WITHIN):
            found = await parts(run, host, where_of(host), mark, script)
    except (UnansweredError, TimeoutError) as error:
        why = getattr(error, "text", f"the logs were not read within {LOGS_WITHIN:.0f} s")
        return TasksProgress(note=f"step and loss are unknown: {why}")
    told = {}
    for number, (each, _, started) in enumerate(own):
        written, _, text = found.get(str(number), "").partition("\n")
        if not written.isdecimal() or int(written) < started - FILE_SKEW:
            continue
        lines = text.splitlines()
        if len(text) >= TAIL // 2:  # its first line may be the rest of one
            del lines[:1]
        rows = filter(None, map(read_progress, reversed(lines)))
        row = next((line for line in rows if line.scope == "run"), None)
        if row is not None:
            most = "" if row.max_step is None else f"/{row.max_step:,}"
            step = row.step_shown if row.step is None else f"{row.step:,}{most}"
            loss = "" if row.loss is None else f"{row.loss:.4g}"
            told[each.id] = (step or "", loss, float(written))
    return TasksProgress(told, note)


def task_lines(
    records: Sequence[Record], now: float, progress: TasksProgress = NO_PROGRESS
) -> list[str]:
    """Return an array's tasks as a table, what failed first; how many are in which state above."""
    counts = Counter[str]()
    for each in records:
        counts[each.word] += count_of(each)
    total = ", ".join(f"{number} {word}" for word, number in counts.most_common())
    failed = [each for each in records if each.phase in (Phase.FAILED, Phase.UNKNOWN)]
    nodes = Counter(each.node for each in failed if each.node)
    twice = [f"{node} ({number} tasks)" for node, number in nodes.most_common() if number > 1]
    order = sorted(records, key=lambda each: (each not in failed, not each.phase.lives, each.id))
    rows = [("task", "state", "exit", "for", "node", "reason"), *(_task(e, now) for e in order)]
    if progress.ends:
        heads = ("step", "loss", "logged")
        ends = [_end_of_log(progress.ends.get(each.id), now) for each in order]
        rows = [(*r[:4], *e, *r[4:]) for r, e in zip(rows, [heads, *ends], strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"{counts.total()} tasks: {total}",
        *([f"failed more than once on: {', '.join(twice)}"] if twice else []),
        *([progress.note] if progress.note else []),
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
        "",
    ]


def _task(record: Record, now: float) -> tuple[str, ...]:
    begun, ended = record.started, record.ended
    lasted = "" if begun is None or record.phase is Phase.WAITING else age((ended or now) - begun)
    code = "" if record.exit is None or record.phase.lives else ":".join(map(str, record.exit))
    reason = "" if record.reason == "None" else record.reason
    return record.id, record.word, code, lasted, record.node, reason


def _end_of_log(end: tuple[str, str, float] | None, now: float) -> tuple[str, str, str]:
    return ("", "", "") if end is None else (*end[:2], f"{age(max(0.0, now - end[2]))} ago")


class SlurmPlatform(SlurmLaunches):
    """Jobs of a Slurm cluster, here or on a login node over ssh."""

    log_needs_job: ClassVar[bool] = True

    def endpoint(self, run: RunSpec) -> str:
        """Return the cluster, by the machine that its commands are run on."""
        return where_of(host_of(run))

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run: one question per cluster, however many runs."""
        return await self._jobs.observe(queries)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage, by one question per cluster."""
        return await self._jobs.live(runs)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return what each run's log tells: ``job.log``, else the file of the job's output."""
        places = {query.name: place for query in queries if (place := _log(query)) is not None}
        found = await self._logs.observe(
            [
                each
                for each in queries
                if each.name in places or (each.run.job and each.run.job.log)
            ],
            places,
            others={query.name: _error_places(query) for query in queries},
        )
        return {query.name: self._log_facet(query, found.get(query.name)) for query in queries}

    def _log_facet(self, query: Query, found: Facet[LogValue] | None) -> Facet[LogValue]:
        """Return a log's facet; of one that is not there, whether it could be by now."""
        now, job = self._clock.now(), query.job
        missing = found is None or (
            found.error is not None and found.error.kind is ErrorKind.NOT_FOUND
        )
        if found is not None and not missing:
            return found
        where = self.endpoint(query.run) if found is None else found.source
        if job is None:
            text = f"where the log of {query.name} is is unknown, since its job is"
        elif job.phase is Phase.WAITING:
            text = "no log yet: the job is waiting"
        elif found is not None:
            return found
        else:
            text = f"Slurm does not say where job {job.id} writes; set job.log"
        return unknown(ErrorKind.NOT_FOUND, text, where, now)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return how the machine of each job is, as far as Slurm tells."""
        groups = by_place(queries, lambda query: host_of(query.run))
        return await ask_each(groups, self._nodes, unanswered(where_of, self._clock))

    async def _nodes(
        self, host: str | None, queries: Sequence[Query]
    ) -> dict[str, Facet[HostValue]]:
        wanted = sorted({node for query in queries if (node := _node(query)) is not None})
        mark, where, told = new_mark(), where_of(host), dict[str, str]()
        if wanted:
            found = await parts(self._run, host, where, mark, nodes_script(mark, wanted))
            told |= {name: text for name, text in _NODE.findall(found.get("nodes.out", ""))}
            if not told:
                raise trouble_of(where, found.get("nodes.out", ""), 1)
        return {query.name: self._node_facet(where, query, told) for query in queries}

    def _node_facet(self, where: str, query: Query, told: dict[str, str]) -> Facet[HostValue]:
        now, node = self._clock.now(), _node(query)
        if query.job is None:
            text = "its machine is unknown, since its job is"
            return unknown(ErrorKind.NOT_FOUND, text, where, now)
        if node is None:
            return known(HostValue(), f"{where}: the job is on no machine now", now)
        text = told.get(node, "")
        load, state = _LOAD.search(text), _STATE.search(text)
        word = clean(state[1], 60) if state is not None else "not listed"
        value = HostValue(
            load=float(load[1]) if load is not None else None,
            out_of_service=_out_of_service(node, word, _REASON.search(text)),
        )
        return known(value, f"{where}: {clean(node, 100)} {word}", now)

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return what each cluster behind these runs says of itself, asked once."""
        hosts = {run.job.host for run in runs if run.job is not None}
        asked = (checkup(self._run, host) for host in sorted(hosts, key=str))
        return [finding for found in await asyncio.gather(*asked) for finding in found]

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs of a cluster; raises ``CannotError``."""
        return await own_jobs(self._run, job.host)

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the cluster tells of a job by its number."""
        return await self._jobs.named(run, job_id)

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return what Slurm's own tools print, below the tasks of an array."""
        host = host_of(run)
        if run.job is None or not is_job_id(job_id):
            raise CannotError(f"{run.name}: no job number is known")
        spec = run.model_copy(update={"job": run.job.model_copy(update={"id": job_id})})
        (_, book), text = await asyncio.gather(
            self._jobs.ask_cluster(host, [spec]), describe(self._run, host, job_id)
        )
        found = book.find(job_id.partition("_")[0])
        several = found is not None and found.grouped and found.records[0].kind == "array"
        if found is None or not several:
            return text
        progress = await tasks_progress(self._run, host, found.records)
        return "\n".join([*task_lines(found.records, self._clock.now(), progress), text])

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return the cluster's own answers about these jobs."""
        return await gather(self._run, host_of(run), jobs)


def _log(query: Query) -> Place | None:
    """Return where the current job writes to, unless the run file names the log.

    A controller that does not answer takes nobody's log away: it is read where it was last.
    """
    spec, job = query.run.job, query.job
    if spec is None or spec.log is not None:
        return None
    if job is None:
        return None if query.last_log is None else place_of(query.last_log)
    return None if job.output is None else on_host(spec.host, job.output)


def _error_places(query: Query) -> list[Place]:
    """Return where the current job writes besides: its standard error, if it is apart."""
    spec, job = query.run.job, query.job
    if spec is None or job is None:
        return []
    files = (job.output if spec.log is not None else None, job.error_output)
    return [on_host(spec.host, path) for path in files if path is not None]
