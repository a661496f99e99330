"""What a process or a recorded command runs, and in which folder (C-25).

A copy that was started by hand names nothing of a run where its script holds the output root
inside. Then only what it runs tells: ``platforms.alike`` compares it with the run's own commands.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, commands_in, in_folder, program_of
from cockpit.platforms.local.commanded import LAUNCHERS, SCRIPT, commands_of
from cockpit.platforms.local.tools import (
    MODULE_FLAG,
    MOST_KNOWN,
    WRAPPERS,
    inner,
    is_interpreter,
    is_shell,
    is_tool,
    is_wrapper,
    program,
)

MOST_TEXT: Final = 65_536
"""Bytes of a recorded script that are read."""
MOST_SCRIPTS: Final = 8
"""Scripts that call one another and are read for one run."""
_CARRIES: Final = WRAPPERS.union(LAUNCHERS)
_TASKS: Final = frozenset(("make", "just", "pixi", "pdm", "hatch", "rye"))
"""Programs that run what a file of theirs says under a name."""
Read = Callable[[str], str]
"""Returns the text of a script, empty where it cannot be read."""


def starts_of(words: Sequence[str], folder: str) -> tuple[Started, ...]:
    """Return what a command line runs in a folder, through shells, wrappers and launchers.

    A script is a whole path; a module and an installed program are only their names.
    """
    return _starts_of(tuple(words), folder)


@lru_cache(maxsize=MOST_KNOWN)
def _starts_of(argv: tuple[str, ...], folder: str) -> tuple[Started, ...]:
    words = inner(argv)
    if not words or is_tool(argv):
        return ()
    code = code_of(words)
    if code is not None:
        return tuple(commands_in(code, folder, ""))
    task = next((each for each in argv[: -len(words)] if posixpath.basename(each) in _TASKS), None)
    if task is not None and not (is_interpreter(words) or is_shell(words)):
        return (Started(task, tuple(words), folder=folder),)
    rest = _from_program(words)
    if not rest:
        return ()
    carries = posixpath.basename(rest[0]) in _CARRIES
    if carries or (is_wrapper(argv) and rest == words and SCRIPT.search(rest[0]) is None):
        # The options of these launchers have values of their own: the script is what ends so.
        name, args = program_of(rest[carries:])
        module = "-m" in rest[: len(rest) - len(args)]
    else:
        name, args = rest[0], tuple(rest[1:])
        module = rest != words and MODULE_FLAG.fullmatch(words[-len(rest) - 1]) is not None
    by_path = SCRIPT.search(name) or is_shell(words) or (rest == words and "/" in name)
    if not name:
        return ()
    if by_path and not module:
        return (Started(in_folder(folder, name), args, folder=folder),)
    return (Started(name if module else posixpath.basename(name), args, folder=folder),)


def _from_program(words: list[str]) -> list[str]:
    """Return the words of a command from the program on that an interpreter or a shell runs."""
    if is_shell(words):
        at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), None)
    elif is_interpreter(words):
        name = program(words)
        names = enumerate(posixpath.basename(word) for word in words)
        at = next((at for at, word in names if at and word == name), None)
    else:
        at = 0
    return [] if at is None else words[at:]


def code_of(words: Sequence[str]) -> str | None:
    """Return the code that a shell was given in its arguments (``-c``, ``-lc``)."""
    for at, word in enumerate(words[1:] if is_shell(words) else (), 1):
        if not word.startswith("-"):
            return None
        if word.endswith("c") and not word.startswith("--"):
            return next(iter(words[at + 1 : at + 2]), None)
    return None


def own_starts(run: RunSpec, folders: Sequence[str], read: Read | None) -> tuple[Started, ...]:
    """Return how the run's job starts: by its commands, and by the scripts that these call."""
    found: list[Started] = []
    for words in commands_of(run):
        for folder in folders or ("",):
            found += starts_of(words, folder)
    scripts = 0
    for each in found:  # it grows: a script may call another one
        if read is None or scripts == MOST_SCRIPTS or not each.program.startswith("/"):
            continue
        text = read(each.program)
        if text:
            scripts += 1
            found += [call for call in commands_in(text, each.folder, "") if call not in found]
    return tuple(found)


def hides_its_training(each: Started) -> bool:
    """Tell of a start that it only calls what trains: a shell script or a makefile."""
    name = posixpath.basename(each.program)
    plain = each.program.startswith("/") and "." not in name
    return plain or name.endswith((".sh", ".bash")) or name in _TASKS


def read_script(path: str) -> str:
    """Return the text of a shell script of this machine, empty for another file. Blocking."""
    try:
        info = os.stat(path)  # noqa: PTH116 - asked for each run at each look
    except OSError:
        return ""
    return _text(path, info.st_mtime_ns, info.st_size)


@lru_cache(maxsize=256)
def _text(path: str, changed: int, size: int) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_TEXT)
    except OSError:
        return ""
    shell = path.endswith((".sh", ".bash")) or (data.startswith(b"#!") and b"sh" in data[:40])
    return data.decode("utf-8", "replace") if shell and b"\0" not in data else ""
