from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.records import EventEntry, Rejected
from cockpit.records.logbook.writing import with_event
from cockpit.text.logbook_lines import read_rejections, rejection_lines

AT = datetime(2026, 3, 11, 8, 55, 31, tzinfo=UTC).timestamp()
ONE = Rejected(step=340, path="runs/x/checkpoints/step-340", at=AT, by="ada", reason="a spike")
TWO = Rejected(step=380, path="runs/x/checkpoints/step-380", at=AT, by="ada", reason="a spike")
HEAD = "# R: Hero Run Logbook\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - rollback to 320\n"


def entry(said: str, at: float = AT, title: str = "rollback to 320") -> EventEntry:
    return EventEntry(title=title, at=at, status="stopped", evidence="loss up", said=said)


def book(*entries: EventEntry) -> str:
    data = b"# R: Hero Run Logbook\n\n## Event Log\n"
    for each in entries:
        data = with_event(data, each)
    return data.decode()


def test_what_a_rollback_writes_is_found_in_the_logbook_alone() -> None:
    text = book(entry(rejection_lines([ONE, TWO])))
    assert "  - rejected checkpoint: step 340 `runs/x/checkpoints/step-340` (saved until" in text
    assert read_rejections(text) == (ONE, TWO)
    assert read_rejections(book(entry(rejection_lines([TWO, ONE])))) == (ONE, TWO)
    assert read_rejections("") == ()


@pytest.mark.parametrize(
    "line",
    [
        "- Evidence: rejected checkpoint: step 340 `runs/x/checkpoints/step-340` (by ada: a spike)",
        "* **Rejected checkpoint:** step 340 `runs/x/checkpoints/step-340`, by ada: a spike",
        "rejected checkpoint: step **340** runs/x/checkpoints/step-340 (by ada: a spike)",
        "1. _rejected checkpoint_ — step 340: `runs/x/checkpoints/step-340` — by ada: a spike",
        "- rejected checkpoint: step 340\n  `runs/x/checkpoints/step-340`\n  (by ada: a\n  spike)",
        "- By: ada\n- [x] rejected checkpoint: step 340 `runs/x/checkpoints/step-340`",
    ],
)
def test_a_light_hand_over_the_text_changes_nothing(line: str) -> None:
    found = read_rejections(HEAD + line + "\n")
    assert [(one.step, one.path, one.by) for one in found] == [(340, ONE.path, "ada")]
    assert found[0].at == datetime(2026, 3, 11, 8, 56, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "line",
    [
        "- Decision: we rejected checkpoint step 340 `runs/x/step-340` and went on",
        "- Evidence: no rejected checkpoint: step 340 `runs/x/step-340` is fine",
        "- rejected checkpoint: see above, step 340 `runs/x/step-340`",
        "- rejected checkpoints are listed in `runs/x/rejected.json`",
        "- rejected checkpoint: step 340 was the question",
        "- ~~rejected checkpoint: step 340 `runs/x/step-340`~~",
        "> rejected checkpoint: step 340 `runs/x/step-340`",
        "```\nrejected checkpoint: step 340 `runs/x/step-340`\n```",
        "<!--\n- rejected checkpoint: step 340 `runs/x/step-340`\n-->",
        "- rejected checkpoint: step 3.5 `runs/x/step-340`",
    ],
)
def test_prose_rejects_nothing(line: str) -> None:
    assert read_rejections(HEAD + line + "\n") == ()


@pytest.mark.parametrize("by", ["ada (login root)", "ada", "ada b (login c-d)"])
@pytest.mark.parametrize("reason", ["a spike (again): of loss", ""])
def test_who_typed_it_is_read_back_with_the_account(by: str, reason: str) -> None:
    one = ONE.model_copy(update={"by": by, "reason": reason})
    assert f"by {by}" in rejection_lines([one])
    assert read_rejections(book(entry(rejection_lines([one])))) == (one,)


def withdrawal(one: Rejected) -> str:
    return f"- rejection withdrawn: step {one.step} `{one.path}`"


def test_a_later_entry_takes_a_rejection_back() -> None:
    rejected = entry(rejection_lines([ONE, TWO]))
    back = entry(withdrawal(ONE), AT + 600, "it was the data")
    assert read_rejections(book(rejected, back)) == (TWO,)
    again = entry(rejection_lines([ONE]), AT + 1200, "no, it was not")
    assert read_rejections(book(rejected, back, again)) == (ONE, TWO)
    step = entry("- rejection withdrawn: step 380, it was the data", AT + 600, "all well")
    assert read_rejections(book(rejected, step)) == (ONE,)


def test_an_earlier_withdrawal_does_not_hold_in_a_file_that_is_newest_first() -> None:
    lines = [
        f"### 2026-03-11 {hour:02}:00 UTC - {hour}\n- Evidence:\n  {text}\n"
        for hour, text in ((12, rejection_lines([ONE])), (11, withdrawal(ONE)), (10, "x"))
    ]
    assert read_rejections("## Event Log\n" + "".join(lines)) == (ONE,)
    assert read_rejections("## Event Log\n" + "".join(reversed(lines))) == (ONE,)


PATH = st.one_of(
    st.text(min_size=1, max_size=30).filter(str.strip),  # a checkpoint has a name
    st.text("`\\ /a\n", min_size=1, max_size=12).map(lambda text: f"/runs{text}x"),
)
WORDS = st.text("abc :()-`;\n|é", max_size=15)


@given(
    st.lists(
        st.builds(
            Rejected,
            step=st.integers(0, 10**9),
            path=PATH,
            at=st.integers(10**9, 2 * 10**9).map(float),
            by=WORDS,
            reason=WORDS,
        ),
        max_size=4,
    )
)
def test_any_rejection_is_read_back(rejected: list[Rejected]) -> None:
    mine = {(one.step, one.path): one for one in rejected if "\ufeff" not in one.path}
    text = book(entry(rejection_lines(list(mine.values()))))
    found = {(one.step, one.path): one.at for one in read_rejections(text)}
    assert found == {key: one.at for key, one in mine.items()}


@given(st.text(), st.integers(0, 3))
def test_no_text_raises(text: str, cut: int) -> None:
    read_rejections(text)
    read_rejections(HEAD + rejection_lines([ONE])[cut:] + text)
