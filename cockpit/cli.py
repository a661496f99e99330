"""The command line: finds the verb, runs it, and gives every kind of trouble its exit code.

Exit codes are INTERFACE's; 70 is an internal error (its details lie in a file that
only its owner can read), so that it is never mistaken for an alert (1).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from cockpit import version_text
from cockpit.config.file import state_dir
from cockpit.config.quickstart import quick_imports
from cockpit.model.clock import SystemClock
from cockpit.runtime.account import crash_message
from cockpit.runtime.own_path import LibraryError
from cockpit.verbs.common import INTERRUPTED, USAGE, OutputError, UsageError, say

if TYPE_CHECKING:  # a plain start needs no parser
    import argparse

FAULT = 70


class Verb(NamedTuple):
    """One row of the table of verbs; its module is imported only when it is asked for."""

    name: str
    summary: str
    group: str
    guarded: bool = False

    @property
    def module(self) -> str:
        """The module that does it."""
        return f"cockpit.verbs.{'act' if self.guarded else self.name}"


_UNGUARDED = (
    Verb("open", "the terminal UI (what bare `cockpit` does)", "look"),
    Verb("check", "one check of every facet and every rule, now", "look"),
    Verb("watch", "the headless monitor: keeps the cadence, owns the runs", "look"),
    Verb("checkpoints", "which checkpoints are complete or torn, which is next", "look"),
    Verb("backtest", "which alerts a run's history would have raised", "look"),
    Verb("plot", "curves of a run as text, SVG or JSON", "look"),
    Verb("triage", "why a job ended: one class, its lines, one action", "look"),
    Verb("progress", "step, loss and rate read from a log", "look"),
    Verb("describe", "what the job's own system tells: queue, tasks, nodes, events", "look"),
    Verb("history", "who did what to a run, when, on what evidence", "look"),
    Verb("report", "what happened since a time, what was done, what it cost, what is open", "look"),
    Verb("serve", "the read-only UI in a browser on this machine", "look"),
    Verb("veto", "stop what an agent is about to do to a run", "act"),
    Verb("demo", "real small training runs, and the UI on them", "tools"),
    Verb("init", "a first cockpit.toml from what is found here", "tools"),
    Verb("doctor", "what is installed, reachable, authorised; remedies", "tools"),
    Verb("scrub", "stdin to stdout with secrets masked", "tools"),
    Verb("mcp", "an MCP server on stdio, for agents; guarded like a person", "tools"),
    Verb("schema", "the run file's JSON Schema, for editors", "tools"),
    Verb("completions", "a completion script for bash, zsh or fish", "tools"),
)
GROUPS = {
    "look": "look: changes nothing of a run",
    "act": "act: on a run, after its plan and your typed words (veto acts at once)",
    "tools": "tools: set up, try out, connect",
}


@cache
def all_verbs() -> tuple[Verb, ...]:
    """Return every verb, by its group."""
    from cockpit.actions.core.table import TABLE

    guarded = (Verb(row.verb, row.help, "act", guarded=True) for row in TABLE)
    found = (*_UNGUARDED, *guarded)
    return tuple(verb for group in GROUPS for verb in found if verb.group == group)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return its exit code. ``argv`` is without the program's name."""
    try:
        return _run(_with_verb(list(sys.argv[1:] if argv is None else argv)))
    except UsageError as error:
        for line in error.lines:
            say(line)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except LibraryError as error:
        say(str(error))
        return USAGE
    except OutputError as error:
        _reader_left()
        say(str(error))
        return USAGE
    except Exception as error:  # noqa: BLE001 - any fault is told in one line, with its details
        say(crash_message(error, state_dir() / "crashes", SystemClock().now()))
        return FAULT


def _with_verb(argv: list[str]) -> list[str]:
    """Return ``argv`` with ``open`` put in front where no verb is named."""
    if argv and (not argv[0].startswith("-") or argv[0] in ("-h", "--help", "--version")):
        return argv
    return ["open", *argv]


def _run(argv: list[str]) -> int:
    chosen = _named(argv[0], _UNGUARDED) or _named(argv[0], all_verbs())
    if chosen is None and not argv[0].startswith("-"):
        raise UsageError(f"no verb {argv[0][:80]!r}; {_meant(argv[0])}")
    arguments = _plain(argv) or _parser(chosen, argv[0]).parse_args(argv)
    if chosen is None:
        raise UsageError(f"no verb {argv[0][:80]!r}")
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError("the folder this was started in is gone; cd to one that exists") from None
    with quick_imports():
        module = importlib.import_module(chosen.module)
    return int(module.run(arguments))


def _plain(argv: list[str]) -> SimpleNamespace | None:
    """Return what ``open`` is given, where that is plain to see; ``None``: it is to be parsed."""
    if argv[0] != "open":
        return None
    from cockpit.app.kept_frame import call_of

    call = call_of(argv)
    if call is None:
        return None
    config = None if call.config is None else Path(call.config)
    return SimpleNamespace(**call._asdict() | {"config": config, "run_name": None})


def _named(name: str, verbs: Iterable[Verb]) -> Verb | None:
    return next((verb for verb in verbs if verb.name == name), None)


def _meant(name: str) -> str:
    """Return which verb was meant, else how to find it."""
    from difflib import get_close_matches

    near = get_close_matches(name, [verb.name for verb in all_verbs()], 1)
    return f"did you mean {near[0]}?" if near else "cockpit --help lists them"


def _parser(chosen: Verb | None, first: str = "") -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="cockpit",
        usage="cockpit [-h] [--version] VERB ...",
        description=_overview() if chosen is None else None,
        epilog="cockpit VERB --help says more of one.\n"
        "example: cockpit check --config runs/cockpit.toml --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if first == "--version":  # git is asked for it
        parser.add_argument(first, action="version", version=version_text())
    verbs = parser.add_subparsers(
        prog="cockpit", metavar="VERB", required=True, help=argparse.SUPPRESS
    )
    for verb in all_verbs() if chosen is None else (chosen,):
        own = verbs.add_parser(verb.name)
        own.set_defaults(verbs=all_verbs)  # for the one that describes them all
        if verb is chosen:
            with quick_imports():
                module = importlib.import_module(verb.module)
            module.add_arguments(own, *((verb.name,) if verb.guarded else ()))
    return parser


def _overview() -> str:
    """Return what the program is, and its verbs in their groups."""
    from shutil import get_terminal_size
    from textwrap import wrap

    width, lines = max(40, get_terminal_size().columns - 18), list[str]()
    for group, title in GROUPS.items():
        lines += ["", title]
        for verb in (each for each in all_verbs() if each.group == group):
            first, *more = wrap(verb.summary, width)
            lines += [f"  {verb.name:<13} {first}", *(" " * 16 + each for each in more)]
    about = "A terminal cockpit for babysitting expensive ML training runs."
    return "\n".join([about, *lines])


def _reader_left() -> int:
    """End quietly when nobody reads our output any more (``cockpit check | head``)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13
