"""The guarded actions on the command line (SPEC A; INTERFACE, "Actions without the UI").

Without the typed words a verb prints the plan, what blocks first; with them it acts. Plans and
results are plain text.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

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
from cockpit.model.shared_facts import by_standing_order, same_person
from cockpit.model.wording import size, steps
from cockpit.runtime.account import ask_operator
from cockpit.store.store import Store
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    opened_store,
    put,
    put_answer,
    run_file,
    run_named,
    say,
    takes,
)
from cockpit.watch.engine import Engine

POSITIONAL: Final = {"ack": ("key",), "adopt": ("job-id",)}
"""Options that are given by their place, in INTERFACE's form of the verb."""
FORMATS: Final = ("md", "svg", "txt")
APPROVALS: Final = "approvals"
PARAMS: Final = "given"


TAKES = """
--confirm WORDS: act: the words of the plan
--plan ID: refuse if anything has changed since that plan
--dry-run: only print the plan, whatever else is given
--config --json
"""


PAGE = """
--page: only print the page; nothing is handed over, --to is not needed
--format: of --page: Markdown, a picture, or text (default: md)
"""


def add_row_arguments(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    """Add what one guarded verb takes."""
    parser.description = (
        f"{row.help[:1].upper()}{row.help[1:]}. Prints its plan and stops (exit 0: nothing stands "
        "in the way, 4: blocked); acts only with --confirm and the plan's words "
        f'("{row.asks}"). After acting: 0 done, 4 refused, 5 unknown (look it up), '
        "6 done but not recorded, 1 failed."
    )
    parser.epilog = f"example: cockpit {_example(row)}"
    takes(parser, "run_name")
    for name in POSITIONAL.get(row.verb, ()):
        about = next(param.help for param in row.params if param.name == name)
        parser.add_argument(name, metavar=name.upper(), help=about)
    parser.set_defaults(**{APPROVALS: [], PARAMS: {}, "verb": row.verb})
    _add_params(parser, row)
    _add_approvals(parser, row)
    if row.verb == "handoff":
        takes(parser, PAGE, format={"choices": FORMATS, "default": FORMATS[0]})
    takes(parser, TAKES)


def params_of(args: argparse.Namespace, row: ActionEntry) -> dict[str, str]:
    """Return the verb's own options as they were given."""
    places = {name: getattr(args, name) for name in POSITIONAL.get(row.verb, ())}
    return {**getattr(args, PARAMS), **places}


def approvals_of(args: argparse.Namespace) -> tuple[Approval, ...]:
    """Return the approvals; raises ``UsageError`` for one without a name or a reason."""
    found = []
    for given in getattr(args, APPROVALS):
        for part in ("by", "reason"):
            if not given.get(part, "").strip():
                raise UsageError(
                    f"--approve {given['check']} needs --by NAME and --reason TEXT after it"
                )
        found.append(Approval(**given))
    return tuple(found)


def _add_params(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    for param in row.params:
        if param.name in POSITIONAL.get(row.verb, ()) or param.name in ("by", "reason"):
            continue
        parser.add_argument(
            f"--{param.name}",
            action=_StoreOption,
            metavar=param.name.upper().replace("-", "_"),
            help=param.help,
            dest=PARAMS,
            default=argparse.SUPPRESS,
        )


def _add_approvals(parser: argparse.ArgumentParser, row: ActionEntry) -> None:
    """Add ``--approve CHECK --by NAME --reason TEXT``; elsewhere ``--by`` is the verb's own."""
    parser.add_argument(
        "--approve", action=_Approve, metavar="CHECK", dest=APPROVALS, default=argparse.SUPPRESS,
        help="approve this block (repeatable); --by and --reason after it say who and why",
    )  # fmt: skip
    own = {param.name: param.help for param in row.params}
    for name, what in (("by", "who approves"), ("reason", "why")):
        text = f"{own[name]}; after --approve: {what}" if name in own else f"{what} (--approve)"
        parser.add_argument(
            f"--{name}", action=_OfApproval, metavar=name.upper(), dest=PARAMS,
            default=argparse.SUPPRESS, help=text,
        )  # fmt: skip


class _StoreOption(argparse.Action):
    """Keeps an option of the verb by its long name."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        self.keep(namespace, (option_string or "").lstrip("-"), str(values))

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        """Put the value where it belongs."""
        setattr(namespace, PARAMS, {**getattr(namespace, PARAMS), name: value})


class _Approve(_StoreOption):
    """Begins an approval; the ``--by`` and ``--reason`` behind it are its own."""

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        setattr(namespace, APPROVALS, [*getattr(namespace, APPROVALS), {"check": value}])


class _OfApproval(_StoreOption):
    """Fills the last approval; without one it is an option of the verb."""

    def keep(self, namespace: argparse.Namespace, name: str, value: str) -> None:
        approvals = getattr(namespace, APPROVALS)
        if approvals and name not in approvals[-1]:
            setattr(namespace, APPROVALS, [*approvals[:-1], {**approvals[-1], name: value}])
        else:
            super().keep(namespace, name, value)


def _example(row: ActionEntry) -> str:
    asked = " ".join(
        param.name.upper() if param.name in POSITIONAL.get(row.verb, ()) else f"--{param.name} …"
        for param in row.params
        if param.required
    )
    words = row.asks.replace("RUN", "my-run").replace("STEP", "5000")
    call = " ".join(filter(None, (row.verb, "my-run", asked)))
    return f'{call} --confirm "{words}"'


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
    add_row_arguments(parser, _row(verb))


def run(args: argparse.Namespace) -> int:
    """Print the plan, or act on it; return INTERFACE's exit code."""
    row = _row(args.verb)
    file = run_file(args.config)
    run_named(file, args.run_name)
    operator = asyncio.run(ask_operator(file))
    if operator.notice is not None:
        say(operator.notice)
    if by_standing_order(operator.name):
        raise UsageError(f"you act as {operator.name}: under that name no command acts")
    request = Request(
        action=row.verb, run=args.run_name, operator=operator.name, params=params_of(args, row)
    )
    approvals = approvals_of(args)
    try:
        with opened_store(read_only=False) as store:
            return asyncio.run(_run(args, file, store, request, approvals))
    except RefuseError as error:
        raise UsageError(str(error)) from error


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
    put_answer(args.json, result.document, lambda: result_lines(request, result))
    return exit_code(result)


async def _plan(
    service: ActionService,
    request: Request,
    approvals: tuple[Approval, ...],
    args: argparse.Namespace,
) -> int:
    plan = await service.plan(request, approvals)
    put_answer(args.json, plan.document, lambda: plan_lines(plan))
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
    """Say what is being done; the outcome is printed once, with the result."""
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
    # What is kept; of many, the newest, and the others by their reason
    shown = plan.keeps if len(plan.keeps) <= KEEPS_SHOWN else plan.keeps[-KEEPS_SHOWN // 2 :]
    others = Counter(each.why for each in plan.keeps[: len(plan.keeps) - len(shown)])
    yield from (f"keeps       {count:,} more: {why}" for why, count in others.items())
    yield from (f"keeps       {_target(each)}" for each in shown)
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
