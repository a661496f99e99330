"""The run's issue is created once, with its labels, and linked both ways (SPEC S-11, L).

The stand-in for GitHub is only worth what it notices.

A process that is killed while it posts: the event is still posted once.

What the issue is told: all that HERO asks for, in few lines, and nothing foreign in it acts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.launching.launch import issue_to_create
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import known
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    Phase,
    TrackerValue,
)
from cockpit.model.plan import Approval, Basis, Check, Level, Plan
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RecordsSpec, RunSpec, WandbSpec
from cockpit.records.issue import service as text_service
from cockpit.records.issue.outbox import SETTLE, PostMarker, post_text
from cockpit.records.issue.service import LABELS, logbook_link, new_issue, page_of
from cockpit.store.messages import CLAIMED_FOR
from tests.records.fake_github import DESCRIPTION, OWNER, REPO, FakeGitHub, Reply, Trouble, running
from tests.records.issue_services import TOKEN, SkipClock, run_spec, service
from tests.records.logbook.test_writing import CALLS, shape, visible
from tests.records.openapi import Description
from tests.sources.git.repos import git, repository
from tests.watch.fakes import until

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


FAKE_GITHUB_ISSUES = f"/repos/{OWNER}/{REPO}/issues"


def wrong(method: str, path: str, body: Any = None, **query: str) -> list[str]:
    data = b"" if body is None else json.dumps(body).encode()
    return list(DESCRIPTION.request(method, path, query, data))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", FAKE_GITHUB_ISSUES, {"body": "a body without a title"}),
        ("POST", FAKE_GITHUB_ISSUES, {"title": None}),
        ("POST", FAKE_GITHUB_ISSUES, {"title": "x", "labels": "experiment"}),
        ("POST", FAKE_GITHUB_ISSUES, {"title": "x", "colour": "red"}),
        ("PATCH", f"{FAKE_GITHUB_ISSUES}/1", {"state": "clos"}),
        ("PATCH", f"{FAKE_GITHUB_ISSUES}/1", {"state_reason": "bored"}),
        ("POST", f"{FAKE_GITHUB_ISSUES}/1/comments", {}),
        ("POST", f"{FAKE_GITHUB_ISSUES}/1/comments", {"body": 5}),
        ("POST", f"{FAKE_GITHUB_ISSUES}/1/comments", [1]),
        ("GET", f"{FAKE_GITHUB_ISSUES}/abc", None),
        ("GET", f"{FAKE_GITHUB_ISSUES}/1", {"body": "x"}),
        ("PUT", f"{FAKE_GITHUB_ISSUES}/1", {"title": "x"}),
    ],
)
def test_a_request_that_github_does_not_describe_is_noticed(
    method: str, path: str, body: Any
) -> None:
    assert wrong(method, path, body)


def test_requests_as_described_pass() -> None:
    assert not wrong("POST", FAKE_GITHUB_ISSUES, {"title": "x", "body": "y", "labels": ["a"]})
    assert not wrong("PATCH", f"{FAKE_GITHUB_ISSUES}/1", {"state": "closed", "state_reason": None})
    assert not wrong("POST", f"{FAKE_GITHUB_ISSUES}/1/comments", {"body": "x"})
    assert not wrong(
        "GET", FAKE_GITHUB_ISSUES, state="open", per_page="100", page="2", direction="desc"
    )
    assert wrong("GET", FAKE_GITHUB_ISSUES, state="ajar")
    assert wrong("GET", FAKE_GITHUB_ISSUES, pages="2")
    assert wrong("GET", FAKE_GITHUB_ISSUES, page="two")


def test_an_answer_that_is_not_githubs_is_noticed() -> None:
    comment = DESCRIPTION.example("issue-comment")
    path = f"{FAKE_GITHUB_ISSUES}/1/comments"
    assert not list(DESCRIPTION.answer("POST", path, 201, comment))
    comment.pop("node_id")
    assert list(DESCRIPTION.answer("POST", path, 201, comment))
    assert list(DESCRIPTION.answer("POST", path, 299, comment))
    assert not list(
        DESCRIPTION.answer("GET", f"{FAKE_GITHUB_ISSUES}/1", 200, DESCRIPTION.example("issue"))
    )


def test_nullable_beside_one_of_does_not_silence_the_check() -> None:
    document = json.loads(json.dumps(DESCRIPTION.document))
    post = document["paths"]["/repos/{owner}/{repo}/issues"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    schema["properties"]["title"]["nullable"] = True
    schema["properties"]["milestone"]["nullable"] = True
    trapped = Description(document)
    assert list(trapped.request("POST", FAKE_GITHUB_ISSUES, {}, b'{"body": "no title"}'))
    assert list(trapped.request("POST", FAKE_GITHUB_ISSUES, {}, b'{"title": "x", "milestone": []}'))
    assert not list(
        trapped.request("POST", FAKE_GITHUB_ISSUES, {}, b'{"title": "x", "milestone": null}')
    )


POSTER = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from tests.records.issue_services import service, run_spec
hub = SimpleNamespace(base=sys.argv[1])
asyncio.run(service(hub, Path(sys.argv[2])).comment(run_spec(), "e", "x"))
"""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("trouble", "posts"),
    [
        (Trouble("GET", "/comments", wait=60), 1),
        (Trouble("POST", "/comments", wait=60), 2),
        (Trouble("POST", "/comments", acts=True, wait=60), 1),
    ],
    ids=["while it looks", "before it is acted upon", "after it was acted upon"],
)
async def test_killed_at_any_point_it_is_posted_once(
    tmp_path: Path, trouble: Trouble, posts: int
) -> None:
    async with running() as hub:
        hub.add_issue()
        hub.troubles.append(trouble)
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", POSTER, hub.base, str(tmp_path / "s"), cwd=ROOT
        )
        await until(lambda: hub.count(trouble.method, trouble.end))
        child.kill()
        await child.wait()
        clock = SkipClock()
        one = service(hub, tmp_path / "s", clock)
        told = await one.comment(run_spec(), "e", "x")
        assert told.queued and "another cockpit" in (told.trouble or "")
        clock.skip(CLAIMED_FOR + 5)
        (sent,) = await one.flush([run_spec()])
        assert sent.recorded.url and len(hub.bodies()) == 1 and hub.count("POST") == posts


NOW = 1_800_000_000.0
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
EVIL = f"@everyone #12 <b> ``` {SECRET}\n# head\n- item <!-- x -->"
SAVED = Checkpoint(
    step=46_000, name_step=46_000, path="/out/step-46000", root="/out",
    state=CheckpointState.COMPLETE,
)  # fmt: skip
Made = Callable[[str], str]


def run(word: str) -> RunSpec:
    return RunSpec(
        name=word, tier="hero", dri=word, goal=word, stop_criteria=word, output_root=word,
        final_step=119_209, wandb=WandbSpec(entity=word, project=word, id=word),
        records=RecordsSpec(logbook=word),
    )  # fmt: skip


def alert(word: str) -> Alert:
    return Alert(
        id="C-09", key="C-09:toy", severity=Severity.CRITICAL, title=word, since=NOW,
        evidence=(Evidence(text=word, source=word),), confidence="sure", next_action=word,
    )  # fmt: skip


def report(word: str) -> RunReport:
    facets = Facets(
        job=known(JobValue(id=word, state="RUNNING", phase=Phase.RUNNING), "job", NOW),
        tracker=known(TrackerValue(id=word, state="running", loss=2.5), "tracker", NOW),
        checkpoints=known(CheckpointsValue(latest_complete=46_000, items=(SAVED,)), "c", NOW),
    )
    return RunReport(
        spec=run(word), checked_at=NOW, verdict=Verdict.CRITICAL, facets=facets,
        progress=Progress(step=5, final_step=9, final_step_source=None, text=word),
        alerts=(alert(word),) * 7, next_action=word, next_check_at=NOW + 600,
    )  # fmt: skip


def happened(word: str) -> str:
    """Return a comment of an action, with all that one can hold."""
    let = Approval(check=f"C-18:{word}", by=word, reason=word)
    check = Check(id="C-18", level=Level.PASS, text=word, basis=Basis.RECORDED, approved=let)
    plan = Plan(words=word, plan_id="p", action="relaunch", run=word, made_at=NOW, checks=(check,))
    code, prose = text_service.code(word), text_service.prose(word)
    rows: text_service.Rows = (
        ("Why", prose),
        ("Job", code),
        ("By", text_service.person(word)),
        ("Former", None),
    )
    named = text_service.coded({"Git SHA": word, word: word, "none": ""}, " before")
    more = (text_service.approved(plan), text_service.command_of(word), None)
    return text_service.comment(run(word), f"relaunched as {code}", [*rows, *named], *more)


BODIES: dict[str, Made] = {
    "new": lambda w: text_service.new_issue(run(w), logbook=w, command=w),
    "acted": happened,
    "handed off": lambda w: text_service.handed_off(report(w), by=w, to=w),
    "escalated": lambda w: text_service.escalated(
        run(w), by=w, reason=w, evidence=alert(w).evidence
    ),
    "critical": lambda w: text_service.new_critical(run(w), alert(w)),
}  # fmt: skip


@pytest.mark.parametrize("make", BODIES.values(), ids=list(BODIES))
def test_hostile_words_change_nothing_but_the_words(make: Made) -> None:
    evil = make(EVIL)
    assert not CALLS.search(visible(evil))
    assert SECRET not in evil and "****" in evil.replace("\\", "")
    assert shape(evil) == shape(make("word"))
    posted = shape(post_text(evil, PostMarker("0" * 16, "1" * 8)))
    assert posted.count("html_block") == 1, "the marker, and no other HTML"
    posted.remove("html_block")
    assert posted == shape(f"🤖 {evil}")


@pytest.mark.parametrize("make", BODIES.values(), ids=list(BODIES))
def test_they_are_short_and_name_the_run(make: Made) -> None:
    told = make("grug-moe")
    assert "grug-moe" in told and len(told) < 1500 and told == told.strip()


def test_the_template_names_everything_of_the_contract() -> None:
    told = text_service.new_issue(
        run("toy"), logbook="a/toy.md", logbook_url="https://github.com/x"
    )
    for label in ("DRI", "Goal", "Stop/escalation criteria", "Logbook", "W&B", "Output root"):
        assert f"- {label}: " in told
    assert "`a/toy.md` (https://github.com/x)" in told and "119,209" in told
    bare = text_service.new_issue(RunSpec(name="toy"))
    assert "- Goal: unknown" in bare and "Final step: unknown" in bare
    assert text_service.title(run("toy")) == "Hero run: toy"


def test_an_action_s_comment_has_its_rows_and_who_let_it_pass() -> None:
    told = happened("x")
    assert told.startswith(
        "**x** relaunched as `x`\n\n- Why: x\n- Job: `x`\n- By: x\n- Git SHA before"
    )
    assert "`C-18:x` approved by x: x" in told and "Former" not in told and "none" not in told


def test_many_steps_are_counted() -> None:
    assert text_service.steps_of(range(0, 90_000, 1000)).startswith("50 more and 50000, ")
    assert text_service.steps_of([]) == "none"


def test_a_hand_over_shows_what_matters_of_the_report() -> None:
    told = BODIES["handed off"]("toy")
    for figure in ("running", "2.500", "46,000", "2 more", "2027-01-15 08:00 UTC"):
        assert figure in told


def test_an_escalation_calls_the_dri_who_is_written_as_a_login() -> None:
    spec = run("toy").model_copy(update={"dri": "@ada"})
    told = text_service.escalated(spec, by="bob", reason="loss is NaN", evidence=())
    assert "@ada: this needs your decision" in told
