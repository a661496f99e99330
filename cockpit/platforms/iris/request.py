"""What a job was submitted with: the code in its bundle, and which run it belongs to (SPEC J)."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Final, NamedTuple

from cockpit.model.jobs import Bundle
from cockpit.model.lineage import related, tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.iris.answers import Request
from cockpit.platforms.local.naming import Use, arguments, names_the_tracker_run, use_of
from cockpit.text.safe import clean

PROVENANCE: Final = "MARIN_PROVENANCE"
LAUNCH_ID: Final = "COCKPIT_LAUNCH_ID"
LINEAGE: Final = "COCKPIT_LINEAGE"
CLOSES: Final = "COCKPIT_CLOSES"
"""In the environment of a job that never runs: it only holds the name of a launch that is over."""
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


class Mark(NamedTuple):
    """Why a job belongs to a run, and whether that is certain."""

    why: str
    sure: bool


def bundle_of(request: Request) -> Bundle | None:
    """Return which code a job runs, ``None`` where its request tells nothing of it."""
    found = _provenance(request)
    commit = found.get("base_commit")
    dirty, branch, tree = found.get("dirty"), found.get("branch"), found.get("tree_hash")
    bundle = Bundle(
        id=request.bundle or None,
        commit=commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None,
        dirty=dirty if isinstance(dirty, bool) and commit else None,
        branch=clean(branch, 200) if isinstance(branch, str) and branch else None,
        tree=clean(tree, 80) if isinstance(tree, str) and tree else None,
    )
    return bundle if bundle != Bundle() else None


def _provenance(request: Request) -> dict[str, object]:
    """Return what the client noted of its checkout; the command in it holds secrets in clear."""
    try:
        found = json.loads(request.variables.get(PROVENANCE, ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_closing(request: Request) -> bool:
    """Tell whether a job is one that only closes its name."""
    return CLOSES in request.variables


def words_of(run: RunSpec) -> tuple[str, ...]:
    """Return what a job's words must hold somewhere to name the run at all: cheap to look for."""
    root, wandb = run.output_root, run.wandb
    told = (root and root.normal().seen_from(run.job), wandb and wandb.run_id)
    return (*(word for word in told if word), *filter(None, tag_of(run).split(",")))


def mark_of(run: RunSpec, request: Request) -> Mark | None:
    """Return why what a job was submitted with makes it a job of the run, the surest first."""
    told = [*_in_variables(run, request), *_in_arguments(run, request)]
    return next((mark for mark in told if mark.sure), next(iter(told), None))


def _in_variables(run: RunSpec, request: Request) -> list[Mark]:
    variables, found = request.variables, []
    if related(tag_of(run), variables.get(LINEAGE, "")):
        launch_id = clean(variables.get(LAUNCH_ID, "no launch id"), 80)
        found.append(Mark(f"launch {launch_id} by its environment", sure=True))
    wandb_id = _wandb_id(run, request)
    if wandb_id is not None and variables.get("WANDB_RUN_ID") == wandb_id:
        found.append(Mark("the W&B id in its environment", sure=True))
    for name, value in variables.items():
        if use_of(name) is Use.WRITES and _is_within(run, value):
            found.append(Mark(f"the output root in its environment ({clean(name, 40)})", sure=True))
    return found


def _in_arguments(run: RunSpec, request: Request) -> list[Mark]:
    """Return why its arguments make it a job; only what is written to is certain."""
    found, wandb_id = [], _wandb_id(run, request)
    for key, value in arguments(request.argv):
        use, key_shown = use_of(key), f" ({clean(key, 40)})" if key else ""
        if use is not Use.READS and _is_within(run, value):
            text = f"the output root in its arguments{key_shown}"
            found.append(Mark(text, sure=use is Use.WRITES))
        elif wandb_id == value and names_the_tracker_run(key) is not False:
            text = f"the W&B id in its arguments{key_shown}"
            found.append(Mark(text, sure=names_the_tracker_run(key) is True))
    return found


def _wandb_id(run: RunSpec, request: Request) -> str | None:
    """Return the run's W&B id, unless the job's environment names another project."""
    wandb = run.wandb
    if wandb is None or not wandb.run_id:
        return None
    told = ((wandb.project, "WANDB_PROJECT"), (wandb.entity, "WANDB_ENTITY"))
    variables = request.variables
    same = all(mine is None or variables.get(name, mine) == mine for mine, name in told)
    return wandb.run_id if same else None


def _is_within(run: RunSpec, value: str) -> bool:
    """Tell whether a value is the output root or lies below it, compared part by part."""
    root = run.output_root
    if root is None or not value:
        return False
    own = root.normal().seen_from(run.job)
    its = value.rstrip("/") if "://" in value else posixpath.normpath(value)
    return its == own or its.startswith(own.rstrip("/") + "/")
