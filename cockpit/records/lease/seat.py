"""Where the lease of a run lies: one value that is read and swapped (SPEC A, "Two machines").

A file under the output root (here or on an ssh host), an object of a bucket, a ref on a git remote:
each is a ``Seat``. Who may take the lease is one thing for all (``cockpit.records.lease.lease``).

A lease as a ref on the remote of a run's logbook, moved by ``--force-with-lease`` (SPEC A).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, NamedTuple
from urllib.parse import quote

from cockpit.model.plan import Level
from cockpit.model.run import RunSpec
from cockpit.records.git.pushing import FETCH, LANDED_WITHIN, PUSH, ask_remote, remote_now
from cockpit.records.git.repository import (
    NOT_ASKED,
    GitError,
    Limits,
    Repository,
    locate,
    of_command,
    of_rejection,
)
from cockpit.records.lease.state import LeaseState, highest, read_state, this_holder
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


class CannotAskError(Exception):
    """The lease cannot be used here or now, and nothing was put; the message is one line."""

    level: ClassVar[Level] = Level.WARN
    unanswered: ClassVar[bool] = False


class NoAnswerError(CannotAskError):
    """Whoever keeps the lease was asked, and did not tell; nothing was put."""

    unanswered = True


class UnsureError(NoAnswerError):
    """Nobody told whether a swap went through: it may have, and it may yet."""


class BarredError(CannotAskError):
    """Nobody may act there from here, or now."""

    level = Level.BLOCK


class Found(NamedTuple):
    """What lies at a seat. ``word`` tells it from all that ever lay there; ``foreign``: no lease.

    ``noted`` is the highest launch id that is noted beside it, ``launched_by`` the other machine
    that runs it, and ``closed`` why nothing can be put there. ``partial``: it does not lie at
    every place that it must lie at, so it may keep nobody away.
    """

    word: str = ""
    state: LeaseState | None = None
    foreign: bool = False
    noted: str | None = None
    launched_by: str | None = None
    closed: str | None = None
    partial: bool = False


class Seat(ABC):
    """The place of one run's lease. Both calls raise ``CannotAskError``, and have a deadline.

    ``name`` is what it is called, ``place`` where it lies.
    """

    name: str
    place: str

    @abstractmethod
    async def read(self) -> Found:
        """Return what lies there at this moment."""

    @abstractmethod
    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put ``state`` in the place of what ``word`` tells; False if something else is there.

        Raises ``UnsureError`` where the answer was lost. The same may be put once more after it.
        """


Seats = Callable[[RunSpec], Awaitable[Seat]]
"""Returns where a run's lease lies; raises ``CannotAskError``, ``GitError``, ``OSError``."""


PREFIX: Final = "refs/cockpit/lease/"
DEADLINE: Final = 6.0
"""Seconds that one question to the remote may take; one that gave no answer is not asked again."""
LOCAL: Final = 10.0
_NOBODY: Final = {
    "GIT_AUTHOR_NAME": "cockpit",
    "GIT_AUTHOR_EMAIL": "cockpit@localhost",
    "GIT_COMMITTER_NAME": "cockpit",
    "GIT_COMMITTER_EMAIL": "cockpit@localhost",
}
"""Whose a lease is stands in it; a person's name is not needed to take one."""


class RefSeats:
    """The seats on the remotes of logbooks; ``deadline`` is for one question, in seconds."""

    def __init__(self, deadline: float = DEADLINE) -> None:
        self._limits = Limits(local=max(deadline, LOCAL), network=deadline)

    async def __call__(self, run: RunSpec) -> Seat:
        """Return where a run's lease lies; raises as ``Seats`` does."""
        if run.records.logbook is None:
            raise CannotAskError("no logbook in cockpit.toml, so no remote for a lease")
        at = await locate(Path(run.records.logbook), self._limits)
        if at.repository is None:
            raise CannotAskError(at.why)
        remote = await remote_now(at.repository)
        if remote is None:
            raise CannotAskError("the logbook's repository has no remote for a lease")
        names, ref = await at.repository.push_places(remote), lease_ref(run.name)
        if len(names) == 1:
            return RefSeat(at.repository, names[0], ref, named=remote)
        seats = [RefSeat(at.repository, name, ref) for name in names]
        return EveryPlaceSeat(f"the lease on {remote}", seats)


class RefSeat(Seat):
    """A ref on a remote; ``named``: what people call that, if not by where it is asked."""

    def __init__(
        self, repository: Repository, remote: str, ref: str, named: str | None = None
    ) -> None:
        self._repository, self._remote, self._ref = repository, remote, ref
        self._within: float | None = None
        self._named = scrub(clean(named or remote, 200))
        self.name = f"the lease on {self._named}"
        self.place = f"{ref} on {self._named}"

    async def read(self) -> Found:
        """Return what the ref is on the remote at this moment."""
        repository, remote, ref = self._repository, self._remote, self._ref
        done, there = await ask_remote(repository, remote, ref, within=self._within)
        if not done.ok:
            raise NoAnswerError(of_command(done, f"ask {self._named} for the lease"))
        oid = there.get(ref, "")
        if not oid:
            return Found()
        if not (await repository.run("cat-file", "-e", oid)).ok:
            at = await repository.pushed_to(remote)
            done = await repository.network(remote, *FETCH, at, ref)
            if not done.ok:
                raise NoAnswerError(of_command(done, f"read the lease from {self._named}"))
        answer = await repository.run("cat-file", "commit", oid)
        state = read_state(answer.text.partition("\n\n")[2]) if answer.ok else None
        return Found(oid, state, foreign=state is None)

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Push a commit that says ``state`` in the place of the commit ``word`` (empty: none)."""
        tree = await self._repository.ask("hash-object", "-w", "-t", "tree", "--stdin", stdin=b"")
        parent = ("-p", word) if word else ()
        told = ("commit-tree", *parent, "-F", "-", tree)
        oid = await self._repository.ask(*told, stdin=state.text().encode(), env=_NOBODY)
        return await self.move(word, oid)

    async def move(self, word: str, oid: str) -> bool:
        """Push a commit (empty: remove the ref) in the place of ``word``, as ``swap`` does."""
        expected = f"--force-with-lease={self._ref}:{word}"
        words = (*PUSH, "--no-verify", expected, self._remote, f"{oid}:{self._ref}")
        done = await self._repository.network(self._remote, *words)
        if done.ok:
            return True
        if not done.timed_out:
            raise CannotAskError(f"the lease: {of_rejection(done, self._named)}")
        why = of_command(done, f"take the lease on {self._named}")
        if done.rc == NOT_ASKED:
            raise NoAnswerError(why)
        self._within = LANDED_WITHIN  # else a remote that was silent just now is not asked
        raise UnsureError(why)


class EveryPlaceSeat(Seat):
    """All places that one remote is pushed to: another machine may push to one of them alone.

    What lies there is held where any of it is, and by another machine where any of it is.
    """

    def __init__(self, name: str, seats: Sequence[RefSeat]) -> None:
        self._seats = seats
        self.name = clean(name)
        self.place = " and ".join(seat.place for seat in seats)

    async def read(self) -> Found:
        """Return what lies at all places together."""
        found = [await seat.read() for seat in self._seats]
        words = [each.word or _NOTHING for each in found]
        word = "" if set(words) == {_NOTHING} else " ".join(words)
        states = [each.state for each in found if each.state is not None]
        foreign = any(each.foreign for each in found)
        if foreign or not states:
            return Found(word, foreign=foreign)
        mine = this_holder()

        def worth(state: LeaseState) -> tuple[bool, bool, float]:
            here = (state.holder.host, state.holder.machine) == (mine.host, mine.machine)
            return state.is_held, not here, state.at

        state = max(states, key=worth)
        others = (one for one in states if one.nonce != state.nonce)
        noted = highest(state.run, *(each for one in others for each in one.launch_ids))
        partial = any(each.state is None or each.state.nonce != state.nonce for each in found)
        return Found(word, state, noted=noted, partial=partial)

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put a state at each place, or at none."""
        former = [each.removeprefix(_NOTHING) for each in word.split()] or [""] * len(self._seats)
        done: list[tuple[RefSeat, str]] = []
        try:
            for seat, its in zip(self._seats, former, strict=True):
                if not await seat.swap(its, state):
                    break
                done.append((seat, its))
        finally:
            if len(done) < len(self._seats):
                await _put_back(done, state)
        return len(done) == len(self._seats)


_NOTHING: Final = "-"
"""What stands for an empty place among the words of several."""


async def _put_back(done: Sequence[tuple[RefSeat, str]], state: LeaseState) -> None:
    for seat, former in done:
        with suppress(CannotAskError, GitError):
            now = await seat.read()
            if now.state is not None and now.state.nonce == state.nonce:
                await seat.move(now.word, former)


def lease_ref(run: str) -> str:
    """Return the ref of a run's lease; any name gives one that git accepts."""
    return PREFIX + quote(run, safe="").replace(".", "%2E").replace("~", "%7E")
