from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.alert import Acknowledgement, Alert, ClosedAlert, RowSpan, Severity
from cockpit.model.notify import NotifySpec, Quiet, Route
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import CockpitFile, JobSpec
from cockpit.notify.message import NobodyReachedError
from cockpit.notify.notifier import Notifications
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.memory import Observation, RunMemory
from cockpit.store.store import Store, run_key
from tests.notify.receivers import Webhook, webhook
from tests.widgets.reports import alert, spec
from tests.widgets.reports import report as made

CRITICAL = Severity.CRITICAL
HOOK = Route(url_env="HOOK", min="alert")


class Hand:
    """A clock that a test moves by hand."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class World:
    """One store, one receiver, and as many cockpits as a test opens on them."""

    def __init__(self, folder: Path, hook: Webhook) -> None:
        self.clock = Hand()
        self.hook = hook
        self.path = folder / "store.sqlite"
        self.store: Store | None = Store(self.path)
        self.notify = NotifySpec(routes=(HOOK,), unacked_after=900, second="bob")
        self.environ = {"HOOK": hook.url, "TERM": "xterm"}

    @property
    def file(self) -> CockpitFile:
        runs = tuple(spec(name, cadence=60) for name in ("r", "s", "t"))
        return CockpitFile(path="/x/cockpit.toml", operator="ada", notify=self.notify, runs=runs)

    def cockpit(self, **more: Any) -> Notifications:
        return Notifications(self.file, self.store, self.clock, **{"environ": self.environ, **more})

    def report(self, *alerts: Alert, name: str = "r", **more: Any) -> RunReport:
        """Return a report with these alerts open, which the store knows of as the engine's."""
        if self.store is not None:
            table, key = Alerts(self.store), run_key("/x/cockpit.toml", name)
            known = {kept.alert.key: kept for kept in table.open(key)}
            fresh = {each.key: each for each in alerts}
            now = self.clock.now()
            changed = [
                known.get(each.key, Kept(alert=each, opened_at=now)).model_copy(
                    update={"alert": each}
                )
                for each in alerts
            ]
            gone = [
                kept.model_copy(update={"closed_at": now})
                for key_, kept in known.items()
                if key_ not in fresh
            ]
            table.save(key, [*changed, *gone])
        return made(name).model_copy(
            update={
                "spec": spec(name, cadence=60),
                "alerts": alerts,
                "checked_at": self.clock.now(),
                "watched_by": None,
                **more,
            }
        )


async def look(cockpit: Notifications, *reports: RunReport) -> None:
    for each in reports:
        cockpit.hear(each)
    await cockpit.look()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[World]:
    with webhook() as hook:
        yield World(tmp_path, hook)


def nan(severity: Severity = CRITICAL, **more: Any) -> Alert:
    return alert("C-09", severity, "loss is NaN").model_copy(update=more)


async def test_an_alert_is_told_once_with_its_evidence(service: World) -> None:
    cockpit = service.cockpit()
    for _ in range(3):
        await look(cockpit, service.report(nan()))
        service.clock.at += 30
    (posted,) = service.hook.posted
    assert posted["title"] == "[critical] r: C-09 loss is NaN"
    assert "1.21M to 0.83M tok/s [logged rows]" in posted["message"]
    assert "next: look at the input pipeline" in posted["message"]
    assert "cockpit ack r C-09 --by NAME" in posted["message"]


async def test_nothing_is_due_without_a_route_or_before_anything_was_heard(service: World) -> None:
    cockpit = service.cockpit()
    assert cockpit.silent
    cockpit.hear(service.report())
    heard = cockpit.silent
    service.notify = NotifySpec()
    cockpit.adopt(service.file)
    assert (heard, cockpit.silent) == (False, True)


async def test_what_the_route_does_not_carry_is_not_told(service: World) -> None:
    await look(service.cockpit(), service.report(nan(Severity.WARNING)))
    assert service.hook.posted == []


async def test_a_risen_severity_is_told_and_a_fallen_one_is_not(service: World) -> None:
    cockpit = service.cockpit()
    for severity in (Severity.ALERT, CRITICAL, Severity.ALERT, CRITICAL):
        await look(cockpit, service.report(nan(severity)))
        service.clock.at += 10
    assert [each["severity"] for each in service.hook.posted] == ["alert", "critical"]


async def test_a_restart_tells_nothing_again_but_what_it_missed(service: World) -> None:
    await look(service.cockpit(), service.report(nan()))
    service.clock.at += 60
    remembered = service.report(nan())
    service.clock.at += 60
    second = service.cockpit()
    await look(second, remembered)
    await look(second, service.report(nan(), alert("C-07", Severity.ALERT, "torn")))
    assert [title.split()[2] for title in service.hook.titles] == ["C-09", "C-07"]


async def test_what_was_remembered_and_is_over_is_not_told(service: World) -> None:
    remembered = service.report(nan())
    service.clock.at += 60
    cockpit = service.cockpit()
    await look(cockpit, remembered)
    await look(cockpit, service.report())
    assert service.hook.posted == []


async def test_an_alert_that_comes_back_later_is_a_new_one(service: World) -> None:
    cockpit = service.cockpit()
    for alerts in ((nan(Severity.ALERT),), (), (nan(Severity.ALERT),)):
        await look(cockpit, service.report(*alerts))
        service.clock.at += 600
    assert len(service.hook.posted) == 2


async def test_two_cockpits_on_one_store_tell_once(service: World) -> None:
    other = Store(service.path)
    first = service.cockpit()
    second = Notifications(service.file, other, service.clock, environ=service.environ)
    for n in range(10):
        report = service.report(*(alert(f"C-0{each}", Severity.ALERT) for each in range(n)))
        await asyncio.gather(look(first, report), look(second, report))
    assert sorted(service.hook.events) == sorted(set(service.hook.events))
    assert len(service.hook.posted) == 9


async def test_a_critical_that_nobody_takes_goes_out_again_and_to_the_second(
    service: World,
) -> None:
    service.notify = service.notify.model_copy(
        update={"routes": (HOOK, Route(url_env="BOB", to="bob", min="critical"))}
    )
    with webhook() as bob:
        service.environ["BOB"] = bob.url
        cockpit = service.cockpit()
        for _ in range(60):
            await look(cockpit, service.report(nan()))
            service.clock.at += 60
        heads = [title.partition("]")[0] for title in service.hook.titles]
        assert heads == ["[critical", "[critical, unacknowledged for 15m"]
        assert [title.partition("]")[0] for title in bob.titles] == [
            "[critical, for bob: unacknowledged for 30m"
        ]


async def test_a_taken_alert_is_quiet_until_its_snooze_is_over(service: World) -> None:
    cockpit, key = service.cockpit(), run_key("/x/cockpit.toml", "r")
    await look(cockpit, service.report(nan()))
    assert service.store is not None
    until = service.clock.at + 3600
    taken = Acknowledgement(by="ada", at=service.clock.at, until=until)
    Alerts(service.store).acknowledge(key, "C-09", taken)
    for _ in range(60):
        service.clock.at += 60
        quiet = service.clock.at < until
        await look(cockpit, service.report(nan(acknowledged=taken) if quiet else nan()))
    assert len(service.hook.posted) == 1
    for _ in range(16):
        service.clock.at += 60
        await look(cockpit, service.report(nan()))
    assert len(service.hook.posted) == 2


async def test_the_end_of_a_critical_is_told_in_one_line(service: World) -> None:
    cockpit = service.cockpit()
    closed: dict[str, Any] = {"closed": (object(),)}
    await look(cockpit, service.report(nan(), alert("C-07", Severity.ALERT)))
    await look(cockpit, service.report(**closed))
    assert len(service.hook.posted) == 2
    service.clock.at += 61
    for _ in range(3):
        await look(cockpit, service.report(**closed))
    assert service.hook.titles[2:] == ["[closed] r: C-09 loss is NaN"]


async def test_too_many_become_one_summary(service: World) -> None:
    service.notify = service.notify.model_copy(update={"most": 3})
    cockpit = service.cockpit()
    alerts = [alert(f"C-{n:02}", Severity.ALERT) for n in range(5)]
    reports = [service.report(*alerts, name=name) for name in ("r", "s", "t")]
    await look(cockpit, *reports)
    assert len(service.hook.posted) == 3
    service.clock.at += 61
    await look(cockpit, *reports)
    await look(cockpit, *reports)
    assert service.hook.titles[3:] == ["12 more alerts in 3 runs"]
    assert "the route's limit for ten minutes is reached" in service.hook.posted[3]["message"]


async def test_a_refusal_is_tried_again_and_said(service: World) -> None:
    cockpit = service.cockpit()
    service.hook.status = 500
    await look(cockpit, service.report(nan()))
    await look(cockpit, service.report(nan()))
    assert len(service.hook.posted) == 1
    assert "answered 500" in cockpit.notices[0] and "127.0.0.1" not in cockpit.notices[0]
    service.hook.status = 200
    service.clock.at += 31
    await look(cockpit, service.report(nan()))
    assert len(service.hook.posted) == 2
    assert cockpit.notices == ()


@pytest.mark.parametrize(("severity", "attempts"), [(Severity.ALERT, 1), (CRITICAL, 2)])
async def test_a_lost_answer(service: World, severity: Severity, attempts: int) -> None:
    cockpit = service.cockpit()
    service.hook.drop = True
    for _ in range(10):
        await look(cockpit, service.report(nan(severity)))
        service.clock.at += 31
    assert len(service.hook.posted) == attempts
    (notice,) = cockpit.notices
    assert "a message may not have arrived by url HOOK: " in notice and "delivered" not in notice


async def test_whoever_does_not_own_a_run_only_rings(service: World) -> None:
    service.notify = service.notify.model_copy(update={"routes": (HOOK, Route(kind="terminal"))})
    rung: list[str] = []
    watched = service.report(nan(), watched_by="ada (watch on box, pid 1)")
    await look(service.cockpit(ring=rung.append), watched)
    assert service.hook.posted == [] and len(rung) == 1
    await look(service.cockpit(mine=lambda report: report.name == "r"), watched)
    assert len(service.hook.posted) == 1


async def test_without_a_store_each_alert_is_told_once(service: World) -> None:
    service.store = None
    cockpit = service.cockpit()
    for alerts in ((nan(),), (nan(),), (), (nan(),)):
        await look(cockpit, service.report(*alerts))
    assert len(service.hook.posted) == 2


async def test_a_store_that_fails_does_not_silence_alerts(service: World) -> None:
    cockpit = service.cockpit()
    report = service.report(nan())
    assert service.store is not None
    service.store.close()
    for _ in range(4):
        await look(cockpit, report)
        service.clock.at += 31
    assert len(service.hook.posted) == 1


async def test_an_action_reaches_people_and_says_whom(service: World) -> None:
    cockpit, run = service.cockpit(), spec("r")
    said = await cockpit.send(run, "relaunch 7", "r: relaunched", "body", "alert")
    assert said == "told by url HOOK"
    assert await cockpit.send(run, "relaunch 7", "r: relaunched", "body", "alert") == said
    assert service.hook.titles == ["r: relaunched"]


async def test_an_action_that_reaches_nobody_says_why(service: World) -> None:
    service.hook.status = 404
    with pytest.raises(NobodyReachedError, match=r"url HOOK: answered 404"):
        await service.cockpit().send(spec("r"), "relaunch 7", "t", "b", "alert")
    service.hook.status = 200
    await service.cockpit().send(spec("r"), "relaunch 7", "t", "b", "alert")
    service.notify = NotifySpec()
    with pytest.raises(NobodyReachedError, match="no route for messages of severity alert"):
        await service.cockpit().send(spec("r"), "relaunch 8", "t", "b", "alert")


async def test_a_lost_answer_of_an_action_is_tried_once_more_and_told(service: World) -> None:
    service.hook.drop = True
    with pytest.raises(NobodyReachedError, match=r"no answer|before an answer"):
        await service.cockpit().send(spec("r"), "escalate 7", "t", "b", "alert")
    assert len(service.hook.posted) == 2
    with pytest.raises(NobodyReachedError):
        await service.cockpit().send(spec("r"), "escalate 7", "t", "b", "alert")
    assert len(service.hook.posted) == 2


async def test_a_bell_at_the_operators_desk_reaches_no_other_dri(service: World) -> None:
    service.notify = NotifySpec(routes=(Route(kind="terminal"),))
    rung: list[str] = []
    cockpit = service.cockpit(ring=rung.append)
    assert await cockpit.send(spec("r"), "e 1", "t", "b", "alert") == "told by terminal"
    with pytest.raises(NobodyReachedError):
        await cockpit.send(spec("r", dri="bob"), "e 2", "t", "b", "alert")


async def test_an_edit_of_the_run_file_changes_the_routes(service: World) -> None:
    cockpit = service.cockpit()
    service.notify = NotifySpec()
    cockpit.adopt(service.file)
    await look(cockpit, service.report(nan()))
    assert service.hook.posted == []


def critical(rule: str, title: str = "dead", since: float = 0.0, **more: Any) -> Alert:
    return alert(rule, CRITICAL, title, since=since).model_copy(update=more)


async def test_what_only_follows_is_told_with_its_cause_and_alone_once_that_is_over(
    service: World,
) -> None:
    cockpit = service.cockpit()
    rate = alert("C-05", Severity.ALERT, "tok/s -31 %").model_copy(update={"caused_by": "C-06"})
    stall = alert("C-06", Severity.ALERT, "no step").model_copy(update={"consequences": ("C-05",)})
    for _ in range(3):
        await look(cockpit, service.report(stall, rate))
        service.clock.at += 30
    (posted,) = service.hook.posted
    assert posted["title"] == "[alert] r: C-06 no step"
    assert "follows from it: C-05 tok/s -31 %" in posted["message"]
    await look(cockpit, service.report(rate.model_copy(update={"caused_by": None})))
    assert service.hook.titles[1:] == ["[alert] r: C-05 tok/s -31 %"]


async def test_a_taken_cause_keeps_what_follows_quiet_and_the_next_end_is_told(
    service: World,
) -> None:
    cockpit = service.cockpit()
    taken = Acknowledgement(by="ada", at=service.clock.at)
    first = critical("C-01", "ended")
    await look(cockpit, service.report(first))
    follows = alert("C-07", Severity.ALERT).model_copy(update={"caused_by": "C-01"})
    await look(cockpit, service.report(first.model_copy(update={"acknowledged": taken}), follows))
    assert len(service.hook.posted) == 1
    another = critical("C-01", "ended again").model_copy(update={"key": "C-01:restart-1"})
    await look(cockpit, service.report(another))
    assert service.hook.titles[1:] == ["[critical] r: C-01 ended again"]


async def test_what_nobody_took_is_due_again_in_one_message(service: World) -> None:
    cockpit = service.cockpit()
    found = [(critical("C-01"), "r"), (critical("C-09"), "s"), (critical("C-25"), "t")]
    for _ in range(32):
        await look(cockpit, *(service.report(each, name=name) for each, name in found))
        service.clock.at += 60
    assert service.hook.titles[:3] == [
        "[critical] r: C-01 dead", "[critical] s: C-09 dead", "[critical] t: C-25 dead",
    ]  # fmt: skip
    assert service.hook.titles[3:] == [
        "[critical, unacknowledged for 15m] 3 runs: 3 criticals",
        "[critical, for bob: unacknowledged for 30m] 3 runs: 3 criticals",
    ]
    told = service.hook.posted[3]["message"]
    assert all(f"cockpit ack {name} " in told for name in ("r", "s", "t"))


async def test_one_message_for_many_counts_as_one_and_is_tried_again_as_one(
    service: World,
) -> None:
    service.notify = service.notify.model_copy(update={"second": None, "most": 4})
    cockpit = service.cockpit()
    reports = [(critical("C-01"), "r"), (critical("C-09"), "s"), (critical("C-25"), "t")]

    async def all_seen() -> None:
        await look(cockpit, *(service.report(each, name=name) for each, name in reports))

    await all_seen()
    service.clock.at += 900
    service.hook.status = 500
    await all_seen()
    service.hook.status = 200
    service.clock.at += 31
    await all_seen()
    heads = [title.partition("]")[2] for title in service.hook.titles[3:]]
    assert heads == [" 3 runs: 3 criticals", " 3 runs: 3 criticals"]
    reports = [*reports, *((critical(f"C-0{n}", "new"), "r") for n in (2, 3))]
    service.clock.at += 1
    await look(cockpit, service.report(*(each for each, name in reports if name == "r")))
    assert [title.split()[-1] for title in service.hook.titles[5:]] == ["new", "new"]


async def test_jobs_that_end_at_one_moment_on_one_host_are_one_message(service: World) -> None:
    cockpit = service.cockpit()
    host = JobSpec(kind="box", host="gpu-box", log="/data/run.log")
    ends = {"r": 100.0, "s": 160.0, "t": 900.0}
    reports = [
        service.report(critical("C-01", since=at), name=name)
        for name, at in ends.items()
    ]  # fmt: skip
    on_host = {name: spec(name, cadence=60, job=host) for name in ends}
    await look(cockpit, *(e.model_copy(update={"spec": on_host[e.name]}) for e in reports))
    assert service.hook.titles == [
        "[critical] 2 runs: C-01 at one moment on gpu-box", "[critical] t: C-01 dead",
    ]  # fmt: skip
    assert "s: C-01 dead" in service.hook.posted[0]["message"]


async def test_quiet_hours_hold_back_what_is_not_critical_until_they_end(service: World) -> None:
    quiet = Quiet(begin=22 * 60, end=7 * 60, zone="UTC")
    service.notify = service.notify.model_copy(update={"quiet": quiet, "unacked_after": 1e6})
    service.clock.at = 1_800_057_600.0 + 2 * 3600.0  # 02:00 UTC
    cockpit = service.cockpit()
    low = alert("C-07", Severity.ALERT, "torn")
    await look(cockpit, service.report(nan(), low))
    assert service.hook.titles == ["[critical] r: C-09 loss is NaN"]
    service.clock.at += 5 * 3600.0 - 60
    await look(cockpit, service.report(nan(), low))
    assert len(service.hook.titles) == 1
    service.clock.at += 60  # 07:00
    await look(cockpit, service.report(nan(), low))
    assert service.hook.titles[1:] == ["[alert] r: C-07 torn"]


def passing(
    world: World, number: int, severity: Severity = CRITICAL, at: float = -600.0, **more: Any
) -> ClosedAlert:
    """Keep an alert that came and went at ``at`` (s from now) unseen; steps tell them apart."""
    begun = world.clock.at + at
    span = RowSpan(
        opened_step=100 * number, opened_at=begun, closed_step=100 * number + 50,
        closed_at=begun + 60, passed=True,
    )  # fmt: skip
    what = nan(severity, since=begun, span=span.model_copy(update=more))
    kept = Kept(alert=what, opened_at=begun, closed_at=begun + 60)
    assert world.store is not None
    Alerts(world.store).add_passed(run_key("/x/cockpit.toml", "r"), [kept], 60.0)
    assert kept.closed is not None
    return kept.closed


def watched(world: World, since: float) -> None:
    seen = Observation(
        at=world.clock.at - since, verdict=Verdict.HEALTHY, phase=None, step=1, loss=2.0
    )
    assert world.store is not None
    RunMemory(world.store).observe(run_key("/x/cockpit.toml", "r"), seen, 60.0)


async def test_what_came_and_went_unseen_is_told_once_as_closed(service: World) -> None:
    watched(service, 7200)
    gone = passing(service, 1)
    for _ in range(2):  # and after a restart nobody is told again
        cockpit = service.cockpit()
        await look(cockpit, service.report(closed=(gone,)))
        await look(cockpit, service.report(closed=(gone,)))
    (posted,) = service.hook.posted
    assert posted["title"] == "[closed unseen: critical] r: C-09 loss is NaN"
    assert posted["severity"] == "critical" and "cockpit ack" not in posted["message"]


async def test_what_is_over_pages_nobody_unless_it_was_critical(service: World) -> None:
    watched(service, 7200)
    quiet = Route(url_env="HOOK", min="warning")
    gone = passing(service, 1, Severity.ALERT)
    await look(service.cockpit(), service.report(closed=(gone,)))
    assert service.hook.posted == []
    service.notify = service.notify.model_copy(update={"routes": (quiet,)})
    await look(service.cockpit(), service.report(closed=(gone,)))
    assert [each["severity"] for each in service.hook.posted] == ["warning"]


async def test_what_came_and_went_before_the_watch_or_long_ago_is_history_only(
    service: World,
) -> None:
    watched(service, 300)
    before = passing(service, 1)
    await look(service.cockpit(), service.report(closed=(before,)))
    watched(service, 90 * 3600)
    old = passing(service, 5, at=-80 * 3600)
    await look(service.cockpit(), service.report(closed=(old,)))
    assert [title for title in service.hook.titles if "unseen" in title] == [
        "[closed unseen: critical] r: C-09 loss is NaN"
    ], "the first of them, once it is known that somebody watched then"


async def test_steps_that_a_resume_replays_are_told_once(service: World) -> None:
    watched(service, 7200)
    first = passing(service, 1, at=-3000)
    again = passing(service, 1, at=-600)
    other = passing(service, 2, at=-1800)
    await look(service.cockpit(), service.report(closed=(first, again, other)))
    assert len(service.hook.posted) == 2
    assert service.store is not None
    assert len(Alerts(service.store).all(run_key("/x/cockpit.toml", "r"))) == 3, "all are kept"


async def test_what_somebody_has_seen_meanwhile_needs_no_message(service: World) -> None:
    watched(service, 7200)
    gone = passing(service, 1)
    assert service.store is not None
    Alerts(service.store).mark_seen(run_key("/x/cockpit.toml", "r"), [gone.alert.key])
    await look(service.cockpit(), service.report(closed=(gone,)))
    assert service.hook.posted == []
