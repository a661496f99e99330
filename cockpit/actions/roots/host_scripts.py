"""What is done to checkpoints on an ssh host, as POSIX ``sh``: each script looks before it acts.

What a script finds done already it leaves, so that each may run again after a link broke. Its
status says why it did nothing; what it has begun goes on on its host, whatever becomes of us.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cockpit.runtime.ssh import quote
from cockpit.sources.checkpoints.host import word

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
