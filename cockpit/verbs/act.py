"""The guarded actions on the command line: plan, and with the words, act (SPEC A).

Plans and results are printed as plain text: what blocks comes first.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence

from cockpit.actions.core.action import REACH, RefuseError
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.table import TABLE, ActionEntry
from cockpit.actions.core.wiring import build_service
from cockpit.config.quickstart import quick_imports
from cockpit.model.acts import ending, ending_means
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import named
from cockpit.model.plan import (
    Approval,
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
from cockpit.model.run import CockpitFile
from cockpit.model.shared_facts import same_person
from cockpit.model.wording import size, steps
from cockpit.runtime.account import ask_operator
from cockpit.store.store import Store
from cockpit.verbs import act_arguments
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    check_name,
    open_store,
    print_document,
    put,
    run_file,
    say,
)
from cockpit.watch.engine import Engine

FAILED = 1
UNKNOWN = 5
UNRECORDED = 6
MARKS = {Level.BLOCK: "x BLOCK", Level.WARN: "! warn ", Level.PASS: "  pass "}
ALLOWED = "+ allow"
KEEPS_SHOWN = 12
NOT_KNOWN = "? (not recorded)"
NOT_THERE = "not there"
DOES = {"rollback": "will reject ", "retain": "will delete "}
ORDER = (Level.BLOCK, Level.WARN, Level.PASS)


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add what one guarded verb takes."""
    act_arguments.add_arguments(parser, _row(verb))


def run(args: argparse.Namespace) -> int:
    """Print the plan, or act on it; return INTERFACE's exit code."""
    row = _row(args.verb)
    file = run_file(args.config)
    check_name(file, args.run_name)
    operator = asyncio.run(ask_operator(file))
    if operator.notice is not None:
        say(operator.notice)
    request = Request(
        action=row.verb,
        run=args.run_name,
        operator=operator.name,
        params=act_arguments.params_of(args, row),
    )
    approvals = act_arguments.approvals_of(args)
    store = open_store(read_only=False)
    try:
        return asyncio.run(_run(args, file, store, request, approvals))
    except RefuseError as error:
        raise UsageError(str(error)) from error
    finally:
        if store is not None:
            store.close()


async def _run(
    args: argparse.Namespace,
    file: CockpitFile,
    store: Store | None,
    request: Request,
    approvals: tuple[Approval, ...],
) -> int:
    clock = SystemClock()
    engine = Engine(file, store=store, clock=clock, only=[request.run])
    service = build_service(lambda: file, engine, store, clock, operator=request.operator)
    if getattr(args, "page", False):
        return await _page(service, file, request, args)
    if args.confirm is None or args.dry_run:
        return await _plan(service, request, approvals, args)
    on_step = (lambda step: None) if args.json else _print_step
    result = await service.act(request, args.confirm, approvals, shown=args.plan, on_step=on_step)
    if args.json:
        print_document(result.document())
    else:
        put("\n".join(result_lines(request, result)))
    return exit_code(result)


async def _plan(
    service: ActionService,
    request: Request,
    approvals: tuple[Approval, ...],
    args: argparse.Namespace,
) -> int:
    plan = await service.plan(request, approvals)
    if args.json:
        print_document(plan.document())
    else:
        put("\n".join(plan_lines(plan)))
    if args.plan is not None and plan.plan_id != args.plan:
        say(f"changed since plan {args.plan}; this is plan {plan.plan_id}")
        return BLOCKED
    unknown = _not_approvable(plan, approvals)
    for line in unknown:
        say(line)
    return BLOCKED if plan.blocked or unknown else OK


async def _page(
    service: ActionService, file: CockpitFile, request: Request, args: argparse.Namespace
) -> int:
    """Print the handoff page alone, as it stands for whoever owns the run."""
    if args.confirm is not None or args.json:
        raise UsageError("--page prints a page: without --confirm and --json")
    dri = next((run.dri for run in file.runs if run.name == request.run), None)
    params = {"to": dri or request.operator, **request.params}
    plan = await service.plan(request.model_copy(update={"params": params}), ())
    if args.format == "md":
        put((plan.page or "").rstrip("\n"))
    else:
        with quick_imports():
            from cockpit.app.for_verbs import formatted  # here: only a picture needs it
        put(formatted(plan.page or "", args.format).rstrip("\n"))
    return OK


def exit_code(result: Result) -> int:
    """Return INTERFACE's exit code for how an action ended."""
    if result.outcome is Outcome.DONE:
        return OK if result.written.whole else UNRECORDED
    return {Outcome.REFUSED: BLOCKED, Outcome.UNKNOWN: UNKNOWN}.get(result.outcome, FAILED)


def _not_approvable(plan: Plan, approvals: tuple[Approval, ...]) -> list[str]:
    """Return a line for each approval that the plan has no use for."""
    checks = {check.id: check for check in plan.checks}
    lines = []
    for approval in approvals:
        check = checks.get(approval.check)
        if check is None:
            lines.append(f"--approve {approval.check}: no such check in the plan")
        elif not check.overridable:
            lines.append(f"--approve {approval.check}: this cannot be approved")
        elif check.level is Level.BLOCK and check.approved is None:
            lines.append(f"--approve {approval.check}: {_refusal(check, approval)}")
    return lines


def _refusal(check: Check, approval: Approval) -> str:
    """Return why an approval of a check that allows one does not count."""
    if check.approver is None:
        return "an agent cannot approve anything"
    if not same_person(check.approver, approval.by):
        return f"only {check.approver} can approve this"
    return f"only {check.approver} can approve this, and must type it; someone else typed it"


def _row(verb: str) -> ActionEntry:
    return next(row for row in TABLE if row.verb == verb)


def _print_step(step: StepResult) -> None:
    """Say what is being done; how it ended is told once, with the result."""
    if step.state is StepState.BEGUN:
        note = f": {step.note}" if step.note else ""
        say(f"{step.name}{note} …")


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines that a plan is printed as, what blocks first."""
    yield f"{plan.action} {plan.run}   plan {plan.plan_id}"
    yield from filter(None, (plan.summary,))
    yield from (_check(check) for level in ORDER for check in plan.checks if check.level is level)
    known = [each for each in plan.differences if plan.action != "launch" or each.ran]
    yield from _differences(known)
    if plan.command is not None:
        yield f"will run    {plan.command}"
    yield from (f"will stop   {name}" for name in plan.stops)
    yield from (f"will NOT touch   {name}" for name in plan.spares)
    if plan.checkpoint is not None:
        yield f"resumes     {named(plan.checkpoint)}: {plan.checkpoint.path}"
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
    taken = "" if approved is None else f" (approved by {approved.whose}: {approved.reason})"
    may = " (can be approved)" if check.stands_in_the_way and check.overridable else ""
    blocked_before = check.level is Level.BLOCK and not check.stands_in_the_way
    mark = ALLOWED if blocked_before else MARKS[check.level]
    return f"{mark}  {check.id}: {check.text}  [{check.basis.value}]{taken}{may}"


def _differences(differences: Sequence[Difference]) -> Iterator[str]:
    same = sum(each.same for each in differences)
    for each in differences:
        if not each.same:
            ran = NOT_KNOWN if each.unrecorded else each.ran or NOT_THERE
            yield f"{each.what}: ran {ran}"
            yield f"{' ' * len(each.what)}  now {each.would_run or NOT_THERE}"
    if same:
        yield f"{same:,} more are the same as what ran before"


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
        return f'to run it: --confirm "{plan.words}"'
    standing = dict.fromkeys((c.id, c.overridable) for c in plan.checks if c.stands_in_the_way)
    approvable = [name for name, overridable in standing if overridable]
    hard = [name for name, overridable in standing if not overridable]
    if hard:
        return f"blocked by {', '.join(hard)}; nobody can approve this"
    first = approvable[0]
    return (
        f"blocked by {', '.join(approvable)}; to approve one: "
        f'--approve {first} --by NAME --reason "why"'
    )


def result_lines(request: Request, result: Result) -> list[str]:
    """Return the lines that an outcome is printed as."""
    nobody = next((step.note for step in result.steps if step.name == REACH and step.note), None)
    how = ending_means(result.outcome, result.written)
    if nobody is not None and result.outcome is not Outcome.DONE:
        how = f"{nobody} ({ending(result.outcome, result.written)})"
    lines = [f"{request.action} {request.run}: {how}"]
    bad = (StepState.FAILED, StepState.UNKNOWN)
    notes = "; ".join(f"{step.name}: {step.note}" for step in result.steps if step.state in bad)
    lines += [result.message] if result.message not in ("", notes) else []
    lines += [step_line(step) for step in result.steps]
    known = (("job", result.job_id), ("launch id", result.launch_id))
    return lines + [f"{what}: {value}" for what, value in known if value]


def step_line(step: StepResult) -> str:
    """Return one step: ``stop: done (pid 4211 ended)``."""
    return f"{step.name}: {step.state.value}" + (f" ({step.note})" if step.note else "")
