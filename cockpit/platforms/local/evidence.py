"""What a later reader needs of a job: its files, processes, stacks and devices (SPEC A).

Gathering it only looks, each piece under its own limit; what could not be read is said in the file
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.hosts.link import DEADLINE, Link, shell
from cockpit.hosts.script import spelled
from cockpit.model.facet import Problem
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.ending import Acting, Ending, ProcessTarget
from cockpit.platforms.local.launching import launches_place, root_on_host
from cockpit.platforms.rank_stacks import RANKS, ranks_text, recorder_script, stacks_script

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
        found["processes.txt"] = _table(processes)
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


def _table(processes: Sequence[Process]) -> bytes:
    lines = [
        f"{one.pid} {one.ppid} {one.sid} {one.state} {one.ticks} {' '.join(one.argv)}"
        for one in processes[:LISTED]
    ]
    text = "\n".join(["pid ppid session state start_ticks command", *lines, ""])
    return text.encode("utf-8", "replace")


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
