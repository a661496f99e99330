from __future__ import annotations

import pytest

from cockpit.model.shared_facts import SharedFact, own_word, owner_now, taken_in, typist, worded


def handed(to: str, of: str, at: float, typed_by: str = "", named: str = "ada") -> SharedFact:
    parts = {"from": of, "run file": named}
    return SharedFact(
        what="owner", value=to, at=at, typed_by=typed_by or of, parts=parts, source="book"
    )


def test_a_handover_stands_until_another_handover() -> None:
    told = [handed("carol", "bob", 20.0), handed("bob", "ada", 10.0)]
    assert owner_now("toy", "ada", []).name == "ada"
    assert owner_now("toy", None, told).name == "carol"
    agreed = owner_now("toy", "Carol", told)
    assert (agreed.name, agreed.differs, agreed.remedy) == ("carol", None, None)


@pytest.mark.parametrize(
    ("named", "differs", "remedy"),
    [
        ("ada", "the run file still names ada", 'dri = "bob" in the run file; or cockpit handoff'),
        ("dave", "the run file names dave", "cockpit handoff 'a run' --to dave; or dri = "),
    ],
)
def test_a_run_file_that_names_another_is_told_with_what_helps(
    named: str, differs: str, remedy: str
) -> None:
    found = owner_now("a run", named, [handed("bob", "ada", 10.0)])
    assert (found.name, found.differs) == ("bob", differs)
    assert found.remedy is not None and found.remedy.startswith(remedy)


def test_who_typed_stands_beside_whose_word_it_is() -> None:
    assert owner_now("toy", "ada", [handed("bob", "ada", 1.0, "bob")]).by == "ada, typed by bob"
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
        SharedFact(what="acknowledged", value="C-09", at=at, typed_by="ada", parts={"by": by})
        for at, by in ((5.0, "eve"), (20.0, "ada"), (15.0, "bob"))
    ]
    found = taken_in(told, "C-09", 10.0)
    assert found is not None and (found[1].by, found[1].at) == ("ada", 20.0)
    assert taken_in(told, "C-09", 21.0) is None and taken_in(told, "C-01", 0.0) is None
