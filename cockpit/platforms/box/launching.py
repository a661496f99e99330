"""Starting a job on an ssh host: the scripts that are sent, and what their answers mean.

``accept`` notes that a launch id is meant, ``go`` starts its supervisor, which uses the id up
before anything runs; what was accepted and not let go is closed by a look-up (``lookup``). Any
answer that is lost may have been acted on.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from cockpit.model.jobs import Submission
from cockpit.model.lineage import keys_of, tag_of
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.launcher import LAUNCHER, SH
from cockpit.platforms.box.sight import on_its_host
from cockpit.platforms.box.words import spelled
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE, RUN, SUPERVISES
from cockpit.platforms.local.launcher.launches import BELOW
from cockpit.platforms.local.launcher.locks import JOB_LOCK
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

Script = Callable[..., Awaitable[Completed]]
"""``run_script``: a script on a host, with a deadline."""
ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_HOME: Final = re.compile(r"~[A-Za-z0-9._-]*(?:/|$)")
_ASKED: Final = 20.0
"""Seconds in which a host must have noted what is meant."""
_PATTERN: Final = set("*?[")


def startable(run: RunSpec, submission: Submission) -> JobSpec:
    """Return the job's settings if they name all that a start needs; raises ``CannotError``."""
    job = run.job
    if job is None or job.kind != "box" or not job.host:
        raise CannotError("only a job of kind box with job.host can be started on a host")
    for key, place in (("pid_file", job.pid_file), ("log", job.log)):
        if place is None or not on_its_host(run, place) or _PATTERN & set(place.path):
            raise CannotError(f"job.{key} must name a file of {job.host}: where would it be noted?")
    if not ID.fullmatch(submission.launch_id):
        raise CannotError(f"bad launch id {clean(submission.launch_id, 80)}")
    if not submission.command:
        raise CannotError("no command to run")
    if any("\0" in part for part in (*submission.command, *submission.env.values())):
        raise CannotError("the command holds a zero byte")
    if not all(NAME.fullmatch(name) for name in submission.env):
        raise CannotError("the environment holds a name that no shell knows")
    if not keys_of(run):
        raise CannotError("no output root and no W&B id in cockpit.toml to guard the run by")
    return job


async def accept(send: Script, run: RunSpec, submission: Submission) -> str:
    """Note on the host that a launch id is meant; return which kind of locks it has."""
    job = startable(run, submission)
    script = f"COCKPIT_LAUNCHER={quote(text_of(run, submission))} {SH} accept 3>&1 >/dev/null 2>&1"
    return await _answered(send, job, script, _ASKED)


async def try_start(send: Script, run: RunSpec, submission: Submission) -> None:
    """See on the host that a launch could open what it opens; nothing is noted."""
    job = startable(run, submission)
    script = f"COCKPIT_LAUNCHER={quote(text_of(run, submission))} {SH} try 3>&1 >/dev/null 2>&1"
    await _answered(send, job, script, _ASKED)


async def go(send: Script, run: RunSpec, submission: Submission, within: float) -> str:
    """Start the job detached and return its process id on the host."""
    job = startable(run, submission)
    script = f"""\
{SUPERVISES}={quote(f"{submission.launch_id} {tag_of(run)}")}
COCKPIT_LAUNCHER={quote(text_of(run, submission))}
export {SUPERVISES} COCKPIT_LAUNCHER
ck_out=$({{ exec setsid {SH} supervise 3>&1 >/dev/null 2>&1 </dev/null & }} | cat)
printf '%s\\n' "$ck_out"
{_view(job)}"""
    told = await _answered(send, job, script, within)
    if not told.isdigit():
        raise LostError(f"{job.host} told no process id: {clean(told, 80)}")
    return told


async def _answered(send: Script, job: JobSpec, script: str, within: float) -> str:
    """Return what a part of the launcher says; raises as ``Platform.accept`` does."""
    try:
        done = await send(job.host, script, deadline=within)
    except RemoteError as error:
        if error.sent:
            raise LostError(str(error)) from error
        raise CannotError(f"{error}; nothing was started") from error
    line = next((each for each in done.text.splitlines() if each.count("|")), "")
    word, _, rest = line.partition("|")
    if word == "ok":
        return rest
    if word == "no":
        raise CannotError(f"{job.host}: {scrub(clean(rest.partition('|')[2], 400))}")
    said = clean(done.err.decode("utf-8", "replace").strip() or "nothing", 200)
    raise LostError(f"{job.host}: the launcher has not answered (it said: {scrub(said)})")


def text_of(run: RunSpec, submission: Submission) -> str:
    """Return the launcher with this launch's own words around it."""
    job = startable(run, submission)
    assert job.pid_file is not None and job.log is not None
    root = root_on_host(run)
    folder = root if root is not None else _parent(job.pid_file)
    exit_file = job.exit_file or _beside(job.pid_file)
    own = job.workdir or run.workdir
    workdir = submission.workdir or (None if own is None else own.path)
    if not workdir:
        raise CannotError("no job.workdir in cockpit.toml to run the command in")
    places = {
        "R": folder,
        "L": folder.below(*BELOW.parts),
        "G": job.log,
        "P": job.pid_file,
        "E": exit_file,
        "W": Place("ssh", job.host or "", workdir),
    }
    lines = [
        f"ck_I={quote(submission.launch_id)}; ck_by={quote(clean(os.uname().nodename, 80))}",
        f'ck_F="/tmp/cockpit-locks-$(id -u)"; ck_sup=$2; ck_env=; ck_T={quote(tag_of(run))}',
        *(f"ck_{name}={spelled(place)}" for name, place in places.items()),
        *(f'case $ck_{name} in /*) ;; *) ck_{name}="$PWD/$ck_{name}";; esac' for name in places),
        LAUNCHER,
        _parts(run, submission, root),
    ]
    return "\n".join(lines)


def _parts(run: RunSpec, submission: Submission, root: Place | None) -> str:
    words = [word_of(word, first=not at) for at, word in enumerate(submission.command)]
    own = {
        **submission.env,
        LAUNCH_ID: submission.launch_id,
        RUN: submission.run,
        LINEAGE: tag_of(run),
    }
    sets = "\n".join(f"{name}={quote(value)}; export {name}" for name, value in own.items())
    before = "\n".join((sets, *(_set_or_not(name) for name in variables(submission.command))))
    locks = [f'"$ck_F/{hashed(key)}.lock"' for key in sorted(keys_of(run), key=hashed)]
    if root is not None:
        locks.insert(0, f'"$ck_R/{JOB_LOCK}"')
    return f"""\
case $1 in
try) ({before}
  ck_needs; ck_find {words[0]}) || exit
  ck_try {" ".join(locks)};;
accept) ({before}
  ck_needs; ck_find {words[0]}) || exit
  ck_accept;;
supervise) ck_supervise {" ".join(locks)};;
begin)
  ck_u=$3; {before}
  cd -- "$ck_W" || ck_failed 74 "the working folder $ck_W is not there"
  (ck_find {words[0]}) || {{ ck_tell failed; exit 1; }}
  ck_default
  ck_ready
  printf 'ok|%s\\n' "$$" >&3
  unset {SUPERVISES} COCKPIT_LAUNCHER
  umask "$ck_u"
  exec $ck_env {" ".join(words)} </dev/null >>"$ck_G" 2>&1 3>&-;;
esac"""


def _set_or_not(name: str) -> str:
    why = f"the command uses ${name}, which is not set; nothing was started"
    return f'[ -n "${{{name}+x}}" ] || ck_no 126 {quote(why)}'


def variables(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the variables that a command uses."""
    found = (match[1] or match[2] for word in command for match in _VARIABLE.finditer(word))
    return tuple(dict.fromkeys(found))


def word_of(word: str, *, first: bool = False) -> str:
    """Return a recorded word as one word of a shell in which only its ``$NAME`` is resolved.

    As on this machine: of the first word a leading ``~`` too, of none anything else.
    """
    home = _HOME.match(word) if first else None
    rest = word if home is None else word[home.end() :]
    parts: list[str] = [] if home is None else [home[0]]
    at = 0
    for match in _VARIABLE.finditer(rest):
        parts += [_literal(rest[at : match.start()]), f'"${{{match[1] or match[2]}}}"']
        at = match.end()
    return "".join((*parts, _literal(rest[at:]))) or "''"


def _literal(text: str) -> str:
    return quote(text) if text else ""


def hashed(key: str) -> str:
    """Return the name of a lineage's lock, as a launch on the host itself has it."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def root_on_host(run: RunSpec) -> Place | None:
    """Return the output root where it lies on the job's host."""
    root = None if run.output_root is None else run.output_root.normal()
    return root if root is not None and on_its_host(run, root) else None


def launches_place(run: RunSpec) -> Place | None:
    """Return the folder of the host in which its launch ids are used up."""
    root, job = root_on_host(run), run.job
    if root is None and (job is None or job.pid_file is None):
        return None
    folder = root if root is not None else _parent(job.pid_file)  # type: ignore[union-attr,arg-type]
    return folder.below(*BELOW.parts)


def _parent(place: Place) -> Place:
    folder, sign, _ = place.path.rpartition("/")
    return Place(place.scheme, place.host, folder or ("/" if sign else "."))


def _beside(pid_file: Place) -> Place:
    """Return ``run.exit`` beside ``run.pid``."""
    stem = re.sub(r"(?<=[^/])\.[^./]*$", "", pid_file.path)
    return Place(pid_file.scheme, pid_file.host, f"{stem}.exit")


def _view(job: JobSpec) -> str:
    """Return what makes a session for people to look in, where the run file names one.

    It only follows the log, and goes with the job: nothing is known or stopped by its name.
    """
    assert job.log is not None
    if job.session is None:
        return ":"
    name = job.session.replace(".", "_").replace(":", "_")
    follow = 'exec tail -n +1 --pid="$1" -F -- "$2"'
    return f"""\
case $ck_out in ok*) if command -v tmux >/dev/null && ! tmux has-session -t {quote(f"={name}")}
then tmux new-session -d -s {quote(name)} sh -c {quote(follow)} sh "${{ck_out#*|}}" \\
  {spelled(job.log)}
fi >/dev/null 2>&1 </dev/null;; esac; :"""
