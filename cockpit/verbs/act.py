"""The guarded actions on the command line: plan, and with the words, act (SPEC A)."""

from __future__ import annotations

import argparse
import asyncio

from cockpit.actions.action import RefuseError
from cockpit.actions.desk import Desk
from cockpit.actions.table import TABLE, Entry
from cockpit.actions.wiring import build_desk
from cockpit.model.clock import SystemClock
from cockpit.model.plan import (
    Approval,
    Level,
    Outcome,
    Plan,
    Request,
    Result,
    StepResult,
    StepState,
)
from cockpit.model.run import CockpitFile
from cockpit.store.store import Store
from cockpit.verbs import act_arguments, act_text
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    open_store,
    print_document,
    put,
    run_file,
    say,
)
from cockpit.watch.engine import Engine
from cockpit.watch.who import operator_name

FAILED = 1
UNKNOWN = 5
UNRECORDED = 6


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: str) -> None:
    """Add one guarded verb to the table of verbs."""
    act_arguments.add_parser(verbs, _row(verb))


def run(args: argparse.Namespace) -> int:
    """Print the plan, or act on it; return INTERFACE's exit code."""
    row = _row(args.verb)
    file = run_file(args.config)
    names = [run.name for run in file.runs]
    if args.run_name not in names:
        raise UsageError(f"{file.path} has no run {args.run_name!r}; it has: {', '.join(names)}")
    request = Request(
        action=row.verb,
        run=args.run_name,
        operator=operator_name(file),
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
    desk = build_desk(lambda: file, engine, store, clock, operator=request.operator)
    if args.confirm is None or args.dry_run:
        return await _plan(desk, request, approvals, args)
    told = _quiet if args.json else _tell
    result = await desk.act(request, args.confirm, approvals, shown=args.plan, told=told)
    if args.json:
        print_document(result.document())
    else:
        put("\n".join(act_text.result_lines(request, result)))
    return exit_code(result)


async def _plan(
    desk: Desk, request: Request, approvals: tuple[Approval, ...], args: argparse.Namespace
) -> int:
    plan = await desk.plan(request, approvals)
    if args.json:
        print_document(plan.document())
    else:
        put("\n".join(act_text.plan_lines(plan)))
    if args.plan is not None and plan.plan_id != args.plan:
        say(f"changed since plan {args.plan}; this is plan {plan.plan_id}")
        return BLOCKED
    unknown = _not_approvable(plan, approvals)
    for line in unknown:
        say(line)
    return BLOCKED if plan.blocked or unknown else OK


def exit_code(result: Result) -> int:
    """Return INTERFACE's exit code for how an action ended."""
    if result.outcome is Outcome.DONE:
        return OK if result.recorded else UNRECORDED
    return {Outcome.REFUSED: BLOCKED, Outcome.UNKNOWN: UNKNOWN}.get(result.outcome, FAILED)


def _not_approvable(plan: Plan, approvals: tuple[Approval, ...]) -> list[str]:
    """Return a line for each approval that the plan has no use for."""
    checks = {check.id: check for check in plan.checks}
    lines = []
    for approval in approvals:
        check = checks.get(approval.check)
        if check is None:
            lines.append(f"--approve {approval.check}: the plan has no such check")
        elif not check.overridable:
            lines.append(f"--approve {approval.check}: nobody can approve this")
        elif check.level is Level.BLOCK and check.approved is None:
            lines.append(f"--approve {approval.check}: only {check.approver} can approve this")
    return lines


def _row(verb: str) -> Entry:
    return next(row for row in TABLE if row.verb == verb)


def _tell(step: StepResult) -> None:
    """Say what is being done; how it ended is told once, with the result."""
    if step.state is StepState.BEGUN:
        say(f"{step.name} …")


def _quiet(step: StepResult) -> None:
    return None
