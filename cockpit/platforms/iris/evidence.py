"""What a later reader needs of Iris jobs: the controller's own answers, secrets masked (SPEC A)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from cockpit.platforms.command import masked
from cockpit.platforms.iris.request import PROVENANCE
from cockpit.platforms.iris.rpc import Controller
from cockpit.platforms.iris.trees import belongs_to
from cockpit.platforms.iris.words import PENDING
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import MASK, scrub

MOST: Final = 8
ASKED: Final = (("GetJobStatus", "status"), ("ListTasks", "tasks"))
HARMLESS: Final = ("COCKPIT_", "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RESUME")
"""Variables whose values are kept; of all others the name alone is evidence."""


async def gather(controller: Controller, ids: Sequence[str]) -> dict[str, bytes]:
    """Return two files for each job, the newest below it too, and why any of them waits.

    Never raises: what could not be had is said in the file.
    """
    found: dict[str, bytes] = {}
    waits = False
    for number, job_id in enumerate([*ids, *await _below(controller, ids)][:MOST], 1):
        for method, name in ASKED:
            text = await _asked(controller, method, {"jobId": job_id})
            waits = waits or PENDING in text
            found[f"iris-job-{number}-{name}.json"] = text.encode("utf-8", "replace")
    if waits:
        text = await _asked(controller, "GetAutoscalerStatus", {})
        found["iris-autoscaler.json"] = text.encode("utf-8", "replace")
    return found


async def _asked(controller: Controller, method: str, body: Mapping[str, object]) -> str:
    try:
        return shown(await controller.call(method, body)) + "\n"
    except HttpError as error:
        return f"missing: {clean(str(error), 400)}\n"


async def _below(controller: Controller, ids: Sequence[str]) -> list[str]:
    """Return the jobs that these have submitted, newest first; none where that has no answer."""
    found: list[str] = []
    for job_id in ids[:MOST]:
        with suppress(HttpError):
            listed = await controller.jobs(f"{job_id}/", pages=1)
            found += [job.id for job in listed if belongs_to(job.id, job_id)]
    return [each for each in found if each not in ids]


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
