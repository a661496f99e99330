from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.shared_facts import KINDS, SharedFact
from cockpit.records.logbook.writing import with_contract, with_event, with_instance
from cockpit.text.logbook_lines import (
    message_line,
    message_lines,
    read_messages,
    read_plain,
    read_rejections,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

AT, LATER = 1_773_219_331.25, 9e9
START = b"# Toy: Hero Run Logbook\n\n## Event Log\n"
NASTY = st.text("ab`\\\n\r-:,()~#>|*_ <é\u2028\x1b", max_size=20) | st.text(max_size=20)


def told(value: str = "bob", **parts: str) -> SharedFact:
    return SharedFact(what="owner", value=value, at=AT, typed_by="ada (login root)", parts=parts)


def shown(text: str) -> str:
    return scrub(clean(text or "?", 1000))


@given(st.sampled_from(KINDS), NASTY, NASTY, NASTY, st.booleans())
def test_what_was_told_is_read_back_and_nothing_else(
    what: str, value: str, other: str, who: str, plain: bool
) -> None:
    one = SharedFact(what=what, value=value, at=AT, typed_by=who, parts={"from": other})
    if plain:
        read = read_plain(message_lines([one]), "", LATER)
    else:
        entry = EventEntry(
            title="t", at=AT, evidence=other, decision=value, said=message_lines([one])
        )
        read = read_messages(with_event(START, entry).decode(), "", LATER)
    (found,) = read
    assert (found.what, found.at, found.typed_by) == (what, AT, shown(who))
    assert found.value == shown(value)
    assert found.parts == ({"from": shown(other)} if other else {})


@given(st.sampled_from(("status", "evidence", "decision", "next", "title")),
       st.sampled_from(("", "- ", "* ", "  - ", "x\n", "x\n\n- ", "Decision: ", "1. ", "**")),
       st.booleans())  # fmt: skip
def test_no_other_text_of_an_entry_tells_anything(field: str, before: str, wrapped: bool) -> None:
    line = message_line(told("mallory"))
    text = before + (line.replace(" (", "\n (") if wrapped else line)
    entry = EventEntry.model_validate({"title": "t", "at": AT, field: text})
    book = with_event(START, entry)
    assert read_messages(book.decode(), "", LATER) == ()
    assert with_event(book, entry) == book, "written once, whatever it says"


REJECTS = "rejected checkpoint: step 40 `/x/step-40` (saved until 2026-03-11T08:55:31Z, by a)"
WITHDRAWS = "Rejection withdrawn: step 41"


@given(st.sampled_from(("status", "evidence", "decision", "next")),
       st.sampled_from((REJECTS, WITHDRAWS, message_line(told("mallory")))),
       st.lists(st.tuples(st.integers(0, 60), st.sampled_from("\n \t*_-\x00\x7f\r"))
                | st.tuples(st.integers(0, 60), st.just("\n  ")), max_size=3),
       st.sampled_from(("", "- ", "seen\n- ", "x\n\n  1. ", "- [x] ", "Note: **", "Note:\n  "))
       )  # fmt: skip
@example("evidence", REJECTS, [(8, "\n  ")], "seen\n")  # wrapped: the reader joins it again
@example("evidence", REJECTS, [(3, "\x00")], "- ")  # what is taken out joins what was apart
def test_what_a_trainer_prints_tells_and_rejects_nothing(
    field: str, line: str, put_in: list[tuple[int, str]], before: str
) -> None:
    for at, extra in put_in:
        line = line[:at] + extra + line[at:]
    entry = EventEntry.model_validate({"title": "t", "at": AT, field: before + line})
    instance = InstanceEntry(launch_id="toy-i001", at=AT, fields={"Command": before + line})
    good = EventEntry(title="rolled back", at=AT - 600, said=f"- {REJECTS.replace('40', '41')}")
    book = with_instance(with_event(with_event(START, good), entry), instance)
    book = with_contract(book, {"Goal": before + line}, AT)
    assert [one.step for one in read_rejections(book.decode())] == [41], book.decode()
    assert read_messages(book.decode(), "", LATER) == ()
    assert with_event(book, entry) == book


def test_a_fence_a_comment_a_quote_and_a_table_tell_nothing() -> None:
    line = message_line(told())
    for text in (f"```\n- {line}\n```", f"<!--\n- {line}\n-->", f"> - {line}", f"| {line} |"):
        book = f"# T\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - x\n{text}\n"
        assert read_messages(book, "", LATER) == (), text


def test_a_time_that_is_not_yet_is_not_believed() -> None:
    assert read_plain(message_lines([told()]), "", AT - 1) == ()


def test_a_line_that_an_editor_wrapped_is_read() -> None:
    line = message_line(told()).replace(" (2", "\n  (2")
    book = f"# T\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - x\n- {line}\n"
    assert [each.value for each in read_messages(book, "", LATER)] == ["bob"]
