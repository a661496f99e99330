"""The run file's JSON Schema (draft 7), made from its model: what editors complete and check.

What it says is less than what ``load`` checks: a schema knows one value at a time. Nothing that
``load`` takes is refused by it. What a key means is the sentence below its field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel

from cockpit.config.build import LAYOUTS, SECTIONS
from cockpit.config.check import NAME, TABLES, VARIABLE, fields_of
from cockpit.model.base import DURATION_SCHEMA, duration_text

TOP: Final[Mapping[str, str]] = {
    "cockpit": "Settings of the person and defaults of all runs.",
    "run": "One intended training trajectory; one [[run]] for each.",
    "notify": "Who is told of alerts, and how.",
    "agents": "What agents may do by themselves (cockpit mcp).",
    "ui": "How the terminal UI looks.",
    "keys": "Keys of the terminal UI: action id = key, or a list of keys.",
    "hosts": "An ssh host, by its alias: its Python, and what to do when it refuses us.",
}
"""What each table at the top of the file is for."""


@cache
def meanings(module: str) -> Mapping[tuple[str, str], str]:
    """Return the sentence below each field of a module's classes, by class and field."""
    tree = ast.parse(files("cockpit").joinpath(module).read_text(encoding="utf-8"))
    found: dict[tuple[str, str], str] = {}
    for model in (each for each in tree.body if isinstance(each, ast.ClassDef)):
        for field, below in pairwise(model.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(sentence))),
                ):
                    found[model.name, name] = " ".join(sentence.split())
    return found


def meaning(model: type[BaseModel], key: str) -> str:
    """Return what a key of the run file means, in one sentence with its unit."""
    module = model.__module__.removeprefix("cockpit.").replace(".", "/")
    return meanings(f"{module}.py")[model.__name__, fields_of(model)[key]]


DRAFT: Final = "http://json-schema.org/draft-07/schema#"
Shape = dict[str, Any]
_KEYS: Final[Shape] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
WIDER: Final[Mapping[str, Shape]] = {
    "run.job.log": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    },
    "run.checkpoints.path": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    },
    "run.checkpoints.layout": {
        "anyOf": [{"enum": [*LAYOUTS]}, {"type": "object"}], "default": "auto",
    },
    "notify.quiet": {"type": "string"},
}  # fmt: skip
"""Settings that may be written in more ways than the model keeps them in."""


def schema(actions: Mapping[str, tuple[str, str]], themes: Iterable[str]) -> Shape:
    """Return the document.

    ``actions``: what ``[keys]`` may name, with its own keys and what it does; ``themes``: what
    ``[ui] theme`` may be.
    """
    tables = {name: _table(name) for name in TABLES}
    for name in sorted(tables, key=lambda name: -name.count(".")):
        home, _, key = name.rpartition(".")
        if key != "*" and home in tables:
            _put(tables[home]["properties"][key], tables[name])
    tables["ui"]["properties"]["theme"]["enum"] = [*themes]
    own = {action: _key(keys, does) for action, (keys, does) in actions.items()}
    shapes = {
        **{name: tables[name] for name in ("cockpit", "notify", "agents", "ui")},
        "run": {"type": "array", "items": tables["run"], "minItems": 1},
        "keys": {"type": "object", "properties": own, "additionalProperties": False},
        "hosts": {"type": "object", "additionalProperties": tables["hosts.*"]},
    }
    return {
        "$schema": DRAFT,
        "title": "cockpit.toml",
        "description": "The run file of cockpit. Relative paths start at its folder.",
        "type": "object",
        "properties": {name: {"description": TOP[name], **shapes[name]} for name in SECTIONS},
        "required": ["run"],
        "additionalProperties": False,
    }


def _key(keys: str, does: str) -> Shape:
    return {
        "description": f"{does[:1].upper()}{does[1:]} ({keys}).",
        **_KEYS,
        "default": keys.split(),
    }


def _table(name: str) -> Shape:
    """Return one table's shape; what lies in tables below it is put in afterwards."""
    raw = TABLES[name].model_json_schema(mode="validation")
    properties = {
        key: _setting(name, key, shape, TABLES[name])
        for key, shape in raw["properties"].items()
        if key in fields_of(TABLES[name])
    }
    shape: Shape = {"type": "object", "properties": properties, "additionalProperties": False}
    if raw.get("required"):
        shape["required"] = raw["required"]
    return shape


def _setting(table: str, key: str, raw: Shape, model: type[BaseModel]) -> Shape:
    shape = _plain(raw)
    default = model.model_fields[fields_of(model)[key]].default
    shape.pop("default", None)
    described = meaning(model, key)
    if "default:" in described:  # it follows from other settings: said in words
        default = None
    if isinstance(default, float) and shape.get("anyOf") == DURATION_SCHEMA["anyOf"]:
        shape["default"] = duration_text(default)
    elif isinstance(default, str | bool | int | float):
        shape["default"] = default
    elif isinstance(default, tuple):
        shape["default"] = list(default)
    path = f"{table}.{key}"
    shape = WIDER.get(path, shape) | _limits(path)
    return {"description": described, **shape}


def _plain(raw: Shape) -> Shape:
    """Return a shape without titles, and without null, which TOML has not."""
    shape = {name: value for name, value in raw.items() if name != "title"}
    kinds = [_plain(each) for each in shape.get("anyOf", ()) if each != {"type": "null"}]
    if kinds:
        del shape["anyOf"]
        shape |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return shape


def _limits(path: str) -> Shape:
    """Return what the model's types do not say of a setting: how it is spelled."""
    if path == "run.name":
        return {"pattern": f"^{NAME.pattern}$"}
    return {"pattern": f"^{VARIABLE.pattern}$"} if path.endswith("_env") else {}


def _put(setting: Shape, table: Shape) -> None:
    """Let a setting be the table that it names: one, or each of a list."""
    listed = setting.get("type") == "array"
    for word in ("$ref", "allOf", "anyOf", "items", "default"):
        setting.pop(word, None)
    setting |= {"type": "array", "items": table} if listed else table
