"""What is run by ``sh`` on a cluster to submit, release, close, cancel, stop and order.

A launch is submitted in two steps: a held job that nobody starts, then that of its launch id is
released. What was let go or closed is noted beside the output root. A stop ends exactly the jobs
that are named; an order is a row of ``ORDERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from cockpit.model.jobs import LiveJob, SchedulerOrder
from cockpit.model.observed import Phase
from cockpit.model.place import FILE, SSH
from cockpit.model.run import RunSpec
from cockpit.model.wording import duration
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.protocol import EndingJobs
from cockpit.platforms.slurm.ask import CONTROLLER, PATHS, Run, last_words, new_mark, parts_of
from cockpit.platforms.slurm.book import Book, Job, is_held, is_held_by_person, never_let_go
from cockpit.platforms.slurm.command import for_shell, sbatch_at, variables_of
from cockpit.platforms.slurm.jobs import SlurmJobs, host_of, where_of
from cockpit.platforms.slurm.record import Record, task_numbers
from cockpit.runtime.ssh import LIMITED, RemoteError, quote
from cockpit.text.safe import clean

SLACK: Final = 15.0
CAP: Final = 200_000
PERHAPS: Final = re.compile(
    "timed out|Message receive|send/recv|Zero Bytes|Connection reset|Unexpected message", re.I
)
"""What Slurm's commands say when the controller may have done it all the same."""
SUBMIT: Final = 60
"""Seconds for sbatch: on a busy cluster its patience (MessageTimeout) is set to a minute."""
WRAPPER: Final = 120
"""Seconds for a program that calls sbatch itself."""
STARTING, RUNNING, CLOSED, LOOSE = "starting", "running", "closed", "loose"
SENDING, GONE = "sending", "gone"
"""What a mark says: sbatch is called, or has ended and a look has found no job of it."""
COMES_WITHIN: Final = 15
"""Seconds in which a controller that answers brings a job whose sbatch got no answer."""
FENCE: Final = "only-as-the-cockpit-says"
"""No mode: sbatch looks at the first letter alone, ``a`` or ``t``."""

_BEFORE: Final = (
    f"{PATHS}\n"
    + """\
say() { printf '\\n%s %s\\n' "$mark" "$*"; }
claim() {
  mkdir -p "$notes" 2>/dev/null
  (set -C; printf 'state=%s\\njob=%s\\n' "$1" "$2" >"$notes/$id") 2>/dev/null
}
tell() {
  printf 'state=%s\\njob=%s\\n' "$1" "$2" >"$notes/.$id.$$" && mv -f "$notes/.$id.$$" "$notes/$id"
} 2>/dev/null
exec 4>&1
"""
    + LIMITED
)

_ENTER: Final = """\
cd {workdir} 2>/dev/null || {{ say folder; say end; exit; }}
{before}for name in {variables}; do
eval "[ \\"\\${{$name+x}}\\" ]" || {{ say unset; echo "$name"; say end; exit; }}
done
"""
_SAY: Final = (
    "say said; limited {limit} {words} >&4 2>&1 4>&- </dev/null; rc=$?\nsay rc; echo $rc\n"
)

_ACCEPT: Final = """\
unused() {{
  [ -e "$notes/$id" ] || return 0
  rm -f "$sent"; say used; cat "$notes/$id"; say end; exit
}}
sent="$notes/.$id.$mark.sent"
unused
command -v sbatch >/dev/null || {{ say nosbatch; say end; exit; }}
{enter}mkdir -p "$notes" 2>/dev/null
(echo {sending} "$(date +%s)" "$$" "$(uname -n)" >"$sent") 2>/dev/null ||
 {{ say nonotes; printf '%s\n' "$notes"; say end; exit; }}
unused
{run}
"""
_DIRECT: Final = """\
say sbatch.err
out=$(limited {limit} {words} 2>&4 4>&- </dev/null); rc=$?
[ $rc != 0 ] || rm -f "$sent"
say sbatch.rc; echo $rc
say sbatch.out; printf '%s\\n' "$out"
{look}"""
_EXPORTS: Final = """\
say script
case "$out" in [0-9]*) limited {limit} scontrol write batch_script "${{out%%;*}}" - 2>/dev/null |
 grep -E -m 1 '^#SBATCH.*--export';; esac
"""
_WRAPPED: Final = """\
dir=$(mktemp -d) || {{ rm -f "$sent"; say nofolder; say end; exit; }}
{{ echo '#!/bin/sh'; printf "dir='%s' real='%s' id='%s' mode='%s'\\n" \\
 "$dir" "$(command -v sbatch)" "$id" "${{SBATCH_OPEN_MODE-}}"; cat <<'END_OF_SBATCH'
mkdir "$dir/called" 2>/dev/null ||
 {{ echo "sbatch: one launch submits one job: a second call is refused" >&2; exit 1; }}
PATH=${{PATH#"$dir":}}; unset SBATCH_OPEN_MODE SBATCH_WAIT
[ -z "$mode" ] || {{ SBATCH_OPEN_MODE=$mode; export SBATCH_OPEN_MODE; }}
out=$("$real" -H --comment="$id" "$@"); rc=$?
printf '%s\\n' "$out" >"$dir/out"; echo $rc >"$dir/rc"
printf '%s\\n' "$out"; exit $rc
END_OF_SBATCH
}} >"$dir/sbatch"; chmod 700 "$dir/sbatch"
say wrapper.err
out=$(PATH=$dir:$PATH; SBATCH_OPEN_MODE={fence}; export PATH SBATCH_OPEN_MODE
limited {limit} {words} 2>&4 4>&- </dev/null); rc=$?
say wrapper.rc; echo $rc
if [ -d "$dir/called" ]; then
say sbatch.rc; cat "$dir/rc" 2>/dev/null || echo 124
say sbatch.out; cat "$dir/out" 2>/dev/null
[ "$(cat "$dir/rc" 2>/dev/null)" != 0 ] || rm -f "$sent"
elif [ $rc = 0 ] || [ $rc = 124 ]; then
claim {loose} 0
fi
rm -rf "$dir"
"""

_GO: Final = """\
job={job}
if claim {starting} "$job"; then say note; echo claimed
elif [ -e "$notes/$id" ]; then
say note; echo used; cat "$notes/$id"
say cancel; limited {limit} scancel "$job" 2>&1; echo "rc=$?"; say end; exit
else say note; echo unwritable; say end; exit; fi
tag=$(limited {limit} squeue -h -j "$job" -o %k 2>&4 | head -n 1)
say tag; printf '%s\\n' "$tag"
[ "$tag" = "$id" ] || {{ say end; exit; }}
say release; limited {limit} scontrol release "$job" 2>&1; rc=$?
say release.rc; echo $rc
[ $rc != 0 ] || tell {running} "$job"
"""

_CLOSE: Final = """\
say cancel; {cancel}
if claim {closed} 0; then say note; echo closed
elif [ -e "$notes/$id" ]; then {over}say note; echo used; cat "$notes/$id"
else say note; echo unwritable; fi
say sent; now=$(date +%s)
for each in "$notes/.$id".*.sent; do
[ -e "$each" ] || continue
read -r word at pid host <"$each"
past=$((now - at))
if [ "$word" = {sending} ]; then
if [ "$host" = "$(uname -n)" ]; then kill -0 "$pid" 2>/dev/null; else [ "$past" -lt {limit} ]; fi &&
 {{ echo {sending} "$past"; continue; }}
word={gone} past=0; echo {gone} "$now" >"$each"
fi
if [ "$past" -lt 0 ]; then past=0; echo {gone} "$now" >"$each"; fi
if [ "$past" -ge {comes} ]; then rm -f "$each"; else echo {gone} "$past"; fi
done
"""


def notes_folder(run: RunSpec) -> str:
    """Return, as a word of ``sh``, where the run's launch ids are noted on its host."""
    root, host = run.output_root, None if run.job is None else run.job.host
    if root is not None and (root.scheme, root.host) == ((SSH, host) if host else (FILE, "")):
        return quote(f"{root.path.rstrip('/')}/.cockpit/launches")
    return '"$HOME"/.cockpit/launches'


def _script(body: str, run: RunSpec | None = None, launch_id: str = "") -> str:
    notes = "" if run is None else notes_folder(run)
    return f"id={quote(launch_id)} notes={notes}\n{_BEFORE}{body}say end\n"


def accept_script(
    run: RunSpec, launch_id: str, words: Sequence[str], workdir: str, env: Mapping[str, str],
    *, sees_exports: bool
) -> str:  # fmt: skip
    """Return the script that submits a held job.

    ``sees_exports``: it tells what the batch script says of the job's environment.
    """
    if sbatch_at(words) is None:
        how = _WRAPPED.format(
            limit=WRAPPER, words=for_shell(words), fence=quote(FENCE), loose=LOOSE
        )
    else:
        look = _EXPORTS.format(limit=CONTROLLER) if sees_exports else ""
        how = _DIRECT.format(limit=SUBMIT, words=for_shell(words), look=look)
    exports = "".join(f"\n{name}={quote(value)}; export {name}" for name, value in env.items())
    enter = _enter(workdir, words, f"unset SBATCH_WAIT{exports}\n")
    return _script(_ACCEPT.format(enter=enter, run=how, sending=SENDING), run, launch_id)


def _enter(workdir: str, words: Sequence[str], before: str = "") -> str:
    """Return what goes into the folder of a command, and sees that its variables are set."""
    return _ENTER.format(
        workdir=quote(workdir), before=before, variables=" ".join(variables_of(words))
    )


def go_script(run: RunSpec, launch_id: str, job: str) -> str:
    """Return the script that lets one held job go, if it still has its tag."""
    body = _GO.format(job=job, limit=CONTROLLER, starting=STARTING, running=RUNNING)
    return _script(body, run, launch_id)


def close_script(run: RunSpec, launch_id: str, jobs: Sequence[str]) -> str:
    """Return the script that ends held jobs, closes a launch id, and tells of sbatch under way.

    A note that one was about to be let go is taken back where that one was seen held.
    """
    cancel = _cancel_words(jobs, pending=True) if jobs else ":"
    over = f"tell {CLOSED} 0; " if jobs else ""
    body = _CLOSE.format(
        cancel=cancel, closed=CLOSED, over=over, sending=SENDING, gone=GONE, comes=COMES_WITHIN,
        limit=WRAPPER + CONTROLLER,
    )  # fmt: skip
    return _script(body, run, launch_id)


def ids_script(run: RunSpec) -> str:
    """Return the script that lists the launch ids that were noted."""
    body = 'say ids; [ ! -d "$notes" ] || ls "$notes" 2>&1 || say failed\n'
    return _script(body, run, "-")


def cancel_script(jobs: Sequence[str], *, pending: bool = False) -> str:
    """Return the script that cancels exactly these jobs; ``pending``: only if they do not run."""
    return _script(f"say cancel; {_cancel_words(jobs, pending=pending)}\n")


def _cancel_words(jobs: Sequence[str], *, pending: bool) -> str:
    """Return the call of scancel; job ids are digits, ``_``, ``+``, brackets: quoted all the same.

    Pending is what a held job must still be: one that runs was let go by somebody.
    """
    only = "--state=PENDING " if pending else ""
    ids = " ".join(map(quote, jobs))
    return f'limited {CONTROLLER} scancel {only}{ids} 2>&1; echo "rc=$?"'


def order_script(job: str, states: Sequence[str], words: Sequence[str]) -> str:
    """Return the script that gives scontrol one order about a job that is in one of these states.

    A job that has left them since it was looked at is left alone: requeued after its end, it would
    run a second time.
    """
    is_in = "|".join(states)
    look = f"now=$(limited {CONTROLLER} squeue -h -t all -j {quote(job)} -o %T 2>/dev/null)"
    leave = 'case "$now" in ' + is_in + ') ;; *) say other; echo "$now"; say end; exit ;; esac'
    give = _SAY.format(limit=CONTROLLER, words=f"scontrol {' '.join(map(quote, words))}")
    return _script(f"{look}\n{leave}\n{give}")


def save_script(words: Sequence[str], workdir: str, limit: int) -> str:
    """Return the script that runs a save command in a folder."""
    return _script(_enter(workdir, words) + _SAY.format(limit=limit, words=for_shell(words)))


async def acted(run: Run, host: str | None, script: str, within: float) -> dict[str, str]:
    """Return the parts of what an acting script tells; raises ``CannotError``, ``LostError``."""
    mark = new_mark()
    try:
        done = await run(host, f"mark={mark} {script}", deadline=within, cap=CAP)
    except RemoteError as error:
        text = f"{where_of(host)}: {error}"
        raise (LostError if error.sent else CannotError)(text) from error
    found = parts_of(done.text, mark)
    if "end" not in found:
        raise LostError(f"{where_of(host)}: the answer is cut off: {last_words(done.text)}")
    return found


def not_cancelled(found: Mapping[str, str]) -> str | None:
    """Return what scancel said where it did not end well, ``None`` where it did."""
    said = found.get("cancel", "")
    return None if "rc=0" in said else last_words(said.rpartition("rc=")[0])


def heard(found: Mapping[str, str], lost: str, refused: str) -> None:
    """Return where a command ended well; raises ``LostError``, ``CannotError`` with its words."""
    code, said = found.get("rc", "").strip(), found.get("said", "")
    if code == "0" and not PERHAPS.search(said):
        return
    if code == "124" or PERHAPS.search(said):
        raise LostError(f"{lost}: {last_words(said)}")
    raise CannotError(f"{refused}: {last_words(said) or f'it ended with {code}'}")


KILL_WAIT: Final = 120.0
"""Seconds beyond ``job.grace`` for the cluster's own KillWait, its epilog and a busy controller."""
SAME_WITHIN: Final = 30.0
"""Seconds by which the submit time of one job may seem to differ between two looks."""
_STOPPABLE: Final = re.compile(r"(\d{1,12})(_\d{1,8}|_\[[\d,:-]+\]|\+\d{1,4})?")
"""What scancel may be given: a job, a task, some tasks, a part: ``70_[3-7]``."""


class EndingSlurmJobs(EndingJobs):
    """Jobs of one cluster that are cancelled until none of them runs, waits or is ending.

    Those that only were accepted and never let go are not touched once they are.
    """

    slack: ClassVar[float] = KILL_WAIT

    def __init__(
        self, run: RunSpec, jobs: Sequence[LiveJob], ask: Run, cluster: SlurmJobs, every: float
    ) -> None:
        self._spec = run
        self._ids = {job.id: target_of(job) for job in jobs}
        self._left = list(jobs)
        self._ask = ask
        self._cluster = cluster
        self._book = Book({})
        self.every = every

    async def left(self) -> Sequence[str]:
        """Return those that the cluster lists as living."""
        self._book = await self._cluster.book(self._spec, [self._spec])
        self._left = _living(self._book, self._left)
        return [f"{job.id} ({_state_word(self._book, job)})" for job in self._left]

    async def tell(self, *, late: bool) -> None:
        """Cancel those that are not ending, one that has come back by itself too."""
        again = [job for job in self._left if not _is_ending(job, self._book)]
        if not again:
            return
        host, self.told = host_of(self._spec), True
        held = all("held" in job.handle for job in again)
        script = cancel_script([self._ids[job.id] for job in again], pending=held)
        try:
            why = not_cancelled(await acted(self._ask, host, script, CONTROLLER + SLACK))
        except CannotError as error:
            raise LostError(str(error)) from error
        if why is not None and "denied" in why:
            raise CannotError(f"{where_of(host)}: {why}")
        if why is not None:
            raise LostError(why)


def target_of(job: LiveJob) -> str:
    """Return what scancel is given for a job: its number, exact; raises ``CannotError``."""
    told = re.sub(r"%\d+(?=\])", "", job.handle.get("job", ""))
    found = _STOPPABLE.fullmatch(told)
    if found is None:
        raise CannotError(f"{clean(job.id, 60)} is not a Slurm job")
    part = found[2] or ""
    return found[1] if part.startswith("+") else told


def job_now(book: Book, job: LiveJob) -> Job | None:
    """Return what stands under the job's number now; ``None`` where nothing does."""
    found = book.find(job.handle["job"])
    if found is None:  # a task that stood for others may be a record of its own by now
        wanted = target_of(job).partition("_")[0]
        rest = tuple(each for each in book.records.values() if _same_tasks(each, job, wanted))
        found = Job(job.id, rest) if rest else None
    return found


def is_same(job: LiveJob, now: Job) -> bool:
    """Tell whether a number still is the same job's; raises ``LostError`` where that is not known.

    One that was requeued is: it was submitted anew under its number.
    """
    submitted = job.handle.get("submitted")
    times = {each.submitted for each in now.records}
    if submitted is None or None in times:
        return True
    if any(at is not None and abs(at - float(submitted)) <= SAME_WITHIN for at in times):
        return True
    restarts = [each.restarts for each in now.records]
    if not any(restarts) and None in restarts:
        text = "was submitted at another time than before: cannot tell whether it is the same job"
        raise LostError(f"{job.id} {text}")
    return any(restarts)


def _same_tasks(record: Record, job: LiveJob, base: str) -> bool:
    """Tell whether a living record is, or stands for, one of the tasks that a job names."""
    wanted = task_numbers(target_of(job).partition("_")[2])
    if record.base != base or record.kind != "array" or not record.phase.lives:
        return False
    return any(
        max(mine.start, its.start) < min(mine.stop, its.stop)
        for mine in wanted
        for its in task_numbers(record.tasks)
    )


def _living(book: Book, jobs: Iterable[LiveJob]) -> list[LiveJob]:
    """Return those that still live; of what was never let go only while it still is not."""
    found = []
    for job in jobs:
        now = job_now(book, job)
        if now is None or not now.lives or not is_same(job, now):
            continue
        if "held" in job.handle and now.main.phase is Phase.RUNNING:
            raise CannotError(f"job {job.id} runs: it was released; it was not touched")
        found.append(job)
    return found


def _is_ending(job: LiveJob, book: Book) -> bool:
    now = job_now(book, job)
    return now is not None and all(
        each.word == "COMPLETING" or not each.phase.lives for each in now.records
    )


def _state_word(book: Book, job: LiveJob) -> str:
    now = job_now(book, job)
    return "gone" if now is None else now.main.word


SHOWN_WITHIN: Final = 20.0
"""Seconds in which a controller that has accepted an order shows what it did."""
MINUTE: Final = 60.0
"""Slurm keeps a time limit in whole minutes."""


class OrderRow(NamedTuple):
    """One order: the words for scontrol, the states it is for, and what shows that it was done."""

    words: tuple[str, ...]
    states: tuple[str, ...]
    why_not: Callable[[Record, SchedulerOrder], str | None]
    shown: Callable[[Record, LiveJob, SchedulerOrder], bool]
    done: str
    within: float = SHOWN_WITHIN


def _not_to_hold(record: Record, order: SchedulerOrder) -> str | None:
    if record.phase is not Phase.WAITING:
        return f"it is {record.word}: only a job that waits can be held"
    return "it is held already" if _held(record) else None


def _not_to_release(record: Record, order: SchedulerOrder) -> str | None:
    if not _held(record):
        return f"it is {record.word}, and not held"
    if record.said_by != "scontrol":
        return "scontrol does not list it: whether a launch ever released it is unknown"
    if never_let_go(record):
        return "a launch submitted it and never released it: its outcome decides, not this verb"
    if record.reason.startswith("JobHeldAdmin"):
        return "an administrator holds it: ask them"
    return None


def _not_to_requeue(record: Record, order: SchedulerOrder) -> str | None:
    if record.word != "RUNNING":
        return f"it is {record.word}: only a running job is requeued"
    if record.may_requeue is False:
        return "it was submitted with --no-requeue, or the cluster's default says so"
    return None


def _not_to_extend(record: Record, order: SchedulerOrder) -> str | None:
    if not record.phase.lives:
        return f"it is {record.word}"
    if record.limit is None:
        return "no time limit of it is known that could be lengthened"
    if order.limit is None or order.limit <= record.limit:
        return f"its time limit is {duration(record.limit)}: this would not lengthen it"
    return None


def _held(record: Record) -> bool:
    return is_held(record) or is_held_by_person(record)


def _begun_anew(record: Record, job: LiveJob, order: SchedulerOrder) -> bool:
    """Tell whether a job that ran waits again, or has begun since."""
    if record.phase is Phase.WAITING:
        return True
    began, before = record.started, job.started_at
    return record.word == "RUNNING" and None not in (began, before) and began > before + 1  # type: ignore[operator]


def _has_limit(record: Record, job: LiveJob, order: SchedulerOrder) -> bool:
    limit, asked = record.limit, order.limit
    return limit is not None and asked is not None and abs(limit - asked) < MINUTE


ORDERS: Final = {
    "hold": OrderRow(
        ("uhold",), ("PENDING",), _not_to_hold, lambda record, *_: _held(record), "is held"
    ),
    "release": OrderRow(
        ("release",), ("PENDING",), _not_to_release, lambda record, *_: not _held(record),
        "is released",
    ),
    "requeue": OrderRow(
        ("requeue",), ("RUNNING",), _not_to_requeue, _begun_anew, "is requeued", KILL_WAIT
    ),
    "extend": OrderRow(
        ("update",), ("PENDING", "RUNNING", "SUSPENDED"), _not_to_extend, _has_limit,
        "has its new time limit",
    ),
}  # fmt: skip
"""What scontrol is asked for, by the verb of the action. Its ``hold`` by an operator is a hold
that the owner of the job may not undo: ``uhold`` is one that they may."""


def order_words(row: OrderRow, target: str, order: SchedulerOrder) -> tuple[str, ...]:
    """Return what scontrol is given for one order about a job."""
    if order.limit is None:
        return (*row.words, target)
    return (*row.words, f"JobId={target}", f"TimeLimit={round(order.limit / MINUTE)}")
