"""``cockpit describe``: what a job's own system tells of it, as that system's tools would."""

from __future__ import annotations

import argparse
import asyncio

from cockpit.model.clock import SystemClock
from cockpit.model.described import Description
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.wording import utc_minute
from cockpit.platforms.table import Platforms, describe
from cockpit.verbs.check import checked
from cockpit.verbs.common import BLIND, OK, helps, print_document, put, run_file, run_named, say

HELP = """
Asks the run's own system about its job and prints what it says, secrets masked: Slurm's `scontrol
show job`, expected start, priority, accounting, drained nodes and the tasks of an array, each with
the step and loss of its own log; a Kubernetes object with its pods and events; a Ray or Iris job; a
process with its memory, files and machine. Only looks. Exit code: 0 described, 3 no answer.

run_name
--job ID: another job of the same system
--config --json

example: cockpit describe my-run --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``describe`` takes."""
    helps(parser, HELP)


def run(args: argparse.Namespace) -> int:
    """Ask and print; return 0, or 3 where the system gave no answer."""
    file = run_file(args.config)
    spec = run_named(file, args.run_name)
    found = asyncio.run(_described(file, spec, args.job))
    if args.json:
        print_document({"schema": 1, **found.to_json()})
    elif found.problem:
        say(found.problem)
    else:
        put(f"{found.system} · job {found.job or 'unknown'} · {utc_minute(found.at)}\n{found.text}")
    return BLIND if found.problem else OK


async def _described(file: CockpitFile, spec: RunSpec, job_id: str | None) -> Description:
    """Ask about a job: the one that is named, else the run's current one."""
    clock = SystemClock()
    if job_id is None and spec.job is not None:
        job = (await checked(file, [spec.name], clock)).runs[0].facets.job.value
        job_id = spec.job.id if job is None else job.id
    return await describe(Platforms(clock), spec, job_id or "", clock)
