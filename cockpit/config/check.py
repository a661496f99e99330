"""Says what is wrong in a run file: every problem, in words, at its place.

A problem is a place (key path) and a sentence without the value, so that nothing private and
nothing unprintable can get into a message. Types come first, then names, ranges and secrets.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cockpit.config.reading import KeyPath
from cockpit.model.base import Duration, Frozen, parse_duration
from cockpit.model.late_regex import late_regex
from cockpit.model.notify import NotifySpec
from cockpit.model.own_rules import SignatureSpec
from cockpit.model.place import server_of
from cockpit.model.run import (
    EVENT,
    NEVER,
    AgentsSpec,
    Currency,
    HostSpec,
    RunSpec,
    UiSpec,
    log_period,
)
from cockpit.text.scrub import scrub
from cockpit.text.secret_names import is_placeholder

M = TypeVar("M", bound=BaseModel)


class Trouble(NamedTuple):
    """One problem: where, and a sentence saying what, what was expected, what to do."""

    path: KeyPath
    text: str


class Settings(Frozen):
    """``[cockpit]``."""

    cadence: Duration = 15 * 60.0
    """How often each run is checked (a duration)."""
    currency: Currency = "USD"
    """The currency of all prices of the file, three letters."""
    operator: str | None = None
    """Who acts, by name; default: git's user.name."""
    signatures: str | None = None
    """A file of [[signature]] that count for every run: what lines of your own systems mean."""


DERIVED = frozenset((
    "escalation", "final_step_source", "final_step_told", "logs_of_others", "other_logs",
    "same_tracker", "own_files", "output_folders", "team_signatures", "controller",
    "limited",
))  # fmt: skip
"""Fields of the model that the run file does not write."""


def _tables(name: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a table, and those that are fields of it."""
    yield name, model
    for key, field in model.model_fields.items():
        for below in _models(field.annotation) if key not in DERIVED else ():
            yield from _tables(f"{name}.{key}", below)


def _models(kind: object) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


TABLES: Mapping[str, type[BaseModel]] = dict([
    ("cockpit", Settings), *_tables("run", RunSpec), *_tables("notify", NotifySpec),
    ("agents", AgentsSpec), ("ui", UiSpec), ("hosts.*", HostSpec), ("signature", SignatureSpec),
])  # fmt: skip
"""Every table that may be written, and the keys it takes; the last one in a file of its own."""


_EXPECTED = {
    "string_type": "expected text in quotes, such as {key} = {text}",
    "int_type": "expected a whole number, such as {key} = {number}",
    "int_from_float": "expected a whole number, such as {key} = {number}",
    "float_type": "expected a number, such as {key} = 0.25",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list, such as {key} = [{text}]",
    "dict_type": "expected a table, such as {key} = {{ … }}",
    "model_type": "expected a table, such as {key} = {{ … }}",
    "greater_than_equal": "expected a number of at least {ge:g}",
    "greater_than": "expected a number above {gt:g}",
    "string_pattern_mismatch": "expected three capital letters, such as {key} = {text}",
    "less_than_equal": "expected a number of at most {le:g}",
    "missing": "is missing; expected {key} = {text}",
}
_EXAMPLES = {
    "name": "grug-moe-1e23-ep8",
    "final_step": "119209",
    "permanent_every": "100000",
    "protect": "20000",
    "run.job.kind": "local",
    "run.teardown.kind": "terminate",
    "path": "checkpoints",
    "log": "logs/run.log",
    "pid_file": "run.pid",
    "file": "config.json",
    "key": "trainer.num_train_steps",
    "class": "bad_node",
    "metric": "moe/drop_frac",
    "pattern": "Fabric manager lost port",
    "examples": "[fm] Fabric manager lost port 3 on node7",
    "diagnostic": "*-eval*",
    "currency": "EUR",
    "operator": "ada",
    "dri": "ada",
    "db": "trackio/my-project.db",
    "dir": "runs/a",
}


def checked(model: type[M], raw: object, at: KeyPath) -> M | list[Trouble]:
    """Return ``raw`` as ``model``, or everything that is wrong with it.

    Strict: ``"3"`` is not a number. ``at`` is where ``raw`` stands in the document.
    """
    # A date where only text, numbers and lists are becomes a type error.
    text = json.dumps(raw, default=lambda value: {"a date": str(value)})
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    grouped: dict[KeyPath, list[ErrorDetails]] = {}
    for each in errors:
        grouped.setdefault((*at, *_written(raw, each)), []).append(each)
    return [Trouble(path, _sentence(path, group)) for path, group in grouped.items()]


def _written(raw: object, error: ErrorDetails) -> KeyPath:
    """Return the part of an error's place that is in the file (unions add words of their own)."""
    path: list[str | int] = []
    for part in error["loc"]:
        inner: object = None
        if isinstance(raw, dict):
            inner = raw.get(part)
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            inner = raw[part]
        if inner is None:
            break
        raw = inner
        path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return tuple(path)


def table_of(path: KeyPath) -> str:
    """Return the dotted name at ``path`` as :data:`TABLES` spells it (no positions)."""
    names = [part for part in path if isinstance(part, str)]
    if names[:1] == ["hosts"] and len(names) > 1:
        names[1] = "*"
    return ".".join(names)


def _sentence(path: KeyPath, errors: Sequence[ErrorDetails]) -> str:
    first, kinds = errors[0], {error["type"] for error in errors}
    if first["type"] == "extra_forbidden":
        return unknown_key(path)
    if first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", first.get("ctx", {}).get("expected", ""))
        return one_of(first["input"], choices)
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    if {"string_type", "tuple_type"} <= kinds or len(errors) > 1:
        return f'expected text in quotes, or a list such as {path[-1]} = ["…", "…"]'
    template = _EXPECTED.get(first["type"])
    return first["msg"] if template is None else _filled(template, path, first.get("ctx", {}))


def _filled(template: str, path: KeyPath, limits: Mapping[str, Any]) -> str:
    key = next(part for part in reversed(path) if isinstance(part, str))
    example = _EXAMPLES.get(table_of(path), _EXAMPLES.get(key, "…"))
    text = example if example.isdigit() else f'"{example}"'
    number = example if example.isdigit() else "100"
    if isinstance(path[-1], int):
        text, number = f"[{text}]", f"[{number}]"
    return template.format(key=key, text=text, number=number, **limits)


def one_of(word: object, choices: Sequence[str]) -> str:
    """Return the sentence about a word that is none of ``choices``."""
    return f"expected one of {', '.join(choices)}{_did_you_mean(word, choices)}"


def _did_you_mean(word: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word).lower(), known, n=1, cutoff=0.55)
    return f'; did you mean "{near[0]}"?' if near else ""


def unknown_key(path: KeyPath, known: Sequence[str] | None = None) -> str:
    """Return the sentence about a key that does not exist, naming the nearest one that does."""
    key, table = str(path[-1]), table_of(path[:-1])
    names = list(known or keys_of(table))
    if hint := _did_you_mean(key, names):
        return f"unknown key{hint}"
    homes = [name for name in TABLES if key in keys_of(name)]
    if homes:
        return f"unknown key here; it belongs in [{homes[0]}]"
    nearest = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.0)
    return f'unknown key; the nearest known key is "{nearest[0]}"' if nearest else "unknown key"


def keys_of(table: str) -> list[str]:
    """Return the keys that ``table`` (as :data:`TABLES` spells it) takes."""
    model = TABLES.get(table)
    return [] if model is None else list(fields_of(model))


def fields_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the fields of a table by the keys as they are written: ``class`` is Python's word."""
    fields = model.model_fields.items()
    return {each.alias or name: name for name, each in fields if name not in DERIVED}


DEEPEST = 16
"""Levels of nesting that a run file can need, and then some."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
VARIABLE = late_regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SECRET_KEY = re.compile(r"(?:^|_)(?:token|password|passwd|secret|api_?key|credentials?)$", re.I)
_UNSHOWABLE = late_regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_DURATIONS = frozenset({"cadence", "save_every", "expected_duration", "flap_window"})
_FOREVER = 1e10


def value_troubles(data: Mapping[str, Any]) -> Iterator[Trouble]:
    """Yield what is wrong with the values of a document, whatever else is wrong with it."""
    reported: set[KeyPath] = set()
    for path, value in leaves(data, ()):
        texts = (check(path, value) for check in _CHECKS)
        text = next(filter(None, texts), None)
        if text is not None and path not in reported:
            yield Trouble(path, text)
            reported.update(path[:depth] for depth in range(len(path) + 1))


def run_names(runs: list[Any]) -> Iterator[Trouble]:
    """Yield names that cannot be typed to confirm, and names that are used twice."""
    seen: dict[str, int] = {}
    for position, run in enumerate(runs):
        name = run.get("name") if isinstance(run, dict) else None
        if not isinstance(name, str):
            continue
        path = ("run", position, "name")
        if not NAME.fullmatch(name):
            yield Trouble(path, 'expected letters, digits, ".", "_" and "-" only')
        elif name in seen:
            yield Trouble(
                path, f'"{name}" is already the name of run {seen[name] + 1} of this file'
            )
        seen.setdefault(name, position)


def leaves(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    """Yield every value that is no table, and every list of texts also as one text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
        return
    if isinstance(value, list):
        for position, inner in enumerate(value):
            yield from leaves(inner, (*path, position))
        value = " ".join(part for part in value if isinstance(part, str))
    yield path, value


def too_deep(value: object) -> bool:
    """Return whether tables and lists are nested deeper than :data:`DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _secret(path: KeyPath, value: object) -> str | None:
    if not isinstance(value, str) or not value or path[0] == "keys":
        return None
    key = str(path[-1])
    if _SECRET_KEY.search(key) and not is_placeholder(value):
        return f'do not write secrets here; name the variable: {key}_env = "VARIABLE"'
    if _looks_secret(key, value):
        return "looks like a secret; put it in an environment variable and write $VARIABLE or *_env"
    return None


@lru_cache(maxsize=4096)
def _looks_secret(key: str, value: str) -> bool:
    """Return whether a setting is masked; the runs of one file say much the same, once each."""
    line = f'{key} = "{value}"'
    return scrub(value) != value or scrub(line) != line


def _variable(path: KeyPath, value: object) -> str | None:
    if not str(path[-1]).endswith("_env") or not isinstance(value, str):
        return None
    if VARIABLE.fullmatch(value):
        return None
    return 'expected the name of an environment variable, such as "SLACK_URL", not its value'


def _showable(path: KeyPath, value: object) -> str | None:
    texts = [*map(str, path), *([value] if isinstance(value, str) else ())]
    if any(not text.isprintable() and _UNSHOWABLE.search(text) for text in texts):
        return "contains a control or invisible character; remove it"
    return None


def _lasting(path: KeyPath, value: object) -> str | None:
    if path[-1] not in _DURATIONS:
        return None
    try:
        seconds = parse_duration(value)
    except ValueError:
        return None  # said by the model, in its own words
    return None if 0 < seconds < _FOREVER else 'expected a duration such as "15m", longer than 0'


def _log_every(path: KeyPath, value: object) -> str | None:
    if table_of(path) != "run.records.log_every" or not isinstance(value, str):
        return None
    if value in (NEVER, EVENT):
        return None
    try:
        log_period(value, 1.0)
    except ValueError:
        return 'expected "1 cadence", a duration such as "2h", "event" or "never"'
    return None


def _server(path: KeyPath, value: object) -> str | None:
    if table_of(path) != "run.wandb.base_url" or not isinstance(value, str):
        return None
    return None if server_of(value) else 'expected an address such as "https://wandb.example.org"'


def _stated(path: KeyPath, value: object) -> str | None:
    if value != "" or not table_of(path).startswith(("run.job.", "run.wandb.")):
        return None
    return "is empty; give it a value or remove the line"


_CHECKS: tuple[Callable[[KeyPath, object], str | None], ...] = (
    *(_showable, _secret, _variable, _lasting, _server, _stated, _log_every),
)
