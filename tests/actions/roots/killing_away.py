"""Kills a cockpit with -9 at every step and at every write of a rollback or a clean-up elsewhere.

Run as a program: ``killing_away.py FOLDER s3|ssh rollback|retain ADDRESS [EVERY]``. ADDRESS is an
S3 server's (moto), or a host and a folder on it that is also a folder of this machine. One line of
JSON per kill: what lay there, what was recorded, and what came of doing it again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

from cockpit.actions.core.action import Action
from cockpit.actions.retention import ways as acting
from cockpit.actions.retention.retain import Retain
from cockpit.actions.stopping.rollback import Rollback
from cockpit.hosts.here import call
from cockpit.model.observed import CheckpointsValue
from cockpit.model.run import CheckpointSpec
from cockpit.runtime import buckets
from cockpit.runtime.buckets import WritableBucket
from cockpit.sources.checkpoints import source
from cockpit.sources.checkpoints.source import list_anywhere
from cockpit.store.store import Store
from tests.actions.killing import _forked
from tests.actions.resting import RUN, Rest
from tests.actions.roots.away import fill
from tests.sources.checkpoints.trees import put

TRIES = 20
STEPS = (100, 200, 300, 400)
TO = {"rollback": {"to": "200"}, "retain": {}}
WORDS = {"rollback": "rollback toy 200", "retain": "delete 2 from toy"}
ACTIONS: dict[str, Callable[[], Action]] = {"rollback": Rollback, "retain": Retain}


class Place:
    """Where the checkpoints of one try lie: a bucket of moto's, or a folder of a host."""

    def __init__(self, kind: str, address: str, number: str) -> None:
        self.kind, self.number = kind, number
        if kind == "s3":
            self.url, self.bucket = address, f"kills-{os.getpid()}-{number}"
            self.root = f"s3://{self.bucket}/runs/toy/checkpoints"
        else:
            host, _, folder = address.partition(":")
            self.folder = Path(folder) / number
            self.root = f"ssh://{host}{self.folder}/runs/toy/checkpoints"

    def make(self) -> None:
        if self.kind == "s3":
            _http("PUT", f"{self.url}/{self.bucket}")
        for step in STEPS:
            fill(self._put, step, at=time.time() - 7200 + step)

    def _put(self, _: str, key: str, data: bytes, at: float) -> None:
        if self.kind == "s3":
            _http("PUT", f"{self.url}/{self.bucket}/{key}", data)
        else:
            put(self.folder / key, data, at)

    def names(self) -> list[str]:
        """Return every file below the root, as the store itself has it."""
        top = "runs/toy/checkpoints/"
        if self.kind == "s3":
            said = _http("GET", f"{self.url}/{self.bucket}?list-type=2&prefix={top}").decode()
            keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", said)]
            return sorted(key.removeprefix(top) for key in keys)
        below = self.folder / top
        return sorted(str(p.relative_to(below)) for p in below.rglob("*") if p.is_file())


def _http(method: str, url: str, data: bytes | None = None) -> bytes:
    headers = {"x-amz-acl": "public-read", "Content-Type": "application/octet-stream"}
    asked = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(asked) as answer:
        found: bytes = answer.read()
    return found


def world(folder: Path, verb: str, place: Place) -> Rest:
    folder.mkdir(parents=True, exist_ok=True)
    rest = Rest(folder, ACTIONS[verb](), final_step=None)
    spec = CheckpointSpec(path=(place.root,), keep=2, rollback_depth=1, save_every=900.0)
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    return rest


def watch_writes(at: Callable[[str], None]) -> None:
    """Call ``at`` before and after every request or call that may change something."""
    numbers = iter(range(1, 10_000))
    written, ran = WritableBucket._written, call

    async def bucket(self: WritableBucket, ask: Any, where: str, what: str) -> Any:
        number = next(numbers)
        at(f"write {number}: before")
        answer = await written(self, ask, where, what)
        at(f"write {number}: after")
        return answer

    async def done(host: str | None, what: str, function: str, **more: Any) -> Any:
        number = next(numbers)
        at(f"write {number}: before")
        answer = await ran(host, what, function, **more)
        at(f"write {number}: after")
        return answer

    WritableBucket._written = bucket  # type: ignore[method-assign]
    setattr(acting, "call", done)  # noqa: B010


def act(folder: Path, verb: str, place: Place, at: Callable[[str], None]) -> str:
    rest = world(folder, verb, place)
    watch_writes(at)
    service = rest.another(Store(folder / "store-here.sqlite"), at=at)
    return asyncio.run(service.act(rest.request(**TO[verb]), WORDS[verb])).outcome.value


def points(folder: Path, verb: str, place: Place) -> list[str]:
    passed: list[str] = []
    act(folder, verb, place, passed.append)
    return passed


def killed_at(point: str, folder: Path, verb: str, place: Place) -> None:
    def at(now: str) -> None:
        if now == point:
            os.kill(os.getpid(), signal.SIGKILL)

    act(folder, verb, place, at)


def survivor(folder: Path, verb: str, place: Place) -> dict[str, object]:
    """Settle what is left, see what is said of it, then do it again."""
    rest = world(folder, verb, place)
    cut = place.names()
    asyncio.run(rest.service.recover(RUN))
    said = rest.logbook.read_text() if rest.logbook.exists() else ""
    states = asyncio.run(_states(lambda: listing(rest)))
    bare = asyncio.run(_states(lambda: list_anywhere([place.root], clock=rest.clock)))
    plan = asyncio.run(rest.plan(**TO[verb]))
    blocks = [check.text for check in plan.checks if check.stands_in_the_way]
    result = asyncio.run(rest.act(plan.words, **TO[verb]))
    entries = asyncio.run(rest.service.history(RUN))
    return {
        "cut": cut,
        "said": said,
        "states": states,
        "bare": bare,
        "blocks": blocks,
        "again": result.outcome.value,
        "message": result.message,
        "end": place.names(),
        "after": asyncio.run(_states(lambda: listing(rest))),
        "open": [entry.number for entry in entries if entry.outcome is None],
    }


async def listing(rest: Rest) -> CheckpointsValue:
    """Return what the cockpit shows, asked again where a busy machine was late."""
    for _ in range(TRIES):
        value = (await rest.look(RUN)).facets.checkpoints.value
        if value is not None:
            return value
    raise TimeoutError("the checkpoints were never listed in time")


async def _states(look: Callable[[], Awaitable[Any]]) -> dict[str, str]:
    return {str(item.name_step): item.state.value for item in (await look()).items}


def main(folder: Path, kind: str, verb: str, address: str, every: int = 1) -> None:
    for module, name in ((source, "AT_FIRST"), (source, "SECONDS"), (buckets, "TIMEOUT")):
        setattr(module, name, 60.0)  # however busy this machine is

    def place(number: str) -> Place:
        made = Place(kind, address, f"{verb}-{number}")
        made.make()
        return made

    all_points = json.loads(_forked(partial(points, folder / "undisturbed", verb, place("all"))))
    for number, point in list(enumerate(all_points))[::every]:
        own, where = folder / str(number), place(str(number))
        _forked(partial(killed_at, point, own, verb, where))
        seen = json.loads(_forked(partial(survivor, own, verb, where)))
        print(json.dumps({"point": point, "verb": verb, **seen}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], *map(int, sys.argv[5:]))
