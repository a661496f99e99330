"""Acts on the processes of an ssh host: ends exactly some jobs, asks one to save, adopts one.

What belongs to a job is decided here, from the host's own processes at each look; what is sent
there are process ids with their starts, and each is compared once more before it is signalled. A
script that arrives late can reach nobody else. So it is with a process that was started by hand and
becomes the run's own: its start is compared on the host in the moment of writing.

``gather`` returns what a later reader needs of a job (SPEC A). It only looks, each piece under its
own limit; what could not be read is said in the file itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from cockpit.hosts.link import DEADLINE, HostLink, shell
from cockpit.model.facet import Problem
from cockpit.model.jobs import LiveJob, NamedJob
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.launching import (
    Script,
    launches_place,
    root_on_host,
    spelled,
    variables,
    word_of,
)
from cockpit.platforms.box.machine import ABOUT, processes_ask, sight_of
from cockpit.platforms.command import WITHIN, ended, save_words
from cockpit.platforms.local import lookup as here
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.ending import (
    REAL_END,
    Ending,
    ProcessTarget,
    addressed,
    still,
    supervisor_of,
)
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.platforms.local.programs import arguments
from cockpit.platforms.local.sight import Sight, on_its_host
from cockpit.runtime.moment import Awake
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LOOK_EVERY: Final = 0.5
SENDING: Final = 15.0
LAP: Final = 15.0
"""Seconds that a look takes at most, one that gets no answer."""
SIGNALS: Final = {signal.SIGTERM: "TERM", signal.SIGCONT: "CONT", signal.SIGKILL: "KILL"}
TICKS: Final = r"""ticks() {
  s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  s=${s##*\) }; set -- $s; shift 19; echo "$1"
}
"""
_SEND: Final = (
    TICKS
    + """\
k() {
  [ "$(ticks "$2")" = "$3" ] || return 0
  kill -s "$1" "$2" 2>/dev/null || [ "$(ticks "$2")" != "$3" ] || echo "$2"
}
"""
)
Sleep = Callable[[float], Awaitable[None]]


class BoxEnding:
    """Stops jobs of one host; bounded, and never in doubt about whom."""

    def __init__(
        self, link: HostLink, send: Script, host: str, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._link = link
        self._send = send
        self._host = host
        self._sleep = sleep
        self._told = False

    async def end(self, targets: Sequence[ProcessTarget], grace: float) -> None:
        """Return when the jobs are gone and their statuses noted; raises as ``Platform.stop``."""
        endings = [Ending(target) for target in targets]
        try:
            host = await self.look()
        except LostError as error:
            raise CannotError(f"{error}; nothing was told to stop") from error
        for ending in endings:
            ending.supervisor = supervisor_of(host.processes, ending.target)
        until, most = Awake(grace, LAP), Awake(grace + REAL_END, LAP)
        while left := await self._step(host, endings, late=until.left() <= 0):
            if most.left() <= 0:
                raise LostError(f"{self._host}: {still(left)}")
            await self._sleep(LOOK_EVERY)
            host = await self.look()
        await self._notes([each.supervisor for each in endings if each.supervisor is not None])

    async def look(self) -> Sight:
        """Return the host's processes as they are; raises ``LostError``."""
        processes = processes_ask((f"{LINEAGE}=", f"{SUPERVISES}="))
        answers = await self._link.ask([ABOUT, processes], patience=DEADLINE)
        problem = next((each for each in answers.values() if isinstance(each, Problem)), None)
        if problem is not None:
            raise LostError(problem.message)
        return sight_of(answers[ABOUT], answers[processes])

    async def _step(self, host: Sight, endings: Sequence[Ending], *, late: bool) -> list[Process]:
        """Signal whom it is the time for, and return what lives."""
        left: list[Process] = []
        due: list[tuple[Process, int]] = []
        for ending in endings:
            alive = ending.members(host.processes, host.own)
            left += alive
            killed = [(one, int(signal.SIGKILL)) for one in alive]
            due += killed if late else ending.asks(host.processes, alive)
        if due:
            await self._signal(due)
        return left

    async def _signal(self, due: Sequence[tuple[Process, int]]) -> None:
        lines = [
            f"k {SIGNALS[signal.Signals(number)]} {one.pid} {one.ticks}" for one, number in due
        ]
        try:
            done = await self._send(self._host, _SEND + "\n".join(lines), deadline=SENDING)
        except RemoteError as error:
            if not (error.sent or self._told):
                raise CannotError(f"{error}; nothing was told to stop") from error
            raise LostError(f"{error}: cannot tell whether it was told to stop") from error
        self._told = True
        refused = done.text.split()
        if refused:
            text = f"{self._host}: pid {', '.join(refused)} belongs to another user"
            raise CannotError(f"{text}: not allowed to stop it")

    async def _notes(self, supervisors: Sequence[tuple[int, int]]) -> None:
        """Give each supervisor the time to note the exit status and to let go of its locks."""
        until = Awake(REAL_END, REAL_END)
        waiting = list(supervisors)
        while waiting and until.left() > 0:
            found = (await self.look()).processes
            waiting = [
                (pid, ticks) for pid, ticks in waiting if pid in found and found[pid].ticks == ticks
            ]
            if waiting:
                await self._sleep(LOOK_EVERY)


STACKS: Final = 8
"""Processes of which a stack is asked; a job has hundreds of loaders."""
LISTED: Final = 2000
SECONDS: Final = 5.0
"""For each piece, on the host."""
_NOTES: Final = 20
_MISSING: Final = "missing: there is no {0} on the host"


async def gather(
    link: HostLink, ending: BoxEnding, run: RunSpec, targets: Sequence[ProcessTarget]
) -> dict[str, bytes]:
    """Return the evidence by file name; never raises."""
    found: dict[str, bytes] = {}
    processes: list[Process] = []
    try:
        host = await ending.look()
        for target in targets:
            processes += Ending(target).members(host.processes, host.own)
        processes.sort(key=lambda one: one.pid)
        found["processes.txt"] = _table(processes)
    except LostError as error:
        found["processes.txt"] = _not_had(str(error))
    asked = {
        name: shell(name, script, SECONDS) for name, script in _scripts(run, processes).items()
    }
    answers = await link.ask(asked.values(), patience=DEADLINE)
    for name, each in asked.items():
        said = answers[each]
        if isinstance(said, Problem):
            found[name] = _not_had(said.message)
        else:
            found[name] = said[1].encode("utf-8", "surrogateescape")
    return found


def _not_had(why: str) -> bytes:
    return f"missing: {why}\n".encode("utf-8", "replace")


def _table(processes: Sequence[Process]) -> bytes:
    lines = [
        f"{one.pid} {one.ppid} {one.sid} {one.state} {one.ticks} {' '.join(one.argv)}"
        for one in processes[:LISTED]
    ]
    text = "\n".join(["pid ppid session state start_ticks command", *lines, ""])
    return text.encode("utf-8", "replace")


def _scripts(run: RunSpec, processes: Sequence[Process]) -> dict[str, str]:
    found = {
        "job.txt": _job(run),
        "machine.txt": _machine(run),
        "kernel.txt": "exec 2>&1; dmesg -T | tail -n 200 || dmesg | tail -n 200",
        "gpu.txt": f"{_with('nvidia-smi')}\nnvidia-smi 2>&1",
    }
    pids = [one.pid for one in processes[:STACKS]]
    if pids:
        found["cgroup.txt"] = _cgroup(pids[0])
    found |= {f"stack-{pid}.txt": _stack(pid) for pid in pids}
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
    """Return what prints what a process does: by the kernel, and by py-spy where it is there."""
    return f"""\
exec 2>&1; tr '\\0' ' ' </proc/{pid}/cmdline; echo
for n in status wchan stack io limits; do echo "$n:"; head -c 8000 /proc/{pid}/$n; echo; done
command -v py-spy >/dev/null || {{ echo 'no Python stack: py-spy is not installed there'; exit; }}
py-spy dump --nonblocking --pid {pid}"""


ASKED: Final = 15.0
SPARE: Final = 10.0
NUMBERS: Final = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "USR1": 10,
    "USR2": 12,
    "ALRM": 14,
    "TERM": 15,
    "CONT": 18,
    "URG": 23,
    "XCPU": 24,
    "VTALRM": 26,
    "PROF": 27,
    "WINCH": 28,
    "IO": 29,
}
"""Signals by their numbers on the host, which runs Linux, whatever runs here."""
_ASK: Final = """\
p={pid}
[ "$(ticks $p)" = {ticks} ] || {{ echo gone; exit; }}
c=$(sed -n 's/^SigCgt:[[:space:]]*[0-9a-f]*\\([0-9a-f]\\{{8\\}}\\)$/\\1/p' /proc/$p/status)
[ $((0x${{c:-0}} >> {bit} & 1)) -eq 1 ] || {{ echo deaf; exit; }}
kill -s {name} $p 2>/dev/null && echo asked || echo refused"""


def signal_name(name: str) -> str:
    """Return ``USR1`` for ``USR1``, ``SIGUSR1`` or ``10``; raises ``CannotError``."""
    plain = name.upper().removeprefix("SIG")
    named = next((word for word, number in NUMBERS.items() if plain in (word, str(number))), None)
    if named is None:
        raise CannotError(f"job.save_signal: there is no signal {clean(name, 40)}")
    return named


async def by_signal(ending: BoxEnding, send: Script, job: JobSpec, target: ProcessTarget) -> None:
    """Signal the trainer alone, and only if it listens: unheard, most signals kill."""
    assert job.save_signal is not None
    name = signal_name(job.save_signal)
    try:
        processes = (await ending.look()).processes
    except LostError as error:
        raise CannotError(f"{error}; it was not asked to save") from error
    main = processes.get(target.pid)
    if main is None or main.ticks != target.ticks:
        raise CannotError(f"pid {target.pid} is gone")
    meant = [one for one in addressed(processes, main) if one is not main] or [main]
    if len(meant) > 1:
        pids = ", ".join(str(one.pid) for one in meant)
        raise CannotError(f"a shell runs several processes ({pids}): which is the trainer?")
    trainer = meant[0]
    script = TICKS + _ASK.format(
        pid=trainer.pid, ticks=trainer.ticks, bit=NUMBERS[name] - 1, name=name
    )
    said = await _asked(send, job, script, ASKED)
    if said != "asked":
        why = {
            "gone": "is gone",
            "deaf": f"does not handle SIG{name} (yet): it could kill it",
        }.get(said, f"cannot be sent SIG{name}")
        raise CannotError(f"pid {trainer.pid} {why}")


async def _asked(send: Script, job: JobSpec, script: str, within: float) -> str:
    try:
        return (await send(job.host, script, deadline=within)).text.strip()
    except RemoteError as error:
        if error.sent:
            raise LostError(f"no answer when it was asked to save: {error}") from error
        raise CannotError(f"{error}; it was not asked to save") from error


async def by_command(send: Script, run: RunSpec, job: JobSpec, live: LiveJob) -> None:
    """Run ``job.save_command`` on the host, in its working folder."""
    assert job.save_command is not None
    words = save_words(run, job.save_command, live)
    unset = "\n".join(
        f'[ -n "${{{name}+x}}" ] || {{ echo "uses \\${name}, which is not set"; exit 125; }}'
        for name in variables(words)
    )
    workdir = job.workdir or run.workdir
    enter = "" if workdir is None else f"cd -- {spelled(workdir)} || exit 125"
    command = " ".join(word_of(word, first=not at) for at, word in enumerate(words))
    script = f"{LIMITED}{unset}\n{enter}\nlimited {WITHIN} {command} 2>&1"
    try:
        done = await send(job.host, script, deadline=WITHIN + SPARE)
    except RemoteError as error:
        if error.sent:
            raise LostError(f"job.save_command has not answered: {error}") from error
        raise CannotError(f"{error}; it was not asked to save") from error
    if done.rc == TIMED_OUT:
        raise LostError(f"job.save_command did not end within {WITHIN} s")
    if done.rc:
        raise ended(done.rc, done.out)


ADOPTED_WITHIN: Final = 20.0
_VARIABLES: Final = "tr '\\0' '\\n' </proc/{pid}/environ 2>/dev/null | grep -E '^({names})='; true"
_NOTE: Final = """\
p={pid}; P={place}
t=$(ticks "$p") || t=
[ -n "$t" ] && [ "$t" = {ticks} ] || {{ echo 'no|gone'; exit; }}
note() {{
  echo "$p"
  printf 'start=%s\\nticks=%s\\n' "$(($(sed -n 's/^btime //p' /proc/stat) + \
t / $(getconf CLK_TCK 2>/dev/null || echo 100)))" "$t"
  printf 'boot=%s\\n' "$(cat /proc/sys/kernel/random/boot_id)"
  printf 'machine=%s\\nhost=%s\\n' "$(cat /etc/machine-id)" "$(uname -n)"
  printf 'space=%s\\n' "$(readlink /proc/self/ns/pid)"
}}
mkdir -p -- "$(dirname -- "$P")" 2>/dev/null
note 2>/dev/null >"$P.$$.new" && mv -f -- "$P.$$.new" "$P" && {{ echo 'ok|'; exit; }}
rm -f -- "$P.$$.new"; echo 'no|write'
"""


async def named(ending: BoxEnding, send: Script, host: str, job_id: str) -> NamedJob:
    """Return what a host's process table tells of a process; never raises."""
    pid = here.pid_of(job_id)
    if pid is None:
        text = f"{clean(job_id, 60)} is not a process id of {host}; expected 4711"
        return NamedJob(id=job_id, text=text, lives=False)
    names = "|".join(here.TOLD)
    try:
        seen = await ending.look()
        done = await send(host, _VARIABLES.format(pid=pid, names=names), deadline=ADOPTED_WITHIN)
    except (LostError, RemoteError) as error:
        return NamedJob(id=f"pid:{pid}", text=scrub(clean(str(error), 300)))
    one = seen.processes.get(pid)
    if one is None:
        return NamedJob(id=f"pid:{pid}", text=f"no process {pid} lives on {host}", lives=False)
    lines = (line.partition("=") for line in done.text.splitlines())
    told = {name: value for name, _, value in lines if value}
    command = " ".join(one.argv)
    return NamedJob(
        id=f"pid:{pid}",
        text=scrub(clean(f"process {pid} is running on {host}: {command}", 300)),
        lives=True,
        launch_id=told.get(LAUNCH_ID),
        started_at=seen.started_at(one),
        values=(*arguments(one.argv), *told.items()),
        handle={} if one.ticks < 0 else {here.TICKS: str(one.ticks)},
    )


async def adopt(send: Script, run: RunSpec, job: NamedJob) -> None:
    """Write the pid file of a process that still is the named one; raises as ``Platform.adopt``."""
    pid, spec = here.pid_of(job.id), run.job
    place, ticks = (None if spec is None else spec.pid_file), job.handle.get(here.TICKS)
    if pid is None or spec is None or place is None or not on_its_host(run, place):
        raise CannotError("job.pid_file must be set: where would the process be noted?")
    if ticks is None:
        raise CannotError(f"{spec.host} does not tell when process {pid} began: nothing was noted")
    script = TICKS + _NOTE.format(pid=pid, place=spelled(place), ticks=quote(ticks))
    try:
        done = await send(spec.host, script, deadline=ADOPTED_WITHIN)
    except RemoteError as error:
        noted = "cannot tell whether it was noted" if error.sent else "nothing was noted"
        raise CannotError(f"{error}; {noted}") from error
    said = done.text.strip().splitlines()[-1:]
    if said == ["no|gone"]:
        raise CannotError(f"process {pid} has ended meanwhile; nothing was noted")
    if said != ["ok|"]:
        why = clean(done.err.decode("utf-8", "replace").strip() or "nothing", 200)
        raise CannotError(f"{place}: cannot be written (the host said: {scrub(why)})")
