"""What an open cockpit does beside showing runs: begun late, ended at once, quiet by default."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.model.run import NotifySpec
from tests.screens.stand_in import cockpit


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
