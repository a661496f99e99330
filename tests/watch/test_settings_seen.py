"""Which execution a config describes, and that a cockpit that starts later knows the former one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cockpit.model.history import Settings
from cockpit.model.observed import Phase
from cockpit.store.memory import Configs, SettingsKept
from cockpit.store.store import Store
from cockpit.watch.runstate import SettingsSeen
from tests.rules.making import T0, job, seen, settings_of, tracker

OLD = job(id="1", started_at=T0)
NEW = job(id="2", started_at=T0 + 1000)


def told(rate: int, since: float, **more: Any) -> Any:
    return tracker(config={"lr": rate}, config_since=since, **more)


def rates(watched: SettingsSeen) -> tuple[str | None, str | None]:
    known = (watched.former, watched.present)
    former, present = (None if each is None else each.values["lr"] for each in known)
    return former, present


def watching() -> SettingsSeen:
    """Return what was seen of the old job and its config."""
    watched = SettingsSeen()
    watched.update(seen(T0 + 100, job=OLD, tracker=told(1, T0 + 30)))
    assert rates(watched) == (None, "1")
    return watched


def test_a_config_that_comes_before_its_job_is_seen_is_not_the_former_jobs() -> None:
    watched = watching()
    late = seen(T0 + 100, job=OLD)
    late = late.model_copy(update={"tracker": seen(T0 + 1100, tracker=told(2, T0 + 1030)).tracker})
    assert not watched.update(late) and rates(watched) == (None, "1")
    assert watched.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(watched) == ("1", "2")


def test_the_former_jobs_config_is_not_the_new_jobs() -> None:
    watched = watching()
    assert watched.update(seen(T0 + 1020, job=NEW, tracker=told(1, T0 + 30)))
    assert rates(watched) == ("1", None), "the new job has told none yet"


def test_a_config_from_before_the_job_is_a_former_ones_though_none_was_seen() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 1020, job=NEW, tracker=told(1, T0 + 30)))
    watched.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(watched) == ("1", "2")


@pytest.mark.parametrize(
    ("began", "sign", "looked", "known"),
    [
        (T0, T0 + 50, T0 + 60, True),
        (T0, T0 + 50, T0 + 40, False),  # the job was not looked at since
        (T0, None, T0 + 60, False),  # the tracker tells no time at all
        (None, T0 + 50, T0 + 60, False),  # the job tells no start, and was first seen after
    ],
)
def test_a_tracker_that_does_not_date_its_launches(
    began: float | None, sign: float | None, looked: float, known: bool
) -> None:
    watched = SettingsSeen()
    described = tracker(config={"lr": 1}, heartbeat_at=sign)
    watched.update(seen(looked, job=job(started_at=began), tracker=described))
    assert (watched.present is not None, watched.former) == (known, None)


def test_a_launch_that_begins_after_the_jobs_end_is_not_the_jobs() -> None:
    watched, over = SettingsSeen(), job(Phase.FAILED, started_at=T0, ended_at=T0 + 10)
    watched.update(seen(T0 + 200, job=over, tracker=told(1, T0 + 100)))
    assert rates(watched) == (None, None)


def test_without_a_named_job_each_launch_of_the_tracker_is_one() -> None:
    watched = SettingsSeen()
    for rate, since in ((1, T0), (1, T0), (2, T0 + 90)):
        watched.update(seen(T0 + 100, tracker=told(rate, since)), job_named=False)
    assert rates(watched) == ("1", "2")
    watched.update(seen(T0 + 100, tracker=tracker()), job_named=False)
    assert rates(watched) == ("1", "2"), "a look that tells nothing changes nothing"


def test_a_job_that_is_not_known_has_no_config() -> None:
    watched = SettingsSeen()
    assert not watched.update(seen(T0 + 100, tracker=told(1, T0)))


def test_what_the_job_shows_goes_before_the_trackers() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 60, job=job(config={"lr": 7}), tracker=told(1, T0 + 30)))
    assert rates(watched) == (None, "7")


def test_a_cockpit_that_starts_after_the_restart_knows_the_former_config(tmp_path: Path) -> None:
    watched, store = watching(), Store(tmp_path / "store.sqlite")
    kept = SettingsKept(store)
    assert kept.of("r") == Configs()
    kept.save("r", T0 + 100, Configs(watched.present, watched.former))
    kept.save("r", T0 + 50, Configs(None, None))
    again = SettingsSeen()
    again.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    again.recall(*kept.of("r"))
    assert rates(again) == ("1", "2"), "a look that came before the store's answer stays"
    first = SettingsSeen()
    first.recall(*kept.of("r"))
    first.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(first) == ("1", "2")
    store.close()


def test_what_the_store_knows_of_the_present_job_stays_the_present_ones() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 1200, job=NEW, tracker=tracker()))
    own = Settings(source="s", job=watched._whose, values={"lr": "2"})
    watched.recall(own, settings_of({"lr": 1}))
    assert rates(watched) == ("1", "2")
