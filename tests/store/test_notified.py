from __future__ import annotations

import multiprocessing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from cockpit.model.clock import Moment
from cockpit.store.messages import (
    BACK_OFF,
    GATHER,
    LOST_AFTER,
    WINDOW,
    Asked,
    Notified,
    SendClaim,
    TakenOverError,
)
from cockpit.store.messages import SENDS_WITHIN as CLAIMED_FOR
from cockpit.store.store import Store

NOW = Moment(1_800_000_000.0, 500.0, "this boot")
ME = "an attempt"
ASKED = Asked("/x/cockpit.toml#r", "alert 1 critical", "url SLACK")


@pytest.fixture
def notified(tmp_path: Path) -> Notified:
    return Notified(Store(tmp_path / "store.sqlite"))


def test_a_message_is_claimed_once_and_for_all(notified: Notified) -> None:
    assert notified.claim(ASKED, NOW, ME) is SendClaim.MINE
    assert notified.claim(ASKED, NOW + 1, ME) is SendClaim.NOT_NOW
    notified.settle(ASKED, NOW + 1)
    assert notified.claim(ASKED, NOW + 1e6, ME) is SendClaim.DONE
    assert notified.claim(ASKED._replace(route="url OTHER"), NOW, ME) is SendClaim.MINE


def test_a_failure_is_tried_again_later_and_later_and_given_up(notified: Notified) -> None:
    now, attempts = NOW, 0
    for wait in (*BACK_OFF, 1e6):
        assert notified.claim(ASKED, now, ME) is SendClaim.MINE
        attempts += 1
        notified.settle(ASKED, now, "answered 500")
        if attempts <= len(BACK_OFF):
            assert notified.claim(ASKED, now + (wait - 1), ME) is SendClaim.NOT_NOW
        now += wait
    assert notified.claim(ASKED, now, ME) is SendClaim.DONE
    assert attempts == len(BACK_OFF) + 1


@pytest.mark.parametrize(("once_more", "attempts"), [(False, 1), (True, 2)])
def test_a_lost_answer_counts_as_sent(notified: Notified, once_more: bool, attempts: int) -> None:
    asked, now, made = ASKED._replace(once_more=once_more), NOW, 0
    while (claim := notified.claim(asked, now, ME)) is not SendClaim.DONE:
        if claim is SendClaim.MINE:
            made += 1
            notified.settle(asked, now, "no answer", lost=True)
        now += 60
    assert made == attempts


@pytest.mark.parametrize(("once_more", "then"), [(False, SendClaim.DONE), (True, SendClaim.MINE)])
def test_a_sender_that_was_killed(notified: Notified, once_more: bool, then: SendClaim) -> None:
    asked = ASKED._replace(once_more=once_more)
    assert notified.claim(asked, NOW, ME) is SendClaim.MINE
    notified.begin(asked, NOW, ME)
    assert notified.claim(asked, NOW + (LOST_AFTER - 1), ME) is SendClaim.NOT_NOW
    assert notified.claim(asked, NOW + LOST_AFTER, ME) is then
    if then is SendClaim.MINE:
        notified.begin(asked, NOW + LOST_AFTER, ME)
    assert notified.claim(asked, NOW + 2 * LOST_AFTER, ME) is SendClaim.DONE


@pytest.mark.parametrize("once_more", [False, True])
def test_what_a_hung_one_held_goes_out_by_the_next_and_by_it_alone(
    notified: Notified, once_more: bool
) -> None:
    asked, later = ASKED._replace(once_more=once_more), NOW + CLAIMED_FOR
    assert notified.claim(asked, NOW, "hung") is SendClaim.MINE
    assert notified.claim(asked, NOW + (CLAIMED_FOR - 1), "next") is SendClaim.NOT_NOW
    assert notified.claim(asked, later, "next") is SendClaim.MINE
    with pytest.raises(TakenOverError):
        notified.begin(asked, later, "hung")
    notified.begin(asked, later, "next")
    notified.settle(asked, later + 1)
    with pytest.raises(TakenOverError):
        notified.begin(asked, later + 2, "hung")
    assert notified.claim(asked, later + 1e6, "third") is SendClaim.DONE


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_a_clock_that_is_set_ends_no_attempt(notified: Notified, jump: float) -> None:
    def moved(seconds: float) -> Moment:
        after = NOW + seconds
        return Moment(after.wall + jump, after.steady, after.boot)

    asked = ASKED._replace(once_more=True)
    assert notified.claim(asked, NOW, ME) is SendClaim.MINE
    assert notified.claim(asked, moved(5), "next") is SendClaim.NOT_NOW
    notified.begin(asked, moved(6), ME)
    assert notified.claim(asked, moved(60), "next") is SendClaim.NOT_NOW
    notified.settle(asked, moved(61), "answered 500")
    assert notified.claim(asked, moved(61 + BACK_OFF[0] - 1), ME) is SendClaim.NOT_NOW
    assert notified.claim(asked, moved(61 + BACK_OFF[0]), ME) is SendClaim.MINE


def test_a_worse_message_covers_a_lesser_one(notified: Notified) -> None:
    assert notified.claim(ASKED, NOW, ME) is SendClaim.MINE
    lesser = ASKED._replace(event="alert 1 alert", covered_by=("alert 1 critical",))
    assert notified.claim(lesser, NOW, ME) is SendClaim.DONE


def test_what_is_too_much_is_kept_back_for_one_summary(notified: Notified) -> None:
    file, route = "/x/cockpit.toml#", ASKED.route
    for n in range(5):
        asked = ASKED._replace(event=f"alert {n} alert", run=f"{file}r{n % 2}", most=2)
        claim = notified.claim(asked, NOW + n, ME)
        assert claim is (SendClaim.MINE if n < 2 else SendClaim.HELD)
        notified.settle(asked, NOW + n) if claim is SendClaim.MINE else None
    assert notified.claim_summary(file, route, "summary 1", NOW + 5) is None
    held = notified.claim_summary(file, route, "summary 1", NOW + 2 + GATHER)
    assert held is not None
    assert held.events == ("alert 2 alert", "alert 3 alert", "alert 4 alert")
    assert held.runs == (f"{file}r0", f"{file}r1", f"{file}r0")
    assert notified.claim_summary(file, route, "summary 2", NOW + 3 + GATHER) is None
    notified.release_summary(route, held)
    assert notified.claim_summary(file, route, "summary 2", NOW + 3 + GATHER) is None
    assert notified.claim_summary(file, route, "summary 3", NOW + GATHER + 3 + WINDOW) == held
    again = ASKED._replace(event="alert 9 alert", most=2)
    assert notified.claim(again, NOW + 3 * WINDOW, ME) is SendClaim.MINE


def _claims(path: str, start: Event, won: Queue[list[int]]) -> None:
    notified = Notified(Store(Path(path)))
    start.wait()
    mine = [n for n in range(50) if _takes(notified, n)]
    won.put(mine)


def _takes(notified: Notified, n: int) -> bool:
    return notified.claim(ASKED._replace(event=f"alert {n} alert"), NOW, ME) is SendClaim.MINE


def test_of_two_processes_exactly_one_gets_each_message(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, won = spawn.Event(), spawn.Queue()
    path = str(tmp_path / "store.sqlite")
    Store(Path(path)).close()
    racers = [spawn.Process(target=_claims, args=(path, start, won)) for _ in range(2)]
    for racer in racers:
        racer.start()
    start.set()
    taken = [n for _ in racers for n in won.get(timeout=60)]
    for racer in racers:
        racer.join(60)
    assert sorted(taken) == list(range(50))


def test_old_claims_are_forgotten(notified: Notified) -> None:
    notified.claim(ASKED, NOW, ME)
    notified.prune(NOW + 200 * 86400)
    assert notified.of(ASKED.run, "alert ") == ()
