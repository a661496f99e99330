"""Why nothing is done: the refusals of a plan, and the block of one that cannot be journaled."""

from __future__ import annotations

from cockpit.model.acts import Outcome
from cockpit.model.plan import Basis, Check, Level, Plan, Result
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

READ_ONLY = "this cockpit is read-only: no actions"
NO_JOURNAL = "the journal cannot be written, and nothing is done without it"


def without_journal(plan: Plan, why: str) -> Plan:
    """Return the plan with the block that says why nothing could be written down."""
    text = f"{NO_JOURNAL}: {scrub(clean(why))}"
    check = Check(id="journal", level=Level.BLOCK, text=text, basis=Basis.OBSERVED)
    return plan.model_copy(update={"checks": (check, *plan.checks)})


def changed(shown: Plan, what: str, now: Plan | None = None) -> Result:
    """Return the refusal of a plan that is another one by now, and what to do about it.

    ``now`` is that one, with what was approved: its words are offered where they would do it.
    """
    again = "plan again"
    if now is not None and not now.blocked:
        again += f', or confirm the new plan with "{now.words}"'
    return refused(shown.plan_id, f"changed since it was shown: {what}; {again}")


def blocked(plan: Plan) -> Result:
    """Return the refusal of a plan with what stands in its way."""
    why = "; ".join(check.text for check in plan.checks if check.stands_in_the_way)
    return refused(plan.plan_id, f"blocked: {why}")


def refused(plan_id: str, message: str) -> Result:
    """Return that nothing was done, and why."""
    return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message=message)
