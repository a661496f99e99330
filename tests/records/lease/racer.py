"""Another process that takes leases: ``python -m tests.records.lease.racer root|ref [halt]``.

Each line on stdin is a run: its name, and its output root or the folder of its logbook's clone.
With ``halt`` it says ``read`` before the first swap, and goes on with the next line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from cockpit.model.clock import SystemClock
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import RefSeats, RootSeats, Seat
from tests.records.remotes import LOGBOOK


def run_at(kind: str, name: str, where: str) -> RunSpec:
    """Return a run whose lease lies there."""
    if kind == "ref":
        return RunSpec(name=name, records=RecordsSpec(logbook=f"{where}/{LOGBOOK}"))
    return RunSpec(name=name, output_root=where)


async def main(kind: str, *halt: str) -> None:
    seats = RefSeats(60.0) if kind == "ref" else RootSeats(SystemClock())
    left = list(halt)

    async def seat_of(run: RunSpec) -> Seat:
        seat = await seats(run)
        plain = seat.swap

        async def swap(*given: Any) -> bool:
            if left:
                left.clear()
                print("read", flush=True)
                await asyncio.to_thread(sys.stdin.readline)
            return await plain(*given)

        seat.swap = swap  # type: ignore[method-assign,assignment]
        return seat

    lease = Lease(SystemClock(), seat_of, lambda: "racer")
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        run = run_at(kind, *json.loads(line))
        claim = await lease.take(run, f"{run.name}-i001", "launch", over=False)
        print(claim.level, await lease.still_mine(run), claim.text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
