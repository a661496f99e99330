"""Every table that a run file may hold is known by its name: messages are made from the names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from cockpit.config.check import DERIVED, TABLES
from cockpit.model.run import CockpitFile


def models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from models_in(part)


def tables_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    fields = (field for name, field in model.model_fields.items() if name not in DERIVED)
    below = {each for field in fields for each in models_in(field.annotation)}
    return {model, *(table for each in below for table in tables_of(each))}


def test_every_table_of_the_run_file_has_its_name() -> None:
    named = {CockpitFile, *TABLES.values()}
    assert {table.__name__ for table in tables_of(CockpitFile) - named} == set()
