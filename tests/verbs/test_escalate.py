"""An escalation that has reached nobody is not done, whatever of it is queued or recorded."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from cockpit.cli import main
from tests.verbs.tiny_run import TinyRun


class Limit(NamedTuple):
    """How a GitHub refuses whoever asks too often, and in how many seconds it may be asked."""

    status: int
    headers: dict[str, str]
    message: str


HOURLY = Limit(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800"},
               "API rate limit exceeded for user ID 1.")  # fmt: skip
SECONDARY = Limit(429, {"retry-after": "60"}, "You have exceeded a secondary rate limit.")
GONE = Limit(410, {}, "This issue was deleted")


class Refusing(http.server.BaseHTTPRequestHandler):
    limit = HOURLY

    def do_GET(self) -> None:
        body = json.dumps({"message": self.limit.message}).encode()
        self.send_response(self.limit.status)
        for name, value in {**self.limit.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def escalated(tiny: TinyRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("GH_TOKEN", "x" * 40)
    text = tiny.config.read_text().replace("final_step", 'dri = "bob"\nfinal_step')
    tiny.config.write_text(f'{text}records = {{ issue = "https://github.com/o/r/issues/5" }}\n')
    yield ["escalate", "tiny", "--config", str(tiny.config), "--confirm", "escalate tiny"]
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.parametrize("limit", [HOURLY, SECONDARY])
def test_a_comment_that_waits_has_told_nobody_yet(
    escalated: list[str],
    limit: Limit,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Refusing, "limit", limit)
    assert main(escalated) == 5
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("escalate tiny: nobody has been told yet: the comment waits: ")
    assert "next try" in first and "tell bob yourself" in first and "done" not in first
    assert main([*escalated, "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["outcome"] == "unknown"


def test_a_comment_that_is_refused_has_told_nobody(
    escalated: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusing, "limit", GONE)
    assert main(escalated) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("escalate tiny: nobody was told: not posted") and "done" not in first
