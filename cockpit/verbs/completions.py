"""``cockpit completions``: what makes a shell complete verbs, options, runs and checkpoints.

shtab writes the script from the parsers. What it cannot know is what a place takes: runs and steps
out of the run file, which the script asks for at each Tab (``--values``).
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cockpit.runtime.own_path import Library
from cockpit.verbs.common import OK, UsageError, put_figures
from cockpit.verbs.completing import print_values

SHELLS: Final = ("bash", "zsh", "fish")
EXAMPLE: Final = (
    "example: cockpit completions bash > ~/.local/share/bash-completion/completions/cockpit"
)
_ASKS: Final = {
    "bash": """\
_cockpit_values() {
    local line
    while IFS= read -r line; do
        [[ $line == "$2"* ]] && printf '%s\\n' "$line"
    done < <("${COMP_WORDS[0]}" completions --values "$1" "${COMP_WORDS[@]:1}" 2>/dev/null)
}
_cockpit_run() { _cockpit_values run "$1"; }
_cockpit_step() { _cockpit_values step "$1"; }
_cockpit_run_file() { _cockpit_values run "$1"; compgen -f -- "$1"; }
""",
    "zsh": """\
_cockpit_values() {
    local -a found
    found=(${(f)"$(cockpit completions --values $1 "${words[@]}" 2>/dev/null)"})
    (($#found)) && _describe -V $1 found
}
_cockpit_run() { _cockpit_values run }
_cockpit_step() { _cockpit_values step }
_cockpit_run_file() { _cockpit_values run; _files }
""",
    "fish": """\
function _cockpit_values --argument-names kind
    set -l words (commandline -opc)
    command $words[1] completions --values $kind $words[2..-1] (commandline -ct) 2>/dev/null
end
function _cockpit_run_file
    _cockpit_values run
    __fish_complete_path (commandline -ct)
end
""",
}
_RUN: Final = {"bash": "_cockpit_run", "zsh": "_cockpit_run", "fish": "(_cockpit_values run)"}
_STEP: Final = {"bash": "_cockpit_step", "zsh": "_cockpit_step", "fish": "(_cockpit_values step)"}
_RUN_FILE: Final = dict.fromkeys(SHELLS, "_cockpit_run_file") | {"fish": "(_cockpit_run_file)"}
_TAKES: Final[Mapping[str, Any]] = {
    "RUN": _RUN,
    "RUN|PATH": _RUN_FILE,
    "RUN|FILE": _RUN_FILE,
    **dict.fromkeys(("FILE", "PATH", "D", "OUTPUT_ROOT", "WHAT"), "file"),
}
"""How a place is completed, by its name in the synopsis."""
_STEPS: Final = frozenset((("rollback", "--to"), ("lineage", "--from")))
ANSWERS: Final = {
    ("relaunch", "--save-first"): ("yes",),
    ("rollback", "--move"): ("yes", "no"),
    ("stop", "--save-first"): ("yes",),
    ("stop", "--successors"): ("yes",),
    ("stop", "--only"): ("held",),
    ("requeue", "--save-first"): ("yes",),
    ("ack", "--until"): ("15m", "1h", "8h", "now"),
}
"""The words that an action's own options take, which are free text to the parser."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``completions`` takes."""
    parser.description = (
        "Prints a script that completes verbs, options, runs and checkpoint steps. Keep it where "
        "the shell looks: bash in ~/.local/share/bash-completion/completions/cockpit, zsh as "
        "_cockpit in a folder of fpath, fish in ~/.config/fish/completions/cockpit.fish. Make it "
        "again after an update."
    )
    parser.epilog = EXAMPLE
    parser.add_argument(
        "shell", nargs="?", choices=SHELLS, help="the shell (default: that of $SHELL)"
    )
    parser.add_argument("--values", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script of one shell, or what it asks for at a Tab; return 0."""
    if args.values is not None:
        return print_values(args.values)
    shell = args.shell or os.environ.get("SHELL", "").rpartition("/")[2]
    if shell not in SHELLS:
        raise UsageError(f"name the shell: {', '.join(SHELLS)} ($SHELL is {shell or 'not set'!r})")
    with Library("shtab", "a completion script"):
        import shtab
    script = shtab.complete(_parser(args.verbs()), shell, preamble=_ASKS[shell])
    if shell == "zsh":  # where many may stand, shtab has zsh complete the first alone
        script = re.sub(r'"\(\*\)::?', '"*:', script)
    put_figures(script.rstrip("\n"))
    return OK


def _parser(verbs: Iterable[Any]) -> argparse.ArgumentParser:
    """Return one parser of all verbs; without a verb it has the options of ``open``."""
    whole = argparse.ArgumentParser(prog="cockpit")
    whole.add_argument("--version", action="version")
    rows = whole.add_subparsers(metavar="VERB")
    for verb in verbs:
        own = rows.add_parser(verb.name, help=verb.summary)
        module = importlib.import_module(verb.module)
        module.add_arguments(own, *((verb.name,) if verb.guarded else ()))
        own.description = verb.summary.replace("%%", "%")
        for action in own._actions:  # argparse has no other way to ask
            _complete(verb.name, action)
            if verb.name == "open" and action.option_strings and action.dest != "help":
                whole._add_action(action)
    return whole


def _complete(verb: str, action: argparse.Action) -> None:
    """Say how a shell completes an argument."""
    key = verb, action.option_strings[-1] if action.option_strings else ""
    if action.nargs != 0 and not action.choices:
        action.choices = ANSWERS.get(key)
    takes = _STEP if key in _STEPS else _TAKES.get(str(action.metavar or action.dest.upper()))
    if takes is not None and action.nargs != 0 and not action.choices:
        action.complete = takes  # type: ignore[attr-defined] # what shtab looks for
