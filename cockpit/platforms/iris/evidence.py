"""What a later reader needs of Iris jobs: the controller's own answers, secrets masked (SPEC A)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from cockpit.platforms.command import masked
from cockpit.platforms.iris.request import PROVENANCE
from cockpit.platforms.iris.rpc import Controller
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import MASK, scrub

MOST: Final = 8
ASKED: Final = (("GetJobStatus", "status"), ("ListTasks", "tasks"))
HARMLESS: Final = ("COCKPIT_", "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RESUME")
"""Variables whose values are kept; of all others the name alone is evidence."""


async def gather(controller: Controller, ids: Sequence[str]) -> dict[str, bytes]:
    """Return two files for each job; never raises: what could not be had is said in the file."""
    found: dict[str, bytes] = {}
    for number, job_id in enumerate(ids[:MOST], 1):
        for method, name in ASKED:
            try:
                text = shown(await controller.call(method, {"jobId": job_id}))
            except HttpError as error:
                text = f"not had: {clean(str(error), 400)}"
            found[f"iris-job-{number}-{name}.json"] = f"{text}\n".encode("utf-8", "replace")
    return found


def shown(document: Mapping[str, Any]) -> str:
    """Return an answer as text without secrets.

    The controller masks variables by their names, but not the command line that the client notes
    beside them: that is read, and masked word by word.
    """
    return scrub(json.dumps(_safe(document), indent=1, ensure_ascii=False))


def _safe(value: object, depth: int = 0) -> object:
    if depth > 40:
        return MASK
    if isinstance(value, dict):
        return {clean(name, 200): _named(name, each, depth) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            return list(masked(value))
        return [_safe(each, depth + 1) for each in value]
    return scrub(value) if isinstance(value, str) else value


def _named(name: str, value: object, depth: int) -> object:
    if name == PROVENANCE and isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return _safe(json.loads(value), depth + 1)
        return MASK
    if name == "envVars" and isinstance(value, dict):
        return {
            clean(key, 200): _named(key, each, depth + 1)
            if key == PROVENANCE or key.startswith(HARMLESS)
            else MASK
            for key, each in value.items()
        }
    return _safe(value, depth + 1)
