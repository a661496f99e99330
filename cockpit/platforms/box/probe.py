"""One probe of a host for all that is asked of it at a time: pieces in, what each has said out.

Whoever wants something of a host hands in pieces of shell; those that come within a moment, or
while a probe is under way, go together in the next one. Each piece stands in a frame, pieces of
one group run under one time limit there: one that hangs costs that limit once, is known from then
on, and is asked last and apart until it answers again.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from cockpit.model.facet import ErrorKind, Problem
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, RemoteError, quote, run_script
from cockpit.runtime.ssh_session import ASKING

TOGETHER: Final = 0.05
"""Seconds in which what is asked goes into one probe."""
DEADLINE: Final = 12.0
"""Seconds for a probe and what it has to ask again: less than any facet of a host is given."""
LEAST: Final = 1.0
"""Seconds for which it is worth asking again for what a hung piece kept from being asked."""
LIMITS: Final = (3, 2)
"""Seconds on the host for a group, and for a piece that has hung before."""
MANY: Final = 50
"""Pieces for which a group is given a second more."""
APART: Final = 3
"""Pieces that have hung and are tried in one probe; the others wait their turn."""
MOST_SENT: Final = 60_000
"""Characters of one group's script: it is one word, and Linux takes 128 kB."""
CAP: Final = 16_000_000
MARK: Final = ASKING
"""Stands in the command line of all that a probe runs, so that it is not taken for a job."""


class Piece(NamedTuple):
    """A few lines of POSIX shell that only look. ``group`` shares a time limit.

    One that is not ``lasting`` is asked once as it is: that it hung is told, and not remembered.
    """

    name: str
    script: str
    group: str
    lasting: bool = True


Answer = bytes | Problem
Answers = Mapping[Piece, Answer]


class Run(Protocol):
    """Runs a script on a host (``run_script``)."""

    async def __call__(
        self, host: str | None, script: str, *, deadline: float, cap: int
    ) -> Completed:
        """Return how it ended; raises ``RemoteError``."""


HELPERS: Final = """\
q() {
  if [ -e "$w" ]; then
    case $1 in pid:*|exit:*)
      [ -r "$w" ] || { printf 'N %s|Permission denied\\n' "$1"; return 1; }
      [ ! -f "$w" ] || r "$1";;
    esac
    k="$k $1"; return 0
  fi
  d=${w%/*}; [ "$d" != "$w" ] || d=.
  if [ -x "${d:-/}" ]; then e=': No such file or directory'
  else e=$(stat -L -- "$w" 2>&1 >/dev/null); fi
  printf 'N %s|%s\\n' "$1" "${e##*: }"; return 1
}
r() {
  printf 'C %s\\n' "$1"; i=0
  while IFS= read -r l || [ -n "$l" ]; do
    printf '>%s\\n' "$l"; i=$((i + 1)); [ $i -lt 40 ] || break
  done <"$w"
}
n() { [ -f "$f" ] && { [ ! -e "$w" ] || [ "$f" -nt "$w" ]; } && w=$f; }
"""
"""What pieces may use: ``q KEY`` notes the key if the file ``$w`` is there, and prints what a small
one holds; ``n`` takes ``$f`` for ``$w`` if it is newer."""


def script_of(mark: str, groups: Sequence[tuple[float, Sequence[tuple[int, Piece]]]]) -> str:
    """Return the script for groups of (number, piece), each under a limit in seconds.

    Every piece's output stands between ``mark + n`` and ``mark - n``.
    """
    lines = [f"exec 2>/dev/null; LC_ALL=C; export LC_ALL; S=$$; export S\n{LIMITED}"]
    for limit, pieces in groups:
        body = "\n".join(
            f"printf '\\n{mark}+ {number}\\n'\n({piece.script}\n)\nprintf '\\n{mark}- {number}\\n'"
            for number, piece in pieces
        )
        lines.append(f"limited {limit} sh -c {quote(HELPERS + body)}")
    return "\n".join(lines) + "\n:"


def parsed(mark: str, out: bytes) -> tuple[dict[int, bytes], set[int]]:
    """Return what each piece has said, and which ones were begun and did not end."""
    said: dict[int, bytes] = {}
    begun: dict[int, int] = {}
    for found in re.finditer(rb"\n" + re.escape(mark.encode()) + rb"([+-]) (\d+)\n", out):
        number = int(found[2])
        if found[1] == b"+":
            begun[number] = found.end()
        elif number in begun:
            said[number] = out[begun.pop(number) : found.start()]
    return said, set(begun)


def groups_of(
    todo: Sequence[tuple[int, Piece]],
    tries: Sequence[tuple[int, Piece]],
    limits: tuple[float, float] = LIMITS,
) -> list[tuple[float, list[tuple[int, Piece]]]]:
    """Return pieces as they share a time limit (s); those that have hung come last, each alone."""
    groups: dict[tuple[str, int], list[tuple[int, Piece]]] = {}
    sizes: dict[str, int] = {}
    for number, piece in todo:
        size = sizes[piece.group] = sizes.get(piece.group, 0) + len(piece.script) + 2 * len(MARK)
        groups.setdefault((piece.group, size // MOST_SENT), []).append((number, piece))
    together, alone = limits
    return [
        *((together + len(group) // MANY, group) for group in groups.values()),
        *((alone, [each]) for each in tries),
    ]


@dataclass
class Actor:
    """All that is asked of one host, one probe at a time."""

    host: str | None
    run: Run = run_script
    deadline: float = DEADLINE
    limits: tuple[float, float] = LIMITS
    _waiting: list[tuple[Sequence[Piece], asyncio.Future[Answers]]] = field(default_factory=list)
    _worker: asyncio.Task[None] | None = None
    _hung: dict[Piece, None] = field(default_factory=dict)
    """Pieces that have hung, the one that was tried longest ago first."""
    under_way: bool = False
    """A probe is being asked: what is wished for now waits for the next one."""

    async def ask(self, pieces: Iterable[Piece]) -> Answers:
        """Return what each piece says, or why nothing is known of it. Never raises."""
        wanted = tuple(dict.fromkeys(pieces))
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(TOGETHER)
            asked, self._waiting = self._waiting, []
            self.under_way = True
            pieces = dict.fromkeys(piece for wanted, _ in asked for piece in wanted)
            try:
                answers = await self._probe(list(pieces))
            except Exception as fault:  # noqa: BLE001 - told to all who wait, who report it
                for _, future in asked:
                    if not future.done():
                        future.set_exception(fault)
                continue
            finally:
                self.under_way = False
            for wanted, future in asked:
                if not future.done():
                    future.set_result({piece: answers[piece] for piece in wanted})

    async def _probe(self, pieces: list[Piece]) -> dict[Piece, Answer]:
        """Ask for all pieces, and again for those that one that hangs kept from being asked."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.deadline
        answers: dict[Piece, Answer] = {}
        tries = [piece for piece in self._hung if piece in pieces][:APART]
        todo = [piece for piece in pieces if piece not in self._hung]
        left = self.deadline
        while (todo or tries) and left >= LEAST:
            problem = await self._trip(todo, tries, answers, left)
            if problem is not None:
                return {piece: answers.get(piece, problem) for piece in pieces}
            todo = [each for each in todo if each not in answers and each not in self._hung]
            tries = []
            left = until - loop.time()
        return {piece: answers.get(piece, self._late(piece)) for piece in pieces}

    def _late(self, piece: Piece) -> Problem:
        why = f"{piece.name} did not answer: does a disk hang there?"
        return Problem(kind=ErrorKind.TIMEOUT, message=f"{self.host}: {why}")

    async def _trip(
        self,
        todo: Sequence[Piece],
        tries: Sequence[Piece],
        answers: dict[Piece, Answer],
        deadline: float,
    ) -> Problem | None:
        """Ask once; fill in what has answered, note what hangs, return what went wrong."""
        numbered = list(enumerate([*todo, *tries]))
        groups = groups_of(numbered[: len(todo)], numbered[len(todo) :], self.limits)
        mark = f"{MARK}-{secrets.token_hex(6)}"
        script = script_of(mark, groups)
        problem, late = None, True
        try:
            done = await self.run(self.host, script, deadline=deadline, cap=CAP)
            out = done.out
            if done.cut:
                text = f"{self.host}: it answered with more than {CAP // 10**6} MB"
                problem, late = Problem(kind=ErrorKind.BAD_ANSWER, message=text), False
        except RemoteError as error:
            out, late = error.out, error.kind is ErrorKind.TIMEOUT
            problem = Problem(kind=error.kind, message=str(error))
        said, begun = parsed(mark, out)
        for number, piece in numbered:
            if number in said:
                answers[piece] = said[number]
            if number in said or (number in begun and late):
                self._hung.pop(piece, None)
            if number in begun and late and piece.lasting:
                self._hung[piece] = None
            elif number in begun and late:
                answers[piece] = self._late(piece)
        return problem
