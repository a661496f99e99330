"""A-10, log entry: Status, Evidence, Decision, Next, prefilled from what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cockpit.actions.core.action import Execution, PageAction, RefuseError, Step
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import text_param
from cockpit.actions.core.recording import NO_LOGBOOK, log_step
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventEntry
from cockpit.model.shared_facts import is_agent
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.writing import preview
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, passed, warned

DEADLINE = 10.0
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

        def entry(execution: Execution) -> EventEntry:
            fields = {name: execution.plan.facts[name] for name in ("title", *FIELDS)}
            return EventEntry(at=execution.entry.begun_at, **fields)

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
        return None, blocked("logbook", NO_LOGBOOK, Basis.RECORDED)
    try:
        page = await offload(lambda: preview(Path(path).read_bytes(), entry), deadline=DEADLINE)
    except FileNotFoundError:
        return None, warned("logbook", f"{path} does not exist yet: it will be created")
    except (OSError, TimeoutError) as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or 'no answer'}"
        return None, blocked("logbook", text)
    return page, passed("logbook", f"appended to {path}")
