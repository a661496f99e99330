"""Searching a log for a person's regular expression, in a program that can be killed."""

from __future__ import annotations

import json
from typing import Final

from cockpit.model.logtext import Hit, Matches
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import run_command
from cockpit.sources.logs import counting, scanning
from cockpit.sources.logs.ranged import Ranged

STEP: Final = 1.0
"""Seconds that one program searches: then it tells how far, and the next one goes on."""
PATIENCE: Final = 6.0
"""Seconds after which an expression is given up: one chunk alone takes it that long."""
TOO_SLOW: Final = "this expression is too slow on these lines; use a simpler one or plain words"

Words = list[str | int | float | bool]


async def find_expression(log: Ranged, pattern: str, offset: int, back: bool) -> Hit | None:
    """Find the next line that matches, as ``LogFile.search`` does, without its text.

    Raises ``ValueError`` for a bad expression, and for one that takes too long.
    """
    scanning.Matcher.of(pattern, True, True)
    words: Words = [str(log.place), pattern, offset, back, STEP]
    found = json.loads(await _asked(scanning.__name__, words))
    if found is None:
        return None
    end = found["end"]
    return Hit(end is not None, found["at"], found["at"] if end is None else end)


async def count_expression(log: Ranged, pattern: str, offset: int) -> Matches:
    """Return where matching lines start, as ``counting.count_from`` does; raises ``ValueError``."""
    scanning.Matcher.of(pattern, True, True)
    words: Words = [str(log.place), pattern, offset, STEP]
    offsets, begin, reached, size = json.loads(await _asked(counting.__name__, words))
    return Matches(tuple(offsets), begin, reached, size)


async def _asked(module: str, words: Words) -> str:
    """Return what a program of ours answers to these words, in JSON; raises ``ValueError``."""
    done = await run_command(own_python(module), deadline=PATIENCE, stdin=json.dumps(words))
    if done.timed_out:
        raise ValueError(TOO_SLOW)
    if not done.ok:
        raise ValueError("the log could not be searched")
    return done.text
