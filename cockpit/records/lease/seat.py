"""Where the lease of a run lies: one value that is read and swapped (SPEC A, "Two machines").

A file under the output root (here or on an ssh host), an object of a bucket, a ref on a git remote:
each is a ``Seat``. Who may take the lease is one thing for all (``cockpit.records.lease.lease``).

A lease as a ref on the remote of a run's logbook, moved by ``--force-with-lease`` (SPEC A).

A lease as a claim under an output root, on this machine or on an ssh host (SPEC A).

``cockpit.hosts.folders`` reads and swaps it there. Given back, it is removed: what was launched
under the root stands in its notes.

A lease as an object under an output root in a bucket (SPEC A).

``<output root>/.cockpit/claim.json`` is put there only if there is none, and replaced only if it is
the one that was read. It is never deleted (buckets of hero runs forbid that): given back, it says
so.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

from pydantic import ValidationError

from cockpit.hosts import notes
from cockpit.hosts.here import call, host_of
from cockpit.hosts.link import NoPythonError, Value
from cockpit.hosts.notes import INTENT, machine_id
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import SSH, Place
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
from cockpit.records.lease.state import HELD, LeaseState, highest, read_state, this_holder
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, WritableBucket, known_by
from cockpit.runtime.http import Http
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
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


ROOT_DEADLINE: Final = 15.0
_WRITTEN: Final = ("holder", "operator", "what", "launch_id", "at", "nonce")
"""What a claim says of a lease."""


class FolderSeat(Seat):
    """The claim under one output root; ``do`` is ``cockpit.hosts.here.call``."""

    def __init__(self, run: str, root: Place, do: Callable[..., Awaitable[Any]] = call) -> None:
        self._run, self._root, self._do = run, root, do
        self.name = f"the claim under {root}"
        self.place = f"{root}/.cockpit/claim.json"

    async def read(self) -> Found:
        """Return the claim, with the run's highest launch id that is noted under the root."""
        try:
            said = await self._asked("read_claim")
        except RemoteError as error:
            never = isinstance(error, NoPythonError)  # else it may be reached later
            kind = BarredError if never else NoAnswerError
            raise kind(f"{self.name} cannot be read: {error}") from None
        if "missing" in said:
            return Found(_word("", ()))
        if "trouble" in said:
            raise CannotAskError(f"the output root {self._root} {clean(said['trouble'], 300)}")
        if "unreadable" in said:
            where = f"this user cannot read {clean(said['unreadable'], 200)} there"
            raise CannotAskError(f"cannot tell whether {self._root} is claimed: {where}")
        text, names = said["text"], said["launches"]
        state = None if text is None else self._parsed(text)
        noted = highest(self._run, *(name.removesuffix(INTENT) for name in names))
        return Found(
            word=_word("" if state is None else state.nonce, names),
            state=state,
            foreign=text is not None and state is None,
            noted=noted,
            launched_by=await _launched_elsewhere(self._root, noted),
            closed=f"the output root {self._root} cannot be written to" if said["closed"] else None,
        )

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put the claim there, or remove it where it is given back."""
        expected, launches = json.loads(word)
        held = {name: value for name, value in state.model_dump().items() if name in _WRITTEN}
        text = json.dumps({name: held[name] for name in _WRITTEN}, indent=1) + "\n"
        nonce, text = (state.nonce, text) if state.is_held else ("", "")
        put = {"expected": expected, "launches": launches, "nonce": nonce, "text": text}
        try:
            said = await self._asked("swap_claim", **put)
        except RemoteError as error:
            if not error.sent:
                raise NoAnswerError(str(error)) from None
            raise UnsureError(f"cannot tell whether {self.name} was taken: {error}") from None
        if said == "busy":
            raise BarredError(f"{self.name} is being changed")
        return bool(said != "changed")

    async def _asked(self, function: str, **more: object) -> Value:
        root, what = self._root, f"the claim under {self._root.path}"
        more |= {"root": root.path, "run": self._run}
        try:
            return await self._do(host_of(root), what, function, deadline=ROOT_DEADLINE, **more)
        except OSError as error:
            why = clean(error.strerror or error, 300)
            raise CannotAskError(f"no claim can be put under {root}: {why}") from None

    def _parsed(self, text: str) -> LeaseState | None:
        """Return the lease that a claim says; ``None`` for what is none of ours."""
        try:
            said = json.loads(text)
            known = said if set(said) <= set(_WRITTEN) else {}
            return LeaseState.model_validate({"state": HELD, "run": self._run, **known})
        except (ValidationError, ValueError, TypeError, RecursionError):
            return None


def _word(nonce: str, launches: Iterable[str]) -> str:
    """Return what tells how a root stands: its claim, and the run's launches noted there."""
    return json.dumps([nonce, list(launches)])


async def _launched_elsewhere(root: Place, launch_id: str | None) -> str | None:
    """Return the other machine that runs a launch under a root here, as its note says.

    A dead one's note says it too.
    """
    if launch_id is None or not root.here:
        return None
    path = Path(root.path) / notes.BELOW / launch_id
    try:
        note = await offload(notes.read_note, path, deadline=ROOT_DEADLINE) or {}
    except (OSError, TimeoutError):
        return None
    theirs, mine = note.get("machine"), machine_id()
    if note.get("state") not in (notes.STARTING, notes.RUNNING) or None in (theirs, mine):
        return None
    return None if theirs == mine else f"{clean(note.get('host', '?'), 200)} (by its note)"


BELOW: Final = ".cockpit/claim.json"
MOST: Final = 65536
HONOURED: Final = "conditional"
"""The key of a claim that says whether this store was seen to heed conditions."""
_DEFINITE: Final = frozenset(
    {ErrorKind.FORBIDDEN, ErrorKind.UNAUTHORIZED, ErrorKind.UNSUPPORTED, ErrorKind.RATE_LIMITED}
)
"""Refusals after which nothing was put and nothing will be."""
_TELLS: Final = frozenset({ErrorKind.TIMEOUT, ErrorKind.REFUSED, ErrorKind.DNS, ErrorKind.TLS})
"""Failures that are no answer."""


class RootSeats:
    """The seats under output roots: in folders here and on ssh hosts, and in buckets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._http = Http(clock)
        self._buckets: dict[tuple[str, str], WritableBucket] = {}
        self._honoured: dict[str, bool] = {}

    async def __call__(self, run: RunSpec) -> Seat:
        """Return where a run's claim lies; raises ``CannotAskError`` where none can lie."""
        root = None if run.output_root is None else run.output_root.normal()
        if root is not None and (root.here or root.scheme == SSH):
            return FolderSeat(run.name, root)
        return self.in_bucket(run)

    def in_bucket(self, run: RunSpec) -> BucketSeat:
        """Return where the claim of a run in a bucket lies; raises ``CannotAskError``."""
        root = None if run.output_root is None else run.output_root.normal()
        if root is None or root.scheme not in BUCKETS:
            where = clean(run.output_root or "not set", 200)
            places = "this machine, an ssh host or in a bucket"
            raise CannotAskError(f"the output root ({where}) is not on {places}")
        key = root.scheme, root.host
        if key not in self._buckets:
            self._buckets[key] = WritableBucket(*key, self._clock, self._http)
        return BucketSeat(self._buckets[key], root, self._honoured)


class BucketSeat(Seat):
    """The claim of one output root; ``honoured`` is by place."""

    def __init__(self, bucket: WritableBucket, root: Place, honoured: dict[str, bool]) -> None:
        self._bucket, self._honoured = bucket, honoured
        self._key = f"{root.path}/{BELOW}".lstrip("/")
        self.place = f"{bucket.scheme}://{bucket.name}/{self._key}"
        self.name = f"the claim {self.place}"

    @property
    def heeds(self) -> bool | None:
        """Whether the store heeds conditions, as far as that was seen."""
        return self._honoured.get(self.place)

    async def read(self) -> Found:
        """Return the claim; raises ``CannotAskError`` too where conditions are not heeded."""
        try:
            whole = await self._bucket.get(self._key, MOST)
        except BucketError as error:
            kind = NoAnswerError if error.kind in _TELLS else CannotAskError
            raise kind(f"the claim cannot be read: {error}") from None
        if whole is None:
            return Found()
        state, heeded = _parsed(whole.data)
        if heeded is not None:
            self._honoured[self.place] = heeded
        if self.heeds is False:
            raise CannotAskError(self._unheeded())
        return Found(whole.word, state, foreign=state is None)

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put ``state`` there, and see once that this store heeds conditions at all."""
        data = self._bytes(state)
        try:
            put = await self._bucket.swap(self._key, data, known_by(word))
        except BucketError as error:
            kind = CannotAskError if error.kind in _DEFINITE else UnsureError
            raise kind(str(error)) from None
        if put and self.heeds is None:
            await self._prove(word, data, state)
        return put

    async def _prove(self, word: str, data: bytes, state: LeaseState) -> None:
        """Put the same again: its condition holds no more, so it must be refused."""
        try:
            heeded = not await self._bucket.swap(self._key, data, known_by(word))
        except BucketError:
            return  # it is seen another time
        self._honoured[self.place] = heeded
        if heeded:
            return
        try:
            whole = await self._bucket.get(self._key, MOST)
            free = self._bytes(state.released(state.at, used=False))
            await self._bucket.swap(self._key, free, whole)
        except BucketError:
            pass  # it is held by a process of this machine, and left once that is gone
        raise CannotAskError(self._unheeded())

    def _bytes(self, state: LeaseState) -> bytes:
        document = {**state.model_dump(by_alias=True), HONOURED: self.heeds}
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode("utf-8", "replace")

    def _unheeded(self) -> str:
        text = f"{self._bucket.scheme}://{self._bucket.name} takes a conditional put whose"
        return f"{text} condition does not hold: no claim can be held there"


def _parsed(data: bytes) -> tuple[LeaseState | None, bool | None]:
    """Return what a claim says, and whether its store heeds conditions; nothing of other files."""
    try:
        document = json.loads(data)
        heeded = document.pop(HONOURED, None)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None, None
    state = read_state(json.dumps(document))
    return state, heeded if state is not None and isinstance(heeded, bool) else None
