"""Completions for bash, zsh and fish."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cockpit.verbs.reference.documents import Argument, Takes, VerbPage

_BASH_TEXT = """\
# Completion of cockpit for bash, made by `cockpit completions bash`.
_cockpit() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local verb=open first=1 places='' options='' kind='' words='' i
    local verbs=%(verbs)s
    COMPREPLY=()
    if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then
        verb=${COMP_WORDS[1]} first=2
    fi
    _cockpit_verb "$verb"
    if ((COMP_CWORD == 1)); then
        [[ $cur == -* ]] && verbs="$options --version"
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
        return
    fi
    local place=0
    for ((i = first; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            kind=''
            ((i > first)) && _cockpit_option "$verb" "${COMP_WORDS[i-1]}"
            [[ -z $kind ]] && ((place++))
        fi
    done
    kind=''
    ((COMP_CWORD > first)) && _cockpit_option "$verb" "$prev"
    if [[ -z $kind && $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        return
    fi
    if [[ -z $kind ]]; then
        set -- $places
        [[ ${*: -1} == many:* && $place -ge $# ]] && place=$(($# - 1))
        shift "$place" 2>/dev/null || set --
        kind=${1#many:}
    fi
    _cockpit_values "${COMP_WORDS[0]}" "$kind"
}

# Fills COMPREPLY: with runs and steps out of the run file, with files, with words.
_cockpit_values() {
    local line
    case $2 in
        run | step | run_or_file)
            while IFS= read -r line; do
                [[ $line == "$cur"* ]] && COMPREPLY+=("$line")
            done < <("$1" completions --values "${2%%_or_file}" "${COMP_WORDS[@]:1}" 2>/dev/null)
            ;;
        word) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    esac
    case $2 in
        file | run_or_file)
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
            ;;
    esac
}

# Sets what stands at which place of a verb, and its options.
_cockpit_verb() {
    case $1 in
%(table)s
        *) options='--help --version' ;;
    esac
}

# Sets kind (and words) to what an option takes; of a flag nothing.
_cockpit_option() {
    case "$1 $2" in
%(values)s
    esac
}

complete -F _cockpit cockpit
"""


def bash(pages: Sequence[VerbPage]) -> str:
    """Return the script."""
    parts = {
        "verbs": shlex.quote(" ".join(page.name for page in pages)),
        "table": "\n".join(map(_row, pages)),
        "values": "\n".join(_bash_values(pages)),
    }
    return _BASH_TEXT % parts


def _row(page: VerbPage) -> str:
    places = " ".join(f"{'many:' * each.many}{each.takes}" for each in page.places)
    names = [name for each in page.options for name in each.names] + ["--help"]
    words = [word for each in page.places for word in each.words]
    parts = {"places": places, "options": " ".join(names), "words": " ".join(words)}
    sets = " ".join(f"{name}={shlex.quote(each)}" for name, each in parts.items() if each)
    return f"        {page.name}) {sets} ;;"


def _bash_values(pages: Iterable[VerbPage]) -> Iterator[str]:
    """Yield a case for every set of options that take the same."""
    cases: dict[str, list[str]] = {}
    for page in pages:
        for each in page.options:
            if each.takes is not Takes.NOTHING:
                names = (f"'{page.name} {name}'" for name in each.names)
                cases.setdefault(_sets(each), []).extend(names)
    for sets, patterns in cases.items():
        joined = " | \\\n            ".join(patterns)
        yield f"        {joined})\n            {sets} ;;"


def _sets(argument: Argument) -> str:
    words = f" words={shlex.quote(' '.join(argument.words))}" if argument.words else ""
    return f"kind={argument.takes}{words}"


_ZSH_TEXT = """\
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
    return _ZSH_TEXT % {"verbs": "\n".join(verbs), "cases": "\n".join(map(_case, pages))}


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
    return _HEAD + "\n".join(_fish_lines(pages)) + "\n"


def _fish_lines(pages: Sequence[VerbPage]) -> Iterator[str]:
    for page in pages:
        summary = _quoted(page.summary)
        yield f"complete -c cockpit -n __cockpit_first -a {page.name} -d {summary}"
    for page in pages:
        here = f"complete -c cockpit -n '__cockpit_verb {page.name}'"
        behind = f"complete -c cockpit -n 'not __cockpit_first; and __cockpit_verb {page.name}'"
        for each in page.options:
            yield f"{here} {_names(each)} {_fish_values(each)} -d {_quoted(each.about)}".replace(
                "  ", " "
            )
        for each in page.places:
            if each.takes not in (Takes.TEXT, Takes.NOTHING):
                yield f"{behind} {_fish_values(each).replace('-x ', '').replace('-r ', '')}"


def _names(argument: Argument) -> str:
    return " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in argument.names
    )


def _fish_values(argument: Argument) -> str:
    if argument.takes is Takes.WORD:
        return f"-x -a {_quoted(' '.join(argument.words))}"
    return _VALUES[argument.takes]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
