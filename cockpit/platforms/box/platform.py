"""SSH boxes: processes of a host, read and acted on through the user's own ssh (SPEC S-4).

What keeps "at most once" lies on the host: locks that its kernel holds, and a launch id's note
that is made once (``cockpit.hosts.supervisor``), in the files of a launch on that machine itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.hosts.link import HostLink, link_to
from cockpit.hosts.script import run_script
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import (
    Accepted,
    LaunchState,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    OwnJob,
    Query,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding, refuse_beside
from cockpit.platforms.box.findings import finding_of
from cockpit.platforms.command import NO_WAY
from cockpit.platforms.local.ending import Acting, EndingProcesses
from cockpit.platforms.local.evidence import gather
from cockpit.platforms.local.host import HostHealth
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.platforms.local.lookup import look_up
from cockpit.platforms.local.platform import target_of
from cockpit.platforms.local.starting import Starting, launch_name, startable
from cockpit.platforms.protocol import end_jobs
from cockpit.platforms.unsupported import Unsupported
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

Run = Callable[..., Awaitable[Completed]]
"""``run_script(host, script, deadline=…, cap=…)``."""
DEADLINE: Final = 12.0
CAP: Final = 1_000_000
NO_TMUX: Final = 127
_SESSIONS: Final = f"""\
command -v tmux >/dev/null || exit {NO_TMUX}
LC_ALL=C; export LC_ALL
tmux -u list-panes -a -F '#{{pane_dead}}|#{{pane_current_command}}|#{{pane_current_path}}|\
#{{session_name}}' || ! tmux has-session"""
"""Dead or not, what runs in it, where, whose; a server that does not run has no session."""


async def own_jobs(run: Run, host: str) -> Sequence[OwnJob]:
    """Return the tmux sessions of a host, those in which something runs first.

    Raises ``CannotError``.
    """
    try:
        done = await run(host, _SESSIONS, deadline=DEADLINE, cap=CAP)
    except RemoteError as error:
        raise CannotError(str(error)) from None
    if done.rc == NO_TMUX:
        raise CannotError(f"{host}: tmux is not installed there")
    if done.rc != 0:
        said = clean(scrub(done.err.decode("utf-8", "replace")), 200)
        raise CannotError(f"{host}: tmux does not tell its sessions: {said}")
    panes: dict[str, list[tuple[bool, str, str]]] = {}
    for line in done.text.splitlines():
        fields = line.split("|")
        if len(fields) == 4:  # else a name or a folder holds the separator: not to be told apart
            dead, program, folder, name = fields
            panes.setdefault(name, []).append((dead == "1", program, folder))
    return sorted((_own(*each) for each in panes.items()), key=lambda job: job.text == "ended")


def _own(name: str, panes: list[tuple[bool, str, str]]) -> OwnJob:
    running = [program for dead, program, _ in panes if not dead]
    folders = {folder for _, _, folder in panes if folder.startswith("/")}
    shown = ", ".join(dict.fromkeys(running))
    return OwnJob(
        id=clean(name, 200),
        name=clean(scrub(name), 200),
        text=f"tmux session, runs {clean(scrub(shown), 120)}" if running else "ended",
        settings={"job.workdir": clean(folders.pop(), 4096)} if len(folders) == 1 else {},
    )


AskHost = Callable[[str, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]
NO_HOST: Final = "job.host"


class BoxPlatform(Unsupported):
    """A process or session of a host; one probe tells of all its runs."""

    kind: ClassVar[str] = "box"
    acts: ClassVar[bool] = True
    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    log_every: ClassVar[float | None] = 5.0

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        link: Callable[[str], HostLink] = link_to,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        super().__init__(clock, logs)
        self._answer_within = answer_within
        self._link_to = link
        self._jobs = ProcessJobs(clock, link)
        self._health = HostHealth(clock, link)

    def endpoint(self, run: RunSpec) -> str:
        """Return the host: its job, its log and its disks share one connection, and one fate."""
        return (run.job.host if run.job is not None else None) or f"{self.kind} here"

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return what each host tells of its runs' jobs."""
        return await _by_host(queries, self._jobs.observe)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of each host, with the disks that each run writes to."""
        return await _by_host(queries, self._health.observe)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return the live jobs of each lineage on its host."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            groups.setdefault((run.job and run.job.host) or "", []).append(run)
        lost = groups.pop("", [])
        found = await asyncio.gather(*(self._jobs.live(*group) for group in groups.items()))
        lives = {name: live for answer in found for name, live in answer.items()}
        return lives | {run.name: Live(unknown=f"{NO_HOST} is not in cockpit.toml") for run in lost}

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return whether each host can be reached, its clock, what it lacks; asked once."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            if run.job is not None and run.job.host:
                groups.setdefault(run.job.host, []).append(run)
        return await asyncio.gather(*(self._finding(*group) for group in groups.items()))

    async def _finding(self, host: str, runs: Sequence[RunSpec]) -> EndpointFinding:
        view = await self._jobs.seen(host, runs)
        return finding_of(host, view, runs)

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the tmux sessions of a host; raises ``CannotError``."""
        if not job.host:
            raise CannotError("name the host: box@HOST")
        return await own_jobs(run_script, job.host)

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the host's process table tells of a process by its id."""
        host = None if run.job is None else run.job.host
        if not host:
            return NamedJob(id=job_id, text=f"{NO_HOST} is not in cockpit.toml")
        return await Acting(self._link_to(host)).named(job_id)

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Note a process in the run's pid file on the host, with its own start."""
        await self._starting(run).adopt(run, job)

    # Acting.

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a file of the host can be named by it."""
        return launch_name(launch_id)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id; one that was meant and never used is closed by it."""
        if run.job is None or not run.job.host:
            return LookUp(found=LaunchState.UNKNOWN, text=f"{NO_HOST} is not in cockpit.toml")
        return await look_up(self._link_to(run.job.host), run, launch_id)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Note on the host that the launch id is meant; nothing runs before ``go``."""
        startable(run, submission)
        refuse_beside((await self.live([run]))[run.name])
        await self._starting(run).accept(run, submission)
        return Accepted(id=submission.launch_id, submission=submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Start the job detached and return ``pid:N``."""
        refuse_beside((await self.live([run]))[run.name])
        return await self._starting(run).go(run, accepted.submission)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See on the host that a start would be taken in."""
        await self._starting(run).try_start(run, submission)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and what descends from them; waits for their real end."""
        ending = EndingProcesses(Acting(self._link(run)), [target_of(job) for job in jobs])
        await end_jobs(run, ending, self._clock)
        await ending.noted(self._clock)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that nothing is configured to ask it by, if so."""
        spec = run.job
        if spec is not None and (spec.save_signal or spec.save_command):
            return None
        return NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_signal``, else by ``save_command``, both on the host."""
        await self._acting(run).save(run, job, target_of(job))

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return files, notes, stacks, memory and device state of these jobs."""
        if run.job is None or not run.job.host:
            return {}
        targets = [target_of(job) for job in jobs if "pid" in job.handle]
        return await gather(self._link_to(run.job.host), run, targets)

    def _acting(self, run: RunSpec) -> Acting:
        return Acting(self._link(run))

    def _starting(self, run: RunSpec) -> Starting:
        return Starting(self._link(run), self._answer_within)

    def _link(self, run: RunSpec) -> HostLink:
        if run.job is None or not run.job.host:
            raise CannotError(f"{NO_HOST} is not in cockpit.toml")
        return self._link_to(run.job.host)


async def _by_host(queries: Sequence[Query], ask: AskHost) -> dict[str, Facet[Any]]:
    """Return the answers of all hosts, asked at once: none waits for another."""
    groups: dict[str, list[Query]] = {}
    for query in queries:
        groups.setdefault((query.run.job and query.run.job.host) or "", []).append(query)
    found: dict[str, Facet[Any]] = {
        query.name: not_configured(NO_HOST) for query in groups.pop("", [])
    }
    for answer in await asyncio.gather(*(ask(host, own) for host, own in groups.items())):
        found.update(answer)
    return found
