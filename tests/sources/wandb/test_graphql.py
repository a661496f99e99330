"""A query's text and what recorded answers mean, without any server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import WandbSpec
from cockpit.runtime.http import Answer, HttpError
from cockpit.sources.wandb.online_run import Came, ServerRows
from cockpit.sources.wandb.server import Document, Key, pause_of, project_of

KEY = Key("k" * 40, "WANDB_API_KEY")
SPEC = WandbSpec(url="https://wandb.ai/acme/hero/runs/abc")
NOW = 1_768_032_000.0
FIELDS = {
    "name": "abc", "displayName": "hero-1", "state": "running", "historyLineCount": 2,
    "createdAt": "2026-01-10T07:50:00", "heartbeatAt": "2026-01-10T07:59:50Z", "commit": None,
}  # fmt: skip
ROWS = [
    '{"global_step":0,"train/loss":3,"_timestamp":1768031980.5,"_runtime":0.9,"_step":0}',
    '{"global_step":2,"train/loss":"NaN","_timestamp":1768031981.5,"_runtime":1.9,"_step":1}',
]
SUMMARY = '{"_step":1,"_timestamp":1768031981.5,"global_step":2,"train/loss":"NaN","x":{"y":1}}'
CONFIG = '{"_wandb":{"value":{"cli_version":"0.31.0"}},"lr":{"desc":null,"value":0.1}}'
"""What the client 0.31 had sent, as it came back."""


def answer(document: Any, status: int = 200) -> Answer:
    return Answer(status, {}, json.dumps(document).encode(), "w.example")


def project(**runs: Any) -> dict[str, Any]:
    return {"data": {"project": {"name": "hero", "entityName": "acme", **runs}}}


def test_two_looks_at_a_recorded_run() -> None:
    run, came = ServerRows(SPEC, "https://api.wandb.ai"), Came(NOW, entity="acme", project="hero")
    for more in ({"summaryMetrics": SUMMARY, "config": CONFIG}, {"n": ROWS, "config": CONFIG}):
        plan = run.plan(1e6, 1e6)
        (told,) = project_of(answer(project(r0={**FIELDS, **more})), ["abc"], KEY, "acme/hero").runs
        run.run.take(told.fields, plan, came)
        value = run.value(FixedClock(NOW))
    chunk = run.more()
    assert (value.id, value.name, value.step, str(value.loss)) == ("abc", "hero-1", 2, "nan")
    assert (value.url, value.producer) == (SPEC.url, "0.31.0")
    assert (value.heartbeat_at, value.last_step_at) == (NOW - 10, NOW - 18.5)
    assert [(row.step, str(row.loss)) for row in chunk.rows] == [(0, "3.0"), (2, "nan")]
    assert chunk.caught_up and value.config == {"lr": 0.1}


def test_what_a_person_wrote_is_never_part_of_the_querys_text() -> None:
    hostile = 'x") { id } } #'
    document = Document(hostile, hostile)
    run = ServerRows(WandbSpec(entity="e", project="p", id=hostile), "http://w")
    run.ask(document, run.plan(0, 0))
    assert hostile not in document.body["query"]
    assert list(document.body["variables"].values()).count(hostile) == 3


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("permission denied", ErrorKind.FORBIDDEN), ("Rate limit exceeded", ErrorKind.RATE_LIMITED),
        ("user is not logged in", ErrorKind.UNAUTHORIZED), ("context deadline", ErrorKind.TIMEOUT),
        ("run not found", ErrorKind.NOT_FOUND), ("panic \x1b[2J", ErrorKind.BAD_ANSWER),
    ],
)  # fmt: skip
def test_an_error_in_a_good_answer(message: str, kind: ErrorKind) -> None:
    errors = [{"message": message, "path": ["project"]}]
    with pytest.raises(HttpError) as raised:
        project_of(answer({"data": {"project": None}, "errors": errors}), ["abc"], KEY, "acme/hero")
    assert raised.value.kind is kind and "\x1b" not in str(raised.value)
    errors[0]["path"] = ["project", "r1"]
    first, second = project_of(
        answer({**project(r0=FIELDS, r1=None), "errors": errors}), ["a", "b"], KEY, "acme/hero"
    ).runs
    assert first.problem is None and second.problem is not None and not second.spoilt
    assert second.problem.kind is kind
    assert second.problem.message.startswith("run b in acme/hero: ")


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None), ({"ratelimit-remaining": "17", "ratelimit-reset": "9"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 9.0),
        ({"ratelimit-remaining": "0"}, 60.0), ({"ratelimit-remaining": "x"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "1e9"}, 3600.0),
    ],
)  # fmt: skip
def test_a_stated_limit(headers: dict[str, str], pause: float | None) -> None:
    assert pause_of(headers) == pause
