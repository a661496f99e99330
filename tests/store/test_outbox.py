from __future__ import annotations

import threading
from pathlib import Path

from cockpit.store.messages import CLAIMED_FOR, KEPT_SENT, Letter, Outbox
from cockpit.store.store import Store

NOW = 1_800_000_000.0
LETTER = Letter(kind="comment", to="https://github.com/a/b/issues/1", body="x")


def outbox(folder: Path) -> Outbox:
    return Outbox(Store(folder / "store.sqlite"))


def test_an_event_has_one_row_and_keeps_its_first_words(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    first = box.put("r", "e", LETTER, NOW)
    moved = LETTER.model_copy(update={"body": "y", "to": "https://github.com/a/new/issues/1"})
    again = box.put("r", "e", moved, NOW + 5)
    assert (again.number, again.at, again.letter.body) == (first.number, NOW, "x")
    assert again.letter.to == moved.to
    assert box.put("r", "other", LETTER, NOW).number != first.number


def test_they_wait_in_the_order_in_which_they_came_whatever_the_clock_says(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    for event, at in (("c", NOW), ("a", NOW), ("b", NOW - 500)):
        box.put("r", event, LETTER, at)
    assert [row.event for row in box.waiting("r")] == ["c", "a", "b"]
    assert box.runs() == {"r"} and box.waiting("other") == ()


def test_one_process_at_a_time_holds_a_row(tmp_path: Path) -> None:
    box, other = outbox(tmp_path), outbox(tmp_path)
    number = box.put("r", "e", LETTER, NOW).number
    assert box.claim(number, "one", NOW) is not None
    assert other.claim(number, "two", NOW + CLAIMED_FOR) is None
    other.release(number, "two")
    assert other.claim(number, "two", NOW + 1) is None
    box.release(number, "one")
    assert other.claim(number, "two", NOW + 1) is not None
    assert box.claim(number, "three", NOW + CLAIMED_FOR + 2) is not None, "left behind"
    assert box.claim(number, "four", NOW - 10) is not None, "the clock was set back"


def test_many_threads_claim_and_one_gets_it(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, NOW).number
    got: list[str] = []

    def take(name: str) -> None:
        if outbox(tmp_path).claim(number, name, NOW) is not None:
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
    number = box.put("r", "e", LETTER, NOW).number
    assert box.claim(number, "quick", NOW + 1) is not None
    assert box.claim(number, "waited", NOW) is None
    assert box.claim(number, "of a clock set back", NOW - 10_000) is not None


def test_what_was_sent_is_remembered_and_can_not_be_claimed(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, NOW).number
    box.trying(number, NOW)
    box.failed(number, "no network", NOW + 1, NOW + 20)
    box.failed(number, "still none", NOW + 5, NOW + 30)
    row = box.row(number)
    assert row is not None
    assert (row.tries, row.tried_at, row.trouble_at, row.due) == (1, NOW, NOW + 1, NOW + 30)
    box.sent(number, "https://there", NOW + 6)
    again = box.put("r", "e", LETTER, NOW + 7)
    assert (again.answer, again.trouble, again.sent_at) == ("https://there", None, NOW + 6)
    assert box.claim(number, "one", NOW + 8) is None and box.waiting("r") == ()
    box.put("r", "later", LETTER, NOW + KEPT_SENT + 10)
    assert box.put("r", "e", LETTER, NOW).sent_at is None, "long ago; its marker is still there"


def test_a_definite_failure_was_not_sent_and_a_refusal_waits_for_a_person(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    number = box.put("r", "e", LETTER, NOW).number
    box.trying(number, NOW)
    box.failed(number, "refused", NOW, None, definite=True)
    row = box.row(number)
    assert row is not None and row.tried_at is None and row.due is None
    assert box.runs() == frozenset()
    assert box.put("r", "e", LETTER, NOW + 9).due == NOW + 9


def test_a_row_of_another_version_is_written_anew(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    box = Outbox(store)
    number = box.put("r", "e", LETTER, NOW).number
    with store.writing() as connection:
        connection.execute("UPDATE outbox SET document = '{}'")
    assert box.waiting("r") == ()
    again = box.put("r", "e", LETTER, NOW)
    assert again.number == number and again.letter == LETTER
