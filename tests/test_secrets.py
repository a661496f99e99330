"""Every way out of the program, walked with planted secrets: none may come out by any of them."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from cockpit.actions.core.table import TABLE, ActionEntry
from cockpit.app.application import CockpitApp
from cockpit.app.opening import make
from cockpit.config.file import load, state_dir, store_path
from cockpit.text.scrub import scrub
from screens.copying import COPIED, copies, copy_text, identity
from tests.notify.receivers import mail_server, webhook
from tests.planted import LOG_LINES, SECRETS, Planted, leaks
from tests.records.fake_github import FakeGitHub
from tests.screens.stand_in import app_of, text_of

PATIENCE = 180.0
PATH = "remote's path"
WORDS = f"WANDB_API_KEY={SECRETS['W&B key']} and {SECRETS['Hugging Face']}"
"""What a person types without thinking."""

OPTIONS = {
    "lineage": ("--run-id", "tiny-2", "--wandb-id", "tiny-2", "--output-root", "out2", "--from",
                "20", "--reason", WORDS),
    "rollback": ("--to", "10", "--reason", WORDS),
    "stop": ("--reason", WORDS),
    "handoff": ("--to", "bob", "--note", WORDS),
    "escalate": ("--note", WORDS),
    "log": ("--event", "seen", "--status", WORDS, "--evidence", LOG_LINES[3], "--decision",
            LOG_LINES[2], "--next", LOG_LINES[4]),
    "ack": ("C-01", "--by", "ada", "--reason", WORDS),
}  # fmt: skip


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    run = Planted(tmp_path)
    yield run
    run.close()


IDENTITIES = tuple(
    f"state: cockpit/{store_path().name}{part}: {name}"
    for part in ("", "-wal")
    for name in ("checkpoint's name", "file's name")
)
"""A checkpoint and a changed file are known by their paths, which an action must find again: in
the store, which only its owner can read, they are kept."""


def assert_none(*ways: tuple[str, bytes | str]) -> None:
    found = [line for seen, data in ways for line in leaks(data, seen=seen)]
    found = [line for line in found if not line.startswith(IDENTITIES)]
    assert not found, "\n" + "\n".join(found)


def test_the_planted_secrets_are_such_as_the_program_knows() -> None:
    for line in LOG_LINES:
        assert_none(("scrub", scrub(line)))
        assert leaks(line, seen="the line")


def test_what_looks(planted: Planted) -> None:
    ways = (
        ("check",), ("check", "--json"), ("doctor",), ("doctor", "--json"), ("history", "tiny"),
        ("watch", "--once"), ("watch", "--once", "--json"), ("history", "tiny", "--json"),
    )  # fmt: skip
    assert_none(("check", planted.cockpit("check")))
    assert_none(*((" ".join(words), planted.here(*words)) for words in ways))
    assert_none(*planted.written())
    said = json.loads(planted.here("check", "--json").partition(b"\n")[2])
    (run,) = said["runs"]
    assert run["verdict"] == "critical"
    assert any("****" in line for line in run["facets"]["log"]["value"]["lines"])


def test_checkpoints(planted: Planted) -> None:
    folder = planted.folder / "out" / "checkpoints"
    assert leaks("\n".join(path.name for path in folder.iterdir()), seen="names")
    done = planted.here("checkpoints", str(folder), "--json")
    assert_none(("checkpoints", done))


def test_messages_and_what_is_said_of_them(planted: Planted) -> None:
    with webhook() as hook, webhook() as dead, mail_server() as mail:
        hidden = f"/services/{SECRETS['Slack hook']}"
        where = {
            "HOOK": hook.url.replace("/hook/s3cr3tpath", hidden),
            "NOT_SET": mail.url,
            "DEADMAN": dead.url.replace("/hook/s3cr3tpath", hidden),
        }
        said = planted.here("watch", "--once", **where)
        assert any("C-01" in title for title in hook.titles)
        assert mail.mails and hidden in dead.paths[0]
        posted = [("webhook", json.dumps(each)) for each in hook.posted]
        mails = [("mail", each) for each in mail.mails]
        hook.status = dead.status = 404
        tried = planted.here("doctor", "--notify", **where)
        assert b"answered 404" in tried
        assert_none(("watch", said), ("doctor", tried), *posted, *mails, *planted.written())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.verb)
def test_plans(planted: Planted, row: ActionEntry) -> None:
    words = (row.verb, "tiny", *OPTIONS.get(row.verb, ()))
    said = [planted.here(*words, "--json"), planted.here(*words)]
    assert not any(each.startswith(b"exit 70") for each in said), said
    assert_none(*((row.verb, each) for each in said), *planted.written())


def test_what_acts_and_records(planted: Planted) -> None:
    with webhook() as hook, github() as service:
        where = {"HOOK": hook.url, "GITHUB_API_URL": service.base}
        said = []
        for verb in ("log", "escalate", "handoff", "ack"):
            words = (verb, "tiny", *OPTIONS[verb], "--confirm", f"{verb} tiny", "--json")
            said.append((verb, planted.here(*words, **where)))
        said.append(("history", planted.here("history", "tiny", "--json")))
        bodies = [("issue", body) for body in service.bodies(1)]
        posted = [("webhook", json.dumps(each)) for each in hook.posted]
        assert_none(*said, *bodies, *posted, *planted.written())
        book = (planted.folder / "book" / "run.md").read_text()
        assert "seen" in book and "****" in book, said
        assert bodies, said


def test_records_that_cannot_be_sent(planted: Planted) -> None:
    remote = f"https://ada:{SECRETS['git password']}@127.0.0.1:9/{SECRETS[PATH]}.git"
    config = planted.folder / "book" / ".git" / "config"
    config.write_text(config.read_text().replace(str(planted.folder / "remote.git"), remote))
    words = ("log", "tiny", *OPTIONS["log"], "--confirm", "log tiny")
    nowhere = {"GITHUB_API_URL": "http://127.0.0.1:9", "GIT_TERMINAL_PROMPT": "0"}
    said = planted.here(*words, **nowhere)
    assert_none(("log", said), *planted.written())


def test_a_secret_in_the_run_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    key = SECRETS["W&B key"]
    run = Planted(tmp_path, resubmit=f"WANDB_API_KEY={key} python train.py")
    try:
        for words in (("check", "--json"), ("watch", "--once"), ("doctor",), ("relaunch", "tiny")):
            said = run.here(*words)
            assert b"exit 2" in said and b"looks like a secret" in said
            assert_none((words[0], said), *run.written())
    finally:
        run.close()


@pytest.mark.parametrize(("size", "present"), [((80, 24), False), ((200, 50), True)])
async def test_screens(
    planted: Planted, size: tuple[int, int], present: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(planted, monkeypatch, size, present) as (pilot, shots):
        keys = ("", "1", "2", "3", "4", "5", "6", "question_mark", "escape", "colon", "escape")
        for key in (*keys, "escape"):
            if key:
                await pilot.press(key)
            await shoot(pilot, shots, f"the screen after {key!r}")
        await pilot.press("p")
        await until(pilot, "Handoff", shots)
        await pilot.press("escape", "J")
        await shoot(pilot, shots, "the journal")
        for report in app_of(pilot).reports:
            told: list[str] = []
            await copy_text(identity(report), told.append, state_dir() / COPIED)
            coded = told[0].rpartition(";")[2].strip("\x07")
            shots.append(("the clipboard", base64.b64decode(coded).decode()))
            shots += [(f"a copy of {each.name}", each.text) for each in copies(report)]
    assert any("tiny" in shot for _, shot in shots)
    assert any("run tiny: critical" in shot for _, shot in shots)
    assert_none(*shots, *planted.written())


async def test_what_is_planned_and_written_on_screen(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(planted, monkeypatch, (120, 40), present=False) as (pilot, shots):
        for verb in ("relaunch", "retain"):
            app_of(pilot).actions.act(verb)
            await until(pilot, "esc cancel", shots)
            for _ in range(3):
                await pilot.press("pagedown")
                await shoot(pilot, shots, verb)
            await pilot.press("escape")
        app_of(pilot).actions.act("log")
        await until(pilot, "note", shots)
        pilot.app.screen.query_one(TextArea).insert(WORDS)
        await until(pilot, "draft kept")
        assert any(b"****" in data for name, data in planted.written() if "draft" in name)
        assert_none(*planted.written())
        await pilot.press("ctrl+s")
        await until(pilot, "masked", shots)
        await pilot.press("ctrl+s")
        await until(pilot, "pushed", shots)
    assert_none(*shots, *planted.written())


Shots = list[tuple[str, str]]


@asynccontextmanager
async def opened(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], present: bool
) -> AsyncIterator[tuple[Pilot[Any], Shots]]:
    """Open the program on the run as ``cockpit open`` does, once the run has been looked at."""
    for name, value in planted.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TMUX", raising=False)
    file = load(planted.config)
    made = make(file, present)
    app = CockpitApp(
        file, made.engine, read_only=present, present=present, run="tiny", means=made.means
    )  # fmt: skip
    async with app.run_test(size=size) as pilot:
        end = asyncio.get_running_loop().time() + PATIENCE
        while not (made.engine.report().runs[0].alerts and app.reports[0].facets.log.known):
            assert asyncio.get_running_loop().time() < end
            await pilot.pause(0.05)
        shots: Shots = []
        yield pilot, shots


async def shoot(pilot: Pilot[Any], shots: Shots, name: str) -> None:
    await pilot.pause(0.1)
    shots.append((name, pilot.app.export_screenshot()))


async def until(pilot: Pilot[Any], words: str, shots: Shots | None = None) -> None:
    """Wait for words on the screen, and keep what is seen then."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while words not in text_of(pilot.app):
        assert asyncio.get_running_loop().time() < end, text_of(pilot.app)
        await pilot.pause(0.05)
    if shots is not None:
        await shoot(pilot, shots, words)


def test_a_fault_of_our_own(planted: Planted) -> None:
    from cockpit.runtime.account import fault_line, write_details

    try:
        raise RuntimeError(LOG_LINES[0])
    except RuntimeError as error:
        path = write_details(error, planted.state / "crashes", 1_800_000_000.0)
        assert_none(("the line", fault_line(error, path)))
    assert path is not None
    assert_none(("the details", path.read_bytes()))


@contextmanager
def github() -> Iterator[FakeGitHub]:
    """Give a GitHub on this machine, served from a thread of its own."""
    service, loop = FakeGitHub(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(service.start(), loop).result(10)
        service.add_issue()
        yield service
    finally:
        asyncio.run_coroutine_threadsafe(service.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
