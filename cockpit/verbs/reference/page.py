"""The verbs as Markdown: docs/verbs.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cockpit.verbs.reference.described import Argument, VerbPage

EXIT_CODES: Final = (
    (0, "healthy, or done"),
    (1, "an alert is open, something is unknown, or an action failed"),
    (2, "the call or the run file is wrong"),
    (3, "nothing could be observed"),
    (4, "blocked or refused: nothing was done"),
    (5, "sent, outcome unknown: look it up"),
    (6, "done, but recording it failed"),
    (70, "an internal error"),
    (130, "interrupted"),
)
"""Every exit code and what it means (INTERFACE)."""


def overview(pages: Iterable[VerbPage]) -> str:
    """Return the table of all verbs, each linked to its section."""
    rows = (f"| [`{page.name}`](#cockpit-{page.name}) | {_cell(page.summary)} |" for page in pages)
    return "\n".join(("| verb | what it does |", "|---|---|", *rows))


def exit_codes() -> str:
    """Return the table of exit codes."""
    return "\n".join(
        ("| code | meaning |", "|---|---|", *(f"| {n} | {w} |" for n, w in EXIT_CODES))
    )


def sections(pages: Iterable[VerbPage]) -> str:
    """Return a section for each verb: call, what it does, every argument, an example."""
    return "\n\n".join("\n\n".join(_section(page)) for page in pages)


def _section(page: VerbPage) -> Iterator[str]:
    yield f"### cockpit {page.name}"
    yield f"```\n{page.synopsis}\n```"
    yield _text(page.about)
    if page.arguments:
        rows = (f"| {_named(each)} | {_cell(each.about)} |" for each in page.arguments)
        yield "\n".join(("| argument | meaning |", "|---|---|", *rows))
    yield f"Example: `{page.example}`"


def _named(argument: Argument) -> str:
    value = "\\|".join(argument.words) or argument.metavar.replace("|", "\\|")
    names = argument.names or ("",)
    return ", ".join(f"`{' '.join(filter(None, (name, value)))}`" for name in names)


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Return text of a help line as Markdown that shows the same."""
    return text.replace("<", "&lt;").replace("*", "\\*")
