"""A git repository that records are written into, and why a record could not be."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.wording import duration, moment
from cockpit.records.git import documents
from cockpit.runtime.git import LOW_SPEED, quiet_ssh, run_git
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import NO_PROGRAM, Completed, run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SILENT_FOR: Final = 300.0
"""Seconds for which a remote that gave no answer is not asked again by itself."""
LONG: Final = 8.0
"""Seconds after which also a refusal counts as having let us wait in vain."""


class RemoteSilence(NamedTuple):
    """Since when a remote does not answer, when it was asked last (epoch seconds), how patiently.

    Whoever has more patience than ``waited`` seconds may ask all the same: it may be just slow.
    """

    since: float
    asked: float
    waited: float

    @property
    def text(self) -> str:
        """One line: since when, and when it is asked again."""
        again = f"asked again after {duration(SILENT_FOR)}, or by retry"
        return f"no answer since {moment(self.since)}; {again}"

    def lasts(self, patience: float) -> bool:
        """Tell whether somebody of that patience must not ask the remote yet."""
        return patience <= self.waited and 0 <= time.time() - self.asked < SILENT_FOR


_silences: dict[tuple[Path, str], RemoteSilence] = {}
"""The remotes that gave this process no answer, by git directory and name.

An action saves several records one after the other. Without this each of them would wait for
the whole network deadline.
"""


def forget(common: Path) -> None:
    """Let every remote of a repository be asked again: a person wants to know now."""
    for key in [key for key in _silences if key[0] == common]:
        del _silences[key]


NOTHING: Final = ""
"""What stands for "does not exist" in a compare-and-swap, whatever the hash."""
NOT_ASKED: Final = 75
"""The exit status that stands for a remote which is not asked, because it gave no answer."""
_UNKNOWN: Final = "is not a git command"
_PUSH_URLS: Final = r"^(remote\..*\.pushurl|url\..*\.pushinsteadof)$"


@dataclass(frozen=True)
class Limits:
    """Seconds that each kind of work may take."""

    local: float = 15.0
    hook: float = 120.0
    network: float = 45.0
    locked: float = 5.0
    turn: float = 150.0


class GitError(Exception):
    """A ``git`` that failed; ``done`` is how."""

    def __init__(self, done: Completed) -> None:
        super().__init__(done.err.decode("utf-8", "replace"))
        self.done = done


class Blob(NamedTuple):
    """A file as a tree or the index has it."""

    mode: str
    oid: str


@dataclass(frozen=True)
class Repository:
    """A work tree; ``top`` is its root, ``folder`` its git directory, ``common`` the shared one."""

    top: Path
    folder: Path
    common: Path
    limits: Limits = field(default=Limits(), compare=False)

    async def run(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Completed:
        """Run ``git`` in the work tree's root; ``index`` is another index file to use."""
        extra = dict(env or {}) | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
        return await self._git(words, stdin, extra, deadline or self.limits.local)

    async def _git(
        self, words: Sequence[str], stdin: bytes | None, env: Mapping[str, str], limit: float
    ) -> Completed:
        return await run_git(self.top, *words, stdin=stdin, env=env, deadline=limit)

    async def ask(
        self,
        *words: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Return what ``git`` prints, without the last line break; raise ``GitError``."""
        done = await self.run(*words, stdin=stdin, index=index, env=env)
        if not done.ok or done.cut:
            raise GitError(done)
        return done.text.removesuffix("\n")

    async def network(self, remote: str, *words: str, within: float | None = None) -> Completed:
        """Run a ``git`` that talks to ``remote``: no prompt, and nothing waits for ever.

        One that let somebody wait in vain a while ago is not asked: that is the answer then.
        ``within`` asks it all the same, for so many seconds.
        """
        key, patience = (self.common, remote), within or self.limits.network
        known = _silences.get(key)
        if known is not None and within is None and known.lasts(patience):
            said = f"{remote} gives {known.text}"
            return Completed(NOT_ASKED, b"", said.encode(), timed_out=True)
        began = time.monotonic()
        quiet = await quiet_ssh(self.top, self.limits.local)
        done = await run_git(self.top, *LOW_SPEED, *words, env=quiet, deadline=patience)
        if not done.timed_out and (done.ok or time.monotonic() - began < LONG):
            _silences.pop(key, None)
        else:
            now = time.time()
            former = known or RemoteSilence(now, now, patience)
            waited = max(patience, former.waited) if former.lasts(0) else patience
            _silences[key] = RemoteSilence(min(former.since, now), now, waited)
        return done

    async def setting(self, name: str, *how: str) -> str | None:
        """Return a setting of the user's, ``None`` when it is not set.

        ``how`` is how git is to read it: ``--type=bool``.
        """
        done = await self.run("config", *how, "--get", name)
        return done.text.strip() or None if done.ok else None

    async def pushed_to(self, remote: str) -> str:
        """Return what to name to ask the place that ``remote`` is pushed to, of several the first.

        Raises ``GitError`` where git does not tell.
        """
        return (await self.push_places(remote))[0]

    async def push_places(self, remote: str) -> tuple[str, ...]:
        """Return what to name to ask each place that ``remote`` is pushed to.

        That is the remote itself, unless a ``pushurl`` or ``pushInsteadOf`` leads elsewhere: what
        was pushed there is not found where the remote is fetched from. There may be several. Raises
        ``GitError`` where git does not tell.
        """
        names = await self.run("config", "--name-only", "--get-regexp", _PUSH_URLS)
        if names.rc == 1 and not names.timed_out:
            return (remote,)
        pushing = ("--push", "--all")
        known = [await self.run("remote", "get-url", *how, remote) for how in ((), pushing)]
        silent = next((each for each in (names, *known) if each.timed_out), None)
        if silent is not None:
            raise GitError(silent)
        fetched, pushed = (each.text.splitlines() for each in known)
        return (remote,) if pushed in ([], fetched) else tuple(dict.fromkeys(pushed))

    async def oid(self, name: str) -> str | None:
        """Return the commit (or object) that a name stands for."""
        done = await self.run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return done.text.strip() or None if done.ok else None

    async def blob(self, commit: str, path: str) -> Blob | None:
        """Return a file as ``commit`` has it."""
        answer = await self.ask("ls-tree", "-z", "--full-tree", commit, "--", path)
        mode, kind, oid = [*answer.partition("\t")[0].split(" "), "", "", ""][:3]
        return Blob(mode, oid) if kind == "blob" else None

    async def staged(self, path: str, index: Path | None = None) -> Blob | None:
        """Return a file as the index has it."""
        words = ("--literal-pathspecs", "ls-files", "-s", "-z", "--", path)
        answer = await self.ask(*words, index=index)
        mode, oid = [*answer.partition("\t")[0].split(" "), "", ""][:2]
        return Blob(mode, oid) if oid else None

    async def content(self, blob: Blob | None, path: str | None = None) -> bytes:
        """Return a blob's bytes, nothing for none; with ``path`` as the work tree would have them.

        That is with the line ends and filters that the user has set for this path.
        """
        if blob is None:
            return b""
        how = ("blob",) if path is None else ("--filters", f"--path={path}")
        done = await self.run("cat-file", *how, blob.oid)
        if not done.ok or done.cut:
            raise GitError(done)
        return done.out

    async def keep(self, data: bytes, path: str | None = None) -> str:
        """Store bytes as a blob; with ``path`` as that file of the work tree would be."""
        how = "--no-filters" if path is None else f"--path={path}"
        return await self.ask("hash-object", "-w", how, "--stdin", stdin=data)

    async def branch(self) -> str | None:
        """Return the ref of the current branch, ``None`` when HEAD is detached.

        Raises ``GitError`` where ``git`` does not say.
        """
        done = await self.run("symbolic-ref", "-q", "HEAD")
        if not done.ok and done.rc != 1:
            raise GitError(done)
        return done.text.strip() or None if done.ok else None

    async def git_path(self, name: str) -> Path:
        """Return where ``git`` keeps one of its own files."""
        return self.top / await self.ask("rev-parse", "--git-path", name)


WHERE: Final = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")


async def find_repository(path: Path, limits: Limits) -> Repository | Completed:
    """Return the repository that ``path`` (a real path, perhaps not there yet) belongs to.

    Else how ``git`` refused.
    """
    start = await offload(_existing, path, deadline=limits.local)
    done = await run_git(start, *WHERE, deadline=limits.local)
    lines = os.fsdecode(done.out).splitlines()
    if not done.ok or len(lines) != 3:
        found = None
        if _NONE in done.err:  # what it may not read, and what leads nowhere, are none to git
            found = await offload(_git_above, start, deadline=limits.local)
        return done if found is None else done._replace(err=f"{_BROKEN}{found}".encode())
    return Repository(Path(lines[0]), Path(lines[1]), start / lines[2], limits)


class Located(NamedTuple):
    """Where a file really lies: its path, its repository, and its name in there.

    Without a ``repository`` ``why`` is the reason, in one line.
    """

    path: Path
    repository: Repository | None = None
    own: str = ""
    why: str = ""


async def locate(path: Path, limits: Limits) -> Located:
    """Return where a file (perhaps not there yet) lies; raises ``OSError``."""
    real = await offload(documents.real_path, path, deadline=limits.local)
    found = await find_repository(real, limits)
    if isinstance(found, Completed):
        return Located(real, why=of_discovery(found, real))
    top = await offload(documents.real_path, found.top, deadline=limits.local)
    if not real.is_relative_to(top):
        tree = f"its work tree {clean(top, 4096)} (core.worktree)"
        why = f"{clean(real.parent, 4096)} is not in {tree}: keep the file in there"
        return Located(real, why=why)
    return Located(real, found, str(real.relative_to(top)))


def _git_above(folder: Path) -> Path | None:
    """Return the nearest ``.git`` in a folder or above it, on the same file system."""
    device = folder.stat().st_dev
    for above in (folder, *folder.parents):
        with suppress(OSError):
            if above.stat().st_dev == device and (above / ".git").exists():
                return above / ".git"
    return None


def _existing(path: Path) -> Path:
    """Return the nearest folder above ``path`` that is there."""
    return next((folder for folder in path.parents if folder.is_dir()), Path("/"))


class HookRefusedError(Exception):
    """A hook ended with a failure; ``name`` is which, ``done`` how, ``hint`` what helps."""

    def __init__(self, name: str, done: Completed | None, hint: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.done = done
        self.hint = hint


async def has_hook(repository: Repository, name: str) -> bool:
    """Return whether there is a hook of this name that git would run."""
    path = await repository.git_path(f"hooks/{name}")

    def runs() -> bool:
        return path.is_file() and os.access(path, os.X_OK)

    return await offload(runs, deadline=repository.limits.local)


async def run_hook(
    repository: Repository, name: str, *words: str, index: Path | None = None
) -> None:
    """Run a hook as ``git commit`` does; raise ``HookRefusedError`` if it fails."""
    if not await has_hook(repository, name):
        return
    deadline = repository.limits.hook
    given = ("--", *words) if words else ()
    done = await repository.run("hook", "run", name, *given, index=index, deadline=deadline)
    if _UNKNOWN in done.err.decode("utf-8", "replace"):
        done = await run_by_hand(repository, name, *words, index=index)
    if not done.ok:
        raise HookRefusedError(name, done)


async def run_by_hand(
    repository: Repository, name: str, *words: str, index: Path | None = None
) -> Completed:
    """Run a hook for a git before 2.36, which cannot."""
    path = await repository.git_path(f"hooks/{name}")
    env = {"GIT_DIR": str(repository.folder), "GIT_EDITOR": ":"}
    env |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
    return await run_command(
        (str(path), *words), deadline=repository.limits.hook, cwd=repository.top, env=env
    )


SIGNING: Final = "the signing program did not answer: it may wait for a PIN"
_LIMIT: Final = 400
_NOISE: Final = re.compile(
    r"hint:|To |error: failed to push|Done$|\s*$|warning: redirecting"
    r"|\*\*\* Please tell me|Run$|\s+git config --global user|to set your account's|Omit --global"
    r"|Please make sure you have the correct access|and the repository exists"
    r"|fatal: Could not read from remote repository"
)
"""Lines of git that do not say why: ``hint: Updates were rejected``."""
_LOCK: Final = re.compile(r"'([^']+\.lock)'")
"""Such as ``Unable to create '/r/.git/index.lock'``."""
_OWNED: Final = re.compile(r"repository at '([^']+)'")
"""Such as ``detected dubious ownership in repository at '/r'``."""
_REMEDIES: Final = (
    (
        ("Please tell me who you are", "empty ident name", "unable to auto-detect email"),
        "git does not know who you are: set git config user.name and user.email, then retry",
    ),
    (
        ("Could not resolve host", "Name or service not known", "Temporary failure in name"),
        "no network: the remote's name cannot be resolved; retry when it is back",
    ),
    (
        ("Connection refused", "Connection timed out", "Network is unreachable", "No route to"),
        "the remote does not answer; retry when the network is back",
    ),
    (
        ("clean filter", "smudge filter", "external filter"),
        "a filter of .gitattributes failed: install or unlock what it needs, then retry",
    ),
    (
        ("would be replaced by",),
        "git refuses the file's line ends (core.safecrlf): make them alike, then retry",
    ),
    (
        ("receiving end does not support",),
        "the remote does not know push.pushOption or push.gpgSign: unset it, then retry",
    ),
    (("--mirror can't be combined",), "the remote is a mirror: push yourself"),
    (
        ("Operation too slow", "Connection reset", "early EOF", "remote end hung up"),
        "the remote broke off; retry",
    ),
    (
        (
            "could not read Username", "could not read Password", "Authentication failed",
            "Permission denied (", "terminal prompts disabled", "Host key verification failed",
        ),
        "the remote asks for a login: log in with a git push of your own, then retry",
    ),
    (
        ("does not appear to be a git repository", "Repository not found", "not found: did you"),
        "the remote does not exist: check git remote -v",
    ),
    (
        ("is corrupt", "index file smaller", "index file corrupt", "bad index", "bad signature"),
        "git's own files are damaged: git fsck tells which; repair them, or clone anew",
    ),
    (("No space left on device", "Disk quota exceeded"), "the disk is full: make room, then retry"),
    (("insufficient permission", "Permission denied", "Read-only file system"),
     "this user may not write there"),
    (("gpg failed to sign", "failed to write commit object", "No secret key", "load public key",
      "user.signingkey", "gpg.ssh.", "sign message", SIGNING),
     "the commit could not be signed: commit once by hand, then retry"),
)  # fmt: skip

_NONE: Final = b"not a git repository (or any"
_BROKEN: Final = "fatal: not a git repository: "
"""Git's words for a ``.git`` that is there and leads to no repository."""
NO_HISTORY: Final = "is not in a git repository: saved, but without a history"


def of_command(done: Completed, doing: str) -> str:
    """Return the line for a command that failed while ``doing`` something."""
    if done.rc == NOT_ASKED and done.timed_out:
        return f"{doing}: {clean(done.err.decode('utf-8', 'replace'))}"
    if done.timed_out:
        return f"{doing}: git did not answer in time; retry"
    if done.rc == NO_PROGRAM:
        return f"{doing}: git is not installed"
    said = done.err.decode("utf-8", "replace")
    lock = _LOCK.search(said)
    if lock is not None and "File exists" in said:
        return (
            f"{doing}: {clean(lock[1])} is held: another git is at work; retry, "
            "and if none runs remove that file"
        )
    meant = next((text for signs, text in _REMEDIES if any(s in said for s in signs)), None)
    short = spoken(done)
    return f"{doing}: {meant} ({short})" if meant else f"{doing}: {short}"


def of_hook(error: HookRefusedError) -> str:
    """Return the line for a hook that said no, with its own words."""
    if error.done is None:
        return f"the {error.name} hook {error.hint}"
    if error.done.timed_out:
        return f"the {error.name} hook did not end in time; retry, or commit by hand"
    helps = error.hint or "do what it asks, then retry"
    return f"the {error.name} hook refused: {spoken(error.done)}; {helps}"


def of_file(error: OSError | ValueError, path: Path, changed: bool = False) -> str:
    """Return the line for a file that could not be read or written; ``changed``: it was before."""
    reason = clean(getattr(error, "strerror", None) or str(error) or "cannot be used")
    named = getattr(error, "filename", None)
    where = clean(named if isinstance(named, str) else path, 4096)
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full: make room, then retry"
    kept = "what was saved is kept" if changed else "nothing was changed"
    return f"{where}: {reason[:1].lower()}{reason[1:]} ({kept})"


def of_discovery(done: Completed, path: Path) -> str:
    """Return why ``path`` cannot be committed: git's refusal to name a repository."""
    said = done.err.decode("utf-8", "replace")
    where = clean(path.parent, 4096)
    if "dubious ownership" in said:
        at = _OWNED.search(said)
        place = where if at is None else clean(at[1], 4096)
        remedy = f"git config --global --add safe.directory {place}"
        return f"the repository belongs to another user; if you trust it: {remedy}"
    if said.startswith(_BROKEN):
        place = clean(said.removeprefix(_BROKEN).partition("\n")[0], 4096)
        return f"git takes {place} for no repository: repair it, or let this user read it"
    if _NONE in done.err:
        return f"{where} {NO_HISTORY}"
    return of_command(done, where)


def of_rejection(done: Completed, remote: str) -> str:
    """Return the line for a push that the remote, or a hook, turned down for good."""
    text = done.out.decode("utf-8", "replace") + done.err.decode("utf-8", "replace")
    words = [
        line.removeprefix("remote:").strip()
        for line in text.splitlines()
        if line.startswith("remote:") and line.removeprefix("remote:").strip(" -=*")
    ]
    reason = re.search(r"\[(?:remote )?rejected\] \(([^\n]*)\)", text)
    if reason is None:
        return of_command(done, f"push to {clean(remote)}")
    why = clean(reason[1])
    said = f": {_short(words)}" if words else ""
    return f"{clean(remote)} refused the push ({why}){said}; do what it asks, then retry"


def spoken(done: Completed) -> str:
    """Return a command's own words as one safe line without secrets."""
    text = done.err.decode("utf-8", "replace") or done.out.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if not _NOISE.match(line)]
    return _short(lines) or f"it exited with {done.rc} and said nothing"


def _short(lines: list[str]) -> str:
    parts = [clean(line) for line in scrub("\n".join(lines)).splitlines()]
    return clean(" / ".join(part for part in parts if part), _LIMIT)
