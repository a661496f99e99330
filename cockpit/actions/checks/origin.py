"""``initialize_from``: the checkpoint of another run that a new one begins with (SPEC A-1)."""

from __future__ import annotations

import json
import re
from typing import Final

from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.sources.regular import is_folder, open_regular

ID: Final = "initialize-from"
BIGGEST: Final = 1 << 20
_STEP: Final = re.compile(r"(?:^|\D)(\d{1,12})$")


def initialize_from(run: RunSpec) -> list[Check]:
    """Check the step in its name and its ``metadata.json``; the step inside wins. Blocking."""
    source = run.checkpoints.initialize_from if run.checkpoints is not None else None
    if source is None:
        return [passed(ID, "initialize_from: none", Basis.RECORDED)]
    named, where = named_step(source.path), str(source)
    if not source.here:
        step = "no step in its name" if named is None else f"step {say.step(named)} by its name"
        text = f"initialize_from {source}: {step}; its metadata.json is not looked at from here"
        return [warned(ID, text, Basis.INFERRED, where)]
    if not is_folder(where):
        return [blocked(ID, f"initialize_from {source} is no folder", value=where)]
    return [_inside(where, named)]


def _inside(source: str, named: int | None) -> Check:
    step = marked_step(source)
    if isinstance(step, str):
        text = f"initialize_from {source} is not complete: {step}"
        return blocked(ID, text, value=source)
    text = f"initialize_from step {say.step(step)}, complete: {source}"
    if named is not None and named != step:
        return warned(ID, f"{text}; its name says {say.step(named)}", value=source)
    return passed(ID, text, value=source)


def marked_step(folder: str) -> int | str:
    """Return the step that ``metadata.json`` tells, or why there is none; blocking."""
    try:
        marker = f"{folder.rstrip('/')}/metadata.json"
        with open_regular(marker) as (number, _), open(number, "rb", closefd=False) as file:
            told = json.loads(file.read(BIGGEST))
        step = told["step"]
    except OSError as error:
        return f"metadata.json: {(error.strerror or 'cannot be read').lower()}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "metadata.json tells no step"
    if isinstance(step, bool) or not isinstance(step, int):
        return "metadata.json tells no whole step"
    return step


def named_step(path: str) -> int | None:
    """Return the step in a checkpoint's name (``step-80000``, ``80000/``)."""
    match = _STEP.search(path.rstrip("/").rpartition("/")[2])
    return None if match is None else int(match[1])
