"""Roots on an ssh host: the same renames and deletions as on this machine, by its shell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.retention.here import LEFT
from cockpit.actions.retention.ways import (
    ASIDE,
    Access,
    Half,
    Move,
    RootError,
    RootLostError,
    ToReject,
    day_of,
    merged,
)
from cockpit.hosts.script import run_script
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.records import Rejected
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.sources.checkpoints.contents import REJECTED_FOLDER as FOLDER
from cockpit.sources.checkpoints.contents import REJECTED_NAME as NAME
from cockpit.sources.checkpoints.contents import parse_marks
from cockpit.sources.checkpoints.host import word
from cockpit.sources.checkpoints.listing import MARKERS
from cockpit.text.safe import clean

CHANGED: Final = 91
IN_THE_WAY: Final = 92
REFUSED: Final = 93
OUTSIDE: Final = 94
ABSENT: Final = 95
A_LINK: Final = 96
OTHER_DISK: Final = 97
UNSEEN: Final = 98
HALF: Final = 99
REASONS: Final = {
    CHANGED: "has changed since it was listed",
    IN_THE_WAY: "its new name is taken already",
    REFUSED: "cannot be changed by this user",
    OUTSIDE: "is not inside a checkpoint root of this run",
    ABSENT: "is not there",
    A_LINK: "is a link or not a folder: left alone",
    OTHER_DISK: "is not on the file system of its root",
    UNSEEN: "cannot be found: its folder is missing, or closed to this user",
    HALF: "is half deleted, and goes with the next clean-up",
}
"""What the last line of a script's errors says is added to it."""
_HEAD: Final = r"""LC_ALL=C; export LC_ALL
stats() { stat -c "$1" "$3" 2>/dev/null || stat -f "$2" "$3" 2>/dev/null; }
plain() { [ -e "$1" ] || [ -L "$1" ] || exit 95
  [ ! -L "$1" ] || exit 96; [ -d "$1" ] || [ -f "$1" ] || exit 96; }
ident() { stats '%d %i %y' '%d %i %Fm' "$1"; p=$1; shift
  for m; do [ ! -e "$p/$m" ] || printf '%s %s\n' "$m" "$(stats '%i %y %s' '%i %Fm %z' "$p/$m")"
  done; }
inside() { r=$(cd -P -- "$1" 2>/dev/null && pwd -P) || exit 94
  d=$(cd -P -- "$(dirname -- "$2")" 2>/dev/null && pwd -P) || exit 94
  case "$d/" in "${r%/}/"*) ;; *) exit 94;; esac; }
"""


def _words(names: Iterable[str]) -> str:
    return " ".join(quote(name) for name in names)


def identity(path: str, markers: Iterable[str]) -> str:
    """Return the script that says what tells a checkpoint from another one."""
    return f"{_HEAD}plain {word(path)}\nident {word(path)} {_words(markers)}\n"


def delete(root: str, path: str, aside: str, was: str, markers: Iterable[str]) -> str:
    """Return the script that renames a checkpoint, takes its markers, then all of it."""
    names = tuple(markers)
    return f"""{_HEAD}p={word(path)}; a={word(aside)}
plain "$p"
inside {word(root)} "$p"
[ "$(ident "$p" {_words(names)})" = {quote(was)} ] || exit {CHANGED}
if [ "$p" != "$a" ]; then
[ ! -e "$a" ] && [ ! -L "$a" ] || exit {IN_THE_WAY}
mv -- "$p" "$a" || exit {REFUSED}
fi
if [ -d "$a" ]; then for m in {_words(names) or "''"}; do [ -z "$m" ] || rm -f -- "$a/$m"; done; fi
rm -rf -- "$a"
[ ! -e "$a" ] || exit {HALF}
"""


def move(was: str, target: str) -> str:
    """Return the script that renames inside one file system."""
    return f"""{_HEAD}p={word(was)}; t={word(target)}; d=$(dirname -- "$t")
if [ ! -e "$p" ] && [ ! -L "$p" ]; then [ -e "$t" ] && exit 0; exit {ABSENT}; fi
[ ! -e "$t" ] && [ ! -L "$t" ] || exit {IN_THE_WAY}
[ ! -L "$d" ] || exit {A_LINK}
[ -d "$d" ] || mkdir -- "$d" || exit {REFUSED}
mv -- "$p" "$t" || exit {REFUSED}
"""


def movable(root: str, paths: Iterable[str]) -> str:
    """Return the script that proves that a root takes a folder, and lies on one disk.

    It prints the path that speaks against it, where it is not the root.
    """
    lines = [f"{_HEAD}r={word(root)}", 't="$r/.cockpit-try-$$"']
    lines.append(f'mkdir -- "$t" && rmdir -- "$t" || exit {REFUSED}')
    for path in paths:
        lines.append(f"p={word(path)}")
        lines.append(f'[ -e "$p" ] || [ -L "$p" ] || {{ printf %s "$p"; exit {ABSENT}; }}')
        same = '[ "$(stats %d %d "$p")" = "$(stats %d %d "$r")" ]'
        lines.append(f'{same} || {{ printf %s "$p"; exit {OTHER_DISK}; }}')
    return "\n".join(lines) + "\n"


def there(*paths: str) -> str:
    """Return the script that says of each path whether anything has that name: 1 or 0."""
    tests = (f"if [ -e {p} ] || [ -L {p} ]; then echo 1; else echo 0; fi" for p in map(word, paths))
    return "\n".join(tests) + "\n"


def gone(path: str) -> str:
    """Return the script that says whether nothing is left of it, half deleted or whole: 0 or 1."""
    return f"""p={word(path)}; d=$(dirname -- "$p")
[ -d "$d" ] && [ -r "$d" ] && [ -x "$d" ] || exit {UNSEEN}
for e in "$p" "$p".deleting-*; do
[ ! -e "$e" ] && [ ! -L "$e" ] || {{ echo 0; exit; }}
done; echo 1
"""


def read_file(path: str) -> str:
    """Return the script that prints a file's checksum, then its bytes; ``none`` without one."""
    p = word(path)
    head = "LC_ALL=C; export LC_ALL"
    return f"{head}\nif [ -f {p} ]; then cksum < {p} && cat {p}; else echo none; fi\n"


def write_file(folder: str, name: str, was: str) -> str:
    """Return the script that puts its input in a file's place if that still is what it was."""
    return f"""LC_ALL=C; export LC_ALL; d={word(folder)}; f="$d/"{quote(name)}; t="$f.$$"
[ ! -L "$d" ] || exit {A_LINK}
[ -d "$d" ] || mkdir -- "$d" || exit {REFUSED}
cat > "$t" || {{ rm -f -- "$t"; exit {REFUSED}; }}
chmod 644 "$t"
now=none; [ ! -f "$f" ] || now=$(cksum < "$f")
[ "$now" = {quote(was)} ] || {{ rm -f -- "$t"; exit {CHANGED}; }}
mv -f -- "$t" "$f" || {{ rm -f -- "$t"; exit {REFUSED}; }}
"""


def half_deleted(roots: Iterable[str]) -> str:
    """Return the script that names folders whose deletion was begun, with their kilobytes."""
    return f"""{_HEAD}for r in {" ".join(word(root) for root in roots)}; do
for p in "$r"/*.deleting-*; do [ -d "$p" ] || continue
printf '%s %s\\0' "$(du -sk "$p" 2>/dev/null | cut -f1)" "$p"; done; done
"""


DEADLINE: Final = 20.0
DELETE_WITHIN: Final = 3600.0
CAP: Final = 8 << 20
TRIES: Final = 5
ASIDES: Final = 100
NONE: Final = "none"


class HostWays:
    """Acts on one host; ``roots`` are the run's own there, below which it may delete."""

    def __init__(self, host: str, roots: Sequence[Place]) -> None:
        self._host = host
        self._roots = [root for root in roots if root.scheme == SSH and root.host == host]

    async def access(self, root: Place, *, delete: bool) -> Access:
        """Prove that the root takes a folder and lets it go."""
        try:
            why = await self._refusal(movable(root.path, ()))
        except (RootError, RootLostError) as error:
            return Access(str(error))
        return Access(None if why is None else f"{root} {why}")

    async def mark(self, root: Place, rejected: Iterable[Rejected]) -> None:
        """Replace the root's own file if nobody has since it was read, a few times."""
        wanted, folder = tuple(rejected), f"{root.path.rstrip('/')}/{FOLDER}"
        for _ in range(TRIES):
            said = await self._run(read_file(f"{folder}/{NAME}"), DEADLINE)
            if said.rc != 0:
                raise RootError(f"{root}/{FOLDER}/{NAME} cannot be read: {_said(said)}")
            was, _, content = said.out.partition(b"\n")
            there = was.decode("ascii", "replace").strip()
            try:
                known = () if there == NONE else parse_marks(str(root), content)
            except ValueError as error:
                raise RootError(str(error)) from error
            data = merged(str(root), known, wanted).encode()
            if data == content:
                return
            script = write_file(folder, NAME, there)
            done = await self._run(script, DEADLINE, stdin=data)
            if done.rc == 0:
                return
            if done.rc != CHANGED:
                raise RootError(f"{root}/{FOLDER} {_reason(done)}")
        raise RootError(f"{root}/{FOLDER}/{NAME} keeps being changed by others")

    async def why_not_movable(self, to_reject: Sequence[ToReject]) -> str | None:
        """Return why one of them cannot be renamed inside its root, if that is so."""
        for root in dict.fromkeys(each.root for each in to_reject):
            mine = [each.path for each in to_reject if each.root == root]
            odd = next((path for path in mine if path.rpartition("/")[0] != root.rstrip("/")), None)
            if odd is not None:
                return f"{odd} does not lie directly in its root"
            script = movable(place_of(root).path, (place_of(path).path for path in mine))
            done = await self._run(script, DEADLINE)
            if done.rc != 0:
                return f"{clean(done.text.strip()) or root} {_reason(done)}"
        return None

    def moves(self, each: ToReject) -> bool:
        """Tell that every folder can be renamed."""
        return True

    def unmarked(self, each: ToReject, at: float) -> tuple[str, str] | None:
        """Return nothing: all of it moves."""
        return None

    async def aside(self, each: ToReject, at: float) -> Move:
        """Return a free place in ``<root>/rejected-<date>/``."""
        name, day = each.path.rstrip("/").rpartition("/")[2], day_of(at)
        folders = [f"{ASIDE}{day}{f'-{n}' if n > 1 else ''}" for n in range(1, ASIDES)]
        targets = [f"{each.root.rstrip('/')}/{folder}/{name}" for folder in folders]
        found = await self._there(*targets)
        free = (target for target, taken in zip(targets, found, strict=True) if not taken)
        target = next(free, None)
        if target is None:
            raise RootError(f"{each.root}: {ASIDES} folders {ASIDE}{day} hold a {name}")
        return Move(each.path, target)

    async def move(self, each: Move) -> None:
        """Rename."""
        script = move(place_of(each.was).path, place_of(each.target).path)
        why = await self._refusal(script)
        if why is not None:
            raise RootError(f"{each.was} {why}")

    async def has_moved(self, each: Move) -> bool:
        """Tell whether the rename has happened."""
        return await self._there(each.was, each.target) == [False, True]

    async def identity(self, path: str, markers: Iterable[str]) -> str:
        """Return its inode and times, and those of its markers."""
        script = identity(place_of(path).path, _inner(markers))
        done = await self._run(script, DEADLINE)
        if done.rc != 0 or not done.out.strip():
            raise RootError(f"{path} {_reason(done)}")
        return done.out.decode("utf-8", "surrogateescape").rstrip("\n")

    async def delete(self, path: str, was: str, plan: str, markers: Iterable[str]) -> None:
        """Rename it, then its marker goes, then its data: one script, which looks first."""
        place = place_of(path)
        root = next((root for root in self._roots if root.contains(place)), None)
        if root is None or root.normal() == place.normal():
            raise RootError(f"{path} {REASONS[OUTSIDE]}")
        half = LEFT.fullmatch(place.path.rpartition("/")[2])
        aside = place.path if half else f"{place.path.rstrip('/')}.deleting-{plan}"
        script = delete(root.path, place.path, aside, was, _inner(markers))
        why = await self._refusal(script, DELETE_WITHIN)
        if why is not None:
            raise RootError(f"{path} {why}")

    async def left_over(self, roots: Sequence[Place]) -> list[Half]:
        """Return the folders whose deletion was begun."""
        mine = {root.path: root for root in roots if root.scheme == SSH and root.host == self._host}
        if not mine:
            return []
        done = await self._run(half_deleted(mine), DEADLINE)
        found = []
        for record in done.out.decode("utf-8", "surrogateescape").split("\0"):
            size, _, path = record.partition(" ")
            if path and LEFT.fullmatch(path.rpartition("/")[2]):
                address = str(replace(next(iter(mine.values())), path=path))
                found.append(Half(address, int(size) * 1024 if size.isdigit() else None))
        return found

    async def gone(self, path: str) -> bool:
        """Tell whether nothing has that name, nor the one it has while it is deleted."""
        done = await self._run(gone(place_of(path).path), DEADLINE)
        if done.rc != 0 or done.out.strip() not in (b"0", b"1"):
            raise RootError(f"{path} {_reason(done)}")
        return done.out.strip() == b"1"

    async def _there(self, *paths: str) -> list[bool]:
        script = there(*(place_of(path).path for path in paths))
        done = await self._run(script, DEADLINE)
        said = done.out.split()
        if len(said) != len(paths) or set(said) - {b"0", b"1"}:
            raise RootLostError(f"{self._host}: its shell's answer cannot be parsed")
        return [each == b"1" for each in said]

    async def _refusal(self, script: str, deadline: float = DEADLINE) -> str | None:
        done = await self._run(script, deadline)
        return None if done.rc == 0 else _reason(done)

    async def _run(self, script: str, deadline: float, stdin: bytes | None = None) -> Completed:
        try:
            return await run_script(self._host, script, deadline=deadline, cap=CAP, stdin=stdin)
        except RemoteError as error:
            kind = RootLostError if error.sent else RootError
            raise kind(clean(error, 500)) from error
        except TimeoutError as error:
            raise RootLostError(f"{self._host}: no answer within {deadline:g} s") from error


def _reason(done: Completed) -> str:
    known, said = REASONS.get(done.rc), _said(done)
    if known is None:
        return f"cannot be changed (status {done.rc}{f': {said}' if said else ''})"
    return f"{known}: {said}" if said else known


def _said(done: Completed) -> str:
    """Return why the host's last command failed, as it says itself."""
    lines = done.err.decode("utf-8", "replace").strip().splitlines()
    return clean(lines[-1].rpartition(": ")[2].lower(), 200) if lines else ""


def _inner(markers: Iterable[str]) -> list[str]:
    """Return the markers to look for inside a folder; a name that leads out of it is none."""
    names = {*MARKERS, *markers}
    return sorted(
        n for n in names if n and not n.startswith(("/", "-")) and ".." not in n.split("/")
    )
