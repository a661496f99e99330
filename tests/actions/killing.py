"""Kills a cockpit with -9 at every point of an action; run as a program, prints what was left.

Each cockpit is a forked process of its own. One is killed at the point; the next one finds what
the first has left, settles it, and relaunches.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.actions.toys import RUN, WORDS, World, request


def points(folder: Path) -> list[str]:
    """Return every point that an undisturbed action passes."""
    passed: list[str] = []
    world = World(_made(folder), at=passed.append)
    asyncio.run(world.service.act(request(), WORDS))
    return passed


def killed_at(point: str, folder: Path) -> None:
    """Act, and die at ``point``."""

    def at(now: str) -> None:
        if now == point:
            os.kill(os.getpid(), signal.SIGKILL)

    world = World(folder, at=at)
    asyncio.run(world.service.act(request(), WORDS))


def survivor(folder: Path) -> dict[str, object]:
    """Look at what is left, settle it, relaunch; return what was seen."""
    world = World(folder)
    before = world.platform.living
    settled = asyncio.run(world.service.recover(RUN))
    recorded = (folder / "launches").read_text().split() if (folder / "launches").exists() else []
    known = {e.job_id for e in asyncio.run(world.service.history(RUN)) if e.job_id}
    result = asyncio.run(world.service.act(request(), WORDS))
    entries = asyncio.run(world.service.history(RUN))
    return {
        "before": before,
        "settled": [[one.outcome and one.outcome.value, one.text] for one in settled],
        "recorded": recorded,
        "known": sorted(known),
        "result": result.outcome.value,
        "message": result.message,
        "living": world.platform.living,
        "started": world.platform.started,
        "log": world.recorder.lines,
        "open": [entry.number for entry in entries if entry.outcome is None],
        "claim": (folder / "claim").exists(),
    }


def _forked(work: Callable[[], object]) -> str:
    """Do the work in a process of its own; return what it wrote down."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = json.dumps(work())
        except BaseException as error:  # noqa: BLE001 - told to the test that forked it
            answer = json.dumps({"error": repr(error)})
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main(folder: Path) -> None:
    """Print one line of JSON per point."""
    every = json.loads(_forked(lambda: points(folder / "undisturbed")))
    for number, point in enumerate(every):
        place = _made(folder / str(number))
        _forked(partial(killed_at, point, place))
        seen = json.loads(_forked(partial(survivor, place)))
        print(json.dumps({"point": point, **seen}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
