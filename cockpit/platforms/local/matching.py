"""The process that ``[run.job] match`` means, here and on a host (SPEC J).

A pattern is searched in whole command lines, as ``pgrep -f`` does. Tools, cockpits and shells that
only name it are not meant; of several the one that writes to the run is, else the one that runs
what matches, else the newest. Blocking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.model.run import RunSpec
from cockpit.platforms.local.belonging import Sure, belongs
from cockpit.platforms.local.census import Process, lineage_up
from cockpit.platforms.local.commanded import names_of
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.recorded import Identity, Sight, Who
from cockpit.platforms.local.tools import is_cockpit, is_shell, is_supervisor, is_tool
from cockpit.text.safe import clean

_CLASSES: Final = {
    "[:space:]": r"\s", "[:digit:]": r"\d", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9",
    "[:lower:]": "a-z", "[:upper:]": "A-Z", "[:punct:]": r"!-/:-@\[-`{-~",
}  # fmt: skip
"""Of the patterns of ``pgrep``, what Python spells in another way."""


class Match(NamedTuple):
    """The process that a pattern means, as a pid file would name it; ``absent``: none does."""

    note: PidNote | None = None
    who: Identity = Identity(Who.GONE)
    absent: str = ""


def by_match(run: RunSpec, pattern: str, sight: Sight, now: float, where: str = "here") -> Match:
    """Return the process of ours whose command line matches; ``now`` is by the machine's clock."""
    try:
        compiled = _compiled(pattern)
    except re.error as error:
        text = f"job.match is not a pattern: {clean(str(error), 120)}"
        return Match(who=Identity(Who.UNSURE, text))
    fits = [one for one in sight.processes.values() if _fits(one, compiled, sight)]
    found = [one for one in fits if not is_shell(one.argv) or _runs(one, compiled, fits, sight)]
    tops = topmost(found, sight)
    if not tops:
        return Match(absent=f"nothing {where} matches {clean(pattern, 80)}")
    first = min(
        tops,
        key=lambda one: (
            not writes(run, one, sight),
            not any(compiled.search(name) for name in names_of(one.argv)),
            -one.ticks,
            -one.pid,
        ),
    )
    return Match(noted(first, sight, now), Identity(Who.SAME))


def _compiled(pattern: str) -> re.Pattern[str]:
    for posix, python in _CLASSES.items():
        pattern = pattern.replace(posix, python)
    return re.compile(pattern)


def _fits(process: Process, pattern: re.Pattern[str], sight: Sight) -> bool:
    """Tell whether a process may be a job of ours, and its command line matches."""
    if process.pid in sight.own or sight.uid not in (0, process.uid):
        return False
    if pattern.search(" ".join(process.argv)) is None:
        return False
    others = is_tool(process.argv) or is_cockpit(process.argv) or is_supervisor(process)
    return not others


def _runs(shell: Process, pattern: re.Pattern[str], fits: Sequence[Process], sight: Sight) -> bool:
    """Tell whether a shell runs what matches, and does not only name it."""
    if "-c" not in shell.argv and any(pattern.search(name) for name in names_of(shell.argv)):
        return True
    below = {one.pid for one in sight.below(shell.pid)[1:]}
    return any(one.pid in below and not is_shell(one.argv) for one in fits)


def writes(run: RunSpec, process: Process, sight: Sight) -> bool:
    """Tell whether a process, or one that it has started, certainly writes to the run."""
    marks = sight.marks(run, None)
    found = (belongs(marks, sight.candidate(one), sight.files) for one in sight.below(process.pid))
    return any(what is not None and what.sure is Sure.YES for what in found)


def noted(process: Process, sight: Sight, now: float) -> PidNote:
    """Return a living process as a pid file would name it."""
    since = sight.started_at(process)
    return PidNote(process.pid, since, None, since or now, ticks=process.ticks)


def topmost(found: Sequence[Process], sight: Sight) -> list[Process]:
    """Return those among them that no other of them has started."""
    pids = {one.pid for one in found}
    return [
        one
        for one in found
        if not any(each.pid in pids for each in lineage_up(sight.processes, one.ppid))
    ]
