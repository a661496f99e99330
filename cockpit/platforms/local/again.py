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
from cockpit.platforms.local.census import Census, Process, lineage_up
from cockpit.platforms.local.tools import inner, is_cockpit, is_shell, is_supervisor, program
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST: Final = 65_536
"""Bytes of a script that are looked at."""
_LOOP = re.compile(r"(?:^|[\s;&|({])(?:while|until|for)\s.*?\bdone\b", re.DOTALL)
_COMMENT = re.compile(r"(?m)(?:^|\s)#.*$")
_ANY_COMMAND = re.compile(r"\$[@*]|\$\{[@*]\}")


def starts_again(processes: Census, pid: int) -> tuple[LiveJob, ...]:
    """Return the loop that starts the job anew once it is over, if a shell above it runs one."""
    main = processes.get(pid)
    below = main
    for parent in lineage_up(processes, main.ppid) if main is not None else ():
        if below is None or is_supervisor(parent) or is_cockpit(parent.argv):
            break
        if is_shell(parent.argv) and _loops(parent, below):
            why = f"run again by the loop of pid {parent.pid}: {_short(parent)}"
            return (LiveJob(id=f"pid:{parent.pid}", name=_short(below), why=why),)
        below = parent
    return ()


def _short(process: Process) -> str:
    return clean(scrub(" ".join(process.argv)), 80)


def _loops(shell: Process, child: Process) -> bool:
    """Tell whether a shell's text has a loop in which its child's command stands."""
    text = _COMMENT.sub("", _text(shell))
    words = inner(child.argv)
    name = re.escape(program(words or [""]).rpartition("/")[2])
    named = re.compile(rf"(?<![\w.-]){name}(?![\w.-])") if name else _ANY_COMMAND
    loops = [found[0] for found in _LOOP.finditer(text)]
    return any(named.search(loop) or _ANY_COMMAND.search(loop) for loop in loops)


def _text(shell: Process) -> str:
    """Return what a shell was given to run; nothing where that cannot be read."""
    rest = list(shell.argv[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option[1:2] != "-" and "c" in option:
            return rest[0] if rest else ""
    if not rest:
        return ""
    path = Path(posixpath.join(shell.cwd or "/", rest[0]))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:  # noqa: PTH123 - of a descriptor
            return file.read(MOST).decode("utf-8", "replace") if path.is_file() else ""
    except OSError:
        return ""
