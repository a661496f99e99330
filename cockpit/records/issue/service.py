"""A run's issue on GitHub (SPEC S-11): created once, each event posted once.

What a run's issue says: short status for those who watch (SPEC S-11).
"""

from __future__ import annotations

import asyncio
import re
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, NewType
from urllib.parse import quote

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.lineage import named, newest_of
from cockpit.model.plan import Plan
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.report import RunReport, phase_text, present_loss
from cockpit.model.run import RunSpec
from cockpit.records.issue import outbox
from cockpit.runtime.http import Http, HttpError, LostAnswerError
from cockpit.sources.git.command import git
from cockpit.sources.github import GitHub, GitHubPlace, Issue
from cockpit.store.messages import Letter, Outbox, Waiting
from cockpit.store.store import Store
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

MOST_LINES: Final = 60
"""Log lines that a comment quotes at most."""
_APART: Final = "\N{ZERO WIDTH SPACE}"
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~$&])")
_CALL: Final = re.compile(r"@(?=[\w-])|#(?=\d)|\b(?<=GH-)(?=\d)", re.IGNORECASE)
"""What GitHub would turn into a mention or a link: ``@ada``."""
_BLOCK: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")
_LOGIN: Final = re.compile(r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[A-Za-z0-9_.-]{1,100})?")
"""Such as ``@ada``."""


Markdown = NewType("Markdown", str)
"""Text in which nothing foreign can act: ``prose``, ``code``, ``person`` and ``block`` make it."""
Rows = Iterable[tuple[str, Markdown | None]]
"""Labels of ours with their values; those that are ``None`` are left out."""
UNKNOWN: Final = Markdown("unknown")


def prose(text: str | None, limit: int = 2000) -> Markdown:
    """Return a person's words as one line of plain Markdown; ``unknown`` when there are none."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    escaped = _SPECIAL.sub(r"\\\1", plain)
    called = _CALL.sub(lambda found: found.group() + _APART, escaped)
    return Markdown(_BLOCK.sub(_opened, called))


def code(text: object, limit: int = 1000) -> Markdown:
    """Return a name, a path or a command as a code span that it cannot leave."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    ticks = "`" * (_longest_ticks(plain) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Markdown(f"{ticks}{pad}{plain}{pad}{ticks}")


def block(lines: str | Iterable[str]) -> Markdown:
    """Return log lines as a code block that they cannot close; the last ``MOST_LINES`` of them."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    shown = [line.plain for line in safe_lines(text)]
    left_out = len(shown) - MOST_LINES
    if left_out > 0:
        shown = [f"… {left_out:,} lines before", *shown[-MOST_LINES:]]
    plain = scrub("\n".join(shown))
    fence = "`" * max(3, _longest_ticks(plain) + 1)
    return Markdown(f"{fence}text\n{plain}\n{fence}")


def fields(rows: Rows) -> Markdown:
    """Return a list of labels and values."""
    lines = (f"- {label}: {value}" for label, value in rows if value is not None)
    return Markdown("\n".join(lines))


def person(name: str | None, *, call: bool = False) -> Markdown:
    """Return a person's name; ``call`` notifies one who is written ``@login`` in the run file."""
    plain = clean(name, 200)
    if call and _LOGIN.fullmatch(plain):
        return Markdown(plain)
    return prose(plain)


def _opened(found: re.Match[str]) -> str:
    """Escape what would open a heading, a list or a rule at the start of a line."""
    sign = found.group(1)
    return f"{sign}{_APART}" if sign[0].isdigit() else f"\\{sign}"


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


ALERTS_SHOWN: Final = 5
EVIDENCE_SHOWN: Final = 12
STEPS_SHOWN: Final = 40


def title(run: RunSpec) -> str:
    """Return the title of a run's issue (SPEC L)."""
    return f"Hero run: {scrub(clean(run.name, 200))}"


def new_issue(
    run: RunSpec,
    *,
    logbook: str | None = None,
    logbook_url: str | None = None,
    command: str | None = None,
) -> str:
    """Return the body of a new issue: the run contract, and where its logbook is.

    ``logbook_url`` is its page, only of our own making, so it is safe as it is.
    """
    place = code(logbook or run.records.logbook)
    contract = fields(
        (
            ("DRI", person(run.dri, call=True)),
            ("Goal", prose(run.goal)),
            ("Stop/escalation criteria", prose(run.stop_criteria)),
            ("Logbook", place if logbook_url is None else Markdown(f"{place} ({logbook_url})")),
            ("W&B", wandb_of(run)),
            ("Output root", code(run.output_root)),
            ("Final step", Markdown(wording.steps(run.final_step)) if run.final_step else UNKNOWN),
        )
    )
    parts = (
        f"**{prose(title(run))}**",
        contract,
        command_of(command),
        "This issue holds the status; the logbook is the detailed record.",
    )
    return _paragraphs(*parts)


def handed_off(report: RunReport, *, by: str, to: str) -> str:
    """Return the comment on a hand-off: who owns the run now, and how it stands."""
    due = report.next_check_at
    rows = (
        ("Handed over by", person(by)),
        ("Owner now", person(to, call=True)),
        ("Next check", UNKNOWN if due is None else _moment(due)),
    )
    return comment(report.spec, "handed over", rows, state_of(report))


def escalated(run: RunSpec, *, by: str, reason: str, evidence: Sequence[Evidence]) -> str:
    """Return the comment that asks the DRI to decide."""
    asked = f"{person(run.dri, call=True)}: this needs your decision"
    rows = (("Reason", prose(reason)), ("Raised by", person(by)))
    return comment(run, asked, rows, _evidence(evidence))


def new_critical(run: RunSpec, alert: Alert) -> str:
    """Return the comment on a critical condition that has opened."""
    rows = (
        ("DRI", person(run.dri, call=True)),
        ("Since", Markdown(f"{_moment(alert.since)}{alert.or_before}")),
        ("How sure", Markdown(alert.confidence)),
        ("Next safe action", prose(alert.next_action)),
    )
    event = f"critical, {prose(alert.id)}: {prose(alert.title)}"
    return comment(run, event, rows, _evidence(alert.evidence))


def state_of(report: RunReport) -> Markdown:
    """Return how a run stands in a few lines: job, progress, checkpoint, open alerts, next."""
    job, checkpoints = report.facets.job, report.facets.checkpoints.value
    newest = (
        None
        if checkpoints is None
        else newest_of(i for i in checkpoints.items if i.complete and i.own)
    )
    at_job = UNKNOWN
    if job.value is not None:
        at_job = Markdown(f"{code(job.value.id)}, {phase_text(job)}")
    latest: str = UNKNOWN if newest is None else named(newest).removeprefix("step ")
    if newest is not None and newest.suspect is not None:
        latest += f", suspect ({newest.suspect})"
    return fields(
        (
            ("Job", at_job),
            ("Progress", code(report.progress.words)),
            ("Loss", Markdown(wording.number(present_loss(report)[1]))),
            ("Newest complete checkpoint", Markdown(latest)),
            ("W&B", wandb_of(report.spec)),
            ("Open", _open_alerts(report.alerts)),
            ("Next", prose(report.next_action)),
            ("As of", _moment(report.checked_at)),
        )
    )


def approved(plan: Plan) -> Markdown | None:
    """Return who let which block pass and why, by name; ``None`` without any."""
    lines = (
        f"- {code(each.check)} approved by {person(each.whose)}: {prose(each.reason)}"
        for each in (check.approved for check in plan.checks)
        if each is not None
    )
    return Markdown("\n".join(lines)) or None


def comment(run: RunSpec, event: str, rows: Rows, *more: Markdown | None) -> str:
    """Return a comment on what has happened: the run and the ``event``, labelled rows, the rest.

    ``event`` is words of ours, with what ``code`` makes of a name in them.
    """
    return _paragraphs(f"**{prose(run.name)}** {event}", fields(rows), *more)


def command_of(command: str | None) -> Markdown | None:
    """Return the block that shows a launch command."""
    return None if command is None else Markdown(f"Launch command:\n\n{block(command)}")


def _paragraphs(*parts: str | None) -> str:
    return "\n\n".join(part for part in parts if part)


def coded(values: Mapping[str, str | None], when: str = "") -> list[tuple[str, Markdown]]:
    """Return labelled values as code; ``when`` stands after each label."""
    given = ((label, value) for label, value in values.items() if value)
    return [(f"{prose(label, 100)}{when}", code(value)) for label, value in given]


def wandb_of(run: RunSpec) -> Markdown:
    """Return where the run is at W&B: its page, else its name there."""
    spec = run.wandb
    if spec is None:
        return Markdown("none")
    if spec.url:
        return prose(spec.url)
    named = "/".join(part for part in (spec.entity, spec.project, spec.id) if part)
    return code(named or spec.dir)


def _evidence(evidence: Sequence[Evidence]) -> Markdown | None:
    if not evidence:
        return None
    lines = [f"{each.source}: {each.text}" for each in evidence[:EVIDENCE_SHOWN]]
    return Markdown(f"Evidence:\n\n{block(lines)}")


def _open_alerts(alerts: Sequence[Alert]) -> Markdown:
    shown = [f"{prose(alert.id)} {prose(alert.title)}" for alert in alerts[:ALERTS_SHOWN]]
    more = len(alerts) - len(shown)
    told = "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])
    return Markdown(told or "nothing")


def steps_of(steps: Sequence[int]) -> Markdown:
    """Return the newest of many steps, and how many more there are."""
    shown = ", ".join(str(step) for step in sorted(steps)[-STEPS_SHOWN:])
    more = len(steps) - STEPS_SHOWN
    return Markdown(f"{more:,} more and {shown}" if more > 0 else shown or "none")


def _moment(instant: float) -> Markdown:
    text = wording.utc_minute(instant)
    return UNKNOWN if text == wording.UNKNOWN else Markdown(text)


ISSUE: Final = "issue"
LABELS: Final = ("experiment", "agent-generated")
_REMOTE: Final = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/\s]{1,300}@)?(?P<host>[A-Za-z0-9.-]{1,253})(?::\d+)?/"
    r"|(?:[A-Za-z0-9._-]{1,64}@)(?P<ssh>[A-Za-z0-9.-]{1,253}):)"
    r"(?P<path>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/?"
)
"""Such as ``git@github.com:lab/runs.git``."""


class _SameTitle(NamedTuple):
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
        self._box = outbox.AsyncOutbox(store)
        self._clock = clock
        self._github = github

    async def create(self, run: RunSpec, key: str, text: str) -> Recorded:
        """Return where the issue is; ``note`` is what of it is not as asked."""
        place = self._github.repo_place(run.records.issue_repo)
        if place is None:
            return _not("[run.records] names no issue_repo (owner/repo) to create it in")
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
            return _not(str(error), error.url)
        except HttpError as error:
            if row is not None and row.sent_at is not None:  # it was created before
                return Recorded(stage=SaveStage.NOTHING, url=row.answer)
            said, definite = str(error), not isinstance(error, LostAnswerError)
            await self._note(
                row, lambda box, number, _: box.failed(number, said, now, None, definite=definite)
            )
            return _not(f"not created: {outbox.not_sent_text(error, now)}")
        finally:
            if row is not None:
                await self._box.ask(lambda box: box.release(row.number, claim))
        return Recorded(stage=SaveStage.NOTHING, url=issue.url, note=_dropped(issue))

    async def _ready(self, row: Waiting | None, claim: str) -> Waiting | None:
        """Claim the row; raises ``_TakenError`` while someone else creates it."""
        now = self._clock.now()
        if row is None:
            return None
        if row.sent_at is None and outbox.unsettled(row, now):
            said = "the answer to the former attempt was lost"
            raise _TakenError(f"{said}; it may still appear: try again in {outbox.SETTLE:.0f} s")
        number = row.number
        taken = await self._box.ask(lambda box: box.claim(number, claim, now))
        if taken is None and row.sent_at is None:
            raise _TakenError("another cockpit is creating it; try again shortly")
        return taken or row

    async def _created(
        self, place: GitHubPlace, name: str, text: str, row: Waiting | None
    ) -> Issue:
        async with self._github.http.session():
            found = await self._same_title(place, name, text)
            if not found.ours and found.others:
                url = found.others[0].url
                raise _TakenError(f'an open issue "{name}" exists: set it as records.issue', url)
            if not found.ours:
                await self._note(row, lambda box, number, now: box.trying(number, now))
                found = await self._sent(place, name, text)
            issue = await self._one_stays(place, text, found.ours)
        await self._note(row, lambda box, number, now: box.sent(number, issue.url, now))
        return issue

    async def _sent(self, place: GitHubPlace, name: str, text: str) -> _SameTitle:
        try:
            own = await self._github.create_issue(place, name, text, LABELS)
        except LostAnswerError as lost:
            return await outbox.looked_for(
                self._clock, lost, lambda: self._found(place, name, text)
            )
        try:
            ours = (await self._same_title(place, name, text, pages=1)).ours
        except HttpError:  # it is there; whether another one is too is not known now
            return _SameTitle((own,), ())
        known = own.number in {issue.number for issue in ours}
        return _SameTitle(ours if known else (*ours, own), ())

    async def _found(self, place: GitHubPlace, name: str, text: str) -> _SameTitle | None:
        found = await self._same_title(place, name, text, pages=1)
        return found if found.ours else None

    async def _same_title(
        self, place: GitHubPlace, name: str, text: str, pages: int = 10
    ) -> _SameTitle:
        wanted = outbox.marker_of(text)
        same = [
            issue
            async for issue in self._github.open_issues(place, pages)
            if issue.title.strip() == name
        ]
        same.sort(key=lambda issue: issue.number)
        ours = tuple(
            issue for issue in same if _event(outbox.marker_of(issue.body)) == _event(wanted)
        )
        return _SameTitle(ours, tuple(issue for issue in same if issue not in ours))

    async def _one_stays(self, place: GitHubPlace, text: str, ours: Sequence[Issue]) -> Issue:
        """Close what we created after the first one, and return the first."""
        for issue in ours[1:]:
            if outbox.marker_of(issue.body) == outbox.marker_of(text) and outbox.same_text(
                issue.body, text
            ):
                number = {"number": issue.number}
                await self._github.close_issue(place.model_copy(update=number))
        return ours[0]

    async def _note(self, row: Waiting | None, write: Callable[[Outbox, int, float], None]) -> None:
        if row is not None:
            number, now = row.number, self._clock.now()
            await self._box.ask(lambda box: write(box, number, now))


def _event(marker: outbox.PostMarker | None) -> str | None:
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


COMMENT: Final = "comment"
AT_ONCE: Final = 4
"""Runs of which comments are sent at the same time."""


class IssueService:
    """Writes to the issues of a fleet. Its methods never raise; ``Recorded`` tells how it went.

    ``key`` gives a run's identity in the store (``run_key``); by default it is its name.
    """

    def __init__(
        self,
        store: Store | None,
        clock: Clock,
        *,
        github: GitHub | None = None,
        key: Callable[[RunSpec], str] = lambda run: run.name,
    ) -> None:
        self._github = github or GitHub(Http(clock), clock)
        self._key = key
        self._runs: dict[str, RunSpec] = {}
        self._sender = _sender(store)
        poster = outbox.Poster(self._github, clock)
        self._queue = outbox.Queue(store, clock, poster, self._post)
        self._creator = Creator(store, clock, self._github)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        """Comment on the run's issue; one ``event`` is never posted twice. Queued while offline."""
        trouble = self._trouble(run, body)
        if trouble is not None:
            return Recorded(stage=SaveStage.NOTHING, trouble=trouble)
        text = self.preview(run, "comment", body, event=event)
        letter = Letter(kind=COMMENT, to=run.records.issue or "", body=text)
        return await self._queue.comment(self._remember_key(run), event, letter)

    async def flush(self, runs: Sequence[RunSpec]) -> tuple[outbox.Flushed, ...]:
        """Send what waits of these runs and is due, each run's in order; never raises.

        ``Flushed.run`` is the run's name. What GitHub refused is left out until ``comment`` is
        called for it again.
        """
        waiting = await self._queue.runs()
        few = asyncio.Semaphore(AT_ONCE)
        some = [run for run in runs if self._remember_key(run) in waiting]
        found = await asyncio.gather(*(self._flushed(run, few) for run in some))
        return tuple(each for done in found for each in done)

    async def create(self, run: RunSpec, body: str) -> Recorded:
        """Create the run's issue in ``issue_repo`` and return its ``url``; never two of them."""
        if run.records.issue is not None:
            return Recorded(stage=SaveStage.NOTHING, url=run.records.issue)
        text = self.preview(run, "issue", body)
        return await self._creator.create(run, self._key(run), text)

    def preview(
        self, run: RunSpec, kind: Literal["comment", "issue"], body: str, *, event: str = ""
    ) -> str:
        """Return exactly the text that would be posted (an issue's title is ``title(run)``)."""
        event = ISSUE if kind == "issue" else event
        return outbox.post_text(body, self._marker(run.name, event))

    async def _flushed(self, run: RunSpec, few: asyncio.Semaphore) -> tuple[outbox.Flushed, ...]:
        async with few:
            done = await self._queue.flush(self._remember_key(run))
        return tuple(each.model_copy(update={"run": run.name}) for each in done)

    def _trouble(self, run: RunSpec, body: str) -> str | None:
        if run.records.issue is None:
            return "no issue in cockpit.toml (records.issue)"
        if self._github.issue_place(run.records.issue) is None:
            return "records.issue is not the address of an issue (https://github.com/o/r/issues/1)"
        if not body.strip():
            return "nothing to post: the text is empty"
        return None

    def _remember_key(self, run: RunSpec) -> str:
        """Return the run's key, remembering which run it stands for."""
        key = self._key(run)
        self._runs[key] = run
        return key

    def _post(self, row: Waiting) -> outbox.Post:
        """Return what a row asks for, at the address that the run file names now."""
        run = self._runs[row.run]
        place = self._github.issue_place(run.records.issue or row.letter.to)
        if place is None:
            raise HttpError(ErrorKind.NOT_FOUND, "records.issue is not the address of an issue")
        return outbox.Post(place, self._marker(run.name, row.event), row.letter.body)

    def _marker(self, run: str, event: str) -> outbox.PostMarker:
        return outbox.PostMarker(outbox.event_digest(run, event), self._sender)


def _sender(store: Store | None) -> str:
    """Return who posts: this store on this machine, else this process."""
    if store is None:
        return outbox.sender_digest(uuid.uuid4().hex)
    return outbox.sender_digest(socket.gethostname(), str(store.path.resolve()))
