from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.logbook.reading import read_logbook, value_of
from cockpit.text.logbook_scan import last_entry_at, read_entries
from cockpit.text.times import read_stamp

HERO = """\
---
tags: [hero]
status: running
---

# Toy Run: Hero Run Logbook

## Run Contract

- DRI: ada
- **Goal**: learn the toy text
- Stop/escalation criteria: loss > 3, or NaN
- Issue: https://example.org/issues/7
- `W&B`: toy/toy-run
| Output root | /runs/toy |
- Final step: 400
  (resolved from the config)

## Launched Instances

### 2026-01-05 09:00 UTC - toy-run-i001

- Command: `python train.py
    --steps 400`
- Git SHA: 0123abc
- Dirty tree: no

### 2026-01-06 10:30 PST - toy-run-i002

- Git SHA: 4567def

## Event Log

### 2026-01-05 09:10 UTC - started
- Status: RUNNING 1/1
- Evidence: first step at 09:08
#### details
```
### 2026-01-09 00:00 UTC - this is quoted, not an entry
```
- Next: look at 09:25

### 2026-01-06 18:40 UTC - resumed (second try)
- Status: RUNNING
"""


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def test_a_whole_logbook() -> None:
    book = read_logbook(HERO)
    assert book.title == "Toy Run: Hero Run Logbook"
    told = {field.label: field.value for field in book.contract}
    assert told == {
        "DRI": "ada",
        "Goal": "learn the toy text",
        "Stop/escalation criteria": "loss > 3, or NaN",
        "Issue": "https://example.org/issues/7",
        "W&B": "toy/toy-run",
        "Output root": "/runs/toy",
        "Final step": "400\n(resolved from the config)",
    }
    lines = HERO.splitlines()
    assert all(field.label in lines[field.line - 1] for field in book.contract)
    assert book.newest_first is False


def test_instances_are_entries_with_fields() -> None:
    book = read_logbook(HERO)
    first, second = book.instances
    assert (first.entry.title, first.entry.at) == ("toy-run-i001", at(2026, 1, 5, 9))
    assert second.entry.at == at(2026, 1, 6, 18, 30)
    assert value_of(first.fields, "git sha") == "0123abc"
    assert value_of(first.fields, "Command") == "`python train.py\n  --steps 400`"
    assert value_of(first.fields, "Hardware/topology") is None
    lines = HERO.splitlines()
    assert all(field.label in lines[field.line - 1] for field in first.fields)


def test_events_keep_their_text_their_place_and_their_order() -> None:
    book = read_logbook(HERO)
    events = [entry for entry in book.entries if entry.section == "Event Log"]
    assert [entry.title for entry in events] == ["started", "resumed (second try)"]
    assert HERO.splitlines()[events[0].line - 1] == "### 2026-01-05 09:10 UTC - started"
    assert events[0].text in HERO
    assert "quoted" in events[0].text and events[0].text.endswith("09:25")


def test_newest_first_is_seen_and_left_as_it_is() -> None:
    text = "## Event Log\n" + "".join(f"### 2026-01-0{n} 08:00 UTC - day {n}\n" for n in (3, 2, 1))
    book = read_logbook(text)
    assert book.newest_first is True
    assert [entry.title for entry in book.entries] == ["day 3", "day 2", "day 1"]
    assert last_entry_at(book.entries, at(2026, 2, 1)) == at(2026, 1, 3, 8)


def test_one_entry_has_no_direction() -> None:
    assert read_logbook("## Event Log\n### 2026-01-01 08:00 UTC - a\n").newest_first is None


def test_a_day_heading_dates_the_times_below_it() -> None:
    text = (
        "# T\n## 2026-01-03\n### 08:55 UTC — late\nx\n### 9:10 - later\n## Notes\n### 09:20 - ?\n"
    )
    found = [(entry.at, entry.title) for entry in read_entries(text)]
    assert found == [
        (at(2026, 1, 3), ""),
        (at(2026, 1, 3, 8, 55), "late"),
        (at(2026, 1, 3, 9, 10), "later"),
        (None, "09:20 - ?"),
    ]


def test_dated_lines_under_a_section_are_entries_but_not_inside_one() -> None:
    text = """\
## Event Log
- 2026-01-03 08:00 UTC: one
  more of one
* **2026-01-03 09:00** two
### 2026-01-03 10:00 UTC - three
- 2026-01-03 11:00 UTC was seen in the log
"""
    found = [(entry.title, entry.text) for entry in read_entries(text)]
    assert found == [
        ("one", "  more of one"),
        ("two", ""),
        ("three", "- 2026-01-03 11:00 UTC was seen in the log"),
    ]


def test_a_time_after_tomorrow_is_a_slip_of_the_pen() -> None:
    entries = read_entries("### 2062-01-03 10:00 UTC - slip\n### 2026-01-03 10:00 UTC - right\n")
    assert last_entry_at(entries, at(2026, 1, 4)) == at(2026, 1, 3, 10)
    assert last_entry_at((), 0.0) is None


@pytest.mark.parametrize(
    ("text", "when", "rest"),
    [
        ("2026-03-11 08:55 UTC - drop", at(2026, 3, 11, 8, 55), "drop"),
        ("2026-03-11T08:55:30Z drop", at(2026, 3, 11, 8, 55, 30), "drop"),
        ("2026-03-11 08:55 - OOM at 12", at(2026, 3, 11, 8, 55), "OOM at 12"),
        ("2026/03/11, 8:55 PM PST: drop", at(2026, 3, 12, 4, 55), "drop"),
        ("2026-03-11 12:10 AM UTC drop", at(2026, 3, 11, 0, 10), "drop"),
        ("2026-01-11 08:55 PT - drop", at(2026, 1, 11, 16, 55), "drop"),
        ("2026-07-11 08:55 PT - drop", at(2026, 7, 11, 15, 55), "drop"),
        ("2026-03-11 08:55 +0530 drop", at(2026, 3, 11, 3, 25), "drop"),
        ("2026-03-11 08:55 UTC-7 drop", at(2026, 3, 11, 15, 55), "drop"),
        ("2026-03-11 08:55–09:10 CET drop", at(2026, 3, 11, 7, 55), "drop"),
        ("[2026-03-11 08:55] drop (again)", at(2026, 3, 11, 8, 55), "drop (again)"),
        ("drop (2026-03-11)", at(2026, 3, 11), "drop"),
    ],
)
def test_times_as_people_write_them(text: str, when: float, rest: str) -> None:
    stamp = read_stamp(text)
    assert stamp is not None
    assert (stamp.at, stamp.rest) == (when, rest)


@pytest.mark.parametrize(
    "text", ["", "started", "step 2026", "2026-13-45 08:00", "v2026-1", "08:55"]
)
def test_what_is_no_time(text: str) -> None:
    assert read_stamp(text) is None


LINE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["---", "```", "~~~~", "## Run Contract", "### 2026-01-01 08:00 UTC - x", "## "]
    ),
    st.from_regex(r"\A[-*] \w{1,5}: \w{0,5}\Z"),
)


@given(st.lists(LINE, max_size=15).map("\n".join))
def test_no_text_raises_and_entries_stay_in_order(text: str) -> None:
    book = read_logbook(text)
    numbers = [entry.line for entry in book.entries]
    assert numbers == sorted(numbers)


def test_long_lines_cost_little() -> None:
    text = "# " + " " * 200_000 + "x\n- " + "a" * 200_000 + "\n### 2026-01-01 08:00" + " " * 200_000
    assert len(read_logbook(text).entries) == 1
