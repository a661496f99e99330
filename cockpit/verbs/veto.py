"""``cockpit veto``: stops what an agent plans, or is about to do, to a run (SPEC A)."""

from __future__ import annotations

import argparse
import asyncio

from cockpit.actions.core.action import UnansweredError
from cockpit.actions.core.agents import AgentGuard, Vetoed
from cockpit.model.clock import SystemClock
from cockpit.model.shared_facts import is_agent, typist
from cockpit.runtime.account import ask_operator, login_name
from cockpit.store.store import Store, StoreError, run_key
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    add_config,
    add_json,
    opened_store,
    print_document,
    put,
    run_file,
    run_named,
)

EXAMPLE = 'example: cockpit veto my-run --reason "not before the meeting"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``veto`` takes."""
    parser.description = (
        "Ends a run's standing order, at once and without words to type. Stops what an agent plans "
        "or waits to do to it, and keeps agents from doing the same there for an hour. What has "
        "begun goes on: `cockpit stop` is for that. "
        "Exit code: 0 vetoed, 4 there was nothing to veto."
    )
    parser.epilog = EXAMPLE
    parser.add_argument("run_name", metavar="RUN", help="the run's name in the run file")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; the agent is told")
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Veto; return the exit code."""
    file = run_file(args.config)
    run_named(file, args.run_name)
    operator = asyncio.run(ask_operator(file)).name
    if is_agent(operator):
        raise UsageError("a veto is for a person to give; [cockpit] operator is an agent")
    who = typist(operator, login_name())
    with opened_store(read_only=False) as store:
        if store is None:
            raise UsageError("the store cannot be used: a veto would not be seen")
        try:
            vetoed = asyncio.run(_veto(store, run_key(file.path, args.run_name), who, args.reason))
        except UnansweredError as error:
            raise UsageError(f"cannot tell whether it was vetoed, veto again: {error}") from error
        except StoreError as error:
            raise UsageError(f"not vetoed: {error}") from error
    if args.json:
        acts = [act.to_json() for act in vetoed.acts]
        order = {} if vetoed.order is None else {"standing": vetoed.order.to_json()}
        print_document({"schema": 1, "run": args.run_name, "vetoed": acts, **order})
    else:
        none = f"no agent is waiting to act on {args.run_name}, and it has no standing order"
        put("\n".join(vetoed.lines) or f"{none}, in this account's store")
    return OK if vetoed.lines else BLOCKED


async def _veto(store: Store, key: str, who: str, reason: str) -> Vetoed:
    return await AgentGuard(store, SystemClock()).veto(key, who, reason)
