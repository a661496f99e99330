"""Git repositories of ssh hosts: the checkout that runs is the host's, so it is asked there.

Each command has its own time limit there and runs as it does here: reading only, without prompts,
pagers, external diffs or file system monitors of a repository's own configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.model.place import Place
from cockpit.runtime.git import READING, script_line
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, run_script
from cockpit.sources.scripts import Record, marking, new_mark, records, word_of

LIMIT: Final = 5
"""Seconds that one git command may take on its host."""
LATE: Final = 2
"""Commands that may take longer: then no other is begun."""
WHOLE: Final = 16.0
"""Seconds for all repositories of a host."""
MOST: Final = 16_000_000
"""Bytes of a script's answer that are kept."""
NO_LINK: Final = 255
"""The status of a command whose host was not reached, as ssh has it."""
DIFF: Final = ("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
STATUS: Final = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
TAGS: Final = ("for-each-ref", "--sort=creatordate", "--format=%(refname:strip=2)")
_PATCH: Final = re.compile(rb"^([0-9a-f]{40,64}) ", re.M)
_FUNCTIONS: Final = f"""
late=0
ended() {{ [ "$3" = {TIMED_OUT} ] && late=$((late + 1)); mark ended "$@"; }}
run() {{
  i=$1 name=$2; shift 2
  if [ $late -ge {LATE} ]; then ended $i $name {TIMED_OUT}; return; fi
  mark out $i $name
  said=$(limited {LIMIT} "$@" 2>&1 >&3); ended $i $name $?; printf %s "$said"
}} 3>&1
patch() {{
  i=$1; shift
  [ $late -lt {LATE} ] || return
  mark patch $i
  {{ {{ limited {LIMIT} "$@"; echo "diff $?" >&4; }} |
    limited {LIMIT} git patch-id --stable; }} 4>&1
}} 2>/dev/null
"""


class Repo(NamedTuple):
    """What a host's git says of one repository: status, seals' tags, the changes' identity."""

    status: Completed
    tags: Completed
    patch_id: str | None = None


async def git_away(place: Place, *words: str, stdin: bytes | None = None) -> Completed:
    """Run ``git`` in a repository of an ssh host; ``rc`` is ``NO_LINK`` without an answer."""
    line = script_line(word_of(place.path), *words, env=READING, hooks=False)
    script = f"{LIMITED}limited {LIMIT} {line}"
    try:
        done = await run_script(place.host, script, deadline=LIMIT + 3.0, cap=MOST, stdin=stdin)
    except RemoteError as error:
        return Completed(NO_LINK, b"", str(error).encode())
    return done._replace(timed_out=done.rc == TIMED_OUT)


async def look(host: str, places: Sequence[Place], seals: str) -> list[Repo]:
    """Return what git says of each repository of a host, all asked in one script.

    ``seals`` is the pattern of the tags. Raises ``RemoteError`` when the host did not answer.
    """
    mark = new_mark()
    lines = [marking(mark), LIMITED, _FUNCTIONS]
    for number, place in enumerate(places):
        lines += _lines(number, word_of(place.path), seals)
    done = await run_script(host, "\n".join([*lines, "mark end"]), deadline=WHOLE, cap=MOST)
    found = records(done.out, mark)
    return [_repo(number, found) for number in range(len(places))]


def _lines(number: int, folder: str, seals: str) -> Iterator[str]:
    yield f"run {number} status {script_line(folder, *STATUS, env=READING, hooks=False)}"
    yield f"run {number} tags {script_line(folder, *TAGS, seals, env=READING, hooks=False)}"
    yield f"patch {number} {script_line(folder, *DIFF, env=READING, hooks=False)}"


def _repo(number: int, found: Sequence[Record]) -> Repo:
    patch = next((said for words, said in found if words == ["patch", str(number)]), b"")
    identity = _PATCH.search(patch)
    whole = re.search(rb"^diff 0$", patch, re.M) is not None
    return Repo(
        _completed(number, "status", found),
        _completed(number, "tags", found),
        identity[1].decode() if identity is not None and whole else None,
    )


def _completed(number: int, name: str, found: Sequence[Record]) -> Completed:
    """Return how one command of the script ended; cut where its end is missing."""
    out = next((said for words, said in found if words == ["out", str(number), name]), b"")
    for words, said in found:
        if words[:3] == ["ended", str(number), name] and words[3:] and words[3].isdigit():
            rc = int(words[3])
            return Completed(rc, out, said.rstrip(b"\n"), timed_out=rc == TIMED_OUT)
    return Completed(0, out, b"", cut=True)
