"""A machine's clock that is set, and a sender that hangs: who is told, when, how often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.alert import Acknowledgement
from cockpit.runtime.moment import moment
from cockpit.store.alerts import Alerts
from cockpit.store.messages import SENDS_WITHIN as CLAIMED_FOR
from cockpit.store.messages import Asked, Notified, SendClaim
from cockpit.store.store import Store, run_key
from tests.notify.receivers import webhook
from tests.notify.test_notifier import Hand, World, look, nan

HOUR = 3600.0


class Settable(Hand):
    """A clock whose wall time somebody sets; what is steady goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = 0.0

    def now(self) -> float:
        return self.at + self.set_by


class Set(World):
    def __init__(self, folder: Path, hook: object) -> None:
        super().__init__(folder, hook)  # type: ignore[arg-type]
        self.clock: Settable = Settable()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Set]:
    with webhook() as hook:
        yield Set(tmp_path, hook)


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_clock_that_is_set_pages_nobody_early_or_late(
    service: Set, jump: float, restarted: bool
) -> None:
    cockpit, clock = service.cockpit(), service.clock
    await look(cockpit, service.report(nan()))
    clock.at += 60
    clock.set_by = jump
    cockpit = service.cockpit() if restarted else cockpit
    clock.at += 1
    await look(cockpit, service.report(nan()))
    assert len(service.hook.titles) == 1, service.hook.titles
    clock.at += 900
    await look(cockpit, service.report(nan()))
    assert service.hook.titles[1:] == [
        "[critical, unacknowledged for 16m 01s] r: C-09 loss is NaN",
    ]  # fmt: skip


async def test_a_snooze_that_a_jump_ends_is_not_a_wait_of_hours(service: Set) -> None:
    cockpit, clock = service.cockpit(), service.clock
    await look(cockpit, service.report(nan()))
    taken = Acknowledgement(by="ada", at=clock.at, until=clock.at + HOUR)
    assert service.store is not None
    Alerts(service.store).acknowledge(run_key("/x/cockpit.toml", "r"), "C-09", taken)
    clock.at += 1800
    await look(cockpit, service.report(nan(acknowledged=taken)))
    clock.set_by = 2 * HOUR
    for _ in range(14):
        await look(cockpit, service.report(nan()))
        clock.at += 60
    assert len(service.hook.titles) == 1
    clock.at += 120
    await look(cockpit, service.report(nan()))
    assert len(service.hook.titles) == 2


async def test_the_end_of_an_alert_waits_for_its_cadence_of_real_time(service: Set) -> None:
    cockpit, clock = service.cockpit(), service.clock
    await look(cockpit, service.report(nan()))
    clock.at += 5
    await look(cockpit, service.report(closed=(object(),)))
    clock.at += 5
    clock.set_by = 600.0
    await look(cockpit, service.report(closed=(object(),)))
    assert len(service.hook.titles) == 1, "it may still come back as the same one"
    clock.at += 60
    await look(cockpit, service.report(closed=(object(),)))
    assert service.hook.titles[1:] == ["[closed] r: C-09 loss is NaN"]


async def test_what_a_hung_cockpit_held_is_told_once(service: Set) -> None:
    report = service.report(nan())
    key = run_key("/x/cockpit.toml", "r")
    held = Notified(Store(service.path))
    asked = Asked(key, "alert 1 critical", service.cockpit().channels.routes[0].name)
    assert held.claim(asked, moment(service.clock), "the hung one") is SendClaim.MINE
    cockpit = service.cockpit()
    for _ in range(4):
        await look(cockpit, report)
        service.clock.at += CLAIMED_FOR / 2
    assert service.hook.titles == ["[critical] r: C-09 loss is NaN"]
