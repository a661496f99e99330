"""The real app on a stand-in engine, for a real terminal: ``python terminal_app.py SITUATION``."""

from __future__ import annotations

import os
import sys
import time

import cockpit.app.opening as program
from cockpit.__main__ import leave
from cockpit.model.clock import SystemClock
from cockpit.model.report import FleetReport
from cockpit.model.run import CockpitFile
from cockpit.runtime.offload import offload
from tests.screens.stand_in import StandIn
from tests.widgets import reports as made


class Situation(StandIn):
    """A fleet in which something goes wrong with the cockpit itself."""

    def __init__(self, what: str) -> None:
        super().__init__(*made.fleet())
        self.what = what
        self.asked = 0

    def report(self) -> FleetReport:
        api_key = "SECRET-" + "0123456789"
        self.asked += 1
        if self.what == "crash" and self.asked > 2:
            raise RuntimeError(f"a fault beside a key of {len(api_key)} characters")
        return super().report()

    async def run(self) -> None:
        if self.what == "hang":
            await offload(time.sleep, 60, deadline=120)
        await super().run()

    async def poke(self, name: str, facet: str | None = None) -> None:
        if self.what != "marks":
            raise RuntimeError("a fault in a worker")
        os.close(os.open(f"{os.environ['XDG_STATE_HOME']}/poked", os.O_CREAT))


def stand_between_hours() -> None:
    """Have the clock begin half an hour after one at which ages, told in days and hours, change."""
    ahead = made.NOW + 200 * 86_400 + 1800 - time.time()
    now = SystemClock.now
    SystemClock.now = lambda self: now(self) + ahead  # type: ignore[method-assign]


def main() -> int:
    what = sys.argv[1]
    if what == "welcome":
        return program.run_app(None)
    if what == "still":
        stand_between_hours()
    keys = {"filtre": "x"} if what == "keys" else {}
    engine = Situation(what)
    file = CockpitFile(
        path="/data/cockpit.toml",
        operator="ada",
        runs=tuple(each.spec for each in engine.runs),
        keys=keys,
    )
    return program.run_app(file, engine)


if __name__ == "__main__":
    leave(main())
