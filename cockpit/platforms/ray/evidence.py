"""What a later reader needs of jobs on Ray: the head's own answers, secrets masked (SPEC A)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.head import Head
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import MASK, scrub

MOST: Final = 8
LINES: Final = 1000
"""Lines of the end of a log that are kept."""
HARMLESS: Final = ("COCKPIT_", "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RESUME")
"""Variables whose values are kept; of all others the name alone is evidence."""


async def gather(head: Head, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the jobs, the ends of their logs and the cluster's state, by file name.

    Never raises: what could not be had is said in the file.
    """
    found: dict[str, bytes] = {}
    for number, job_id in enumerate(ids[:MOST], 1):
        job: RayJob | None = None
        try:
            job, document = await head.job(job_id)
            text = shown(document)
        except HttpError as error:
            text = _not_had(error)
        found[f"ray-job-{number}.json"] = _file(text)
        if job is not None and job.node is not None and job.log_name is not None:
            found[f"ray-log-{number}.txt"] = _file(await _log(head, job.node, job.log_name))
    found["ray-cluster.json"] = _file(await _cluster(head))
    return found


async def _log(head: Head, node: str, name: str) -> str:
    try:
        return scrub((await head.tail(node, name, LINES)).decode("utf-8", "replace"))
    except HttpError as error:
        return _not_had(error)


async def _cluster(head: Head) -> str:
    try:
        return scrub(json.dumps(await head.cluster(), indent=1, ensure_ascii=False))
    except HttpError as error:
        return _not_had(error)


def _not_had(error: HttpError) -> str:
    return f"missing: {clean(str(error), 400)}"


def _file(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "replace")


def shown(document: object) -> str:
    """Return a job's document as text, without the secrets of its runtime environment."""
    return scrub(json.dumps(_masked(document), indent=1, ensure_ascii=False))


def _masked(document: object) -> object:
    if not isinstance(document, dict):
        return document
    safe: dict[str, Any] = dict(document)
    env = safe.get("runtime_env")
    if isinstance(env, dict) and isinstance(env.get("env_vars"), dict):
        variables = {
            name: value if str(name).startswith(HARMLESS) else MASK
            for name, value in env["env_vars"].items()
        }
        safe["runtime_env"] = {**env, "env_vars": variables}
    return {name: _scrubbed(value) for name, value in safe.items()}


def _scrubbed(value: object) -> object:
    """Return text scrubbed line by line, before JSON writes its line breaks out."""
    return scrub(value) if isinstance(value, str) else value
