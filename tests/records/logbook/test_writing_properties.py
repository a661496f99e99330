from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.records.logbook.forms import foreign, normal, one_line
from cockpit.records.logbook.reading import (
    CONTRACT,
    INSTANCE,
    event_of,
    plain,
    read_logbook,
    value_of,
)
from cockpit.records.logbook.style import has_value
from cockpit.records.logbook.writing import (
    preview,
    with_contract,
    with_event,
    with_instance,
    with_text,
)
from cockpit.text.logbook_scan import launched_sha, read_entries, read_page

BOOKS = sorted((Path(__file__).parents[2] / "data" / "logbooks").glob("*.md"))
FIRST = datetime(1971, 1, 1, tzinfo=UTC).timestamp()
LAST = datetime(2099, 1, 1, tzinfo=UTC).timestamp()
SHA = "89abcdef0123456789abcdef0123456789abcdef"

PIECE = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "---",
            "```",
            "~~~~",
            "  ```",
            "<!--",
            "-->",
            "====",
            "-----",
            "Event Log",
            "<details>",
            "</details>",
            "<pre>",
            "> quoted",
            "Send this:",
            "## Heartbeat contract",
            "# T",
            "## Run Contract",
            "## Launched Instances",
            "## Event Log",
            "## Event Log (newest first)",
            "## Notes",
            "### 2026-01-01 08:00 UTC - x",
            "### 2026-01-02 09:00 PST - y",
            "## 2026-01-03",
            "- **2026-01-04 07:00** z",
            "* 2026-01-04T07:00:11Z: z",
            "- DRI: ada",
            "**Goal:** a",
            "| Issue | x\\|y |",
            "|---|---|",
            "- **Status:** ok",
            "* Next - look",
            "  more",
            "    deep",
            "",
            "\t",
            "- ```",
            "1. x",
        ]
    ),
)
ENDS = st.sampled_from(["\n", "\r\n", "\n", "\n\n", "\r"])
LINES = st.lists(st.tuples(PIECE, ENDS), max_size=14).map(
    lambda rows: "".join(text + end for text, end in rows)
)
MARKDOWN = st.tuples(LINES, st.sampled_from(["", "", "tail", "```"])).map("".join)
DATA = st.one_of(
    MARKDOWN.map(lambda text: text.encode("utf-8", "replace")),
    st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf"]), st.binary(max_size=60)).map(b"".join),
    st.tuples(MARKDOWN.map(str.encode), st.binary(max_size=8), MARKDOWN.map(str.encode)).map(
        b"".join
    ),
)
VALUE = st.one_of(st.text(max_size=30), LINES)
EVENT = st.builds(
    EventEntry,
    title=st.one_of(st.text(max_size=20), st.sampled_from(["- x", "`a` -", "8:30 PM", "# a #"])),
    at=st.floats(FIRST, LAST),
    status=VALUE,
    evidence=VALUE,
    decision=VALUE,
    next=VALUE,
)
INSTANCES = st.builds(
    InstanceEntry,
    launch_id=st.sampled_from(["toy-i003", "`/ada/toy-i003`", "i3 (again)"]),
    at=st.floats(FIRST, LAST),
    fields=st.dictionaries(st.sampled_from(INSTANCE), VALUE, max_size=4),
)
CONTRACTS = st.dictionaries(st.sampled_from([*CONTRACT, "Checkpoint policy"]), VALUE, max_size=4)
QUICK = settings(
    max_examples=max(50, settings().max_examples),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
"""Twice as many as other properties get, and as many as are asked for (HYPOTHESIS_PROFILE=long)."""


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def only_inserted(before: bytes, after: bytes) -> bytes:
    """Return what was inserted, and fail if anything else is not as it was."""
    if before == after:
        return b""
    assert len(after) > len(before)
    start = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = len(before) if start is None else start
    more = len(after) - len(before)
    places = range(start, max(-1, start - more) - 1, -1)
    place = next(n for n in places if n >= 0 and after[:n] + after[n + more :] == before)
    return after[place : place + more]


def only_inserted_anywhere(before: bytes, after: bytes) -> bool:
    """Tell whether everything that was there still is, in its order."""
    rest = iter(b"".join(after.split()))  # a table's cell is filled in, not widened
    return all(byte in rest for byte in b"".join(before.split()))


def written(entry: EventEntry) -> tuple[str, ...]:
    fields = (entry.status, entry.evidence, entry.decision, entry.next)
    return (one_line(entry.title), *map(foreign, fields))


@given(DATA, EVENT)
@example(b"* 2026-01-04T07:00:11Z: z\n", EventEntry(title="*", at=FIRST))
@example(b"* 2026-01-04T07:00:11Z: z\n", EventEntry(title="**a** b", at=FIRST))
@QUICK
def test_an_event_is_inserted_read_back_and_written_once(data: bytes, entry: EventEntry) -> None:
    after = with_event(data, entry)
    assert only_inserted(data, after)
    assert with_event(after, entry) == after
    found = [event_of(each) for each in read_logbook(text_of(after)).entries]
    mine = [each for each in found if written(each) == written(entry)]
    assert any(0 <= entry.at - each.at < 60 for each in mine)
    preview(data, entry)


@given(DATA, INSTANCES)
@QUICK
def test_an_instance_is_inserted_and_read_back(data: bytes, entry: InstanceEntry) -> None:
    after = with_instance(data, entry)
    assert only_inserted(data, after)
    assert with_instance(after, entry) == after
    mine = [
        each
        for each in read_logbook(text_of(after)).instances
        if each.entry.title == one_line(entry.launch_id)
    ]
    assert any(
        all((value_of(each.fields, k) or "") == foreign(v) for k, v in entry.fields.items())
        for each in mine
    )


@given(DATA)
@QUICK
def test_the_commit_of_the_newest_instance_is_found(data: bytes) -> None:
    entry = InstanceEntry(launch_id="toy-i9", at=LAST, fields={"Dirty tree": "no", "Git SHA": SHA})
    assert launched_sha(read_entries(text_of(with_instance(data, entry)))) == SHA


@given(DATA, CONTRACTS)
@QUICK
def test_a_contract_is_read_back(data: bytes, values: dict[str, str]) -> None:
    after = with_contract(data, values)
    assert only_inserted_anywhere(data, after)
    contract = read_logbook(text_of(after)).contract
    given = {k: v for k, v in values.items() if normal(v)}
    assert all(has_value(value_of(contract, k) or "", v) for k, v in given.items())
    assert with_contract(after, values) == after
    before = read_logbook(text_of(data))
    kept = {plain(field.label): field.value for field in before.contract}
    told = {plain(field.label): field.value for field in contract}
    mine = set(map(plain, values))
    if before.contract:
        assert {k: v for k, v in told.items() if k not in mine} == {
            k: v for k, v in kept.items() if k not in mine
        }


@given(DATA, MARKDOWN, st.sampled_from(["Event Log", "Launched Instances", "Notes", "\n"]))
@example(b"- **2026-01-04 07:00** z\n", "0\n* 2026-01-04T07:00:11Z: z\n", "Event Log")
@QUICK
def test_a_persons_text_is_inserted_as_it_is(data: bytes, text: str, section: str) -> None:
    after = with_text(data, section, text, LAST)
    only_inserted(data, after)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if after != data:
        assert all(line in text_of(after) for line in lines[1:])
        assert lines[0].strip("# \t") in text_of(after), "its heading may get another level"
    assert with_text(after, section, text, LAST) == after


def outline(data: bytes) -> tuple[Counter[object], Counter[object]]:
    """The headings, and the entries with when and where."""
    text = text_of(data)
    headings = Counter[object]((each.level, each.title) for each in read_page(text).headings)
    return headings, Counter[object](
        (each.at, each.title, each.section) for each in read_entries(text)
    )


@given(DATA, EVENT)
@QUICK
def test_an_event_is_one_entry_more_and_nothing_else(data: bytes, entry: EventEntry) -> None:
    after = with_event(data, entry)
    old, new = outline(data), outline(after)
    assert not old[0] - new[0] and not old[1] - new[1], "all that was there is there"
    assert after == data or (new[1] - old[1]).total() == 1
    assert (new[0] - old[0]).total() <= 2, "its own heading, and that of a section it needs"


@given(DATA, MARKDOWN)
@example(b"---\n## Heartbeat contract\n", "...\n")
@example(b"---\n## Heartbeat contract\n", "a\n\n```\n---\n```\n")
@QUICK
def test_a_persons_text_takes_nothing_in(data: bytes, text: str) -> None:
    old, new = outline(data), outline(with_text(data, "Event Log", text, LAST))
    assert not old[0] - new[0] and not old[1] - new[1]


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    with_contract(data, {"Goal": "x"})
    for at in (0.0, -1.0, float("nan"), float("inf"), 1e300):
        with_event(data, EventEntry(title="\ud800", at=at, status="\udc80\x1b[31m"))


EDITS: list[Callable[[bytes], bytes]] = [
    lambda data: with_event(data, EventEntry(title="new", at=LAST, status="well")),
    lambda data: with_instance(
        data, InstanceEntry(launch_id="i", at=LAST, fields={"Git SHA": SHA})
    ),
    lambda data: with_text(data, "Event Log", "### 2026-09-09 09:09 UTC - hand\n- Status: x"),
    lambda data: with_contract(data, {"Never heard of": "this"}),
]


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("edit", EDITS, ids=["event", "instance", "text", "contract"])
def test_real_looking_logbooks_stay_as_they_are(book: Path, edit: Callable[[bytes], bytes]) -> None:
    data = book.read_bytes()
    after = edit(data)
    assert only_inserted(data, after)
    assert edit(after) == after
    old, new = read_logbook(text_of(data)), read_logbook(text_of(after))
    for entry in old.entries:  # a fence that was left open is closed behind the last one
        same = [each for each in new.entries if (each.at, each.title) == (entry.at, entry.title)]
        assert any(each.text.startswith(entry.text) for each in same)
    assert {each.entry.title for each in old.instances} <= {e.entry.title for e in new.instances}
    assert len(new.instances) - len(old.instances) == (edit is EDITS[1])
