"""One set of words for how an action ended, the same everywhere it is told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from textual.content import Content

from cockpit.model.acts import Outcome, Records, ending, ending_means
from cockpit.model.plan import Plan, Request, Result, StepResult, StepState
from cockpit.model.wording import from_to, with_code, with_reason
from cockpit.store.journal import Holder, JournalEntry
from cockpit.verbs.act import exit_code, result_lines
from cockpit.verbs.history import _action_lines
from widgets.painting.journal import ActionProgress, Done, paint_done, paint_steps

EVERY = list(itertools.product(Outcome, Records))
LACKING = ("not pushed", "not recorded", "not all of it")


def shown(lines: Sequence[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def told(outcome: Outcome, records: Records) -> dict[str, str]:
    """Return an outcome as each place tells it."""
    result = Result(plan_id="x", outcome=outcome, records=records, recorded=records.whole)
    entry = JournalEntry(
        number=1, run="toy", action="stop", operator="ada", holder=Holder(host="h", pid=1),
        plan=Plan(words="stop toy", plan_id="x", action="stop", run="toy", made_at=1.0),
        begun_at=1.0, ended_at=2.0, outcome=outcome, recorded=records.written,
        facts={"records": records.value},
    )  # fmt: skip
    done = Done("toy", "stop", "ada", 1.0, outcome, 2.0, records=entry.written)
    return {
        "line": "\n".join(result_lines(Request(action="stop", run="toy", operator="ada"), result)),
        "history": "\n".join(_action_lines(entry)),
        "handoff": entry.text,
        "journal": shown(paint_done(done, 10.0, 200)),
        "page": shown(paint_steps(ActionProgress((), result), 200)),
    }


@pytest.mark.parametrize(("outcome", "records"), EVERY)
def test_no_place_says_more_than_the_others(outcome: Outcome, records: Records) -> None:
    said = told(outcome, records)
    lacks = not records.whole and outcome is not Outcome.REFUSED
    for place, text in said.items():
        assert "None" not in text, (place, text)
        assert outcome.value in text.casefold(), (place, text)
        found = [word for word in LACKING if word in text]
        assert bool(found) == lacks, (place, text)
        assert all(word in records.value for word in found), (place, text)
    assert said["handoff"] in said["history"] and said["handoff"] in said["line"]


def test_what_is_only_on_its_way_is_done_and_what_lacks_has_its_own_exit_code() -> None:
    def code(records: Records) -> int:
        return exit_code(Result(plan_id="x", outcome=Outcome.DONE, records=records))

    assert [code(each) for each in Records] == [0, 0, 0, 6, 6, 6]
    assert ending(None) == "under way"
    assert ending(None, at_it=False) == "interrupted"
    assert "no end known" in ending(None, at_it=None)
    assert ending_means(Outcome.REFUSED, Records.NONE) == "refused, nothing was done"


def test_a_sentence_holds_no_none_and_nothing_twice() -> None:
    assert with_code('W&B says "crashed"', None) == 'W&B says "crashed"'
    assert with_code("x", 3) == "x, exit code 3"
    assert from_to("root", "root") == "root" and from_to("ada", "bob") == "ada → bob"
    assert with_reason("Pending", "pending") == "Pending" == with_reason("Pending", None)
    assert with_reason("PENDING", "Priority") == "PENDING: Priority"


def test_a_step_without_a_note_says_none_of_it() -> None:
    step: Any = StepResult(name="log", state=StepState.DONE, at=1.0)
    result = Result(plan_id="x", outcome=Outcome.DONE, steps=(step,))
    lines = result_lines(Request(action="log", run="toy", operator="ada"), result)
    assert lines == ["log toy: done", "log: done"]
