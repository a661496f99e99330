"""The tools and resources that read: each gives one bounded page, with a cursor for the next."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from pydantic import Field

from cockpit.mcp.desk import Desk, OfRun, Paged, Progress, Tool, ToolError
from cockpit.mcp.views import (
    Document,
    checkpoint_view,
    fields,
    fitted,
    is_under_diagnosis,
    lines_of,
    picks,
    row,
    run_view,
    triage_view,
)
from cockpit.model.base import Frozen, rfc3339
from cockpit.model.logtext import LogPage
from cockpit.model.plan import Request
from cockpit.model.report import FACETS, URGENCY
from cockpit.model.wording import moment
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.text.times import read_moment

FLEET_PAGE: Final = 50
LINES: Final = 200
HITS: Final = 20
PAGE: Final = 20
SEARCH_FOR: Final = 8.0
"""Seconds that one call may search."""
PAGE_LINES: Final = 400
KEY_LINES: Final = 100
"""Lines before a page in which a key may have begun: the longest in use have about as many."""
_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/]{30,}={0,2}\W*$")
_CURSOR: Final = re.compile(r"(before|from|at)-(\d{1,18})")


class Fleet(Frozen):
    """What ``fleet`` takes."""

    cursor: str | None = Field(None, max_length=100, description="the next page: next of a former")


class Run(OfRun):
    """What ``run`` takes."""

    fresh: bool = Field(False, description="ask every source now (takes up to 20 s)")
    facets: tuple[str, ...] = Field(
        (), max_length=len(FACETS), description=f"give these whole: {', '.join(FACETS)}"
    )


class Log(Paged):
    """What ``log`` takes."""

    lines: int = Field(50, ge=1, le=LINES)


class Search(Paged):
    """What ``log_search`` takes."""

    term: str = Field(min_length=1, max_length=200, description="words, in any case")
    regex: bool = Field(False, description="term is a regular expression")


class Past(Paged):
    """What ``history`` takes."""

    at: str | None = Field(
        None, max_length=60, description="only what was known by then: RFC 3339, 03:12 or 2h ago"
    )


async def fleet(desk: Desk, given: Fleet, progress: Progress) -> Document:
    """Return every run in a line, what needs a person first."""
    reports = sorted(await desk.reports(), key=lambda each: URGENCY.index(each.verdict))
    begin = _place(given.cursor, "at")
    shown, now = reports[begin : begin + FLEET_PAGE], desk.clock.now()
    end = begin + len(shown)
    answer: Document = {"at": moment(now), "runs": [row(each, now) for each in shown]}
    more = {"next": f"at-{end}"} if end < len(reports) else {}
    notices = {"foreign_notices": list(desk.notices)} if desk.notices else {}
    return fitted({**answer, **notices, **more})


async def run(desk: Desk, given: Run, progress: Progress) -> Document:
    """Return one run."""
    wrong = next((name for name in given.facets if name not in FACETS), None)
    if wrong is not None:
        raise ToolError(f"no facet {fitted(wrong, 40)!r}; there are: {', '.join(FACETS)}")
    report, now = await desk.report(given.run, fresh=given.fresh), desk.clock.now()
    whole = dict(report.facets.items())
    asked = {name: whole[name].document(now) for name in given.facets}
    more = {"foreign_facets": fitted(asked)} if asked else {}
    notices = {"foreign_notices": fitted(desk.notices)} if desk.notices else {}
    return {**run_view(report, now), **more, **notices}


async def log(desk: Desk, given: Log, progress: Progress) -> Document:
    """Return a page of a run's log, the end of it without a cursor."""
    await desk.report(given.run)
    page = await _page(desk, given)
    return {
        "run": given.run,
        "foreign_lines": await _masked(desk, given.run, page),
        "offsets": [page.start, page.end],
        "size": page.size,
        "older": f"before-{page.start}" if page.start > 0 else None,
        "newer": f"from-{page.end}",
        "at_end": page.end >= page.size,
    }


async def _page(desk: Desk, given: Log) -> LogPage:
    logs = desk.engine.logs
    if given.cursor is None:
        page: LogPage = await logs.tail(given.run, given.lines)
    else:
        back = given.cursor.startswith("before")
        place = _place(given.cursor, "before" if back else "from")
        page = await logs.page(given.run, place, given.lines, back)
    return page


async def _masked(desk: Desk, run: str, page: LogPage) -> list[str]:
    """Return a page's lines as they may leave.

    What may be a line of a key is looked at with those before it: alone it is not known as one.
    """
    lines, before = [line.plain for line in page.lines], list[str]()
    if any(map(_OF_KEY.search, lines)):
        more = await desk.engine.logs.page(run, page.start, KEY_LINES, True)
        before = [line.plain for line in more.lines]
    return lines_of([*before, *lines])[len(before) :]


async def log_search(desk: Desk, given: Search, progress: Progress) -> Document:
    """Return the newest lines that match, of as much of the log as could be read in time."""
    await desk.report(given.run)
    logs, began = desk.engine.logs, desk.clock.monotonic()
    at, offsets, count, whole = _place(given.cursor, "from"), list[int](), 0, True
    while True:
        found = await logs.matches(given.run, given.term, given.regex, at)
        # the last line, unfinished, may be found twice
        new = [each for each in found.offsets if not offsets or each > offsets[-1]]
        offsets, count = [*offsets, *new][-HITS:], count + len(new)
        whole = whole and found.begin <= at <= found.size
        over = found.reached >= found.size or found.reached <= at
        at = max(at, found.reached)
        await progress(at, f"searched {at} of {found.size} bytes")
        if over or desk.clock.monotonic() - began > SEARCH_FOR:
            break
    pages = [await logs.page(given.run, offset, 1, False) for offset in offsets]
    hits = [line for page in pages for line in await _masked(desk, given.run, page)]
    return {
        "run": given.run,
        "matches": count,
        "foreign_lines": hits,
        "offsets": offsets,
        "searched_to": at,
        "whole": over and whole,
        "next": None if over else f"from-{at}",
    }


async def triage(desk: Desk, given: OfRun, progress: Progress) -> Document:
    """Return why a run's job ended, by its log and its orchestrator.

    The log of one that has just ended may be under diagnosis still: then it is looked at now.
    """
    report = await desk.report(given.run)
    if is_under_diagnosis(report):
        report = await desk.report(given.run, fresh=True)
    return triage_view(report, desk.clock.now())


async def checkpoints(desk: Desk, given: Paged, progress: Progress) -> Document:
    """Return a run's checkpoints, the newest first."""
    report = await desk.report(given.run)
    facet = report.facets.checkpoints
    items = [] if facet.value is None else list(reversed(facet.value.items))
    age = facet.age(desk.clock.now())
    begin = _place(given.cursor, "at")
    end = begin + PAGE
    return {
        "run": given.run,
        "age_s": None if age is None else int(age),
        "foreign_unknown": None if facet.error is None else fitted(facet.error.message),
        **picks(report),
        "items": [checkpoint_view(each) for each in items[begin:end]],
        "next": f"at-{end}" if end < len(items) else None,
    }


async def history(desk: Desk, given: Past, progress: Progress) -> Document:
    """Return what happened to a run and what was done, the newest first."""
    spec, at, now = desk.spec(given.run), None, desk.clock.now()
    if given.at is not None:
        try:
            at = read_moment(given.at, now, ahead=True)
        except ValueError as error:
            raise ToolError(f"at: {error}") from error
    await desk.calls.write()
    told = await desk.verbs.history(desk.file, spec, at)
    events = sorted(events_in(told), key=lambda each: str(each["at"]), reverse=True)
    begin = _place(given.cursor, "at")
    end = begin + PAGE
    return {
        "run": given.run,
        "events": fitted(events[begin:end]),
        "foreign_then": fitted(told.get("then"), 200),
        "next": f"at-{end}" if end < len(events) else None,
    }


def events_in(told: dict[str, Any]) -> Iterator[Document]:
    """Yield one line for each thing in the export of a run's history."""
    for each in told["actions"]:
        ended = each["outcome"] or "not known to be over"
        launch = {"launch_id": each["launch_id"]} if each["launch_id"] else {}
        by = {"foreign_by": each["typed_by"], "foreign_message": each["message"]}
        what = f"{each['action']}: {ended}"
        yield {"at": each["begun_at"], "kind": "action", "what": what, **launch, **by}
    for each in told["alerts"]:
        named = {"what": f"{each['id']} {each['severity']}", "foreign_title": each["title"]}
        yield {"at": each["opened_at"], "kind": "alert opened", **named}
        if each["closed_at"] is not None:
            yield {"at": each["closed_at"], "kind": "alert closed", **named}
    for each in told["launches"]:
        yield {"at": each["at"], "kind": "launched", "what": each["launch_id"] or "by hand",
               "foreign_job": each["job_id"]}  # fmt: skip
    for each in told["told"]:
        yield {"at": each["at"], "kind": "told elsewhere", "what": each["what"],
               "foreign_message": each["value"]}  # fmt: skip
    for each in told["agents"]["acts"]:
        yield {"at": each["changed_at"], "kind": "agent", "foreign_by": each["agent"],
               "what": f"{each['action']}: {each['stage']}",
               "foreign_message": " ".join(filter(None, (each["by"], each["said"])))}  # fmt: skip


async def handoff_page(desk: Desk, given: OfRun, progress: Progress) -> Document:
    """Return the page about a run that a person would be handed; nothing is handed over."""
    await desk.ready()
    report = await desk.report(given.run)
    params = {"to": report.spec.dri or "nobody yet"}
    asked = Request(action="handoff", run=given.run, operator=desk.operator, params=params)
    plan = await desk.service.draft(asked)
    lines = (plan.page or "").rstrip("\n").split("\n")
    return {"run": given.run, "at": rfc3339(plan.made_at), "lines": len(lines),
            "foreign_page": "\n".join(lines_of(lines[:PAGE_LINES]))}  # fmt: skip


async def backtest(desk: Desk, given: OfRun, progress: Progress) -> Document:
    """Return what the rules would have told of a run's whole past."""
    desk.spec(given.run)
    await progress(0, "replaying the whole past")
    found = await desk.verbs.backtest(desk.file.path, given.run)
    names = "id severity foreign_title opened_step closed_step"
    alerts = [fields(each, names) for each in found.alerts[-PAGE:]]
    told = {"run": given.run, **fields(found, "steps last_step not_replayed")}
    return fitted({**told, "alerts": alerts, "alerts_in_all": len(found.alerts)})


def _place(cursor: str | None, kind: str) -> int:
    """Return the number in a cursor of a former answer; 0 without one."""
    if cursor is None:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[1] != kind:
        raise ToolError(f"cursor: expected what a former answer gave, such as {kind}-20")
    return int(found[2])


READING: Final = (
    Tool("fleet", "All runs, one line each, the one that needs help first: verdict, job, step, "
         "open alerts, age, what is unknown.", Fleet, {"at": "string", "runs": "array"}, fleet),
    Tool("run", "One run: what is wrong, since when, on what evidence, how far it is, what is "
         "unknown and why.", Run, {"run": "string", "verdict": "string", "alerts": "array"}, run),
    Tool("log", "A page of the run's log; the end of it without a cursor.", Log,
         {"run": "string", "foreign_lines": "array", "at_end": "boolean"}, log),
    Tool("log_search", "The newest lines of the run's log that match, and how many do.", Search,
         {"run": "string", "matches": "integer", "foreign_lines": "array", "whole": "boolean"},
         log_search),
    Tool("triage", "Why the job ended: a class, its evidence, and the one action that follows "
         "(relaunch, fix_then_relaunch, escalate, wait, none).", OfRun,
         {"run": "string", "class": "string", "action": "string"}, triage),
    Tool("checkpoints", "The run's checkpoints, newest first, and which one is taken.", Paged,
         {"run": "string", "items": "array"}, checkpoints),
    Tool("history", "What happened to the run and who did what, newest first.", Past,
         {"run": "string", "events": "array"}, history),
    Tool("handoff_page", "One page about the run for whoever takes it over; hands nothing over.",
         OfRun, {"run": "string", "foreign_page": "string"}, handoff_page),
    Tool("backtest", "Which alerts the rules would have raised over the run's whole past (slow).",
         OfRun, {"run": "string", "steps": "integer", "alerts": "array"}, backtest),
)  # fmt: skip


SCHEME: Final = "cockpit://"
JSON: Final = "application/json"
LIST_PAGE: Final = 50
"""Runs whose resources one page lists."""
LOGBOOK_LINES: Final = 400
"""Lines at the end of a logbook that are given."""
READ_WITHIN: Final = 10.0


class Kind(NamedTuple):
    """One kind of resource: the first part of its address, and what gives its content."""

    name: str
    about: str
    read: Callable[[Desk, str], Awaitable[Document]]


async def _silent(done: float, said: str) -> None:
    return


async def _run(desk: Desk, name: str) -> Document:
    return await run(desk, Run(run=name), _silent)


async def _listed(desk: Desk, name: str) -> Document:
    return await handoff_page(desk, OfRun(run=name), _silent)


async def _logbook(desk: Desk, name: str) -> Document:
    path = desk.spec(name).records.logbook
    if path is None:
        raise ToolError(f"{name} has no logbook in the run file")
    try:
        text = await offload(read_text, Path(path), deadline=READ_WITHIN)
    except (OSError, TimeoutError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or "it cannot be read"
        raise ToolError(fitted(f"the logbook of {name}: {why}")) from error
    lines = text.split("\n")
    left = max(0, len(lines) - LOGBOOK_LINES)
    return {
        "run": name,
        "earlier_lines_left_out": left,
        "foreign_lines": lines_of(lines[-LOGBOOK_LINES:]),
    }


KINDS: Final = (
    Kind("run", "the run's state, as the tool run gives it", _run),
    Kind("logbook", "the end of the run's logbook, oldest line first", _logbook),
    Kind("handoff", "the page about the run for whoever takes it over", _listed),
)


def listed(desk: Desk, cursor: object) -> Document:
    """Return one page of all resources; raises ``ToolError`` for a cursor that is none."""
    if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal()):
        raise ToolError("cursor: expected what a former answer gave")
    begin = int(cursor or 0) if len(cursor or "") < 10 else 0
    names = [spec.name for spec in desk.file.runs]
    found = [_resource(kind, name) for name in names[begin : begin + LIST_PAGE] for kind in KINDS]
    more = {"nextCursor": str(begin + LIST_PAGE)} if begin + LIST_PAGE < len(names) else {}
    return {"resources": found, **more}


def templates() -> Document:
    """Return the addresses of resources with a place for the run's name."""
    return {
        "resourceTemplates": [
            {
                "uriTemplate": f"{SCHEME}{kind.name}/{{run}}", "name": kind.name,
                "description": kind.about, "mimeType": JSON,
            }
            for kind in KINDS
        ]
    }  # fmt: skip


async def contents(desk: Desk, uri: str) -> Document:
    """Return what lies at an address; raises ``LookupError`` where nothing does."""
    kind = uri.removeprefix(SCHEME).partition("/")[0]
    found = next((each for each in KINDS if each.name == kind), None)
    if found is None or not uri.startswith(SCHEME):
        raise LookupError(uri)
    document = await found.read(desk, desk.spec(run_at(uri)).name)
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {"contents": [{"uri": uri, "mimeType": JSON, "text": text}]}


def run_at(uri: str) -> str:
    """Return the run that an address names."""
    return unquote(uri.removeprefix(SCHEME).partition("/")[2])


def _resource(kind: Kind, name: str) -> Document:
    return {
        "uri": f"{SCHEME}{kind.name}/{quote(name, safe='')}", "name": f"{kind.name} {name}",
        "description": kind.about, "mimeType": JSON,
    }  # fmt: skip
