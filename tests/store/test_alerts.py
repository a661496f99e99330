from pathlib import Path

import pytest

from cockpit.model.alert import Acknowledgement, Alert, Evidence, Severity
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.memory import KEEP_CLOSED, RunMemory
from cockpit.store.store import Store


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
