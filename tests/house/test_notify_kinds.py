"""Every kind of route of ``[notify]`` carries a message, or says why it cannot."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.notify import ANSWER_KINDS, ROUTE_KINDS
from cockpit.notify.readers import READERS
from cockpit.notify.routes import SENDERS
from tests.notify.receivers import mail_server, webhook

ROOT = Path(__file__).parents[2]
RUN_FILE = ROOT / "docs" / "run-file.md"


class Post:
    """Where test messages go; nothing leaves this machine."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = patch

    def sent(self, route: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Send a test message by one route; return what ``doctor`` found."""
        path = self.folder / "cockpit.toml"
        path.write_text(f'[notify]\nroutes = [{route}]\n[[run]]\nname = "toy"\n')
        main(["doctor", "--notify", "--json", "--config", str(path)])
        findings = json.loads(capsys.readouterr().out)["findings"]
        (found,) = (each for each in findings if each["name"].startswith("notify "))
        return dict(found)


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    yield Post(tmp_path, monkeypatch)


def test_no_kind_is_without_a_test() -> None:
    named = [name.removeprefix("test_") for name in globals()]
    assert [kind for kind in ROUTE_KINDS if f"{kind}_is_a_kind_of_route" not in named] == []


@pytest.mark.parametrize("kind", ROUTE_KINDS)
def test_each_row_has_its_sender_its_remedy_and_its_place_in_the_documents(kind: str) -> None:
    row = ROUTE_KINDS[kind]
    assert (kind in SENDERS) == (row.needs != "url_env"), "sent by apprise, or by a sender"
    assert row.remedy
    line = next(each for each in RUN_FILE.read_text().splitlines() if "`slack`" in each)
    assert f"`{kind}`" in line, "make docs"


def test_no_sender_is_of_no_kind() -> None:
    assert SENDERS.keys() <= ROUTE_KINDS.keys()


def test_each_kind_of_answer_has_its_reader_its_remedy_and_its_recipe() -> None:
    assert READERS.keys() == ANSWER_KINDS.keys()
    page = (ROOT / "docs" / "phone.md").read_text()
    for kind, row in ANSWER_KINDS.items():
        assert row.remedy and row.label and row.every >= 10
        assert f'kind = "{kind}"' in page


def test_webhook_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    with webhook() as server:
        post.patch.setenv("HOOK", server.url)
        found = post.sent('{ kind = "webhook", url_env = "HOOK" }', capsys)
        assert len(server.posted) == 1
    assert (found["name"], found["level"]) == ("notify webhook HOOK", "ok")


def test_email_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    with mail_server() as server:
        post.patch.setenv("MAIL", server.url)
        found = post.sent('{ kind = "email", url_env = "MAIL" }', capsys)
        assert len(server.mails) == 1
    assert (found["name"], found["level"]) == ("notify email MAIL", "ok")


def test_slack_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "slack")


def test_discord_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "discord")


def test_ntfy_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "ntfy")


def test_pushover_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "pushover")


def test_pagerduty_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "pagerduty")


def test_opsgenie_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    _demands(post, capsys, "opsgenie")


def _demands(post: Post, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """A chat service is demanded by name: another address gets no message."""
    with webhook() as server:
        post.patch.setenv("HOOK", server.url)
        found = post.sent(f'{{ kind = "{kind}", url_env = "HOOK" }}', capsys)
        assert server.posted == []
    assert found["text"] == f"failed: its value is an address of webhook, not of {kind}"


def test_command_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import pathlib, sys; pathlib.Path('told').write_text(sys.stdin.read())"
    route = json.dumps([sys.executable, "-c", script])
    found = post.sent(f'{{ kind = "command", command = {route} }}', capsys)
    assert found["level"] == "ok"
    assert "how an alert reaches you" in (post.folder / "told").read_text()


def test_desktop_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    told = post.folder / "told"
    program = post.folder / ("osascript" if sys.platform == "darwin" else "notify-send")
    program.write_text(f'#!/bin/sh\necho "$@" > {told}\n')
    program.chmod(0o755)
    post.patch.setenv("PATH", str(post.folder), prepend=":")
    post.patch.setenv("DISPLAY", ":9")
    found = post.sent('{ kind = "desktop" }', capsys)
    assert found["level"] == "ok"
    assert "how an alert reaches you" in told.read_text()


def test_terminal_is_a_kind_of_route(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    rung: list[str] = []
    post.patch.setattr("cockpit.verbs.doctor.terminal_of_this_process", lambda: rung.append)
    found = post.sent('{ kind = "terminal" }', capsys)
    assert (found["name"], found["level"]) == ("notify terminal", "ok")
    assert rung and "\a" in rung[0]
