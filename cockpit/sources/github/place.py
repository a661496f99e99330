"""Where an issue is, for people and for programs, and the token for its host.

The token is never shown, and never sent in the clear or to another host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.runtime.shell import run_command

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


class GitHubPlace(Frozen):
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


def issue_place(
    url: str | None, env: Mapping[str, str], base: str | None = None
) -> GitHubPlace | None:
    """Return where an issue is, or ``None`` for an address that is not an issue's."""
    found = _ISSUE.fullmatch((url or "").strip())
    return None if found is None else _place(found, env, base, int(found.group("number")))


def repo_place(
    text: str | None, env: Mapping[str, str], base: str | None = None
) -> GitHubPlace | None:
    """Return where a repository is (``owner/repo`` or its address)."""
    found = _REPO.fullmatch((text or "").strip())
    return None if found is None else _place(found, env, base, None)


def _place(
    found: re.Match[str], env: Mapping[str, str], base: str | None, number: int | None
) -> GitHubPlace | None:
    owner, repo = found.group("owner"), found.group("repo")
    if {owner, repo} & {".", ".."} or not repo:
        return None
    host = (found.group("host") or PUBLIC).lower().removeprefix("www.")
    own = host == PUBLIC or host.endswith(".ghe.com")
    api = f"https://api.{host}" if own else f"https://{host}/api/v3"
    if host == _server(env):  # the one that GITHUB_API_URL is meant for
        api = env.get("GITHUB_API_URL") or api
    api = (base or api).rstrip("/")
    return GitHubPlace(host=host, api=api, owner=owner, repo=repo, number=number)


def _server(env: Mapping[str, str]) -> str:
    return urlsplit(env.get("GITHUB_SERVER_URL") or f"https://{PUBLIC}").netloc.lower()


GH_DEADLINE: Final = 5.0
KEPT: Final = 600.0
_TOKEN: Final = re.compile(r"[!-~]{8,1000}")
_PUBLIC_NAMES: Final = ("GH_TOKEN", "GITHUB_TOKEN")
_OWN_NAMES: Final = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


class Token(NamedTuple):
    """A token and where it comes from; it prints as its source."""

    value: str
    source: str

    def __repr__(self) -> str:
        """Return where it comes from, and nothing of it; ``str`` says the same."""
        return f"<token from {self.source}>"


class Tokens:
    """Finds the token of each host, and remembers it for ten minutes."""

    def __init__(self, clock: Clock, env: Mapping[str, str]) -> None:
        self._clock = clock
        self._env = env
        self._kept: dict[str, tuple[float, Token | None]] = {}

    async def token(self, place: GitHubPlace) -> Token | None:
        """Return the token to use at ``place``, if there is one."""
        if not _private(place.api):
            return None
        for name in self.names(place):
            value = self._env.get(name, "").strip()
            if _TOKEN.fullmatch(value):
                return Token(value, name)
        now = self._clock.monotonic()
        until, kept = self._kept.get(place.host, (now, None))
        if now >= until:
            argv = ("gh", "auth", "token", "--hostname", place.host)
            done = await run_command(argv, deadline=GH_DEADLINE, env={"GH_PROMPT_DISABLED": "1"})
            value = done.text.strip() if done.ok else ""
            kept = Token(value, "gh auth token") if _TOKEN.fullmatch(value) else None
            self._kept[place.host] = (now + KEPT, kept)
        return kept

    def forget(self, place: GitHubPlace) -> None:
        """Ask anew next time: the token was refused."""
        self._kept.pop(place.host, None)

    def names(self, place: GitHubPlace) -> tuple[str, ...]:
        """Return the variables that may hold the token of ``place``.

        As with ``gh``, those of the public host are not sent anywhere else.
        """
        public = place.host in (PUBLIC, _server(self._env)) or place.host.endswith(".ghe.com")
        return _PUBLIC_NAMES if public else _OWN_NAMES

    def remedy(self, place: GitHubPlace) -> str:
        """Return what a person can do about a token that is missing or refused."""
        host = "" if place.host == PUBLIC else f" --hostname {place.host}"
        return f"set {self.names(place)[0]}, or: gh auth login{host}"


def _private(api: str) -> bool:
    """Tell whether what is sent there stays between the two: encrypted, or on this machine."""
    parts = urlsplit(api)
    if parts.scheme == "https":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
