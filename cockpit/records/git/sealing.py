"""The seal of a run in its code repository, here or on an ssh host (SPEC A-7)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cockpit.hosts.acting import FOLDER
from cockpit.model.base import Frozen
from cockpit.model.place import SSH, Place
from cockpit.records.git.committing import commit_index, patiently, scratch, start_index
from cockpit.records.git.pushing import PUSH, at_remote, remote_now
from cockpit.records.git.repository import (
    NOT_ASKED,
    NOTHING,
    WHERE,
    GitError,
    HookRefusedError,
    Limits,
    Repository,
    locate,
    of_command,
    of_hook,
    of_rejection,
    run_hook,
)
from cockpit.runtime.git import LOW_SPEED, QUIET_SSH, READING, git_there, run_git
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.git.code import OtherCommit, others_among, own_commits
from cockpit.sources.git.command import read_status, run_there, trouble
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SPARE: Final = 5.0
"""Seconds that the way to the host may take beside the command's own."""
_WHO: Final = ("var", "GIT_COMMITTER_IDENT")


class HostError(Exception):
    """A host that gave no answer, or does not know who writes; one line that names it."""


@dataclass(frozen=True)
class HostRepository(Repository):
    """A work tree on ``host``; ``who`` is who writes where the host's git knows nobody."""

    host: str = ""
    who: Mapping[str, str] = field(default_factory=dict, compare=False)

    async def _git(
        self, words: Sequence[str], stdin: bytes | None, env: Mapping[str, str], limit: float
    ) -> Completed:
        """Run ``git`` there; raises ``HostError``, and ``GitError`` when its time was over."""
        done = await _ran(self, *words, stdin=stdin, env=env, limit=limit)
        if done.timed_out:
            raise GitError(done)
        return done

    async def network(self, remote: str, *words: str, within: float | None = None) -> Completed:
        """Run a ``git`` there that talks to ``remote``, as that host's user can.

        Raises ``HostError``: it may have run to its end all the same.
        """
        limit = within or self.limits.network
        return await _ran(
            self, *LOW_SPEED, *words, limit=limit, before=("sh", "-c", QUIET_SSH, FOLDER)
        )


async def find_away(place: Place, limits: Limits) -> HostRepository | Completed:
    """Return the repository of an ssh host that a place lies in, else how ``git`` refused.

    Where that host's git does not know who writes, the one of this machine does. Raises
    ``HostError``.
    """
    host = place.host or ""
    start = HostRepository(Path(place.path), Path(), Path(), limits, host)
    done = await _ran(start, *WHERE, limit=limits.local)
    lines = done.out.decode("utf-8", "surrogateescape").splitlines()
    if not done.ok or len(lines) != 3:
        return done
    known = await _ran(start, *_WHO, limit=limits.local)
    who = {} if known.ok else await _identity_here(host, limits)
    common = start.top / lines[2]
    return HostRepository(Path(lines[0]), Path(lines[1]), common, limits, host, who)


async def _identity_here(host: str, limits: Limits) -> dict[str, str]:
    """Return whom this machine's git knows, for another's environment; raises ``HostError``."""
    done = await run_git("/", *_WHO, deadline=limits.local)
    name, _, rest = done.text.partition(" <")
    email, closed, _ = rest.rpartition("> ")
    if not done.ok or not name or not closed:
        text = "git does not know who you are, there or here"
        raise HostError(f"{clean(host)}: {text}: git config --global user.name and user.email")
    roles = ("AUTHOR", "COMMITTER")
    both = {"NAME": name, "EMAIL": email}
    return {f"GIT_{role}_{key}": value for role in roles for key, value in both.items()}


async def _ran(
    repository: HostRepository,
    *words: str,
    limit: float,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> Completed:
    given = {**READING, **repository.who, **(env or {})}
    row = [[*before, *git_there(FOLDER, words, limit, given)]]
    place = Place(SSH, repository.host, str(repository.top))
    try:
        (done,) = await run_there(place, [row], limit, stdin=stdin, within=limit + SPARE)
    except RemoteError as error:
        raise HostError(str(error)) from None
    return done


class SealFacts(Frozen):
    """How things stand before a seal; ``trouble`` says what keeps it from being made.

    ``tag_at`` and ``branch_at`` are the commits that the tag and the branch stand on, ``None``
    when they do not exist; ``on_remote`` is ``None`` when the remote cannot be asked.
    ``unpublished`` are the commits below the tag that no branch of the remote is known to have
    and the cockpit did not write: pushing the tag publishes them.
    """

    sha: str | None = None
    dirty: tuple[str, ...] = ()
    tag: str = ""
    branch: str = ""
    tag_at: str | None = None
    branch_at: str | None = None
    remote: str | None = None
    on_remote: bool | None = None
    unpublished: tuple[OtherCommit, ...] = ()
    trouble: str | None = None


class SealDone(Frozen):
    """How far sealing came. ``already`` tells that the tag stood there with this very content."""

    commit: str | None = None
    tag: str | None = None
    branch: str | None = None
    tagged: bool = False
    pushed: bool = False
    already: bool = False
    trouble: str | None = None


class _StopError(Exception):
    """Why a seal cannot be made; one line."""


async def seal_plan(repo: Place, run: str, step: int) -> SealFacts:
    """Return what a seal would find; changes nothing and never raises."""
    try:
        return await _facts(await _open(repo, None), run, step)
    except (_StopError, GitError, HostError, OSError) as error:
        return SealFacts(trouble=_failure_text(repo, error))


async def seal(
    repo: Place,
    run: str,
    step: int,
    message: str,
    dirty_paths: Sequence[str],
    limits: Limits | None = None,
    head: str | None = None,
) -> SealDone:
    """Commit ``dirty_paths`` (as they are named in the repository), tag, push; never raises.

    With no dirty paths the tag stands on HEAD, which must still be ``head`` if that is given: what
    a tag publishes is what its plan has shown. Repeatable at any point.
    """
    done = SealDone(tag=_tag(run, step))
    try:
        repository = await _open(repo, limits)
        await _check_names(repository, run, step)
        await _check_head(repository, run, step, head)
        commit = await _commit(repository, run, scrub(message), dirty_paths)
        done = done.model_copy(update=commit)
        assert done.commit is not None
        already = await _tag_it(repository, done.commit, _tag(run, step), scrub(message))
        done = done.model_copy(update={"tagged": True, "already": already})
        done = done.model_copy(update={"commit": await repository.oid(f"{_full(run, step)}^{{}}")})
        return await _push(repository, done)
    except (_StopError, GitError, HostError, HookRefusedError, OSError) as error:
        unsure = "tagged, but cannot tell whether it is pushed: " if done.tagged else ""
        return done.model_copy(update={"trouble": f"{unsure}{_failure_text(repo, error)}"})


def _tag(run: str, step: int) -> str:
    return f"seal/{run}/{step}"


def _full(run: str, step: int) -> str:
    return f"refs/tags/{_tag(run, step)}"


def _branch(run: str) -> str:
    return f"refs/heads/seal/{run}"


async def _open(repo: Place, limits: Limits | None) -> Repository:
    limits = limits or Limits()
    if not repo.here:
        away = await find_away(repo, limits)
        if isinstance(away, Completed):
            raise _StopError(trouble(repo, away).message)
        return away
    at = await locate(Path(repo.path) / "x", limits)
    if at.repository is None:
        raise _StopError(at.why)
    return at.repository


async def _check_names(repository: Repository, run: str, step: int) -> None:
    if step < 0 or not (await repository.run("check-ref-format", _full(run, step))).ok:
        raise _StopError(f"{clean(_tag(run, step))} is not a valid git tag name")


async def _check_head(repository: Repository, run: str, step: int, head: str | None) -> None:
    if head is None or await repository.oid(_full(run, step)) is not None:
        return
    now = await repository.oid("HEAD^{commit}")
    if now != head:
        raise _StopError(f"HEAD has moved from {head[:10]} to {(now or '')[:10]}: look again")


async def _facts(repository: Repository, run: str, step: int) -> SealFacts:
    await _check_names(repository, run, step)
    sha = await repository.oid("HEAD^{commit}")
    if sha is None:
        raise _StopError(f"{clean(repository.top)} has no commit yet: nothing can be sealed")
    status = await repository.ask("status", "--porcelain=v2", "--branch", "-z", "-uall")
    remote = await remote_now(repository)
    places = () if remote is None else await repository.push_places(remote)
    asked = [await at_remote(repository, place, _full(run, step)) for place in places]
    there = [each for each in asked if each is not None]
    tag_at = await repository.oid(f"{_full(run, step)}^{{}}")
    branch_at = await repository.oid(_branch(run))
    tips = [each for each in (tag_at or sha, branch_at) if each is not None]
    return SealFacts(
        sha=sha,
        dirty=read_status(status).files,
        tag=_tag(run, step),
        branch=_branch(run).removeprefix("refs/heads/"),
        tag_at=tag_at,
        branch_at=branch_at,
        unpublished=() if remote is None else await _unpublished(repository, remote, tips),
        remote=remote,
        on_remote=all(_full(run, step) in each for each in there) if there == asked != [] else None,
    )


async def _unpublished(
    repository: Repository, remote: str, tips: Sequence[str]
) -> tuple[OtherCommit, ...]:
    here = not isinstance(repository, HostRepository)
    limit = repository.limits.local
    own = await offload(own_commits, repository.common, deadline=limit) if here else frozenset()
    places = await repository.push_places(remote)
    found: dict[str, OtherCommit] = {}
    for place in places:
        known = [f"--remotes={remote}"]
        if place != remote:
            there = await at_remote(repository, place)
            known = ["--ignore-missing", *(there or {}).values()]
        others = await others_among(repository.run, own, *tips, "--not", *known)
        if others is None:
            raise _StopError("git does not tell which commits the tag would publish")
        found |= {each.oid: each for each in others}
    return tuple(found.values())


async def _commit(
    repository: Repository, run: str, message: str, dirty: Sequence[str]
) -> dict[str, str | None]:
    """Return the commit to be tagged: HEAD, or one with the dirty files on the seal branch."""
    head = await repository.oid("HEAD^{commit}")
    if head is None:
        raise _StopError(f"{clean(repository.top)} has no commit yet: nothing can be sealed")
    if not dirty:
        return {"commit": head}
    if isinstance(repository, HostRepository):
        raise _StopError("uncommitted changes are committed there by hand, then sealed")
    former = await repository.oid(_branch(run))
    branch = _branch(run).removeprefix("refs/heads/")
    async with scratch(repository, "index") as index:
        await start_index(repository, index, head)
        await _add(repository, index, dirty)
        tree = await repository.ask("write-tree", index=index)
        if tree == await repository.oid(f"{head}^{{tree}}"):
            return {"commit": head}
        if former is not None and await _is_seal(repository, former, tree, head):
            return {"commit": former, "branch": branch}
        await run_hook(repository, "pre-commit", index=index)
        await start_index(repository, index, tree)  # whatever the hook has staged
        # An earlier seal stays reachable, so that the branch can be pushed without force.
        parents = (head,) if former is None else (head, former)
        commit = await commit_index(repository, index, parents, message)
    words = ("update-ref", "--create-reflog", "-m", "seal", _branch(run), commit, former or NOTHING)
    await patiently(repository, lambda: repository.ask(*words))
    return {"commit": commit, "branch": branch}


async def _add(repository: Repository, index: Path, dirty: Sequence[str]) -> None:
    """Put the files into an index as they stand in the work tree, their removal too."""
    names = b"".join(os.fsencode(name) + b"\0" for name in dirty)
    words = ("--literal-pathspecs", "add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul")
    await repository.ask(*words, stdin=names, index=index)


async def _is_seal(repository: Repository, commit: str, tree: str, head: str) -> bool:
    same = await repository.oid(f"{commit}^{{tree}}") == tree
    return same and await repository.oid(f"{commit}^1") == head


async def _tag_it(repository: Repository, commit: str, tag: str, message: str) -> bool:
    """Set the tag, or find it there on the same content; raises when it means something else."""
    stands = await repository.oid(f"refs/tags/{tag}^{{}}")
    if stands is None:
        await repository.ask("tag", "-a", "-F", "-", tag, commit, stdin=message.encode())
        return False
    trees = [await repository.oid(f"{oid}^{{tree}}") for oid in (stands, commit)]
    if None in trees or trees[0] != trees[1]:
        raise _StopError(
            f"tag {clean(tag)} stands on {stands}, and {commit} is to be sealed: "
            "a tag is never moved; check which is right"
        )
    return True


async def _push(repository: Repository, done: SealDone) -> SealDone:
    remote = await remote_now(repository)
    if remote is None:
        text = "sealed, but not pushed: there is no remote; git remote add origin URL"
        return done.model_copy(update={"trouble": text})
    refs = [f"refs/tags/{done.tag}"]
    refs += [] if done.branch is None else [f"refs/heads/{done.branch}"]
    if await _arrived(repository, remote, refs):
        return done.model_copy(update={"pushed": True})
    words = [f"{await repository.oid(ref)}:{ref}" for ref in refs]
    pushed = await repository.network(remote, *PUSH, remote, *words)
    if pushed.ok or await _arrived(repository, remote, refs):
        return done.model_copy(update={"pushed": True})
    return done.model_copy(update={"trouble": await _refusal(repository, remote, refs, pushed)})


async def _arrived(repository: Repository, remote: str, refs: Sequence[str]) -> bool:
    """Return whether the remote has the refs as they are here (asked, not remembered)."""
    there = await at_remote(repository, remote, *refs)
    if there is None:
        return False
    return all([there.get(ref) == await repository.oid(ref) for ref in refs])


async def _refusal(
    repository: Repository, remote: str, refs: Sequence[str], pushed: Completed
) -> str:
    if pushed.timed_out:
        said = of_command(pushed, f"push to {remote}")
        unsure = "sealed; cannot tell whether it is pushed"
        return f"{'sealed, but not pushed' if pushed.rc == NOT_ASKED else unsure}: {said}"
    there = await at_remote(repository, remote, refs[0], f"{refs[0]}^{{}}") or {}
    other = there.get(f"{refs[0]}^{{}}") or there.get(refs[0])
    here = await repository.oid(f"{refs[0]}^{{}}")
    if other is not None and other != here:
        return (
            f"{clean(refs[0].removeprefix('refs/tags/'))} stands on {clean(other)} on "
            f"{clean(remote)} and on {here} here: a tag is never moved; check which is right"
        )
    return f"sealed, but not pushed: {of_rejection(pushed, remote)}"


def _failure_text(repo: Place, error: Exception) -> str:
    if isinstance(error, GitError):
        text = of_command(error.done, "seal")
    elif isinstance(error, HookRefusedError):
        text = of_hook(error)
    else:
        text = str(error)
    where = "" if repo.here or repo.endpoint in text else f"{repo.endpoint}: "
    return scrub(clean(f"{where}{text}", 1000))
