"""The health of a host: a real one, and what others have been seen to answer."""

from __future__ import annotations

from cockpit.model.clock import OtherClock
from cockpit.platforms.local.finding import screens, sessions
from cockpit.platforms.local.sight import sight_of


def test_a_clock_is_off_only_beyond_what_the_trip_can_explain() -> None:
    def ahead(now: float) -> float:
        return OtherClock().heed(now, 9000.0, 9004.0)

    assert [ahead(now) for now in (8998, 8999, 9000, 9004, 9006)] == [0.0] * 5
    assert (ahead(12604), ahead(5400)) == (3600.0, -3600.0)


def test_a_clock_is_as_it_was_found_while_no_answer_tells_a_difference() -> None:
    clock = OtherClock()
    assert clock.heed(12_604.0, 9000.0, 9004.0) == 3600.0
    assert clock.heed(12_702.0, 9100.0, 9101.5) == 3600.0, "the trip was shorter"
    assert clock.heed(13_200.0, 9200.0, 9200.0) == 4000.0, "it was set"
    assert clock.heed(9301.0, 9300.0, 9300.0) == 0.0


def test_a_slow_answer_does_not_move_the_times_of_a_host() -> None:
    """A host that is 10 s ahead seemed 3 s ahead, or right, after an answer that took longer."""
    clock = OtherClock()
    assert clock.heed(9011.0, 9000.0, 9001.0) == 10.0
    assert clock.heed(9115.0, 9100.0, 9112.0) == 10.0
    assert clock.heed(9214.0, 9200.0, 9216.0) == 10.0
    assert clock.heed(9300.5, 9300.0, 9301.0) == 0.0, "it was set"


def test_a_host_an_hour_ahead_is_told_by_our_clock() -> None:
    about = {"pid": 1, "now": 8600.0, "uid": 0, "hz": 100, "btime": 1000}
    listed = [[7, 1, 7, 7, 0, "S", 600000, ["python", "train.py"], "/", None, None, []]]
    host = sight_of(about, listed, None, 5000.0, 3600.0)
    assert host.processes[7].argv == ("python", "train.py")
    assert host.started_at(host.processes[7]) == 7000.0
    assert host.ours(7000.0) == 3400.0


def test_what_tmux_and_screen_say() -> None:
    found = sessions("1795349751|19119|0|||a|b\n1|2|1|7||dead\n1|3|1||9|x\nno server running\n")
    assert [(each.name, each.pid, each.dead, each.status) for each in found] == [
        ("a|b", 19119, False, None),
        ("dead", 2, True, 7),
        ("x", 3, True, -9),
    ]
    assert sessions("error connecting to /tmp/tmux-0/default (No such file or directory)\n") == []
    text = "There are screens on:\n\t12.train\t(Detached)\n\t13.old\t(Dead ???)\n1 Socket in /x.\n"
    assert [each.name for each in screens(text)] == ["train"]
    dated = "\t7.a b\t(11/22/26 15:42:56)\t(Attached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    assert [(each.name, each.pid) for each in screens(dated)] == [("a b", 7)]
