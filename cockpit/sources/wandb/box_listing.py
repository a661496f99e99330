"""Finding the ``.wandb`` files of many runs on a host: a part of a script, and its answer.

POSIX ``sh``. All folders are looked through by one shell, with one time limit; where that runs out,
each by its own, so that a dead mount does not cost the others their answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.runtime.ssh import quote
from cockpit.sources.run_folders import living
from cockpit.sources.scripts import (
    Record,
    Written,
    broken_off,
    failure,
    looking,
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
