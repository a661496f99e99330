"""Plans and results of guarded actions as plain text: what blocks comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cockpit.model.plan import (
    Check,
    Difference,
    Level,
    Outcome,
    Plan,
    Request,
    Result,
    StepResult,
    StepState,
    Target,
)
from cockpit.model.words import size, steps

MARKS = {Level.BLOCK: "x BLOCK", Level.WARN: "! warn ", Level.PASS: "  pass "}
ALLOWED = "+ allow"
KEEPS_SHOWN = 12
NOT_KNOWN = "? (not recorded)"
DOES = {"rollback": "will reject ", "retain": "will delete "}
ORDER = (Level.BLOCK, Level.WARN, Level.PASS)
WORDS = {
    Outcome.DONE: "done",
    Outcome.REFUSED: "refused, nothing was done",
    Outcome.UNKNOWN: "UNKNOWN: it may have happened or still happen; look it up before anything",
    Outcome.FAILED: "failed",
}


def plan_lines(plan: Plan) -> list[str]:
    """Return the lines that a plan is printed as."""
    return list(_plan(plan))


def _plan(plan: Plan) -> Iterator[str]:
    yield f"{plan.action} {plan.run}   plan {plan.plan_id}"
    yield from (_check(check) for level in ORDER for check in plan.checks if check.level is level)
    known = [each for each in plan.differences if plan.action != "launch" or each.ran]
    yield from _differences(known)
    if plan.command is not None:
        yield f"will run    {plan.command}"
    yield from (f"will stop   {name}" for name in plan.stops)
    yield from (f"will NOT touch   {name}" for name in plan.spares)
    if plan.checkpoint is not None:
        yield f"resumes     step {steps(plan.checkpoint.step)}: {plan.checkpoint.path}"
    if plan.trainer_would_load is not None:
        yield f"the trainer would load   {plan.trainer_would_load.path}"
    if plan.loses is not None:
        yield f"loses       {plan.loses}"
    does = DOES.get(plan.action, "will delete or move ")
    yield from (f"{does}{_target(each)}" for each in plan.targets)
    yield from _keeps(plan.keeps)
    if plan.page:
        yield ""
        yield from plan.page.rstrip("\n").split("\n")
    yield ""
    yield _last(plan)


def _check(check: Check) -> str:
    approved = check.approved
    taken = "" if approved is None else f" (approved by {approved.by}: {approved.reason})"
    may = " (can be approved)" if check.stands_in_the_way and check.overridable else ""
    blocked_before = check.level is Level.BLOCK and not check.stands_in_the_way
    mark = ALLOWED if blocked_before else MARKS[check.level]
    return f"{mark}  {check.id}: {check.text}  [{check.basis.value}]{taken}{may}"


def _differences(differences: Sequence[Difference]) -> Iterator[str]:
    same = sum(each.same for each in differences)
    for each in differences:
        if not each.same:
            yield f"{each.what}: ran {each.ran or NOT_KNOWN}"
            yield f"{' ' * len(each.what)}  now {each.would_run or NOT_KNOWN}"
    if same:
        yield f"{same:,} more things are the same as in what ran"


def _keeps(keeps: tuple[Target, ...]) -> Iterator[str]:
    """Yield what is kept; of many, the newest, and the others by their reason."""
    shown = keeps if len(keeps) <= KEEPS_SHOWN else keeps[-KEEPS_SHOWN // 2 :]
    others = Counter(each.why for each in keeps[: len(keeps) - len(shown)])
    yield from (f"keeps       {count:,} more: {why}" for why, count in others.items())
    yield from (f"keeps       {_target(each)}" for each in shown)


def _target(target: Target) -> str:
    step = "" if target.step is None else f"step {steps(target.step)}  "
    return f"{step}{size(target.size)}  {target.path}  ({target.why})"


def _last(plan: Plan) -> str:
    if not plan.blocked:
        return f'to do it: --confirm "{plan.words}"'
    approvable = [c.id for c in plan.checks if c.stands_in_the_way and c.overridable]
    hard = [c.id for c in plan.checks if c.stands_in_the_way and not c.overridable]
    if hard:
        return f"blocked by {', '.join(hard)}; nobody can approve this"
    first = approvable[0]
    return (
        f"blocked by {', '.join(approvable)}; to let one pass: "
        f'--approve {first} --by NAME --reason "why"'
    )


def result_lines(request: Request, result: Result) -> list[str]:
    """Return the lines that an outcome is printed as."""
    head = f"{request.action} {request.run}: {WORDS[result.outcome]}"
    lines = [head + ("" if result.recorded else ", but it could not all be recorded")]
    bad = (StepState.FAILED, StepState.UNKNOWN)
    told = "; ".join(f"{step.name}: {step.note}" for step in result.steps if step.state in bad)
    lines += [result.message] if result.message not in ("", told) else []
    lines += [step_line(step) for step in result.steps]
    known = (("job", result.job_id), ("launch id", result.launch_id))
    return lines + [f"{what}: {value}" for what, value in known if value]


def step_line(step: StepResult) -> str:
    """Return one step: ``stop: done (pid 4211 ended)``."""
    return f"{step.name}: {step.state.value}" + (f" ({step.note})" if step.note else "")
