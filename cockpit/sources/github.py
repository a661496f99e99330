"""GitHub's issues over its API, where an issue is, and the token for its host (SPEC S-11)."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from cockpit import __version__
from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.runtime.http import Answer, Http, HttpError, date_of, proxied
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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
        if not private(place.api):
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


def private(api: str) -> bool:
    """Tell whether what is sent there stays between the two: encrypted, or on this machine.

    Without encryption a proxy reads it, also what is meant for this machine.
    """
    parts = urlsplit(api)
    if parts.scheme == "https":
        return True
    try:
        here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = parts.hostname == "localhost"
    return here and not proxied(api)


PAGE: Final = 100
MOST_PAGES: Final = 50
"""GitHub closes an issue to new comments at 2,500."""
_LAST: Final = re.compile(r"[?&]page=(\d{1,6})[^>]*>\s*;\s*rel=\"last\"")
_KINDS: Final = {
    401: ErrorKind.UNAUTHORIZED,
    403: ErrorKind.FORBIDDEN,
    404: ErrorKind.NOT_FOUND,
    410: ErrorKind.NOT_FOUND,
}


class Issue(Frozen):
    """An issue as far as the cockpit looks at it; ``url`` is the page for people."""

    number: int
    title: str
    state: str
    url: str
    updated_at: Instant
    body: str = ""
    labels: tuple[str, ...] = ()
    comments: int = 0
    locked: bool = False


class Comment(Frozen):
    """A comment; a smaller ``id`` is an earlier one.

    ``age`` is how long ago it was written, by GitHub's own clock (s; infinite where it does not
    say); ``changed_at`` is when it changed last, by that clock (epoch s). ``is_person``: its author
    is an account of a person, and no app wrote it for them.
    """

    id: int
    url: str
    body: str = ""
    author: str = ""
    is_person: bool = False
    edited: bool = True
    age: float = math.inf
    changed_at: float = -math.inf


class SeenIssue(NamedTuple):
    """An issue and the tag with which the same question costs nothing next time."""

    issue: Issue
    etag: str | None


class GitHub:
    """Asks and writes issues. ``base`` replaces the interface's address, for tests."""

    def __init__(
        self,
        http: Http,
        clock: Clock,
        *,
        base: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.http = http
        self._env = os.environ if env is None else env
        self._base = base
        self._tokens = Tokens(clock, self._env)

    def issue_place(self, url: str | None) -> GitHubPlace | None:
        """Return where an issue is, or ``None`` if ``url`` is not an issue's."""
        return issue_place(url, self._env, self._base)

    def repo_place(self, text: str | None) -> GitHubPlace | None:
        """Return where a repository is, or ``None`` if ``text`` names none."""
        return repo_place(text, self._env, self._base)

    async def issue(self, place: GitHubPlace, etag: str | None = None) -> SeenIssue | None:
        """Return an issue; ``None`` if it is as it was when it came with ``etag``."""
        extra = {} if etag is None else {"if-none-match": etag}
        answer = await self._get(place, place.issue_url, extra)
        if answer.status == 304 and etag is not None:
            return None
        self._expect(place, answer, 200)
        return SeenIssue(_issue(answer, answer.json()), answer.headers.get("etag"))

    async def comments(self, place: GitHubPlace) -> AsyncIterator[Comment]:
        """Yield every comment of an issue, newest first (GitHub itself gives the oldest first)."""
        url = f"{place.issue_url}/comments"
        first = await self._page(place, url, 1)
        for page in range(min(_last_page(first), MOST_PAGES), 1, -1):
            for comment in reversed(_comments(await self._page(place, url, page))):
                yield comment
        for comment in reversed(_comments(first)):
            yield comment

    async def comments_since(self, place: GitHubPlace, since: float) -> list[Comment]:
        """Return the comments of an issue that changed since then (epoch s), oldest first.

        Raises ``HttpError``, also where what comes back can be read by others on its way.
        """
        if not private(place.api):
            raise HttpError(ErrorKind.TLS, f"{place.host}: answers are read over https alone")
        query = f"since={datetime.fromtimestamp(since, UTC):%Y-%m-%dT%H:%M:%SZ}&"
        url, found = f"{place.issue_url}/comments", list[Comment]()
        first = await self._page(place, url, 1, query)
        found += _comments(first)
        if _last_page(first) > MOST_PAGES:
            message = f"{place.label} on {place.host}: more comments than can be read"
            raise HttpError(ErrorKind.BAD_ANSWER, message)
        for page in range(2, _last_page(first) + 1):
            found += _comments(await self._page(place, url, page, query))
        return found

    async def open_issues(self, place: GitHubPlace, pages: int = 10) -> AsyncIterator[Issue]:
        """Yield the open issues of a repository, newest first, without its pull requests."""
        query = "state=open&sort=created&direction=desc&"
        last = 1
        for page in range(1, pages + 1):
            answer = await self._page(place, f"{place.repo_url}/issues", page, query)
            last = max(last, _last_page(answer))
            for item in _list(answer):
                if "pull_request" not in item:
                    yield _issue(answer, item)
            if page >= last:
                return

    async def add_comment(self, place: GitHubPlace, body: str) -> Comment:
        """Comment on an issue."""
        answer = await self._send("POST", place, f"{place.issue_url}/comments", {"body": body})
        self._expect(place, answer, 201)
        return _comment(answer, answer.json())

    async def delete_comment(self, place: GitHubPlace, comment: int) -> None:
        """Delete a comment; one that is gone already is fine."""
        url = f"{place.repo_url}/issues/comments/{comment}"
        self._expect(place, await self._send("DELETE", place, url, None), 204, 404)

    async def create_issue(
        self, place: GitHubPlace, title: str, body: str, labels: Sequence[str]
    ) -> Issue:
        """Create an issue. Labels that do not exist are made, or dropped without push access."""
        document = {"title": title, "body": body, "labels": list(labels)}
        answer = await self._send("POST", place, f"{place.repo_url}/issues", document)
        self._expect(place, answer, 201)
        return _issue(answer, answer.json())

    async def close_issue(self, place: GitHubPlace) -> None:
        """Close an issue as not planned."""
        document = {"state": "closed", "state_reason": "not_planned"}
        self._expect(place, await self._send("PATCH", place, place.issue_url, document), 200)

    async def _page(self, place: GitHubPlace, url: str, page: int, query: str = "") -> Answer:
        answer = await self._get(place, f"{url}?{query}per_page={PAGE}&page={page}", {})
        self._expect(place, answer, 200)
        return answer

    async def _get(self, place: GitHubPlace, url: str, extra: Mapping[str, str]) -> Answer:
        return await self.http.get(url, {**await self._headers(place), **extra})

    async def _send(self, method: str, place: GitHubPlace, url: str, document: object) -> Answer:
        return await self.http.send(method, url, document, await self._headers(place))

    async def _headers(self, place: GitHubPlace) -> dict[str, str]:
        headers = {
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
            "user-agent": f"run-cockpit/{__version__}",
        }
        token = await self._tokens.token(place)
        if token is not None:
            headers["authorization"] = f"Bearer {token.value}"
        return headers

    def _expect(self, place: GitHubPlace, answer: Answer, *statuses: int) -> None:
        """Raise what any other answer means, with what helps."""
        if answer.status in statuses:
            return
        if answer.status == 401:
            self._tokens.forget(place)
        kind = _KINDS.get(answer.status, ErrorKind.BAD_ANSWER)
        said = _message(answer)
        words = _meaning(answer.status, self._tokens.remedy(place))
        message = f"{place.label} on {place.host}: {words}" + (f" ({said})" if said else "")
        raise HttpError(kind, message, status=answer.status)


def _meaning(status: int, remedy: str) -> str:
    known = {
        301: "the repository has moved; update its address in cockpit.toml",
        401: f"the token was rejected; {remedy}",
        403: f"not allowed: the issue may be locked, or the token lacks rights to it; {remedy}",
        404: f"not found, or not visible without a token that may see it; {remedy}",
        410: "gone: deleted, or issues are disabled there; name another in [run.records]",
        422: "GitHub rejected this text as invalid",
    }
    return known.get(status, f"unexpected answer, status {status}")


def _message(answer: Answer) -> str:
    """Return GitHub's own words about a refusal."""
    try:
        document = answer.json()
    except HttpError:
        return ""
    if not isinstance(document, dict):
        return ""
    errors = document.get("errors")
    details = [each.get("message") or each.get("code") for each in _dicts(errors)]
    text = ": ".join(str(each) for each in (document.get("message"), *details) if each)
    return scrub(clean(text, 200))


def _last_page(answer: Answer) -> int:
    found = _LAST.search(answer.headers.get("link", ""))
    return int(found.group(1)) if found else 1


def _comments(answer: Answer) -> list[Comment]:
    return [_comment(answer, item) for item in _list(answer)]


def _comment(answer: Answer, item: dict[str, Any]) -> Comment:
    try:
        user = item.get("user") or {}
        created, updated = item.get("created_at"), item.get("updated_at")
        said = date_of(answer.headers)
        written = datetime.fromisoformat(created).timestamp() if created else -math.inf
        changed = datetime.fromisoformat(updated).timestamp() if updated else -math.inf
        return Comment(
            id=item["id"],
            url=item["html_url"],
            body=item.get("body") or "",
            author=user.get("login") or "",
            is_person=user.get("type") == "User" and not item.get("performed_via_github_app"),
            edited=created is None or created != updated,
            age=math.inf if said is None else said - written,
            changed_at=-math.inf if said is None else min(changed, said),
        )
    except (ValidationError, LookupError, TypeError, ValueError, AttributeError):
        raise _odd(answer, "comment") from None


def _issue(answer: Answer, item: dict[str, Any]) -> Issue:
    try:
        return Issue(
            number=item["number"],
            title=item["title"],
            state=item["state"],
            url=item["html_url"],
            updated_at=datetime.fromisoformat(item["updated_at"]).timestamp(),
            body=item.get("body") or "",
            labels=tuple(
                each if isinstance(each, str) else str(each.get("name") or "")
                for each in item.get("labels") or ()
            ),
            comments=item.get("comments") or 0,
            locked=bool(item.get("locked")),
        )
    except (ValidationError, LookupError, TypeError, ValueError, AttributeError):
        raise _odd(answer, "issue") from None


def _list(answer: Answer) -> list[dict[str, Any]]:
    items = answer.json()
    if not isinstance(items, list):
        raise _odd(answer, "list")
    return _dicts(items)


def _dicts(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _odd(answer: Answer, what: str) -> HttpError:
    return HttpError(ErrorKind.BAD_ANSWER, f"{answer.host}: the {what} does not look like GitHub's")
