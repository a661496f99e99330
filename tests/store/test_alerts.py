"""What is kept of agents: within bounds, and one act waits on a run at a time.

When an owner counts as hung: its own beats, counted by whoever looks on, whatever clocks do.

A store's folder that others may write to is closed to them, and that is said.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.acts import PLANNING_FOR, Stage
from cockpit.model.alert import Acknowledgement, Alert, Evidence, Severity
from cockpit.model.clock import Moment
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.launches import HOUR, MOST, PLANS, AgentRecords, Call, OtherWaitsError
from cockpit.store.memory import KEEP_CLOSED, RunMemory
from cockpit.store.ownership import BEAT, Owner, Ownership
from cockpit.store.store import Store, close_to_others


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def kept(key: str = "C-05:r", at: float = 100.0, closed_at: float | None = None) -> Kept:
    alert = Alert(
        id="C-05", key=key, severity=Severity.ALERT, title="slow", since=at,
        evidence=(Evidence(text="0.8 of 1.2", source="tracker"),), confidence="sure",
        next_action="look",
    )  # fmt: skip
    return Kept(alert=alert, opened_at=at, closed_at=closed_at)


def test_an_alert_opens_is_taken_and_closes(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept()])
    (opened,) = alerts.open("r")
    assert opened.number and opened.alert == kept().alert
    who = Acknowledgement(by="ada", at=150.0, until=500.0)
    assert alerts.acknowledge("r", "C-05:r", who, "known")
    (taken,) = alerts.open("r")
    who = who.model_copy(update={"reason": "known"})
    assert taken.alert.acknowledged == who
    assert taken.seen
    alerts.save("r", [taken.model_copy(update={"closed_at": 200.0})])
    assert alerts.open("r") == ()
    (closed,) = alerts.closed("r", since=0.0)
    assert closed.closed is not None and closed.closed.seen
    assert closed.alert.acknowledged == who


def test_two_cockpits_open_one_alert(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept(at=100.0)])
    alerts.save("r", [kept(at=103.0)])
    assert [each.opened_at for each in alerts.open("r")] == [100.0]


@pytest.mark.parametrize("again", [False, True])
def test_two_cockpits_that_see_one_alert_close_it_once(store: Store, again: bool) -> None:
    """Both opened it themselves; neither has read the other's row when it closes."""
    alerts = Alerts(store)
    alerts.save("r", [kept(at=100.0)])
    alerts.save("r", [kept(at=103.0)])
    alerts.save("r", [kept(at=100.0, closed_at=130.0)])
    if again:  # new evidence, and then it closes here too
        alerts.save("r", [kept(at=103.0)])
    alerts.save("r", [kept(at=103.0, closed_at=160.0)])
    assert [each.closed_at for each in alerts.all("r")] == [160.0]
    alerts.save("r", [kept(at=170.0, closed_at=180.0)])
    assert [each.closed_at for each in alerts.all("r")] == [160.0, 180.0], "another one"


def test_what_nobody_saw_stays_listed_however_old(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept("C-05:r", closed_at=110.0), kept("C-06:r", closed_at=111.0)])
    alerts.mark_seen("r", ["C-06:r"])
    assert [each.alert.key for each in alerts.closed("r", since=1e6)] == ["C-05:r"]
    assert [each.alert.key for each in alerts.closed("r", since=0.0)] == ["C-06:r", "C-05:r"]


def test_a_returned_alert_is_the_same_one(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept()])
    (first,) = alerts.open("r")
    alerts.save("r", [first.model_copy(update={"closed_at": 200.0})])
    alerts.save("r", [first])
    assert [each.number for each in alerts.open("r")] == [first.number]
    assert alerts.closed("r", since=0.0) == ()


def test_reopening_what_another_cockpit_has_opened_anew_joins_that(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept()])
    (first,) = alerts.open("r")
    alerts.save("r", [first.model_copy(update={"closed_at": 200.0})])
    alerts.save("r", [kept(at=210.0)])
    alerts.save("r", [first])
    assert [each.opened_at for each in alerts.open("r")] == [210.0]


def test_nothing_is_acknowledged_that_is_not_open(store: Store) -> None:
    assert not Alerts(store).acknowledge("r", "C-05:r", Acknowledgement(by="ada", at=1.0))


def test_old_closed_alerts_are_pruned_with_their_acknowledgements(store: Store) -> None:
    alerts = Alerts(store)
    alerts.save("r", [kept()])
    alerts.acknowledge("r", "C-05:r", Acknowledgement(by="ada", at=150.0))
    (opened,) = alerts.open("r")
    alerts.save("r", [opened.model_copy(update={"closed_at": 200.0})])
    RunMemory(store).prune(200.0 + KEEP_CLOSED + 1)
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM alerts").fetchone()[0] == 0
        assert connection.execute("SELECT count(*) FROM acknowledgements").fetchone()[0] == 0


AGENT = "agent:sonnet"


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    store, now = Store(tmp_path / "store.sqlite"), 1_000_000.0
    kept = AgentRecords(store)
    with store.writing():
        for number in range(MOST + 20):
            kept.planned("file#toy", AGENT, "relaunch", f"{number:012}", now + number)
    assert len(kept.acts("file#toy")) == MOST
    for _ in range(3):
        kept.planned("file#toy", AGENT, "relaunch", "0" * 12, now + 9000)
    assert kept.acts("file#toy")[-1].times == 3
    kept.called([Call("file#toy", AGENT, "log", "ok", now + second) for second in range(30)])
    assert [(each.tool, each.count) for each in kept.calls("file#toy")] == [("log", 30)]
    kept.called(
        [Call("file#toy", AGENT, "log", "ok", now + 3600.0 * hour) for hour in range(MOST + 9)]
    )
    assert len(kept.calls("file#toy")) <= MOST


def test_no_number_of_plans_wears_off_a_veto(tmp_path: Path) -> None:
    store, now = Store(tmp_path / "store.sqlite"), 1_000_000.0
    kept = AgentRecords(store)
    kept.planned("file#toy", AGENT, "relaunch", "0" * 12, now)
    kept.stop("file#toy", "ada", "", now, Stage.VETOED)
    with store.writing():
        for number in range(MOST + 20):
            kept.planned("file#toy", AGENT, "log", f"{number:012}", now + number)
    assert kept.vetoed("file#toy", "relaunch", now + MOST) is not None
    assert len(kept.acts("file#toy")) == MOST + 1


@pytest.mark.parametrize("teller", [AGENT, "agent:rival"])
def test_what_only_tells_people_is_held_up_by_no_grace_and_holds_up_none(
    tmp_path: Path, teller: str
) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    tells = kept.wait("file#toy", AGENT, "log", "1" * 12, now, now)
    waits = kept.wait("file#toy", AGENT, "relaunch", "0" * 12, now, now + 600)
    told = kept.wait("file#toy", teller, "escalate", "2" * 12, now + 1, now + 1)
    assert kept.begin(told.number, now + 1) is kept.begin(tells.number, now + 1) is None
    with pytest.raises(OtherWaitsError) as other:
        kept.wait("file#toy", teller, "stop", "3" * 12, now + 2, now + 600)
    assert other.value.act == waits


@pytest.mark.parametrize("stage", [Stage.VETOED, Stage.TAKEN_OVER, Stage.WITHDRAWN, Stage.ENDED])
def test_how_an_act_ended_is_told_for_a_while_whatever_is_planned_after_it(
    tmp_path: Path, stage: Stage
) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    act = kept.wait("file#toy", AGENT, "relaunch", "0" * 12, now, now + 60)
    if stage in (Stage.VETOED, Stage.TAKEN_OVER):
        kept.stop("file#toy", "ada", "", now + 5, stage)
    else:
        kept.end(act.number, stage, "", now + 5)
    for number in range(1, PLANS + 9):
        kept.planned("file#toy", AGENT, "log", f"{number:012}", now + 6)
    told = kept.current("file#toy", now + 7)
    assert [each.stage for each in told] == [Stage.PLANNED] * PLANS + [stage]
    assert told[0].plan_id == f"{PLANS + 8:012}"
    assert kept.current("file#toy", now + 2 * HOUR) == ()


def test_an_agent_that_left_is_planning_nothing_any_more(tmp_path: Path) -> None:
    kept, now = AgentRecords(Store(tmp_path / "store.sqlite")), 1_000_000.0
    for agent, plan_id in ((AGENT, "0" * 12), (AGENT, "1" * 12), ("agent:rival", "0" * 12)):
        kept.planned("file#toy", agent, "relaunch", plan_id, now)
    kept.planned("file#toy", AGENT, "relaunch", "2" * 12, now - PLANNING_FOR - 1)
    kept.wait("file#toy", AGENT, "relaunch", "1" * 12, now, now + 60)
    kept.left(AGENT, [f"{number}" * 12 for number in range(3)], now + 1)
    told = [(act.agent, act.stage) for act in kept.acts("file#toy")]
    assert told == [
        (AGENT, Stage.WITHDRAWN), (AGENT, Stage.WAITING), ("agent:rival", Stage.PLANNED),
        (AGENT, Stage.PLANNED),
    ]  # fmt: skip


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


def test_a_folder_that_others_may_write_to_is_closed_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "cockpit"
    assert close_to_others(folder / "store.sqlite") is None, "it is not there yet"
    folder.mkdir(mode=0o700)
    assert close_to_others(folder / "store.sqlite") is None
    folder.chmod(0o777)
    said = close_to_others(folder / "store.sqlite")
    assert said is not None and "could be written by others (mode 0777)" in said
    assert folder.stat().st_mode & 0o777 == 0o755
    assert close_to_others(folder / "store.sqlite") is None
