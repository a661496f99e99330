"""Completion for fish: every word with its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.verbs.reference.described import Argument, Takes, VerbPage

_HEAD: Final = """\
# Completion of cockpit for fish, made by `cockpit completions fish`.

function __cockpit_verb --description 'whether this verb stands on the line; without one: open'
    set -l words (commandline -opc)
    if test (count $words) -gt 1; and not string match -q -- '-*' $words[2]
        contains -- $words[2] $argv
    else
        contains -- open $argv
    end
end

function __cockpit_first --description 'whether no verb stands on the line yet'
    test (count (commandline -opc)) -eq 1
end

function __cockpit_values --argument-names kind --description 'what the run file has of a kind'
    set -l words (commandline -opc)
    command $words[1] completions --values $kind $words[2..-1] (commandline -ct) 2>/dev/null
end

complete -c cockpit -f
complete -c cockpit -l help -d 'how it is called'
"""
_VALUES: Final = {
    Takes.RUN: "-x -a '(__cockpit_values run)'",
    Takes.STEP: "-x -k -a '(__cockpit_values step)'",
    Takes.FILE: "-r -F",
    Takes.RUN_OR_FILE: "-r -F -a '(__cockpit_values run)'",
    Takes.TEXT: "-x",
    Takes.NOTHING: "",
}


def fish(pages: Sequence[VerbPage]) -> str:
    """Return the script."""
    return _HEAD + "\n".join(_lines(pages)) + "\n"


def _lines(pages: Sequence[VerbPage]) -> Iterator[str]:
    for page in pages:
        summary = _quoted(page.summary)
        yield f"complete -c cockpit -n __cockpit_first -a {page.name} -d {summary}"
    for page in pages:
        here = f"complete -c cockpit -n '__cockpit_verb {page.name}'"
        behind = f"complete -c cockpit -n 'not __cockpit_first; and __cockpit_verb {page.name}'"
        for each in page.options:
            yield f"{here} {_names(each)} {_values(each)} -d {_quoted(each.about)}".replace(
                "  ", " "
            )
        for each in page.places:
            if each.takes not in (Takes.TEXT, Takes.NOTHING):
                yield f"{behind} {_values(each).replace('-x ', '').replace('-r ', '')}"


def _names(argument: Argument) -> str:
    return " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in argument.names
    )


def _values(argument: Argument) -> str:
    if argument.takes is Takes.WORD:
        return f"-x -a {_quoted(' '.join(argument.words))}"
    return _VALUES[argument.takes]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
