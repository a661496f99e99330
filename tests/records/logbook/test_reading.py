"""A logbook as it stood at a moment: from git, else by the dates of its entries, else unknown."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.logbook.entry_text import Drafts
from cockpit.records.logbook.reading import book_then, read_logbook, value_of
from cockpit.text.logbook_scan import last_entry_at, read_entries
from cockpit.text.times import read_stamp
from tests.records.remotes import git

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


AT = datetime(2026, 3, 11, 3, 0, tzinfo=UTC).timestamp()
HEAD = "# Run\n\n## Event Log\n\n"


def entry(hour: int, words: str) -> str:
    return f"### 2026-03-11 {hour:02d}:00 UTC - {words}\n\nbody of {words}\n\n"


def commit(folder: Path, at: float) -> None:
    when = f"{int(at)} +0000"
    env = {
        "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "PATH": "/usr/bin:/bin",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b", "HOME": str(folder),
    }  # fmt: skip
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run(("git", *words), cwd=folder, env=env, check=True)


async def test_git_tells_what_was_committed_by_then_and_nothing_later(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    book = folder / "run.md"
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    book.write_text(HEAD + entry(1, "one, as edited later") + entry(2, "two") + entry(4, "four"))
    commit(tmp_path, AT + 3600)
    link = tmp_path / "link.md"
    link.symlink_to(book)
    for path in (book, link):
        found = await book_then(str(path), AT)
        assert found.text == HEAD + entry(1, "one")
        assert found.told.endswith(" of 2026-03-11 02:00:00Z")
    assert "four" in (await book_then(str(book), AT + 7200)).text


async def test_before_the_first_commit_and_without_git_the_dates_tell(tmp_path: Path) -> None:
    book = tmp_path / "run.md"
    book.write_text(
        HEAD + entry(4, "four") + entry(2, "two") + "### no date\n\nundated\n" + entry(1, "one")
    )
    without = await book_then(str(book), AT)
    commit(tmp_path, AT + 60)
    assert await book_then(str(book), AT) == without
    assert "body of two" in without.text and "body of one" in without.text
    assert "four" not in without.text and "undated" not in without.text
    assert without.told.endswith("entries dated by then, 1 without a date left out")


async def test_an_entry_with_a_date_alone_may_be_of_the_end_of_its_day(tmp_path: Path) -> None:
    book = tmp_path / "run.md"
    days = "".join(f"### 2026-03-{day} - of {day}\n\nbody\n\n" for day in (10, 11))
    book.write_text(HEAD + days + "### 02:30 - that night\n\nbody\n")
    found = await book_then(str(book), AT)
    assert "of 10" in found.text and "that night" in found.text and "of 11" not in found.text
    assert "of 11" in (await book_then(str(book), AT + 86400)).text


async def test_a_shallow_clone_does_not_know_what_was_committed_before(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for hour in (1, 4):
        (whole / "run.md").write_text(HEAD + entry(1, f"edited at {hour}"))
        commit(whole, AT + 3600 * (hour - 3))
    git(tmp_path, "clone", "-q", "--depth=1", whole.as_uri(), str(tmp_path / "cut"))
    found = await book_then(str(tmp_path / "cut/run.md"), AT)
    assert found.told == "git cannot tell (a shallow clone): entries dated by then"


@pytest.mark.parametrize("text", ["", "no entry at all\n", HEAD + entry(4, "four")])
async def test_what_nothing_tells_is_unknown(tmp_path: Path, text: str) -> None:
    book = tmp_path / "run.md"
    book.write_text(text)
    found = await book_then(str(book), AT)
    assert found.text == "" and found.told.startswith("unknown: nothing committed by then")
    gone = await book_then(str(tmp_path / "none.md"), AT)
    assert gone == ("", "unknown: no such file or directory")


@pytest.mark.parametrize("name", ["log*.md", ":(top)run.md", "-n.md"])
async def test_a_name_is_no_pattern(name: str, tmp_path: Path) -> None:
    book = tmp_path / name
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    (tmp_path / "log-of-another.md").write_text("another\n")
    commit(tmp_path, AT - 60)
    found = await book_then(str(book), AT)
    assert found.text == HEAD + entry(1, "one")
    assert found.told.endswith(" of 2026-03-11 02:00:00Z")


async def test_a_git_that_cannot_tell_is_not_said_to_have_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "run.md"
    book.write_text(HEAD + entry(1, "one"))
    commit(tmp_path, AT - 3600)
    assert "commit" in (await book_then(str(book), AT)).told
    (tmp_path / ".git/config").write_text("[core\n")
    found = await book_then(str(book), AT)
    assert found.told.startswith("git cannot tell (bad config") and "body of one" in found.text
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert (await book_then(str(book), AT)).told.startswith("git cannot tell (")


def test_a_draft_is_kept_replaced_and_dropped(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "drafts")
    assert drafts.get("run", "event") is None
    drafts.put("run", "event", "half a sen")
    drafts.put("run", "event", "half a sentence\r\n\ttail  ")
    drafts.put("other", "event", "x")
    assert Drafts(tmp_path / "drafts").get("run", "event") == "half a sentence\r\n\ttail  "
    drafts.drop("run", "event")
    drafts.drop("run", "event")
    assert drafts.get("run", "event") is None
    assert drafts.get("other", "event") == "x"


def test_drafts_are_private(tmp_path: Path) -> None:
    Drafts(tmp_path / "a/drafts").put("run", "event", "x")
    folder = tmp_path / "a/drafts"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


@given(st.text(max_size=30), st.text(max_size=30), st.text())
def test_any_name_and_any_text_come_back(
    tmp_path_factory: pytest.TempPathFactory, run: str, kind: str, text: str
) -> None:
    folder = tmp_path_factory.mktemp("drafts")
    drafts = Drafts(folder)
    drafts.put(run, kind, text)
    assert drafts.get(run, kind) == text
    assert [path.parent for path in folder.rglob("*")] == [folder]


def test_what_is_not_a_draft_is_none(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path)
    drafts.put("run", "event", "x")
    (place,) = tmp_path.iterdir()
    for other in ("{", "[]", "{}", "[" * 100_000):
        place.write_text(other)
        assert drafts.get("run", "event") is None
        assert drafts.unfinished("run", "event") is None
    place.unlink()
    place.mkdir()
    assert drafts.get("run", "event") is None


WRITER = """
import sys
from pathlib import Path
from cockpit.records.logbook.entry_text import Drafts
n = 0
while True:
    n += 1
    Drafts(Path(sys.argv[1])).put("run", "event", f"{n} " * 20000)
    if n == 5: print("ready", flush=True)
"""


def test_killed_while_writing_it_leaves_one_whole_draft(tmp_path: Path) -> None:
    for _ in range(5):
        argv = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        words = (Drafts(tmp_path).get("run", "event") or "").split()
        assert len(words) == 20000 and len(set(words)) == 1


def test_what_is_told_of_a_draft_is_not_what_it_says(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path)
    assert drafts.unfinished("run", "event") is None
    drafts.put("run", "event", "a secret thought\n\nand another\n", "ada\x1b[2J")
    found = drafts.unfinished("run", "event")
    assert found is not None and found.by.startswith("ada") and "\x1b" not in found.by
    assert found.lines == 3 and "thought" not in found.words
    os.utime(next(tmp_path.iterdir()), (1773198720.0, 1773198720.0))
    found = drafts.unfinished("run", "event")
    assert found is not None and found.words.endswith(", 3 lines, 2026-03-11 03:12 UTC")
    drafts.put("run", "event", " \n")
    assert drafts.unfinished("run", "event") is None
    drafts.put("run", "event", "one")
    found = drafts.unfinished("run", "event")
    assert found is not None and "by nobody named, 1 line, " in found.words
