"""GitHub as a source: places, tokens, pages, tags, and what an issue says of its age."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.runtime.http import Http, HttpError
from cockpit.sources.github import KEPT, GitHub, GitHubPlace, Token, Tokens, issue_place, repo_place
from cockpit.sources.records import EVERY, Issues, Records
from tests.records.fake_github import FakeGitHub, Reply, Trouble, running
from tests.records.issue_services import TOKEN, SkipClock, github, run_spec

UPDATED = 1_768_032_000.0  # 2026-01-10T08:00:00Z


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with running() as fake:
        fake.token = TOKEN
        fake.add_issue()
        yield fake


def place(hub: FakeGitHub, number: int = 1) -> GitHubPlace:
    found = github(hub, SkipClock()).issue_place(hub.url(number))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "url",
    [
        "", "https://github.com/a/b/pull/7", "https://github.com/a/b/issues/x",
        "https://github.com/a/../issues/7", "https://github.com/a/b/issues/7 extra",
        "https://user:pw@github.com/a/b/issues/7", "ftp://github.com/a/b/issues/7",
        "https://github.com/a\n/b/issues/7", "https://example.org/7", "-o/b", "https://[::1]/a/b",
    ],
)  # fmt: skip
def test_other_addresses_are_no_issues(url: str) -> None:
    assert issue_place(url, {}) is None


def test_a_repository_is_named_shortly_or_by_its_address() -> None:
    for text in ("a/b", "https://github.com/a/b", "https://github.com/a/b.git"):
        found = repo_place(text, {})
        assert found is not None and found.repo_url == "https://api.github.com/repos/a/b"
    assert repo_place("a", {}) is None and repo_place("a/b/c", {}) is None
    assert repo_place("a/..", {}) is None


async def token_for(url: str, **env: str) -> Token | None:
    found = issue_place(url, env)
    assert found is not None
    return await Tokens(SkipClock(), env).token(found)


async def test_a_token_goes_only_to_the_host_that_it_is_for() -> None:
    public = "https://github.com/a/b/issues/1"
    other = "https://evil.example/a/b/issues/1"
    assert (await token_for(public, GH_TOKEN=TOKEN)) == Token(TOKEN, "GH_TOKEN")
    assert (await token_for(public, GITHUB_TOKEN=TOKEN)) == Token(TOKEN, "GITHUB_TOKEN")
    assert await token_for(other, GH_TOKEN=TOKEN, GITHUB_TOKEN=TOKEN) is None
    assert (await token_for(other, GH_ENTERPRISE_TOKEN=TOKEN)) is not None
    clear = "http://api.github.com"
    assert await token_for(public, GH_TOKEN=TOKEN, GITHUB_API_URL=clear) is None
    assert await token_for(public, GH_TOKEN=TOKEN, GITHUB_API_URL="http://127.0.0.1:1")
    assert await token_for(public, GH_TOKEN="two\nlines of it") is None
    assert TOKEN not in repr(Token(TOKEN, "GH_TOKEN")) + f"{Token(TOKEN, 'GH_TOKEN')}"


async def test_gh_is_asked_when_no_variable_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "gh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\necho {TOKEN}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    clock = SkipClock()
    tokens = Tokens(clock, {})
    found = issue_place("https://git.acme.org/a/b/issues/1", {})
    assert found is not None
    for _ in range(3):
        assert await tokens.token(found) == Token(TOKEN, "gh auth token")
    assert calls.read_text() == "auth token --hostname git.acme.org\n"
    clock.skip(KEPT + 1)
    await tokens.token(found)
    tokens.forget(found)
    await tokens.token(found)
    assert calls.read_text().count("\n") == 3
    assert tokens.remedy(found) == (
        "set GH_ENTERPRISE_TOKEN, or: gh auth login --hostname git.acme.org"
    )


async def test_an_issue_is_read_with_a_tag_that_makes_the_next_look_free(hub: FakeGitHub) -> None:
    hub.issues[1]["labels"] = [{"name": "experiment"}]
    client = github(hub, SkipClock())
    seen = await client.issue(place(hub))
    assert seen is not None
    issue = seen.issue
    assert (issue.title, issue.state, issue.updated_at) == ("Hero run: toy", "open", UPDATED)
    assert issue.labels == ("experiment",) and issue.url == hub.url(1)
    assert await client.issue(place(hub), seen.etag) is None
    hub.add_comment(1, "x")
    again = await client.issue(place(hub), seen.etag)
    assert again is not None and again.issue.updated_at == UPDATED + 86400
    assert hub.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_comments_come_newest_first_over_all_pages(hub: FakeGitHub) -> None:
    keys = [hub.add_comment(1, str(number))["id"] for number in range(205)]
    found = [comment.id async for comment in github(hub, SkipClock()).comments(place(hub))]
    assert found == sorted(keys, reverse=True)
    assert hub.count("GET", "/comments") == 3


async def test_pull_requests_are_no_issues(hub: FakeGitHub) -> None:
    hub.add_issue("a change", pull_request={
        "url": None, "html_url": None, "diff_url": None, "patch_url": None,
    })  # fmt: skip
    client = github(hub, SkipClock())
    repo = client.repo_place("ada/runs")
    assert repo is not None
    assert [issue.number async for issue in client.open_issues(repo)] == [1]


@pytest.mark.parametrize(
    "document", [{"updated_at": "yesterday"}, {"updated_at": None}, {"number": "x"}, {"title": []}]
)
async def test_an_answer_of_another_shape_is_said(
    hub: FakeGitHub, document: dict[str, object]
) -> None:
    hub.troubles.append(Trouble("GET", "", reply=Reply(200, hub.issues[1] | document)))
    with pytest.raises(HttpError) as caught:
        await github(hub, SkipClock()).issue(place(hub))
    assert caught.value.kind is ErrorKind.BAD_ANSWER and "look like" in str(caught.value)


async def test_what_is_refused_is_said_in_githubs_words_too(hub: FakeGitHub) -> None:
    with pytest.raises(HttpError, match=r"ada/runs#9 .*not found.*GH_TOKEN.*\(Not Found\)"):
        await github(hub, SkipClock()).issue(place(hub, 9))
    with pytest.raises(HttpError) as caught:
        await github(hub, SkipClock(), token="ghp_" + "x" * 36).issue(place(hub))
    assert caught.value.kind is ErrorKind.UNAUTHORIZED and "gh auth login" in str(caught.value)


def issues(hub: FakeGitHub, clock: SkipClock) -> Issues:
    return Issues(github(hub, clock, deadline=1.0), clock)


async def test_many_runs_of_one_issue_ask_once_and_seldom(hub: FakeGitHub) -> None:
    clock = SkipClock()
    source = issues(hub, clock)
    runs = [run_spec(f"r{number}") for number in range(50)] + [RunSpec(name="none")]
    first = await source.moved(runs)
    assert len(first) == 50 and {each.updated_at for each in first.values()} == {UPDATED}
    await source.moved(runs)
    assert len(hub.asked) == 1
    clock.skip(EVERY + 1)
    await source.moved(runs)
    await settled(source)
    assert len(hub.asked) == 2 and "if-none-match" in hub.asked[1].headers
    now = clock.now()
    assert all(now - (m.seen_at or 0) < 60 for m in (await source.moved(runs)).values())


async def test_a_hanging_issue_delays_nobody_after_the_first_look(hub: FakeGitHub) -> None:
    clock = SkipClock()
    source = issues(hub, clock)
    await source.moved([run_spec()])
    hub.troubles.append(Trouble("GET", "", wait=5))
    clock.skip(EVERY + 1)
    begun = asyncio.get_running_loop().time()
    (moved,) = (await source.moved([run_spec()])).values()
    assert asyncio.get_running_loop().time() - begun < 0.5
    assert moved.updated_at == UPDATED


async def test_an_issue_that_cannot_be_read_keeps_what_was_known(hub: FakeGitHub) -> None:
    clock = SkipClock()
    source = issues(hub, clock)
    (before,) = (await source.moved([run_spec()])).values()
    hub.troubles.append(Trouble("GET", "", reply=Reply(410, {"message": "gone"})))
    clock.skip(EVERY + 1)
    await source.moved([run_spec()])
    await settled(source)
    (after,) = (await source.moved([run_spec()])).values()
    assert (after.updated_at, after.seen_at) == (before.updated_at, before.seen_at)
    assert "gone" in (after.note or "")


async def test_the_records_facet_carries_the_issue(hub: FakeGitHub, tmp_path: Path) -> None:
    clock = SkipClock()
    logbook = tmp_path / "toy.md"
    logbook.write_text("### 2026-01-10 08:00 UTC - started\n")
    runs = [
        RunSpec(name="both", records=RecordsSpec(logbook=str(logbook), issue=hub.url(1))),
        RunSpec(name="issue", records=RecordsSpec(issue=hub.url(1))),
        RunSpec(name="gone", records=RecordsSpec(logbook=str(logbook), issue=hub.url(9))),
        RunSpec(name="odd", records=RecordsSpec(logbook=str(logbook), issue="https://x.org/7")),
        RunSpec(name="log", records=RecordsSpec(logbook=str(logbook))),
    ]
    facets = await Records(clock, issues(hub, clock)).observe(runs)
    values = {name: facet.value for name, facet in facets.items()}
    assert all(facet.error is None for facet in facets.values()), "an unknown issue is a note"
    told = {name: value.issue_updated_at for name, value in values.items() if value is not None}
    assert told == {"both": UPDATED, "issue": UPDATED, "gone": None, "odd": None, "log": None}
    notes = {name: value.notes for name, value in values.items() if value is not None}
    assert "not found" in notes["gone"][0] and "not a GitHub issue" in notes["odd"][0]
    assert notes["both"] == notes["log"] == ()
    document = facets["both"].document(clock.now())["value"]
    assert set(document) >= {"logbook", "last_entry_at", "pushed", "issue", "issue_updated_at"}


async def test_without_a_network_the_logbook_is_still_seen(tmp_path: Path) -> None:
    clock = SkipClock()
    logbook = tmp_path / "toy.md"
    logbook.write_text("### 2026-01-10 08:00 UTC - started\n")
    client = GitHub(Http(clock, deadline=1.0), clock, base="http://127.0.0.1:9", env={})
    run = RunSpec(
        name="r",
        records=RecordsSpec(logbook=str(logbook), issue="https://github.com/a/b/issues/1"),
    )
    facet = (await Records(clock, Issues(client, clock)).observe([run]))["r"]
    assert facet.error is None and facet.value is not None
    assert facet.value.last_entry_at and "refused" in facet.value.notes[0]


async def settled(source: Issues) -> None:
    """Wait until nothing is being asked in the background."""
    while source._asking:
        await asyncio.wait(source._asking)
