"""Foreign text in Markdown: shown as written, no structure of its own, and it calls nobody."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    Phase,
    Tasks,
    TrackerValue,
)
from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RecordsSpec, RunSpec, WandbSpec
from cockpit.records.issue.service import MOST_LINES, block, code, fields, person, prose
from cockpit.records.logbook.book import MarkdownFile, events_place, instances_place
from cockpit.records.logbook.entry_text import prefill
from cockpit.records.logbook.reading import event_of, read_logbook, value_of
from cockpit.records.logbook.writing import (
    new_logbook,
    preview,
    with_contract,
    with_event,
    with_instance,
    with_text,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from tests.growing import grows_with_its_size

BOOKS = Path(__file__).parents[2] / "data" / "logbooks"
AT = datetime(2026, 7, 5, 2, 42, 25, tzinfo=UTC).timestamp()
EVENT = EventEntry(
    title="throughput drop",
    at=AT,
    status="RUNNING 4/4",
    evidence="0.83M tok/s\nfor 3 checks",
    next="check again",
)
INSTANCE = InstanceEntry(launch_id="run-i009", at=AT, fields={"Git SHA": "89abcdef"})


def book(name: str) -> bytes:
    return (BOOKS / f"{name}.md").read_bytes()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        (
            "spec_template",
            "### 2026-07-05 02:42 UTC - throughput drop\n- Status: RUNNING 4/4\n"
            "- Evidence: 0.83M tok/s\n  for 3 checks\n- Next: check again",
        ),
        (
            "front_matter_pacific",
            "### 2026-07-04 19:42 PDT — throughput drop\n\n**Status:** RUNNING 4/4  \n"
            "**Evidence:** 0.83M tok/s  \n    for 3 checks  \n**Next:** check again",
        ),
        (
            "newest_first_table",
            "### 2026-07-05T04:42:25+02:00: throughput drop\n\n* **What happened** - RUNNING 4/4\n"
            "* **What we saw** - 0.83M tok/s\n  for 3 checks\n* **Next steps** - check again",
        ),
        (
            "dated_bullets",
            "- **2026-07-05 04:42 CEST** — throughput drop\n  - Status: RUNNING 4/4\n"
            "  - Evidence: 0.83M tok/s\n    for 3 checks\n  - Next: check again",
        ),
        (
            "windows",
            "### 2026-07-04 10:42 PM EDT - throughput drop\n\n- Status: RUNNING 4/4\n"
            "- Evidence: 0.83M tok/s\n  for 3 checks\n- Next: check again",
        ),
        (
            "day_headings",
            "## 2026-07-05 02:42 UTC - throughput drop\n\n- Status: RUNNING 4/4\n"
            "- Evidence: 0.83M tok/s\n  for 3 checks\n- Next: check again",
        ),
    ],
)
def test_an_entry_looks_like_those_of_its_file(name: str, entry: str) -> None:
    data = book(name)
    assert preview(data, EVENT) == entry
    end = "\r\n" if b"\r\n" in data else "\n"
    assert entry.replace("\n", end) in with_event(data, EVENT).decode()


def test_each_section_has_its_own_order() -> None:
    data = book("both_orders")
    places = (events_place(MarkdownFile(data)), instances_place(MarkdownFile(data)))
    assert [place and place.newest_first for place in places] == [False, True]
    after = with_instance(with_event(data, EVENT), INSTANCE).decode()
    assert after.index("run-i009") < after.index("twofold-i003")
    assert after.index("resumed") < after.index("throughput drop")
    newest = with_event(book("newest_first_table"), EVENT).decode()
    assert newest.index("Newest first.") < newest.index("throughput drop") < newest.index(": crash")


def test_an_entry_stays_before_the_rule_and_the_section_that_follow() -> None:
    after = with_event(book("front_matter_pacific"), EVENT).decode()
    assert after.index("ask the cluster") < after.index("throughput drop") < after.index("## Links")


def test_what_is_quoted_or_open_never_swallows_an_entry() -> None:
    for name in ("open_fence", "comments", "bytes"):
        found = read_logbook(with_event(book(name), EVENT).decode("utf-8", "replace")).entries
        assert event_of(found[-1]).evidence == EVENT.evidence, name
    assert b"never written\n```\n\n### 2026-07-05" in with_event(book("open_fence"), EVENT)


def test_end_lines_byte_order_mark_and_foreign_bytes_are_kept() -> None:
    data = book("windows")
    after = with_event(data, EVENT)
    assert after.startswith(data + b"\r\n") and b"\n" not in after.replace(b"\r\n", b"")
    assert MarkdownFile(data).text.startswith("\ufeff") and MarkdownFile(data).newline(1) == "\r\n"
    odd = book("bytes")
    assert b"- Goal: survive \xff\xfe and \x00 and \xc3\x28\n" in with_event(odd, EVENT)


def test_a_contract_value_is_filled_in_or_added_beside_what_stands_there() -> None:
    table = with_contract(
        book("newest_first_table"), {"issue": "https://example.org/7", "Seed": "1"}
    )
    text = table.decode()
    assert "| Issue                    | https://example.org/7     |\n" in text
    assert (
        "| Output root              | /mnt/grid                 |\n| Seed                     | 1"
        in text
    )
    assert "| Goal                     | loss < 2.0 \\| or a reason |" in text
    bold = with_contract(
        book("front_matter_pacific"), {"Goal": "one\ntwo", "W&B": "x"}, AT
    ).decode()
    added = "**Goal (since 2026-07-05):** one  \n    two"
    assert f"**Goal:** a model that\n    speaks plainly\n\n{added}\n\n**Issue:**" in bold
    assert "s3://bold/out`\n\n**W&B:** x\n\n## Launches" in bold, "never one paragraph"
    plain = with_contract(book("spec_template"), {"Issue": "https://example.org/7"}).decode()
    assert "- Issue: https://example.org/7\n- W&B" in plain
    assert len(plain) == len(book("spec_template")) + len(" https://example.org/7")


def test_missing_sections_are_made_where_the_template_has_them() -> None:
    data = with_event(b"# r: Hero Run Logbook\n", EVENT)
    data = with_contract(with_instance(data, INSTANCE), {"DRI": "ada"})
    heads = [line for line in data.decode().splitlines() if line.startswith("## ")]
    assert heads == ["## Run Contract", "## Launched Instances", "## Event Log"]


def test_an_entry_that_differs_in_one_word_is_another_entry() -> None:
    data = with_event(book("spec_template"), EVENT)
    again = with_event(data, EVENT.model_copy(update={"decision": "wait"}))
    later = with_event(data, EVENT.model_copy(update={"at": AT + 60}))
    assert data not in (again, later)


def test_a_persons_text_is_not_touched() -> None:
    text = "### 2026-07-05 01:00 UTC - by hand\n\n  odd   spacing\t\n- Status: *fine*\n"
    after = with_text(book("spec_template"), "Event Log", text)
    assert text.encode() in after
    assert with_text(after, "Event Log", text) == after
    crlf = with_text(book("windows"), "Event Log", text)
    assert text.replace("\n", "\r\n").encode() in crlf
    assert with_text(after, "event log", " \n") == after


def test_a_heading_put_into_a_list_takes_none_of_its_bullets() -> None:
    data = b"## Log\n- 2026-01-02: b\n- 2026-01-01: a\n"
    after = with_text(data, "Log", "### 2026-01-03 - c\n- Status: x")
    assert after.startswith(data)


def test_a_new_logbook_is_the_template_filled_in() -> None:
    run = RunSpec(
        name="toy",
        dri="ada",
        goal="learn",
        final_step=400,
        final_step_source="config.json",
        output_root="/runs/toy",
        wandb=WandbSpec(entity="e", project="p", id="toy"),
        records=RecordsSpec(issue="https://example.org/7"),
    )
    data = new_logbook(run, {"Goal": "learn the text", "Checkpoint policy": "keep 10"})
    contract = read_logbook(data.decode()).contract
    assert {field.label: field.value for field in contract} == {
        "DRI": "ada",
        "Goal": "learn the text",
        "Stop/escalation criteria": "",
        "Issue": "https://example.org/7",
        "W&B": "e/p/toy",
        "Output root": "`/runs/toy`",
        "Final step": "400, from config.json",
        "Checkpoint policy": "keep 10",
    }
    whole = with_event(with_instance(data, INSTANCE), EVENT).decode()
    assert "## Launched Instances\n\n### 2026-07-05 02:42 UTC - run-i009\n- Git SHA" in whole
    assert whole.index("run-i009") < whole.index("## Event Log") < whole.index("throughput drop")


@pytest.mark.parametrize("zone", ["IST", "CST", "XYZ", ""])
def test_a_zone_that_is_not_certain_becomes_utc_in_words(zone: str) -> None:
    data = f"## Event Log\n### 2026-07-05 08:00 {zone} - a\n- Status: b\n".replace("  ", " ")
    assert preview(data.encode(), EVENT).startswith("### 2026-07-05 02:42 UTC - throughput")


@pytest.mark.parametrize(
    ("zone", "written"),
    [
        ("+0530", "2026-07-05 08:12 +0530"),
        ("Z", "2026-07-05 02:42 Z"),
        ("PT", "2026-07-04 19:42 PT"),
        ("America/Los_Angeles", "2026-07-04 19:42 America/Los_Angeles"),
        ("(JST)", "2026-07-05 11:42 (JST)"),
        ("UTC-7", "2026-07-04 19:42 UTC-7"),
    ],
)
def test_times_are_written_in_the_zone_of_the_file(zone: str, written: str) -> None:
    data = f"## Event Log\n### 2026-07-05 08:00 {zone} - a\n- Status: b\n".encode()
    assert preview(data, EVENT).startswith(f"### {written} - throughput drop\n")
    entry = read_logbook(with_event(data, EVENT).decode()).entries[-1]
    assert entry.at == AT - 25 and entry.title == "throughput drop"


def test_an_hour_that_comes_twice_is_written_in_utc() -> None:
    data = b"## Event Log\n### 2026-10-31 08:00 PT - a\n- Status: b\n"
    first = datetime(2026, 11, 1, 8, 30, tzinfo=UTC).timestamp()
    assert "### 2026-11-01 01:30 PT" in preview(data, EVENT.model_copy(update={"at": first}))
    second = EVENT.model_copy(update={"at": first + 3600})
    assert "### 2026-11-01 09:30 UTC" in preview(data, second)


def test_a_secret_is_masked_once_more() -> None:
    token = "hf_" + "abcdefghijklmnopqrstuvwxyz01234567"
    after = with_instance(b"", INSTANCE.model_copy(update={"fields": {"Command": f"x {token}"}}))
    assert token.encode() not in after
    instance = read_logbook(after.decode()).instances[0]
    assert (value_of(instance.fields, "command") or "").startswith("x ")


def test_its_cost_grows_with_the_logbook() -> None:
    entry = (
        "### 2026-01-01 08:{:02} UTC - check\n- Status: RUNNING\n- Evidence: {}\n- Next: look\n\n"
    )

    def of(entries: int) -> bytes:
        body = "".join(entry.format(n % 60, "0.83M tok/s " * 25) for n in range(entries))
        return f"# R\n\n## Event Log\n\n{body}".encode()

    books = {entries: of(entries) for entries in (500, 4_000)}
    assert len(with_event(books[4_000], EVENT)) > len(books[4_000])
    assert grows_with_its_size(lambda size: with_event(books[size], EVENT), 4_000)


NOW = datetime(2026, 3, 11, 8, 55, tzinfo=UTC).timestamp()
JOB = JobValue(id="7", state="RUNNING", phase=Phase.RUNNING, tasks=Tasks(running=4, total=4))
SEEN = TrackerValue(
    id="x",
    state="running",
    loss=2.314,
    throughput=830_000.0,
    throughput_unit="tok/s",
    last_step_at=NOW - 31,
)
SAVED = Checkpoint(
    step=46000,
    name_step=46000,
    path="/c/46000",
    root="/c",
    state=CheckpointState.COMPLETE,
    saved_at=NOW - 240,
)
SLOW = Alert(
    id="C-05",
    key="C-05",
    severity=Severity.ALERT,
    title="throughput −31 %",
    since=NOW - 2700,
    evidence=(Evidence(text="0.83M tok/s against 1.20M for 3 checks", source="W&B"),),
    confidence="sure",
    next_action="look at worker 3; key hf_abcdefghijklmnopqrstuvwxyz0123456789",
)


def report(**changes: Any) -> RunReport:
    facets = Facets(
        job=known(JOB, "iris", NOW),
        tracker=known(SEEN, "W&B", NOW),
        checkpoints=known(CheckpointsValue(latest_complete=46000, items=(SAVED,)), "/c", NOW),
    )
    plain: dict[str, Any] = {
        "spec": RunSpec(name="r"),
        "checked_at": NOW,
        "verdict": Verdict.HEALTHY,
        "facets": facets,
        "progress": Progress(
            step=46012, final_step=119209, final_step_source="config", text="~46012/119209"
        ),
        "next_action": "nothing",
        "next_check_at": NOW + 600,
    }
    return RunReport(**{**plain, **changes})


def test_a_healthy_run_says_what_is_observed_and_how_old_it_is() -> None:
    entry = prefill(report(), "check", NOW)
    assert entry.status == "RUNNING 4/4, ~46,012/119,209, loss 2.314"
    assert entry.evidence.splitlines() == [
        "loss 2.314, 830k tok/s (W&B, 08:54 UTC)",
        "newest complete checkpoint 46,000 (/c, 08:51 UTC)",
    ]
    assert (entry.decision, entry.next) == ("", "check again 09:05 UTC")
    assert (entry.title, entry.at) == ("check", NOW)


def test_an_alert_gives_its_evidence_and_the_next_action_without_secrets() -> None:
    entry = prefill(
        report(alerts=(SLOW,), next_action=SLOW.next_action), "throughput \x1b[31mdrop", NOW
    )
    assert entry.evidence.splitlines() == [
        "throughput −31 %, since 08:10 UTC (certain)",
        "0.83M tok/s against 1.20M for 3 checks (W&B, 08:55 UTC)",
    ]
    assert entry.next.startswith("look at worker 3") and "hf_abc" not in entry.next
    assert entry.title == "throughput drop"


def test_what_is_unknown_is_said_to_be() -> None:
    facets = Facets(job=unknown(ErrorKind.TIMEOUT, "no answer within 5 s", "iris", NOW - 60))
    entry = prefill(report(facets=facets), "check", NOW)
    assert entry.status == "job state unknown since 08:54 UTC, ~46,012/119,209"
    assert "job unknown since 08:54 UTC: no answer within 5 s (iris)" in entry.evidence
    assert with_event(b"", entry)


RENDER = MarkdownIt("gfm-like", {"html": True, "linkify": False})
CALLS = re.compile(r"@[\w-]|#\d|GH-\d", re.IGNORECASE)
HOSTILE = [
    "@everyone", "see #12 and owner/repo#12 and GH-7", "<!-- cockpit:0 -->", "<img src=x>",
    "`", "``` \n@ada", "~~~\n# heading", "- item", "1. item", "# title", "> quote", "---", "+ x",
    "a | b\n--|--", "![x](http://e)", "[x]: http://e", "&#64;ada", "&lt;b&gt;", "\\@ada", "*b*",
    "__b__", "~~x~~", "$x$", "\x1b[31mred\x1b[0m", "a\u202eb", "=====", "    code", "\\", "`` ` ``",
]  # fmt: skip
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*HOSTILE, "\n", " ", "word"]), max_size=6).map("".join),
)


def tokens(text: str) -> list[Token]:
    return RENDER.parse(text)


def visible(text: str) -> str:
    """What is text on the page: not code, not a hidden part."""
    children = (child for token in tokens(text) for child in token.children or ())
    return "\n".join(child.content for child in children if child.type == "text")


def shape(text: str) -> list[str]:
    kinds = [token.type for token in tokens(text)]
    inner = [child.type for token in tokens(text) for child in token.children or ()]
    return kinds + [kind for kind in inner if kind not in ("text", "text_special")]


@given(texts)
@example("@ada #1")
def test_prose_adds_no_structure_and_calls_nobody(text: str) -> None:
    written = fields([("Goal", prose(text)), ("Next", prose("x"))])
    assert shape(written) == shape(fields([("Goal", prose("word")), ("Next", prose("x"))]))
    assert not CALLS.search(visible(written))
    assert "\n" not in prose(text)


@given(texts)
def test_prose_alone_on_a_line_is_a_paragraph(text: str) -> None:
    assert shape(prose(text)) == shape("word")


@given(texts)
def test_prose_shows_what_was_written(text: str) -> None:
    shown = "".join(
        child.content for token in tokens(prose(text)) for child in token.children or ()
    )
    wanted = scrub(clean(text, 2000)) or "unknown"
    assert shown.replace("\u200b", "") == wanted.replace("\u200b", "")


@given(texts)
def test_code_cannot_be_left(text: str) -> None:
    written = f"- Path: {code(text)} and more"
    inner = [child for token in tokens(written) for child in token.children or ()]
    wanted = scrub(clean(text, 1000))
    if wanted:
        assert [child.type for child in inner] == ["text", "code_inline", "text"]
        assert inner[1].content.strip() == wanted.strip()
    assert not CALLS.search(visible(written))


@given(st.lists(texts, max_size=5))
def test_a_block_cannot_be_closed(lines: list[str]) -> None:
    written = f"{block(lines)}\n\nafter"
    kinds = [token.type for token in tokens(written)]
    assert kinds == ["fence", "paragraph_open", "inline", "paragraph_close"]


def test_a_block_keeps_the_newest_lines() -> None:
    shown = block([f"line {number}" for number in range(MOST_LINES + 40)])
    assert "… 40 lines before" in shown and f"line {MOST_LINES + 39}" in shown
    assert "line 39\n" not in shown


@pytest.mark.parametrize(
    ("name", "called"),
    [("@ada", True), ("@org/team", True), ("ada", False), ("@ada @bob", False), ("@-x", False)],
)
def test_only_a_login_written_as_one_is_called(name: str, called: bool) -> None:
    assert bool(CALLS.search(visible(person(name, call=True)))) is called
    assert not CALLS.search(visible(person(name)))


def test_secrets_are_masked_everywhere() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    for written in (prose(secret), code(f"X={secret}"), block(["x", secret])):
        assert secret not in written and "****" in written.replace("\\", "")
