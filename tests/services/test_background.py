"""What an open cockpit does beside showing runs: begun late, ended at once, quiet by default."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.model.notify import NotifySpec
from tests.screens.stand_in import cockpit


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
