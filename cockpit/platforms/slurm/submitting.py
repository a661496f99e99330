"""Submits in two steps: a held job that nobody starts, then that of its launch id is released."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.jobs import Accepted, Submission
from cockpit.model.place import FILE, SSH
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.ask import (
    CONTROLLER,
    PATHS,
    Run,
    Trouble,
    last_words,
    new_mark,
    parts_of,
)
from cockpit.platforms.slurm.book import Book, is_held, never_began
from cockpit.platforms.slurm.command import (
    for_shell,
    names_export,
    sbatch_at,
    variables_of,
    with_names,
)
from cockpit.platforms.slurm.jobs import SlurmJobs, where_of
from cockpit.platforms.slurm.record import Record
from cockpit.runtime.ssh import LIMITED, RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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

_ACCEPT: Final = """\
unused() {{
  [ -e "$notes/$id" ] || return 0
  rm -f "$sent"; say used; cat "$notes/$id"; say end; exit
}}
sent="$notes/.$id.$mark.sent"
unused
cd {workdir} 2>/dev/null || {{ say folder; say end; exit; }}
command -v sbatch >/dev/null || {{ say nosbatch; say end; exit; }}
unset SBATCH_WAIT{exports}
for name in {variables}; do
eval "[ \\"\\${{$name+x}}\\" ]" || {{ say unset; echo "$name"; say end; exit; }}
done
mkdir -p "$notes" 2>/dev/null
(echo {sending} "$(date +%s)" "$$" "$(uname -n)" >"$sent") 2>/dev/null ||
 {{ say nonotes; printf '%s\n' "$notes"; say end; exit; }}
unused
{run}
say end
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
say end
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
say end
"""


def notes_folder(run: RunSpec) -> str:
    """Return, as a word of ``sh``, where the run's launch ids are noted on its host."""
    root, host = run.output_root, None if run.job is None else run.job.host
    if root is not None and (root.scheme, root.host) == ((SSH, host) if host else (FILE, "")):
        return quote(f"{root.path.rstrip('/')}/.cockpit/launches")
    return '"$HOME"/.cockpit/launches'


def _script_head(mark: str, run: RunSpec, launch_id: str) -> str:
    return f"mark={mark} id={quote(launch_id)} notes={notes_folder(run)}\n{_BEFORE}"


def accept_script(
    mark: str,
    run: RunSpec,
    launch_id: str,
    words: Sequence[str],
    workdir: str,
    env: Mapping[str, str],
    *,
    sees_exports: bool,
) -> str:
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
    body = _ACCEPT.format(
        workdir=quote(workdir),
        exports=exports,
        variables=" ".join(variables_of(words)),
        run=how,
        sending=SENDING,
    )
    return _script_head(mark, run, launch_id) + body


def go_script(mark: str, run: RunSpec, launch_id: str, job: str) -> str:
    """Return the script that lets one held job go, if it still has its tag."""
    body = _GO.format(job=job, limit=CONTROLLER, starting=STARTING, running=RUNNING)
    return _script_head(mark, run, launch_id) + body


def close_script(mark: str, run: RunSpec, launch_id: str, jobs: Sequence[str]) -> str:
    """Return the script that ends held jobs, closes a launch id, and tells of sbatch under way.

    A note that one was about to be let go is taken back where that one was seen held.
    """
    cancel = cancel_words(jobs) if jobs else ":"
    over = f"tell {CLOSED} 0; " if jobs else ""
    body = _CLOSE.format(
        cancel=cancel, closed=CLOSED, over=over, sending=SENDING, gone=GONE, comes=COMES_WITHIN,
        limit=WRAPPER + CONTROLLER,
    )  # fmt: skip
    return _script_head(mark, run, launch_id) + body


def ids_script(mark: str, run: RunSpec) -> str:
    """Return the script that lists the launch ids that were noted."""
    body = 'say ids; [ ! -d "$notes" ] || ls "$notes" 2>&1 || say failed\nsay end\n'
    return _script_head(mark, run, "-") + body


def cancel_script(mark: str, jobs: Sequence[str], *, pending: bool = False) -> str:
    """Return the script that cancels exactly these jobs; ``pending``: only if they do not run."""
    body = f"say cancel; {cancel_words(jobs, pending=pending)}\nsay end\n"
    return f"mark={mark} id= notes=\n{_BEFORE}{body}"


def cancel_words(jobs: Sequence[str], *, pending: bool = True) -> str:
    """Return the call of scancel; job ids are digits, ``_``, ``+``, brackets: quoted all the same.

    Pending is what a held job must still be: one that runs was let go by somebody.
    """
    only = "--state=PENDING " if pending else ""
    ids = " ".join(map(quote, jobs))
    return f'limited {CONTROLLER} scancel {only}{ids} 2>&1; echo "rc=$?"'


def order_script(mark: str, job: str, states: Sequence[str], words: Sequence[str]) -> str:
    """Return the script that gives scontrol one order about a job that is in one of these states.

    A job that has left them since it was looked at is left alone: requeued after its end, it would
    run a second time.
    """
    is_in = "|".join(states)
    look = f"now=$(limited {CONTROLLER} squeue -h -t all -j {quote(job)} -o %T 2>/dev/null)"
    leave = 'case "$now" in ' + is_in + ') ;; *) say other; echo "$now"; say end; exit ;; esac'
    give = f"limited {CONTROLLER} scontrol {' '.join(map(quote, words))} >&4 2>&1 4>&- </dev/null"
    body = f"{look}\n{leave}\nsay said; {give}; rc=$?\nsay rc; echo $rc\nsay end\n"
    return f"mark={mark} id= notes=\n{_BEFORE}{body}"


SLACK: Final = 15.0
CAP: Final = 200_000
_NUMBER: Final = re.compile(r"(?:^|Submitted batch job )(\d{1,12})(?:[;\s]|$)", re.MULTILINE)
"""Such as ``Submitted batch job 71``."""
PERHAPS: Final = re.compile(
    "timed out|Message receive|send/recv|Zero Bytes|Connection reset|Unexpected message", re.I
)
"""What sbatch and scontrol say when the controller may have done it all the same."""
KILLED, REFUSED = 128, 255
"""A status between these is that of a command that a signal has ended; sbatch's own is 255 for
options that it does not know."""
_FENCED: Final = "Invalid --open-mode"


async def acted(
    run: Run, host: str | None, script: str, mark: str, within: float
) -> dict[str, str]:
    """Return the parts of what an acting script tells; raises ``CannotError``, ``LostError``."""
    try:
        done = await run(host, script, deadline=within, cap=CAP)
    except RemoteError as error:
        text = f"{where_of(host)}: {error}"
        raise (LostError if error.sent else CannotError)(text) from error
    found = parts_of(done.text, mark)
    if "end" not in found:
        raise LostError(f"{where_of(host)}: the answer is cut off: {last_words(done.text)}")
    return found


def tagged(book: Book, launch_id: str) -> list[Record]:
    """Return the records whose comment is exactly this launch id, the lowest number first."""
    found = [each for each in book.records.values() if each.comment == launch_id]
    return sorted(found, key=lambda each: int(each.raw))


def bases(records: list[Record]) -> list[str]:
    """Return the numbers that these are cancelled by: of arrays and het jobs their leader's."""
    return list(dict.fromkeys(each.base for each in records))


class Submitting:
    """Accepts and lets go on one cluster after another; each call has its own deadline."""

    def __init__(self, run: Run, jobs: SlurmJobs) -> None:
        self._run = run
        self._jobs = jobs

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Submit a held job; the same launch id is taken in only while no job has it."""
        host, workdir = host_of(run), _workdir(run, submission)
        book = await self._book(run, "nothing was submitted")
        there = tagged(book, submission.launch_id)
        if there:
            text = f"job {there[0].id} has {submission.launch_id} already ({there[0].word})"
            raise CannotError(f"{text}; nothing was submitted")
        words = with_names(submission.command, sorted(submission.env))
        mark, wrapped = new_mark(), sbatch_at(words) is None
        sees = bool(submission.env) and not names_export(words)
        script = accept_script(
            mark, run, submission.launch_id, words, workdir, submission.env, sees_exports=sees
        )
        within = (WRAPPER if wrapped else SUBMIT) + CONTROLLER + SLACK
        found = await acted(self._run, host, script, mark, within)
        _refused_before(found, workdir)
        job = _submitted(found)
        if "--export" in found.get("script", ""):
            await self._cancel(host, job)
            text = f"its batch script says {clean(found['script'], 120)}, which keeps"
            raise CannotError(f"{text} {', '.join(submission.env)} from the job; it was cancelled")
        return Accepted(id=job, submission=submission, handle={"job": job})

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let the accepted job run if it is the lowest of its launch id, and return its number."""
        host, job, launch_id = host_of(run), accepted.id, accepted.submission.launch_id
        if not job.isdecimal():
            raise CannotError(f"{clean(job, 40)} is not a Slurm job")
        book = await self._book(run, None)
        others = await self._chosen(host, book, job, launch_id)
        await self._refuse_beside_others(run, host, job)
        mark = new_mark()
        script = go_script(mark, run, launch_id, job)
        found = await acted(self._run, host, script, mark, 4 * CONTROLLER + SLACK)
        await self._let_go(host, found, job, launch_id)
        if others:  # they are held: whether this succeeds decides nothing
            mark = new_mark()
            script = cancel_script(mark, others, pending=True)
            try:
                await acted(self._run, host, script, mark, CONTROLLER + SLACK)
            except (CannotError, LostError):
                return job
        return job

    async def _refuse_beside_others(self, run: RunSpec, host: str | None, job: str) -> None:
        """See that no other job of the lineage has begun; else ours is cancelled before it runs.

        What waits behind the run's own job is the plan's affair.
        """
        live = (await self._jobs.live([run]))[run.name]
        began = [each for each in live.jobs if each.id != job and each.started_at is not None]
        if live.unknown is None and not began:
            return
        await self._cancel(host, job)
        why = f"cannot tell whether a job is alive: {live.unknown}"
        if began:
            names = "; ".join(f"{each.id} {each.name} ({each.why})" for each in began)
            why = f"a job of this lineage is still alive: {names}"
        raise CannotError(f"{why}; ours ({job}) was cancelled before it ran")

    async def _chosen(self, host: str | None, book: Book, job: str, launch_id: str) -> list[str]:
        """See that the job is ours to let go; return the later ones of the same launch id."""
        mine = book.find(job)
        if mine is None:
            raise LostError(f"{where_of(host)} does not list job {job}: it is held, or gone")
        record = mine.main
        if record.comment != launch_id:
            await self._cancel(host, job)
            told = f'"{scrub(clean(record.comment, 80))}"' if record.comment else "nothing"
            text = f"job {job} says {told} in place of its launch id {launch_id}: it could not be"
            raise CannotError(f"{text} known again, and was cancelled")
        same = [each for each in tagged(book, launch_id) if each.base != record.base]
        first = [each for each in same if int(each.base) < int(job) or not is_held(each)]
        first = [each for each in first if not never_began(each)]
        if first:
            await self._cancel(host, job)
            text = f"job {first[0].id} has {launch_id} too, and was first"
            raise CannotError(f"{text}; ours ({job}) was cancelled before it ran")
        if not is_held(record):
            raise CannotError(f"job {job} is {record.word}: it was closed before it was released")
        return bases([each for each in same if is_held(each)])

    async def _let_go(
        self, host: str | None, found: Mapping[str, str], job: str, launch_id: str
    ) -> None:
        """Judge the answer to the release; raises ``CannotError``, ``LostError``."""
        note = found.get("note", "")
        if note.startswith("used"):
            if "rc=0" not in found.get("cancel", ""):
                text = f"{launch_id} was used up meanwhile, and whether job {job} is cancelled"
                raise LostError(f"{text} is not known: {last_words(found.get('cancel', ''))}")
            raise CannotError(f"{launch_id} was used up meanwhile; job {job} was cancelled")
        if note.startswith("unwritable"):
            await self._cancel(host, job)
            raise CannotError(f"its launch cannot be noted there any more; job {job} was cancelled")
        tag = found.get("tag", "").strip()
        if tag != launch_id:
            if not tag or "error" in tag:
                raise LostError(f"job {job} could not be read back: {last_words(tag)}")
            await self._cancel(host, job)
            raise CannotError(f"job {job} has another comment now; it was cancelled")
        said = found.get("release", "")
        if found.get("release.rc", "").strip() == "0":
            return
        if "already finished" in said or "Invalid job id" in said:
            raise CannotError(f"job {job} was cancelled before it was released")
        raise LostError(f"no answer to the release of job {job}: {last_words(said)}")

    async def _cancel(self, host: str | None, job: str) -> None:
        """Cancel our own held job; raises ``LostError`` where this is not known to be done."""
        mark = new_mark()
        try:
            found = await acted(
                self._run, host, cancel_script(mark, [job]), mark, CONTROLLER + SLACK
            )
        except CannotError as error:
            raise LostError(f"job {job} is held and could not be cancelled: {error}") from error
        if "rc=0" not in found.get("cancel", ""):
            said = last_words(found.get("cancel", "").rpartition("rc=")[0])
            raise LostError(f"job {job} is held and could not be cancelled: {said}")

    async def _book(self, run: RunSpec, undone: str | None) -> Book:
        """Return the cluster's jobs; ``undone`` says that nothing was done yet."""
        seen = await self._jobs.ask_cluster(host_of(run), [])
        if not isinstance(seen, Trouble):
            return seen[1]
        if undone is None:
            raise LostError(seen.line)
        raise CannotError(f"{seen.line}; {undone}")


def host_of(run: RunSpec) -> str | None:
    """Return the ssh host of a run's cluster; ``None``: this machine."""
    return None if run.job is None else run.job.host


def _workdir(run: RunSpec, submission: Submission) -> str:
    own = (None if run.job is None else run.job.workdir) or run.workdir
    place = submission.workdir or (None if own is None else own.path)
    if not place:
        raise CannotError("no job.workdir in cockpit.toml to run the command in")
    return place


def _refused_before(found: Mapping[str, str], workdir: str) -> None:
    """Raise ``CannotError`` where the script has ended before anything was submitted."""
    if "used" in found:
        raise CannotError("this launch id was used up before; nothing was submitted")
    if "nonotes" in found:
        where = scrub(clean(found["nonotes"].strip(), 200))
        text = f"its launch cannot be noted there ({where} cannot be written)"
        raise CannotError(f"{text}; nothing was submitted")
    if "folder" in found:
        raise CannotError(f"the working folder {clean(workdir, 200)} does not exist")
    if "nosbatch" in found:
        raise CannotError("sbatch is not installed there, or not on the PATH of a plain command")
    if "nofolder" in found:
        raise CannotError("no temporary folder could be made there (mktemp -d)")
    if "unset" in found:
        name = clean(found["unset"].strip(), 80)
        raise CannotError(f"the command uses ${name}, which is not set there; nothing was started")


def _submitted(found: Mapping[str, str]) -> str:
    """Return the number of the job that was taken in; raises ``CannotError``, ``LostError``."""
    wrapper = found.get("wrapper.rc", "").strip()
    said = found.get("wrapper.err" if wrapper else "sbatch.err", "")
    told = last_words(said.partition("Try ")[0])
    if wrapper and "sbatch.rc" not in found:
        if _FENCED in said:
            text = "it called another sbatch than the first on its PATH, which was refused"
            raise CannotError(f"{text}: let it call plain sbatch; nothing was submitted")
        if wrapper in ("0", "124"):
            text = "the wrapper did not call sbatch: what it started, if anything, is unknown"
            raise LostError(text)
        raise CannotError(f"the wrapper ended with {wrapper} and had not called sbatch: {told}")
    code, number = found.get("sbatch.rc", "").strip(), _NUMBER.search(found.get("sbatch.out", ""))
    if code == "0" and number is not None:
        return number[1]
    lost = code in ("", "0", "124") or KILLED < int(code) < REFUSED or number is not None
    if lost or PERHAPS.search(said):
        raise LostError(f"sbatch: {told or 'it has printed no number'}")
    raise CannotError(f"sbatch: {told or f'it ended with {code}'}")
