"""Creates a run's issue, once: it is looked for before, after a lost answer, and afterwards.

The issue names the logbook: its path in its repository, and its page if the remote is GitHub's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from cockpit.model.clock import Clock
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.records.issue.outbox import SETTLE, AsyncOutbox, said_of, unsettled
from cockpit.records.issue.posting import LOOKS, PostMarker, marker_of, same_text
from cockpit.records.issue.text import title
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.sources.git.command import git
from cockpit.sources.github import GitHub, GitHubPlace, Issue
from cockpit.store.messages import Letter, Outbox, Waiting
from cockpit.store.store import Store
from cockpit.text.safe import clean

ISSUE: Final = "issue"
LABELS: Final = ("experiment", "agent-generated")
_REMOTE: Final = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/\s]{1,300}@)?(?P<host>[A-Za-z0-9.-]{1,253})(?::\d+)?/"
    r"|(?:[A-Za-z0-9._-]{1,64}@)(?P<ssh>[A-Za-z0-9.-]{1,253}):)"
    r"(?P<path>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/?"
)


class _Found(NamedTuple):
    """Open issues of the wanted title, oldest first: with our marker, and other people's."""

    ours: tuple[Issue, ...]
    others: tuple[Issue, ...]


class _TakenError(Exception):
    """It cannot be created now; the text says why. ``url`` is one that is there instead."""

    def __init__(self, text: str, url: str | None = None) -> None:
        super().__init__(text)
        self.url = url


class Creator:
    """Creates issues; nothing of it is queued, since a launch waits for the address."""

    def __init__(self, store: Store | None, clock: Clock, github: GitHub) -> None:
        self._box = AsyncOutbox(store)
        self._clock = clock
        self._github = github

    async def create(self, run: RunSpec, key: str, text: str) -> tuple[Recorded, str | None]:
        """Return where the issue is, and what of it is not as asked."""
        place = self._github.repo_place(run.records.issue_repo)
        if place is None:
            return _not("[run.records] names no issue_repo (owner/repo) to create it in"), None
        letter = Letter(kind=ISSUE, to=place.repo_url, body=text)
        now = self._clock.now()
        row = await self._box.ask(
            lambda box: box.put(key, f"{ISSUE}:{place.repo_url}", letter, now)
        )
        claim = uuid.uuid4().hex
        try:
            row = await self._ready(row, claim)
            issue = await self._created(place, title(run), text, row)
        except _TakenError as error:
            return _not(str(error), error.url), None
        except HttpError as error:
            if row is not None and row.sent_at is not None:  # it was created before
                return Recorded(stage=SaveStage.NOTHING, url=row.answer), None
            await self._failed(row, error, now)
            return _not(f"not created: {said_of(error, now)}"), None
        finally:
            if row is not None:
                await self._released(row.number, claim)
        return Recorded(stage=SaveStage.NOTHING, url=issue.url), _dropped(issue)

    async def _ready(self, row: Waiting | None, claim: str) -> Waiting | None:
        """Claim the row; raises ``_TakenError`` while someone else creates it."""
        now = self._clock.now()
        if row is None:
            return None
        if row.sent_at is None and unsettled(row, now):
            said = "the answer to the former attempt was lost"
            raise _TakenError(f"{said}; it may still appear: try again in {SETTLE:.0f} s")
        number = row.number
        taken = await self._box.ask(lambda box: box.claim(number, claim, now))
        if taken is None and row.sent_at is None:
            raise _TakenError("another cockpit is creating it; try again shortly")
        return taken or row

    async def _created(
        self, place: GitHubPlace, name: str, text: str, row: Waiting | None
    ) -> Issue:
        async with self._github.http.session():
            found = await self._found(place, name, text)
            if not found.ours and found.others:
                url = found.others[0].url
                raise _TakenError(f'an open issue "{name}" exists: set it as records.issue', url)
            if not found.ours:
                await self._note(row, lambda box, number, now: box.trying(number, now))
                found = await self._sent(place, name, text)
            issue = await self._one_stays(place, text, found.ours)
        await self._note(row, lambda box, number, now: box.sent(number, issue.url, now))
        return issue

    async def _sent(self, place: GitHubPlace, name: str, text: str) -> _Found:
        try:
            own = await self._github.create_issue(place, name, text, LABELS)
        except LostAnswerError as lost:
            return await self._looked_for(place, name, text, lost)
        try:
            ours = (await self._found(place, name, text, pages=1)).ours
        except HttpError:  # it is there; whether another one is too cannot be told now
            return _Found((own,), ())
        known = own.number in {issue.number for issue in ours}
        return _Found(ours if known else (*ours, own), ())

    async def _looked_for(
        self, place: GitHubPlace, name: str, text: str, lost: LostAnswerError
    ) -> _Found:
        for pause in LOOKS:
            await self._clock.sleep(pause)
            try:
                found = await self._found(place, name, text, pages=1)
            except HttpError:
                break
            if found.ours:
                return found
        raise lost

    async def _found(self, place: GitHubPlace, name: str, text: str, pages: int = 10) -> _Found:
        wanted = marker_of(text)
        same = [
            issue
            async for issue in self._github.open_issues(place, pages)
            if issue.title.strip() == name
        ]
        same.sort(key=lambda issue: issue.number)
        ours = tuple(issue for issue in same if _event(marker_of(issue.body)) == _event(wanted))
        return _Found(ours, tuple(issue for issue in same if issue not in ours))

    async def _one_stays(self, place: GitHubPlace, text: str, ours: Sequence[Issue]) -> Issue:
        """Close what we created after the first one, and return the first."""
        for issue in ours[1:]:
            if marker_of(issue.body) == marker_of(text) and same_text(issue.body, text):
                number = {"number": issue.number}
                await self._github.close_issue(place.model_copy(update=number))
        return ours[0]

    async def _note(self, row: Waiting | None, write: Callable[[Outbox, int, float], None]) -> None:
        if row is not None:
            number, now = row.number, self._clock.now()
            await self._box.ask(lambda box: write(box, number, now))

    async def _failed(self, row: Waiting | None, error: HttpError, now: float) -> None:
        said, definite = str(error), not isinstance(error, LostAnswerError)
        await self._note(
            row, lambda box, number, _: box.failed(number, said, now, None, definite=definite)
        )

    async def _released(self, number: int, claim: str) -> None:
        await self._box.ask(lambda box: box.release(number, claim))


def _event(marker: PostMarker | None) -> str | None:
    return None if marker is None else marker.event


def _dropped(issue: Issue) -> str | None:
    """Return which labels GitHub dropped: it makes missing ones only for who has push access."""
    missing = [label for label in LABELS if label not in issue.labels]
    if not missing:
        return None
    return f"GitHub dropped the labels {', '.join(missing)}: the token has no push access"


def _not(trouble: str, url: str | None = None) -> Recorded:
    return Recorded(stage=SaveStage.NOTHING, trouble=trouble, url=url)


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
