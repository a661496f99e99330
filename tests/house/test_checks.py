"""Every check of a plan has a row, and every row is whole and used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.model.check_rows import EVERY, CheckRow, check_rows
from cockpit.model.plan import Basis, Check, Level
from cockpit.text.checks import blocked, finding, passed, warned

ROOT = Path(__file__).resolve().parents[2]
HOME = "cockpit/model/check_rows.py"
ROWS = check_rows()
LEVELS = {"passed": Level.PASS, "warned": Level.WARN, "blocked": Level.BLOCK}
BY_TIER = {"lacking": frozenset({Level.WARN, Level.BLOCK})}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module of the house with its tree, but for the rows themselves."""
    for path in sorted((ROOT / "cockpit").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name != HOME:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


TREES = dict(trees())


def row_in(node: ast.AST) -> str | None:
    """The row that an expression names: ``JOB`` of ``rows.JOB``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "rows" and node.attr in ROWS else None
    return None


def direct_calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Yield where a check is made of a row by name: where, the function, and the call."""
    known = {*LEVELS, *BY_TIER, "finding"}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in known and any(row_in(each) for each in node.args[:2]):
                yield f"{name}:{node.lineno}", node.func.id, node


CALLS = list(direct_calls())


def row_of(call: ast.Call) -> str:
    """The row that a call makes a check of."""
    return next(filter(None, map(row_in, call.args[:2])))


def test_no_check_is_made_without_a_row() -> None:
    made = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == Check.__name__
    ]
    assert made == [], "name a row of cockpit/model/check_rows.py"


def test_every_row_that_is_named_is_there_and_every_row_is_named() -> None:
    named = {
        node.attr
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "rows"
        and node.attr.isupper()
    }
    assert named - set(ROWS) == set(), "no such row"
    assert set(ROWS) - named == set(), "nothing makes a check of these rows"


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_every_part(name: str) -> None:
    row = ROWS[name]
    verbs = {entry.verb for entry in TABLE}
    assert row.id and row.means and row.asked and row.basis
    assert row.levels, "it neither passes, warns nor blocks"
    assert row.asked == EVERY or set(row.asked) <= verbs
    assert row.blocks or not row.approvable, "what does not block is not approved"
    assert all("|" not in text for text in (row.means, row.warns, row.blocks))


def test_no_two_rows_say_the_same_of_one_action() -> None:
    said = [
        (row.id, verb, row.approvable, row.means) for row in ROWS.values() for verb in row.asked
    ]
    assert len(said) == len(set(said))


def levels_made(function: str, row: CheckRow) -> frozenset[Level]:
    """The levels that a call of this function can give a check of this row."""
    if function == "finding":
        return row.levels if len(row.levels) == 1 else frozenset()
    return BY_TIER[function] if function in BY_TIER else frozenset({LEVELS[function]})


def test_a_check_has_a_level_and_a_basis_of_its_row() -> None:
    assert len(CALLS) > 300
    for where, function, call in CALLS:
        row = ROWS[row_of(call)]
        made = levels_made(function, row)
        assert made and made <= row.levels, f"{where}: not a level of the row"
        for each in call.args:
            if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "Basis":
                assert Basis[each.attr] in row.basis, f"{where}: not a basis of the row"


def test_every_level_of_a_row_is_used() -> None:
    """A row that is handed on (to a question, to a choice of functions) may have any of its own."""
    used: dict[str, set[Level]] = {name: set() for name in ROWS}
    elsewhere: set[int] = set()
    for _, function, call in CALLS:
        used[row_of(call)] |= levels_made(function, ROWS[row_of(call)])
        elsewhere |= {id(each) for each in call.args[:2]}
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    elsewhere |= {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr == "id"}
    for node in nodes:
        handed = row_in(node)
        if handed is not None and id(node) not in elsewhere:
            used[handed] |= ROWS[handed].levels
    assert {name: left for name, row in ROWS.items() if (left := row.levels - used[name])} == {}


def test_weight_and_approval_come_from_the_row() -> None:
    row = CheckRow("a:*", ("stop",), "it is so", blocks="it is not", approvable=True,
                   basis=(Basis.RECORDED, Basis.INFERRED))  # fmt: skip
    there, not_there = passed(row, "yes"), blocked(row, "no", Basis.INFERRED, 3)
    assert (there.level, there.basis, there.overridable) == (Level.PASS, Basis.RECORDED, False)
    assert (not_there.level, not_there.basis, not_there.overridable) == (
        Level.BLOCK,
        Basis.INFERRED,
        True,
    )
    assert not_there.value == "3"
    alone = CheckRow("b:*", ("stop",), "it is so", warns="always", passes=False, about_acting=True)
    told = finding(alone, "so it is", of="one", moves=True)
    assert (told.id, told.level, told.about_acting, told.moves) == ("b:one", Level.WARN, True, True)
    assert warned(alone, "so it is").level is Level.WARN
    with pytest.raises(ValueError, match="unpack"):
        finding(row, "which of the two?")
