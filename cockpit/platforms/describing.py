"""What a job's own system tells of it, made safe to show: ``cockpit describe`` and its key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.described import Description
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.table import Platforms
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

WITHIN: Final = 30.0
"""Seconds for the whole answer."""
MOST: Final = 4_000
"""Lines of an answer that are kept: an array of a thousand tasks has a record for each."""


async def describe(platforms: Platforms, run: RunSpec, job_id: str, clock: Clock) -> Description:
    """Ask a run's system about a job; changes nothing, never raises."""
    platform = platforms.of(run)
    system = "" if platform is None else platform.endpoint(run)
    found = Description(run=run.name, job=clean(job_id, 200), system=system, at=clock.now())
    if platform is None:
        return found.model_copy(update={"problem": f"{run.name} has no [run.job] in its run file"})
    try:
        async with asyncio.timeout(WITHIN):
            told = await platform.describe(run, job_id)
    except (CannotError, LostError) as error:
        return found.model_copy(update={"problem": scrub(clean(error, 400))})
    except TimeoutError:
        late = f"{system} did not answer within {WITHIN:.0f} s"
        return found.model_copy(update={"problem": late})
    lines = [line.plain for line in safe_lines(told.encode("utf-8", "replace"), limit=MOST + 1)]
    if len(lines) > MOST:
        lines[MOST:] = [f"… only the first {MOST:,} lines are shown"]
    text = scrub("\n".join(lines)).strip("\n")
    return found.model_copy(update={"text": text})


def outlined(value: object, depth: int = 0) -> Iterator[str]:
    """Yield a document's lines as ``kubectl describe`` writes them: keys, indented by depth."""
    left = "  " * depth
    items: Sequence[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        items = [(f"{key}:", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        items = [("-", each) for each in value]
    for name, each in items:
        if isinstance(each, Mapping | list | tuple) and each:
            yield f"{left}{name}"
            yield from outlined(each, depth + 1)
        elif each not in (None, "", {}, [], ()):
            first, *more = str(each).splitlines() or [""]
            yield f"{left}{name} {first}"
            yield from (f"{left}  {line}" for line in more)
