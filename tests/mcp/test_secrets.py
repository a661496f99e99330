"""An agent is a way out of the program too: none of a run's secrets comes out by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.client import Client
from tests.planted import Planted, leaks

READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fleet", {}),
    ("log", {"lines": 200}),
    ("log_search", {"term": "[a-z]", "regex": True}),
    ("triage", {}),
    ("checkpoints", {}),
    ("history", {}),
    ("handoff_page", {}),
)


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    made = Planted(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_no_tool_and_no_resource_gives_a_secret(planted: Planted) -> None:
    client = Client(planted.config, planted.folder, env=planted.environment())
    try:
        client.greet()
        (name,) = [row["run"] for row in client.use("fleet")["runs"]]
        facets = list(client.use("run", run=name)["facets"])
        said = [client.use("run", run=name, facets=facets)]
        for tool, given in READS[1:]:
            said.append(client.use(tool, run=name, **given))
        for action in ("relaunch", "escalate"):
            said.append(client.use("plan", run=name, action=action))
        uris = [each["uri"] for each in client.ask("resources/list")["result"]["resources"]]
        said += [client.ask("resources/read", uri=uri) for uri in uris]
        assert "foreign_lines" in json.dumps(said)
        assert leaks(json.dumps(said, ensure_ascii=False), seen="mcp") == []
        assert client.leave() == 0
        assert client.process.stderr is not None
        assert leaks(client.process.stderr.read(), seen="stderr") == []
    finally:
        client.end()
