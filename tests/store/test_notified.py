from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from cockpit.model.clock import Moment
from cockpit.runtime.process import process_facts
from cockpit.store.launches import Endings
from cockpit.store.messages import (
    BACK_OFF,
    GATHER,
    KEPT_SENT,
    LOST_AFTER,
    WINDOW,
    Asked,
    Letter,
    Notified,
    Outbox,
    SendClaim,
    TakenOverError,
)
from cockpit.store.messages import (
    CLAIMED_FOR as OUTBOX_CLAIMED_FOR,
)
from cockpit.store.messages import (
    SENDS_WITHIN as CLAIMED_FOR,
)
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
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


OUTBOX_NOW = 1_800_000_000.0
LETTER = Letter(kind="comment", to="https://github.com/a/b/issues/1", body="x")


def outbox(folder: Path) -> Outbox:
    return Outbox(Store(folder / "store.sqlite"))


def test_an_event_has_one_row_and_keeps_its_first_words(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    first = box.put("r", "e", LETTER, OUTBOX_NOW)
    moved = LETTER.model_copy(update={"body": "y", "to": "https://github.com/a/new/issues/1"})
    again = box.put("r", "e", moved, OUTBOX_NOW + 5)
    assert (again.number, again.at, again.letter.body) == (first.number, OUTBOX_NOW, "x")
    assert again.letter.to == moved.to
    assert box.put("r", "other", LETTER, OUTBOX_NOW).number != first.number


def test_they_wait_in_the_order_in_which_they_came_whatever_the_clock_says(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    for event, at in (("c", OUTBOX_NOW), ("a", OUTBOX_NOW), ("b", OUTBOX_NOW - 500)):
        box.put("r", event, LETTER, at)
    assert [row.event for row in box.waiting("r")] == ["c", "a", "b"]
    assert box.runs() == {"r"} and box.waiting("other") == ()


def test_one_process_at_a_time_holds_a_row(tmp_path: Path) -> None:
    box, other = outbox(tmp_path), outbox(tmp_path)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    assert box.claim(number, "one", OUTBOX_NOW) is not None
    assert other.claim(number, "two", OUTBOX_NOW + OUTBOX_CLAIMED_FOR) is None
    other.release(number, "two")
    assert other.claim(number, "two", OUTBOX_NOW + 1) is None
    box.release(number, "one")
    assert other.claim(number, "two", OUTBOX_NOW + 1) is not None
    assert box.claim(number, "three", OUTBOX_NOW + OUTBOX_CLAIMED_FOR + 2) is not None, (
        "left behind"
    )
    assert box.claim(number, "four", OUTBOX_NOW - 10) is not None, "the clock was set back"


def test_many_threads_claim_and_one_gets_it(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    got: list[str] = []

    def take(name: str) -> None:
        if outbox(tmp_path).claim(number, name, OUTBOX_NOW) is not None:
            got.append(name)

    threads = [threading.Thread(target=take, args=(str(each),)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_who_waited_for_the_store_takes_no_claim_that_was_made_meanwhile(tmp_path: Path) -> None:
    """It had read its clock first: a claim from a second ahead was one of a clock set back."""
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    assert box.claim(number, "quick", OUTBOX_NOW + 1) is not None
    assert box.claim(number, "waited", OUTBOX_NOW) is None
    assert box.claim(number, "of a clock set back", OUTBOX_NOW - 10_000) is not None


def test_what_was_sent_is_remembered_and_can_not_be_claimed(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    box.trying(number, OUTBOX_NOW)
    box.failed(number, "no network", OUTBOX_NOW + 1, OUTBOX_NOW + 20)
    box.failed(number, "still none", OUTBOX_NOW + 5, OUTBOX_NOW + 30)
    row = box.row(number)
    assert row is not None
    assert (row.tries, row.tried_at, row.trouble_at, row.due) == (
        1,
        OUTBOX_NOW,
        OUTBOX_NOW + 1,
        OUTBOX_NOW + 30,
    )
    box.sent(number, "https://there", OUTBOX_NOW + 6)
    again = box.put("r", "e", LETTER, OUTBOX_NOW + 7)
    assert (again.answer, again.trouble, again.sent_at) == ("https://there", None, OUTBOX_NOW + 6)
    assert box.claim(number, "one", OUTBOX_NOW + 8) is None and box.waiting("r") == ()
    box.put("r", "later", LETTER, OUTBOX_NOW + KEPT_SENT + 10)
    assert box.put("r", "e", LETTER, OUTBOX_NOW).sent_at is None, (
        "long ago; its marker is still there"
    )


def test_a_definite_failure_was_not_sent_and_a_refusal_waits_for_a_person(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    box.trying(number, OUTBOX_NOW)
    box.failed(number, "refused", OUTBOX_NOW, None, definite=True)
    row = box.row(number)
    assert row is not None and row.tried_at is None and row.due is None
    assert box.runs() == frozenset()
    assert box.put("r", "e", LETTER, OUTBOX_NOW + 9).due == OUTBOX_NOW + 9


def test_a_row_of_another_version_is_written_anew(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    box = Outbox(store)
    number = box.put("r", "e", LETTER, OUTBOX_NOW).number
    with store.writing() as connection:
        connection.execute("UPDATE outbox SET document = '{}'")
    assert box.waiting("r") == ()
    again = box.put("r", "e", LETTER, OUTBOX_NOW)
    assert again.number == number and again.letter == LETTER


ADA = Owner(name="ada", host="here", pid=10, started_at=1.0)
BOB = Owner(name="bob", host="here", pid=20, started_at=2.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def at(wall: float) -> Moment:
    return Moment(wall)


def seen_from(store: Store, *living: int) -> Ownership:
    return Ownership(store, lambda owner: owner.pid in living)


def test_a_second_one_is_told_who_owns_the_run(store: Store) -> None:
    own = seen_from(store, 10, 11)
    assert own.claim("r", ADA, at(100.0), 60.0) is None
    second = ADA.model_copy(update={"pid": 11})
    in_the_way = own.claim("r", second, at(101.0), 60.0)
    assert in_the_way is not None
    assert in_the_way.owner == ADA
    assert "ada" in in_the_way.owner.label and "pid 10" in in_the_way.owner.label


def test_a_dead_process_on_this_host_owns_nothing(store: Store) -> None:
    seen_from(store, 10).claim("r", ADA, at(100.0), 60.0)
    later = seen_from(store, 11)
    assert later.owner("r", at(101.0)) is None
    assert later.claim("r", ADA.model_copy(update={"pid": 11}), at(101.0), 60.0) is None


def test_a_takeover_is_told_to_the_former_owner(store: Store) -> None:
    own = seen_from(store, 10, 20)
    own.claim("r", ADA, at(100.0), 60.0)
    assert own.claim("r", BOB, at(101.0), 60.0, takeover=True) is None
    taken = own.refresh("r", ADA, at(102.0), 60.0)
    assert taken is not None and taken.owner == BOB
    own.release("r", ADA)
    assert own.owner("r", at(103.0)) is not None


def test_a_run_that_was_taken_and_given_up_again_is_taken_back(store: Store) -> None:
    own = seen_from(store, 10)
    own.claim("r", ADA, at(100.0), 60.0)
    own.claim("r", BOB, at(101.0), 60.0, takeover=True)
    own.release("r", BOB)
    assert own.refresh("r", ADA, at(102.0), 60.0) is None
    owned = own.owner("r", at(103.0))
    assert owned is not None and owned.owner == ADA


def test_a_released_run_is_free(store: Store) -> None:
    own = seen_from(store, 10, 11)
    own.claim("r", ADA, at(100.0), 60.0)
    own.release("r", ADA)
    assert own.claim("r", ADA.model_copy(update={"pid": 11}), at(101.0), 60.0) is None


CLAIMER = """
import os, sys, time
from pathlib import Path
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.store import Store
from cockpit.model.clock import Moment as at
own = Ownership(Store(Path(sys.argv[1])), lambda owner: True)
sys.stdin.readline()
me = Owner(name="racer", host="here", pid=os.getpid())
print("mine" if own.claim("r", me, at(100.0), 60.0) is None else "busy", flush=True)
"""


def test_of_many_processes_that_race_exactly_one_owns_the_run(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert sorted(said) == ["busy"] * 2 + ["mine"]


def test_this_very_process_is_recognised(store: Store) -> None:
    pid = os.getpid()
    me = Owner(name="me", host="here", pid=pid, started_at=process_facts(pid).started_at)
    own = Ownership(store, lambda owner: process_facts(owner.pid).started_at == owner.started_at)
    own.claim("r", me, at(1.0), 60.0)
    assert own.owner("r", at(1e9)) is not None


def test_an_end_is_acknowledged_once_per_job(store: Store) -> None:
    endings = Endings(store)
    endings.acknowledge("r", "job-1", None, "ada", 5.0)
    endings.acknowledge("r", "job-1", None, "bob", 6.0)
    endings.acknowledge("r", None, None, "ada", 7.0)
    assert [(each.job_id, each.at) for each in endings.acknowledged("r")] == [
        ("job-1", 5.0), ("", 7.0),
    ]  # fmt: skip


def test_an_id_that_lives_twice_has_two_ends(store: Store) -> None:
    """A Slurm requeue and a fixed Iris name keep their id."""
    endings = Endings(store)
    endings.acknowledge("r", "job-1", 100.0, "ada", 500.0)
    (first,) = endings.acknowledged("r")
    assert first.covers("job-1", 100.0) and first.covers("job-1", 100.7)
    assert first.covers("job-1", None), "the start is not told any more"
    assert not first.covers("job-1", 300.0) and not first.covers("job-2", 100.0)
    endings.acknowledge("r", "job-1", 300.0, "bob", 900.0)
    endings.withdraw("r", "job-1", 100.0)
    assert [each.started_at for each in endings.acknowledged("r")] == [300.0]


def test_an_end_that_an_older_version_acknowledged_stays_so(tmp_path: Path) -> None:
    """It knew the id alone: what began before it was acknowledged is meant."""
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        for statement in (each for step in MIGRATIONS[:2] for each in step):
            connection.execute(statement)
        connection.execute("INSERT INTO endings VALUES ('r', 'job-1', 'ada', 500.0)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    (old,) = Endings(Store(path)).acknowledged("r")
    assert old.covers("job-1", 100.0) and old.covers("job-1", None)
    assert not old.covers("job-1", 501.0)
