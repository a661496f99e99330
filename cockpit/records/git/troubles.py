"""What stands in the way of a record, in one line: what, where, and what to do about it."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

from cockpit.records.git.repository import NOT_ASKED, HookRefusedError
from cockpit.runtime.shell import NO_PROGRAM, Completed
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_LIMIT: Final = 400
_NOISE: Final = re.compile(
    r"hint:|To |error: failed to push|Done$|\s*$|warning: redirecting"
    r"|\*\*\* Please tell me|Run$|\s+git config --global user|to set your account's|Omit --global"
    r"|Please make sure you have the correct access|and the repository exists"
    r"|fatal: Could not read from remote repository"
)
_LOCK: Final = re.compile(r"'([^']+\.lock)'")
_OWNED: Final = re.compile(r"repository at '([^']+)'")
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
    (("No space left on device", "Disk quota exceeded"), "the disk is full: make room, then retry"),
    (("insufficient permission", "Permission denied", "Read-only file system"),
     "this user may not write there"),
    (("gpg failed to sign", "failed to write commit object", "No secret key"),
     "the commit could not be signed: commit once by hand, then retry"),
)  # fmt: skip

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
        return f"the {error.name} hook changed the file: {error.hint}"
    if error.done.timed_out:
        return f"the {error.name} hook did not end in time; retry, or commit by hand"
    helps = error.hint or "do what it asks, then retry"
    return f"the {error.name} hook refused: {spoken(error.done)}; {helps}"


def of_file(error: OSError | ValueError, path: Path, changed: bool = False) -> str:
    """Return the line for a file that could not be read or written; ``changed``: it was before."""
    reason = clean(getattr(error, "strerror", None) or str(error) or "cannot be used")
    where = clean(path, 4096)
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
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
    if "must be run in a work tree" in said:
        return f"{where} is inside a bare repository or a git directory: it has no work tree"
    if "not a git repository" in said:
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
