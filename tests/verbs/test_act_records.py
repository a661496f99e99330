"""Actions and the records of a hero run: issue on a GitHub of this machine, logbook, run log."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config.file import store_path
from tests.records.fake_github import FakeGitHub, running
from tests.records.issue_services import TOKEN
from tests.verbs.acting_run import World, git

RUN_LOG = "records/run_logs/grug/2026-03-11_train.md"
RECORDS = (
    'logbook = "records/{name}.md", issue_repo = "ada/runs", '
    f'run_log = "{RUN_LOG}", run_type = "experiment"'
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, RECORDS)
    world.add("toy", tier="hero")
    yield world
    world.close()


async def said(world: World, *words: str) -> str:
    """Run the program, which must do it; return what it printed."""
    done = await asyncio.to_thread(world.said, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def act(world: World, *words: str) -> str:
    return await said(world, *words, "--confirm", f"{words[0]} {words[1]}")


async def test_a_hero_run_from_its_first_launch_to_its_handoff(world: World) -> None:
    async with running() as fake:
        world.env |= {"GITHUB_API_URL": fake.base, "GH_TOKEN": TOKEN}
        fake.labels.add("agent-generated")
        blocked = await asyncio.to_thread(world.said, "launch", "toy")
        assert blocked.returncode == 4 and "logbook" in blocked.stdout
        await act(world, "log", "toy")
        assert "# Hero run: toy" in await said(world, "launch", "toy")
        await act(world, "launch", "toy")
        url = fake.url(1)
        assert [issue["title"] for issue in fake.issues.values()] == ["Hero run: toy"]
        labels = {label["name"] for label in fake.issues[1]["labels"]}
        assert labels == {"experiment", "agent-generated"}
        assert "toy.md" in fake.issues[1]["body"] and f"Issue: {url}" in world.book("toy")
        assert len(fake.bodies()) == 1 and "launched as `toy-i001`" in fake.bodies()[0]
        await relaunched(world, fake, url)
        await queued(world, fake)
        assert fake.broken == []


async def relaunched(world: World, fake: FakeGitHub, url: str) -> None:
    """The run goes on after a kill; the run log gets its second job, and lists are kept."""
    world.until((world.folder / "out/toy/checkpoints/step-20/metadata.json").exists)
    world.kill("toy")
    await act(world, "relaunch", "toy")
    text = world.config.read_text()
    world.config.write_text(text.replace("issue_repo =", f'issue = "{url}", issue_repo ='))
    assert "relaunched as `toy-i002`" in fake.bodies()[-1] and len(fake.issues) == 1
    log = git(world.folder / "records.git", "show", "main:run_logs/grug/2026-03-11_train.md")
    assert log.count("## Job") == 2 and "## Job (resumed)" in log and "(toy-i002)" in log
    assert "- resumed from: `" in log and "- objective: to see that it works" in log
    timeline = git(world.folder / "records.git", "show", "main:run_logs/grug/timeline.md")
    assert timeline == "# Grug Timeline\n\n1. `2026-03-11_train.md` — Wednesday, Mar 11th\n"
    table = git(world.folder / "records.git", "show", "main:run_logs/experiments.md")
    assert "| toy" in table and "| running" in table


async def queued(world: World, fake: FakeGitHub) -> None:
    """A comment made while GitHub is away waits, and a watch sends it: once."""
    port = int(fake.base.rpartition(":")[2])
    before = len(fake.bodies())
    await fake.stop()
    told = await act(world, "handoff", "toy", "--to", "bob")
    assert "queued" in told or "waits" in told or "sent" in told, told
    await fake.start(port)
    _due_now(world)
    watch = await asyncio.create_subprocess_exec(
        *_watch(), cwd=world.folder, env=world.env,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            while not any("handed over" in body for body in fake.bodies()[before:]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        watch.terminate()
        await watch.communicate()
    assert sum("handed over" in body for body in fake.bodies()) == 1


def _due_now(world: World) -> None:
    """Let the back-off of what could not be sent be over."""
    store = Path(world.env["XDG_STATE_HOME"]) / "cockpit" / store_path().name
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        assert connection.execute("UPDATE outbox SET due = 0 WHERE sent_at IS NULL").rowcount == 1


def _watch() -> list[str]:
    from tests.verbs.tiny_run import command

    return command("watch", "toy")
