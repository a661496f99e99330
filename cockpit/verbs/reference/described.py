"""A verb as its own parser tells it: the one source of documents, manual page and completions."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from cockpit.actions.core.table import TABLE


class Takes(StrEnum):
    """What an argument is given; the first four are completed by what is there."""

    RUN = "run"
    STEP = "step"
    FILE = "file"
    RUN_OR_FILE = "run_or_file"
    WORD = "word"
    TEXT = "text"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Argument:
    """One argument; ``names`` is empty where it is given by its place."""

    names: tuple[str, ...]
    metavar: str
    about: str
    takes: Takes
    words: tuple[str, ...] = ()
    many: bool = False
    needed: bool = False

    @property
    def usage(self) -> str:
        """Return it as a synopsis writes it: ``RUN``, ``[RUN …]``, ``[--to TO]``."""
        value = "|".join(self.words) or self.metavar
        value = f"{value} …" if self.many else value
        text = " ".join(filter(None, (*self.names[:1], value)))
        return text if self.needed else f"[{text}]"


@dataclass(frozen=True)
class VerbPage:
    """One verb: ``example`` is a whole call of it, ``about`` a few sentences."""

    name: str
    summary: str
    about: str
    example: str
    arguments: tuple[Argument, ...]

    @property
    def places(self) -> tuple[Argument, ...]:
        """Return what is given by its place."""
        return tuple(each for each in self.arguments if not each.names)

    @property
    def options(self) -> tuple[Argument, ...]:
        """Return what is given by name."""
        return tuple(each for each in self.arguments if each.names)

    @property
    def synopsis(self) -> str:
        """Return the call in one line."""
        return " ".join(("cockpit", self.name, *(each.usage for each in self.arguments)))


class VerbRow(Protocol):
    """A row of the table of verbs."""

    @property
    def name(self) -> str:
        """Return the verb."""

    @property
    def module(self) -> str:
        """Return where it is."""

    @property
    def summary(self) -> str:
        """Return what it does, in a few words."""

    @property
    def guarded(self) -> bool:
        """Return whether it is an action."""


_FILES: Final = frozenset(("FILE", "PATH", "D", "OUTPUT_ROOT", "WHAT"))
_ANSWERS: Final = {
    ("relaunch", "--save-first"): ("yes",),
    ("rollback", "--move"): ("yes", "no"),
    ("stop", "--save-first"): ("yes",),
    ("stop", "--successors"): ("yes",),
    ("stop", "--only"): ("held",),
    ("ack", "--until"): ("15m", "1h", "8h", "now"),
}
"""The words that an action's own options take, which are free text to the parser."""
_STEPS: Final = frozenset((("rollback", "--to"), ("lineage", "--from")))
_NEEDED: Final = {
    (row.verb, f"--{param.name}") for row in TABLE for param in row.params if param.required
}


def described(verbs: Iterable[VerbRow]) -> tuple[VerbPage, ...]:
    """Return every verb's page, in the table's order; imports each verb's module."""
    return tuple(map(_page, verbs))


def _page(verb: VerbRow) -> VerbPage:
    parser = argparse.ArgumentParser(prog=f"cockpit {verb.name}")
    module = importlib.import_module(verb.module)
    module.add_arguments(parser, *((verb.name,) if verb.guarded else ()))
    example = _one_line(parser.epilog or "").removeprefix("example: ")
    return VerbPage(
        verb.name,
        verb.summary.replace("%%", "%"),
        _one_line(parser.description or ""),
        example,
        tuple(_arguments(verb.name, parser)),
    )


def _arguments(verb: str, parser: argparse.ArgumentParser) -> Iterator[Argument]:
    for action in parser._actions:  # argparse has no other way to ask
        if action.dest == "help" or action.help == argparse.SUPPRESS:
            continue
        names = tuple(action.option_strings)
        key = verb, names[-1] if names else ""
        words = tuple(map(str, action.choices or ())) or _ANSWERS.get(key, ())
        yield Argument(
            names,
            _metavar(action),
            _one_line((action.help or "") % {**vars(action), "prog": parser.prog}),
            _takes(key, action, words),
            words,
            many=action.nargs in ("*", "+"),
            needed=key in _NEEDED or (action.required if names else action.nargs not in ("?", "*")),
        )  # fmt: skip


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    return str(action.metavar or action.dest.upper().replace("-", "_"))


def _takes(key: tuple[str, str], action: argparse.Action, words: tuple[str, ...]) -> Takes:
    if action.nargs == 0:
        return Takes.NOTHING
    if words:
        return Takes.WORD
    if key in _STEPS:
        return Takes.STEP
    kinds = {"RUN": Takes.RUN, "RUN|PATH": Takes.RUN_OR_FILE, **dict.fromkeys(_FILES, Takes.FILE)}
    return kinds.get(_metavar(action), Takes.TEXT)


def _one_line(text: str) -> str:
    return " ".join(text.split())
