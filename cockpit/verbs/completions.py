"""``cockpit completions``: what makes a shell complete verbs, options, runs and checkpoints."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Final

from cockpit.verbs.common import OK, UsageError, put_figures
from cockpit.verbs.completing import print_values
from cockpit.verbs.reference.documents import VerbPage, described
from cockpit.verbs.reference.shells import bash, fish, zsh

SHELLS: Final[dict[str, Callable[[Sequence[VerbPage]], str]]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
EXAMPLE: Final = (
    "example: cockpit completions bash > ~/.local/share/bash-completion/completions/cockpit"
)


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
        "shell", nargs="?", choices=tuple(SHELLS), help="the shell (default: that of $SHELL)"
    )
    parser.add_argument("--values", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script of one shell, or what it asks for at a Tab; return 0."""
    if args.values is not None:
        return print_values(args.values)
    shell = args.shell or os.environ.get("SHELL", "").rpartition("/")[2]
    if shell not in SHELLS:
        raise UsageError(f"name the shell: {', '.join(SHELLS)} ($SHELL is {shell or 'not set'!r})")
    put_figures(SHELLS[shell](described(args.verbs())).rstrip("\n"))
    return OK
