"""Which runs the fleet shows: the filter's grammar, groups, favourites, and what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.app.session_files import KeptView, ViewFile
from cockpit.model.report import GROUPS, SORTS, RunReport, Verdict, View
from cockpit.model.run import JobSpec
from screens.fleet import FleetScreen, arranged, matching
from tests.screens.stand_in import StandIn, cockpit, screen_of, text_of, typed
from tests.widgets import reports as made


def a_run(name: str, verdict: Verdict = Verdict.HEALTHY, **spec: object) -> RunReport:
    report = made.report(name, verdict)
    return report.model_copy(update={"spec": report.spec.model_copy(update=spec)})


RUNS = (
    made.failed("torn"),
    a_run("well-a", group="sweep", dri="bob", job=JobSpec(kind="iris", cluster="marin")),
    a_run("well-b", dri="ada", job=JobSpec(kind="slurm", host="login1")),
    a_run("over", Verdict.FINISHED, group="sweep"),
)


def names(words: str, **view: object) -> list[str]:
    return [each.name for each in matching(RUNS, View(filter=words, **view))]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", ["torn", "well-a", "well-b", "over"]),
        ("state:failed", ["torn"]),
        ("state:RUN", ["well-a", "well-b", "over"]),
        ("state:critical", ["torn"]),
        ("alert:c-01", ["torn"]),
        ("alert:checkpoint", ["torn"]),
        ("dri:bob", ["well-a"]),
        ("group:sweep", ["well-a", "over"]),
        ("cluster:marin", ["well-a"]),
        ("cluster:login", ["well-b"]),
        ("group:sweep state:finished", ["over"]),
        ("!group:sweep", ["torn", "well-b"]),
        ("well !dri:bob", ["well-b"]),
        ("state:", ["torn", "well-a", "well-b", "over"]),
        ("stat:failed", []),
        ("state:sleeping", []),
    ],
)
def test_the_words_of_a_filter_are_all_asked_for(words: str, found: list[str]) -> None:
    assert names(words) == found


@given(st.text(max_size=30))
def test_property_any_filter_is_read(words: str) -> None:
    assert set(names(words)) <= {each.name for each in RUNS}


def test_finished_runs_can_be_hidden_and_favourites_follow_who_needs_a_person() -> None:
    assert names("", hide_finished=True) == ["torn", "well-a", "well-b"]
    plain = [each.name for each in arranged(RUNS, View()).runs]
    liked = [each.name for each in arranged(RUNS, View(favourites=("well-b", "gone"))).runs]
    assert plain == ["torn", "over", "well-a", "well-b"]
    assert liked == ["torn", "well-b", "over", "well-a"]


def test_a_run_that_is_not_read_yet_stands_where_it_will_if_it_is_well() -> None:
    waits = made.report("well-b", Verdict.UNKNOWN, not_read_yet="job: not asked")
    read = [a_run(name) for name in ("well-a", "well-b", "well-c")]
    before = arranged([made.failed("torn"), read[0], waits, read[2]], View()).runs
    after = arranged([made.failed("torn"), *read], View()).runs
    assert [each.name for each in before] == [each.name for each in after]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("sort", SORTS)
def test_every_run_stands_in_one_group(group: str, sort: str) -> None:
    shown = arranged(RUNS, View(group=group, sort=sort))
    assert sorted(each.name for each in shown.runs) == sorted(each.name for each in RUNS)
    assert bool(group) == bool(shown.groups)
    assert not group or sum(count for _, count in shown.groups) == len(RUNS)


async def test_group_hide_favourite_and_a_filter_that_is_none_stand_on_the_screen() -> None:
    app = cockpit(*RUNS)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("v", "v", "v")
        assert "group sweep · 2 runs ─" in text_of(app)
        await pilot.press("f")
        assert "over" not in text_of(app) and "3 of 4" in text_of(app)
        await pilot.press("G", "*")
        assert "┍▸● well-a ★ ━" in text_of(app)
        await pilot.press("/", *"stat:x", "enter")
        shown = text_of(app)
        assert 'no filter "stat:"; there are state:' in shown and "esc shows all 4" in shown
        assert "hides ■ 1" in shown and screen_of(app, FleetScreen).selected is None
        await pilot.press("escape", "v")
        assert app.view == View(
            hide_finished=True, favourites=("well-a",), selected="well-a", critical=("torn",)
        )


@pytest.mark.parametrize(
    ("count", "width", "height"), [(1, 80, 24), (7, 200, 50), (24, 120, 40), (24, 300, 80)]
)
async def test_a_burst_of_keys_at_any_size_keeps_a_run_selected(
    count: int, width: int, height: int
) -> None:
    runs = [
        made.failed(f"r-{at:02d}") if at % 9 == 4 else a_run(f"r-{at:02d}", group="abc"[at % 3])
        for at in range(count)
    ]
    app = cockpit(*runs)
    async with app.run_test(size=(width, height)) as pilot:
        await typed(pilot, "vjjfvlk")
        await pilot.press("*", "/")
        await typed(pilot, "r-0")
        await pilot.press("enter")
        await typed(pilot, "jGfvgs")
        fleet = screen_of(app, FleetScreen)
        assert fleet.selected in [each.name for each in fleet.shown]
        assert f"r-{0:02d}" in text_of(app) and "… 0 more" not in text_of(app)


async def test_the_next_session_begins_where_this_one_ended_unless_a_run_became_critical(
    tmp_path: Path,
) -> None:
    views = ViewFile(tmp_path / "views", "/data/cockpit.toml")
    first = cockpit(*RUNS, views=views)
    async with first.run_test(size=(80, 24)) as pilot:
        await pilot.press("v", "j", "j")
    await first.stop_work()
    assert views.path.stat().st_mode & 0o777 == 0o600
    again = cockpit(*RUNS, views=views)
    async with again.run_test(size=(80, 24)):
        chosen = screen_of(again, FleetScreen).selected
        assert chosen == first.view.selected != "torn" and again.view.group == "cluster"
    engine = StandIn(*RUNS, made.diverged("other"))
    third = cockpit(engine=engine, views=views)
    async with third.run_test(size=(80, 24)):
        fleet = screen_of(third, FleetScreen)
        assert fleet.selected == fleet.shown[0].name != chosen


@pytest.mark.parametrize("words", [b"", b"{", b"[]", b'{"sort": "x"}', b"\xff\x00", b"{" * 99_999])
def test_what_was_kept_and_is_broken_is_a_plain_view(words: bytes, tmp_path: Path) -> None:
    views = ViewFile(tmp_path, "/data/cockpit.toml")
    views.path.write_bytes(words)
    assert views.load() == View()


async def test_where_nothing_can_be_kept_the_session_goes_on(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    kept = KeptView(ViewFile(blocked, "/data/cockpit.toml"), cockpit())
    kept.view = View(sort="name")
    await kept.save()
    assert kept.view == View(sort="name") and blocked.read_text() == ""
