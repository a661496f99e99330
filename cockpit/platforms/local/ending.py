"""Acts on the processes of a machine: ends exactly some jobs, asks one to save, names one.

A job is its process, what descends from it by parent links, the groups and sessions that these
lead, and whatever carries the job's launch id in its environment, so that a child which left the
session or lost its parent is found too. SIGTERM goes to the job alone, which can then save and take
its children down in its own order; what is left when it has gone is asked next, and what is left at
the end of the grace is killed.

What belongs to a job is decided here, from the machine's own processes at each look; what is sent
there are process ids with their starts, and each is compared once more before it is signalled. A
signal that arrives late can reach nobody else.

What a later reader needs of a job: its files, processes, stacks and devices (SPEC A).

Gathering it only looks, each piece under its own limit; what could not be read is said in the file
itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import cockpit.hosts.acting  # noqa: F401 - its functions are calls of the agent
from cockpit.hosts.link import DEADLINE, Link, ask, shell
from cockpit.hosts.script import spelled
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.model.clock import Clock
from cockpit.model.facet import Problem, kind_of
from cockpit.model.jobs import LiveJob, NamedJob
from cockpit.model.lineage import related
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import NOT_ASKED, save_by_command, unsaved
from cockpit.platforms.local import programs
from cockpit.platforms.local.census import MOST, Census, Process, descendants
from cockpit.platforms.local.launching import TICKS, TOLD, launches_place, pid_of, root_on_host
from cockpit.platforms.local.sight import ABOUT, Sight, processes_ask, sight_of
from cockpit.platforms.protocol import EndingJobs
from cockpit.platforms.rank_stacks import RANKS, ranks_text, recorder_script, stacks_script
from cockpit.runtime.moment import Awake
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LOOK_EVERY: Final = 0.5
LOOK_HERE: Final = 0.1
SENDING: Final = 15.0
REAL_END: Final = 15.0
"""Seconds that what was killed has to be gone, and a supervisor to note the exit status."""


Signalled = tuple[Process, str]
"""A process, and the name of the signal that it gets."""


@dataclass(frozen=True)
class ProcessTarget:
    """One job to end: its process, known by its start, and the launch that it carries.

    ``also`` are processes of the job that are not below it, with their starts: the trainer where
    the process is the ``tee`` of its pipeline, and the other ranks.
    """

    pid: int
    ticks: int
    launch_id: str | None = None
    lineage: str = ""
    also: tuple[tuple[int, int], ...] = ()


@dataclass
class Ending:
    """What is known of one job while it ends."""

    target: ProcessTarget
    known: dict[int, int] = field(default_factory=dict)
    leading: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    alive: list[Process] = field(default_factory=list)
    supervisor: tuple[int, int] | None = None

    def look(self, sight: Sight) -> list[Process]:
        """Return what lives of it, and note who stays with it."""
        self.supervisor = self.supervisor or supervisor_of(sight.processes, self.target)
        self.alive = self.members(sight.processes, sight.own)
        return self.alive

    def members(self, processes: Census, own: Collection[int]) -> list[Process]:
        """Return everything of the job that lives now; nothing of ``own``, which is who looks."""
        found = {pid for pid, one in processes.items() if self._is_known(one)}
        found |= {one.pid for one in processes.values() if self._carries(one)}
        while True:
            self.leading |= {pid for pid in found if processes[pid].pgid == pid}
            grouped = {
                one.pid
                for one in processes.values()
                if one.pgid in self.leading or one.sid in self.leading
            }
            more = (grouped | descendants(processes, found)) - found
            if not more:
                break
            found |= more
        members = [processes[pid] for pid in found - {*own, 1} if self._may_be(processes[pid])]
        self.leading &= {one.pgid for one in members} | {one.sid for one in members}
        self.known = {one.pid: one.ticks for one in members}
        return members

    def asks(self, processes: Census) -> list[Signalled]:
        """Return who is asked to leave now: the job; once it has gone, what it left behind."""
        alive = self.alive
        main = next((one for one in alive if self._is_main(one)), None)
        inside = {one.pid for one in alive}
        also = [one for one in alive if (one.pid, one.ticks) in self.target.also]
        told = (*([main] if main else ()), *also)
        firsts = [one for one in told if not _only_passes_on(one)]
        heads = firsts or ([main] if main else [])  # a trainer may save before its pipe breaks
        meant = [one for head in heads for one in addressed(processes, head)] or alive
        found: list[Signalled] = []
        for one in meant:
            if one.pid not in self.asked and one.pid in inside:
                found.append((one, "TERM"))
                self.asked.add(one.pid)
            if one.state in "Tt" and one.pid in inside:
                found.append((one, "CONT"))
        return found

    def _is_main(self, one: Process) -> bool:
        return (one.pid, one.ticks) == (self.target.pid, self.target.ticks)

    def _is_known(self, one: Process) -> bool:
        here = (one.pid, one.ticks) in self.target.also
        return here or self.known.get(one.pid) == one.ticks or self._is_main(one)

    def _carries(self, one: Process) -> bool:
        if self.target.launch_id is None or one.variable(LAUNCH_ID) != self.target.launch_id:
            return False
        return related(self.target.lineage, one.variable(LINEAGE) or "")

    def _may_be(self, one: Process) -> bool:
        """Leave alone what is there to watch, and a job of another lineage started from here."""
        if programs.is_supervisor(one) or programs.is_cockpit(one.argv):
            return False
        tag = one.variable(LINEAGE)
        return not tag or not self.target.lineage or related(tag, self.target.lineage)


def _only_passes_on(one: Process) -> bool:
    """Tell whether a process of a job is not who trains, where another one may be."""
    return (
        programs.is_tool(one.argv)
        or programs.is_helper(one.argv)
        or bool(programs.contained(one.argv))
    )


def addressed(processes: Census, main: Process) -> list[Process]:
    """Return who is meant by a signal to a job: its process; of a shell, what it runs too.

    The shell comes first: asked last, it could begin its next line when what it ran has gone.
    """
    if not programs.is_shell(main.argv):
        return [main]
    children = [one for one in processes.values() if one.ppid == main.pid]
    below = [meant for child in children for meant in addressed(processes, child)]
    return [main, *below]


def supervisor_of(processes: Census, target: ProcessTarget) -> tuple[int, int] | None:
    """Return the process that stays with a job, and its start."""
    main = processes.get(target.pid)
    parent = None if main is None or main.ticks != target.ticks else processes.get(main.ppid)
    if parent is None or parent.variable(SUPERVISES) is None:
        return None
    return parent.pid, parent.ticks


class Acting:
    """Acts on the processes of one machine; bounded, and never in doubt about whom."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def look(self, variables: Collection[str] = (LAUNCH_ID, LINEAGE, SUPERVISES)) -> Sight:
        """Return the processes as they are, with these variables; raises ``LostError``."""
        # All of them: one whose lineage is not told would be ended as the job's own.
        processes = processes_ask([f"{name}=" for name in variables], most=MOST)
        answers = await self.link.ask([ABOUT, processes], patience=DEADLINE)
        problem = next((each for each in answers.values() if isinstance(each, Problem)), None)
        if problem is not None:
            raise LostError(problem.message)
        return sight_of(answers[ABOUT], answers[processes], here=self.link.here)

    async def signal(self, due: Sequence[Signalled], *, heard: bool = False) -> list[int]:
        """Signal processes, and return of each 0 or why it was not; raises ``RemoteError``."""
        targets = [(one.pid, one.ticks, name) for one, name in due]
        asked = ask("a signal", "kill", targets=targets, heard=heard)
        try:
            found: list[int] = await self.link.act(asked, deadline=SENDING)
        except OSError as error:
            raise RemoteError(kind_of(error), f"{self.link.host}: {error.strerror}") from error
        return found

    async def save(self, run: RunSpec, live: LiveJob, target: ProcessTarget) -> None:
        """Ask by ``save_signal``, else by ``save_command``; raises as ``Platform.save``."""
        spec = run.job
        if spec is not None and spec.save_signal:
            await self._by_signal(spec.save_signal, target)
        elif spec is not None and spec.save_command:
            await save_by_command(self.link, run, live)
        else:
            raise CannotError("neither job.save_signal nor job.save_command is set in cockpit.toml")

    async def _by_signal(self, word: str, target: ProcessTarget) -> None:
        """Signal the trainer alone, and only if it listens."""
        name = signal_name(word)
        try:
            processes = (await self.look()).processes
        except LostError as error:
            raise CannotError(f"{error}; {NOT_ASKED}") from error
        main = processes.get(target.pid)
        if main is None or main.ticks != target.ticks:
            raise CannotError(f"pid {target.pid} is gone")
        meant = [one for one in addressed(processes, main) if one is not main] or [main]
        if len(meant) > 1:
            pids = ", ".join(str(one.pid) for one in meant)
            raise CannotError(f"a shell runs several processes ({pids}): which is the trainer?")
        try:
            (status,) = await self.signal([(meant[0], name)], heard=True)
        except RemoteError as error:
            raise unsaved(error) from error
        if status:
            why = {
                errno.ESRCH: "is gone",
                errno.ENOTSUP: f"does not handle SIG{name} (yet): it could kill it",
            }.get(status, f"cannot be sent SIG{name}: {os.strerror(status)}")
            raise CannotError(f"pid {meant[0].pid} {why}")

    async def named(self, job_id: str) -> NamedJob:
        """Return what the process table tells of a process; never raises."""
        pid, where = pid_of(job_id), "here" if self.link.here else f"on {self.link.host}"
        if pid is None:
            text = f"{clean(job_id, 60)} is not a process id {where}; expected 4711"
            return NamedJob(id=job_id, text=text, lives=False)
        try:
            sight = await self.look(TOLD)
        except LostError as error:
            return NamedJob(id=f"pid:{pid}", text=scrub(clean(str(error), 300)))
        one = sight.processes.get(pid)
        if one is None:
            return NamedJob(id=f"pid:{pid}", text=f"no process {pid} lives {where}", lives=False)
        told = ((name, one.variable(name) or "") for name in TOLD)
        text = f"process {pid} is running {where}: {' '.join(one.argv)}"
        return NamedJob(
            id=f"pid:{pid}",
            text=scrub(clean(text, 300)),
            lives=True,
            launch_id=one.variable(LAUNCH_ID),
            started_at=sight.started_at(one),
            values=(*programs.arguments(one.argv), *(each for each in told if each[1])),
            handle={TICKS: str(one.ticks)},
        )


class EndingProcesses(EndingJobs):
    """Jobs of one machine that are told to end, and killed at the end of their grace."""

    slack: ClassVar[float] = REAL_END

    def __init__(self, acting: Acting, targets: Sequence[ProcessTarget]) -> None:
        self._acting = acting
        self._endings = [Ending(target) for target in targets]
        self.every = LOOK_HERE if acting.link.here else LOOK_EVERY
        self._seen: Census = {}
        self._lost: str | None = None

    async def left(self) -> Sequence[str]:
        """Return what lives of the jobs, from one look at all processes."""
        sight = await self._acting.look()
        self._seen = sight.processes
        return [_state_of(one) for each in self._endings for one in each.look(sight)]

    async def tell(self, *, late: bool) -> None:
        """Signal whom it is the time for.

        A signal that may have arrived is not sent twice: a trainer may take the second for an
        order to leave without saving. Nor is one killed that may never have been asked to leave.
        """
        if self._lost is not None:
            raise LostError(self._lost)
        due: list[Signalled] = []
        for each in self._endings:
            due += [(one, "KILL") for one in each.alive] if late else each.asks(self._seen)
        if not due:
            return
        try:
            statuses = await self._acting.signal(due)
        except RemoteError as error:
            if not error.sent:
                asked = {one.pid for one, name in due if name == "TERM"}
                for each in self._endings:
                    each.asked -= asked  # it never left here: the next look sends it
                raise self.unreached(error) from error
            self.told = True
            lost = f"{error}: cannot tell whether it was told to stop"
            self._lost = None if late else lost
            raise LostError(lost) from error
        self.told = True
        for (one, _), status in zip(due, statuses, strict=True):
            if status == errno.EPERM:
                whose = f"pid {one.pid} belongs to user {one.uid}"
                raise CannotError(f"{self._acting.link.host}: {whose}: not allowed to stop it")

    async def noted(self, clock: Clock) -> None:
        """Give each supervisor the time to note the exit status and to let go of its locks."""
        until = Awake(REAL_END, REAL_END, clock.monotonic)
        while until.left() > 0:
            found = (await self._acting.look()).processes
            noting = (each.supervisor for each in self._endings if each.supervisor is not None)
            if not any(pid in found and found[pid].ticks == ticks for pid, ticks in noting):
                return
            await clock.sleep(self.every / 2)


def _state_of(one: Process) -> str:
    why = ": it waits in the kernel for a disk, a GPU driver, a network file"
    return f"pid {one.pid} (state {one.state}{why if one.state == 'D' else ''})"


NUMBERS: Final = {
    "HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15, "CONT": 18,
    "URG": 23, "XCPU": 24, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29,
}  # fmt: skip
"""Signals by their numbers under Linux, which jobs run on, whatever runs here."""


def signal_name(name: str) -> str:
    """Return ``USR1`` for ``USR1``, ``SIGUSR1`` or ``10``; raises ``CannotError``."""
    plain = name.upper().removeprefix("SIG")
    named = next((word for word, number in NUMBERS.items() if plain in (word, str(number))), None)
    if named is None:
        raise CannotError(f"job.save_signal: there is no signal {clean(name, 40)}")
    return named


STACKS: Final = 8
"""Processes of which the kernel is asked; a job has hundreds of loaders."""
ALL_STACKS: Final = 25.0
"""Seconds for the Python stacks of all ranks of the machine; what came until then is kept."""
RECORDED: Final = 8_000_000
"""Bytes of NCCL's records that are brought."""
_RANKS: Final = "stacks of the ranks"
_RECORDS: Final = "NCCL's records"
LISTED: Final = 2000
SECONDS: Final = 5.0
"""For each piece, on the machine."""
_NOTES: Final = 20
_MISSING: Final = "missing: there is no {0} on the machine"


async def gather(link: Link, run: RunSpec, targets: Sequence[ProcessTarget]) -> dict[str, bytes]:
    """Return the evidence by file name; never raises."""
    found: dict[str, bytes] = {}
    processes: list[Process] = []
    try:
        sight = await Acting(link).look()
        for target in targets:
            processes += Ending(target).members(sight.processes, sight.own)
        processes.sort(key=lambda one: one.pid)
        lines = [
            f"{one.pid} {one.ppid} {one.sid} {one.state} {one.ticks} {' '.join(one.argv)}"
            for one in processes[:LISTED]
        ]
        text = "\n".join(["pid ppid session state start_ticks command", *lines, ""])
        found["processes.txt"] = text.encode("utf-8", "replace")
    except LostError as error:
        found["processes.txt"] = _not_had(str(error))
    pids = [one.pid for one in processes]
    asked = {name: shell(name, text, SECONDS) for name, text in _scripts(run, pids).items()}
    asked[_RECORDS] = shell(_RECORDS, recorder_script(pids), SECONDS, most=RECORDED)
    if pids:
        asked[_RANKS] = shell(_RANKS, stacks_script(pids), ALL_STACKS)
    answers = await link.ask(asked.values(), ALL_STACKS + DEADLINE, ALL_STACKS + DEADLINE)
    for name, each in asked.items():
        said = answers[each]
        if isinstance(said, Problem):
            found[name] = _not_had(said.message)
        else:
            found[name] = said[1].encode("utf-8", "surrogateescape")
    told = (found.pop(name, b"") for name in (_RANKS, _RECORDS))
    stacks, records = (each.decode("utf-8", "replace") for each in told)
    if pids or "== dump" in records:
        found[RANKS] = ranks_text(stacks, records).encode("utf-8", "replace")
    return found


async def describe(link: Link, run: RunSpec, job_id: str) -> str:
    """Return the process, its machine and its files, each as its own tool tells it."""
    pid = job_id.rpartition(":")[2]
    scripts = {f"what has process number {pid} now": _process(pid)} if pid.isdecimal() else {}
    scripts |= {"machine": _machine(run), "files": _job(run)}
    asked = {name: shell(name, text, SECONDS) for name, text in scripts.items()}
    answers = await link.ask(asked.values(), DEADLINE, DEADLINE)
    if all(isinstance(said := answers[each], Problem) for each in asked.values()):
        raise CannotError(said.message)
    lines: list[str] = []
    for name, each in asked.items():
        said = answers[each]
        text = f"missing: {said.message}" if isinstance(said, Problem) else said[1]
        lines += [f"{name}:", *(f"  {line}" for line in text.strip().splitlines()), ""]
    return "\n".join(lines)


def _process(pid: str) -> str:
    """Return what prints a process and what it has started."""
    columns = "pid,ppid,stat,etime,time,rss,args"
    memory = f"grep -E '^(State|Threads|VmRSS|VmHWM|VmSwap):' /proc/{pid}/status"
    none = "echo 'no process has it any more'"
    own = f"ps -o {columns} -p {pid} || {none}; ps -o {columns} --ppid {pid} | sed 1d"
    return f"exec 2>&1; {own}; {memory} 2>/dev/null"


def _not_had(why: str) -> bytes:
    return f"missing: {why}\n".encode("utf-8", "replace")


def _scripts(run: RunSpec, pids: Sequence[int]) -> dict[str, str]:
    found = {
        "job.txt": _job(run),
        "machine.txt": _machine(run),
        "kernel.txt": "exec 2>&1; dmesg -T | tail -n 200 || dmesg | tail -n 200",
        "gpu.txt": f"{_with('nvidia-smi')}\nnvidia-smi 2>&1",
    }
    if pids:
        found["cgroup.txt"] = _cgroup(pids[0])
    found |= {f"stack-{pid}.txt": _stack(pid) for pid in pids[:STACKS]}
    return found


def _with(program: str) -> str:
    return f"command -v {program} >/dev/null || {{ echo '{_MISSING.format(program)}'; exit; }}"


def _job(run: RunSpec) -> str:
    """Return what prints the job's own files, as they are, and its launch notes."""
    job, folder = run.job, launches_place(run)
    files = () if job is None else (job.pid_file, job.exit_file, job.done_marker)
    shown = " ".join(spelled(place) for place in files if place is not None)
    notes = ":" if folder is None else f"ls -t {spelled(folder)} | sed -n 1,{_NOTES}p"
    where = "." if folder is None else spelled(folder)
    return f"""\
show() {{ printf '==> %s <==\\n' "$1"; head -c 4096 -- "$1" 2>&1; echo; }}
for f in {shown}; do show "$f"; done
{notes} | while IFS= read -r f; do show {where}/"$f"; done"""


def _machine(run: RunSpec) -> str:
    places: list[Place] = [] if (root := root_on_host(run)) is None else [root]
    if run.job is not None and run.job.workdir is not None:
        places.append(run.job.workdir)
    disks = " ".join(map(spelled, places))
    return f"""\
exec 2>&1; uname -a; date; cat /proc/loadavg
df -Pk {disks}; df -Pi {disks}; head -n 6 /proc/meminfo"""


def _cgroup(pid: int) -> str:
    """Return what prints how the memory of a process's group stands, and what was killed in it."""
    return f"""\
exec 2>&1; cat /proc/{pid}/cgroup
p=$(sed -n 's/^0:://p' /proc/{pid}/cgroup); m=$(sed -n 's/^[0-9]*:memory://p' /proc/{pid}/cgroup)
for f in "/sys/fs/cgroup$p"/memory.* "/sys/fs/cgroup/memory$m"/memory.*; do
  case $f in *.current|*.max|*.events|*.peak|*_in_bytes|*.oom_control|*.failcnt)
    [ ! -r "$f" ] || {{ echo "$f"; head -c 4000 "$f"; }};;
  esac
done"""


def _stack(pid: int) -> str:
    """Return what prints what a process does, by the kernel."""
    return f"""\
exec 2>&1; tr '\\0' ' ' </proc/{pid}/cmdline; echo
for n in status wchan stack io limits; do echo "$n:"; head -c 8000 /proc/{pid}/$n; echo; done"""
