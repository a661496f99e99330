"""Proven before anything is stopped, on the job's own host: its folders take a file (SPEC A).

One script for each host makes a small file in each folder, or in the nearest one above it, and
takes it away again. A host that does not answer blocks; what lies in a store is not tried, and
that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.model.place import SSH, Place
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.model.wording import size
from cockpit.runtime.ssh import RemoteError, run_script
from cockpit.runtime.ssh_limit import LIMITED, TIMED_OUT
from cockpit.sources.scripts import word_of
from cockpit.text.checks import blocked, passed, shown, warned

ID: Final = "places"
DISK: Final = "disk"
WITHIN: Final = 12.0
HOLDS: Final = 5
"""Seconds that one folder may take: a disk that hangs is said, and hangs nothing else."""
TRIED: Final = 65_536
LEAST: Final = 16_000_000
"""Bytes that a log and a few notes need where the size of a checkpoint is not known."""
_SCRIPT: Final = """\
try() {
  limited %(holds)d sh -c '
    d=$1
    [ ! -e "$d" ] || [ -d "$d" ] || { echo "it is no folder" >&2; exit 1; }
    while [ ! -d "$d" ]; do u=${d%%/*}; d=${u:-/}; done
    t=$(mktemp "$d/.cockpit-try-XXXXXX") || exit 1
    head -c %(tried)d /dev/zero >"$t"; r=$?
    rm -f "$t"
    [ $r = 0 ] || exit 1
    df -Pk "$d" | awk "END {print \\$4}"' sh "$2" >"$o" 2>&1
  printf '%%s %%s ' "$1" $?
  tr '\\n' ' ' <"$o" | head -c 300
  echo
}
o=$(mktemp) || exit 1
trap 'rm -f "$o"' EXIT
"""


class _Tried(NamedTuple):
    """A folder of a host that something of the launch is written into."""

    what: str
    place: Place


async def places_away(run: RunSpec, need: int | None) -> list[Check]:
    """Return what speaks against starting the run's job where it writes on other machines.

    ``need`` is the size of the newest checkpoint, in bytes.
    """
    found = list(_folders(run))
    hosts = dict.fromkeys(each.place.host for each in found)
    checks = [*_in_stores(run)]
    for host in hosts:
        checks += await _on(host, [each for each in found if each.place.host == host], need)
    return checks


def _folders(run: RunSpec) -> Iterator[_Tried]:
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    named = [("the output root", run.output_root)]
    named += [("the checkpoints' folder", root) for root in roots]
    for what, place in named:
        if place is not None and place.scheme == SSH:
            yield _Tried(what, place)
    job = run.job
    files = () if job is None else (("log", job.log), ("pid file", job.pid_file))
    for name, place in files:
        if place is not None and place.scheme == SSH and not set("*?[%") & set(place.path):
            above = re.sub(r"(?<=.)/[^/]*$|^/[^/]*$", "", place.path) or "/"
            yield _Tried(f"the {name}'s folder", Place(SSH, place.host, above))


def _in_stores(run: RunSpec) -> Iterator[Check]:
    root = run.output_root
    if root is not None and not root.here and root.scheme != SSH:
        text = f"{shown(str(root))} is not tried from here: whether the job may write there is open"
        yield warned(ID, text)


async def _on(host: str, folders: list[_Tried], need: int | None) -> list[Check]:
    lines = [LIMITED, _SCRIPT % {"holds": HOLDS, "tried": TRIED}]
    lines += [f"try {at} {word_of(each.place.path)}" for at, each in enumerate(folders)]
    try:
        done = await run_script(host, "\n".join(lines), deadline=WITHIN)
    except RemoteError as error:
        return [blocked(ID, f"whether the job could write on {shown(host)} is unknown: {error}")]
    told = dict(_told(done.out.decode("utf-8", "replace")))
    checks = []
    for at, each in enumerate(folders):
        checks += _judged(each, told.get(at), need)
    if not checks:
        said = ", ".join(dict.fromkeys(each.what for each in folders))
        checks.append(passed(ID, f"a file could be written on {shown(host)}: {said}"))
    return checks


def _told(text: str) -> Iterator[tuple[int, tuple[int, str]]]:
    for line in text.splitlines():
        found = re.fullmatch(r"(\d+) (\d+) (.*?) *", line)
        if found is not None:
            yield int(found[1]), (int(found[2]), found[3])


def _judged(folder: _Tried, told: tuple[int, str] | None, need: int | None) -> list[Check]:
    """Return what speaks against one folder: its script's status, and the kilobytes left."""
    where = shown(str(folder.place))
    if told is None or told[0] == TIMED_OUT:
        return [blocked(ID, f"{folder.what} gives no answer within {HOLDS} s: {where}")]
    status, said = told
    if status != 0:
        why = said.rpartition(": ")[2].lower() or "it takes no file"
        return [blocked(ID, f"{folder.what} cannot be written by this user: {why} ({where})")]
    saves = folder.what in ("the output root", "the checkpoints' folder")
    least = max(LEAST, (need or 0) if saves else 0)
    free = int(said) * 1024 if said.isdigit() else None
    if free is not None and free < least:
        what = "a checkpoint" if least == need else "a log"
        text = f"the disk of {folder.what} ({where}) has {size(free)} left, and {what} takes "
        return [blocked(DISK, f"{text}{size(least)}").model_copy(update={"moves": True})]
    return []
