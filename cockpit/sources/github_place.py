"""Where an issue is: its address for people, and the address of its interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from cockpit.model.base import Frozen

PUBLIC: Final = "github.com"
_NAME: Final = r"[A-Za-z0-9_.-]{1,100}"
_HOST: Final = r"(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?)"
_ISSUE: Final = re.compile(
    rf"https?://{_HOST}/(?P<owner>{_NAME})/(?P<repo>{_NAME})/issues/(?P<number>\d{{1,10}})"
    r"/?(?:[?#].*)?"
)
_REPO: Final = re.compile(
    rf"(?:https?://{_HOST}/)?(?P<owner>{_NAME})/(?P<repo>{_NAME}?)(?:\.git)?/?"
)


class Place(Frozen):
    """A repository, or with ``number`` an issue of it; ``api`` ends without a slash."""

    host: str
    api: str
    owner: str
    repo: str
    number: int | None = None

    @property
    def repo_url(self) -> str:
        """The repository's address in the interface."""
        return f"{self.api}/repos/{self.owner}/{self.repo}"

    @property
    def issue_url(self) -> str:
        """The issue's address in the interface."""
        return f"{self.repo_url}/issues/{self.number}"

    @property
    def label(self) -> str:
        """``owner/repo#7``."""
        number = "" if self.number is None else f"#{self.number}"
        return f"{self.owner}/{self.repo}{number}"


def issue_place(url: str | None, env: Mapping[str, str], base: str | None = None) -> Place | None:
    """Return where an issue is, or ``None`` for an address that is not an issue's."""
    found = _ISSUE.fullmatch((url or "").strip())
    return None if found is None else _place(found, env, base, int(found.group("number")))


def repo_place(text: str | None, env: Mapping[str, str], base: str | None = None) -> Place | None:
    """Return where a repository is (``owner/repo`` or its address)."""
    found = _REPO.fullmatch((text or "").strip())
    return None if found is None else _place(found, env, base, None)


def _place(
    found: re.Match[str], env: Mapping[str, str], base: str | None, number: int | None
) -> Place | None:
    owner, repo = found.group("owner"), found.group("repo")
    if {owner, repo} & {".", ".."} or not repo:
        return None
    host = (found.group("host") or PUBLIC).lower().removeprefix("www.")
    api = base or _told(host, env) or _api(host)
    return Place(host=host, api=api.rstrip("/"), owner=owner, repo=repo, number=number)


def _told(host: str, env: Mapping[str, str]) -> str | None:
    """Return ``GITHUB_API_URL`` if it is meant for this host (``GITHUB_SERVER_URL``)."""
    server = urlsplit(env.get("GITHUB_SERVER_URL") or f"https://{PUBLIC}").netloc.lower()
    return env.get("GITHUB_API_URL") or None if server == host else None


def _api(host: str) -> str:
    if host == PUBLIC or host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"https://{host}/api/v3"
