"""What lines announce of a run, in the words of the usual trainers; and what they do not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.records import EventEntry, InstanceEntry, Rejected
from cockpit.model.shared_facts import KINDS, Announced, Loaded, SharedFact
from cockpit.records.logbook.writing import with_contract, with_event, with_instance
from cockpit.text.announced import AFTER, announced
from cockpit.text.logbook_lines import (
    message_line,
    message_lines,
    read_messages,
    read_plain,
    read_rejections,
    rejection_lines,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

AT = 1_800_000_000.0


def told(*lines: str, first: bool = False, former: Announced | None = None) -> Announced:
    raw = [line.encode() for line in lines]
    return announced(raw, former or Announced(), lambda _: AT, first)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("wandb: Run data is saved locally in /w/wandb/run-20260211_040001-x7k2m9qa", "x7k2m9qa"),
        ("2: wandb: Run data is saved locally in wandb/offline-run-20260211_040001-a-b_1", "a-b_1"),
        ("wandb: Run data is saved locally in /w/wandb/latest-run", None),
        ("checkpoint is saved locally in /w/run-20260211_040001-x7k2m9qa", None),
    ],
)
def test_the_folder_of_the_client(line: str, name: str | None) -> None:
    assert told(line).wandb_ids == (() if name is None else ((name, AT),))


def test_no_more_folders_are_kept_than_may_be() -> None:
    many = [f"wandb: Run data is saved locally in run-20260211_040001-n{n}" for n in range(20)]
    assert [each for each, _ in told(*many).wandb_ids] == [f"n{n}" for n in range(12, 20)]


@pytest.mark.parametrize(
    ("line", "path", "step"),
    [
        ("INFO Loading checkpoint from gs://b/ck/step-4000", "gs://b/ck/step-4000", 4000),
        ("Loading model from /out/checkpoint-500.", "/out/checkpoint-500", 500),
        ("Restored all states from the checkpoint at /o/step=900.ckpt", "/o/step=900.ckpt", 900),
        ("loaded checkpoint from /m/ckpt [ t 1/2 ] at iteration 7000", "/m/ckpt", 7000),
        ("[Torch] Loading checkpoint from o/global_step80/m.pt...", "o/global_step80/m.pt", 80),
        ("[rank0]: Loading the checkpoint from o/ckpt/step-50", "o/ckpt/step-50", 50),
        ("Resuming training from step 1200", None, 1200),
        ("Resuming training from step 1200 (max steps 9000)", None, 1200),
        ("Resuming from step 1200: will save checkpoint at step 2000", None, 1200),
        ("resuming from checkpoint at step 40 of the epoch, global step 4800", None, 4800),
        ("Restored checkpoint from /eval/best/step-40", "/eval/best/step-40", 40),
        ("2026-01-02 03:04:05 | INFO | resumed from: /x/iter_0000300", "/x/iter_0000300", 300),
    ],
)  # fmt: skip
def test_what_was_resumed_from(line: str, path: str | None, step: int) -> None:
    found = told(line).loaded
    assert found is not None
    assert (found.path, found.step) == (path, step)


@pytest.mark.parametrize(
    "line",
    [
        "Loading pretrained checkpoint from /models/base/step-9",
        "Loading checkpoint shards: 100%|####| 3/3",
        "no checkpoint found at /out/ckpt, starting from scratch",
        "will resume from /out/checkpoint-5 if it exists",
        "Failed to load checkpoint from /out/checkpoint-5",
        "Saving model checkpoint to /out/checkpoint-500",
        "Storing checkpoint at /out/checkpoint-500",
        "Loading dataset from /data/c4",
        "step 500 | loss 2.31 | 0.4 s/it",
        "Loading best model from out/checkpoint-500 (score: 0.41).",
        "Restored best checkpoint from /out/step-500",
        "Loaded model weights from the checkpoint at /o/step-500.ckpt",
        "Loading checkpoint for evaluation from /out/step-500",
        "[eval] loading checkpoint from /out/step-500",
        "usage: train.py [--resume from checkpoint PATH]",
    ],
)
def test_what_is_no_resume(line: str) -> None:
    assert told(line).loaded is None


def test_the_page_of_the_run_and_the_newest_of_each_kind() -> None:
    page = "wandb: 🚀 View run toy at: https://wandb.ai/e/p/runs/abc12"
    found = told(page, "Resuming training from step 5", "Resuming training from step 9")
    assert found.wandb == "https://wandb.ai/e/p/runs/abc12"
    assert found.loaded == Loaded(path=None, step=9, line="Resuming training from step 9", at=AT)
    assert told("step 10 loss 2", former=found) == found
    assert told(f"{page}.").wandb == found.wandb
    assert told("the teacher is https://wandb.ai/e/p/runs/zzz").wandb is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING spot interruption notice: the instance goes at 12:02",
        "Preemption notice received, saving",
        "node gke-7 is about to be preempted",
        "received a preemption signal (SIGTERM), 30 s left",
        "checkpoint saved, waiting for its upload; Preemption notice received: not resuming",
    ],
)
def test_a_notice_that_the_job_is_taken_away(line: str) -> None:
    assert told(line).notice is not None


@pytest.mark.parametrize(
    "line",
    [
        "listening for the preemption notice of the scheduler",
        "the node may be preempted (preemption notice: 30 s)",
        "preemptible: true",
        "spot price 1.23",
        "no preemption notice received",
        "No spot interruption notice received yet",
        "Preemption notice received: False",
        "SIGTERM received: Preemption notice: none",
        "checking for spot termination notice",
        "waiting for the next spot interruption notice",
        "spot termination notice check failed: 404",
    ],
)
def test_what_is_only_possible_is_no_notice(line: str) -> None:
    assert told(line).notice is None


def test_a_notice_of_a_former_start_or_far_above_is_none() -> None:
    notice, resumed = "Preemption notice received", "Resuming training from step 9"
    assert told(notice, resumed).notice is None
    rows = [f"step {number} loss 2" for number in range(AFTER + 1)]
    assert told(notice, *rows, first=True).notice is None
    assert told(notice, *rows).notice is not None, "seen as it came"


def test_a_secret_in_such_a_line_is_masked() -> None:
    found = told("Resuming from step 3 token=ghp_" + "a1B2" * 9).loaded
    assert found is not None and "a1B2a1B2" not in found.line


REJECTIONS_AT = datetime(2026, 3, 11, 8, 55, 31, tzinfo=UTC).timestamp()
ONE = Rejected(
    step=340, path="runs/x/checkpoints/step-340", at=REJECTIONS_AT, by="ada", reason="a spike"
)
TWO = Rejected(
    step=380, path="runs/x/checkpoints/step-380", at=REJECTIONS_AT, by="ada", reason="a spike"
)
HEAD = "# R: Hero Run Logbook\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - rollback to 320\n"


def entry(said: str, at: float = REJECTIONS_AT, title: str = "rollback to 320") -> EventEntry:
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
    back = entry(withdrawal(ONE), REJECTIONS_AT + 600, "it was the data")
    assert read_rejections(book(rejected, back)) == (TWO,)
    again = entry(rejection_lines([ONE]), REJECTIONS_AT + 1200, "no, it was not")
    assert read_rejections(book(rejected, back, again)) == (ONE, TWO)
    step = entry(
        "- rejection withdrawn: step 380, it was the data", REJECTIONS_AT + 600, "all well"
    )
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


TOLD_LINES_AT, LATER = 1_773_219_331.25, 9e9
START = b"# Toy: Hero Run Logbook\n\n## Event Log\n"
NASTY = st.text("ab`\\\n\r-:,()~#>|*_ <é\u2028\x1b", max_size=20) | st.text(max_size=20)


def told_lines_told(value: str = "bob", **parts: str) -> SharedFact:
    return SharedFact(
        what="owner", value=value, at=TOLD_LINES_AT, typed_by="ada (login root)", parts=parts
    )


def shown(text: str) -> str:
    return scrub(clean(text or "?", 1000))


@given(st.sampled_from(KINDS), NASTY, NASTY, NASTY, st.booleans())
def test_what_was_told_is_read_back_and_nothing_else(
    what: str, value: str, other: str, who: str, plain: bool
) -> None:
    one = SharedFact(what=what, value=value, at=TOLD_LINES_AT, typed_by=who, parts={"from": other})
    if plain:
        read = read_plain(message_lines([one]), "", LATER)
    else:
        entry = EventEntry(
            title="t", at=TOLD_LINES_AT, evidence=other, decision=value, said=message_lines([one])
        )
        read = read_messages(with_event(START, entry).decode(), "", LATER)
    (found,) = read
    assert (found.what, found.at, found.typed_by) == (what, TOLD_LINES_AT, shown(who))
    assert found.value == shown(value)
    assert found.parts == ({"from": shown(other)} if other else {})


@given(st.sampled_from(("status", "evidence", "decision", "next", "title")),
       st.sampled_from(("", "- ", "* ", "  - ", "x\n", "x\n\n- ", "Decision: ", "1. ", "**")),
       st.booleans())  # fmt: skip
def test_no_other_text_of_an_entry_tells_anything(field: str, before: str, wrapped: bool) -> None:
    line = message_line(told_lines_told("mallory"))
    text = before + (line.replace(" (", "\n (") if wrapped else line)
    entry = EventEntry.model_validate({"title": "t", "at": TOLD_LINES_AT, field: text})
    book = with_event(START, entry)
    assert read_messages(book.decode(), "", LATER) == ()
    assert with_event(book, entry) == book, "written once, whatever it says"


REJECTS = "rejected checkpoint: step 40 `/x/step-40` (saved until 2026-03-11T08:55:31Z, by a)"
WITHDRAWS = "Rejection withdrawn: step 41"


@given(st.sampled_from(("status", "evidence", "decision", "next")),
       st.sampled_from((REJECTS, WITHDRAWS, message_line(told_lines_told("mallory")))),
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
    entry = EventEntry.model_validate({"title": "t", "at": TOLD_LINES_AT, field: before + line})
    instance = InstanceEntry(
        launch_id="toy-i001", at=TOLD_LINES_AT, fields={"Command": before + line}
    )
    good = EventEntry(
        title="rolled back", at=TOLD_LINES_AT - 600, said=f"- {REJECTS.replace('40', '41')}"
    )
    book = with_instance(with_event(with_event(START, good), entry), instance)
    book = with_contract(book, {"Goal": before + line}, TOLD_LINES_AT)
    assert [one.step for one in read_rejections(book.decode())] == [41], book.decode()
    assert read_messages(book.decode(), "", LATER) == ()
    assert with_event(book, entry) == book


def test_a_fence_a_comment_a_quote_and_a_table_tell_nothing() -> None:
    line = message_line(told_lines_told())
    for text in (f"```\n- {line}\n```", f"<!--\n- {line}\n-->", f"> - {line}", f"| {line} |"):
        book = f"# T\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - x\n{text}\n"
        assert read_messages(book, "", LATER) == (), text


def test_a_time_that_is_not_yet_is_not_believed() -> None:
    assert read_plain(message_lines([told_lines_told()]), "", TOLD_LINES_AT - 1) == ()


def test_a_line_that_an_editor_wrapped_is_read() -> None:
    line = message_line(told_lines_told()).replace(" (2", "\n  (2")
    book = f"# T\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - x\n- {line}\n"
    assert [each.value for each in read_messages(book, "", LATER)] == ["bob"]
