"""Which settings the code reads: attribute reads on values of the run file's own types.

Types are followed by annotations, as far as names and attributes carry them: through parameters,
fields, returns, assignments and loops. It is enough for this code, and ``test_settings`` fails
on a setting whose only reader it cannot see.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from cockpit.config.check import TABLES
from cockpit.model.run import CockpitFile

MODELS: dict[str, type[BaseModel]] = {
    **{model.__name__: model for model in TABLES.values()},
    CockpitFile.__name__: CockpitFile,
}
Names = dict[str, set[str]]
Read = tuple[str, str]
"""A model's name and the field that is read of it."""


def models_in(annotation: object) -> set[str]:
    """Return the models that an annotation names, in whatever container."""
    text = _written(annotation) if isinstance(annotation, ast.AST) else str(annotation)
    return set(re.findall(r"\w+", text)) & MODELS.keys()


@cache
def _written(annotation: ast.AST) -> str:
    return ast.unparse(annotation)


FIELDS: dict[str, Names] = {
    name: {key: models_in(field.annotation) for key, field in model.model_fields.items()}
    for name, model in MODELS.items()
}


def reads_of(files: Iterable[Path]) -> set[Read]:
    """Return every field of a model of the run file that the files read.

    Without the garbage collector: it would go through their millions of nodes again and again.
    """
    gc.disable()
    try:
        return _reads_of(files)
    finally:
        gc.enable()


def _reads_of(files: Iterable[Path]) -> set[Read]:
    shared: Names = defaultdict(set)
    modules = []
    for path in files:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for name, found in _declared(nodes):
            shared[name] |= found
        modules.append(_Module(nodes, shared))
    for module in modules:
        module.learn()
    for module in modules:
        for name, found in module.attributes():
            shared[name] |= found
    for module in modules:
        module.learn()
    return {read for module in modules for read in module.reads()}


def _declared(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, set[str]]]:
    """Yield what functions return and what classes hold: it can be used in other files."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.name, models_in(node.returns)
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id, models_in(each.annotation)


TEACHES = (
    *(ast.arg, ast.AnnAssign, ast.Assign, ast.NamedExpr),
    *(ast.For, ast.AsyncFor, ast.comprehension),
)
"""What tells of which model a name is: few of all nodes, and gone through four times."""


class _Module:
    def __init__(self, nodes: Iterable[ast.AST], shared: Names) -> None:
        self._teach: list[ast.AST] = []
        self._read: list[ast.Attribute] = []
        for node in nodes:
            if isinstance(node, TEACHES):
                self._teach.append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._read.append(node)
        self._shared = shared
        self._names: Names = defaultdict(set)

    def learn(self) -> None:
        for _ in range(2):  # a name may be made from one that stands below it
            for node in self._teach:
                self._learn(node)

    def attributes(self) -> Iterator[tuple[str, set[str]]]:
        """Yield what attributes of objects were found to hold."""
        for name, found in self._names.items():
            if name.startswith(".") and found:
                yield name[1:], found

    def reads(self) -> Iterator[Read]:
        for node in self._read:
            for model in self._models(node.value):
                if node.attr in FIELDS[model]:
                    yield model, node.attr

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg) and node.annotation is not None:
            self._names[node.arg] |= models_in(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            self._bind(node.target, models_in(node.annotation))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, self._models(node.value))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(node.target, self._models(node.iter))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, its in zip(target.elts, value.elts, strict=False):
                self._assign(one, its)
        else:
            self._bind(target, self._models(value))

    def _bind(self, target: ast.expr, found: set[str]) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._names[node.id] |= found
            elif isinstance(node, ast.Attribute):
                self._names[f".{node.attr}"] |= found

    def _models(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            return self._names[node.id]
        if isinstance(node, ast.Attribute):
            own = self._models(node.value)
            if fields := [FIELDS[model][node.attr] for model in own if node.attr in FIELDS[model]]:
                return set().union(*fields)
            return self._names[f".{node.attr}"] | self._shared.get(node.attr, set())
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Subscript | ast.Await | ast.Starred):
            return self._models(node.value)
        parts = node.values if isinstance(node, ast.BoolOp) else []
        parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else parts
        return set().union(*map(self._models, parts))

    def _called(self, node: ast.Call) -> set[str]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Name):
            name = node.func.id
        if name in MODELS:
            return {name}
        if found := self._shared.get(name, set()):
            return found
        passed_on = name in ("zip", "enumerate", "sorted", "reversed", "values", "items", "next")
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else node.args
        return set().union(*map(self._models, inner)) if passed_on else set()
