"""A-10, log entries: a person's own, prefilled and kept as drafts, and those written by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    PageAction,
    RefuseError,
    Step,
    text_param,
)
from cockpit.actions.core.recording import NO_LOGBOOK, log_step, stored
from cockpit.model import check_rows as rows
from cockpit.model.clock import Clock
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventEntry, EventText, Opened, Recorded, SaveStage, Unfinished
from cockpit.model.report import RunReport
from cockpit.model.run import EVENT, NEVER, RunSpec
from cockpit.model.shared_facts import is_agent
from cockpit.model.wording import duration
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import PushStage, push_of
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.writing import preview
from cockpit.rules.lineage.success import entry_every
from cockpit.runtime.offload import offload
from cockpit.store.launches import AUTOLOG, Consent, Consents
from cockpit.store.store import Store, StoreError
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

if TYPE_CHECKING:
    from cockpit.records.logbook.entry_text import Drafts


PREVIEW_DEADLINE = 10.0
FIELDS = ("status", "evidence", "decision", "next")
DEFAULT_EVENT = "check"


class LogEntry(PageAction):
    """Appends one entry, in the file's own style; what is not given is what was observed."""

    verb = "log"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return the entry as it will stand in the file."""
        unknown = request.params.keys() - {"event", *FIELDS}
        if unknown:
            raise RefuseError(f"--{min(unknown)} is not a field of an entry")
        entry = _entry_of(context, request)
        facts = {name: getattr(entry, name) for name in ("title", *FIELDS)}
        page, check = await _page(context, entry)
        return Draft(words=f"log {context.spec.name}", checks=(check,), page=page, facts=facts)

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return the one step: the entry, committed and pushed."""

        def entry(execution: Execution) -> EventText:
            return EventText(**{name: execution.plan.facts[name] for name in ("title", *FIELDS)})

        return (log_step(entry, f"{plan.run}: log {plan.facts['title']}"),)


def _entry_of(context: ActionContext, request: Request) -> EventEntry:
    title = text_param(request, "event") or DEFAULT_EVENT
    seen = prefill(context.report, title, context.now)
    given = {
        name: text_param(request, name, lines=True) for name in FIELDS if name in request.params
    }
    if is_agent(context.operator):  # whoever reads the file takes it for a person's otherwise
        given["title"] = f"{title}, by {context.operator}"
    return seen.model_copy(update=given)


async def _page(context: ActionContext, entry: EventEntry) -> tuple[str | None, Check]:
    """Return the entry in the file's own style, and whether there is a file."""
    path = context.spec.records.logbook
    if path is None:
        return None, blocked(rows.LOG_PAGE, NO_LOGBOOK, Basis.RECORDED)
    try:
        page = await offload(
            lambda: preview(Path(path).read_bytes(), entry), deadline=PREVIEW_DEADLINE
        )
    except FileNotFoundError:
        return None, warned(rows.LOG_PAGE, f"{path} does not exist yet: it will be created")
    except (OSError, TimeoutError) as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or 'no answer'}"
        return None, blocked(rows.LOG_PAGE, text)
    return page, passed(rows.LOG_PAGE, f"appended to {path}")


DEADLINE: Final = 10.0
TAIL: Final = 40
"""Lines of the file's end that are shown."""
CONTEXT: Final = 3
"""Lines of a diff that stand around what changes."""
MOST: Final = 4_000_000
"""Bytes; a longer logbook is not prefilled from."""
EVENTS: Final = "Event Log"
TITLE: Final = "note"
KIND: Final = "entry"
"""Under which name an unfinished entry is kept."""


class Logbooks:
    """Opens, keeps and saves entries; nothing here raises for files, git or the network."""

    def __init__(self, clock: Clock, drafts: Path) -> None:
        from cockpit.records.git.saver import Saver
        from cockpit.records.logbook.entry_text import Drafts

        self._clock = clock
        self._drafts = Drafts(drafts)
        self._saver = Saver(clock)

    async def open(self, report: RunReport, now: float) -> Opened:
        """Return the draft that was left, else an entry prefilled from what is observed."""
        path = report.spec.records.logbook
        try:
            draft = await offload(self._drafts.get, *_place(report), deadline=DEADLINE)
        except (OSError, TimeoutError):
            draft = None
        if path is None:
            return Opened(path="", text=draft or "", draft=bool(draft), trouble=NO_LOGBOOK)
        try:
            opened = await offload(_opened, Path(path), report, now, deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            opened = Opened(path=path, trouble=_why(path, error))
        if draft:
            opened = opened.model_copy(update={"text": draft, "draft": True})
        return opened

    async def begin(self, report: RunReport, name: str, now: float) -> str:
        """Return an entry begun as a template, in the file's own style.

        Raises ``OSError`` and ``TimeoutError`` for a file that cannot be read.
        """
        path = report.spec.records.logbook
        return await offload(_empty_entry, path, report, name, now, deadline=DEADLINE)

    async def diff(self, report: RunReport, text: str) -> tuple[str, ...]:
        """Return what saving the text would change in the file, as the lines of a diff.

        Each begins with ``+``, ``-``, a blank or ``@@``. The commit holds these lines alone.
        Raises ``OSError`` and ``TimeoutError`` for a file that cannot be read.
        """
        path = report.spec.records.logbook
        if path is None:
            return ()
        safe = self.masked(text)
        return await offload(_diff, Path(path), safe, self._clock.now(), deadline=DEADLINE)

    async def keep(self, report: RunReport, text: str, by: str = "") -> str:
        """Keep a draft, masked as its entry will be; return what stands in the way, or nothing."""
        safe = self.masked(text)
        try:
            await offload(self._drafts.put, *_place(report), safe, by, deadline=DEADLINE)
        except (OSError, TimeoutError) as error:
            return _why("the draft", error)
        return ""

    async def unfinished(self, report: RunReport) -> Unfinished | None:
        """Return what is known of a run's unfinished draft, ``None`` where there is none."""
        return await unfinished(self._drafts, report)

    def masked(self, text: str) -> str:
        """Return the text with its secrets masked: what may be written."""
        return scrub(text)

    async def save(
        self, report: RunReport, text: str, on_stage: Callable[[Recorded], None], by: str = ""
    ) -> Recorded:
        """Write, commit, push; the draft is dropped once the file holds the text.

        ``by`` is who typed it, if it stays a draft.
        """
        path = report.spec.records.logbook
        if path is None:
            return Recorded(stage=SaveStage.NOTHING, trouble=NO_LOGBOOK)
        await self.keep(report, text, by)
        from cockpit.records.logbook.writing import with_text

        safe, at = self.masked(text), self._clock.now()
        message = f"{report.name}: {_heading(safe)}"
        recorded = await self._saver.save(
            Path(path), lambda data: with_text(data, EVENTS, safe, at), message, on_stage
        )
        if recorded.stage is not SaveStage.NOTHING:
            with suppress(OSError, TimeoutError):
                await offload(self._drafts.drop, *_place(report), deadline=DEADLINE)
        return recorded

    async def retry(self, report: RunReport) -> Recorded:
        """Commit and push what is saved but has not come further."""
        path = report.spec.records.logbook
        if path is None:
            return Recorded(stage=SaveStage.NOTHING, trouble=NO_LOGBOOK)
        return await self._saver.retry(Path(path))


async def unfinished(drafts: Drafts, report: RunReport) -> Unfinished | None:
    """Return what is known of a run's unfinished draft; one that cannot be read is none."""
    try:
        return await offload(drafts.unfinished, *_place(report), deadline=DEADLINE)
    except (OSError, TimeoutError, ValueError):
        return None


def _place(report: RunReport) -> tuple[str, str]:
    """Return under which names a run's draft is kept: two run files may name runs alike."""
    return report.name, f"{KIND} {report.spec.records.logbook or ''}"


def _opened(path: Path, report: RunReport, now: float) -> Opened:
    """Return a prefilled entry below the file's tail; raises ``OSError``."""
    from cockpit.records.logbook.entry_text import prefill
    from cockpit.records.logbook.writing import preview

    note, data = "append", b""
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
    except FileNotFoundError:
        note = "new file"
    if len(data) > MOST:
        return Opened(path=str(path), trouble=f"{path} is larger than {MOST // 1_000_000} MB")
    tail = tuple(scrub(line.plain) for line in safe_lines(data)[-TAIL:])
    text = preview(data, prefill(report, TITLE, now), empties=True)
    return Opened(path=str(path), text=text.strip("\n"), tail=tail, note=note)


def _bytes_of(path: Path) -> bytes:
    """Return the file, nothing for one that is not there yet; raises ``OSError``."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _empty_entry(path: str | None, report: RunReport, name: str, now: float) -> str:
    from cockpit.records.logbook.entry_text import template
    from cockpit.records.logbook.writing import preview

    data = b"" if path is None else _bytes_of(Path(path))
    return preview(data[:MOST], template(report, name, now), empties=True).strip("\n")


def _diff(path: Path, text: str, now: float) -> tuple[str, ...]:
    """Return one hunk: all that differs lies between what the beginnings and ends share."""
    from cockpit.records.logbook.writing import with_text

    data = _bytes_of(path)
    old, new = data.splitlines(), with_text(data, EVENTS, text, now).splitlines()
    first = _shared(old, new)
    last = _shared(old[first:][::-1], new[first:][::-1])
    gone, come = old[first : len(old) - last], new[first : len(new) - last]
    if not gone and not come:
        return ()
    before, after = old[max(0, first - CONTEXT) : first], old[len(old) - last :][:CONTEXT]
    head = f"@@ line {first + 1:,} of {len(old):,}: +{len(come):,} −{len(gone):,} lines"
    marked = [*((" ", each) for each in before), *(("-", each) for each in gone),
              *(("+", each) for each in come), *((" ", each) for each in after)]  # fmt: skip
    return head, *(f"{mark}{_shown(line)}" for mark, line in marked)


def _shared(one: list[bytes], two: list[bytes]) -> int:
    """Return how many lines two lists begin with alike."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))


def _shown(line: bytes) -> str:
    return scrub(clean(line.decode("utf-8", "replace"), 2000))


def _heading(text: str) -> str:
    """Return what the commit is called: the entry's own heading, without its marks and time."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    stamp, dash, title = first.strip("# ").partition(" - ")
    return f"log {(title if dash else stamp).strip()[:60] or 'entry'}"


def _why(what: str, error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else "no answer in time"
    return f"{what}: {said.lower()}"


CONSENT_DEADLINE: Final = 15.0
YES: Final = "yes"


class AutoLog(Action):
    """Gives the consent that automatic entries of a run file need, or takes it back."""

    verb = "autolog"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what will be written when, and how far it goes."""
        off = (request.params.get("off") or "").strip().lower()
        if off not in ("", YES, "no"):
            raise RefuseError("--off expects yes or no")
        checks = await _consent(context, off=off == YES)
        if is_agent(context.operator):
            text = "an agent cannot allow this: a person types it"
            checks.insert(0, finding(rows.WHO_ALLOWS, text))
        if off != YES:
            checks += [*_when(context), *await _how_far(context.spec)]
        return Draft(words=f"autolog {request.run}", checks=tuple(checks), facts={"off": off})

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return the one step: the consent is kept in the store."""
        return (Step("allow", _allow, again=True),)


async def _consent(context: ActionContext, *, off: bool) -> list[Check]:
    store = context.parts.store
    if store is None:
        return [finding(rows.CONSENT_STORE, "there is no store to keep the consent in")]
    try:
        given = await offload(
            lambda: Consents(store).of(context.file.path, AUTOLOG), deadline=CONSENT_DEADLINE
        )
    except (StoreError, TimeoutError) as error:
        return [finding(rows.CONSENT_STORE, f"the store cannot be read: {error}")]
    if off:
        text = "no entry is written by itself any more" if given else "nobody has allowed it"
        return [passed(rows.CONSENT, text)]
    if given is not None:
        return [warned(rows.CONSENT, f"{given.who} has allowed it already")]
    return [passed(rows.CONSENT, f"for every run of {context.file.path}, once")]


def _when(context: ActionContext) -> Iterator[Check]:
    """Yield what will be written by itself, run by run."""
    if context.spec.records.logbook is None:
        yield finding(rows.AUTOLOG_BOOK, NO_LOGBOOK)
    for run in context.file.runs:
        records = run.records
        if records.logbook is None and records.run_log is None:
            continue
        how = {NEVER: "nothing: log_every is never", EVENT: "an entry after each event"}
        every = entry_every(run)
        when = how[records.log_every or EVENT] if every is None else f"every {duration(every)}"
        yield finding(rows.WRITES, f"{run.name}: {when}", of=run.name)


async def _how_far(run: RunSpec) -> list[Check]:
    """Return whether what is committed goes to a remote, too."""
    if run.records.logbook is None:
        return []
    push = await push_of(Path(run.records.logbook), Limits())
    if push.stage is PushStage.NONE:
        return [warned(rows.PUSH, "committed here alone: there is nowhere to push to")]
    if push.stage in (PushStage.HELD, PushStage.FAILED):
        return [warned(rows.PUSH, f"committed here, not pushed: {push.trouble}")]
    text = "committed on the branch that is checked out, pushed to its upstream"
    return [passed(rows.PUSH, text)]


async def _allow(execution: Execution) -> str:
    file, who = execution.context.file.path, execution.entry.operator
    off = execution.plan.facts["off"] == YES

    def keep(store: Store) -> None:
        if off:
            Consents(store).withdraw(file, AUTOLOG)
        else:
            given = Consent(who=who, at=execution.entry.begun_at)
            Consents(store).give(file, AUTOLOG, given)

    await stored(execution, keep, "the consent")
    return "no automatic entries any more" if off else f"automatic entries allowed by {who}"
