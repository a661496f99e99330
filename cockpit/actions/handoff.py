"""A-8, handoff: one page about the run, and its ownership to somebody by name."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.actions.action import Doing, Step
from cockpit.actions.ground import Ground
from cockpit.actions.handoff_page import page
from cockpit.actions.paging import issue_check, logbook_check, page_holds, required, words_of
from cockpit.actions.recording import comment_step, event_name, log_step
from cockpit.model.plan import Basis, Check, Draft, Level, Outcome, Plan, Request
from cockpit.model.records import EventEntry
from cockpit.records.issue_text import handed_off
from cockpit.store.journal import JournalEntry


class Handoff:
    """Makes the page, writes it into the logbook and the issue, and transfers the ownership."""

    verb = "handoff"
    title = "Hand off"
    exclusive = False
    launches = False

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return the page and what speaks against handing over."""
        to = required(request, "to", "who owns the run from now on, by name")
        note = words_of(request, "note", lines=True)
        of = owner_of(ground.entries) or ground.operator
        return Draft(
            words=f"handoff {ground.spec.name}",
            checks=(_owner(ground, of, to), logbook_check(ground.spec), issue_check(ground.spec)),
            page=page(ground.report, ground.entries, ground.now, of=of, to=to, note=note),
            facts={"to": to, "of": of, "comment": handed_off(ground.report, by=of, to=to)},
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: transfer, log, comment."""
        commit = f"{plan.run}: log handoff to {plan.facts['to']}"
        return (
            Step("transfer", _transfer),
            log_step(_entry, commit),
            comment_step(event_name, lambda doing: doing.plan.facts["comment"]),
        )

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return why the page may not be used any more, if so."""
        return page_holds(shown, now)


def owner_of(entries: Sequence[JournalEntry]) -> str | None:
    """Return to whom the run was handed last, if it ever was."""
    done = [e for e in entries if e.action == "handoff" and e.outcome is Outcome.DONE]
    return done[-1].facts.get("to") if done else None


def _owner(ground: Ground, of: str, to: str) -> Check:
    text, level = f"{to} owns it after this; until now {of}", Level.PASS
    if to == of:
        text, level = f"{to} owns it already", Level.WARN
    return Check(id="owner", level=level, text=text, value=to, basis=Basis.RECORDED)


async def _transfer(doing: Doing) -> str | None:
    """Name the new owner in the journal, from which every cockpit here reads it."""
    await doing.note(owner=doing.plan.facts["to"])
    return f"{doing.plan.facts['to']} owns {doing.plan.run}"


def _entry(doing: Doing) -> EventEntry:
    facts = doing.plan.facts
    return EventEntry(
        title=f"handoff to {facts['to']}",
        at=doing.entry.begun_at,
        status=f"handed from {facts['of']} to {facts['to']}",
        evidence=_body(doing.plan.page or ""),
        decision=f"{facts['to']} owns the run; ordered by {doing.entry.operator}",
    )


def _body(text: str) -> str:
    """Return the page without its headings' marks, so that it does not break the logbook up."""
    lines = (line.lstrip("#").strip() if line.startswith("#") else line for line in
             text.splitlines()[4:])  # fmt: skip
    return "\n".join(line for line in lines if line.strip())
