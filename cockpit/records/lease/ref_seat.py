"""A lease as a ref on the remote of a run's logbook, moved by ``--force-with-lease`` (SPEC A)."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from cockpit.model.run import RunSpec
from cockpit.records.git.pushing import FETCH, LANDED_WITHIN, PUSH, ask_remote, remote_now
from cockpit.records.git.repository import (
    NOT_ASKED,
    Limits,
    Repository,
    locate,
    of_command,
    of_rejection,
)
from cockpit.records.lease.seat import CannotAskError, Found, NoAnswerError, Seat, UnsureError
from cockpit.records.lease.state import LeaseState, read_state
from cockpit.text.safe import clean

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
        return RefSeat(at.repository, remote, lease_ref(run.name))


class RefSeat(Seat):
    """A ref on a remote."""

    def __init__(self, repository: Repository, remote: str, ref: str) -> None:
        self._repository, self._remote, self._ref = repository, remote, ref
        self._within: float | None = None
        self.name = f"the lease on {clean(remote)}"
        self.place = f"{ref} on {clean(remote)}"

    async def read(self) -> Found:
        """Return what the ref is on the remote at this moment."""
        repository, remote, ref = self._repository, self._remote, self._ref
        done, there = await ask_remote(repository, remote, ref, within=self._within)
        if not done.ok:
            raise NoAnswerError(of_command(done, f"ask {remote} for the lease"))
        oid = there.get(ref, "")
        if not oid:
            return Found()
        if not (await repository.run("cat-file", "-e", oid)).ok:
            at = await repository.pushed_to(remote)
            done = await repository.network(remote, *FETCH, at, ref)
            if not done.ok:
                raise NoAnswerError(of_command(done, f"read the lease from {remote}"))
        answer = await repository.run("cat-file", "commit", oid)
        state = read_state(answer.text.partition("\n\n")[2]) if answer.ok else None
        return Found(oid, state, foreign=state is None)

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Push a commit that says ``state`` in the place of the commit ``word`` (empty: none)."""
        repository, remote, ref = self._repository, self._remote, self._ref
        tree = await repository.ask("hash-object", "-w", "-t", "tree", "--stdin", stdin=b"")
        parent = ("-p", word) if word else ()
        oid = await repository.ask(
            "commit-tree", *parent, "-F", "-", tree, stdin=state.text().encode(), env=_NOBODY
        )
        words = (*PUSH, "--no-verify", f"--force-with-lease={ref}:{word}", remote, f"{oid}:{ref}")
        done = await repository.network(remote, *words)
        if done.ok:
            return True
        if not done.timed_out:
            raise CannotAskError(f"the lease: {of_rejection(done, remote)}")
        why = of_command(done, f"take the lease on {remote}")
        if done.rc == NOT_ASKED:
            raise NoAnswerError(why)
        self._within = LANDED_WITHIN  # else a remote that was silent just now is not asked
        raise UnsureError(why)


def lease_ref(run: str) -> str:
    """Return the ref of a run's lease; any name gives one that git accepts."""
    return PREFIX + quote(run, safe="").replace(".", "%2E").replace("~", "%7E")
