"""What starts a local job again by itself: a person's own loop above it (SPEC J).

``while true; do python train.py; done`` outlives whatever is stopped below it. Only a loop in
which the job's own program stands is one, so that no other loop of a script is taken for it.
Blocking.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Final

from cockpit.model.jobs import LiveJob
from cockpit.platforms.local.census import Census, Children, Process, lineage_up
from cockpit.platforms.local.tools import (
    inner,
    is_cockpit,
    is_helper,
    is_shell,
    is_supervisor,
    is_tool,
    is_wrapper,
    program,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST: Final = 65_536
"""Bytes of a script that are looked at."""
_LOOP = re.compile(r"(?:^|[\s;&|({])(?:while|until|for)\s.*?\bdone\b", re.DOTALL)
_COMMENT = re.compile(r"(?m)(?:^|\s)#.*$")
_ANY_COMMAND = re.compile(r"\$[@*]|\$\{[@*]\}")


Known = dict[tuple[int, int], tuple[LiveJob, ...]]
"""What was found from a process and its child on upwards: jobs beside one another have that in
common."""


def starts_again(
    processes: Census,
    pid: int,
    started: Children,
    *,
    here: bool = True,
    known: Known | None = None,
) -> tuple[LiveJob, ...]:
    """Return the loop that starts the job anew once it is over, if a shell above it runs one.

    ``started`` tells whom each process has started, ``known`` what was found of these processes.
    Not ``here``: the processes are another machine's, whose scripts are not read; ``sh -c`` tells.
    """
    known = {} if known is None else known
    below = processes.get(pid)
    if below is None:
        return ()
    passed: list[tuple[int, int]] = []
    found: tuple[LiveJob, ...] = ()
    for parent in lineage_up(processes, below.ppid):
        at = (parent.pid, below.pid)
        if at in known:
            found = known[at]
            break
        passed.append(at)
        loop = _loop_of(processes, parent, below, started, here)
        if loop is not None:
            found = loop
            break
        below = parent
    known.update(dict.fromkeys(passed, found))
    return found


def _loop_of(
    processes: Census, parent: Process, below: Process, started: Children, here: bool
) -> tuple[LiveJob, ...] | None:
    """Return the loop that a parent runs; empty: none above it matters; ``None``: look there."""
    if is_supervisor(parent) or is_cockpit(parent.argv):
        return ()
    if _runs_others(processes, parent, below, started):
        return ()  # a session's manager, a CI runner, a test: over or not, it goes on without it
    if not (is_shell(parent.argv) and _loops(parent, below, here)):
        return None
    why = f"run again by the loop of pid {parent.pid}: {_short(parent)}"
    ends = f"it is a shell, and may do more than this: end it yourself (kill {parent.pid})"
    return (LiveJob(id=f"pid:{parent.pid}", name=_short(below), why=why, beyond=ends),)


def _runs_others(processes: Census, parent: Process, child: Process, started: Children) -> bool:
    """Tell whether a program runs more than this job; a shell or a wrapper waits for it."""
    if is_shell(parent.argv) or is_wrapper(parent.argv):
        return False
    others = (processes[pid] for pid in started.get(parent.pid, ()) if pid != child.pid)
    return not all(is_tool(one.argv) or is_helper(one.argv) for one in others)


def _short(process: Process) -> str:
    return clean(scrub(" ".join(process.argv)), 80)


def _loops(shell: Process, child: Process, here: bool) -> bool:
    """Tell whether a shell's text has a loop in which its child's command stands."""
    text, names = _COMMENT.sub("", _text(shell, here)), _names(child)
    loops = [found[0] for found in _LOOP.finditer(text)]
    return any(
        _ANY_COMMAND.search(loop) or (names and all(_names_it(name, loop) for name in names))
        for loop in loops
    )


def _names(child: Process) -> set[str]:
    """Return the words by which a loop would name a command: of a script its own name alone.

    A wrapper counts beside what it runs: a target "test" alone stands in many a loop.
    """
    words = inner(child.argv)
    if is_shell(words) and "-c" not in words and len(words) > 1:
        told = next((word for word in words[1:] if not word.startswith("-")), words[0])
    else:
        told = program(words or [""])
    names = {told, child.argv[0]} if is_wrapper(child.argv) else {told}
    return {name.rpartition("/")[2] for name in names} - {""}


def _names_it(name: str, loop: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", loop) is not None


def _text(shell: Process, here: bool) -> str:
    """Return what a shell was given to run; nothing where that cannot be read."""
    rest = list(shell.argv[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option[1:2] != "-" and "c" in option:
            return rest[0] if rest else ""
    if not rest or not here:
        return ""
    path = Path(posixpath.join(shell.cwd or "/", rest[0]))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:  # noqa: PTH123 - of a descriptor
            return file.read(MOST).decode("utf-8", "replace") if path.is_file() else ""
    except OSError:
        return ""
