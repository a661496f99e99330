from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from tests.notify.receivers import webhook


def written(folder: Path, notify: str) -> Path:
    path = folder / "cockpit.toml"
    path.write_text(f'{notify}\n[[run]]\nname = "r"\n')
    return path


def findings(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    main(["doctor", "--json", "--config", str(path), *words])
    told = json.loads(capsys.readouterr().out)["findings"]
    return {each["name"]: each for each in told}


def test_a_test_message_goes_by_every_route(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path,
        '[notify]\nheartbeat_url_env = "DEADMAN"\nroutes = [{ min = "critical", url_env = "HOOK" },'
        '{ url_env = "BAD" }, { url_env = "MISSING" }, { kind = "terminal" },'
        '{ command = ["./no-such"] }]',
    )
    with webhook() as good, webhook() as bad:
        bad.status = 404
        monkeypatch.setenv("HOOK", good.url)
        monkeypatch.setenv("BAD", bad.url)
        found = findings(capsys, path, "--notify")
        assert main(["doctor", "--notify", "--config", str(path)]) == 1
        text = capsys.readouterr().out
        assert good.titles == ["[test] cockpit: this is how an alert reaches you"] * 2
    assert found["notify url HOOK"]["level"] == "ok"
    assert found["notify url HOOK"]["text"] == "a test message was sent: sent by webhook"
    assert found["notify url BAD"]["level"] == "problem"
    assert "answered 404" in found["notify url BAD"]["text"]
    assert found["notify url MISSING"]["text"] == "MISSING is not set"
    assert found["notify url MISSING"]["remedy"].startswith("export MISSING=")
    assert found["notify terminal"]["level"] == "note"
    assert found["notify command no-such"]["level"] == "problem"
    assert found["dead man's switch"]["level"] == "problem"
    assert all(each["remedy"] for each in found.values() if each["level"] != "ok")
    assert "s3cr3t" not in text and "s3cr3t" not in json.dumps(found)


def test_without_the_flag_nothing_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, '[notify]\nroutes = [{ url_env = "HOOK" }]')
    with webhook() as hook:
        monkeypatch.setenv("HOOK", hook.url)
        found = findings(capsys, path)
    assert hook.posted == []
    assert "--notify" in found["notify url HOOK"]["text"]


def test_no_route_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "")
    assert "notify" not in findings(capsys, path)
    assert findings(capsys, path, "--notify")["notify"]["level"] == "problem"


@pytest.mark.parametrize(
    "route",
    ['{ min = "alert" }', '{ url_env = "A", command = "x" }', '{ kind = "command" }',
     '{ kind = "terminal", url_env = "A" }', '{ kind = "pigeon", url_env = "A" }'],
)  # fmt: skip
def test_a_route_that_leads_nowhere_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str
) -> None:
    path = written(tmp_path, f"[notify]\nroutes = [\n{route}]")
    assert main(["check", "--config", str(path)]) == 2
    assert "cockpit.toml:3: notify.routes" in capsys.readouterr().err
