"""Finds and reads the ``.wandb`` files of many runs on a host: scripts for ``sh``, their answers.

All folders are looked through by one shell, with one time limit. Where that runs out, each is
looked through with its own, so that a dead mount does not cost the others their answer.
"""

from __future__ import annotations

import errno
import stat as modes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NamedTuple, Protocol

from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import ASKING, LIMITED, quote
from cockpit.sources.logs.pieces import Answer, Ask, LaterError, Told
from cockpit.sources.run_folders import living
from cockpit.sources.scripts import (
    Record,
    Written,
    broken_off,
    failure,
    is_pattern,
    looking,
    marking,
    new_mark,
    paths_in,
    records,
    told,
    word_of,
    writing,
    written_in,
)
from cockpit.sources.wandb.fragment import (
    MOST_LAUNCHES,
    Launch,
    id_in_name,
    launch_name,
    notes_on,
    runs_of,
)
from cockpit.sources.wandb.run_files import missing
from cockpit.text.safe import clean

LIMIT: Final = 3
"""Seconds that looking through all folders may take, and through one of them apart."""
MOST: Final = 300
"""Files that are named of one folder: those of the newest launches, as their names sort."""
SUFFIX: Final = ".wandb"
_LINK: Final = "latest-run"

_ONE: Final = r"""
if stat -c %%s / >/dev/null 2>&1; then S=-c F='%%s %%.9Y %%n'; else S=-f F='%%z %%Fm %%N'; fi
say() { for f; do [ -f "$f" ] && { printf '%%s\0' "$f"; n=$((n + 1)); }; done; }
sizes() {
  [ $# -gt %(launches)d ] && shift $(($# - %(launches)d))
  stat -L $S "$F" "$@" 2>/dev/null
}
last() { [ $# -gt %(most)d ] && shift $(($# - %(most)d)); say "$@"; }
one() {
  d=$2 r=$3; mark dir "$1"
  if [ -f "$d" ]; then mark file; say "$d"; return; fi
  if ! [ -e "$d" ]; then
    case $(ls -d "$d" 2>&1) in *ermission*) mark fail denied;; *) mark fail missing;; esac; return
  fi
  [ -d "$d" ] || { mark fail nofolder; return; }
  [ -r "$d" ] && [ -x "$d" ] || { mark fail denied; return; }
  for x in "$d" "$d/wandb"; do
    [ -d "$x" ] || continue
    n=0; mark own; last "$x"/run-*.wandb; [ -n "$r" ] && say "$x/run-$r.wandb"
    if [ $n -gt 0 ]; then
      if [ -z "$r" ] || [ -f "$x/run-$r.wandb" ]; then return; fi
      continue
    fi
    mark launches
    if [ -n "$r" ]; then say "$x"/*/"run-$r.wandb"
    else last "$x"/run-*/run-*.wandb; last "$x"/offline-run-*/run-*.wandb; fi
    if [ $n -gt 1 ] && [ -z "$r" ]; then
      mark sizes; sizes "$x"/run-*/run-*.wandb; sizes "$x"/offline-run-*/run-*.wandb
    fi
    [ $n -gt 0 ] && return
  done
  [ -n "$r" ] || return
  mark others
  for x in "$d" "$d/wandb"; do
    last "$x"/run-*/run-*.wandb; last "$x"/offline-run-*/run-*.wandb; last "$x"/run-*.wandb
  done
}
while [ $# -gt 2 ]; do one "$1" "$2" "$3"; mark done "$1"; shift 3; done
"""


class Wanted(NamedTuple):
    """Where the files of a run lie (a file or a folder, as its host spells it), and which run.

    ``label`` is what the place is called in what is said of it.
    """

    place: str
    run_id: str | None
    label: str = ""


class Files(NamedTuple):
    """The paths of a run's files, at least one, and those of them that a process there writes.

    ``notes`` name the other runs that lie there; safe text.
    """

    paths: Sequence[str]
    written: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


Found = Files | OSError
"""What there is of a run, or why there is nothing."""


@dataclass(frozen=True)
class Listing:
    """A part of a script for some runs, and the reader of its output."""

    wanted: Sequence[Wanted]
    mark: str = field(default_factory=new_mark)

    @property
    def script(self) -> str:
        """The lines to run in a subshell; raises ``ValueError`` for what no shell can be given."""
        words = [
            f"{number} {word_of(each.place)} {quote(each.run_id or '')}"
            for number, each in enumerate(self.wanted)
        ]
        one = _ONE % {"most": MOST, "launches": MOST_LAUNCHES}
        zone = 'mark zone "$(date +%z)"\n'
        return f"{looking(one, words, self.mark, LIMIT)}{zone}{writing(SUFFIX)}"

    def answers(self, out: bytes) -> list[Found]:
        """Return what was found of each run."""
        written, zone = written_in(out, self.mark), _zone(out, self.mark)
        each = enumerate(told(out, self.mark, len(self.wanted)))
        return [
            broken_off() if own is None else self._files_of(number, own, written, zone)
            for number, own in each
        ]

    def _files_of(self, number: int, own: Sequence[Record], written: Written, zone: str) -> Found:
        place, run_id, label = self.wanted[number]
        launches = [
            each for words, payload in own if words[0] == "sizes" for each in _sizes(payload)
        ]
        runs = runs_of(launches, written.among(each.path for each in launches), zone)
        goes_on = living(runs).name if runs else None
        others: list[str] = []
        for words, payload in own:
            if words[0] == "fail":
                return failure(words[-1], place, LIMIT)
            if words[0] == "sizes":
                continue
            paths = paths_in(payload)
            whole = words[0] == "file" or (words[0] == "own" and run_id is None)
            mine = sorted(set(paths)) if whole else _of_run(paths, run_id or goes_on)
            if words[0] != "others" and mine:
                notes = notes_on(runs, id_in_name(mine[0]))
                return Files(mine, written.among(mine) or frozenset(), notes)
            others += paths
        ids = dict.fromkeys(id_in_name(path) for path in _newest_first(others))
        return FileNotFoundError(missing(label or place, run_id, tuple(ids)))


def _zone(out: bytes, mark: str) -> str:
    """Return the time zone of the host (``+0100``), empty where it tells none."""
    found = [words[1] for words, _ in records(out, mark) if words[0] == "zone" and len(words) == 2]
    return found[0] if found else ""


def _sizes(payload: bytes) -> Iterator[Launch]:
    """Yield each file with what ``stat`` says of it; a name of two lines is left out."""
    for line in payload.decode("utf-8", "surrogateescape").splitlines():
        size, _, rest = line.partition(" ")
        at, _, path = rest.partition(" ")
        with suppress(ValueError):
            yield Launch(path, int(size), float(at))


def _of_run(paths: Sequence[str], wanted: str | None) -> list[str]:
    """Return the files of one run: without an id those of the newest launch's."""
    if wanted is None and paths:
        wanted = id_in_name(_newest_first(paths)[0])
    mine = sorted({path for path in paths if id_in_name(path) == wanted})
    return [path for path in mine if PurePosixPath(path).parent.name != _LINK] or mine


def _newest_first(paths: Sequence[str]) -> list[str]:
    return sorted(paths, key=launch_name, reverse=True)


PAGE: Final = 4096
"""Bytes: what is sent begins and ends at multiples of it, as ``dd`` counts."""
PIECE_LIMIT: Final = 2
"""Seconds that measuring a file may take on its host; all together, if none hangs."""
SENDING: Final = 6
"""Seconds that sending a file's bytes may take, through a slow link perhaps."""
LATE: Final = 2
"""Files that may take longer: then the rest is not looked at any more."""
MOST_BESIDE: Final = 200
"""Files of one folder that are looked at."""
_PRELUDE: Final = r"""
LC_ALL=C; export LC_ALL; late=0 room=%(room)d
%(limited)sif stat -c %%s / >/dev/null 2>&1; then S=-c F='%%d %%i %%s %%.9Y %%f'
else S=-f F='%%d %%i %%z %%Fm %%Xp'; fi
%(marking)s
slow() { late=$((late + 1)); mark fail "$1" timeout; }
one() {
  i=$1 f=$2 own=$3 old=$4 from=0 to=0; shift 4
  mark log "$i"; printf %%s "$f"
  if [ -z "$f" ]; then slow "$i"; return; fi
  if [ "$late" -ge %(late)d ]; then mark fail "$i" timeout; return; fi
  eval "s=\${s_$i-}"; r=0
  [ -n "$s" ] || { s=$(limited %(limit)d stat -L $S "$F" "$f" 2>&1); r=$?; }
  if [ $r -eq 124 ]; then slow "$i"; return; fi
  if [ $r -ne 0 ]; then mark fail "$i" said; printf %%s "$s"; return; fi
  mark stat "$i" "$s"
  [ "$s" = "$old" ] && return
  [ -z "$own" ] || [ "$own" = "$f" ] || return
  [ -f "$f" ] || return
  [ -r "$f" ] || { mark fail "$i" denied; return; }
  z=${s#* }; z=${z#* }; z=${z%%%% *}
  while [ $# -ge 4 ]; do
    b=$1 e=$2 l=$3 k=$4; shift 4
    [ "$e" = - ] && e=$z
    [ "$e" -gt "$z" ] && e=$z
    [ "$l" != - ] && [ $((e - l)) -gt "$b" ] && b=$((e - l))
    b=$((b - b %% k)); n=$(((e - b + %(page)d - 1) / %(page)d))
    [ $n -gt 0 ] || continue
    if [ $b -ge $from ] && [ $((b + n * %(page)d)) -le $to ]; then continue; fi
    from=$b to=$((b + n * %(page)d))
    room=$((room - n * %(page)d))
    if [ $room -lt 0 ] && [ "$i" -gt 0 ]; then mark fail "$i" later; return; fi
    mark data "$i" $b
    limited %(sending)d dd if="$f" bs=%(page)d skip=$((b / %(page)d)) count=$n 2>/dev/null
    [ $? -eq 124 ] && { slow "$i"; return; }
  done
}
all='
S=$1 F=$2 i=2 n=$#; shift 2
while [ $i -lt $n ]; do
  f=$1; shift
  [ -e "$f" ] && { printf "%%s " $((i - 2)); set -- "$@" "$f"; }
  i=$((i + 1))
done
echo
[ $# -eq 0 ] || exec stat -L $S "$F" "$@"'
measure() {
  found=$(limited %(limit)d sh -c "$all" %(asking)s $S "$F" "$@" 2>/dev/null) || return
  { read -r ids; for i in $ids; do read -r s && eval "s_$i=\$s"; done; } <<.
$found
.
}
newest='
f=$1; shift
if ! [ -e "$f" ]; then
  n=
  for c in "$@"; do
    [ -f "$c" ] || continue
    if [ -z "$n" ] || ! [ "$n" -nt "$c" ]; then n=$c; fi
  done
  f=${n:-$f}
fi
printf %%s "$f"'
mark now "$(date +%%s)"
"""


class Run(Protocol):
    """Runs a script on a host (``run_script_blocking``)."""

    def __call__(self, host: str | None, script: str, *, deadline: float, cap: int) -> Completed:
        """Return how it ended; raises ``RemoteError``."""


@dataclass(frozen=True)
class Piece:
    """One piece of a script for some files, and the reader of its output.

    ``room`` bounds the bytes that it sends; the first file's are sent in any case.
    """

    asks: Sequence[Ask]
    room: int = 32 << 20
    mark: str = field(default_factory=new_mark)

    @property
    def script(self) -> str:
        """The lines to run in a shell; raises ``ValueError`` for a path that no shell can be given.

        It defines names of its own, so it belongs into a subshell of a longer script.
        """
        found: list[str] = []
        looks: list[str] = []
        for number, ask in enumerate(self.asks):
            spans = " ".join(
                f"{span.begin} {_or(span.end)} {_or(span.last)} {_whole_pages(span.to)}"
                for span in ask.wish.spans
            )
            old = ask.wish.unless if isinstance(ask.wish.unless, str) else ""
            found.append(_found(number, ask.path))
            looks.append(f'one {number} "$f_{number}" {quote(ask.own)} {quote(old)} {spans}')
            if ask.beside:
                looks += _listing(number, f"{word_of(ask.beside)}*")
            elif ask.every:
                looks += _listing(number, word_of(ask.path, magic=True))
        names = " ".join(f'"$f_{number}"' for number in range(len(self.asks)))
        return "\n".join([self._prelude, *found, f"measure {names}", *looks, "mark end", ""])

    @property
    def _prelude(self) -> str:
        return _PRELUDE % {
            "marking": marking(self.mark), "limited": LIMITED, "limit": PIECE_LIMIT, "late": LATE,
            "asking": ASKING, "page": PAGE, "room": self.room, "sending": SENDING,
        }  # fmt: skip

    def answers(self, out: bytes) -> list[Told]:
        """Return what the output says of each file asked for."""
        found = list(self._files(out))
        beside: dict[str, list[Answer]] = {}
        for name, answer in found:
            if "_" in name and isinstance(answer, Answer):
                beside.setdefault(name.partition("_")[0], []).append(answer)
        own = {
            name: told._replace(beside=tuple(beside.get(name, ()))) if isinstance(told, Answer)
            else told
            for name, told in found
        }  # fmt: skip
        return [own.get(str(number), _broken_off()) for number in range(len(self.asks))]

    def _files(self, out: bytes) -> Iterator[tuple[str, Told]]:
        now, found = 0.0, records(out, self.mark)
        ends = bool(found) and found[-1][0] == ["end"]
        for at, (words, payload) in enumerate(found):
            if words[0] == "now" and len(words) == 2 and words[1].isdigit():
                now = float(words[1])
            elif words[0] == "log" and len(words) == 2:
                own = _until_next(found[at + 1 :])
                whole = ends or at + 1 + len(own) < len(found)
                yield words[1], _told(payload, own, now, whole)


def _broken_off() -> OSError:
    return OSError(errno.EIO, "its host's answer was cut off")


def _until_next(records: Sequence[Record]) -> list[Record]:
    own = []
    for record in records:
        if record[0][0] in ("log", "end"):
            break
        own.append(record)
    return own


def _told(name: bytes, records: Sequence[Record], now: float, whole: bool) -> Told:
    """Return what the records of one file say, if they are ``whole``."""
    if not whole:
        return _broken_off()
    try:
        path = name.decode()
    except UnicodeDecodeError:
        return OSError(errno.EILSEQ, "its name is not valid UTF-8")
    answer: Answer | None = None
    pieces: list[tuple[int, bytes]] = []
    for words, payload in records:
        if words[0] == "stat":
            answer = _measured(path, words[2:], now)
        elif words[0] == "fail":
            return _failure(path, words[-1], payload)
        elif words[0] == "data" and len(words) == 3 and words[2].isdigit():
            pieces.append((int(words[2]), payload))
    if answer is None:
        return OSError(errno.EIO, "its host's answer cannot be read")
    if answer.size < 0:
        return OSError(0, "not a regular file", path)
    return answer._replace(pieces=tuple(pieces))


def _measured(path: str, words: Sequence[str], now: float) -> Answer | None:
    try:
        device, inode, size = (int(word) for word in words[:3])
        mtime, mode = float(words[3]), int(words[4], 16)
    except (ValueError, IndexError):
        return None
    version = " ".join(words)
    return Answer(path, version, (device, inode), size if modes.S_ISREG(mode) else -1, mtime, now)


def _failure(path: str, word: str, said: bytes) -> OSError:
    if word == "later":
        return LaterError(errno.EAGAIN, "too much requested at once")
    if word == "timeout":
        return TimeoutError(
            errno.ETIMEDOUT, f"its file system did not answer within {PIECE_LIMIT} s"
        )
    if word == "denied" or b"ermission denied" in said:
        return PermissionError(errno.EACCES, "Permission denied", path)
    if b"No such file" in said or b"Not a directory" in said:
        return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    text = clean(said.decode("utf-8", "replace").strip(), 200)
    return OSError(errno.EIO, text or "it cannot be inspected", path)


def _listing(number: int, pattern: str) -> tuple[str, ...]:
    """Return the lines that measure all files that a pattern, as a word of the shell, matches."""
    return (
        f"n=0; for c in {pattern}; do",
        f'  [ $n -lt {MOST_BESIDE} ] && one {number}_$n "$c" "" ""; n=$((n + 1))',
        "done",
    )


def _found(number: int, path: str) -> str:
    """Return the line that names one file, the newest of a pattern's."""
    name = word_of(path)
    if not is_pattern(path):
        return f"f_{number}={name}"
    pattern = word_of(path, magic=True)
    return f'f_{number}=$(limited {PIECE_LIMIT} sh -c "$newest" {ASKING} {name} {pattern})'


def _or(number: int | None) -> str:
    return "-" if number is None else str(number)


def _whole_pages(to: int) -> int:
    return max(PAGE, to - to % PAGE)
