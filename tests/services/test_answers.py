"""Answers from a phone: what they may do, what is refused, what counts for nothing (SPEC A-14)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.wiring import build_records, build_service
from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.plan import Outcome, Request
from cockpit.services.answers import LONGEST_WAIT, AnswerService
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.answers import Answers
from cockpit.store.journal import Journal, JournalEntry, StandingOrders
from cockpit.store.store import Store, run_key
from cockpit.watch.engine import Engine
from tests.records import fake_github
from tests.records.fake_github import FakeGitHub, Reply, Trouble
from tests.services.test_standing import CRASH, PREEMPTED, Night, night

__all__ = ["night"]
ISSUE = "https://github.com/ada/runs/issues/1"
ANSWERS = 'answers = [{ kind = "github", people = { Ada-L = "ada", bob = "bob" } }]'
RUN_FILE = """
[cockpit]
operator = "carl"
[notify]
second = "bob"
routes = [{{ min = "info", command = "true" }}]
{answers}
[[run]]
name = "dusk"
tier = "ordinary"
dri = "ada"
final_step = 1000
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", log = "{root}/run.log", pid_file = "{root}/run.pid", \
exit_file = "{root}/run.exit" }}
records = {{ issue = "{issue}" }}
[run.standing]
relaunch = {{ classes = ["preempted"] }}
"""


class PhoneClock(SystemClock):
    """The machine's clock; its wall clock can be set, and time passes when a test says so."""

    def __init__(self) -> None:
        self.passed = self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.passed + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


class Machine:
    """One machine's watch of the run, with a store of its own or another's."""

    def __init__(self, config: Path, store: Path) -> None:
        self.store = Store(store)
        self.clock = PhoneClock()
        self.file = load(config)
        self.key = run_key(self.file.path, "dusk")
        self.engine = Engine(self.file, store=self.store, clock=self.clock)
        self.answers = self.watch()

    def watch(self) -> AnswerService:
        """One more watch on the same store."""
        issues = build_records(lambda: self.file, self.store, self.clock)[1]
        return AnswerService(self.engine, self.store, self.clock, lambda report: True, issues)

    async def look(self, *watches: AnswerService) -> None:
        """Let the watches (by default this machine's own) look once, and do what they find."""
        engine = Engine(self.file, store=self.store, clock=self.clock)
        (report,) = (await engine.check(["dusk"], 20)).runs
        known = {kept.alert.key for kept in Alerts(self.store).open(self.key)}
        fresh = [
            Kept(alert=alert, opened_at=self.clock.now())
            for alert in report.alerts
            if alert.key not in known
        ]
        Alerts(self.store).save(self.key, fresh)
        each = watches or (self.answers,)
        for watch in each:
            watch._hear(report)
        await asyncio.gather(*(watch.look() for watch in each))
        for watch in each:
            await asyncio.gather(*watch._reading.values())
            while any(watch._queues.values()) or any(not t.done() for t in watch._acting.values()):
                await asyncio.gather(*watch._acting.values())
                watch._begin_waiting()

    async def answered(self, *watches: AnswerService, after: float = 61.0) -> list[str]:
        """Look after the time between two looks has passed; return all that is known of answers."""
        self.clock.passed += after
        await self.look(*watches)
        return [each.text for each in Answers(self.store).of(self.key)]

    async def person(self, action: str, **params: str) -> str:
        """Do something at this cockpit, as ada."""
        parts = (lambda: self.file, self.engine, self.store, self.clock)
        service = build_service(*parts, operator="ada")
        request = Request(action=action, run="dusk", operator="ada", params=params)
        plan = await service.plan(request)
        result = await service.act(request, plan.words, shown=plan.plan_id)
        assert result.outcome is Outcome.DONE, f"{result.message}\n{plan.checks}"
        return result.launch_id or ""

    @property
    def entries(self) -> list[JournalEntry]:
        return list(Journal(self.store).entries(self.key))

    def did(self, action: str) -> list[str]:
        """Who has done an action, and how it ended."""
        return [
            f"{each.operator}: {each.outcome.value if each.outcome else None}"
            for each in self.entries
            if each.action == action
        ]

    @property
    def open(self) -> dict[str, str | None]:
        """The open alerts, and who has acknowledged them."""
        found = (kept.alert for kept in Alerts(self.store).open(self.key))
        return {
            each.id: None if each.acknowledged is None else each.acknowledged.by for each in found
        }


class Phone:
    """A GitHub on this machine, and the run that its issue is about."""

    def __init__(self, folder: Path, github: FakeGitHub) -> None:
        self.folder = folder
        self.github = github
        self.config = folder / "cockpit.toml"
        github.add_issue()

    def failed_run(self, answers: str = ANSWERS) -> Path:
        """Write a run file whose run has just crashed."""
        root = self.folder / "out"
        root.mkdir(exist_ok=True)
        (root / "run.log").write_text("step 1/1000 loss=2\n" + "\n".join(CRASH) + "\n")
        (root / "run.exit").write_text("1\n")
        self.config.write_text(RUN_FILE.format(root=root, issue=ISSUE, answers=answers))
        return self.config

    def says(self, body: str, who: str = "ada-l", ago: float = 0.0, **more: Any) -> None:
        """Have somebody comment; by GitHub's clock it was ``ago`` seconds ago."""
        assert self.github.now is not None
        at = f"{datetime.fromtimestamp(self.github.now() - ago, UTC):%Y-%m-%dT%H:%M:%SZ}"
        comment = self.github.add_comment(1, body, created_at=at, updated_at=at)
        comment["user"] |= {"login": who, "type": "User"}
        comment |= more

    @property
    def replies(self) -> list[str]:
        return [each for each in self.github.bodies() if each.startswith("🤖")]


@pytest.fixture
async def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Phone]:
    async with fake_github.running() as github:
        github.now = time.time
        monkeypatch.setenv("GITHUB_API_URL", github.base)
        monkeypatch.setenv("GH_TOKEN", "ghp_" + "a1B2c3D4e5F6" * 3)
        yield Phone(tmp_path, github)


@pytest.fixture
async def here(phone: Phone) -> Machine:
    """A watch that has seen the run fail."""
    machine = Machine(phone.failed_run(), phone.folder / "here.sqlite")
    await machine.look()
    assert machine.open["C-01"] is None
    return machine


async def test_a_comment_acknowledges_an_alert_as_the_person_of_that_account(
    phone: Phone, here: Machine
) -> None:
    phone.says("  /Ack c-01 \n")
    for _ in range(3):
        (answer,) = await here.answered()
    assert answer.startswith("answer by GitHub of ada-l (ada): /Ack c-01 done: C-01 acknowledged")
    assert here.open["C-01"] == "ada"
    assert here.did("ack") == ["ada (login ada-l on GitHub): done"], "once"
    (reply,) = phone.replies
    assert "ada: C-01 acknowledged" in reply


async def test_the_history_shows_answers_and_what_they_did(
    phone: Phone, here: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    phone.says("/ack all")
    await here.answered()
    monkeypatch.setattr("cockpit.verbs.common.store_path", lambda: here.store.path)
    await asyncio.to_thread(main, ["history", "dusk", "--json", "--config", str(phone.config)])
    found = json.loads(capsys.readouterr().out)
    assert [(each["who"], each["state"]) for each in found["answers"]] == [("ada-l (ada)", "done")]
    assert {each["typed_by"] for each in found["actions"]} == {"ada (login ada-l on GitHub)"}


@pytest.mark.parametrize(
    ("body", "who", "more", "told"),
    [
        ("/ack all", "ada-1", {}, "ignored: the run file names nobody"),
        ("/ack all", "ada-l-", {}, "ignored"),
        ("/ack all", "аda-l", {}, "ignored"),
        ("/ack all", "ada-l", {"performed_via_github_app": {"id": 1}}, "ignored: an app or a bot"),
        ("/ack all", "ada-l", {"user": {"login": "ada-l", "type": "Bot"}},
         "ignored: an app or a bot"),
        ("/ack all", "ada-l", {"user": None}, "ignored"),
        ("/ack all", "ada-l", {"updated_at": "2030-01-01T00:00:00Z"}, "refused: the comment was"),
        ("/ack C-01 and all others", "ada-l", {}, "refused: expected /ack"),
        ("/ack \x1b[31mC-01\x07", "ada-l", {}, "refused: expected /ack"),
        ("/ack C-99", "ada-l", {},
         "refused: no alert c-99 is open that was when this was written; open then: C-01"),
        ("/stop", "ada-l", {}, "refused: expected /stop standing"),
        ("/stop standing", "ada-l", {}, "refused: no standing order is armed"),
        ("/relaunch", "bob", {},
         "refused: bob may not relaunch dusk from here: the run file names ada as its dri"),
        ("/relaunch", "ada-l", {}, "refused: not from here: "),
        ("relaunch dusk from 100 ABCDEF", "ada-l", {}, "ignored: these words were not asked for"),
    ],
)  # fmt: skip
async def test_what_is_no_good_answer_does_nothing_and_says_why(
    phone: Phone, here: Machine, body: str, who: str, more: dict[str, Any], told: str
) -> None:
    phone.says(body, who, **more)
    await here.answered()
    (answer,) = await here.answered()
    assert told in answer
    assert "\x1b" not in answer
    assert here.entries == []
    assert here.open["C-01"] is None
    assert len(phone.replies) == ("refused" in told), "who is nobody gets no reply"
    phone.github.broken.clear()  # accounts that GitHub would not have


@pytest.mark.parametrize(
    "body", ["The loss looks odd", "/shrug", "please /ack all", "/ackall", "> /ack all\n", ""]
)
async def test_what_is_no_command_is_no_answer(phone: Phone, here: Machine, body: str) -> None:
    phone.says(body)
    assert await here.answered() == []
    assert phone.replies == []


async def test_a_comment_acknowledges_nothing_that_opened_after_it(
    phone: Phone, here: Machine
) -> None:
    phone.says("/ack all", ago=600)
    here.clock.ahead = 7200
    (answer,) = await here.answered()
    assert "refused: no alert is open that was when this was written" in answer
    assert here.did("ack") == []
    assert here.open["C-01"] is None


async def test_an_old_comment_is_not_acted_on_whatever_the_clock_of_this_machine(
    phone: Phone, here: Machine
) -> None:
    phone.says("/ack all", ago=3700)
    for ahead in (0.0, -86400.0, 7200.0):
        here.clock.ahead = ahead
        (answer,) = await here.answered()
        assert "ignored: it was 1h 01m old when it was read" in answer
    assert phone.replies == []
    assert here.open["C-01"] is None


async def test_two_watches_that_read_one_comment_at_once_act_once(
    phone: Phone, here: Machine
) -> None:
    phone.says("/ack C-01")
    await here.answered(here.answers, here.watch(), here.watch())
    assert here.did("ack") == ["ada (login ada-l on GitHub): done"]
    assert len(phone.replies) == 1


async def test_a_comment_ends_the_standing_order(phone: Phone, night: Night) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    await here.person("launch")
    await here.person("standing", until="10h")
    phone.says("/stop standing", "bob")
    await here.answered()
    order = StandingOrders(here.store).of(here.key)
    assert order is None or order.over is not None
    assert here.did("standing")[-1] == "bob (login bob on GitHub): done"
    assert "standing order of ada has ended" in phone.replies[-1]


async def test_services_that_fail_are_asked_less_often_and_said(
    phone: Phone, here: Machine
) -> None:
    phone.says("/ack all")
    bad = (Reply(500), Reply(200, {"no": "list"}), Reply(200, [{"id": "x"}]), Reply(401))
    for reply in bad:
        phone.github.troubles = [Trouble("GET", "/comments", reply=reply)] * 9
        assert await here.answered(after=LONGEST_WAIT) == []
        assert "answers cannot be read: " in here.answers.notices[0]
    phone.github.troubles = []
    assert len(await here.answered(after=LONGEST_WAIT)) == 1
    assert here.answers.notices == ()
    phone.github.broken.clear()


def with_answers(night: Night) -> Path:
    """The run file of a real trainer, with answers by GitHub."""
    text = night.config.read_text().replace("[notify]", f'[notify]\nsecond = "bob"\n{ANSWERS}')
    night.config.write_text(text.replace("dusk.md", f'dusk.md", issue = "{ISSUE}'))
    return night.config


def words_in(reply: str) -> str:
    """The words that a reply asks to be sent back."""
    found = [line for line in reply.splitlines() if line.startswith("/relaunch dusk from ")]
    assert found, reply
    return found[0]


async def test_a_relaunch_needs_its_words_sent_back_and_happens_once(
    phone: Phone, night: Night
) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    other = Machine(night.config, phone.folder / "other.sqlite")
    assert await here.person("launch") == "dusk-i001"
    night.ends(PREEMPTED, 143)
    await here.look()
    phone.says("/relaunch")
    await here.answered()
    words = words_in(phone.replies[-1])
    assert night.starts == ["dusk-i001"], "planned, and no more"
    code = words.rpartition(" ")[2]
    for wrong, who in (
        (words, "bob"), (f"/relaunch dusk from 999999 {code}", "ada-l"),
        ("/relaunch dusk", "ada-l"),
    ):  # fmt: skip
        phone.says(wrong, who)
        assert "refused" in (await here.answered())[-1]
    assert night.starts == ["dusk-i001"]
    phone.says(words)
    assert "ignored: these words were not asked for" in (await other.answered())[-1]
    assert night.starts == ["dusk-i001"], "the other machine has not offered it"
    done = (await here.answered())[-1]
    assert "done: relaunch " in done and "dusk-i002" in done
    assert night.starts == ["dusk-i001", "dusk-i002"]
    assert here.did("relaunch") == ["ada (login ada-l on GitHub): done"]
    night.ends(PREEMPTED, 143)
    phone.says(words)
    assert "refused: these words hold no more: it was used already" in (await here.answered())[-1]
    assert night.starts == ["dusk-i001", "dusk-i002"]


@pytest.mark.parametrize(
    ("passed", "ahead", "why"),
    [(16 * 60, 0.0, "it held for 15"), (16 * 60, -16 * 60.0, "it held for 15"),
     (0.0, -3600.0, "clock was set back")],
)  # fmt: skip
async def test_words_hold_for_a_while_and_a_clock_that_is_set_back_does_not_lengthen_it(
    phone: Phone, night: Night, passed: float, ahead: float, why: str
) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    await here.person("launch")
    night.ends(PREEMPTED, 143)
    await here.look()
    phone.says("/relaunch")
    await here.answered()
    phone.says(words_in(phone.replies[-1]))
    here.clock.passed += passed
    here.clock.ahead = ahead
    assert why in "".join(await here.answered())
    assert night.starts == ["dusk-i001"]


async def test_doctor_says_whether_answers_can_be_read(
    phone: Phone, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--json", "--config", str(phone.failed_run())]

    async def said() -> dict[str, str]:
        await asyncio.to_thread(main, words)
        found = json.loads(capsys.readouterr().out)["findings"]
        return next(each for each in found if each["name"] == "answers github")

    good = await said()
    assert (good["level"], good["text"]) == ("ok", "answers of ada, bob can be read from GitHub")
    phone.github.issues.clear()
    bad = await said()
    assert bad["level"] == "problem" and "not found" in bad["text"] and "GH_TOKEN" in bad["remedy"]
