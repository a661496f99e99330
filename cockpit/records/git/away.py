"""A git repository of an ssh host, written into by that host's own git (SPEC A-7).

The same calls as of a repository here, each one script over the user's own ssh: quiet, within a
time limit there. An answer that did not come is never taken for "there is none": it raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cockpit.model.place import Place
from cockpit.records.git.repository import GitError, Limits, Repository
from cockpit.runtime.git import LOW_SPEED, READING, quiet_ssh_lines, run_git, script_line
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, run_script
from cockpit.sources.git.command import MOST_BYTES as MOST
from cockpit.sources.scripts import word_of
from cockpit.text.safe import clean

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

    async def run(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Completed:
        """Run ``git`` there; raises ``HostError``, and ``GitError`` when its time was over."""
        extra = dict(env or {}) | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
        limit = deadline or self.limits.local
        done = await _ran(self, *words, stdin=stdin, env=extra, limit=limit)
        if done.timed_out:
            raise GitError(done)
        return done

    async def network(self, remote: str, *words: str, within: float | None = None) -> Completed:
        """Run a ``git`` there that talks to ``remote``, as that host's user can.

        Raises ``HostError``: it may have run to its end all the same.
        """
        before = quiet_ssh_lines(word_of(str(self.top)))
        limit = within or self.limits.network
        return await _ran(self, *LOW_SPEED, *words, limit=limit, before=before)


async def find_away(place: Place, limits: Limits) -> HostRepository | Completed:
    """Return the repository of an ssh host that a place lies in, else how ``git`` refused.

    Where that host's git does not know who writes, the one of this machine does. Raises
    ``HostError``.
    """
    host = place.host or ""
    start = HostRepository(Path(place.path), Path(), Path(), limits, host)
    words = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    done = await _ran(start, *words, limit=limits.local)
    lines = done.out.decode("utf-8", "surrogateescape").splitlines()
    if not done.ok or len(lines) != 3:
        return done
    known = await _ran(start, *_WHO, limit=limits.local)
    who = {} if known.ok else await _own(host, limits)
    common = Path(lines[0]) / lines[2]
    return HostRepository(Path(lines[0]), Path(lines[1]), common, limits, host, who)


async def _own(host: str, limits: Limits) -> dict[str, str]:
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
    before: str = "",
) -> Completed:
    given = {**READING, **repository.who, **(env or {})}
    line = script_line(word_of(str(repository.top)), *words, env=given)
    script = f"{LIMITED}{before}limited {limit:g} {line}"
    try:
        done = await run_script(
            repository.host, script, deadline=limit + SPARE, cap=MOST, stdin=stdin
        )
    except RemoteError as error:
        raise HostError(str(error)) from None
    return done._replace(timed_out=done.rc == TIMED_OUT)
