"""A cockpit that launches once, in a process of its own; at one named point something befalls it.

It prints each point that it passes. ``kill`` ends it there with -9, ``halt`` stops it until
somebody wakes it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import signal
import sys

from cockpit.platforms.base import CannotError, LostError
from tests.platforms.conformance.conftest import SEATS
from tests.platforms.conformance.seat import exchanges

SIGNALS = {"kill": signal.SIGKILL, "halt": signal.SIGSTOP}


def at(point: str) -> None:
    print(point, flush=True)
    if point == given["point"]:
        os.kill(os.getpid(), SIGNALS[given["fate"]])


async def main() -> None:
    seat = SEATS[given["seat"]]
    run, submission = pickle.loads(base64.b64decode(given["launch"]))
    platform = seat.platform()
    with exchanges(seat.ways, at):
        at("meant")
        accepted = await platform.accept(run, submission)
        at("accepted")
        job_id = await platform.go(run, accepted)
        at("let go")
    print(f"went {job_id}")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    try:
        asyncio.run(main())
    except (CannotError, LostError) as error:
        print(f"{type(error).__name__}: {error}")
