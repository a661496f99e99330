"""The moments of a run that are kept: which, how small, and for how long."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from cockpit.model.observed import Phase
from cockpit.model.report import RunReport, Verdict
from cockpit.store import memory
from cockpit.store.memory import KEEP_FOR, WHOLE_FOR, Pasts
from cockpit.store.schema import MIGRATIONS
from cockpit.store.store import Store
from tests.store.test_memory import a_report

NOW = 1_700_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def at(moment: float, **changes: object) -> RunReport:
    return a_report(moment).model_copy(update=changes)


def rows(store: Store) -> list[tuple[float, float | None, int]]:
    with store.reading() as connection:
        return connection.execute(
            "SELECT at, base, length(document) FROM pasts ORDER BY at"
        ).fetchall()


def test_a_moment_comes_back_as_it_was(store: Store) -> None:
    kept = Pasts(store)
    first, second = at(NOW, next_action="look"), at(NOW + 60, next_action="seal it")
    assert kept.keep("k", first, "well", 60) and kept.keep("k", second, "sick", 60)
    found = kept.at("k", NOW + 59)
    assert found is not None and found.report is not None
    assert found.report.document() == first.document()
    found = kept.at("k", NOW + 1e6)
    assert found is not None and found.report is not None
    assert (found.at, found.report.document()) == (NOW + 60, second.document())
    assert kept.at("k", NOW - 1) is None and kept.at("other", NOW) is None


def test_what_changed_is_kept_at_once_and_the_rest_once_a_cadence_by_one_cockpit(
    store: Store,
) -> None:
    kept = Pasts(store)
    looks = [(0, "a"), (10, "a"), (12, "b"), (13, "b"), (45, "b"), (46, "a")]
    took = [kept.keep("k", at(NOW + after), face, 60) for after, face in looks]
    assert took == [True, False, True, False, True, True]
    assert not kept.keep("k", at(NOW + 46), "c", 60), "one report for a moment"
    moments = [(each.at - NOW, each.changed) for each in kept.moments("k")]
    assert moments == [(0, True), (12, True), (45, False), (46, True)]


def test_a_clock_that_was_ahead_for_a_while_holds_nothing_up(store: Store) -> None:
    kept = Pasts(store)
    kept.keep("k", at(NOW + 1e7), "a", 60)
    assert kept.keep("k", at(NOW), "a", 60) and kept.keep("k", at(NOW + 60), "a", 60)
    found = kept.at("k", NOW + 61)
    assert found is not None and found.at == NOW + 60 and found.report is not None


def test_a_moment_takes_a_part_of_its_base(store: Store) -> None:
    kept = Pasts(store)
    long = at(NOW, next_action=" ".join(f"word{n * 7919 % 1000}" for n in range(500)))
    kept.keep("k", long, "a", 60)
    kept.keep("k", long.model_copy(update={"checked_at": NOW + 60}), "a", 60)
    (_, none, whole), (_, base, part) = rows(store)
    assert none is None and base == NOW and part * 10 < whole
    other = " ".join(f"else{n * 104729 % 999983}" for n in range(500))
    kept.keep("k", at(NOW + 120, next_action=other), "a", 60)
    assert rows(store)[-1][1] is None, "what is quite another is a base of its own"


def test_old_moments_thin_out_to_one_an_hour_but_changes_stay(store: Store) -> None:
    kept = Pasts(store)
    begin = NOW - WHOLE_FOR - 7200 - NOW % 3600
    for minute in range(0, 120, 10):
        kept.keep("k", at(begin + minute * 60), "b" if minute == 50 else "a", 60)
    for minute in range(0, 60, 10):
        kept.keep("k", at(NOW - 3600 + minute * 60), "a", 60)
    kept.prune(NOW)
    old = [(each.at - begin) / 60 for each in kept.moments("k") if each.at < NOW - WHOLE_FOR]
    assert old == [0, 50, 60]
    assert len([each for each in kept.moments("k") if each.at >= NOW - 3600]) == 6
    found = kept.at("k", begin + 3600)
    assert found is not None and found.report is not None
    kept.prune(NOW + KEEP_FOR + 1)
    assert kept.moments("k") == ()


def test_a_past_that_is_too_large_loses_its_oldest_moments(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Pasts(store)
    for minute in range(40):
        kept.keep("k", at(NOW + minute * 3600 * 2), "a", 60)
    kept.keep("small", at(NOW), "a", 60)
    total = sum(each[2] for each in rows(store))
    monkeypatch.setattr(memory, "MOST_OF_RUN", total // 2)
    kept.prune(NOW)
    left = [each.at for each in kept.moments("k")]
    assert 5 < len(left) < 40 and left[-1] == NOW + 39 * 7200
    for moment in left:
        found = kept.at("k", moment)
        assert found is not None and found.report is not None, "its base was kept with it"
    assert len(kept.moments("small")) == 1


def test_what_is_torn_or_of_another_version_is_no_report(store: Store) -> None:
    kept = Pasts(store)
    kept.keep("k", at(NOW), "a", 60)
    kept.keep("k", at(NOW + 60), "b", 60)
    with store.writing() as connection:
        connection.execute("UPDATE pasts SET document = x'0011' WHERE at = ?", (NOW,))
    for moment in (NOW, NOW + 60):
        found = kept.at("k", moment)
        assert found is not None and (found.at, found.report) == (moment, None)


def test_a_store_from_before_gets_its_table_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        before = next(n for n, step in enumerate(MIGRATIONS) if "TABLE pasts" in step[0])
        made = [
            re.match(r"CREATE TABLE (\w+)", line) for step in MIGRATIONS[before:] for line in step
        ]
        for found in filter(None, made):
            connection.execute(f"DROP TABLE {found[1]}")
        connection.execute("ALTER TABLE phases DROP COLUMN accelerators")
        connection.execute(f"PRAGMA user_version = {before}")
        connection.execute("INSERT INTO phases (run, at, phase) VALUES ('k', 1, 'running')")
    store = Store(path)
    assert Pasts(store).keep("k", at(NOW, verdict=Verdict.CRITICAL), "a", 60)
    with store.reading() as connection:
        assert connection.execute("SELECT phase FROM phases").fetchall() == [(Phase.RUNNING,)]
