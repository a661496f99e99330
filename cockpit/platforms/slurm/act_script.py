"""The scripts that act on a cluster: submit held, let go, close, cancel; for ``sh`` on its host.

What a launch id was used for is noted under the output root where the host sees it, else in the
home folder: a file that is made once, whoever makes it, and outlives what the controller
remembers. ``state`` is ``starting`` (about to be let go), ``running`` (let go), ``closed`` (by a
look-up: nothing may start under it) or ``loose`` (a wrapper ran that did not submit what it was
given to submit). What Slurm itself tells comes first. Where no note can be made nothing is let go,
and no look-up says that nothing will be.

While sbatch is called, and after it when its answer was lost, a mark stands beside the note: a
controller that stood still may bring that job when it goes on. A look-up that finds the mark says
that nothing can come only when sbatch has ended, and the controller has told of no job for a while.

Words of sbatch's environment, as seen: a value of ``SBATCH_OPEN_MODE`` that it does not know ends
every sbatch, whatever its options say; there is no variable for a hold or a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.place import FILE, SSH
from cockpit.model.run import RunSpec
from cockpit.platforms.slurm.command import for_shell, sbatch_at, variables_of
from cockpit.platforms.slurm.script import CONTROLLER, PATHS
from cockpit.runtime.ssh import LIMITED, quote

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


def _begun(mark: str, run: RunSpec, launch_id: str) -> str:
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
    return _begun(mark, run, launch_id) + body


def go_script(mark: str, run: RunSpec, launch_id: str, job: str) -> str:
    """Return the script that lets one held job go, if it still has its tag."""
    body = _GO.format(job=job, limit=CONTROLLER, starting=STARTING, running=RUNNING)
    return _begun(mark, run, launch_id) + body


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
    return _begun(mark, run, launch_id) + body


def ids_script(mark: str, run: RunSpec) -> str:
    """Return the script that lists the launch ids that were noted."""
    body = 'say ids; [ ! -d "$notes" ] || ls "$notes" 2>&1 || say failed\nsay end\n'
    return _begun(mark, run, "-") + body


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
