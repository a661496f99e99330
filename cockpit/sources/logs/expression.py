"""Searching a log for a person's regular expression, in a program that can be killed."""

from __future__ import annotations

import json
from typing import Final

from cockpit.model.logtext import Hit
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.sources.logs import scanning
from cockpit.sources.logs.ranged import Ranged

STEP: Final = 1.0
"""Seconds that one program searches: then it tells how far, and the next one goes on."""
PATIENCE: Final = 6.0
"""Seconds after which an expression is given up: one chunk alone takes it that long."""
TOO_SLOW: Final = "this expression takes too long on these lines: simpler, or plain words"


async def find_expression(log: Ranged, pattern: str, offset: int, back: bool) -> Hit | None:
    """Find the next line that matches, as ``LogFile.search`` does, without its text.

    Raises ``ValueError`` for a bad expression, and for one that takes too long.
    """
    scanning.Matcher.of(pattern, True, True)
    done = await run_command(
        own_python(scanning.__name__),
        deadline=PATIENCE,
        stdin=json.dumps([str(log.place), pattern, offset, back, STEP]),
    )
    if done.timed_out:
        raise ValueError(TOO_SLOW)
    if not done.ok:
        raise ValueError("the log could not be searched")
    found = json.loads(done.text)
    if found is None:
        return None
    end = found["end"]
    return Hit(end is not None, found["at"], found["at"] if end is None else end)
