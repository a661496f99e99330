"""Killed at every point, what the records say afterwards is so: nothing twice, nothing false."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import Action
from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.stop import Stop
from cockpit.model.records import EventEntry
from tests.actions.launch_place import Place, approve, save
from tests.actions.resting import RUN, Rest, job


class Killed(BaseException):
    """The process dies here."""


def _die_at(fatal: str) -> Callable[[str], None]:
    def at(point: str) -> None:
        if point == fatal:
            raise Killed

    return at


async def _cut_short(make: Callable[[Path], Rest], folder: Path, fatal: str) -> Rest:
    """Act, die at a point, and let another cockpit recover twice; return the world."""
    world = make(folder)
    plan = await world.plan()
    with pytest.raises(Killed):
        await world.another(at=_die_at(fatal)).act(world.request(), plan.words)
    await world.another().recover(RUN)
    entries = list(world.book.entries)
    await world.another().recover(RUN)
    assert world.book.entries == entries, f"{fatal}: said again"
    return world


async def _points(make: Callable[[Path], Rest], folder: Path) -> list[str]:
    passed: list[str] = []
    world = make(folder)
    plan = await world.plan()
    await world.another(at=passed.append).act(world.request(), plan.words)
    return [point for point in passed if ":" in point]


def _world(folder: Path, action: Action, **spec: Any) -> Rest:
    return Rest(folder, action, **spec)


def _stopping(folder: Path) -> Rest:
    world = _world(folder, Stop())
    world.save(100, 200)
    world.platform.living = (job("pid:7"),)
    return world


async def test_a_stop(tmp_path: Path) -> None:
    points = await _points(_stopping, tmp_path / "all")
    assert {"stop:begun", "stop:did", "log:did"} <= set(points)
    for number, fatal in enumerate(points):
        world = await _cut_short(_stopping, tmp_path / str(number), fatal)
        titles = [entry.title for entry in world.book.entries]
        gone = not world.platform.living
        assert titles == (["stop"] if gone else []), fatal
        assert gone == (world.platform.stopped == ["pid:7"]), fatal


def _cleaning(folder: Path) -> Rest:
    world = _world(folder, Retain())
    world.save(*range(100, 2000, 100))
    return world


async def test_a_clean_up(tmp_path: Path) -> None:
    points = await _points(_cleaning, tmp_path / "all")
    for number, fatal in enumerate(points):
        world = await _cut_short(_cleaning, tmp_path / str(number), fatal)
        deleted = 19 - len(list(world.root.glob("step-*/metadata.json")))
        (entry,) = world.book.entries
        said = [line for line in entry.evidence.split("\n") if line.startswith("step ")]
        assert len(said) == deleted, (fatal, entry)
        whole = "interrupted" not in entry.status
        assert whole == (deleted > 0), (fatal, entry.status)


async def test_a_relaunch(tmp_path: Path) -> None:
    def make(folder: Path) -> Place:
        place = Place(folder)
        save(place.root / "checkpoints", 80)
        return place

    async def act(place: Place) -> None:
        blocks = [c.id for c in (await place.plan()).checks if c.stands_in_the_way]
        await place.act(approvals=tuple(map(approve, blocks)))

    passed: list[str] = []
    whole = make(tmp_path / "all")
    whole.at = passed.append
    await act(whole)
    commits = [each for each in whole.book.commits if "relaunch" in each]
    assert len(set(commits)) == len(commits), "each commit has a name of its own"
    for number, fatal in enumerate(point for point in passed if ":" in point):
        place = make(tmp_path / str(number))
        place.at = _die_at(fatal)
        with pytest.raises(Killed):
            await act(place)
        place.at = lambda point: None
        await place.service.recover("toy")
        await place.service.recover("toy")
        _relaunch_is_told(place.book.events, place.platform.living, fatal)


def _relaunch_is_told(events: list[EventEntry], living: list[str], fatal: str) -> None:
    titles = [entry.title for entry in events]
    assert len(set(titles)) == len(titles), (fatal, titles)
    started = [title for title in titles if title.startswith("relaunch toy-i")]
    assert started == [f"relaunch {name}" for name in living], (fatal, titles)
    if living:
        assert not any("did not happen" in title for title in titles), (fatal, titles)
        assert "runs as" in events[-1].status, fatal
