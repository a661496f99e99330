"""Answers that come late, twice, to the wrong one, or while a cockpit ends (SPEC A-14, A-15)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.service import ActionService
from cockpit.config.file import load
from cockpit.services import answers
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.answers import Answers, InterruptedAnswer
from cockpit.store.journal import StandingOrders
from cockpit.store.store import StoreError
from tests.records.fake_github import Trouble
from tests.services.test_answer_services import Desk, Services, desk, services, tell
from tests.services.test_answers import Machine, Phone, here, phone, with_answers, words_in
from tests.services.test_standing import PREEMPTED, Night, night

__all__ = ["desk", "here", "night", "phone", "services"]
TAKES_AND_DIES = """
import sys, time
from pathlib import Path
from cockpit.model.answers import HeardAnswer
from cockpit.store.answers import Answers
from cockpit.store.store import Store
heard = HeardAnswer(source="GitHub", answer=sys.argv[3], at=time.time(), who="ada-l (ada)",
                    said="/ack all", state="taken")
assert Answers(Store(Path(sys.argv[1]))).take(sys.argv[2], heard)
"""


async def test_an_answer_whose_watch_was_killed_is_not_repeated_and_not_lost_silently(
    phone: Phone, here: Machine
) -> None:
    phone.says("/ack all")
    (comment,) = phone.github.comments[1]
    words = [str(here.store.path), here.key, str(comment["id"])]
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", TAKES_AND_DIES, *words], check=True
    )
    for _ in range(2):
        (answer,) = await here.answered()
    assert "unknown: not known whether it was done: the cockpit was stopped" in answer
    assert here.did("ack") == []
    (reply,) = phone.replies
    assert "answer anew" in reply


async def test_an_answer_that_was_dealt_with_after_all_is_not_called_unknown(
    phone: Phone, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone.says("/ack all")
    (comment,) = phone.github.comments[1]
    words = [str(here.store.path), here.key, str(comment["id"])]
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", TAKES_AND_DIES, *words], check=True
    )
    adopt = Answers.adopt

    def late(store: Answers, run: str, found: InterruptedAnswer) -> bool:
        done = {"state": "done", "result": "C-01 acknowledged"}
        assert store.settle(run, found.heard.model_copy(update=done))
        return adopt(store, run, found)

    monkeypatch.setattr(Answers, "adopt", late)
    (answer,) = await here.answered()
    assert answer.endswith("done: C-01 acknowledged")
    assert list(phone.replies) == []


async def test_a_comment_ends_no_order_that_was_armed_after_it(phone: Phone, night: Night) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    await here.person("launch")
    await here.person("standing", until="10h")
    phone.says("/stop standing", ago=600)
    (answer,) = await here.answered(after=1.0)
    assert "refused: the standing order was armed after this was written" in answer
    order = StandingOrders(here.store).of(here.key)
    assert order is not None and order.over is None


async def test_an_order_that_may_still_hold_elsewhere_is_not_called_ended(
    phone: Phone, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    await here.person("launch")
    await here.person("standing", until="10h")

    async def unread(*args: Any) -> None:
        raise RefuseError("the logbook cannot be read")

    monkeypatch.setattr(ActionService, "plan", unread)
    phone.says("/stop standing")
    (answer,) = await here.answered()
    assert "/stop standing unknown: " in answer
    assert "may still hold (the logbook cannot be read)" in answer


async def test_words_of_an_older_launch_relaunch_nothing(phone: Phone, night: Night) -> None:
    here = Machine(with_answers(night), phone.folder / "here.sqlite")
    await here.person("launch")
    night.ends(PREEMPTED, 143)
    await here.look()
    phone.says("/relaunch")
    await here.answered()
    words = words_in(phone.replies[-1])
    await here.person("relaunch")
    night.ends(PREEMPTED, 143)
    await here.look()
    phone.says(words)
    assert "refused" in (await here.answered())[-1]
    assert night.starts == ["dusk-i001", "dusk-i002"]
    phone.says("/relaunch")
    await here.answered()
    phone.says(words_in(phone.replies[-1]))
    text = night.config.read_text().replace('dri = "ada"', 'dri = "bob"')
    night.config.write_text(text.replace('Ada-L = "ada", ', ""))
    restarted = Machine(night.config, phone.folder / "here.sqlite")
    told = await restarted.answered()
    assert any("ignored: the run file names nobody" in each for each in told), told
    assert night.starts == ["dusk-i001", "dusk-i002"]


async def waiting(phone: Phone, here: Machine) -> asyncio.Event:
    """An ``/ack all`` that is taken, and waits until the event for what is done before it."""
    gate = asyncio.Event()
    here.answers._acting["dusk"] = asyncio.ensure_future(gate.wait())
    phone.says("/ack all")
    here.clock.passed += 61
    await here.answers.look()
    await asyncio.gather(*here.answers._reading.values())
    assert len(here.answers._queues["dusk"]) == 1
    return gate


async def test_an_answer_that_waits_acknowledges_nothing_that_opened_meanwhile(
    phone: Phone, here: Machine
) -> None:
    gate = await waiting(phone, here)
    here.clock.passed += 600
    (kept,) = [each for each in Alerts(here.store).open(here.key) if each.alert.id == "C-01"]
    later = kept.alert.model_copy(update={"id": "C-05", "key": "C-05:dusk"})
    Alerts(here.store).save(here.key, [Kept(alert=later, opened_at=here.clock.now())])
    here.clock.passed += 60
    gate.set()
    (answer,) = await here.answered()
    assert answer.endswith("done: C-01 acknowledged")
    assert (here.open["C-01"], here.open["C-05"]) == ("ada", None)


async def test_who_may_answer_is_decided_when_the_turn_of_an_answer_comes(
    phone: Phone, here: Machine
) -> None:
    gate = await waiting(phone, here)
    text = phone.config.read_text()
    phone.config.write_text(text.replace('Ada-L = "ada", ', ""))
    here.answers._engine._fleet.file = load(phone.config)
    gate.set()
    told = await here.answered()
    assert "refused" in told[0]
    assert here.did("ack") == []


async def test_a_reading_that_is_ended_drops_nothing_that_it_has_taken(
    phone: Phone, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Answers.take

    def slow(store: Answers, *args: Any) -> bool:
        taken = take(store, *args)
        loop.call_soon_threadsafe(reading.cancel)
        return taken

    phone.says("/ack C-01")
    monkeypatch.setattr(Answers, "take", slow)
    here.clock.passed += 61
    loop = asyncio.get_running_loop()
    await here.answers.look()
    (reading,) = here.answers._reading.values()
    with pytest.raises(asyncio.CancelledError):
        await reading
    (answer,) = await here.answered()
    assert "done: C-01 acknowledged" in answer


async def test_a_reply_that_cannot_be_sent_is_said(desk: Desk, services: Services) -> None:
    here = await desk.ntfy()
    services.press(services.buttons["Acknowledge"])
    desk.patch.delenv("ROUTE")
    await here.answered()
    assert here.open["C-01"] == "ada"
    (notice,) = here.answers.notices
    assert notice.startswith("the reply to an answer about dusk was not sent: ntfy ROUTE: ")


async def test_a_service_that_does_not_say_the_time_is_said(phone: Phone, here: Machine) -> None:
    phone.says("/ack all")
    phone.github.now = None
    assert await here.answered() == []
    (notice,) = here.answers.notices
    assert notice == "answers cannot be read: GitHub does not say how old an answer is"
    phone.github.now = time.time
    (answer,) = await here.answered()
    assert "done" in answer
    assert not here.answers.notices


async def test_a_service_that_does_not_answer_in_time_is_said(
    phone: Phone, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "READ_WITHIN", 0.05)
    phone.github.troubles = [Trouble("GET", "/comments", wait=1.0)]
    assert await here.answered() == []
    (notice,) = here.answers.notices
    assert notice == "answers cannot be read: answers by GitHub: no answer within 0.05 s"


async def test_the_words_of_one_of_two_runs_of_an_issue_are_no_answer_about_the_other(
    phone: Phone,
) -> None:
    config = phone.failed_run()
    text = config.read_text()
    table = text.partition("[[run]]")[2].partition("[run.standing]")[0]
    config.write_text(f"{text}\n[[run]]{table}".replace('"dusk"', '"other"', 1))
    here = Machine(config, phone.folder / "here.sqlite")
    (other,) = (await here.engine.check(["other"], 20)).runs
    here.answers._hear(other)
    phone.says("/relaunch dusk from 100 ABCDEF")
    (answer,) = await here.answered()
    assert "ignored: these words were not asked for" in answer
    phone.says("/relaunch other from 100 ABCDEF")
    assert len(await here.answered()) == 1
    assert phone.replies == []


async def test_an_acknowledgement_by_who_may_not_uses_nothing_up(
    desk: Desk, services: Services
) -> None:
    folder = desk.folder / "pd"
    folder.mkdir()
    made = Desk(folder, services, desk.patch)
    people = '{ "ada@example.org" = "ada", "eve@example.org" = "eve" }'
    desk.patch.setenv("ROUTE", f"pagerduty://{'k' * 32}@{'a' * 20}/cockpit/trainer")
    desk.patch.setenv("TOKEN", "t0ken-of-the-api")
    settings = f'token_env = "TOKEN", api = "{services.url}", people = {people}'
    config = made.run_file("pagerduty", 'to = "ada"', settings)
    with config.open("a") as file:
        file.write(f'\n[[run]]\nname = "hers"\ndri = "eve"\noutput_root = "{folder}"\n')
    here = await made.machine(config)
    await tell(here)
    name = services.last["dedup_key"]
    for by in ("eve", "ada"):
        who = {"type": "user", "id": "PXPGF42", "email": f"{by}@example.org"}
        taken = [{"at": f"2026-01-01T00:00:00Z {by}", "acknowledger": who}]
        incident = {"id": "Q1", "incident_key": name, "acknowledgements": taken}
        services.documents["/incidents"] = {"incidents": [incident]}
        told = await here.answered()
        assert here.open["C-01"] == (None if by == "eve" else "ada"), told
    assert any("refused: eve may not acknowledge alerts of dusk from here" in each for each in told)


async def test_a_topic_that_strangers_fill_hides_no_answer_and_fills_no_history(
    desk: Desk, services: Services
) -> None:
    here = await desk.ntfy()
    for number in range(500):
        services.press(f"/ack all {number} " + "A" * 26 + "." + "b" * 22)
        services.press("<b>/ack all</b>\x1b[31m" * 20)
    services.press(services.buttons["Acknowledge"])
    for _ in range(2):
        told = await here.answered()
    assert here.open["C-01"] == "ada"
    assert here.did("ack") == ["ada (login a button on ntfy): done"]
    foreign = Answers(here.store).of(f"{here.key.rpartition('#')[0]}#")
    assert len(told) + len(foreign) <= 3, foreign


async def test_a_button_counts_no_more_once_the_run_file_has_no_route_to_its_person(
    desk: Desk, services: Services
) -> None:
    here = await desk.ntfy()
    token = services.buttons["Acknowledge"]
    config = desk.folder / "cockpit.toml"
    config.write_text(config.read_text().replace('to = "ada"', 'to = "bob"'))
    services.press(token)
    restarted = Machine(config, here.store.path)
    await restarted.answered()
    assert restarted.open["C-01"] is None


async def test_a_button_of_a_run_of_that_name_in_another_folder_does_nothing(
    desk: Desk, services: Services
) -> None:
    await desk.ntfy()
    folder = desk.folder / "elsewhere"
    folder.mkdir()
    copy = folder / "cockpit.toml"
    copy.write_text((desk.folder / "cockpit.toml").read_text())
    other = Machine(copy, desk.folder / "here.sqlite")
    await other.look()
    services.press(services.buttons["Acknowledge"])
    await other.answered()
    assert other.open["C-01"] is None


async def test_no_button_goes_where_its_token_could_be_read_on_its_way(
    desk: Desk, services: Services
) -> None:
    here = await desk.ntfy()
    assert services.buttons
    desk.patch.setenv("TOPIC", "http://ntfy.example.org/replies-here")
    other = await desk.machine(desk.folder / "cockpit.toml", "new")
    await tell(other)
    assert services.buttons == {}
    await here.answered()
    assert any("is not an https:// address" in each for each in here.answers.notices)


async def test_no_token_goes_through_a_proxy_that_can_read_it(
    desk: Desk, services: Services
) -> None:
    here = await desk.incident("pagerduty", f"pagerduty://{'k' * 32}@{'a' * 20}/cockpit/trainer")
    for name in ("NO_PROXY", "no_proxy"):
        desk.patch.delenv(name, raising=False)
    desk.patch.setenv("HTTP_PROXY", services.url)
    desk.patch.setenv("http_proxy", services.url)
    services.asked.clear()
    await here.answered()
    assert services.asked == []
    assert "is not an https:// address" in here.answers.notices[0]


async def test_a_line_of_a_log_that_names_another_message_moves_no_answer(
    desk: Desk,
) -> None:
    here, message = await desk.slack()
    message["text"] = f"answers to {'A' * 26}\n{message['text']}"
    message["reactions"] = [{"name": "eyes", "users": ["U012ABCDEF"]}]
    desk.channel(message, has_more=True)
    await here.answered()
    assert here.open["C-01"] == "ada"
    assert "more than 999 messages of the channel" in here.answers.notices[0]


async def test_what_is_answered_to_a_copy_of_a_message_acknowledges_nothing(desk: Desk) -> None:
    here, message = await desk.slack()
    seen = [{"name": "eyes", "users": ["U012ABCDEF"]}]
    text = f"Lunch? {message['text']}"
    soon = {"ts": f"{here.clock.now() + 1:.6f}", "bot_id": "B2", "text": text, "reactions": seen}
    desk.channel(soon, message)
    assert await here.answered() == [], "beside the original"
    here.clock.passed += 600
    late = {"ts": f"{here.clock.now():.6f}", "bot_id": "B2", "text": text, "reactions": seen}
    desk.channel(late)
    (answer,) = await here.answered()
    assert "refused: this message was not posted when the cockpit sent it" in answer
    assert here.did("ack") == []
    message["reactions"] = seen
    desk.channel(late, message)
    await here.answered()
    assert here.open["C-01"] == "ada", "the original still counts"


async def test_an_acknowledgement_that_was_not_written_is_not_called_done(
    phone: Phone, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(alerts: Alerts, *args: Any) -> bool:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Alerts, "acknowledge", full)
    phone.says("/ack C-01")
    (answer,) = await here.answered()
    assert "/ack C-01 failed: C-01: ack: " in answer and "the disk is full" in answer
    assert here.open["C-01"] is None


async def test_a_message_whose_alerts_are_closed_is_not_said_to_be_about_the_open_ones(
    desk: Desk,
) -> None:
    here, message = await desk.slack()
    (kept,) = [each for each in Alerts(here.store).open(here.key) if each.alert.id == "C-01"]
    other = kept.alert.model_copy(update={"id": "C-05", "key": "C-05:dusk"})
    closed = kept.model_copy(update={"closed_at": here.clock.now()})
    Alerts(here.store).save(here.key, [closed, Kept(alert=other, opened_at=kept.opened_at)])
    message["reactions"] = [{"name": "eyes", "users": ["U012ABCDEF"]}]
    desk.channel(message)
    (answer,) = await here.answered()
    assert answer.endswith("refused: no alert of that message is still open")
    assert here.did("ack") == []


DEALS_AND_DIES = f"""{TAKES_AND_DIES}
heard = heard.model_copy(update={{"state": sys.argv[4], "result": "C-01 acknowledged"}})
assert Answers(Store(Path(sys.argv[1]))).settle(sys.argv[2], heard)
"""


@pytest.mark.parametrize(
    ("state", "told"),
    [("done", "C-01 acknowledged\n"), ("planned", "words were sent is not known")],
)
async def test_a_reply_that_a_kill_has_prevented_is_sent_by_the_next_watch(
    phone: Phone, here: Machine, state: str, told: str
) -> None:
    phone.says("/ack all")
    (comment,) = phone.github.comments[1]
    words = [str(here.store.path), here.key, str(comment["id"]), state]
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", DEALS_AND_DIES, *words], check=True
    )
    for _ in range(2):
        (answer,) = await here.answered(here.answers, here.watch())
    assert answer.endswith(f"{state}: C-01 acknowledged")
    assert here.did("ack") == []
    (reply,) = phone.replies
    assert "ada-l (ada): C-01 acknowledged" in reply and told in reply


async def test_a_flood_of_comments_is_not_read_again_and_hides_no_answer(
    phone: Phone, here: Machine
) -> None:
    for _ in range(250):
        phone.says("first!", "mallory", ago=3000)
    phone.says("the last of them", "mallory", ago=30)

    async def pages() -> int:
        phone.github.asked.clear()
        await here.answered()
        return phone.github.count("GET", "/comments")

    assert [await pages() for _ in range(4)] == [3, 3, 1, 1]
    phone.says("/ack C-01", ago=300)  # GitHub shows it late
    await here.answered()
    assert here.open["C-01"] == "ada"


async def test_an_answer_that_could_not_be_taken_is_read_again(
    phone: Phone, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> bool:
        raise StoreError("the disk is full")

    await here.answered(after=1300)
    phone.says("/ack C-01", ago=1200)
    phone.says("and so on", ago=0)
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "take", full)
        for _ in range(4):
            assert await here.answered() == []
    assert "the disk is full" in here.answers.notices[0]
    (answer,) = await here.answered()
    assert "done: C-01 acknowledged" in answer
