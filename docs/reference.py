"""The parsers as documents: Markdown pages and a manual page."""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cockpit.actions.core.table import TABLE
from cockpit.cli import Verb
from cockpit.verbs.completions import ANSWERS
from screens.hotkeys import ACTIONS, WHERES
from screens.keys import Keys, shown


@dataclass(frozen=True)
class Argument:
    """One argument; ``names`` is empty where it is given by its place."""

    names: tuple[str, ...]
    metavar: str
    about: str
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
    group: str
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


_NEEDED: Final = {
    (row.verb, f"--{param.name}") for row in TABLE for param in row.params if param.required
}


def described(verbs: Iterable[Verb]) -> tuple[VerbPage, ...]:
    """Return every verb's page, in the table's order; imports each verb's module."""
    return tuple(map(_page, verbs))


def _page(verb: Verb) -> VerbPage:
    parser = argparse.ArgumentParser(prog=f"cockpit {verb.name}")
    module = importlib.import_module(verb.module)
    module.add_arguments(parser, *((verb.name,) if verb.guarded else ()))
    example = _one_line(parser.epilog or "").removeprefix("example: ")
    return VerbPage(
        verb.name,
        verb.group,
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
        words = tuple(map(str, action.choices or ())) or ANSWERS.get(key, ())
        yield Argument(
            names,
            _metavar(action),
            _one_line((action.help or "") % {**vars(action), "prog": parser.prog}),
            words,
            many=action.nargs in ("*", "+"),
            needed=key in _NEEDED or (action.required if names else action.nargs not in ("?", "*")),
        )  # fmt: skip


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    return str(action.metavar or action.dest.upper().replace("-", "_"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    """Return the table of all verbs by their groups, each linked to its section."""
    rows = (
        f"| {page.group} | [`{page.name}`](#cockpit-{page.name}) | {_cell(page.summary)} |"
        for page in pages
    )
    return "\n".join(("| group | verb | what it does |", "|---|---|---|", *rows))


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
        rows = (f"| {_argument_names(each)} | {_cell(each.about)} |" for each in page.arguments)
        yield "\n".join(("| argument | meaning |", "|---|---|", *rows))
    yield f"Example: `{page.example}`"


def _argument_names(argument: Argument) -> str:
    value = "\\|".join(argument.words) or argument.metavar.replace("|", "\\|")
    names = argument.names or ("",)
    return ", ".join(f"`{' '.join(filter(None, (name, value)))}`" for name in names)


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Return text of a help line as Markdown that shows the same."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def key_table(keys: Keys | None = None) -> str:
    """Return the table of all keys for docs/keys.md, in Markdown."""
    keys = keys or Keys()
    lines = ["| where | key | action id | what it does |", "|---|---|---|---|"]
    for where, title in WHERES.items():
        for each in ACTIONS:
            if each.where == where:
                names = " ".join(f"`{shown(key)}`" for key in keys.of(each.id))
                lines.append(f"| {title} | {names} | `{each.id}` | {each.help} |")
    return "\n".join(lines)


_HEAD: Final = "| key | value | default | meaning |\n|---|---|---|---|"
_SKIPPED: Final = frozenset(("keys",))
"""Tables whose keys are told elsewhere: ``[keys]`` beside the table of keys."""


def settings(schema: Mapping[str, Any]) -> str:
    """Return a table for each table of the run file, every key with type, default, meaning."""
    return "\n\n".join(_tables(schema["properties"], ""))


def _tables(properties: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, shape in properties.items():
        if name in _SKIPPED:
            continue
        whole = shape.get("items", shape)
        title = f"[[{above}{name}]]" if "items" in shape else f"[{above}{name}]"
        inside = whole.get("properties", whole.get("additionalProperties"))
        if isinstance(inside, Mapping) and "properties" in inside:
            title, inside = f"[{above}{name}.NAME]", inside["properties"]
        if isinstance(inside, Mapping) and inside and not _inline(shape):
            yield f"### `{title}`\n\n{shape.get('description', '')}"
            yield from _rows(inside, whole.get("required", ()))
            nested = {k: v for k, v in inside.items() if _is_table(v)}
            yield from _tables(nested, f"{above}{name}.")


def _meaning(shape: Mapping[str, Any]) -> str:
    return _cell(str(shape.get("description", ""))).rstrip(".")


def _rows(properties: Mapping[str, Any], required: object) -> Iterator[str]:
    rows = [
        f"| `{name}` | {_kind(shape)} | {_default(shape, name, required)} | {_meaning(shape)} |"
        for name, shape in properties.items()
        if not _is_table(shape)
    ]
    if rows:
        yield "\n".join((_HEAD, *rows))


def _is_table(shape: Mapping[str, Any]) -> bool:
    return bool(shape.get("items", shape).get("properties")) and not _inline(shape)


def _inline(shape: Mapping[str, Any]) -> bool:
    """Return whether a table is written in one line: its description shows the braces."""
    return "{" in str(shape.get("description", "")) and shape.get("type") == "object"


def _kind(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return ", ".join(f"`{each}`" for each in shape["enum"])
    if any("ms|" in each.get("pattern", "") for each in shape.get("anyOf", ())):
        return "duration"
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_kind(each) for each in shape["anyOf"]))
    if shape.get("type") == "array":
        return f"list of {_kind(shape.get('items', {}))}"
    return {"object": "table", "string": "text", "boolean": "true, false"}.get(
        str(shape.get("type", "any")), str(shape.get("type", "any"))
    )


def _default(shape: Mapping[str, Any], name: str, required: object) -> str:
    if isinstance(required, list | tuple) and name in required:
        return "*required*"
    default = shape.get("default")
    return "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"


ABOUT: Final = (
    "shows training runs in a terminal: the job, the log, loss and rate, checkpoints, what is "
    "wrong, since when, on what evidence, and the next safe action. It acts on them only when a "
    "person types the words of a plan. Without a verb it opens the terminal UI on the run file "
    "that is found here, in a folder above, or in the user's own config folder."
)
FILES: Final = (
    ("cockpit.toml", "the run file; cockpit schema prints every key that it may have"),
    ("$XDG_CONFIG_HOME/cockpit/cockpit.toml", "the user's own run file, where none is nearer"),
    ("$XDG_STATE_HOME/cockpit/store-MACHINE.sqlite", "what was seen and done on this machine"),
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
    return "\n".join(_man_lines(pages, version)) + "\n"


def _man_lines(pages: Sequence[VerbPage], version: str) -> Iterator[str]:
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
