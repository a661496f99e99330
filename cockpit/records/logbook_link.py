"""Where a logbook is for those who look on: its path in its repository, and its page on GitHub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from cockpit.sources.git import git
from cockpit.text.safe import clean

_REMOTE: Final = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/\s]{1,300}@)?(?P<host>[A-Za-z0-9.-]{1,253})(?::\d+)?/"
    r"|(?:[A-Za-z0-9._-]{1,64}@)(?P<ssh>[A-Za-z0-9.-]{1,253}):)"
    r"(?P<path>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/?"
)


class LogbookLink(NamedTuple):
    """A logbook's path inside its repository, and its page if the remote is on GitHub."""

    path: str
    url: str | None = None


async def logbook_link(path: str) -> LogbookLink:
    """Return where a logbook is; outside a repository it is just its name."""
    folder, name = str(Path(path).parent), Path(path).name
    inside = await git(folder, "rev-parse", "--show-prefix")
    if not inside.ok:
        return LogbookLink(clean(name, 1000))
    place = clean(inside.text.rstrip("\n") + name, 4096)
    branch = await git(folder, "symbolic-ref", "--quiet", "--short", "HEAD")
    remote = await git(folder, "remote", "get-url", "origin")
    if not (branch.ok and remote.ok):
        return LogbookLink(place)
    return LogbookLink(place, page_of(remote.text.strip(), branch.text.strip(), place))


def page_of(remote: str, branch: str, path: str) -> str | None:
    """Return a file's page, without what the remote's address may hold of credentials."""
    found = _REMOTE.fullmatch(remote)
    host = None if found is None else (found.group("host") or found.group("ssh")).lower()
    if found is None or host is None or "github" not in host.split("."):
        return None
    return f"https://{host}/{found.group('path')}/blob/{quote(branch)}/{quote(path)}"
