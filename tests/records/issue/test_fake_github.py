"""The stand-in for GitHub is only worth what it notices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.records.fake_github import DESCRIPTION, OWNER, REPO
from tests.records.openapi import Description

ISSUES = f"/repos/{OWNER}/{REPO}/issues"


def wrong(method: str, path: str, body: Any = None, **query: str) -> list[str]:
    data = b"" if body is None else json.dumps(body).encode()
    return list(DESCRIPTION.request(method, path, query, data))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", ISSUES, {"body": "a body without a title"}),
        ("POST", ISSUES, {"title": None}),
        ("POST", ISSUES, {"title": "x", "labels": "experiment"}),
        ("POST", ISSUES, {"title": "x", "colour": "red"}),
        ("PATCH", f"{ISSUES}/1", {"state": "clos"}),
        ("PATCH", f"{ISSUES}/1", {"state_reason": "bored"}),
        ("POST", f"{ISSUES}/1/comments", {}),
        ("POST", f"{ISSUES}/1/comments", {"body": 5}),
        ("POST", f"{ISSUES}/1/comments", [1]),
        ("GET", f"{ISSUES}/abc", None),
        ("GET", f"{ISSUES}/1", {"body": "x"}),
        ("PUT", f"{ISSUES}/1", {"title": "x"}),
    ],
)
def test_a_request_that_github_does_not_describe_is_noticed(
    method: str, path: str, body: Any
) -> None:
    assert wrong(method, path, body)


def test_requests_as_described_pass() -> None:
    assert not wrong("POST", ISSUES, {"title": "x", "body": "y", "labels": ["a"]})
    assert not wrong("PATCH", f"{ISSUES}/1", {"state": "closed", "state_reason": None})
    assert not wrong("POST", f"{ISSUES}/1/comments", {"body": "x"})
    assert not wrong("GET", ISSUES, state="open", per_page="100", page="2", direction="desc")
    assert wrong("GET", ISSUES, state="ajar")
    assert wrong("GET", ISSUES, pages="2")
    assert wrong("GET", ISSUES, page="two")


def test_an_answer_that_is_not_githubs_is_noticed() -> None:
    comment = DESCRIPTION.example("issue-comment")
    path = f"{ISSUES}/1/comments"
    assert not list(DESCRIPTION.answer("POST", path, 201, comment))
    comment.pop("node_id")
    assert list(DESCRIPTION.answer("POST", path, 201, comment))
    assert list(DESCRIPTION.answer("POST", path, 299, comment))
    assert not list(DESCRIPTION.answer("GET", f"{ISSUES}/1", 200, DESCRIPTION.example("issue")))


def test_nullable_beside_one_of_does_not_silence_the_check() -> None:
    document = json.loads(json.dumps(DESCRIPTION.document))
    post = document["paths"]["/repos/{owner}/{repo}/issues"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    schema["properties"]["title"]["nullable"] = True
    schema["properties"]["milestone"]["nullable"] = True
    trapped = Description(document)
    assert list(trapped.request("POST", ISSUES, {}, b'{"body": "no title"}'))
    assert list(trapped.request("POST", ISSUES, {}, b'{"title": "x", "milestone": []}'))
    assert not list(trapped.request("POST", ISSUES, {}, b'{"title": "x", "milestone": null}'))
