"""``cockpit veto``: stops what an agent plans, or is about to do, to a run (SPEC A)."""

from __future__ import annotations

import argparse
import asyncio

from cockpit.actions.core.action import UnansweredError
from cockpit.actions.core.agents import AgentGuard, Vetoed
from cockpit.actions.core.wiring import build_service
from cockpit.model.clock import SystemClock
from cockpit.model.run import CockpitFile
from cockpit.model.shared_facts import is_agent, typist
from cockpit.runtime.account import ask_operator, login_name
from cockpit.store.store import Store, StoreError, run_key
from cockpit.verbs.common import (
    BLOCKED,
    OK,
    UsageError,
    helps,
    opened_store,
    print_document,
    put,
    run_file,
    run_named,
)
from cockpit.watch.engine import Engine

HELP = """
Ends a run's standing order, at once and without words to type, and tells other machines that theirs
are over too. Stops what an agent plans or waits to do to it, and keeps agents from doing the same
there for an hour. What has begun goes on: `cockpit stop` is for that. Exit code: 0 vetoed, 4 there
was nothing to veto.

run_name
--reason TEXT: why; the agent is told
--config --json

example: cockpit veto my-run --reason "not before the meeting"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``veto`` takes."""
    helps(parser, HELP, reason={"default": ""})


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
        if not args.json and vetoed.lines:
            put("\n".join(vetoed.lines))
        ended = vetoed.order is not None
        elsewhere = asyncio.run(_elsewhere(file, store, args.run_name, operator, ended=ended))
    if args.json:
        acts = [act.to_json() for act in vetoed.acts]
        order = {} if vetoed.order is None else {"standing": vetoed.order.to_json()}
        told = {} if elsewhere is None else {"elsewhere": elsewhere}
        print_document({"schema": 1, "run": args.run_name, "vetoed": acts, **order, **told})
    elif elsewhere is not None:
        put(elsewhere)
    elif not vetoed.lines:
        none = f"no agent is waiting to act on {args.run_name}, and it has no standing order"
        put(f"{none}, in this account's store")
    return OK if vetoed.lines or elsewhere is not None else BLOCKED


async def _veto(store: Store, key: str, who: str, reason: str) -> Vetoed:
    return await AgentGuard(store, SystemClock()).veto(key, who, reason)


async def _elsewhere(
    file: CockpitFile, store: Store, run: str, operator: str, *, ended: bool
) -> str | None:
    """Tell other machines that a standing order is over; return how that went."""
    clock = SystemClock()
    engine = Engine(file, store=store, clock=clock, only=[run])
    service = build_service(lambda: file, engine, store, clock, operator=operator)
    return await service.end_elsewhere(run, operator, ended=ended)
