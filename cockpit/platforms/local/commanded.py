"""Whether a process runs what the run's own command runs: its script, or the very command. Pure.

Of a process that names the run, this decides whether it trains it (SPEC C-25): the script that is
recorded does, another one may only evaluate, convert or copy.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from cockpit.model.run import Command, RunSpec
from cockpit.platforms.local.tools import (
    MOST_KNOWN,
    inner,
    is_interpreter,
    is_shell,
    is_tool,
    is_wrapper,
    program,
)

SCRIPT: Final = re.compile(r"[\w.-]+\.(?:py|sh|bash|jl|R|lua|pl)$")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+$")
LAUNCHERS: Final = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "accelerate",
    "deepspeed.launcher.runner", "deepspeed.launcher.launch", "torch_xla.distributed.xla_dist",
)  # fmt: skip
"""Modules that start the script which their arguments name."""


def commands_of(run: RunSpec) -> tuple[tuple[str, ...], ...]:
    """Return the words of the commands that the run file records."""
    words = (_split(command) for command in (run.resubmit, run.launch) if command is not None)
    return tuple(dict.fromkeys(filter(None, words)))


def _split(command: Command) -> tuple[str, ...]:
    if not isinstance(command, str):
        return tuple(command)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return tuple(command.split())


def scripts_of(commands: Sequence[Sequence[str]]) -> frozenset[str]:
    """Return the names of what these commands run; none where they only use a tool."""
    return frozenset(name for words in commands if not is_tool(words) for name in names_of(words))


def runs_script(argv: Sequence[str], scripts: frozenset[str]) -> bool:
    """Tell whether a command line runs one of these scripts, and does not only name it."""
    return not scripts.isdisjoint(names_of(argv))


def names_of(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the names of what a command line runs, through shells, wrappers and launchers."""
    return _found(tuple(argv))


@lru_cache(maxsize=MOST_KNOWN)
def _found(argv: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, _running(argv)))


def _running(argv: tuple[str, ...]) -> Iterator[str]:
    words = inner(argv)
    if not words:
        return
    name = program(words)
    if is_shell(words):
        code = next((at for at, word in enumerate(words) if _is_code(word)), None)
        if code is None:
            yield next((posixpath.basename(w) for w in words[1:] if not w.startswith("-")), "")
        else:
            yield from _scripts(" ".join(words[code + 1 :][:1]).replace(";", " ").split())
    elif name in LAUNCHERS or (is_wrapper(argv[:1]) and not is_interpreter(words)):
        yield name
        yield from _scripts(argv)
    elif not is_interpreter([name]):
        yield name


def _is_code(word: str) -> bool:
    return re.fullmatch(r"-[a-z]*c", word) is not None


def _scripts(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        name = posixpath.basename(word.strip("'\""))
        if SCRIPT.fullmatch(name):
            yield name


def runs_command(argv: Sequence[str], commands: Sequence[Sequence[str]]) -> bool:
    """Tell whether a command line is a recorded one, from its script on, placeholders apart."""
    return any(_same(argv, words) for words in commands)


def _same(argv: Sequence[str], words: Sequence[str]) -> bool:
    names = set(names_of(words))
    mine, theirs = (_from_script(each, names) for each in (argv, words))
    if not theirs or len(mine) != len(theirs):
        return False
    return all(
        one == other or "{" in other or "$" in other
        for one, other in zip(mine, theirs, strict=True)
    )


def _from_script(words: Sequence[str], names: set[str]) -> list[str]:
    """Return the words of a command line from the script on that it runs, by its name."""
    for at, word in enumerate(words):
        if posixpath.basename(word) in names:
            return [posixpath.basename(word), *words[at + 1 :]]
    return []


def named_scripts(run: RunSpec) -> set[str]:
    """Return the names of all scripts and modules that the run's commands name anywhere."""
    names = (posixpath.basename(word) for words in commands_of(run) for word in words)
    return {name for name in names if SCRIPT.search(name) or _MODULE.fullmatch(name)}
