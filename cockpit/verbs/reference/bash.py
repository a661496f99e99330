"""Completion for bash (4 and newer; macOS' 3.2 too)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from cockpit.verbs.reference.described import Argument, Takes, VerbPage

_TEXT = """\
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
        "values": "\n".join(_values(pages)),
    }
    return _TEXT % parts


def _row(page: VerbPage) -> str:
    places = " ".join(f"{'many:' * each.many}{each.takes}" for each in page.places)
    names = [name for each in page.options for name in each.names] + ["--help"]
    words = [word for each in page.places for word in each.words]
    parts = {"places": places, "options": " ".join(names), "words": " ".join(words)}
    sets = " ".join(f"{name}={shlex.quote(each)}" for name, each in parts.items() if each)
    return f"        {page.name}) {sets} ;;"


def _values(pages: Iterable[VerbPage]) -> Iterator[str]:
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
