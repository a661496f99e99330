"""The one question to a cluster: a script for ``sh`` on a machine that has Slurm's commands.

Every part of the answer begins with a mark that is new each time, so that nothing that a job is
called can stand for one. Each command has its own limit there: a deadline that passes here ends
nothing on the host. ``scontrol`` tells of everybody's jobs, which ``awk`` sifts before they travel.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Final

from cockpit.platforms.slurm.text import SACCT, SQUEUE, UNIT
from cockpit.runtime.ssh import LIMITED, quote

CONTROLLER: Final = 11
"""Seconds for a question to the controller: Slurm's own patience (MessageTimeout) is 10."""
ACCOUNTING: Final = 6
MOST_ASKED: Final = 500
"""Jobs that accounting is asked about at once."""
_JOB_ID: Final = re.compile(r"\d{1,12}(_\d{1,8}|\+\d{1,4})?")

PATHS: Final = (
    "PATH=$PATH:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin:/opt/slurm/default/bin"
)
"""Where Slurm's commands are, on machines whose plain ssh commands do not look there."""
_BEFORE: Final = (
    f"{PATHS}\n"
    + """\
TZ=UTC0 LC_ALL=C SLURM_TIME_FORMAT=standard SLURM_BITSTR_LEN=0
export PATH TZ LC_ALL SLURM_TIME_FORMAT SLURM_BITSTR_LEN
unset SQUEUE_ACCOUNT SQUEUE_ARRAY SQUEUE_FORMAT SQUEUE_FORMAT2 SQUEUE_LICENSES SQUEUE_NAMES
unset SQUEUE_PARTITION SQUEUE_PRIORITY SQUEUE_QOS SQUEUE_SORT SQUEUE_STATES SQUEUE_USERS
unset SACCT_FORMAT SLURM_DEBUG_FLAGS
say() { printf '\\n%s %s\\n' "$mark" "$*"; }
exec 4>&1
"""
    + LIMITED
)

_JOBS: Final = """\
missing() {{ printf '%s\\n' "$queue" |
 awk -F '{unit}' -v asked="$1" -v ends="$2" -v mark="$mark" '{miss}'; }}
say date; date +%s; id -u
say squeue.err
queue=$(limited {controller} squeue -h --me -t all -o "{format}" 2>&4); rc=$?
say squeue.rc; echo $rc
others=$(missing '{wanted}' 0)
if [ $rc = 0 ] && [ -n "$others" ]; then
queue="$queue
$(limited {controller} squeue -h -t all -j "$others" -o "{format}" 2>/dev/null)"
fi
say squeue.out; printf '%s\\n' "$queue"
if [ $rc = 0 ]; then
shown=$({{ printf '%s\\n' "$mark needles "{needles}
 limited {controller} scontrol show job 2>&1; rc=$?; say scontrol.rc; echo $rc; }} |
 awk -v uid="$(id -u)" -v wanted=' {numbers} ' -v mark="$mark" '{sift}')
say scontrol.out; printf '%s\n' "$shown"
theirs=$(printf '%s\\n' "$shown" | sed -n "/^$mark theirs/{{n;p;}}")
if [ -n "$theirs" ]; then
say theirs.err
found=$(limited {controller} squeue -h -t all -j "$theirs" -o "{format}" 2>&4); rc=$?
say theirs.rc; echo $rc
say theirs.out; printf '%s\\n' "$found"
fi
for number in $(printf '%s\n' "$shown" | awk '{twice}' | head -n {most_twice}); do
say "twice.$number"; limited {controller} scontrol show job "$number" 2>&1
done
{steps}asked=$(missing '{wanted}' 1)
if [ -n "$asked" ]; then
say sacct.err
found=$(limited {accounting} sacct -n -a -P --delimiter="{separator}" -o {fields} \\
 -j "$asked" 2>&4); rc=$?
say sacct.rc; echo $rc
say sacct.out; printf '%s\\n' "$found"
fi
fi
say end
"""

_SIFT: Final = """
function finish() {
  if (strange && held ~ needles) { print held; theirs = theirs (theirs == "" ? "" : ",") id }
  strange = 0 }
function begin() { finish(); keep = 0; judged = 0; held = "" }
BEGIN { begin() }
index($0, mark " needles ") == 1 { needles = substr($0, length(mark) + 10); next }
index($0, mark) == 1 { begin(); print; keep = 1; judged = 1; next }
/^JobId=[0-9]+ / {
  begin(); split($1, number, "="); id = number[2]; group = ""
  if (match($0, /(ArrayJobId|HetJobId)=[0-9]+/)) {
    group = substr($0, RSTART, RLENGTH); sub(/.*=/, "", group) }
  if (index(wanted, " " number[2] " ") || (group != "" && index(wanted, " " group " "))) keep = 1
  held = $0; if (keep) { judged = 1; print } ; next }
!judged && /^   UserId=/ { judged = 1; keep = index($0, "(" uid ") ") ; if (keep) print held
  strange = !keep && needles != "" }
strange { held = held "\\n" $0; next }
!judged && held != "" { held = held "\\n" $0; next }
!judged { print; next }
keep { print }
END { finish(); if (theirs != "") printf "\\n%s theirs\\n%s\\n", mark, theirs }
"""
"""Keeps the records of one's own jobs and of those that runs name; errors pass.

Of other users' jobs it keeps those in whose record ``needles`` is found, and lists their numbers:
squeue is asked for them too, since a job's name may hold the text of a whole record.
"""

_TWICE: Final = """
match($0, /^JobId=[0-9]+ /) { n[$1]++ }
END { for (each in n) if (n[each] > 1) { sub(/JobId=/, "", each); print each } }
"""
"""Prints the numbers that more than one record claims: a name may hold the text of a record."""
MOST_TWICE: Final = 20
_STEPS: Final = "say steps.out; limited {controller} squeue -h -s --me -o %i 2>/dev/null\n"

_MISS: Final = """
function within(tasks, task,   n, i, part, ends) {
  sub(/%.*/, "", tasks); n = split(tasks, part, ",")
  for (i = 1; i <= n; i++) { split(part[i], ends, /[-:]/)
    if (task + 0 >= ends[1] + 0 && task + 0 <= (ends[2] == "" ? ends[1] : ends[2]) + 0) return 1 }
  return 0 }
$1 == mark { raw = $2; base = $4; tasks = $6; shown = $8; state = $10
  good = !ends || (state != "FAILED" && state != "CANCELLED")
  seen[raw] = 1; seen[base] = 1; seen[shown] = 1
  lead = shown; sub(/[+].*/, "", lead); seen[lead] = 1
  if (!good) { bad[raw] = 1; bad[shown] = 1; bad[base] = 1 }
  else if (state != "COMPLETED") lives[base] = 1
  pending[base] = pending[base] "," tasks }
END { n = split(asked, id, " ")
  for (i = 1; i <= n; i++) { split(id[i], part, "_")
    listed = (id[i] in seen) || (part[2] != "" && within(pending[part[1]], part[2]))
    if (listed && (!(id[i] in bad) || (id[i] in lives))) continue
    printf "%s%s", (some++ ? "," : ""), id[i] } }
"""
"""Prints which of the jobs asked for the queue does not tell of; with ``ends`` those besides whose
end it tells without its cause."""


def new_mark() -> str:
    """Return a mark that no text of a job can know."""
    return f"m{secrets.token_hex(8)}"


def is_job_id(text: str | None) -> bool:
    """Tell whether a run file's id is one that Slurm could have given."""
    return text is not None and _JOB_ID.fullmatch(text) is not None


def jobs_script(mark: str, wanted: Iterable[str], *, steps: bool = False, needles: str = "") -> str:
    """Return the script that tells of my jobs, of those ``wanted``, and how these have ended.

    ``needles`` is an expression that is looked for in the jobs of other users. Ids that are none
    are left out. ``steps``: it tells which jobs have a step of srun, too.
    """
    joined = f"{UNIT}{mark}{UNIT}"
    ids = sorted(each for each in wanted if is_job_id(each))
    numbers = {re.split(r"[_+]", each)[0] for each in ids}
    body = _JOBS.format(
        controller=CONTROLLER,
        accounting=ACCOUNTING,
        format=f"{mark}{UNIT}{joined.join(SQUEUE)}",
        separator=joined,
        fields=SACCT,
        unit=UNIT,
        wanted=" ".join(ids[:MOST_ASKED]),
        numbers=" ".join(sorted(numbers)),
        needles=quote(needles),
        sift=_SIFT,
        twice=_TWICE,
        most_twice=MOST_TWICE,
        steps=_STEPS.format(controller=CONTROLLER) if steps else "",
        miss=_MISS,
    )
    return f"mark={mark}\n{_BEFORE}{body}"


_SCRIPTS: Final = """\
began=$(date +%s)
for job in {jobs}; do
[ $(($(date +%s) - began)) -lt {within} ] || break
say "job.$job"; limited {controller} scontrol write batch_script "$job" - 2>/dev/null |
 head -c {longest}
done
{files}say end
"""
MOST_SCRIPTS: Final = 40
"""Batch scripts that are read at one look; the controller is asked for each by itself."""


def scripts_script(mark: str, jobs: Iterable[str], files: Iterable[str]) -> str:
    """Return the script that tells the batch scripts of jobs, and what some files hold now."""
    read = (
        f"say file.{number}; head -c 65536 {quote(path)} 2>/dev/null\n"
        for number, path in enumerate(files)
    )
    body = _SCRIPTS.format(
        jobs=" ".join(each for each in jobs if is_job_id(each)),
        controller=CONTROLLER,
        within=CONTROLLER // 2,
        longest=65536,
        files="".join(read),
    )
    return f"mark={mark}\n{_BEFORE}{body}"


_CHECKUP: Final = """\
say date; date +%s
say version; limited {controller} squeue --version 2>&1
say ping; limited {controller} scontrol ping 2>&1
say config; limited {controller} scontrol show config 2>&1 |
 grep -E '^(AccountingStorageType|ClusterName|MinJobAge) '
say end
"""


def checkup_script(mark: str) -> str:
    """Return the script that tells of the cluster itself, for ``doctor``."""
    return f"mark={mark}\n{_BEFORE}{_CHECKUP.format(controller=CONTROLLER)}"


def nodes_script(mark: str, nodes: Iterable[str]) -> str:
    """Return the script that tells how some machines of the cluster are; names that are none go."""
    names = sorted({each for each in nodes if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,100}", each)})
    asked = f"limited {CONTROLLER} scontrol show node {','.join(names)} 2>&1; rc=$?"
    return f"mark={mark}\n{_BEFORE}say nodes.out\n{asked}\nsay nodes.rc; echo $rc\nsay end\n"


def parts_of(out: str, mark: str) -> dict[str, str]:
    """Return the parts of an answer by name; ``end`` is among them only if it is whole."""
    parts = {}
    for part in f"\n{out}".split(f"\n{mark} ")[1:]:
        name, _, text = part.partition("\n")
        parts[name.strip()] = text.removesuffix("\n")
    return parts
