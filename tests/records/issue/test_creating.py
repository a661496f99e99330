"""The run's issue is created once, with its labels, and linked both ways (SPEC S-11, L)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.actions.launching.launch import issue_to_create
from cockpit.records.issue.outbox import SETTLE
from cockpit.records.issue.service import LABELS, logbook_link, new_issue, page_of
from tests.records.fake_github import FakeGitHub, Reply, Trouble, running
from tests.records.issue_services import TOKEN, SkipClock, run_spec, service
from tests.sources.git.repos import git, repository

RUN = run_spec(number=None)
BODY = new_issue(RUN, logbook=".agents/logbooks/toy.md")
ISSUES = "/issues"


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with running() as fake:
        fake.token = TOKEN
        yield fake


async def test_it_has_title_labels_and_the_logbook(hub: FakeGitHub, tmp_path: Path) -> None:
    one = service(hub, tmp_path / "s")
    made = await one.create(RUN, BODY)
    (issue,) = hub.issues.values()
    assert made.url == issue["html_url"] and made.lasting
    assert issue["title"] == "Hero run: toy"
    assert [label["name"] for label in issue["labels"]] == list(LABELS)
    assert issue["body"] == one.preview(RUN, "issue", BODY)
    assert issue["body"].startswith("🤖") and ".agents/logbooks/toy.md" in issue["body"]
    assert made.note is None


async def test_it_is_created_once(hub: FakeGitHub, tmp_path: Path) -> None:
    for number in range(30):
        hub.add_issue(f"something else {number}")
    one = service(hub, tmp_path / "s")
    made = [await one.create(RUN, BODY), await one.create(RUN, BODY)]
    made += [
        await service(hub, tmp_path / "there").create(RUN, BODY),
        await service(hub).create(RUN, ""),
    ]
    assert len({each.url for each in made}) == 1 and hub.count("POST") == 1
    named = await one.create(run_spec(number=7), BODY)
    assert named.url == hub.url(7)


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("POST", ISSUES, acts=True),
        Trouble("POST", ISSUES, acts=True, reply=Reply(502)),
        Trouble("POST", ISSUES, acts=True, wait=30),
    ],
    ids=["dropped", "502", "hang"],
)
async def test_a_lost_answer_never_makes_two(
    hub: FakeGitHub, tmp_path: Path, trouble: Trouble
) -> None:
    hub.troubles.append(trouble)
    one = service(hub, tmp_path / "s", deadline=1.0)
    made = [await one.create(RUN, BODY), await one.create(RUN, BODY)]
    assert [each.url for each in made] == [hub.url(1)] * 2
    assert len(hub.issues) == 1


async def test_what_may_still_come_is_waited_for(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.troubles.append(Trouble("POST", ISSUES))
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock)
    first = await one.create(RUN, BODY)
    soon = await service(hub, tmp_path / "s", clock).create(RUN, BODY)
    assert not first.lasting and "looks up" in (first.trouble or "")
    assert not soon.lasting and "try again in" in (soon.trouble or "")
    clock.skip(SETTLE + 10)
    assert (await one.create(RUN, BODY)).url and len(hub.issues) == 1


async def test_desks_that_race_leave_one_open(hub: FakeGitHub, tmp_path: Path) -> None:
    services = [service(hub, tmp_path / name) for name in ("a", "b", "c")]
    made = await asyncio.gather(*(each.create(RUN, BODY) for each in services))
    still_open = [i["html_url"] for i in hub.issues.values() if i["state"] == "open"]
    assert still_open == [hub.url(1)] and {each.url for each in made} == {hub.url(1)}


async def test_desks_of_one_store_create_once(hub: FakeGitHub, tmp_path: Path) -> None:
    services = [service(hub, tmp_path / "s") for _ in range(3)]
    made = await asyncio.gather(*(each.create(RUN, BODY) for each in services))
    assert len(hub.issues) == 1 and hub.count("POST") == 1
    assert all(each.url or "try again" in (each.trouble or "") for each in made)


async def test_an_issue_that_a_person_made_is_named_not_doubled(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    hub.add_issue("Hero run: toy", "made by hand")
    made = await service(hub, tmp_path / "s").create(RUN, BODY)
    assert made.url == hub.url(1) and "set it as records.issue" in (made.trouble or "")
    assert hub.count("POST") == 0


async def test_a_closed_issue_of_an_earlier_run_is_left_alone(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    one = service(hub, tmp_path / "s")
    await one.create(RUN, BODY)
    hub.issues[1]["state"] = "closed"
    assert (await one.create(RUN, BODY)).url == hub.url(2)


async def test_labels_that_github_dropped_are_said(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.pushes = False
    one = service(hub, tmp_path / "s")
    made = await one.create(RUN, BODY)
    assert made.url and "experiment, agent-generated" in str(made.note)


async def test_refusals_are_said_and_can_be_repeated_at_once(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    hub.troubles.append(Trouble("POST", ISSUES, reply=Reply(410, {"message": "gone"})))
    one = service(hub, tmp_path / "s")
    told = await one.create(RUN, BODY)
    assert "issues are disabled" in (told.trouble or "") and not told.queued
    hub.troubles.append(Trouble("POST", ISSUES, reply=Reply(403, {"message": "no"})))
    assert not (await one.create(RUN, BODY)).lasting
    assert (await one.create(RUN, BODY)).url


async def test_offline_it_is_not_created_and_says_so(tmp_path: Path) -> None:
    async with running() as hub:
        await hub.stop()
        told = await service(hub, tmp_path / "s", deadline=1.0).create(RUN, BODY)
        assert "no network since" in (told.trouble or "") and not told.queued


async def test_without_a_repository_it_asks_for_one(hub: FakeGitHub) -> None:
    bare = RUN.model_copy(update={"records": RUN.records.model_copy(update={"issue_repo": None})})
    assert "issue_repo" in ((await service(hub).create(bare, BODY)).trouble or "")


async def test_the_draft_names_the_logbook_and_its_page(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes")
    git(repo, "remote", "set-url", "origin", "git@github.com:ada/runs.git")
    path = str(repo / "toy.md")
    run = RUN.model_copy(update={"records": RUN.records.model_copy(update={"logbook": path})})
    told = await issue_to_create(run, None, "python train.py --key=$KEY")
    assert "`toy.md` (https://github.com/ada/runs/blob/main/toy.md)" in told
    assert "python train.py" in told and str(tmp_path) not in told
    bare = RUN.model_copy(update={"records": RUN.records.model_copy(update={"logbook": None})})
    assert "- Logbook: unknown" in await issue_to_create(bare, None, None)


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("git@github.com:ada/runs.git", "https://github.com/ada/runs/blob/main/a.md"),
        ("https://github.com/ada/runs", "https://github.com/ada/runs/blob/main/a.md"),
        ("https://x:ghp_secret@github.com/ada/runs.git",
         "https://github.com/ada/runs/blob/main/a.md"),
        ("ssh://git@github.acme.org:22/ada/runs.git",
         "https://github.acme.org/ada/runs/blob/main/a.md"),
        ("git@gitlab.com:ada/runs.git", None),
        ("/srv/runs.git", None),
        ("https://github.com/ada/runs/evil)x", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_remote_on_github_has_pages(remote: str, page: str | None) -> None:
    assert page_of(remote, "main", "a.md") == page


def test_odd_names_are_quoted() -> None:
    page = page_of("git@github.com:a/b.git", "run/x y", "lög (1).md")
    assert page == "https://github.com/a/b/blob/run/x%20y/l%C3%B6g%20%281%29.md"


async def test_a_logbook_is_found_in_its_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "notes")
    folder = repo / ".agents" / "logbooks"
    folder.mkdir(parents=True)
    (folder / "toy.md").write_text("# Toy\n")
    assert await logbook_link(str(folder / "toy.md")) == (".agents/logbooks/toy.md", None)
    git(repo, "remote", "set-url", "origin", "git@github.com:ada/runs.git")
    found = await logbook_link(str(folder / "toy.md"))
    assert found.url == "https://github.com/ada/runs/blob/main/.agents/logbooks/toy.md"
    git(repo, "checkout", "-q", "--detach")
    assert (await logbook_link(str(folder / "toy.md"))).url is None
    assert (await logbook_link(str(tmp_path / "alone.md"))).path == "alone.md"
