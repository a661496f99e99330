"""What an open cockpit does beside showing runs: begun late, ended at once, quiet by default."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.app import application as cockpit_app
from cockpit.model.run import NotifySpec
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, cockpit
from tests.widgets import reports as made


class Attendance:
    def __init__(self, operator: str, ring: Callable[[str], None]) -> None:
        self.operator, self.ring = operator, ring
        self.started = self.stopped = False
        self.notices: Sequence[str] = ("nobody can be told: no route works",)

    def start(self) -> None:
        self.started = True

    async def stop(self, within: float) -> None:
        self.stopped = True
        await asyncio.sleep(30)


def attended(made_of: list[Attendance], **options: Any) -> Any:
    def attend(operator: str, ring: Callable[[str], None]) -> Attendance:
        made_of.append(Attendance(operator, ring))
        return made_of[-1]

    return cockpit(engine=StandIn(*made.fleet()), attend=attend, **options)


async def test_it_begins_after_the_screens_and_a_hang_does_not_hold_the_exit() -> None:
    found: list[Attendance] = []
    app = attended(found)
    async with app.run_test(size=(120, 40)) as pilot:
        assert not found
        await until(pilot, lambda: bool(found) and found[0].started)
        assert found[0].operator == "ada"
        assert "nobody can be told" in app.notice
    begun = time.monotonic()
    await app.stop_work()
    assert found[0].stopped
    assert cockpit_app.LEAVE_WITHIN < 0.5
    assert time.monotonic() - begun < 20  # a busy machine may be late; the hang takes 30 s


async def test_services_that_fail_to_begin_are_said_to_and_tried_again() -> None:
    """They had five seconds, once; after that nobody was ever told, and nothing said so."""
    found: list[Attendance] = []
    faults = [TimeoutError("no answer within 5 s")]

    def attend(operator: str, ring: Callable[[str], None]) -> Attendance:
        if faults:
            raise faults.pop()
        found.append(Attendance(operator, ring))
        return found[-1]

    app: Any = cockpit(engine=StandIn(*made.fleet()), attend=attend)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "nobody is told yet: starting failed" in app.notice)
        await until(pilot, lambda: bool(found) and found[0].started)
        assert "nobody is told yet" not in app.notice


@pytest.mark.parametrize("kind", ["terminal", "webhook"])
async def test_only_a_terminal_route_rings(kind: str) -> None:
    app = cockpit()
    written: list[str] = []
    driver: Any = SimpleNamespace(write=written.append)
    routes: Any = (SimpleNamespace(kind=kind),)
    app.file = app.file.model_copy(update={"notify": NotifySpec.model_construct(routes=routes)})
    app._driver = driver
    app.ring("\a")
    assert written == (["\a"] if kind == "terminal" else [])
