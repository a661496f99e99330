"""Finding the ``.wandb`` files of many runs on a host: a part of a script, and its answer.

POSIX ``sh``. All folders are looked through by one shell, with one time limit; where that runs out,
each by its own, so that a dead mount does not cost the others their answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cockpit.runtime.ssh import quote
from cockpit.sources.folders import broken_off, failure, looking, paths_in, told
from cockpit.sources.scripts import Record, new_mark, word_of
from cockpit.sources.wandb.fragment import id_in_name
from cockpit.sources.wandb.run_files import missing

LIMIT: Final = 3
"""Seconds that looking through all folders may take, and through one of them apart."""
MOST: Final = 300
"""Files that are named of one folder: those of the newest launches, as their names sort."""
_LINK: Final = "latest-run"

_ONE: Final = r"""
say() { for f; do [ -f "$f" ] && { printf '%%s\0' "$f"; n=1; }; done; }
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
    if [ $n = 1 ]; then
      if [ -z "$r" ] || [ -f "$x/run-$r.wandb" ]; then return; fi
      continue
    fi
    mark launches
    if [ -n "$r" ]; then say "$x"/*/"run-$r.wandb"
    else last "$x"/run-*/run-*.wandb; last "$x"/offline-run-*/run-*.wandb; fi
    [ $n = 1 ] && return
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


Found = Sequence[str] | OSError
"""The paths of a run's files, at least one; or why there are none."""


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
        return looking(_ONE % {"most": MOST}, words, self.mark, LIMIT)

    def answers(self, out: bytes) -> list[Found]:
        """Return what was found of each run."""
        each = enumerate(told(out, self.mark, len(self.wanted)))
        return [broken_off() if own is None else self._found(number, own) for number, own in each]

    def _found(self, number: int, own: Sequence[Record]) -> Found:
        place, run_id, label = self.wanted[number]
        others: list[str] = []
        for words, payload in own:
            if words[0] == "fail":
                return failure(words[-1], place, LIMIT)
            paths = paths_in(payload)
            mine = paths if words[0] == "file" else _of_run(paths, run_id, words[0] == "own")
            if words[0] != "others" and mine:
                return mine
            others += paths
        ids = dict.fromkeys(id_in_name(path) for path in _newest_first(others))
        return FileNotFoundError(missing(label or place, run_id, tuple(ids)))


def _of_run(paths: Sequence[str], run_id: str | None, own: bool) -> list[str]:
    """Return the files of one run: without an id all of a launch's folder, else the newest's."""
    if run_id is None and own:
        return sorted(set(paths))
    newest = _newest_first(paths)
    wanted = run_id or (id_in_name(newest[0]) if newest else None)
    mine = sorted({path for path in paths if id_in_name(path) == wanted})
    return [path for path in mine if PurePosixPath(path).parent.name != _LINK] or mine


def _newest_first(paths: Sequence[str]) -> list[str]:
    def started(path: str) -> str:
        return PurePosixPath(path).parent.name.removeprefix("offline-")

    return sorted(paths, key=started, reverse=True)
