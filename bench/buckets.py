"""500 checkpoints of 20 objects in a bucket on loopback: the second look beside the first."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.sources.checkpoints import source as reading
from cockpit.sources.checkpoints.source import Checkpoints
from tests.sources.checkpoints.store_server import ObjectStore, serving
from tests.sources.checkpoints.trees import metadata

STEPS, OBJECTS = 500, 20
RUNS = 200
LIMIT = 0.02
"""Share of the first look's requests that a later one may take."""


def filled() -> ObjectStore:
    """Return a store with one long run, and with many short ones."""
    store, at = ObjectStore(), time.time() - 3600.0
    roots = [("hero", STEPS, OBJECTS), *((f"many/run-{n}", 3, 5) for n in range(RUNS))]
    for root, steps, objects in roots:
        for step in range(1, steps + 1):
            store.put("b", f"{root}/step-{step}/metadata.json", metadata(step, at).encode(), at)
            for number in range(objects - 1):
                store.put("b", f"{root}/step-{step}/d/{number:032x}", b"a" * 8, at)
    return store


async def measured(store: ObjectStore, paths: list[str]) -> tuple[tuple[int, float], ...]:
    """Return requests and seconds of the first look, and of the second one."""
    source = Checkpoints(SystemClock())
    runs = [RunSpec(name=path, checkpoints=CheckpointSpec(path=(path,))) for path in paths]
    found = []
    for _ in range(2):
        store.count()
        began = time.perf_counter()
        facets = await source.observe([Query(run=run) for run in runs])
        found.append((store.count(), time.perf_counter() - began))
        assert all(facet.known for facet in facets.values()), facets
        assert not any(facet.value.unjudged for facet in facets.values() if facet.value)
    return tuple(found)


def main() -> int:
    """Print the table; status 1 if a later look takes more than its share of requests."""
    reading.AT_FIRST = 60.0  # type: ignore[misc]  # all of it, however slow this machine is
    worst = 0.0
    with serving(filled()) as store:
        os.environ.update(AWS_ENDPOINT_URL=store.url, AWS_REGION="us-east-1")
        os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
        for what, paths in (
            (f"one run, {STEPS} steps x {OBJECTS}", ["s3://b/hero"]),
            (f"{RUNS} runs, 3 steps x 5", [f"s3://b/many/run-{n}" for n in range(RUNS)]),
        ):
            first, second = asyncio.run(measured(store, paths))
            worst = max(worst, second[0] / first[0])
            print(
                f"{what:26} first {first[0]:4} requests {first[1]:6.2f} s   "
                f"second {second[0]:3} requests {second[1]:6.2f} s   "
                f"x{second[0] / first[0]:.3f}, time x{second[1] / first[1]:.3f}"
            )
    print(f"worst share of requests: x{worst:.3f} (at most x{LIMIT:g})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
