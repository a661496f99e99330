"""``make trainers``: real trainers, and every fact that the cockpit tells of them, compared."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.trainers.facts import Fact
from tests.trainers.lives import LIVES
from tests.trainers.world import TRAINERS, Trainer, World, living

AT_ONCE = 3


def main() -> int:
    """Live every life of every trainer; print the table; return 1 if a fact is wrong."""
    parser = argparse.ArgumentParser(prog="tests.trainers", description=main.__doc__)
    parser.add_argument("--python", type=Path, default=Path(".trainers/bin/python"))
    parser.add_argument("--into", type=Path, default=Path(".trainers/runs"))
    parser.add_argument("--only", nargs="*", default=[], help="names of trainers or lives")
    asked = parser.parse_args()
    began = time.monotonic()
    wanted = [
        (trainer, life)
        for life in LIVES
        for trainer in TRAINERS
        if _named(trainer.name, life, asked.only)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [
            pool.submit(_lived, trainer, life, asked.into.absolute(), asked.python.absolute())
            for trainer, life in wanted
        ]
        facts = [fact for task in tasks for fact in task.result()]
    for line in table(facts):
        print(line)
    wrong = sum(not fact.ok for fact in facts)
    print(f"{len(facts)} facts, {wrong} wrong, in {time.monotonic() - began:.0f} s")
    return 1 if wrong or not facts else 0


def _named(trainer: str, life: str, only: Sequence[str]) -> bool:
    trainers, lives = {each.name for each in TRAINERS} & {*only}, LIVES.keys() & {*only}
    return (not trainers or trainer in trainers) and (not lives or life in lives)


def _lived(trainer: Trainer, life: str, into: Path, python: Path) -> list[Fact]:
    """Live one life; one that could not be lived to its end is a wrong fact."""
    facts: list[Fact] = []
    try:
        with living(World(into / f"{trainer.name}-{life}", trainer, python)) as world:
            facts.extend(LIVES[life](world))
    except Exception as error:  # noqa: BLE001 - told in the table, with the others
        said = f"{type(error).__name__}: {error}"
        facts.append(Fact(trainer.name, life, "lived", False, "to its end", said))
    return facts


def table(facts: Sequence[Fact]) -> list[str]:
    """Return a line for each fact, with what was expected where it is wrong."""
    rows = [(each.trainer, each.situation, each.name) for each in facts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = []
    for fact, row in zip(facts, rows, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        verdict = "ok" if fact.ok else f"WRONG  expected {fact.expected}, got {fact.got}"
        lines.append(f"{cells}  {verdict}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
