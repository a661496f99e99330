"""A run's issue, created and linked before its first job is started (SPEC A-1, S-11).

Only for a run whose file names ``records.issue_repo`` and no issue. The cockpit never rewrites
the run file: it links the issue from the logbook's Run Contract, and says what to add.
"""

from __future__ import annotations

from typing import Final

from cockpit.actions.action import Doing, SkipStep, Step, StepError
from cockpit.actions.checks.records import linked_issue
from cockpit.actions.checks.verdicts import shown
from cockpit.actions.recording import ISSUE, lasting
from cockpit.model.run import RunSpec
from cockpit.records.issue_new import LABELS, logbook_link
from cockpit.records.issue_text import new_issue, title
from cockpit.records.logbook import Logbook

BODY: Final = "issue_body"


def to_create(run: RunSpec, book: Logbook | None) -> bool:
    """Tell whether a launch creates the issue: none is named, linked, and a place for it is."""
    records = run.records
    return records.issue is None and records.issue_repo is not None and linked_issue(book) is None


async def body_of(run: RunSpec, command: str | None) -> str:
    """Return the text of the new issue: the run contract, and where the logbook is."""
    if run.records.logbook is None:
        return new_issue(run, command=command)
    path, url = await logbook_link(run.records.logbook)
    return new_issue(run, logbook=path, logbook_url=url, command=command)


def preview(run: RunSpec, body: str) -> str:
    """Return what the plan shows of the issue that will be created."""
    head = f"A new issue in {shown(run.records.issue_repo or '')}, labels {', '.join(LABELS)}:"
    return f"{head}\n\n# {title(run)}\n\n{body}"


def create_step() -> Step:
    """Return the step that creates the issue and links it; nothing is started without it."""

    async def run(doing: Doing) -> str:
        spec, body = doing.ground.spec, doing.plan.facts.get(BODY)
        if not body:
            raise SkipStep(
                "there is one" if spec.records.issue else "no issue_repo to create one in"
            )
        recorder = doing.ground.parts.recorder
        made = await recorder.create_issue(spec, body)
        if made.url is None or made.trouble is not None:
            hint = f" ({made.url})" if made.url else ""
            raise StepError(f"not started: the issue: {made.trouble or 'it has no address'}{hint}")
        await doing.note(**{ISSUE: made.url})
        if spec.records.logbook is not None:
            commit = f"{spec.name}: link the issue"
            lasting(await recorder.contract(spec, {"Issue": made.url}, commit))
        return f'created {made.url}; add it to the run file: issue = "{made.url}"'

    return Step("create-issue", run)
