"""What is run by ``sh`` on a cluster to submit, release, close, cancel and order; and how it ended.

A launch is submitted in two steps: a held job that nobody starts, then that of its launch id is
released. What was let go or closed is noted beside the output root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.place import FILE, SSH
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.ask import CONTROLLER, PATHS, Run, last_words, new_mark, parts_of
from cockpit.platforms.slurm.command import for_shell, sbatch_at, variables_of
from cockpit.platforms.slurm.jobs import where_of
from cockpit.runtime.ssh import LIMITED, RemoteError, quote

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
    *, sees_exports: bool,
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
