"""A-8, handoff: one page about the run; hand it to a named person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cockpit.actions.core.action import (
    ActionContext,
    Execution,
    PageAction,
    RefuseError,
    Step,
    required_param,
    text_param,
)
from cockpit.actions.core.recording import (
    comment_step,
    event_name,
    issue_check,
    log_step,
    logbook_check,
)
from cockpit.actions.telling.log_entry import unfinished
from cockpit.model import check_rows as rows
from cockpit.model.alert import Alert
from cockpit.model.cost import cost_lines
from cockpit.model.facet import Facet
from cockpit.model.goodput import sentences
from cockpit.model.lineage import named, newest_of, suspected
from cockpit.model.observed import CheckpointsValue
from cockpit.model.plan import Check, Draft, Outcome, Plan, Request
from cockpit.model.records import EventText, Unfinished
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import is_agent, same_person, worded
from cockpit.model.wording import (
    duration,
    from_to,
    number,
    rate,
    share,
    size,
    step,
    steps,
    utc_minute,
)
from cockpit.records.issue.service import handed_off
from cockpit.records.logbook.entry_text import Drafts
from cockpit.store.journal import JournalEntry, handed_over
from cockpit.text.checks import passed, warned
from cockpit.text.scrub import scrub

LAST_ACTIONS = 5
UNSEEN_SHOWN = 10


class Handoff(PageAction):
    """Makes the page, writes it into the logbook and the issue, and transfers the ownership."""

    verb = "handoff"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return the page and what speaks against handing over."""
        to = required_param(request, "to", "who owns the run from now on, by name")
        if is_agent(to):
            raise RefuseError("--to names an agent; a run is owned by a person")
        note = text_param(request, "note", lines=True)
        nobody = "nobody" if is_agent(context.operator) else context.operator
        of = context.spec.dri or nobody
        by = of if context.is_word_of(of) else worded(of, context.typed_by)
        # What is known of an entry that was begun and not saved
        folder = context.parts.drafts
        draft = None if folder is None else await unfinished(Drafts(folder), context.report)
        checks = (_owner(context, of, to), logbook_check(context.spec), issue_check(context.spec))
        return Draft(
            words=f"handoff {context.spec.name}",
            checks=checks,
            page=page(
                context.report, context.entries, context.now, of=by, to=to, note=note, draft=draft
            ),
            facts={
                "to": to,
                "of": of,
                "named": _owner_by_file(context) or "",
                "comment": handed_off(context.report, by=by, to=to),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: transfer, log, comment."""
        commit = f"{plan.run}: log handoff to {plan.facts['to']}"
        return (
            Step("transfer", _transfer, again=True),
            log_step(_entry, commit, tells=lambda execution: handed_over([_done(execution)])),
            comment_step(event_name, lambda execution: execution.plan.facts["comment"]),
        )


def _owner(context: ActionContext, of: str, to: str) -> Check:
    if same_person(to, of):
        return warned(rows.OWNER, f"already owned by {to}", value=to)
    text = f"{to} owns it after this; until now {of}"
    if context.is_word_of(of):
        return passed(rows.OWNER, text, value=to)
    text += f"; typed by {context.typed_by}, not by {of}"
    return warned(rows.OWNER, text, value=to)


def _owner_by_file(context: ActionContext) -> str | None:
    """Return whom the run file names, whoever owns the run by now."""
    name = context.spec.name
    return next((run.dri for run in context.file.runs if run.name == name), None)


def _done(execution: Execution) -> JournalEntry:
    """Return the entry as it stands once the run is handed over."""
    facts = {**execution.plan.facts, **execution.facts}
    return execution.entry.model_copy(update={"outcome": Outcome.DONE, "facts": facts})


async def _transfer(execution: Execution) -> str | None:
    """Name the new owner in the journal, from which every cockpit of this account reads it."""
    await execution.note(owner=execution.plan.facts["to"])
    return f"{execution.plan.facts['to']} owns {execution.plan.run}"


def _entry(execution: Execution) -> EventText:
    facts = execution.plan.facts
    # The page without its headings' marks, so that it does not break the logbook up
    lines = (line.lstrip("#").strip() if line.startswith("#") else line for line in
             (execution.plan.page or "").splitlines()[4:])  # fmt: skip
    return EventText(
        title=f"handoff to {facts['to']}",
        status=_handed(facts, execution.entry.operator),
        evidence="\n".join(line for line in lines if line.strip()),
        decision=f"{facts['to']} owns the run; ordered by {execution.entry.operator}",
    )


def _handed(facts: Mapping[str, str], operator: str) -> str:
    if same_person(facts["of"], facts["to"]):
        return f"{facts['to']} keeps the run"
    return f"handed from {worded(facts['of'], operator)} to {facts['to']}"


def page(
    report: RunReport,
    entries: Sequence[JournalEntry],
    now: float,
    *,
    of: str,
    to: str,
    note: str,
    draft: Unfinished | None = None,
) -> str:
    """Return the page; ``of`` hands over, ``to`` owns the run from now on.

    Of a ``draft`` it tells that there is one, never what it says.
    """
    lines = [
        f"# Handoff: {report.name}",
        "",
        f"{_whose(report.spec.dri, of, to)}, {utc_minute(now)}",
        "",
    ]
    lines += [f"> {line}" for line in note.splitlines()] + [""] * bool(note)
    for title, part in (
        ("State", _state(report, now)),
        ("Goodput", _goodput(report)),
        *((("Cost", cost_lines(report.cost)),) if report.cost is not None else ()),
        ("Latest signal", _signal(report, now)),
        ("Open alerts", _alerts(report.alerts, now)),
        *((("Closed before anyone looked", unseen),) if (unseen := list(_unseen(report))) else ()),
        *((("Not in the logbook yet", [draft.words]),) if draft is not None else ()),
        ("Tracker", _tracker(report, now)),
        ("Checkpoints", _checkpoints(report, now)),
        ("Resubmit", _resubmit(report.spec)),
        ("Ownership", _ownership(report, now, to)),
        ("Done to it lately", _lately(entries)),
    ):
        told = [f"- {line}" for line in part]
        lines += [f"## {title}", *(told or ["- none known"]), ""]
    return scrub("\n".join(lines).rstrip() + "\n")


def _whose(dri: str | None, of: str, to: str) -> str:
    """Return who owns the run before and after, or that nothing changes; ``of`` by whose word."""
    if dri is None:
        return f"Owner: {to} (none before)"
    return f"Owner: {to} (unchanged)" if same_person(dri, to) else f"Owner: {from_to(of, to)}"


def _state(report: RunReport, now: float) -> Iterator[str]:
    job = report.facets.job
    yield f"Verdict: {report.verdict.value}; next: {report.next_action}"
    if job.value is None:
        yield f"Job: unknown ({_why(job)})"
    else:
        value = job.value
        said = "" if value.state == value.phase.value else f" ({value.state})"
        parts = [f"{value.phase.value}{said}", f"id {value.id or 'unknown'}"]
        parts += [f"launch {value.launch_id}"] if value.launch_id else []
        parts += [f"exit code {value.exit_code}"] if value.exit_code is not None else []
        doubt = "" if job.known else f"; unknown since then ({_why(job)})"
        yield f"Job: {', '.join(parts)}, seen {utc_minute(job.observed_at)}{doubt}"
        yield from (f"Child: {child}" for child in value.children)
        yield from (f"Diagnostic, not the run itself: {job_id}" for job_id in value.diagnostic)
    found = report.progress
    known = found.step is not None and found.final_step
    part = f", {share((found.step or 0) / (found.final_step or 1))}" if known else ""
    left = "" if found.eta_s is None else f", {duration(found.eta_s)} to go"
    yield f"Progress: {found.words}{part}{left}"
    yield from _final_step(report)


def _goodput(report: RunReport) -> Iterator[str]:
    if report.goodput is None:
        yield "unknown: no start of it is known"
    else:
        yield from filter(None, sentences(report.goodput))


def _final_step(report: RunReport) -> Iterator[str]:
    """Say whose word the final step is, and what differs (C-20)."""
    found = report.progress
    if found.final_step is not None:
        but = "" if found.final_step_doubt is None else f"; but {found.final_step_doubt}"
        yield f"Final step: {steps(found.final_step)}, from {found.final_step_source}{but}"


def _signal(report: RunReport, now: float) -> Iterator[str]:
    worst, log = report.worst, report.facets.log
    if worst is not None:
        yield worst.title
        yield from (f"`{_code(each.text)}` ({each.source})" for each in worst.evidence[:4])
    if log.value is not None and log.value.lines:
        last = next((line.plain for line in reversed(log.value.lines) if line.plain.strip()), "")
        yield f"Last log line, {utc_minute(log.value.mtime)}: `{_code(last)}`"
    elif log.configured:
        yield f"Log: unknown ({_why(log)})"


def _alerts(alerts: Sequence[Alert], now: float) -> Iterator[str]:
    for alert in alerts:
        taken = alert.acknowledged
        who = f", acknowledged by {taken.by}" if taken is not None else ""
        what = f"{alert.severity.value}: {alert.title}"
        since = f"since {utc_minute(alert.since)}{alert.or_before}"
        yield f"{what}, {since}{who}; next: {alert.next_action}"
    if not alerts:
        yield "none"


def _unseen(report: RunReport) -> Iterator[str]:
    """Yield what closed before anybody looked, the newest first."""
    for gone in [each for each in report.closed if not each.seen][:UNSEEN_SHOWN]:
        alert, span = gone.alert, gone.alert.span
        what = f"{alert.severity.value}: {alert.title}"
        at = "" if span is None else f", step {step(span.opened_step)} to {step(span.closed_step)}"
        yield f"{what}{at}, {from_to(utc_minute(alert.since), utc_minute(gone.closed_at))}"


def _tracker(report: RunReport, now: float) -> Iterator[str]:
    facet, spec = report.facets.tracker, report.spec.wandb
    value = facet.value
    if spec is None:
        yield "none in the run file"
        return
    recorded = "/".join(filter(None, (spec.entity, spec.project, spec.id)))
    yield f"W&B: {spec.url or (value.url if value is not None else None) or recorded}"
    if spec.dir is not None:
        yield f"Offline in `{spec.dir}`"
    if value is None:
        yield f"State: unknown ({_why(facet)})"
        return
    loss = f"loss {number(value.true_loss)}"
    pace = rate(value.throughput, value.throughput_unit)
    last = utc_minute(value.last_step_at)
    yield f"State: {value.state}, step {steps(value.step)}, {loss}, {pace}, last step {last}"


def _checkpoints(report: RunReport, now: float) -> Iterator[str]:
    facet = report.facets.checkpoints
    value = facet.value
    if value is None:
        yield f"unknown ({_why(facet)})" if facet.configured else "none in the run file"
        return
    for pick, what in (
        (value.relaunch_from, "A relaunch takes"),
        (value.trainer_would_load, "The trainer would load"),
    ):
        if pick is not None:
            doubt = suspected(value, pick)
            told = f"; suspect: {doubt}" if doubt is not None else ""
            yield f"{what} {named(pick)}: `{_code(pick.path)}` ({pick.why}{told})"
    if value.unlisted:
        yield f"Not all known ({_why(facet)})"
    elif value.relaunch_from is None:
        yield _none_good(value)
    newest = newest_of(item for item in value.items if item.complete and item.own)
    if newest is not None and newest.saved_at is not None:
        yield f"Newest complete: {size(newest.size)}, saved {utc_minute(newest.saved_at)}"
    suspect = [item for item in value.items if item.complete and item.suspect]
    if suspect:
        yield f"Suspect: {len(suspect)}, {named(suspect[0])} to {named(suspect[-1])}"


def _none_good(value: CheckpointsValue) -> str:
    """Say why nothing is picked: nothing is there, nothing is whole, or all that is is suspect."""
    if any(item.complete for item in value.items):
        return "No complete checkpoint that is not suspect"
    there = ", ".join(f"{named(item)} {item.state.value}" for item in value.items[-3:])
    return f"No checkpoint known to be complete ({there})" if there else "No complete checkpoint"


def _resubmit(run: RunSpec) -> Iterator[str]:
    command, place = run.resubmit, run.workdir or (run.job.workdir if run.job is not None else None)
    words = command if isinstance(command, str) else shlex.join(command or ())
    yield f"`{_code(words)}`" if command else "none in the run file"
    if place:
        yield f"Runs in `{_code(str(place))}`"


def _ownership(report: RunReport, now: float, to: str) -> Iterator[str]:
    spec = report.spec
    was = "" if spec.dri is None or same_person(spec.dri, to) else f"; until now {spec.dri}"
    yield f"Owner: {to}{was}"
    yield f"Watched by: {report.watched_by or 'nobody'}"
    due = report.next_check_at if report.next_check_at is not None else now + spec.cadence
    alone = "" if report.watched_by else ", only while a cockpit is open"
    yield f"Next check due: {utc_minute(due)}, then every {duration(spec.cadence)}{alone}"
    yield from (
        f"{what}: {where}"
        for what, where in (("Logbook", spec.records.logbook), ("Issue", spec.records.issue))
        if where
    )


def _lately(entries: Sequence[JournalEntry]) -> Iterator[str]:
    for entry in entries[-LAST_ACTIONS:]:
        yield f"{utc_minute(entry.begun_at)} {entry.action} by {entry.operator}: {entry.text}"
    if not entries:
        yield "no actions in this machine's journal"


def _code(text: str) -> str:
    """Return foreign text that stays inside a code span."""
    return text.replace("`", "'")


def _why(facet: Facet[Any]) -> str:
    return facet.why_unknown("not seen yet")
