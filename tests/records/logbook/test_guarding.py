"""Text that somebody typed stays text, in whatever file it lands (SPEC L)."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.model.records import EventEntry
from cockpit.records.logbook.forms import FieldForm
from cockpit.records.logbook.reading import guarded, read_logbook, unguarded, value_of
from cockpit.records.logbook.writing import with_contract, with_event, with_text
from cockpit.text.logbook_scan import Blocks, read_entries, read_page

AT = 1_773_219_331.0
LATER = "### 2026-03-11 10:00 UTC - later"
BOOK = f"""# Toy: Hero Run Logbook

## Run Contract

- DRI: ada
- Final step: about 1000, ask ada
- Issue:

## Heartbeat contract

Every 15 minutes send this:

```
curl -d "Issue: none" x
```

## Event Log (newest first)

{LATER}
- Status: well
""".encode()
LINE = st.sampled_from(
    ["## x", "#", "---", "-", "===", "```", "~~~~", "<!--", "<details>", "<pre>", "\\## x", "x",
     "", "- ```", "- # x", "> x", "| a | b |", "    ## x", "\\\\---", "<script>", "</details>"]
)  # fmt: skip


@given(st.lists(LINE, max_size=7))
@example(["```", "\\## x", "```"])
@settings(deadline=None)
def test_guarded_lines_are_read_back_and_open_nothing(lines: list[str]) -> None:
    kept = guarded(["label:", *lines], 1)
    blocks, quoted = Blocks(), []
    for line in kept:
        assert not blocks.take(line), "no heading"
        quoted.append(blocks.quoted)
    assert not blocks.open
    plain = [
        line if code else unguarded(line) for line, code in zip(kept[1:], quoted[1:], strict=True)
    ]
    assert [line.rstrip() for line in plain] == [line.rstrip() for line in lines]


@pytest.mark.parametrize("typed", ["## Notes", "text\n---", "text\n===", "```\nopen", "<!-- x",
                                   "<details>\nx", "<pre>\nx", "---\ntitle: x\n---"])  # fmt: skip
@pytest.mark.parametrize("field", ["status", "evidence", "decision", "next", "text"])
def test_what_a_person_types_swallows_nothing(typed: str, field: str) -> None:
    if field == "text":
        after = with_text(BOOK, "Event Log", f"{typed}\n- Status: fine", AT)
    else:
        entry = EventEntry.model_validate({"title": "note", "at": AT, field: f"seen\n{typed}"})
        after = with_event(BOOK, entry)
        titles = [each.title for each in read_entries(after.decode())]
        assert titles.count("note") == 1
        assert with_event(after, entry) == after
    page = read_page(after.decode())
    assert [each.title for each in page.headings if each.level == 2] == [
        "Run Contract", "Heartbeat contract", "Event Log (newest first)",
    ]  # fmt: skip
    newest, later = read_entries(after.decode())
    assert newest.section == later.section and later.text == "- Status: well"
    assert "2026-03-11 08:55 UTC" in after.decode(), "dated as this file dates its headings"


def test_a_contract_takes_its_own_fields_alone_and_keeps_what_stands_there() -> None:
    values = {"Final step": "2000", "Issue": "https://github.com/o/r/issues/7", "W&B": "a/b/c"}
    after = with_contract(BOOK, values, AT).decode()
    assert (
        after.split("## Heartbeat contract")[1] == BOOK.decode().split("## Heartbeat contract")[1]
    )
    contract = after.split("## Heartbeat")[0].split("## Run Contract\n\n")[1]
    assert contract == (
        "- DRI: ada\n- Final step: about 1000, ask ada\n- Final step (since 2026-03-11): 2000\n"
        "- Issue: https://github.com/o/r/issues/7\n- W&B: a/b/c\n\n"
    )
    fields = read_logbook(after).contract
    assert {name: value_of(fields, name) for name in values} == values
    assert with_contract(after.encode(), values, AT + 86400).decode() == after


@pytest.mark.parametrize(
    "title", ["## run contract", "### RUN-CONTRACT", "## 1. Run Contract:", "## Run Contract (v2)",
              "# Run Contract", "## The RunContract", "Run Contract\n------------"],
)  # fmt: skip
def test_the_run_contract_is_found_however_it_is_written(title: str) -> None:
    book = f"Toy\n===\n\n{title}\n\n- DRI: ada\n\n## Heartbeat contract\n\nHow:\n".encode()
    after = with_contract(book, {"Goal": "win"}).decode()
    assert after.count("ontract") == book.decode().count("ontract")
    assert "- DRI: ada\n- Goal: win\n\n## Heartbeat contract" in after


@pytest.mark.parametrize("title", ["Heartbeat contract", "Data contract", "Contract tests"])
def test_another_contract_is_left_alone(title: str) -> None:
    book = f"# Toy\n\n## {title}\n\nSend this:\n\n```\nx\n```\n\n## Event Log\n"
    after = with_contract(book.encode(), {"Goal": "win"}).decode()
    assert "Send this:\n\n```\nx\n```\n\n## Run Contract\n\n- Goal: win\n\n## Event Log" in after


def test_a_new_section_never_goes_above_the_title_nor_takes_entries_in() -> None:
    for book in ("## Event Log\n\n### 2026-03-11 08:00 UTC - a\n- Status: x\n\n# Toy\n\nwords\n",
                 "# Toy\n\n### 2026-03-11 08:00 UTC - a\n- Status: x\n",
                 "Toy\n===\n\n- 2026-03-11 08:00 UTC: a\n"):  # fmt: skip
        after = with_contract(book.encode(), {"Goal": "win"}).decode()
        assert after.startswith(book.rstrip()) and after.endswith("Run Contract\n\n- Goal: win\n")


def test_fields_without_bullets_never_become_one_paragraph() -> None:
    lines = [
        *FieldForm(bullet="", opening="**", ending="**").write("Status", "a\nb"),
        "**Next:** x",
    ]
    assert lines == ["**Status:** a  ", "    b  ", "**Next:** x"]
