"""Answers through ntfy, PagerDuty, Opsgenie and Slack: each on a service of this machine."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus, urlsplit

import pytest

from cockpit.cli import main
from cockpit.notify.notifier import Notifications
from cockpit.notify.offering import key_path
from cockpit.services.answers import LONGEST_WAIT
from tests.notify.receivers import mail_server
from tests.services.test_answers import Machine
from tests.services.test_standing import CRASH, PREEMPTED, Night, night

__all__ = ["night"]
RUN_FILE = """
[cockpit]
operator = "carl"
[notify]
second = "bob"
routes = [{{ min = "info", url_env = "ROUTE", kind = "{kind}", {route} }}]
answers = [{{ kind = "{kind}", {answers} }}]
[[run]]
name = "dusk"
tier = "ordinary"
dri = "ada"
final_step = 1000
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", log = "{root}/run.log", pid_file = "{root}/run.pid", \
exit_file = "{root}/run.exit" }}
"""


class Services:
    """Keeps what was posted, and answers a GET with the document of its path."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, str], Any]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.documents: dict[str, Any] = {}
        self.pressed: list[dict[str, Any]] = []
        self.status = 200
        self.garbage: bytes | None = None
        self.now: Callable[[], float] = time.time
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                told = {name.lower(): value for name, value in self.headers.items()}
                outer.posted.append((self.path, told, body))
                slack = self.path.startswith("/services")
                self._answer(b"ok" if slack else b'{"ok": true, "status": 1, "requestId": "r"}')

            def do_GET(self) -> None:
                told = {name.lower(): value for name, value in self.headers.items()}
                outer.asked.append((self.path, told))
                self._answer(outer.answer(urlsplit(self.path).path))

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(int(outer.now()))

            def _answer(self, body: bytes) -> None:
                body = body if outer.garbage is None else outer.garbage
                self.send_response(outer.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def answer(self, path: str) -> bytes:
        if path == "/replies-here/json":
            return "\n".join(map(json.dumps, self.pressed)).encode()
        return json.dumps(self.documents.get(path, {})).encode()

    def press(self, body: str, ago: float = 0.0) -> None:
        """Have a message come to the topic for answers."""
        number = len(self.pressed)
        self.pressed.append(
            {
                "id": f"m{number}", "time": int(time.time() - ago), "event": "message",
                "topic": "replies-here", "message": body,
            }
        )  # fmt: skip

    @property
    def buttons(self) -> dict[str, str]:
        """The buttons of the last message, and what each would send."""
        actions = self.posted[-1][1].get("x-actions", "")
        found = re.findall(r'http, ([^,]+), "([^"]+)", method=POST, body="([^"]+)"', actions)
        assert {topic for _, topic, _ in found} <= {f"{self.url}/replies-here"}
        return {label: body for label, _, body in found}

    @property
    def last(self) -> Any:
        return json.loads(self.posted[-1][2])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def services() -> Iterator[Services]:
    made = Services()
    yield made
    made.close()


class Desk:
    """The run file of one kind of answers, and the machines that watch its run."""

    def __init__(self, folder: Path, services: Services, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.services = services
        self.patch = patch

    def run_file(self, kind: str, route: str, answers: str) -> Path:
        root = self.folder / "out"
        root.mkdir()
        (root / "run.log").write_text("step 1/1000 loss=2\n" + "\n".join(CRASH) + "\n")
        (root / "run.exit").write_text("1\n")
        path = self.folder / "cockpit.toml"
        path.write_text(RUN_FILE.format(kind=kind, route=route, answers=answers, root=root))
        return path

    async def machine(self, config: Path, name: str = "here") -> Machine:
        machine = Machine(config, self.folder / f"{name}.sqlite")
        await machine.look()
        assert machine.open["C-01"] is None
        return machine

    async def ntfy(self) -> Machine:
        """A machine that has told ada of a crash by ntfy."""
        self.patch.setenv("ROUTE", f"ntfy://{self.services.place}/alerts")
        self.patch.setenv("TOPIC", f"{self.services.url}/replies-here")
        config = self.run_file("ntfy", 'to = "ada"', 'url_env = "TOPIC"')
        machine = await self.machine(config)
        await tell(machine)
        return machine

    async def slack(self) -> tuple[Machine, dict[str, Any]]:
        """A machine that has told ada of a crash by Slack, and its message there."""
        webhook = f"https://hooks.slack.com/services/T00000000/B00000000/{'a1' * 12}"
        self.patch.setenv("ROUTE", webhook)
        self.patch.setenv("TOKEN", "xoxb-t0ken")
        people = '{ U012ABCDEF = "ada" }'
        where = f'token_env = "TOKEN", channel = "C012", api = "{self.services.url}/api"'
        config = self.run_file("slack", 'to = "ada"', f"{where}, people = {people}")
        here = await self.machine(config)
        self.services.now = here.clock.now
        await tell(here)
        posted = json.dumps(self.services.last)
        assert "answers to " in posted
        return here, {"ts": f"{here.clock.now():.6f}", "bot_id": "B1", "text": posted}

    def channel(self, *messages: dict[str, Any], **more: Any) -> None:
        """Have Slack's channel hold these messages."""
        history = {"ok": True, "messages": list(messages), **more}
        self.services.documents["/api/conversations.history"] = history

    async def incident(self, kind: str, address: str) -> Machine:
        self.patch.setenv("ROUTE", address)
        self.patch.setenv("TOKEN", "t0ken-of-the-api")
        people = '{ "ada@example.org" = "ada" }'
        answers = f'token_env = "TOKEN", api = "{self.services.url}", people = {people}'
        machine = await self.machine(self.run_file(kind, 'to = "ada"', answers))
        await tell(machine)
        return machine


@pytest.fixture
def desk(tmp_path: Path, services: Services, monkeypatch: pytest.MonkeyPatch) -> Desk:
    api = "apprise.plugins"
    monkeypatch.setattr(f"{api}.pagerduty.PAGERDUTY_API_LOOKUP", {"us": f"{services.url}/events"})
    monkeypatch.setattr(f"{api}.opsgenie.OPSGENIE_API_LOOKUP", {"us": f"{services.url}/v2/alerts"})
    monkeypatch.setattr(f"{api}.slack.NotifySlack.webhook_url", f"{services.url}/services")
    monkeypatch.setattr(f"{api}.pushover.NotifyPushover.notify_url", f"{services.url}/pushover")
    monkeypatch.setattr(f"{api}.discord.NotifyDiscord.notify_url", f"{services.url}/discord")
    return Desk(tmp_path, services, monkeypatch)


async def tell(machine: Machine) -> None:
    """Let a machine tell people what is open."""
    told = Notifications(machine.file, machine.store, machine.clock, mine=lambda report: True)
    told.began = 0.0
    engine = machine.engine
    for report in (await engine.check(["dusk"], 20)).runs:
        told.hear(report)
    await told.look()
    assert told.notices == ()


async def test_a_button_acknowledges_once_and_only_where_it_was_offered(
    desk: Desk, services: Services
) -> None:
    here = await desk.ntfy()
    token = services.buttons["Acknowledge"]
    other = await desk.machine(desk.folder / "cockpit.toml", "other")
    services.press(token)
    await other.answered()
    assert other.open["C-01"] is None, "another machine, with the same key"
    services.press(token)
    for _ in range(3):
        await here.answered()
    assert here.open["C-01"] == "ada"
    assert here.did("ack") == ["ada (login a button on ntfy): done"]


@pytest.mark.parametrize(
    ("change", "passed"),
    [
        (lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"), 0.0),
        (lambda token: "A" * 26 + token[26:], 0.0),
        (lambda token: token.partition(".")[0], 0.0),
        (lambda token: f"{token}\x1b[31m", 0.0),
        (lambda token: f"/ack all {token}", 0.0),
        (lambda token: "/ack all", 0.0),
        (lambda token: "\x00\u202e" * 50, 0.0),
        (lambda token: token, 13 * 3600.0),
    ],
    ids=["signature", "name", "unsigned", "more", "words", "no token", "garbage", "over"],
)
async def test_what_is_no_token_of_ours_does_nothing(
    desk: Desk, services: Services, change: Any, passed: float
) -> None:
    here = await desk.ntfy()
    services.press(change(services.buttons["Acknowledge"]))
    here.clock.passed += passed
    await here.answered()
    await here.answered()
    assert here.open["C-01"] is None
    assert here.entries == []


async def test_a_token_that_waits_on_the_topic_for_more_than_an_hour_does_nothing(
    desk: Desk, services: Services
) -> None:
    here = await desk.ntfy()
    services.press(services.buttons["Acknowledge"], ago=3700)
    await here.answered()
    assert here.entries == []


async def test_a_key_that_others_can_read_signs_nothing(desk: Desk, services: Services) -> None:
    here = await desk.ntfy()
    assert key_path().stat().st_mode & 0o777 == 0o600
    key_path().chmod(0o644)
    services.press(services.buttons["Acknowledge"])
    await here.answered()
    assert here.open["C-01"] is None
    assert "can be read by others" in here.answers.notices[0]


async def test_no_token_stands_in_the_history(
    desk: Desk, services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    here = await desk.ntfy()
    token = services.buttons["Acknowledge"]
    services.press(f"{token} {token}")
    services.press(token)
    told = await here.answered()
    assert any("done" in each for each in told)
    assert token not in "".join(told) and token.partition(".")[2] not in "".join(told)


async def test_a_relaunch_by_buttons_sends_its_words_back(
    desk: Desk, services: Services, night: Night
) -> None:
    desk.patch.setenv("ROUTE", f"ntfy://{services.place}/alerts")
    desk.patch.setenv("TOPIC", f"{services.url}/replies-here")
    route = '[notify]\nanswers = [{ kind = "ntfy", url_env = "TOPIC" }]\n'
    text = night.config.read_text().replace("[notify]\n", route)
    ntfy = '{ kind = "ntfy", url_env = "ROUTE", to = "ada", min = "alert" }, '
    night.config.write_text(text.replace("routes = [", f"routes = [{ntfy}"))
    here = Machine(night.config, desk.folder / "here.sqlite")
    await here.person("launch")
    night.ends(PREEMPTED, 143)
    await here.look()
    await tell(here)
    services.press(services.buttons["Relaunch?"])
    await here.answered()
    assert night.starts == ["dusk-i001"]
    ((label, words),) = services.buttons.items()
    assert re.fullmatch(r"relaunch dusk from \d+", label)
    services.press(words.rpartition(" ")[2])  # the token, without the words
    await here.answered()
    assert night.starts == ["dusk-i001"]
    services.press(words)
    services.press(words)
    await here.answered()
    assert night.starts == ["dusk-i001", "dusk-i002"]
    assert here.did("relaunch") == ["ada (login a button on ntfy): done"]


@pytest.mark.parametrize("kind", ["pagerduty", "opsgenie"])
async def test_an_incident_that_is_acknowledged_there_is_acknowledged_here(
    desk: Desk, services: Services, kind: str
) -> None:
    address = {
        "pagerduty": f"pagerduty://{'k' * 32}@{'a' * 20}/cockpit/trainer",
        "opsgenie": "opsgenie://aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee?action=new",
    }[kind]
    here = await desk.incident(kind, address)
    name = services.last["dedup_key" if kind == "pagerduty" else "alias"]

    def acknowledged(by: str, key: str) -> None:
        who = {"type": "user", "id": "PXPGF42", "email": by}
        taken = {"at": "2026-01-01T00:00:00Z", "acknowledger": who}
        incident = {"id": "Q1", "incident_key": key, "acknowledgements": [taken]}
        report = {"acknowledgedBy": by, "ackTime": 1}
        alert = {"id": "O1", "alias": key, "acknowledged": True, "report": report}
        services.documents["/incidents"] = {"incidents": [incident, {"id": "other"}]}
        services.documents["/v2/alerts"] = {"data": [alert, {"id": "other"}]}

    acknowledged("ada@example.org", "somebody-else's-incident")
    assert await here.answered() == []
    acknowledged("mallory@example.org", name)
    (ignored,) = await here.answered()
    assert "ignored: the run file names nobody" in ignored
    acknowledged("Ada@example.org", name)
    for _ in range(2):
        await here.answered()
    assert here.open["C-01"] == "ada"
    label = {"pagerduty": "PagerDuty", "opsgenie": "Opsgenie"}[kind]
    assert here.did("ack") == [f"ada (login Ada@example.org on {label}): done"]
    assert all("t0ken-of-the-api" in told["authorization"] for _, told in services.asked)


@pytest.mark.parametrize(
    ("status", "garbage"),
    [(500, None), (200, b"not json"), (200, b"[]"), (200, b'{"incidents": 1}'), (403, None)],
)
async def test_a_service_that_answers_badly_is_said_and_asked_again(
    desk: Desk, services: Services, status: int, garbage: bytes | None
) -> None:
    here = await desk.incident("pagerduty", f"pagerduty://{'k' * 32}@{'a' * 20}/cockpit/trainer")
    services.status, services.garbage = status, garbage
    await here.answered()
    (notice,) = here.answers.notices
    assert notice.startswith("answers cannot be read: ") and "t0ken" not in notice
    services.status, services.garbage = 200, b'{"incidents": []}'
    await here.answered(after=LONGEST_WAIT)
    assert here.answers.notices == ()


async def test_slack_is_answered_by_a_reaction_or_in_the_thread(
    desk: Desk, services: Services
) -> None:
    here, message = await desk.slack()
    stamp, posted = message["ts"], message["text"]
    message["reply_count"] = 3
    replies: list[dict[str, Any]] = [
        {"ts": stamp, "bot_id": "B1", "text": posted},
        {"ts": f"{time.time():.6f}", "user": "UMALLORY1", "text": "ack all"},
        {"ts": f"{time.time() + 1:.6f}", "user": "U012ABCDEF", "text": "stop standing"},
        {"ts": f"{time.time() + 2:.6f}", "user": "U012ABCDEF", "text": "ack all"},
        {"ts": f"{time.time() + 3:.6f}", "user": "U012ABCDEF", "text": "what is it?"},
    ]
    replies[3]["edited"] = {"user": "U012ABCDEF"}
    fake = {"ts": "1.1", "user": "UMALLORY1", "text": posted, "reactions": [
        {"name": "white_check_mark", "users": ["U012ABCDEF"]}]}  # fmt: skip
    desk.channel(message, fake)
    services.documents["/api/conversations.replies"] = {"ok": True, "messages": replies}
    told = await here.answered()
    assert here.did("ack") == [], "a message of somebody else's is none of ours"
    assert [each.partition(": ")[0] for each in sorted(told)] == [
        "answer by Slack of U012ABCDEF (ada)", "answer by Slack of U012ABCDEF (ada)",
        "answer by Slack of UMALLORY1",
    ]  # fmt: skip
    assert any("refused: no standing order is armed" in each for each in told)
    assert any("refused: the reply was edited" in each for each in told)
    threads = [json.loads(body)["thread_ts"] for path, _, body in services.posted[-2:]]
    assert threads == [stamp, stamp]
    message["reactions"] = [{"name": "white_check_mark", "users": ["UMALLORY1", "U012ABCDEF"]}]
    for _ in range(2):
        await here.answered()
    assert here.open["C-01"] == "ada"
    assert here.did("ack") == ["ada (login U012ABCDEF on Slack): done"]


RECIPES = {
    "ntfy": "ntfy://{place}/alerts",
    "pushover": f"pover://{'u' * 30}@{'t' * 30}",
    "pagerduty": f"pagerduty://{'k' * 32}@{'a' * 20}/cockpit/trainer",
    "opsgenie": "opsgenie://aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee?action=new",
    "slack": f"https://hooks.slack.com/services/T00000000/B00000000/{'a1' * 12}",
    "discord": f"discord://{'4' * 18}/{'t' * 68}",
}


@pytest.mark.parametrize("kind", RECIPES)
def test_each_recipe_carries_a_message(
    desk: Desk, services: Services, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.patch.setenv("ROUTE", RECIPES[kind].format(place=services.place))
    route = f'{{ kind = "{kind}", url_env = "ROUTE" }}'
    level = _sent(desk.folder, route, capsys)
    assert level == "ok"
    assert "how an alert reaches you" in unquote_plus(services.posted[-1][2].decode())


def test_the_recipe_for_mail_carries_a_message(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    with mail_server() as server:
        desk.patch.setenv("ROUTE", server.url)
        assert _sent(desk.folder, '{ kind = "email", url_env = "ROUTE" }', capsys) == "ok"
        assert len(server.mails) == 1


def _sent(folder: Path, route: str, capsys: pytest.CaptureFixture[str]) -> str:
    path = folder / "cockpit.toml"
    path.write_text(f'[notify]\nroutes = [{route}]\n[[run]]\nname = "dusk"\n')
    main(["doctor", "--notify", "--json", "--config", str(path)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = (each for each in findings if each["name"].startswith("notify "))
    return str(found["level"])
