from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judgement.clock import SetClock
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import MonitorValue
from cockpit.model.run import MonitorSpec, RunSpec
from cockpit.sources.monitor import Monitors, StateRead, read_state

NOW = 1_770_000_000.0
CADENCE = 570.0


def run_of(folder: Path, *, events: bool = False, **more: Any) -> RunSpec:
    spec = MonitorSpec(
        state=str(folder / "*_monitoring_state.json"),
        events=str(folder / "monitor.log") if events else None,
        cadence=more.pop("cadence", CADENCE),
    )
    return RunSpec(name="a", monitor=spec, **more)


def state(folder: Path, content: Any, *, at: float = NOW, name: str = "20260101-0000") -> Path:
    path = folder / f"{name}_monitoring_state.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (at, at))
    return path


def events(folder: Path) -> None:
    path = folder / "monitor.log"
    path.write_text("moves\n")
    os.utime(path, (NOW, NOW))


def iris(at: float, **more: Any) -> dict[str, Any]:
    return {"ts": int(at * 1000), "job_id": "/ada/toy", "restart_count": 0, **more}


async def look(run: RunSpec, source: Monitors | None = None) -> Facet[MonitorValue]:
    return (await (source or Monitors(FixedClock(NOW))).observe([run]))["a"]


def value_of(facet: Facet[MonitorValue]) -> MonitorValue:
    assert facet.value is not None, facet.error
    return facet.value


async def test_the_shape_with_ts_goes_by_ts_not_by_mtime(tmp_path: Path) -> None:
    path = state(tmp_path, iris(NOW - 3 * CADENCE, tunnel_session="tun", mcp_url="http://x"))
    value = value_of(await look(run_of(tmp_path)))
    assert (value.fresh, value.last_update) == (False, NOW - 3 * CADENCE)
    assert (value.job_id, value.restart_count, value.path) == ("/ada/toy", 0, str(path))
    assert value.tunnel_session == "tun" and value.server_session is None


async def test_the_shape_without_ts_goes_by_mtime(tmp_path: Path) -> None:
    ray = {"job_id": "ray-run-toy", "cluster": "c", "experiment": "e.py", "restart_count": 2}
    state(tmp_path, ray, at=NOW - CADENCE)
    value = value_of(await look(run_of(tmp_path)))
    assert (value.fresh, value.last_update, value.restart_count) == (True, NOW - CADENCE, 2)


@pytest.mark.parametrize(("age", "fresh"), [(2 * CADENCE, True), (2 * CADENCE + 1, False)])
async def test_two_cadences_are_the_line(tmp_path: Path, age: float, fresh: bool) -> None:
    state(tmp_path, iris(NOW - age))
    assert value_of(await look(run_of(tmp_path))).fresh is fresh


async def test_an_event_log_that_moves_keeps_a_quiet_state_file_fresh(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW - 9999))
    log = tmp_path / "monitor.log"
    log.write_text("checked\n")
    os.utime(log, (NOW - 30, NOW - 30))
    value = value_of(await look(run_of(tmp_path, events=True)))
    assert (value.fresh, value.last_update) == (True, NOW - 30)


async def test_the_last_stamped_line_counts_when_the_mtime_cannot_be_true(tmp_path: Path) -> None:
    stamp = datetime.fromtimestamp(NOW - 60, tz=UTC).isoformat()
    log = tmp_path / "monitor.log"
    log.write_text(f"{stamp} checked\n  more of it\n")
    os.utime(log, (NOW + 10 * CADENCE, NOW + 10 * CADENCE))
    value = value_of(await look(run_of(tmp_path, events=True)))
    assert (value.fresh, value.last_update) == (True, NOW - 60)


async def test_a_stamp_from_the_future_counts_by_mtime_and_is_noted(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW + 86400), at=NOW - 5 * CADENCE)
    value = value_of(await look(run_of(tmp_path)))
    assert (value.fresh, value.last_update) == (False, NOW - 5 * CADENCE)
    assert "future" in value.notes[0]


async def test_nothing_believable_is_stale_not_fresh_for_ever(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW + 86400), at=NOW + 86400)
    value = value_of(await look(run_of(tmp_path)))
    assert (value.fresh, value.last_update) == (False, None)


async def test_the_newest_file_wins_and_a_fresh_one_on_the_same_job_is_a_second_monitor(
    tmp_path: Path,
) -> None:
    state(tmp_path, iris(NOW - 60, owner="bob"), name="20260101-0000")
    state(tmp_path, iris(NOW - 10, owner="ada"), name="20251231-0000")
    state(tmp_path, iris(NOW - 99999, owner="ada"), name="20250101-0000")
    state(tmp_path, iris(NOW - 20, job_id="/ada/other"), name="20250102-0000")
    value = value_of(await look(run_of(tmp_path)))
    assert value.owner == "ada"
    assert [(each.owner, each.fresh) for each in value.others] == [("bob", True)]


async def test_the_files_own_cadence_counts_when_the_run_file_sets_none(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW - 100, cadence_s=30, last_signal="step 5"))
    value = value_of(await look(run_of(tmp_path, cadence=None)))
    assert (value.fresh, value.cadence_s, value.last_signal) == (False, 30.0, "step 5")
    assert value_of(await look(run_of(tmp_path))).cadence_s == CADENCE


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "partly written"),
        ('{"ts": 17', "partly written"),
        ("[1, 2]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("[" * 5000, "not JSON"),
        ({"ts": "soon"}, "has ts"),
        ({"ts": True}, "has ts"),
        ({"ts": 10**400}, "has ts"),
        ({"ts": 1, "restart_count": "many"}, "has restart_count"),
        ({"ts": 1, "job_id": ["x"]}, "has job_id"),
        ({"ts": 1, "cadence_s": -1}, "has cadence_s"),
    ],
)
async def test_a_file_that_cannot_be_used_is_a_bad_answer_in_one_line(
    tmp_path: Path, content: Any, told: str
) -> None:
    state(tmp_path, content)
    facet = await look(run_of(tmp_path))
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is ErrorKind.BAD_ANSWER
    assert told in facet.error.message and "\n" not in facet.error.message


async def test_a_file_that_is_just_being_written_keeps_its_former_content(tmp_path: Path) -> None:
    source = Monitors(FixedClock(NOW))
    state(tmp_path, iris(NOW - 60, owner="ada"))
    await look(run_of(tmp_path), source)
    state(tmp_path, '{"ts": 1770')
    value = value_of(await look(run_of(tmp_path), source))
    assert (value.owner, value.last_update) == ("ada", NOW - 60)
    assert "partly written" in value.notes[0]


async def test_no_file_no_folder_nothing_configured(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        facet = await look(run_of(folder))
        assert facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND
        assert "no file matches" in facet.error.message
    assert not (await look(RunSpec(name="a"))).configured
    assert not (await look(RunSpec(name="a", monitor=MonitorSpec()))).configured


@pytest.mark.parametrize("pattern", ["/tmp/a**b/*.json", "/tmp/\0", "[", ""])
async def test_a_pattern_that_is_none_is_unknown_not_a_crash(pattern: str) -> None:
    run = RunSpec(name="a", monitor=MonitorSpec(state=pattern, events="/tmp/\0"))
    facet = await look(run)
    assert facet.value is None and facet.error is not None


async def test_an_event_log_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "monitor.log").write_text("x\n")
    os.utime(tmp_path / "monitor.log", (NOW, NOW))
    run = RunSpec(name="a", monitor=MonitorSpec(events=str(tmp_path / "monitor.log")))
    assert value_of(await look(run)).fresh
    gone = RunSpec(name="a", monitor=MonitorSpec(events=str(tmp_path / "nothing.log")))
    facet = await look(gone)
    assert facet.error is not None and "nothing.log" in facet.error.message


async def test_hostile_names_are_made_safe(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW, owner="a\x1b]0;x\x07\u202eda", last_signal="\x1b[2J"))
    value = value_of(await look(run_of(tmp_path)))
    assert "\x1b" not in f"{value.owner}{value.last_signal}" and "\u202e" not in (value.owner or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(document=st.dictionaries(st.sampled_from(["ts", "job_id", "cadence_s", "owner", "x"]), JSON))
def test_no_content_raises(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    path = tmp_path_factory.mktemp("m") / "s.json"
    path.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    found = read_state(str(path))
    assert found is not None
    if isinstance(found, StateRead):
        assert found.stamp is None or found.stamp > 0


async def test_a_file_of_another_run_alone_is_named_with_what_was_expected(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW, run="b", owner="bob"))
    facet = await look(run_of(tmp_path))
    assert facet.error is not None
    assert facet.error.kind is ErrorKind.BAD_ANSWER
    told = "20260101-0000_monitoring_state.json is the state of run b (bob); expected run a"
    assert facet.error.message.endswith(told)


async def test_an_event_log_beside_another_run_s_file_says_that_too(tmp_path: Path) -> None:
    state(tmp_path, iris(NOW, run="b"))
    events(tmp_path)
    value = value_of(await look(run_of(tmp_path, events=True)))
    assert value.fresh
    assert "is the state of run b (no owner); expected run a" in value.notes[0]


async def test_json_that_is_no_monitor_s_state_is_not_taken_for_one(tmp_path: Path) -> None:
    state(tmp_path, {"epochs": 3, "seed": 1})
    facet = await look(run_of(tmp_path))
    assert facet.error is not None
    assert "is not a monitor state file: it has none of cadence_s, job_id" in facet.error.message


async def test_a_clock_that_is_behind_at_every_write_is_known_by_the_second(tmp_path: Path) -> None:
    clock = SetClock(NOW)
    source, run = Monitors(clock), run_of(tmp_path)

    async def written(ts: float, at: float) -> MonitorValue:
        state(tmp_path, iris(ts), at=at)
        clock.at = at + 5
        return value_of(await look(run, source))

    first = await written(NOW - 3600, NOW)
    assert not first.fresh and "5s ago with a ts that is 1h older" in (first.doubt or "")
    again = value_of(await look(run, source))
    assert again.doubt == first.doubt, "the same write tells nothing new"
    second = await written(NOW + CADENCE - 3600, NOW + CADENCE)
    assert (second.fresh, second.last_update) == (True, NOW + CADENCE)
    assert second.doubt is None and "3600 s behind" in second.notes[0]
    clock.at = NOW + CADENCE + 2 * CADENCE + 1
    assert not value_of(await look(run, source)).fresh
    touched = await written(NOW + CADENCE - 3600, NOW + 9 * CADENCE)
    assert (touched.fresh, touched.last_update) == (False, NOW + CADENCE - 3600)
    assert touched.doubt is None
