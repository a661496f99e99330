"""A process that is killed while it posts: the event is still posted once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from cockpit.store.messages import CLAIMED_FOR
from tests.records.fake_github import Trouble, running
from tests.records.issue_services import SkipClock, run_spec, service
from tests.watch.fakes import until

POSTER = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from tests.records.issue_services import service, run_spec
hub = SimpleNamespace(base=sys.argv[1])
asyncio.run(service(hub, Path(sys.argv[2])).comment(run_spec(), "e", "x"))
"""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("trouble", "posts"),
    [
        (Trouble("GET", "/comments", wait=60), 1),
        (Trouble("POST", "/comments", wait=60), 2),
        (Trouble("POST", "/comments", acts=True, wait=60), 1),
    ],
    ids=["while it looks", "before it is acted upon", "after it was acted upon"],
)
async def test_killed_at_any_point_it_is_posted_once(
    tmp_path: Path, trouble: Trouble, posts: int
) -> None:
    async with running() as hub:
        hub.add_issue()
        hub.troubles.append(trouble)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", POSTER, hub.base, str(tmp_path / "s"), cwd=ROOT
        )
        await until(lambda: hub.count(trouble.method, trouble.end))
        child.kill()
        await child.wait()
        clock = SkipClock()
        one = service(hub, tmp_path / "s", clock)
        told = await one.comment(run_spec(), "e", "x")
        assert told.queued and "another cockpit" in (told.trouble or "")
        clock.skip(CLAIMED_FOR + 5)
        (sent,) = await one.flush([run_spec()])
        assert sent.recorded.url and len(hub.bodies()) == 1 and hub.count("POST") == posts
