"""SSH boxes: processes of a host, read and acted on through the user's own ssh (SPEC S-4).

What keeps "at most once" lies on the host: locks that its kernel holds, and a launch id's note
that is made once (``cockpit.hosts.supervisor``), in the files of a launch on that machine itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Final

from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.hosts.link import Link, link_to
from cockpit.hosts.script import run_script
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.local.jobs import View
from cockpit.platforms.local.platform import ProcessPlatform
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


class BoxPlatform(ProcessPlatform):
    """A process or session of a host (SPEC S-4)."""

    kind: ClassVar[str] = "box"
    log_every: ClassVar[float | None] = 5.0

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        link: Callable[[str], Link] = link_to,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        super().__init__(clock, logs, link, answer_within)

    @classmethod
    def host_of(cls, run: RunSpec) -> str | None:
        """Return the host that the run file names."""
        return super().host_of(run) or None

    def endpoint(self, run: RunSpec) -> str:
        """Return the host: its job, its log and its disks share one connection, and one fate."""
        return self.host_of(run) or f"{self.kind} here"

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return whether each host can be reached, its clock, what it lacks; asked once."""
        return await asyncio.gather(*(self._finding(*own) for own in self.by_host(runs).items()))

    async def _finding(self, host: str, runs: Sequence[RunSpec]) -> EndpointFinding:
        return finding_of(host, await self._jobs.seen(host, runs), runs)

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the tmux sessions of a host; raises ``CannotError``."""
        if not job.host:
            raise CannotError("name the host: box@HOST")
        return await own_jobs(run_script, job.host)


SKEW: Final = 5.0
"""Seconds by which a clock may be off before a person should set it."""


def finding_of(host: str, view: View | Problem, runs: Sequence[RunSpec]) -> EndpointFinding:
    """Return whether a host answers, and what it lacks for what these runs name."""
    if isinstance(view, Problem):
        text, _, advice = view.message.partition("; ")
        return EndpointFinding(endpoint=host, text=text, remedy=advice or f"ssh {host}")
    seen = view.sight
    wrong = list(_wrong(view, runs))
    text = f"answers; {len(seen.processes)} processes, as user {seen.uid}"
    said = [text, *(each for each, _ in wrong)]
    remedy = "; ".join(remedy for _, remedy in wrong) or None
    return EndpointFinding(endpoint=host, text=clean("; ".join(said)), remedy=remedy)


def _wrong(view: View, runs: Sequence[RunSpec]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong there, and what to do about it."""
    ahead = view.sight.ahead
    if abs(ahead) > SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        yield f"its clock is {wording.duration(abs(ahead))} {which} ours", "set it (NTP)"
    if view.sessions.panes is None and any(run.job and run.job.session for run in runs):
        yield "neither tmux nor screen is installed", "install tmux, or name job.pid_file"
    for run in runs:
        files = view.files[run.name]
        problem = files if isinstance(files, Problem) else files.problem
        if problem is not None:
            yield f"{run.name}: {problem.message}", "make it readable for this user"
