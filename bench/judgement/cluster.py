"""A Slurm cluster as its commands answer: what squeue, scontrol and sacct print of its jobs.

It takes the place of the shell that runs them; every byte of the answer is read by the platform.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cockpit.model.facet import ErrorKind
from cockpit.platforms.slurm.record import SACCT, UNIT
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError

FORGETS = 300.0
"""Seconds after its end from which on only accounting knows a job (``MinJobAge``)."""
_MARK = re.compile(r"^mark=(\w+)$", re.M)
_OVER = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED")


@dataclass
class Job:
    """One job; times are epoch seconds, ``limit`` seconds, ``code`` is ``exit:signal``."""

    id: str
    name: str
    submitted: float
    output: str
    state: str = "PENDING"
    reason: str = "Resources"
    started: float | None = None
    ended: float | None = None
    expected: float | None = None
    limit: float | None = None
    suspended: float | None = None
    code: str = "0:0"
    restarts: int = 0
    command: str = "train.sh"
    comment: str = ""
    workdir: str = "/home/ada"
    node: str = "node-3"

    def begin(self, at: float) -> None:
        """Let it run."""
        self.state, self.reason, self.started, self.ended = "RUNNING", "None", at, None

    def end(self, at: float, state: str, code: str = "0:0", reason: str = "None") -> None:
        """Let it be over."""
        self.state, self.code, self.reason, self.ended = state, code, reason, at

    @property
    def over(self) -> bool:
        """Tell whether it has ended."""
        return self.state.partition(" ")[0] in _OVER


@dataclass
class Cluster:
    """Answers the platform's questions; ``silent`` is how it fails, while it does.

    Without ``accounting`` nobody knows a job that its controller has forgotten.
    """

    now: Callable[[], float]
    jobs: dict[str, Job] = field(default_factory=dict)
    silent: str | None = None
    accounting: bool = True

    async def __call__(
        self, host: str | None, script: str, *, deadline: float, cap: int = 0
    ) -> Completed:
        """Return what the script prints; raises ``RemoteError`` where nothing answers."""
        if self.silent is not None:
            raise RemoteError(ErrorKind.TIMEOUT, self.silent, sent=True)
        found = _MARK.search(script)
        mark = "" if found is None else found[1]
        told = self._nodes() if "nodes.out" in script else self._jobs(mark)
        out = "".join(f"\n{mark} {name}\n{text}\n" for name, text in told)
        return Completed(0, out.encode(), b"")

    def _nodes(self) -> list[tuple[str, str]]:
        nodes = dict.fromkeys(job.node for job in self.jobs.values())
        text = "\n".join(f"NodeName={node} CPULoad=3.10\n   State=MIXED" for node in nodes)
        return [("nodes.out", text), ("nodes.rc", "0"), ("end", "")]

    def _jobs(self, mark: str) -> list[tuple[str, str]]:
        now = self.now()
        known = [job for job in self.jobs.values() if not _forgotten(job, now)]
        ended = [job for job in self.jobs.values() if job.over and self.accounting]
        return [
            ("date", f"{now:.0f}\n1000"),
            ("squeue.err", ""),
            ("squeue.rc", "0"),
            ("squeue.out", "\n".join(_queued(job, mark) for job in known)),
            ("scontrol.rc", "0"),
            ("scontrol.out", "\n".join(map(_shown, known)) or "No jobs in the system"),
            ("sacct.err", "" if self.accounting else "Slurm accounting storage is disabled"),
            ("sacct.rc", "0" if self.accounting else "1"),
            ("sacct.out", "\n".join(_accounted(job, mark) for job in ended)),
            ("end", ""),
        ]


def _forgotten(job: Job, now: float) -> bool:
    return job.over and job.ended is not None and now - job.ended > FORGETS


def stamp(at: float | None) -> str:
    """Return an instant as Slurm prints it in UTC."""
    return "N/A" if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "UNLIMITED"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"


def _times(job: Job) -> tuple[float | None, float | None]:
    if job.over or job.started is None or job.state == "PENDING":
        return (job.started, job.ended) if job.over else (job.expected, None)
    return job.started, None if job.limit is None else job.started + job.limit


def _queued(job: Job, mark: str) -> str:
    start, end = _times(job)
    fields = (
        job.id, job.id, "N/A", job.id, job.state, job.reason, stamp(start), stamp(end),
        _span(job.limit), stamp(job.submitted), "1000", "(null)", job.workdir, job.name,
        job.comment or "(null)",
    )  # fmt: skip
    return f"{mark}{UNIT}" + f"{UNIT}{mark}{UNIT}".join(fields)


def _shown(job: Job) -> str:
    start, end = _times(job)
    return f"""JobId={job.id} JobName={job.name}
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState={job.state} Reason={job.reason} Dependency=(null)
   Requeue=1 Restarts={job.restarts} BatchFlag=1 Reboot=0 ExitCode={job.code}
   TimeLimit={_span(job.limit)} TimeMin=N/A
   SubmitTime={stamp(job.submitted)} EligibleTime={stamp(job.submitted)}
   StartTime={stamp(start)} EndTime={stamp(end)} Deadline=N/A
   SuspendTime={stamp(job.suspended)} SecsPreSuspend=0
   NodeList={job.node if start is not None else "(null)"}
   Command={job.command}
   WorkDir={job.workdir}
   Comment={job.comment}
   StdOut={job.output}
"""


def _accounted(job: Job, mark: str) -> str:
    start, end = _times(job)
    told = {
        "JobID": job.id, "JobIDRaw": job.id, "State": job.state, "ExitCode": job.code,
        "Submit": stamp(job.submitted), "Start": stamp(start), "End": stamp(end),
        "Timelimit": _span(job.limit), "NodeList": job.node, "UID": "1000",
        "AllocTRES": "",
    }  # fmt: skip
    return f"{UNIT}{mark}{UNIT}".join(told[name] for name in SACCT.split(","))
