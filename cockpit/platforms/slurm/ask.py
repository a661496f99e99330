"""Asks a cluster once: the script for ``sh``, and the records that its answer holds."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.platforms.slurm import record
from cockpit.platforms.table import UnansweredError
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

CONTROLLER: Final = 11
"""Seconds for a question to the controller: Slurm's own patience (MessageTimeout) is 10."""
ACCOUNTING: Final = 6
SILENT: Final = "accounting did not answer in time"
MOST_ASKED: Final = 500
"""Jobs that accounting is asked about at once."""
_JOB_ID: Final = re.compile(r"\d{1,12}(_\d{1,8}|\+\d{1,4})?")
"""Such as ``71_3``."""

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
    joined = f"{record.UNIT}{mark}{record.UNIT}"
    ids = sorted(each for each in wanted if is_job_id(each))
    numbers = {re.split(r"[_+]", each)[0] for each in ids}
    body = _JOBS.format(
        controller=CONTROLLER,
        accounting=ACCOUNTING,
        format=f"{mark}{record.UNIT}{joined.join(record.SQUEUE)}",
        separator=joined,
        fields=record.SACCT,
        unit=record.UNIT,
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


TAIL: Final = 8192
"""Bytes of a task's log that are read for its newest step."""


def tails_script(mark: str, paths: Sequence[str]) -> str:
    """Return the script that tells when each file was last written, and its end, part by part."""
    each = "".join(
        f"say {number}; limited 5 stat -L -c %Y -- {quote(path)} 2>/dev/null || echo\n"
        f"limited 5 tail -c {TAIL} -- {quote(path)} 2>/dev/null\n"
        for number, path in enumerate(paths)
    )
    return f"mark={mark}\n{_BEFORE}{each}say end\n"


def parts_of(out: str, mark: str) -> dict[str, str]:
    """Return the parts of an answer by name; ``end`` is among them only if it is whole."""
    parts = {}
    for part in f"\n{out}".split(f"\n{mark} ")[1:]:
        name, _, text = part.partition("\n")
        parts[name.strip()] = text.removesuffix("\n")
    return parts


class _Sign(NamedTuple):
    pattern: str
    kind: ErrorKind
    words: str
    remedy: str


_SIGNS: Final = (
    _Sign(
        "munge|authentication error|auth_g_|invalid authentication|Protocol authentication",
        ErrorKind.UNAUTHORIZED,
        "munge does not vouch for us",
        "is munged up there, and does its clock agree with the controller's?",
    ),
    _Sign(
        "Could not establish a configuration source|Unable to process configuration file"
        "|cannot stat file|resolve_ctls_from_dns_srv|fetch_config",
        ErrorKind.NOT_FOUND,  # "not configured" would say that the run file names no job
        "no Slurm: its commands find no configuration",
        "run them on a login node (job.host), or set SLURM_CONF",
    ),
    _Sign(
        r"(squeue|scontrol|sacct): (command )?not found",
        ErrorKind.NOT_FOUND,
        "no Slurm: its commands are not installed, or not on PATH",
        "name a login node as job.host, or put them on the PATH of a plain ssh command",
    ),
    _Sign(
        "Socket timed out|timed out|Message receive failure",
        ErrorKind.TIMEOUT,
        "the controller did not answer in time",
        "retried automatically; sinfo there shows whether it is up",
    ),
    _Sign(
        "Unable to contact slurm controller|Connection refused|Connection reset|No route to host"
        "|Zero Bytes were transmitted|Unexpected message received",
        ErrorKind.REFUSED,
        "the controller cannot be reached",
        "ask who runs the cluster; jobs go on without it",
    ),
    _Sign(
        "accounting storage is disabled",
        ErrorKind.NOT_FOUND,
        "accounting is off",
        "how a job ended is only known while the controller remembers it",
    ),
    _Sign(
        "Access/permission denied|Permission denied|Invalid user|not permitted",
        ErrorKind.PERMISSION,
        "Slurm refuses our query",
        "ask who runs the cluster for an account there",
    ),
)
_PREFIX: Final = re.compile(r"^(squeue|scontrol|sacct|slurm_load_\w+|sh: \d+): ?(error: |fatal: )?")
"""Such as ``squeue: error: Unable to contact``."""
_LONGEST: Final = 160


def trouble_of(where: str, said: str, rc: int) -> UnansweredError:
    """Return why a command of Slurm failed, by what it said and its exit status."""
    told = last_words(said)
    if rc == 124 and not told:
        return late(where)
    for sign in _SIGNS:
        if re.search(sign.pattern, said, re.I):
            quoted = f" ({told})" if told else ""
            return UnansweredError(sign.kind, f"{where}: {sign.words}{quoted}", sign.remedy)
    if rc == 124:
        return late(where)
    text = f"{where}: squeue ended with {rc}{': ' + told if told else ''}"
    return UnansweredError(ErrorKind.BAD_ANSWER, text, "run it there by hand")


def late(where: str) -> UnansweredError:
    """Return that the controller let a command wait for too long."""
    found = _SIGNS[3]
    return UnansweredError(found.kind, f"{where}: {found.words}", found.remedy)


def torn(where: str, size: int, cut: bool) -> UnansweredError:
    """Return that an answer is not whole."""
    why = f"larger than {size // 1_000_000} MB" if cut else f"cut off after {size} bytes"
    text = f"{where}: the answer is {why}: it is ignored"
    return UnansweredError(
        ErrorKind.BAD_ANSWER, text, "does the login shell print into every command?"
    )


def garbled(where: str, said: str) -> UnansweredError:
    """Return that squeue has printed something else than what it was asked for."""
    text = f"{where}: squeue printed no list of jobs: {scrub(clean(said, _LONGEST))}"
    return UnansweredError(ErrorKind.BAD_ANSWER, text, "is that Slurm's own squeue?")


def last_words(said: str) -> str:
    """Return the last line that a command has said, safe and short."""
    lines = [line for line in said.splitlines() if line.strip()]
    plain = _PREFIX.sub("", lines[-1].strip()) if lines else ""
    return scrub(clean(plain, _LONGEST))


DEADLINE: Final = 16.0
"""Seconds for the whole question: more than Slurm's own patience, less than the poller's."""
CAP: Final = 32_000_000
_STEP: Final = re.compile(r"^(\S+)\.\d+$", re.MULTILINE)
Run = Callable[..., Awaitable[Completed]]
"""``run_script(host, script, deadline=…, cap=…)``."""


@dataclass(frozen=True)
class ClusterRecords:
    """What a cluster answered: records by command, its machine's clock, and the user who asked.

    ``no_accounting`` is why accounting gave no answer.
    """

    queue: tuple[record.Record, ...]
    shown: tuple[record.Record, ...]
    accounted: tuple[record.Record, ...] = ()
    host_now: float | None = None
    uid: str = ""
    no_accounting: str | None = None
    stepped: frozenset[str] = frozenset()
    """The jobs that have a step of srun now, where that was asked."""


async def parts(run: Run, host: str | None, where: str, mark: str, script: str) -> dict[str, str]:
    """Return the parts of what a script answers; raises ``UnansweredError``."""
    try:
        done = await run(host, script, deadline=DEADLINE, cap=CAP)
    except RemoteError as error:
        if not error.sent:
            raise UnansweredError(error.kind, f"{where}: {error}") from error
        said = parts_of(error.out.decode("utf-8", "replace"), mark).get("squeue.err", "")
        raise (trouble_of(where, said, 1) if said.strip() else late(where)) from error
    found = parts_of(done.text, mark)
    if "end" not in found:
        raise torn(where, len(done.out), done.cut)
    return found


async def ask(
    run: Run,
    host: str | None,
    where: str,
    wanted: Collection[str],
    *,
    steps: bool = False,
    needles: str = "",
) -> ClusterRecords:
    """Return what the cluster tells of my jobs, and of those wanted also from accounting.

    ``needles`` is an expression that picks jobs of other users. Raises ``UnansweredError``.
    """
    mark = new_mark()
    script = jobs_script(mark, wanted, steps=steps, needles=needles)
    found = await parts(run, host, where, mark, script)
    if found.get("squeue.rc", "").strip() != "0":
        raise trouble_of(where, found.get("squeue.err", ""), _number(found.get("squeue.rc", "")))
    try:
        queue = record.squeue_records(found.get("squeue.out", ""), mark)
        queue += record.squeue_records(found.get("theirs.out", ""), mark)
    except ValueError as error:
        raise garbled(where, str(error)) from None
    others = found.get("theirs.err", "")
    if found.get("theirs.rc", "0").strip() != "0" and not _is_empty(others):
        raise trouble_of(where, others, _number(found["theirs.rc"]))
    shown = found.get("scontrol.out", "")
    if found.get("scontrol.rc", "").strip() != "0" and not _is_empty(shown):
        raise trouble_of(where, shown, _number(found.get("scontrol.rc", "")))
    date = found.get("date", "").split()
    alone = {name[6:]: text for name, text in found.items() if name.startswith("twice.")}
    failed = "sacct.rc" in found and found["sacct.rc"].strip() != "0"
    return ClusterRecords(
        queue=tuple(queue),
        shown=tuple(record.scontrol_records(shown, alone)),
        accounted=tuple(record.sacct_records(found.get("sacct.out", ""), mark)),
        host_now=float(date[0]) if date and date[0].isdecimal() else None,
        uid=date[1] if len(date) > 1 else "",
        no_accounting=(last_words(found.get("sacct.err", "")) or SILENT) if failed else None,
        stepped=frozenset(_STEP.findall(found.get("steps.out", ""))),
    )


def _is_empty(shown: str) -> bool:
    """Tell whether scontrol has only said that there are no jobs at all."""
    return "No jobs in the system" in shown or "Invalid job id" in shown


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 1
