"""When an owner counts as hung: its own beats, counted by whoever looks on, whatever clocks do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.clock import Moment
from cockpit.store.ownership import BEAT, Owner, Ownership
from cockpit.store.store import Store

ADA = Owner(name="ada", host="here", pid=10, ticks=1, boot="this boot")
START = Moment(1_800_000_000.0, 500.0, "this boot")
CADENCE = 900.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def seen_from(path: Path) -> Ownership:
    return Ownership(Store(path), lambda owner: True)


def owning(path: Path) -> Ownership:
    own = seen_from(path)
    assert own.claim("r", ADA, START, CADENCE) is None
    own.beat(ADA, START, BEAT)
    return own


def test_three_missed_beats_are_a_hang_long_before_the_cadence(path: Path) -> None:
    owning(path)
    cockpit, found = seen_from(path), []
    for second in range(0, 20, 2):
        found.append(cockpit.owner("r", START + second) is not None)
    assert found == [True] * 8 + [False] * 2
    (hung,) = cockpit.hung
    assert hung.line == "watch of ada on here (pid 10) hung since 2027-01-15 08:00 UTC"


def test_a_beat_and_it_is_back(path: Path) -> None:
    watch, cockpit = owning(path), seen_from(path)
    for second in range(0, 40, 2):
        cockpit.owner("r", START + second)
    assert cockpit.hung
    cockpit.stand_in(cockpit.hung[0], "bob (cockpit)", START + 40)
    beaten = watch.beat(ADA, START + 41, BEAT)
    assert beaten.runs == {"r"}
    assert beaten.stood_in is not None and beaten.stood_in.who == "bob (cockpit)"
    assert (beaten.stood_in.since, beaten.stood_in.at) == (START.wall, START.wall + 40)
    assert watch.beat(ADA, START + 46, BEAT).stood_in is None
    assert cockpit.owner("r", START + 46) is not None and not cockpit.hung


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_a_clock_that_is_set_makes_nobody_hang(path: Path, jump: float) -> None:
    owning(path)
    cockpit = seen_from(path)
    assert cockpit.owner("r", START) is not None
    steady = START + 2
    moved = Moment(steady.wall + jump, steady.steady, steady.boot)
    assert cockpit.owner("r", moved) is not None
    assert seen_from(path).owner("r", moved) is not None


def test_a_laptop_that_slept_or_stood_still_gives_the_owner_time_to_beat(path: Path) -> None:
    owning(path)
    cockpit = seen_from(path)
    for second in (0.0, 2.0, 4.0, 30000.0, 30002.0):
        assert cockpit.owner("r", START + second) is not None, second
    assert cockpit.owner("r", START + 30010) is None


def test_a_newcomer_waits_for_one_more_beat_before_it_takes_a_run(path: Path) -> None:
    owning(path)
    bob = ADA.model_copy(update={"name": "bob", "pid": 11})
    late, newcomer = START + 60, seen_from(path)
    owned = newcomer.claim("r", bob, late, CADENCE)
    assert owned is not None and newcomer.doubt(owned, late) == pytest.approx(BEAT)
    assert newcomer.claim("r", bob, late + BEAT, CADENCE) is None
    assert [hung.owner for hung in newcomer.replaced.values()] == [ADA]
    taken = seen_from(path).refresh("r", ADA, late + 9, CADENCE)
    assert taken is not None and taken.owner == bob


def test_one_that_has_just_beaten_is_not_doubted(path: Path) -> None:
    owning(path)
    newcomer = seen_from(path)
    owned = newcomer.claim("r", ADA.model_copy(update={"pid": 11}), START + 4, CADENCE)
    assert owned is not None and newcomer.doubt(owned, START + 4) == 0.0
