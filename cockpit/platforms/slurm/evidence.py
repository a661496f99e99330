"""What a later reader needs of jobs of Slurm: the cluster's own answers, their secrets masked.

Stacks and device state are had only where the commands are run on the job's own machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.ask import Run
from cockpit.platforms.slurm.script import ACCOUNTING, CONTROLLER, PATHS
from cockpit.platforms.slurm.stopping import target_of
from cockpit.runtime.ssh import LIMITED, RemoteError, quote
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

FILE: Final = "slurm.txt"
CAP: Final = 2_000_000
MOST: Final = 8
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
told squeue --me -t all -o '%i %T %r %M %l %N %k'
told sinfo -N -o '%N %T %E'
"""
)
_JOB: Final = f"""
limit={CONTROLLER}; told scontrol show job {{job}}
limit={ACCOUNTING}
told sacct -a -P -j {{job}} -o JobID,JobName,State,ExitCode,Submit,Start,End,NodeList,MaxRSS
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
        script = _BEGIN + "".join(_JOB.format(job=each) for each in ids)
        done = await run(host, script, deadline=DEADLINE, cap=CAP)
        out = done.out
    except RemoteError as error:
        out = error.out + f"\nmissing: {clean(str(error), 400)}\n".encode()
    except (CannotError, LostError, TimeoutError) as error:
        out = f"missing: {clean(str(error), 400)}\n".encode()
    lines = [line.plain for line in safe_lines(out, limit=20_000)]
    return {FILE: (scrub("\n".join(lines)) + "\n").encode("utf-8", "replace")}
