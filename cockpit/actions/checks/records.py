"""What must be written down before a launch: logbook, issue, retention, final step (SPEC A-1)."""

from __future__ import annotations

import re
from typing import Final

from cockpit.actions.core.context import ActionContext
from cockpit.model import wording
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.records.logbook.reading import Logbook, value_of
from cockpit.text.checks import lacking, passed, warned
from cockpit.text.scrub import shown

_ADDRESS: Final = re.compile(r"https?://[^\s<>()]+/issues/\d+")


def kept_records(context: ActionContext, book: Logbook | None, trouble: str | None) -> list[Check]:
    """Check that logbook and issue exist and name each other; an ordinary run is only warned."""
    run = context.spec
    if run.final_step is not None:
        text = f"final step {run.final_step} ({run.final_step_source or 'run file'})"
        final = passed("final-step", text, Basis.RECORDED)
    else:
        why = run.final_step_source or "set final_step or final_step_from"
        final = lacking(run, "final-step", f"final step not known: {why}")
    return [_logbook(context, book, trouble), _issue(run, book), *retention(run), final]


def linked_issue(book: Logbook | None) -> str | None:
    """Return the address of the issue that the Run Contract links, if it links one."""
    found = _ADDRESS.search((value_of(book.contract, "Issue") if book is not None else None) or "")
    return None if found is None else found.group()


def _logbook(context: ActionContext, book: Logbook | None, trouble: str | None) -> Check:
    run = context.spec
    if run.records.logbook is None:
        return lacking(run, "logbook", "no logbook set (records.logbook)")
    if book is None:
        text = f"the logbook cannot be read: {trouble or 'it is not there'}"
        return lacking(run, "logbook", f"{text} (cockpit log {run.name} creates one)")
    others = [each.name for each in context.file.runs
              if each.name != run.name and each.records.logbook == run.records.logbook]  # fmt: skip
    if others:
        text = f"{run.records.logbook} is also the logbook of {', '.join(others)}: an owner or an"
        text += " acknowledgement told there counts for each of them"
        return warned("logbook", text, Basis.RECORDED)
    return passed("logbook", f"logbook {run.records.logbook}", Basis.RECORDED)


def _issue(run: RunSpec, book: Logbook | None) -> Check:
    issue = run.records.issue
    if issue is None:
        return _no_issue(run, book)
    if book is None:
        return passed("issue", f"issue {issue}", Basis.RECORDED)
    if not _same_issue(issue, value_of(book.contract, "Issue") or ""):
        text = "the logbook does not link the issue: add it to its Run Contract"
        return lacking(run, "issue", f"{text} (Issue: {issue})")
    return passed("issue", f"issue {issue}, linked from the logbook", Basis.RECORDED)


def _no_issue(run: RunSpec, book: Logbook | None) -> Check:
    linked, repo = linked_issue(book), run.records.issue_repo
    if linked is not None:
        text = f"the Run Contract links {linked}; add it to cockpit.toml (records.issue)"
        return warned("issue", text, Basis.RECORDED)
    if repo is None:
        text = "no issue set (records.issue), and no issue_repo to create one in"
        return lacking(run, "issue", text)
    text = f"no issue yet: one is created in {shown(repo)} and linked before anything starts"
    return warned("issue", text, Basis.RECORDED)


def _same_issue(issue: str, named: str) -> bool:
    """Tell whether a contract's Issue is this one: the whole address, or ``#1234``."""
    number = issue.rstrip("/").rpartition("/")[2]
    words = named.replace("(", " ").replace(")", " ").replace("<", " ").replace(">", " ").split()
    return any(word.rstrip("/.,") == issue.rstrip("/") or word == f"#{number}" for word in words)


def retention(run: RunSpec) -> list[Check]:
    """Check that retention and rollback depth were chosen, and that one can hold the other."""
    spec = run.checkpoints
    if spec is None or not spec.path:
        return [lacking(run, "retention", "no checkpoints configured ([run.checkpoints])")]
    chosen = {
        "permanent_every": spec.permanent_every,
        "save_every": spec.save_every,
        "keep": spec.keep,
        "rollback_depth": spec.rollback_depth,
    }
    missing = [name for name, value in chosen.items() if value is None]
    if missing:
        return [lacking(run, "retention", f"not set in checkpoints: {', '.join(missing)}")]
    if (spec.keep or 0) < (spec.rollback_depth or 0):
        text = f"keep {spec.keep} is less than rollback depth {spec.rollback_depth}"
        return [lacking(run, "retention", text)]
    text = f"permanent every {wording.steps(spec.permanent_every)} steps, keep {spec.keep}"
    return [passed("retention", f"{text}, rollback depth {spec.rollback_depth}", Basis.RECORDED)]
