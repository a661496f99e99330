"""Say what is wrong in a run file: every problem, in words, at its place.

A problem is a place (key path) and a sentence without the value, so that nothing private and
nothing unprintable can get into a message.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cockpit.config.lines import KeyPath
from cockpit.model.base import Frozen
from cockpit.model.run import (
    AgentsSpec,
    Auth,
    CheckpointSpec,
    CodeSpec,
    CustomLayout,
    Duration,
    FinalStepFrom,
    HostSpec,
    JobSpec,
    MetricNames,
    MonitorSpec,
    NotifySpec,
    RecordsSpec,
    Route,
    RunAgentsSpec,
    RunSpec,
    TeardownSpec,
    TensorboardSpec,
    Thresholds,
    TrackioSpec,
    UiSpec,
    WandbSpec,
)

M = TypeVar("M", bound=BaseModel)


class Trouble(NamedTuple):
    """One problem: where, and a sentence saying what, what was expected, what to do."""

    path: KeyPath
    text: str


class Settings(Frozen):
    """``[cockpit]``."""

    cadence: Duration = 15 * 60.0
    operator: str | None = None


TABLES: Mapping[str, type[BaseModel]] = {
    "cockpit": Settings,
    "run": RunSpec,
    "run.job": JobSpec,
    "run.job.auth": Auth,
    "run.wandb": WandbSpec,
    "run.wandb.metrics": MetricNames,
    "run.trackio": TrackioSpec,
    "run.trackio.metrics": MetricNames,
    "run.tensorboard": TensorboardSpec,
    "run.tensorboard.metrics": MetricNames,
    "run.checkpoints": CheckpointSpec,
    "run.checkpoints.custom": CustomLayout,
    "run.monitor": MonitorSpec,
    "run.records": RecordsSpec,
    "run.code": CodeSpec,
    "run.thresholds": Thresholds,
    "run.teardown": TeardownSpec,
    "run.final_step_from": FinalStepFrom,
    "run.agents": RunAgentsSpec,
    "notify": NotifySpec,
    "notify.routes": Route,
    "agents": AgentsSpec,
    "ui": UiSpec,
    "hosts.*": HostSpec,
}
"""Every table that may be written, and the keys it takes."""

DERIVED = frozenset((
    "escalation", "final_step_source", "final_step_told", "logs_of_others", "other_logs",
    "same_tracker", "own_files", "output_folders",
))  # fmt: skip
"""Fields of the model that the run file does not write."""

_EXPECTED = {
    "string_type": "expected text in quotes, such as {key} = {text}",
    "int_type": "expected a whole number, such as {key} = {number}",
    "int_from_float": "expected a whole number, such as {key} = {number}",
    "float_type": "expected a number, such as {key} = 0.25",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list, such as {key} = [{text}]",
    "dict_type": "expected a table, such as {key} = {{ … }}",
    "model_type": "expected a table, such as {key} = {{ … }}",
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
    "diagnostic": "*-eval*",
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
    return first["msg"] if template is None else _filled(template, path)


def _filled(template: str, path: KeyPath) -> str:
    key = next(part for part in reversed(path) if isinstance(part, str))
    example = _EXAMPLES.get(table_of(path), _EXAMPLES.get(key, "…"))
    text = example if example.isdigit() else f'"{example}"'
    number = example if example.isdigit() else "100"
    if isinstance(path[-1], int):
        text, number = f"[{text}]", f"[{number}]"
    return template.format(key=key, text=text, number=number)


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
    return [] if model is None else [name for name in model.model_fields if name not in DERIVED]
