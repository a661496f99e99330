"""Completion for zsh: every word with its meaning."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from cockpit.verbs.reference.described import Argument, Takes, VerbPage

_TEXT = """\
#compdef cockpit
# Completion of cockpit for zsh, made by `cockpit completions zsh`.

_cockpit_values() {
    local -a found
    found=(${(f)"$($words[1] completions --values $1 ${words[2,-1]} 2>/dev/null)"})
    (($#found)) && _describe -V $1 found
}

_cockpit_run() { _cockpit_values run }
_cockpit_step() { _cockpit_values step }
_cockpit_run_or_file() { _cockpit_values run; _files }

_cockpit() {
    local -a verbs
    verbs=(
%(verbs)s
    )
    if ((CURRENT == 2)) && [[ $PREFIX != -* ]]; then
        _describe verb verbs
        return
    fi
    local verb=open
    [[ $words[2] != -* ]] && verb=$words[2]
    local -a whole=($words)
    case $verb in
%(cases)s
    esac
}

if [[ $funcstack[1] == _cockpit ]]; then
    _cockpit "$@"
else
    compdef _cockpit cockpit
fi
"""
_ACTIONS = {
    Takes.RUN: "_cockpit_run",
    Takes.STEP: "_cockpit_step",
    Takes.RUN_OR_FILE: "_cockpit_run_or_file",
    Takes.FILE: "_files",
    Takes.TEXT: " ",
}


def zsh(pages: Sequence[VerbPage]) -> str:
    """Return the script; it works sourced, and as ``_cockpit`` in a folder of ``fpath``."""
    verbs = (f"        {shlex.quote(f'{page.name}:{_one(page.summary)}')}" for page in pages)
    return _TEXT % {"verbs": "\n".join(verbs), "cases": "\n".join(map(_case, pages))}


def _case(page: VerbPage) -> str:
    first = () if page.name == "open" else ("'1:verb: '",)
    specs = (*first, *_specs(page, 1 + len(first)), "'(-)--help[how it is called]'")
    return f"        {page.name}) _arguments -S {' '.join(specs)} ;;"


def _specs(page: VerbPage, place: int) -> Iterator[str]:
    for each in page.options:
        value = "" if each.takes is Takes.NOTHING else f":{_one(each.metavar)}:{_action(each)}"
        again = "*" if each.metavar == "KEY=VALUE" else ""
        for name in each.names:
            yield shlex.quote(f"{again}{name}[{_one(each.about)}]{value}")
    for number, each in enumerate(page.places, place):
        where = "*" if each.many else str(number)
        yield shlex.quote(f"{where}:{_one(each.metavar)}:{_action(each)}")


def _action(argument: Argument) -> str:
    if argument.takes is Takes.WORD:
        return f"({' '.join(argument.words)})"
    return _ACTIONS[argument.takes]


def _one(text: str) -> str:
    """Return text that ends nothing of a specification."""
    return "".join(f"\\{letter}" if letter in "[]:\\" else letter for letter in text)
