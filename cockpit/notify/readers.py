"""How the answers of each service are read, authenticated and replied to."""

from __future__ import annotations

import asyncio
import json
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from html import escape
from math import inf, isfinite
from typing import Any, Final, NamedTuple, TypeGuard
from urllib.parse import urlencode

from cockpit.model.alert import Severity
from cockpit.model.answers import ACK_LASTS, Offer
from cockpit.model.facet import ErrorKind
from cockpit.model.notify import AnswerSpec, Route
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import same_person
from cockpit.notify.answers import Desk, Given, Reader, Reading
from cockpit.notify.message import Button, Message
from cockpit.notify.offering import TOKEN, key_path, signing_key, token_of
from cockpit.records.issue.service import block, prose
from cockpit.runtime.http import Answer, HttpError, date_of
from cockpit.sources.github import Comment, GitHubPlace, private
from cockpit.text.scrub import shown

AT_ONCE: Final = 4
LOOK_BACK: Final = 26 * 3600.0
"""Seconds of comments that are asked for: this machine's clock may be off, GitHub's decides."""
LATE: Final = 600.0
"""Seconds after which a comment that was written is surely shown to whoever asks."""
MOST: Final = "999"
"""Messages that Slack gives at once, at most."""
ANSWER_EVENT: Final = "answer"
"""What the events of our replies begin with."""
ACK_REACTIONS: Final = frozenset(("white_check_mark", "heavy_check_mark", "eyes"))
"""Reactions in Slack that acknowledge."""
_REF: Final = re.compile(r"answers to ([A-Z2-7]{26})\b")
_NAME: Final = re.compile(r"[A-Z2-7]{26}")
NO_REF: Final = "-"
"""What no offer is called: the incident is not ours."""
_STAMP: Final = re.compile(r"[0-9]{9,11}\.[0-9]{1,6}")
_SLACK_COMMAND: Final = re.compile(r"(?:ack(?: \S+)?|stop standing|relaunch)", re.IGNORECASE)


class _Cursor(NamedTuple):
    """Up to when the comments of an issue were read (epoch s by GitHub's clock).

    The next look begins before ``former``, up to where the look before the last one has read: a
    comment that is deleted between two pages moves another to a page that was read already.
    """

    former: float = -inf
    latest: float = -inf


class GitHubReader(Reader):
    """Comments on the runs' issues; a reply is a comment."""

    def __init__(self, spec: AnswerSpec, desk: Desk) -> None:
        super().__init__(spec, desk)
        self._cursors: dict[GitHubPlace, _Cursor] = {}

    async def read(self, runs: Sequence[RunSpec]) -> Reading:
        """Return what was written on the issues lately; runs may share an issue."""
        issues = dict[GitHubPlace, list[str]]()
        troubles = list[str]()
        for run in (each for each in runs if each.records.issue is not None):
            place = self.desk.github.issue_place(run.records.issue)
            if place is None:
                troubles.append(f"records.issue of {run.name} is not the address of an issue")
            else:
                issues.setdefault(place, []).append(run.name)
        few = asyncio.Semaphore(AT_ONCE)
        of_each = (self._of(place, tuple(names), few) for place, names in issues.items())
        found = await asyncio.gather(*of_each)
        return Reading(
            tuple(given for reading in found for given in reading.given),
            (*troubles, *(trouble for reading in found for trouble in reading.troubles)),
            dead=bool(found) and all(reading.troubles for reading in found),
            settle=lambda: [reading.settle() for reading in found],
        )

    async def _of(
        self, place: GitHubPlace, runs: tuple[str, ...], few: asyncio.Semaphore
    ) -> Reading:
        github, cursor = self.desk.github, self._cursors.get(place, _Cursor())
        since = self.desk.clock.now() - LOOK_BACK
        if isfinite(cursor.former):
            since = cursor.former - LATE
        try:
            async with few, github.http.session():
                comments = await github.comments_since(place, since)
        except HttpError as error:
            return Reading((), (str(error),))
        latest = max((each.changed_at for each in comments), default=-inf)
        moved = _Cursor(cursor.latest, max(cursor.latest, latest))
        return Reading(
            tuple(self._given(runs, each) for each in comments),
            settle=lambda: self._cursors.update({place: moved}),
        )

    def _given(self, runs: tuple[str, ...], comment: Comment) -> Given:
        given = Given(
            source="github",
            id=str(comment.id),
            account=comment.author,
            person=self.person(comment.author) if comment.is_person else None,
            text=comment.body,
            age=comment.age,
            runs=runs,
            trouble="the comment was edited; write a new one" if comment.edited else None,
        )
        by_app = not comment.is_person and self.person(comment.author) is not None
        return given._replace(nobody="an app or a bot has written it") if by_app else given

    async def reply(self, run: RunSpec, given: Given, text: str, offer: Offer | None) -> str | None:
        """Comment on the issue, once for each answer; what cannot be sent now is queued."""
        body: str = prose(text)
        if offer is not None:
            body = f"{body}:\n\n{block(f'/{offer.words}')}"
        event = f"{ANSWER_EVENT} {given.source} {given.id}"
        recorded = await self.desk.issues.comment(run, event, body)
        return None if recorded.queued else recorded.trouble


class NtfyReader(Reader):
    """Messages on a topic for answers; each must carry a token of a message that we have sent.

    The service knows no accounts: who holds a token is who was sent it. A reply is a message by
    the route that the answered one went by.
    """

    @property
    def _topic(self) -> str:
        return self.value("url_env").rstrip("/")

    async def read(self, runs: Sequence[RunSpec]) -> Reading:
        """Return the messages of the last hour that are still kept there."""
        headers = {}
        if self.spec.token_env is not None:
            headers["authorization"] = f"Bearer {self.value('token_env')}"
        try:
            if not private(self._topic):
                raise HttpError(ErrorKind.TLS, f"{self.spec.url_env} is not an https:// address")
            answer = await self.get(f"{self._topic}/json?poll=1&since=1h", headers)
            return Reading(tuple(self._given(answer, each) for each in _lines(answer)))
        except HttpError as error:
            return Reading((), (str(error),), dead=True)

    def _given(self, answer: Answer, item: Mapping[str, Any]) -> Given:
        text, at = str(item.get("message") or ""), item.get("time")
        words, _, last = text.strip().rpartition(" ")
        token = last if TOKEN.fullmatch(last) else ""
        return Given(
            source="ntfy",
            id=str(item.get("id")),
            account="a button",
            person=None,
            text=words if token else text,
            age=_age(answer, float(at) if isinstance(at, int | float) else None),
            ref=token.partition(".")[0],
            token=token,
        )

    async def reply(self, run: RunSpec, given: Given, text: str, offer: Offer | None) -> str | None:
        """Send a message by the route of the offer; a button sends the words back."""
        channels = self.desk.channels()
        route = next((each for each in channels.routes if each.name == given.place), None)
        if route is None or not self._is_theirs(route.route, given.person):
            return "the run file has no such route to its person any more"  # edited meanwhile
        buttons: tuple[Button, ...] = ()
        if offer is not None:
            token = token_of(offer, signing_key(key_path()))
            buttons = (Button(offer.words.rpartition(" ")[0], f"{offer.words} {token}"),)
        message = Message(
            run=run.name, event=f"{ANSWER_EVENT} {given.id}", title=f"{run.name}: your answer",
            body=text, severity=Severity.CRITICAL, buttons=buttons,
        )  # fmt: skip
        delivery = await channels.deliver(message, route)
        return None if delivery.ok else f"{route.name}: {delivery.note}"

    @staticmethod
    def _is_theirs(route: Route, person: str | None) -> bool:
        return person is None or (route.to is not None and same_person(route.to, person))


class IncidentReader(Reader):
    """What is acknowledged in a service for people on call, by the name that we gave it.

    An acknowledged incident is an acknowledgement here, by who gave it there. Nothing is replied.
    """

    @property
    def _api(self) -> str:
        return (self.spec.api or self.row.api).rstrip("/")

    async def read(self, runs: Sequence[RunSpec]) -> Reading:
        """Return the acknowledgements of incidents that are open."""
        try:
            if not private(self._api):
                raise HttpError(ErrorKind.TLS, f"{self._api} is not an https:// address")
            return Reading(tuple([each async for each in self._acknowledged()]))
        except HttpError as error:
            return Reading((), (str(error),), dead=True)

    @abstractmethod
    def _acknowledged(self) -> AsyncIterator[Given]:
        """Yield the acknowledgements; raises ``HttpError``."""

    def _of(self, ref: object, id_: object, accounts: Sequence[object], at: object) -> Given:
        known = [str(each) for each in accounts if isinstance(each, str) and each]
        person = next(filter(None, map(self.person, known)), None)
        account = next((each for each in known if self.person(each)), known[0] if known else "")
        return Given(
            source=self.spec.kind, id=f"{id_} {account} {at}"[:200], account=account,
            person=person, text="/ack", age=0.0, ref=ref if _is_ref(ref) else NO_REF,
        )  # fmt: skip

    async def reply(self, run: RunSpec, given: Given, text: str, offer: Offer | None) -> str | None:
        """Tell nobody: the service has shown its own answer."""
        return None


class PagerDutyReader(IncidentReader):
    """PagerDuty's REST API: the incident's key is the name that the event was sent under."""

    async def _acknowledged(self) -> AsyncIterator[Given]:
        headers = {
            "authorization": f"Token token={self.value('token_env')}",
            "accept": "application/vnd.pagerduty+json;version=2",
        }
        query = "statuses[]=acknowledged&include[]=acknowledgers&sort_by=created_at:desc&limit=100"
        answer = await self.get(f"{self._api}/incidents?{query}", headers)
        for incident in _dicts_in(answer, "incidents"):
            for each in _dicts(incident.get("acknowledgements")):
                who = each.get("acknowledger")
                who = who if isinstance(who, dict) else {}
                names = (who.get("email"), who.get("id"))
                if who.get("type") in ("user", "user_reference"):
                    key, at = incident.get("incident_key"), each.get("at")
                    yield self._of(key, incident.get("id"), names, at)


class OpsgenieReader(IncidentReader):
    """Opsgenie's alert API: the alert's alias is the name that it was sent under."""

    async def _acknowledged(self) -> AsyncIterator[Given]:
        headers = {"authorization": f"GenieKey {self.value('token_env')}"}
        query = (
            "query=status%3Aopen%20AND%20acknowledged%3Atrue&limit=100&sort=createdAt&order=desc"
        )
        answer = await self.get(f"{self._api}/v2/alerts?{query}", headers)
        for alert in _dicts_in(answer, "data"):
            report = alert.get("report")
            report = report if isinstance(report, dict) else {}
            if alert.get("acknowledged") is True:
                names = (report.get("acknowledgedBy"),)
                yield self._of(alert.get("alias"), alert.get("id"), names, report.get("ackTime"))


class SlackReader(Reader):
    """Reactions and replies under our messages in one channel, by the members that are named."""

    async def read(self, runs: Sequence[RunSpec]) -> Reading:
        """Return what named and other members have answered to messages of the last hours."""
        try:
            api = (self.spec.api or self.row.api).rstrip("/")
            if not private(api):
                raise HttpError(ErrorKind.TLS, f"{api} is not an https:// address")
            oldest = f"{self.desk.clock.now() - ACK_LASTS:.0f}"
            history = await self._ask(api, "conversations.history", oldest=oldest, limit=MOST)
        except HttpError as error:
            return Reading((), (str(error),), dead=True)
        troubles = _rest(history, "messages of the channel")
        try:
            found = [each async for each in self._answers(api, history, troubles)]
        except HttpError as error:
            return Reading((), (*troubles, str(error)), dead=True)
        return Reading(tuple(found), tuple(troubles))

    async def _answers(
        self, api: str, history: Answer, troubles: list[str]
    ) -> AsyncIterator[Given]:
        for ref, message in _originals(history).items():
            at = str(message.get("ts"))
            posted = _age(history, _stamp(at))
            for reaction in _dicts(message.get("reactions")):
                users = reaction.get("users") if reaction.get("name") in ACK_REACTIONS else ()
                for user in users if isinstance(users, list) else ():
                    reacted = self._given(ref, f"{at} {user}", str(user), "/ack", 0.0, at)
                    yield reacted._replace(posted=posted)
            if message.get("reply_count"):
                replies = await self._ask(api, "conversations.replies", ts=at, limit=MOST)
                troubles += _rest(replies, "replies of a thread")
                for reply in _dicts_in(replies, "messages"):
                    given = self._reply(replies, reply, ref, at)
                    if given is not None:
                        yield given._replace(posted=posted)

    def _reply(self, answer: Answer, reply: Mapping[str, Any], ref: str, at: str) -> Given | None:
        user, text, ts = reply.get("user"), str(reply.get("text") or ""), str(reply.get("ts"))
        if ts == at or reply.get("bot_id") or not isinstance(user, str):
            return None
        age = _age(answer, _stamp(ts))
        text = text.strip()
        if _SLACK_COMMAND.fullmatch(text):
            text = f"/{text}"  # Slack takes a text that begins with a slash as its own command
        given = self._given(ref, ts, user, text, age, at)
        edited = "the reply was edited; write a new one" if reply.get("edited") else None
        return given._replace(trouble=edited)

    def _given(self, ref: str, id_: str, user: str, text: str, age: float, at: str) -> Given:
        return Given(
            source="slack", id=id_, account=user, person=self.person(user), text=text, age=age,
            ref=ref, place=at, once=False,
        )  # fmt: skip

    async def _ask(self, api: str, method: str, **query: str) -> Answer:
        words = urlencode({"channel": self.spec.channel or "", **query})
        headers = {"authorization": f"Bearer {self.value('token_env')}"}
        answer = await self.get(f"{api}/{method}?{words}", headers)
        document = answer.json()
        if not isinstance(document, dict) or document.get("ok") is not True:
            said = document.get("error") if isinstance(document, dict) else "no answer of Slack's"
            raise HttpError(ErrorKind.BAD_ANSWER, f"Slack: {shown(said, 80)}")
        return answer

    async def reply(self, run: RunSpec, given: Given, text: str, offer: Offer | None) -> str | None:
        """Write into the thread of the message."""
        words = "" if offer is None else f":\n{offer.words}"
        api = (self.spec.api or self.row.api).rstrip("/")
        document = {
            "channel": self.spec.channel, "thread_ts": given.place, "mrkdwn": False,
            "text": f"{escape(text, quote=False)}{words}",
        }  # fmt: skip
        headers = {"authorization": f"Bearer {self.value('token_env')}"}
        url = f"{api}/chat.postMessage"
        try:
            answer = (await self.desk.http.send("POST", url, document, headers)).json()
        except HttpError as error:
            return str(error)
        sent = isinstance(answer, dict) and answer.get("ok") is True
        return None if sent else "Slack has not taken the message"


def _originals(history: Answer) -> dict[str, dict[str, Any]]:
    """Return the message of each offer: the first of a bot that names it, for others may copy it.

    Anybody in a channel may add a bot to it; whether this is ours, the time of its offer tells.
    """
    found = dict[str, dict[str, Any]]()
    for message in sorted(_dicts_in(history, "messages"), key=lambda each: str(each.get("ts"))):
        # The last one: a line of a log may hold another, and ours stands at the end.
        refs = _REF.findall(str(message.get("text"))) or _REF.findall(json.dumps(message))
        if message.get("bot_id") and refs:
            found.setdefault(refs[-1], message)
    return found


def _stamp(text: str) -> float | None:
    """Return Slack's name of a message as the time when it was posted (epoch s)."""
    return float(text) if _STAMP.fullmatch(text) else None


def _is_ref(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _age(answer: Answer, at: float | None) -> float:
    """Return how long ago something was (s), by the clock of the service; infinite if unknown."""
    now = date_of(answer.headers)
    return float("inf") if now is None or at is None else now - at


def _lines(answer: Answer) -> list[dict[str, Any]]:
    """Return the messages of ntfy's answer: a JSON document in each line."""
    try:
        found = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise HttpError(ErrorKind.BAD_ANSWER, "ntfy: the answer is not ntfy's") from None
    return [each for each in _dicts(found) if each.get("event") == "message"]


def _rest(answer: Answer, what: str) -> list[str]:
    """Return that a service has more than it gave, as a trouble."""
    document = answer.json()
    more = isinstance(document, dict) and document.get("has_more") is True
    return [f"Slack: there are more than {MOST} {what}; not all were read"] if more else []


def _dicts_in(answer: Answer, name: str) -> list[dict[str, Any]]:
    document = answer.json()
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise HttpError(ErrorKind.BAD_ANSWER, f"{answer.host}: the answer has no {name}")
    return _dicts(found)


def _dicts(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


READERS: Final[Mapping[str, Callable[[AnswerSpec, Desk], Reader]]] = {
    "github": GitHubReader,
    "ntfy": NtfyReader,
    "pagerduty": PagerDutyReader,
    "opsgenie": OpsgenieReader,
    "slack": SlackReader,
}
"""How the answers of each kind are read."""


def readers_of(answers: Sequence[AnswerSpec], desk: Desk) -> tuple[Reader, ...]:
    """Return a reader for each entry."""
    return tuple(READERS[spec.kind](spec, desk) for spec in answers)
