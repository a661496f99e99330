"""Tries the places of a launch on ssh hosts before anything is stopped (SPEC A)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import DEADLINE, Ask, link_to, shell
from cockpit.model.facet import Problem
from cockpit.model.observed import Pick
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.wording import size, steps
from cockpit.platforms.box.launching import spelled, word_of
from cockpit.platforms.box.machine import ABOUT, disk_asks, disk_of
from cockpit.platforms.kinds import PLATFORMS
from cockpit.platforms.local.launcher.notes import BELOW
from cockpit.runtime.mounts import HOLDS_DISKS, Missing
from cockpit.runtime.ssh import quote
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

ID: Final = "places"
DISK: Final = "disk"
PROGRAM: Final = "program"
READABLE: Final = "C-17:readable"
LEAST: Final = 16_000_000
"""Bytes that a log and a few notes need where the size of a checkpoint is not known."""
SAVES: Final = 2
"""Checkpoints for which there should be room: one beside the one that it follows (C-22)."""
FEW: Final = 64
"""Files that must still fit: a checkpoint of a few shards, the log, the notes."""
HOLDS_SAVES: Final = ("the output root", "the checkpoints' folder")


class Room(NamedTuple):
    """What a disk has left for this user: bytes and files; whether it counts them at all."""

    free: int
    files: int
    counts_bytes: int = 1
    counts_files: int = 1


def no_folder(what: str, path: str) -> Check:
    """Return that something else lies where a folder should be."""
    return blocked(ID, f"{what} is not a folder: {shown(path)}")


def unwritable(what: str, why: str, where: str) -> Check:
    """Return that a place takes no file of this user's."""
    return blocked(ID, f"{what} is not writable by this user: {why} ({shown(where)})")


def missing_place(what: str, path: str, missing: Missing) -> Check:
    """Return that a folder is not there, and what may be missing with it."""
    text = f"{what} is not there ({shown(path)}), and {missing.text}"
    return blocked(ID, text) if missing.sure else warned(ID, text)


def room_of(what: str, there: str, room: Room, need: int | None) -> list[Check]:
    """Return whether a disk has room for a save of ``need`` bytes, and for its files."""
    holds_saves = what in HOLDS_SAVES
    least = max(LEAST, need or 0) if holds_saves else LEAST
    where, checks = f"the disk of {what} ({shown(there)})", []
    if room.counts_bytes and room.free < least:
        kept = "a checkpoint" if need is not None and least == need else "a log"
        text = f"{where} has {size(room.free)} free, and {kept} takes {size(least)}"
        checks.append(blocked(DISK, text))
    elif room.counts_bytes and holds_saves and room.free < SAVES * (need or 0):
        text = f"{where} has {size(room.free)} free: less than {SAVES} checkpoints of {size(need)}"
        checks.append(warned(DISK, text))
    if room.counts_files and room.files < FEW:
        checks.append(blocked(DISK, f"{where} has inodes for only {room.files} more files"))
    return [check.model_copy(update={"moves": True}) for check in checks]


def no_workdir(workdir: str) -> Check:
    """Return that there is no folder to run the command in."""
    return blocked(PROGRAM, f"workdir does not exist: {shown(workdir)}")


def no_program(program: str, *, is_file: bool) -> Check:
    """Return that the command's program cannot be executed."""
    text = f"no executable program {shown(program)}"
    return blocked(PROGRAM, text + (f" (chmod +x {shown(program)})" if is_file else ""))


def no_script(script: str, workdir: str) -> Check:
    """Return that what Python should run is probably not there."""
    text = f"{shown(script)} does not exist, seen from workdir {shown(workdir)}"
    return blocked(PROGRAM, text, Basis.INFERRED, overridable=True)


def unreadable(pick: Pick, why: str, where: str) -> Check:
    """Return that a job of this user could not load a checkpoint."""
    text = f"step {steps(pick.step)} cannot be read by this user: {why} ({shown(where)})"
    return blocked(READABLE, text)


_TAKE_ONE: Final = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that are followed by a value."""


def script_of(words: Sequence[str]) -> str | None:
    """Return the Python file that a command probably runs, where that can be told.

    Only of a plain ``python [options] file.py``: anything else is the command's own affair.
    """
    if not Path(words[0]).name.startswith("python"):
        return None
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-" or (option[1:2] != "-" and set("cm") & set(option[1:])):
            return None
        if option in _TAKE_ONE:
            rest = rest[1:]
    plain = bool(rest) and rest[0].endswith(".py") and "$" not in rest[0]
    return rest[0] if plain else None


LAUNCHER: Final = "launcher"
MOST_READ: Final = 64
FULL: Final = 0.999_99
"""Share of inodes in use from which on none counts as left."""


class Folder(NamedTuple):
    """A folder of a host that something of the launch is written into.

    ``told``: that it is not there is said of it; ``file`` must be appended to or replaced.
    """

    what: str
    place: Place
    told: bool = True
    file: Place | None = None


class Look(NamedTuple):
    """A question to a host, and what its answer speaks for and against."""

    name: str
    what: str
    ask: Ask
    read: Callable[[Any], list[Check]]


async def places_away(
    run: RunSpec, words: Sequence[str], pick: Pick | None, need: int | None
) -> list[Check]:
    """Return what speaks against starting this run's job on its host, tried by doing there."""
    hosts: dict[str, list[Folder]] = {}
    for folder in folders(run):
        hosts.setdefault(folder.place.host, []).append(folder)
    looks = {host: list(_of_folders(own, need)) for host, own in hosts.items()}
    job = run.job
    if job is not None and job.host and PLATFORMS[job.kind].starts == "host":
        looks.setdefault(job.host, []).extend(_of_job(run, job, words))
    origin = None if pick is None else place_of(pick.path)
    if pick is not None and origin is not None and origin.scheme == SSH:
        looks.setdefault(origin.host, []).append(_of_checkpoint(origin, pick))
    found = await asyncio.gather(*(_asked(*each) for each in looks.items()))
    checks = [check for own in found for check in own]
    if hosts and not checks:
        said = ", ".join(dict.fromkeys(each.what for own in hosts.values() for each in own))
        checks = [passed(ID, f"writable on {', '.join(hosts)}: {said}")]
    return checks


async def _asked(host: str, looks: Sequence[Look]) -> list[Check]:
    answers = await link_to(host).ask([ABOUT, *(each.ask for each in looks)], patience=DEADLINE)
    away = answers[ABOUT]
    if isinstance(away, Problem):
        return [blocked(ID, f"its folders on {host} cannot be checked: {away.message}")]
    checks: list[Check] = []
    for look in looks:
        said = answers[look.ask]
        if isinstance(said, Problem):
            checks.append(
                blocked(look.name, f"{look.what} on {host} did not answer: {said.message}")
            )
        else:
            checks += look.read(said)
    return checks


def folders(run: RunSpec) -> Iterator[Folder]:
    """Yield the folders of ssh hosts that a launch writes into."""
    root, job = run.output_root, run.job
    if root is not None and root.scheme == SSH:
        yield Folder("the output root", root.normal())
        for below in (BELOW.parent, BELOW):
            yield Folder("the cockpit's notes in it", root.normal().below(*below.parts), told=False)
    if job is not None and job.host and PLATFORMS[job.kind].starts == "host":
        for what, place in (
            ("the log's folder", job.log),
            ("the pid file's folder", job.pid_file),
            ("the exit file's folder", job.exit_file),
        ):
            if place is not None and place.scheme == SSH and not set("*?[%") & set(place.path):
                yield Folder(what, _parent(place), file=place)
    for place in run.checkpoints.path if run.checkpoints is not None else ():
        if place.scheme == SSH:
            yield Folder("the checkpoints' folder", place)


def _parent(place: Place) -> Place:
    return Place(place.scheme, place.host, str(PurePosixPath(place.path).parent))


def _of_folders(own: Sequence[Folder], need: int | None) -> Iterator[Look]:
    for folder in own:
        asked = shell(f"{folder.what} ({folder.place})", _tried(folder))
        yield Look(ID, folder.what, asked, lambda said, of=folder: _told(of, said))  # type: ignore[misc]
    for folder in {each.place: each for each in own}.values():
        asked = disk_asks([folder.place])[folder.place]
        yield Look(DISK, folder.what, asked, lambda said, of=folder: _room(of, said, need))  # type: ignore[misc]


_TRIED: Final = """\
d={folder}; f={file}; LC_ALL=C; export LC_ALL; t=.cockpit-try-$$
why() {{ printf 'cannot|%s|%s\\n' "${{1##*: }}" "$2"; exit; }}
if [ -d "$d" ]; then
  e=$(dd if=/dev/zero of="$d/$t" bs=65536 count=1 conv=fsync 2>&1); r=$?
  rm -f "$d/$t"; e=$(printf '%s\\n' "$e" | grep '^dd:' | head -n 1)
  [ $r -eq 0 ] || why "$e" "$d"
elif [ -e "$d" ] || [ -L "$d" ]; then echo 'no folder'; exit
else
  p=$d
  while [ ! -e "$p" ] && [ ! -L "$p" ]; do
    case $p in /|.) break;; */*) p=${{p%/*}}; p=${{p:-/}};; *) p=.;; esac
  done
  e=$(mkdir "$p/$t" 2>&1) || why "$e" "$p"
  rmdir "$p/$t"
  m=$(while read -r s m r; do case $s in '#'*|'') continue;; esac
    case $d/ in "${{m%/}}"/*) grep -q " $m " /proc/mounts || echo "$m";; esac
  done </etc/fstab | head -n 1)
  printf 'missing|%s|%s\\n' "$p" "$m"
fi
[ -n "$f" ] && {{ [ -e "$f" ] || [ -L "$f" ]; }} || exit
[ ! -d "$f" ] || why ': is a directory' "$f"
[ {append} -eq 0 ] || [ -p "$f" ] || e=$( (: >>"$f") 2>&1) || why "$e" "$f"
[ {append} -eq 1 ] || [ ! -k "$d" ] || [ -O "$f" ] || [ -O "$d" ] || [ "$(id -u)" -eq 0 ] ||
  why ': only its owner may replace it' "$f"
"""


def _tried(folder: Folder) -> str:
    file = "" if folder.file is None else spelled(folder.file)
    append = int(folder.what.startswith("the log"))
    return _TRIED.format(folder=spelled(folder.place), file=file, append=append)


def _told(folder: Folder, said: Sequence[Any]) -> list[Check]:
    """Return what trying to write into a folder has told."""
    checks: list[Check] = []
    for line in said[1].splitlines():
        word, _, rest = line.partition("|")
        first, _, second = rest.partition("|")
        if word == "no folder":
            checks.append(no_folder(folder.what, str(folder.place)))
        elif word == "cannot":
            why = clean(first, 160).lower() or "no file can be written"
            checks.append(unwritable(folder.what, why, f"{folder.place.host}:{second}"))
        elif word == "missing" and folder.told:
            missing = _missing(first, second)
            checks += [missing_place(folder.what, str(folder.place), missing)] if missing else []
    return checks


def _missing(above: str, disk: str) -> Missing | None:
    if disk:
        return Missing(f"the disk at {shown(disk)} is not mounted there", sure=True)
    if above in HOLDS_DISKS or str(Path(above).parent) in ("/media", "/run/media"):
        text = f"it would be created in {shown(above)}: check that no disk is missing"
        return Missing(text, sure=False)
    return None


def _room(folder: Folder, said: Mapping[str, Any], need: int | None) -> list[Check]:
    disk = disk_of(said)
    counted = disk.inodes_frac is not None
    left = 0 if disk.inodes_frac is not None and disk.inodes_frac >= FULL else 1_000_000
    room = Room(disk.free or 0, left, int(disk.free is not None), int(counted))
    return room_of(folder.what, f"{folder.place.host}:{disk.mount}", room, need)


_PROGRAM: Final = """\
cd -- {workdir} || {{ echo workdir; exit; }}
{program}
{script}"""
_FOUND: Final = """\
p={word}
case $p in
*/*) if [ ! -f "$p" ]; then echo program; elif [ ! -x "$p" ]; then echo 'program file'; fi;;
*) command -v "$p" >/dev/null || echo program;;
esac"""
_LOCKS: Final = """\
[ -r /proc/self/stat ] || echo 'no /proc'
command -v setsid >/dev/null || echo 'no setsid'"""


def _of_job(run: RunSpec, job: JobSpec, words: Sequence[str]) -> Iterator[Look]:
    """Yield what tries whether the command could begin on its host."""
    workdir = job.workdir or run.workdir
    if words and workdir is not None:
        script, program = script_of(words), words[0]
        known = "" if "$" in program else _FOUND.format(word=word_of(program, first=True))
        there = "" if script is None else f"[ -e {quote(script)} ] || echo script"
        text = _PROGRAM.format(workdir=spelled(workdir), program=known, script=there)
        asked = shell("its program", text)

        def read(said: Sequence[Any]) -> list[Check]:
            return _begins(said, f"{job.host}:{workdir.path}", program, script)

        yield Look(PROGRAM, "the workdir", asked, read)
    if PLATFORMS[job.kind].supervised:
        yield Look(LAUNCHER, "the launcher", shell("its launcher", _LOCKS), _locks)


def _begins(said: Sequence[Any], workdir: str, program: str, script: str | None) -> list[Check]:
    lines = said[1].splitlines()
    if "workdir" in lines:
        return [no_workdir(workdir)]
    checks = [
        no_program(program, is_file=line.endswith("file"))
        for line in lines
        if line in ("program", "program file")
    ]
    if not checks and script is not None and "script" in lines:
        checks.append(no_script(script, workdir))
    return checks


def _locks(said: Sequence[Any]) -> list[Check]:
    """Return what a host lacks for a launch of ours."""
    lines = said[1].splitlines()
    return [
        blocked(LAUNCHER, f"the host has {line}: nothing can be started there")
        for line in lines
        if line in ("no /proc", "no setsid")
    ]


_READ: Final = """\
p={path}; LC_ALL=C; export LC_ALL
[ -e "$p" ] || {{ echo "$p: not found there"; exit; }}
{{ find -H "$p" -type f 2>&1 || :; }} | head -n {most} | while IFS= read -r f; do
  case $f in find:*) echo "$f"; break;; esac
  e=$(head -c 1 -- "$f" 2>&1 >/dev/null) || {{ echo "$e"; break; }}
done"""


def _of_checkpoint(origin: Place, pick: Pick) -> Look:
    script = _READ.format(path=spelled(origin), most=MOST_READ)

    def read(said: Sequence[Any]) -> list[Check]:
        line = clean(said[1].strip(), 300)
        why = line.rpartition(": ")[2].lower()
        return [unreadable(pick, why, str(origin))] if line else []

    return Look(READABLE, "the checkpoint", shell("the checkpoint", script), read)
