"""The verbs as a manual page: ``man cockpit`` (man(7) macros, which every man knows)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cockpit.verbs.reference.described import Argument, VerbPage
from cockpit.verbs.reference.page import EXIT_CODES

ABOUT: Final = (
    "shows training runs in a terminal: the job, the log, loss and rate, checkpoints, what is "
    "wrong, since when, on what evidence, and the next safe action. It acts on them only when a "
    "person types the words of a plan. Without a verb it opens the terminal UI on the run file "
    "that is found here, in a folder above, or in the user's own config folder."
)
FILES: Final = (
    ("cockpit.toml", "the run file; cockpit schema prints every key that it may have"),
    ("$XDG_CONFIG_HOME/cockpit/cockpit.toml", "the user's own run file, where none is nearer"),
    ("$XDG_STATE_HOME/cockpit/store.sqlite", "what was seen and done, kept between sessions"),
)
VARIABLES: Final = (
    ("NO_COLOR", "rank is shown by word, shape and contrast instead of colour"),
    ("LC_ALL, LC_CTYPE, LANG", "a locale without UTF-8 is drawn in ASCII"),
    ("XDG_STATE_HOME, XDG_CONFIG_HOME, XDG_RUNTIME_DIR", "where the folders above lie"),
    ("WANDB_API_KEY, GH_TOKEN, GITHUB_TOKEN", "how W&B and GitHub are asked; never shown"),
)
_ESCAPES: Final = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti",
                   "…": "...", "—": "\\(em", "·": "\\(bu", "×": "\\(mu",
                   "|": "|\\:"}  # fmt: skip
"""Behind a bar a line may break: a list of words is longer than one."""


def manual(pages: Sequence[VerbPage], version: str) -> str:
    """Return the page; the same for the same program, on every machine and day."""
    return "\n".join(_lines(pages, version)) + "\n"


def _lines(pages: Sequence[VerbPage], version: str) -> Iterator[str]:
    yield f'.TH COCKPIT 1 "" "cockpit {_plain(version)}" "User Commands"'
    yield from (".ad l", ".nh")
    yield from (".SH NAME", "cockpit \\- babysit expensive ML training runs from a terminal")
    yield ".SH SYNOPSIS"
    yield from (".B cockpit", ".RI [ VERB ]", '.RI [ ARGUMENT " ...]"')
    yield from (".SH DESCRIPTION", ".B cockpit", _plain(ABOUT))
    yield ".SH VERBS"
    for page in pages:
        yield from _verb(page)
    yield from _listed("EXIT STATUS", ((str(code), about) for code, about in EXIT_CODES))
    yield from _listed("FILES", FILES)
    yield from _listed("ENVIRONMENT", VARIABLES)
    yield ".SH SEE ALSO"
    yield from (".BR tmux (1),", ".BR ssh (1)")


def _verb(page: VerbPage) -> Iterator[str]:
    yield f".SS cockpit {_plain(page.name)}"
    yield _plain(page.synopsis)
    yield from (".PP", _plain(page.about))
    for each in page.arguments:
        yield from (".TP", _tag(each), _plain(each.about) or _plain(each.metavar))
    yield from (".PP", "Example:", ".PP", ".RS 4", ".nf", _plain(page.example), ".fi", ".RE")


def _tag(argument: Argument) -> str:
    value = "|".join(argument.words) or argument.metavar
    names = ", ".join(f"\\fB{_plain(name)}\\fR" for name in argument.names)
    return " ".join(filter(None, (names, f"\\fI{_plain(value)}\\fR" if value else "")))


def _listed(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {title}"
    for name, about in rows:
        yield from (".TP", f"\\fB{_plain(name)}\\fR", _plain(about))


def _plain(text: str) -> str:
    """Return text that is shown as it is: nothing in it is a request or an escape."""
    text = "".join(_ESCAPES.get(letter, letter) for letter in text)
    return re.sub(r"^([.'])", r"\\&\1", text)
