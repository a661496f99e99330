from __future__ import annotations

import pytest

from cockpit.model.people import own_word, typist, worded
from cockpit.model.told import Told, owner_now, taken_in


def handed(to: str, of: str, at: float, typed_by: str = "", named: str = "ada") -> Told:
    parts = {"from": of, "run file": named}
    return Told(what="owner", value=to, at=at, typed_by=typed_by or of, parts=parts, source="book")


def test_the_newest_handover_owns() -> None:
    told = [handed("carol", "bob", 20.0), handed("bob", "ada", 10.0)]
    assert owner_now("ada", 30.0, told).name == "carol", "edited for another reason"
    assert owner_now("bob", 30.0, told).name == "carol", "bob has handed it on"
    assert owner_now("ada", 30.0, []).name == "ada" and owner_now(None, None, told).name == "carol"
    agreed = owner_now("Carol", 5.0, told)
    assert (agreed.name, agreed.differs) == ("carol", None)


def test_a_run_file_that_names_somebody_new_since_then_is_the_newer_word() -> None:
    told = [handed("bob", "ada", 10.0)]
    newer = owner_now("dave", 11.0, told)
    assert newer.name == "dave" and newer.differs is not None and "bob" in newer.differs
    older = owner_now("dave", 9.0, told)
    assert older.name == "bob" and older.differs is not None and "dave" in older.differs


def test_who_typed_stands_beside_whose_word_it_is() -> None:
    assert owner_now("ada", None, [handed("bob", "ada", 1.0, "bob")]).by == "ada, typed by bob"
    assert (typist("ada", "ada"), typist("Ada", "root")) == ("ada", "Ada (login root)")
    assert worded("ada", "Ada (login root)") == "Ada (login root)"
    assert worded("ada", "bob (login root)") == "ada, typed by bob (login root)"
    assert worded("ada", None) == "ada"


@pytest.mark.parametrize(
    ("typed_by", "own"),
    [
        ("ada", True), ("Ada (login root)", True), ("bob", False), ("bob (login ada)", False),
        ("ada (login bob)", False), ("agent:ada", False), ("ada (login carol)", True),
    ],
)  # fmt: skip
def test_a_word_is_somebodys_own(typed_by: str, own: bool) -> None:
    assert own_word("ada", typed_by, {"ada", "bob"}) is own


def test_an_acknowledgement_is_of_the_alert_that_stood_then() -> None:
    told = [
        Told(what="acknowledged", value="C-09", at=at, typed_by="ada", parts={"by": by})
        for at, by in ((5.0, "eve"), (20.0, "ada"), (15.0, "bob"))
    ]
    found = taken_in(told, "C-09", 10.0)
    assert found is not None and (found[1].by, found[1].at) == ("ada", 20.0)
    assert taken_in(told, "C-09", 21.0) is None and taken_in(told, "C-01", 0.0) is None
