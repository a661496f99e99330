"""Starting a job on an ssh host, and finding out what became of a start.

``accept`` notes that a launch id is meant, ``go`` starts its supervisor, which uses the id up
before anything runs. Any answer that is lost may have been acted on: then ``look_up`` reads the
notes before it looks at the processes. Whoever is noted as starting and is not there any more never
ran. A launch that was meant and has not begun is closed by a file that is made only if there is
none; the supervisor makes the same file before it starts anything, so that one of the two comes
first, however late the other arrives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.hosts import notes
from cockpit.hosts.link import DEADLINE, HostLink, ask
from cockpit.hosts.notes import BELOW, JOB_LOCK
from cockpit.hosts.script import spelled as spelled
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, RUN, SUPERVISES
from cockpit.model.facet import Problem
from cockpit.model.jobs import LaunchState, LookUp, NamedJob, Submission
from cockpit.model.lineage import keys_of, tag_of
from cockpit.model.place import Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.launcher import LAUNCHER, SH
from cockpit.platforms.box.machine import (
    HostPlaces,
    JobFiles,
    files_ask,
    folder_of,
    job_files,
    shared_by,
)
from cockpit.platforms.local import lookup as local
from cockpit.platforms.local.files import MOST, PidNote
from cockpit.platforms.local.host import disk_asks, disks_of
from cockpit.platforms.local.lookup import launches_place, parent_of, root_on_host
from cockpit.platforms.local.recorded import identify
from cockpit.platforms.local.sight import ABOUT, Sight, Who, on_its_host, processes_ask, sight_of
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
    folder = root if root is not None else parent_of(job.pid_file)
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


CLOSING: Final = 15.0
ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_CLOSE: Final = """\
f={folder}/{name}
if (set -C; printf 'state=closed\\nlaunch_id=%s\\n' {name} >"$f") 2>/dev/null
then dd if=/dev/null of="$f" conv=notrunc,fsync 2>/dev/null; echo closed; else echo taken; fi"""


class Noted(NamedTuple):
    """What the notes of a launch id say: its note, and whether it was meant at all."""

    note: Mapping[str, str] | None
    meant: bool = False


class Seen(NamedTuple):
    """A host as it was seen after the notes were read."""

    host: Sight
    files: JobFiles


async def look_up(link: HostLink, send: Script, run: RunSpec, launch_id: str) -> LookUp:
    """Return what became of ``launch_id``; never raises."""
    folder, job = launches_place(run), run.job
    if not ID.fullmatch(launch_id):
        return LookUp(found=LaunchState.ABSENT, text="no launch id of ours has such a name")
    if folder is None or job is None:
        return _unknown("no place in cockpit.toml where launches are noted")
    for _ in range(local.ROUNDS):
        noted = await _noted(link, folder, launch_id)
        seen = noted if isinstance(noted, str) else await _seen(link, run, launch_id)
        if isinstance(noted, str) or isinstance(seen, str):
            return _unknown(str(seen))
        host, at = seen.host, f" on {job.host}"
        found = local.told(run, launch_id, noted.note, host.processes, host.machine, at)
        if found is None and noted.note is None:
            found = _by_pid_file(run, launch_id, seen)
        if found is not None:
            return found
        if noted.note is None:
            return await _unused(send, job, folder, launch_id, meant=noted.meant)
        if await _noted(link, folder, launch_id) == noted:
            return local.ended(launch_id, noted.note)
    return local.changing(launch_id)


def _unknown(text: str) -> LookUp:
    return LookUp(found=LaunchState.UNKNOWN, text=text)


async def _noted(link: HostLink, folder: Place, launch_id: str) -> Noted | str:
    path = f"{folder.path}/{launch_id}"
    wanted = [(path, MOST), (f"{path}.intent", 0)]
    asked = ask(f"the launch notes in {folder.path}", "files", wanted=wanted)
    said = (await link.ask([asked]))[asked]
    if isinstance(said, Problem):
        return f"the notes of its launch cannot be read: {said.message}"
    note, intent = said
    if "figures" in note:
        regular = note["figures"][0] == "file"
        return Noted(notes.parsed_note(note["text"])) if regular else f"{path} is no file of ours"
    if note["link"] or note["errno"] not in ABSENT:
        return f"the notes of its launch: {path}: {clean(note['text'], 200)}"
    if "figures" in intent:
        return Noted(None, meant=True)
    absent = intent["errno"] in ABSENT and not intent["link"]
    return Noted(None) if absent else f"the notes of its launch: {clean(intent['text'], 200)}"


async def _seen(link: HostLink, run: RunSpec, launch_id: str) -> Seen | str:
    """Return the host's processes and the job's files, or why they are not known."""
    assert run.job is not None
    processes = processes_ask((f"{LAUNCH_ID}={launch_id}", f"{SUPERVISES}={launch_id} "))
    files, folder = files_ask(run), folder_of(run.job.pid_file)
    disks = disk_asks([] if folder is None else [folder])
    answers = await link.ask([ABOUT, processes, files, *disks.values()], patience=DEADLINE)
    said = (answers[each] for each in (ABOUT, processes, files))
    problem = next((each for each in said if isinstance(each, Problem)), None)
    if problem is not None:
        return problem.message
    places = HostPlaces(disks=shared_by(disks_of(disks, answers)))
    host = sight_of(answers[ABOUT], answers[processes], places)
    return Seen(host, job_files(run.job, answers[files]))


def _by_pid_file(run: RunSpec, launch_id: str, seen: Seen) -> LookUp | None:
    """Return what the pid file says of a launch that is noted nowhere else."""
    if seen.files.problem is not None:
        return _unknown(seen.files.problem.message)
    note = seen.files.pid
    if not isinstance(note, PidNote) or note.launch_id != launch_id:
        return None
    who = identify(run, note, seen.host, seen.host.now)
    if who.who is Who.UNSURE:
        return _unknown(f"{launch_id} by its pid file: {who.text}")
    alive = who.who is Who.SAME
    text = f"{launch_id} {'runs' if alive else 'ended'}, by its pid file (pid {note.pid})"
    return LookUp(
        found=LaunchState.LIVE if alive else LaunchState.ENDED, text=text, job_id=f"pid:{note.pid}"
    )


async def _unused(
    send: Script, job: JobSpec, folder: Place, launch_id: str, *, meant: bool
) -> LookUp:
    """Return that nothing was started; the id of a launch that was meant is used up first."""
    if not meant:
        text = f"{launch_id} was never started on {job.host}"
        return LookUp(found=LaunchState.ABSENT, text=text)
    script = _CLOSE.format(folder=spelled(folder), name=quote(launch_id))
    try:
        said = (await send(job.host, script, deadline=CLOSING)).text.strip()
    except RemoteError as error:
        return _unknown(f"{launch_id} was noted; cannot tell whether it is closed now: {error}")
    if said != "closed":
        return _unknown(f"{launch_id} is being started")
    text = f"{launch_id} was noted but never started; its launch id is closed now"
    return LookUp(found=LaunchState.ABSENT, text=text)


TICKS: Final = r"""ticks() {
  s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  s=${s##*\) }; set -- $s; shift 19; echo "$1"
}
"""
ADOPTED_WITHIN: Final = 20.0
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
  printf 'space=%s\\nrun=%s\\n' "$(readlink /proc/self/ns/pid)" {run}
}}
mkdir -p -- "$(dirname -- "$P")" 2>/dev/null
note 2>/dev/null >"$P.$$.new" && mv -f -- "$P.$$.new" "$P" && {{ echo 'ok|'; exit; }}
rm -f -- "$P.$$.new"; echo 'no|write'
"""


async def adopt(send: Script, run: RunSpec, job: NamedJob) -> None:
    """Write the pid file of a process that still is the named one; raises as ``Platform.adopt``."""
    pid, spec = local.pid_of(job.id), run.job
    place, ticks = (None if spec is None else spec.pid_file), job.handle.get(local.TICKS)
    if pid is None or spec is None or place is None or not on_its_host(run, place):
        raise CannotError("job.pid_file must be set: where would the process be noted?")
    if ticks is None:
        raise CannotError(f"{spec.host} does not tell when process {pid} began: nothing was noted")
    script = TICKS + _NOTE.format(
        pid=pid, place=spelled(place), ticks=quote(ticks), run=quote(run.name)
    )
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
