"""Comments on an issue: once for an event, whatever the network does (SPEC S-11, SPEC A).

What the queue says of failures, and when it tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.facet import ErrorKind
from cockpit.records.issue.outbox import (
    SETTLE,
    PostMarker,
    event_digest,
    marker_of,
    not_sent_text,
    post_text,
    refused,
    same_text,
    sender_digest,
)
from cockpit.records.issue.service import IssueService
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.store.store import Store
from tests.records.fake_github import FakeGitHub, Reply, Request, Trouble, running
from tests.records.issue_services import TOKEN, SkipClock, github, run_spec, service
from tests.watch.fakes import until

RUN = run_spec()
COMMENTS = "/comments"


def stored(folder: Path) -> list[str]:
    """What lies in the store's files, as far as it can be read."""
    return [path.read_bytes().decode("latin-1") for path in folder.iterdir()]


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with running() as fake:
        fake.token = TOKEN
        fake.add_issue()
        yield fake


async def test_a_comment_starts_with_the_robot_and_is_posted_once(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    one = service(hub, tmp_path / "s")
    first = await one.comment(RUN, "launch:toy-i001", "launched")
    again = await one.comment(RUN, "launch:toy-i001", "launched, says another")
    (body,) = hub.bodies()
    assert body.startswith("🤖 launched\n\n<!-- cockpit:")
    assert body == one.preview(RUN, "comment", "launched", event="launch:toy-i001")
    assert first == again and first.lasting and first.url == f"{hub.url(1)}#issuecomment-1002"
    assert hub.count("POST") == 1


async def test_two_events_are_two_comments(hub: FakeGitHub, tmp_path: Path) -> None:
    one = service(hub, tmp_path / "s")
    for event in ("a", "b"):
        await one.comment(RUN, event, "same words")
    assert len(hub.bodies()) == 2


async def test_nobody_else_posts_it_again(hub: FakeGitHub, tmp_path: Path) -> None:
    first = await service(hub, tmp_path / "here").comment(RUN, "e", "x")
    there = await service(hub, tmp_path / "there").comment(RUN, "e", "x")
    nowhere = await service(hub).comment(RUN, "e", "x")
    assert first == there == nowhere
    assert hub.count("POST") == 1


async def test_the_marker_is_found_on_the_third_page(hub: FakeGitHub, tmp_path: Path) -> None:
    await service(hub, tmp_path / "here").comment(RUN, "early", "x")
    for number in range(110):
        hub.add_comment(1, f"chatter {number}")
    await service(hub, tmp_path / "here").comment(RUN, "middle", "x")
    for number in range(140):
        hub.add_comment(1, f"more chatter {number}")
    there = service(hub, tmp_path / "there")
    for event in ("early", "middle"):
        assert (await there.comment(RUN, event, "x")).url
    assert hub.count("POST") == 2
    assert {"1", "2", "3"} <= {request.query.get("page", "") for request in hub.asked}


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("POST", COMMENTS, acts=True),
        Trouble("POST", COMMENTS, acts=True, reply=Reply(500, {"message": "oops"})),
        Trouble("POST", COMMENTS, acts=True, reply=Reply(502)),
        Trouble("POST", COMMENTS, acts=True, wait=30),
        Trouble("POST", COMMENTS, acts=True, reply=Reply(201, {"half": "an answer"})),
        Trouble("POST", COMMENTS, acts=True, reply=Reply(201, "not an object")),
    ],
    ids=["dropped", "500", "502", "hang", "odd", "odder"],
)
async def test_a_lost_answer_never_makes_two(
    hub: FakeGitHub, tmp_path: Path, trouble: Trouble
) -> None:
    hub.troubles.append(trouble)
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock, deadline=1.0)
    first = await one.comment(RUN, "e", "x")
    clock.skip(SETTLE * 3)
    await one.flush([RUN])
    again = await one.comment(RUN, "e", "x")
    assert first.lasting and again.url is not None
    assert len(hub.bodies()) == 1 and hub.count("POST") == 1


@pytest.mark.parametrize(
    "trouble", [Trouble("POST", COMMENTS), Trouble("POST", COMMENTS, reply=Reply(503))]
)
async def test_a_request_that_was_never_acted_upon_is_sent_again_but_not_at_once(
    hub: FakeGitHub, tmp_path: Path, trouble: Trouble
) -> None:
    hub.troubles.append(trouble)
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock)
    first = await one.comment(RUN, "e", "x")
    assert first.queued and first.lasting and "looks up" in (first.trouble or "")
    assert await one.flush([RUN]) == ()
    assert (await one.comment(RUN, "e", "x")).queued, "asked again: it is only looked up"
    assert hub.count("POST") == 1
    clock.skip(SETTLE + 5)
    clock.skip(SETTLE + 5)
    (sent,) = await one.flush([RUN])
    assert (sent.run, sent.event) == ("toy", "e") and sent.recorded.url
    assert len(hub.bodies()) == 1
    assert await one.flush([RUN]) == ()


async def test_a_request_that_is_acted_upon_late_is_found(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.troubles.append(Trouble("POST", COMMENTS, late=True, wait=1.5, acts=True))
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock, deadline=0.5)
    assert (await one.comment(RUN, "e", "x")).queued
    await until(hub.bodies)
    clock.skip(SETTLE * 2)
    (sent,) = await one.flush([RUN])
    assert sent.recorded.url and hub.count("POST") == 1


async def test_desks_that_race_leave_one_comment(hub: FakeGitHub, tmp_path: Path) -> None:
    for race in range(100):
        services = [service(hub, tmp_path / name) for name in ("a", "b", "c")]
        done = await asyncio.gather(*(each.comment(RUN, f"race {race}", "x") for each in services))
        assert all(each.url for each in done)
        assert len(hub.bodies()) == race + 1
        if race >= 9 and hub.count("POST") > race + 1:
            break
    assert hub.count("POST") > race + 1, "they never raced"
    await service(hub, tmp_path / "d").comment(RUN, "race 0", "x")
    assert len(hub.bodies()) == race + 1


async def test_desks_of_one_store_post_once(hub: FakeGitHub, tmp_path: Path) -> None:
    services = [service(hub, tmp_path / "s") for _ in range(4)]
    done = await asyncio.gather(*(each.comment(RUN, "e", "x") for each in services))
    assert hub.count("POST") == 1
    assert all(each.lasting for each in done) and any(each.url for each in done)


async def test_a_duplicate_that_cannot_be_deleted_now_is_deleted_later(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    clock = SkipClock()
    mine = service(hub, tmp_path / "mine", clock)
    rival = service(hub, tmp_path / "rival").preview(RUN, "comment", "x", event="e")

    def rival_is_faster(request: object) -> None:
        if hub.count("POST") == 1 and not hub.bodies():
            hub.add_comment(1, rival)

    hub.before = rival_is_faster
    hub.troubles.append(Trouble("DELETE", ""))
    first = await mine.comment(RUN, "e", "x")
    assert first.queued and len(hub.bodies()) == 2
    clock.skip(SETTLE * 3)
    (later,) = await mine.flush([RUN])
    assert later.recorded.url and hub.bodies() == [rival] and hub.count("POST") == 1


async def test_a_duplicate_that_may_not_be_deleted_stays(hub: FakeGitHub, tmp_path: Path) -> None:
    mine = service(hub, tmp_path / "mine")
    rival = service(hub, tmp_path / "rival").preview(RUN, "comment", "x", event="e")

    def rival_is_faster(request: Request) -> None:
        if request.method == "POST":
            hub.add_comment(1, rival)

    hub.before = rival_is_faster
    hub.troubles.append(Trouble("DELETE", "", reply=Reply(403, {"message": "no"})))
    assert (await mine.comment(RUN, "e", "x")).url and len(hub.bodies()) == 2


async def test_what_people_write_is_never_taken_for_ours_nor_deleted(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    one = service(hub, tmp_path / "s")
    text = one.preview(RUN, "comment", "x", event="e")
    quoted = hub.add_comment(1, "\n".join(f"> {line}" for line in text.splitlines()))
    inside = hub.add_comment(1, f"{text}\n\nWhat is this?")
    await one.comment(RUN, "e", "x")
    assert hub.count("POST") == 1
    edited = hub.add_comment(1, text.replace("x", "x, and I have added this", 1))
    await service(hub, tmp_path / "there").comment(RUN, "e", "x")
    kept = {comment["id"] for comment in hub.comments[1]}
    assert {quoted["id"], inside["id"], edited["id"]} <= kept and len(kept) == 4


async def test_offline_they_queue_and_go_out_in_order(tmp_path: Path) -> None:
    async with running() as hub:
        hub.add_issue()
        clock = SkipClock()
        one = service(hub, tmp_path / "s", clock, deadline=1.0)
        port = int(hub.base.rpartition(":")[2])
        await hub.stop()
        events = ["c", "a", "b"]
        for event in events:
            told = await one.comment(RUN, event, f"event {event}")
            assert told.queued and told.lasting and told.url is None
            assert "no network since" in (told.trouble or "") and "queued" in (told.trouble or "")
        await hub.start(port)
        clock.skip(120)
        sent = await one.flush([RUN])
        assert [each.event for each in sent] == events
        assert [body.split()[2] for body in hub.bodies()] == events
        assert await one.flush([RUN]) == ()


async def test_a_queue_outlives_the_process(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.troubles.append(Trouble("GET", COMMENTS, reply=Reply(403, {}, {"retry-after": "60"})))
    clock = SkipClock()
    before = await service(hub, tmp_path / "s", clock).comment(RUN, "e", "x")
    assert before.queued and "limits requests" in (before.trouble or "")
    clock.skip(90)
    (sent,) = await service(hub, tmp_path / "s", clock).flush([RUN])
    assert sent.recorded.url and len(hub.bodies()) == 1


async def test_a_rate_limit_is_heeded(hub: FakeGitHub, tmp_path: Path) -> None:
    limit = Reply(403, {"message": "secondary rate limit"}, {"retry-after": "120"})
    hub.troubles.append(Trouble("POST", COMMENTS, reply=limit))
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock)
    assert (await one.comment(RUN, "a", "x")).queued
    asked = len(hub.asked)
    assert (await one.comment(RUN, "b", "x")).queued
    assert len(hub.asked) == asked, "nothing was sent while it wants to be left alone"
    clock.skip(200)
    assert [each.event for each in await one.flush([RUN])] == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "set GH_TOKEN, or: gh auth login"),
        (403, "locked"),
        (404, "not found, or not visible"),
        (410, "issues are disabled"),
        (422, "rejected this text"),
        (301, "has moved"),
    ],
)
async def test_a_refusal_is_said_with_its_remedy_and_not_repeated(
    hub: FakeGitHub, tmp_path: Path, status: int, said: str
) -> None:
    words = {"message": "No \x1b[31mway", "documentation_url": "x"}
    hub.troubles.append(Trouble("POST", COMMENTS, reply=Reply(status, words)))
    clock = SkipClock()
    one = service(hub, tmp_path / "s", clock)
    told = await one.comment(RUN, "e", "x")
    assert not told.queued and not told.lasting
    assert said in (told.trouble or "") and "\x1b" not in (told.trouble or "")
    clock.skip(7200)
    assert await one.flush([RUN]) == () and hub.count("POST") == 1
    assert (await one.comment(RUN, "e", "x")).url, "a person asked again"


async def test_one_that_is_refused_lets_the_others_pass(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.troubles.append(Trouble("POST", COMMENTS, reply=Reply(422, {"message": "spam"})))
    one = service(hub, tmp_path / "s")
    assert not (await one.comment(RUN, "a", "x")).lasting
    assert (await one.comment(RUN, "b", "y")).url


async def test_without_a_token_it_says_how_to_get_one(hub: FakeGitHub, tmp_path: Path) -> None:
    told = await service(hub, tmp_path / "s", token="").comment(RUN, "e", "x")
    assert not told.queued and "gh auth login" in (told.trouble or "")


async def test_without_a_store_it_is_posted_or_said_to_be_lost(hub: FakeGitHub) -> None:
    assert (await service(hub).comment(RUN, "e", "x")).url
    hub.troubles.append(Trouble("POST", COMMENTS))
    told = await service(hub).comment(RUN, "f", "x")
    assert not told.queued and not told.lasting and "no store" in (told.trouble or "")


async def test_a_store_that_cannot_be_written_does_not_keep_it_from_being_posted(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    Store(tmp_path / "s").close()
    kept = Store(tmp_path / "s", read_only=True)
    clock = SkipClock()
    one = IssueService(kept, clock, github=github(hub, clock))
    assert (await one.comment(RUN, "e", "x")).url
    assert (await one.comment(RUN, "e", "x")).url
    assert hub.count("POST") == 1


@pytest.mark.parametrize(
    ("number", "body"), [(None, "x"), (1, "  \n")], ids=["no issue", "no words"]
)
async def test_nothing_is_asked_for_what_cannot_be_posted(
    hub: FakeGitHub, number: int | None, body: str
) -> None:
    told = await service(hub).comment(run_spec(number=number), "e", body)
    assert told.trouble and not told.lasting and hub.asked == []


async def test_a_planted_secret_is_never_sent_stored_or_said(
    hub: FakeGitHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "ghp_" + "Z9y8X7w6V5u4" * 3
    words = f"ran with GITHUB_TOKEN={secret}\n```\nAuthorization: Bearer {secret}\n```"
    hub.troubles.append(Trouble("POST", COMMENTS, reply=Reply(422, {"message": f"bad {secret}"})))
    one = service(hub, tmp_path / "s")
    told = [await one.comment(RUN, event, words) for event in "ab"]
    told += [await one.comment(RUN, "a", words)]
    seen = [request.body.decode() for request in hub.asked]
    seen += [str(each) for each in told] + [caplog.text, repr(one), repr(vars(one))]
    seen += stored(tmp_path)
    for text in seen:
        assert secret not in text
        assert TOKEN not in text
    assert len(hub.bodies()) == 2


async def test_the_longest_text_fits_and_the_marker_stays_last(
    hub: FakeGitHub, tmp_path: Path
) -> None:
    one = service(hub, tmp_path / "s")
    log = "```\n" + "a line of the log\n" * 10_000
    assert (await one.comment(RUN, "e", log)).url
    assert len(hub.bodies()[0]) < 65_536 and marker_of(hub.bodies()[0]) is not None


async def test_runs_of_other_files_do_not_mix(hub: FakeGitHub, tmp_path: Path) -> None:
    hub.troubles.append(Trouble("POST", COMMENTS, reply=Reply(503)))
    clock = SkipClock()
    await service(hub, tmp_path / "s", clock).comment(RUN, "e", "x")
    clock.skip(300)
    assert await service(hub, tmp_path / "s", clock).flush([run_spec("other")]) == ()
    assert hub.count("POST") == 1


async def test_a_flush_that_fails_lets_none_overtake(tmp_path: Path) -> None:
    async with running() as hub:
        hub.add_issue()
        clock = SkipClock()
        one = service(hub, tmp_path / "s", clock, deadline=1.0)
        port = int(hub.base.rpartition(":")[2])
        await hub.stop()
        for event in ("a", "b"):
            assert (await one.comment(RUN, event, event)).queued
        await hub.start(port)
        clock.skip(120)
        hub.troubles.append(Trouble("POST", COMMENTS, reply=Reply(503)))
        assert [each.recorded.queued for each in await one.flush([RUN])] == [True]
        assert hub.bodies() == []
        clock.skip(120)
        assert [each.event for each in await one.flush([RUN])] == ["a", "b"]
        assert [body.split()[1] for body in hub.bodies()] == ["a", "b"]


MARK = PostMarker(event_digest("toy", "launch:toy-i001"), sender_digest("host", "/store"))


def test_an_event_is_the_same_everywhere_and_unlike_any_other() -> None:
    assert event_digest("toy", "e") == event_digest("toy", "e")
    assert len({event_digest("toy", "e"), event_digest("toy", "f"), event_digest("to", "ye")}) == 3
    assert MARK.line.startswith("<!-- cockpit:") and MARK.line.endswith(" -->")


@given(st.text(max_size=300))
def test_every_post_carries_its_own_marker_last(body: str) -> None:
    text = post_text(body, MARK)
    assert marker_of(text) == MARK and marker_of(text.replace("\n", "\r\n")) == MARK
    assert text.startswith("🤖")
    assert same_text(text, text.replace("\n", "\r\n"))


@given(st.text(max_size=300))
def test_posting_a_post_again_changes_nothing_in_it(body: str) -> None:
    once = post_text(body, MARK).rpartition("\n\n")[0]
    assert post_text(once, MARK).rpartition("\n\n")[0] == once


def test_a_marker_inside_or_quoted_is_none() -> None:
    other = PostMarker("0" * 16, "1" * 8)
    assert marker_of(f"> x\n> {other.line}") is None
    assert marker_of(f"{other.line}\nmore") is None
    assert marker_of(f" {other.line} x") is None
    assert marker_of("") is None
    assert marker_of(post_text(f"forged\n{other.line}", MARK)) == MARK


def test_an_open_fence_does_not_swallow_the_marker() -> None:
    text = post_text("see\n````\n```\nlog", MARK)
    assert text.endswith(f"log\n````\n\n{MARK.line}")
    closed = "see\n```\nlog\n```"
    assert post_text(closed, MARK).endswith(f"{closed}\n\n{MARK.line}")


def test_a_long_body_is_cut_at_a_line_with_its_fence_closed() -> None:
    text = post_text("log:\n```\n" + "0123456789\n" * 9000, MARK)
    assert len(text) < 65_536 and "cut here" in text
    assert text.count("```") == 2 and marker_of(text) == MARK


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (HttpError(ErrorKind.DNS, "x"), False),
        (HttpError(ErrorKind.RATE_LIMITED, "x", retry_in=5), False),
        (HttpError(ErrorKind.RATE_LIMITED, "x", status=403), False),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=502), False),
        (HttpError(ErrorKind.BAD_ANSWER, "x"), False),
        (LostAnswerError(ErrorKind.BAD_ANSWER, "x", status=201), False),
        (HttpError(ErrorKind.UNAUTHORIZED, "x", status=401), True),
        (HttpError(ErrorKind.NOT_FOUND, "x", status=410), True),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=422), True),
        (HttpError(ErrorKind.BAD_ANSWER, "x", status=301), True),
    ],
)
def test_what_a_person_must_settle_is_told_from_what_passes(error: HttpError, final: bool) -> None:
    assert refused(error) is final


def test_a_missing_network_is_said_with_its_beginning() -> None:
    error = HttpError(ErrorKind.REFUSED, "api.github.com: the connection was refused")
    assert not_sent_text(error, 1_800_000_000.0).startswith(
        "no network since 2027-01-15 08:00Z (api."
    )
