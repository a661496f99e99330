"""What handing off, escalating and logging share: a page with figures that go on moving."""

from __future__ import annotations

from typing import Final

from cockpit.actions.action import RefuseError
from cockpit.model.plan import Basis, Check, Level, Plan, Request
from cockpit.model.run import RunSpec
from cockpit.model.words import duration
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

FRESH_FOR: Final = 900.0
"""Seconds for which a page that was shown may still be used: its figures have ages of their own."""


def page_holds(shown: Plan, now: Plan) -> str | None:
    """Return why a page that was shown may not be used any more, if so.

    Its figures move with a living run; what stands in the way, or an old page, stops it.
    """
    old = now.made_at - shown.made_at
    if not -FRESH_FOR <= old <= FRESH_FOR:
        return f"the page is {duration(old)} old"
    fresh = {check.id for check in now.checks if check.level is Level.BLOCK}
    new = fresh - {check.id for check in shown.checks if check.level is Level.BLOCK}
    return f"{min(new)} blocks it now" if new else None


def words_of(request: Request, name: str, *, lines: bool = False) -> str:
    """Return an option as safe text, its secrets masked; one line unless ``lines``."""
    given = request.params.get(name, "")
    if lines:
        return scrub("\n".join(clean(line, 4000) for line in given.splitlines()))
    return scrub(clean(given, 1000)).strip()


def required(request: Request, name: str, what: str) -> str:
    """Return an option that must be given; raises ``RefuseError`` that says what is expected."""
    found = words_of(request, name)
    if not found:
        raise RefuseError(f"--{name} is missing: {what}")
    return found


def logbook_check(run: RunSpec) -> Check:
    """Return whether there is a logbook to write into."""
    if run.records.logbook is None:
        text = "no logbook in the run file: it stands in this machine's journal only"
        return Check(id="logbook", level=Level.WARN, text=text, basis=Basis.RECORDED)
    text = f"recorded in {run.records.logbook}"
    return Check(id="logbook", level=Level.PASS, text=text, basis=Basis.RECORDED)


def issue_check(run: RunSpec) -> Check:
    """Return whether there is an issue to comment on."""
    if run.records.issue is None:
        text = "no issue in the run file: nothing is posted"
        level = Level.WARN if run.tier == "hero" else Level.PASS
        return Check(id="issue", level=level, text=text, basis=Basis.RECORDED)
    text = f"posted to {run.records.issue}"
    return Check(id="issue", level=Level.PASS, text=text, basis=Basis.RECORDED)
