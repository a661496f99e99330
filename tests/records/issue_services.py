"""Desks that write to a GitHub on this machine, and a clock whose waits take no time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.issue.service import IssueService
from cockpit.runtime.http import Http
from cockpit.sources.github import GitHub
from cockpit.store.store import Store
from tests.records.fake_github import FakeGitHub

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
START = 1_800_000_000.0


class SkipClock:
    """Real time from a fixed start; ``sleep`` skips what it should wait for."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> float:
        return START + self.monotonic()

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped

    def skip(self, seconds: float) -> None:
        self.skipped += seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


def github(fake: FakeGitHub, clock: SkipClock, deadline: float = 5.0, token: str = TOKEN) -> GitHub:
    env = {"GH_TOKEN": token} if token else {}
    return GitHub(Http(clock, deadline=deadline), clock, base=fake.base, env=env)


def service(
    fake: FakeGitHub,
    store: Path | None = None,
    clock: SkipClock | None = None,
    *,
    deadline: float = 5.0,
    token: str = TOKEN,
) -> IssueService:
    """A desk with the store at a path (``None``: without one)."""
    clock = clock or SkipClock()
    kept = None if store is None else Store(store)
    return IssueService(kept, clock, github=github(fake, clock, deadline, token))


def run_spec(name: str = "toy", number: int | None = 1, **more: object) -> RunSpec:
    url = None if number is None else f"https://github.com/ada/runs/issues/{number}"
    records = RecordsSpec(issue=url, issue_repo="ada/runs", logbook="/x/toy.md")
    return RunSpec.model_validate(
        {"name": name, "tier": "hero", "dri": "ada", "records": records, **more}
    )
