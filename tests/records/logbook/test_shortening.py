"""A long logbook is read in part: what is written is what the whole file would have got."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.records.logbook import book, style
from cockpit.records.logbook.book import KEPT, CutError, MarkdownFile, shortened
from cockpit.records.logbook.writing import with_event, with_instance

T0 = 1_770_000_000.0
FORMS = ("%Y-%m-%d %H:%M UTC", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M PST", "%Y.%m.%d %H:%M")
BODIES = (
    ("", "- Status: well", "- Next: wait"), ("- Status: fine",), ("", "text | a", "> quoted"),
)  # fmt: skip
ODD = (
    ("```", "### 2026-01-02 10:10 UTC - quoted", "```"), ("```python",), ("- ```", "a"),
    ("<pre>",), ("</pre>",), ("-->",), ("<!-- a -->",), ("words", "---"), ("", "---"),
    ("words", "==="), ("#### below",), ("## Other",), ("  ```", "x", "```"), ("~~~", "```", "~~~"),
    ("### 2026-02-31 10:00 UTC - no such day",), ("- 2026-03-03 a dated item",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def short_ones_count_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "LONG", 0)
    monkeypatch.setattr(book, "LEAST", 2 * KEPT + 10)


def written(at: float, form: str = FORMS[0]) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)


def section(title: str, chance: random.Random) -> list[str]:
    """Return a section with many entries, in some order, with some that are odd."""
    lines, at, form = [f"## {title}", ""], T0 + chance.randint(0, 10**6), chance.choice(FORMS)
    falls, level = chance.random() < 0.3, chance.choice((2, 3, 3, 4))
    odd, title = chance.choice((0.0, 0.0, 0.003, 0.02)), chance.choice(("check", "drop"))
    for _ in range(chance.choice((0, 3, 200, 400))):
        at += (-1 if falls else 1) * chance.choice((0, 60, 3600, 7200))
        at += chance.randint(-(10**5), 10**5) if chance.random() < 0.004 else 0
        lines += [f"{'#' * level} {written(at, form)} - {title}", *chance.choice(BODIES)]
        lines += [*(chance.choice(ODD) if chance.random() < odd else ()), ""]
    return lines


def logbook(chance: random.Random) -> bytes:
    lines = ["---", "a: b", chance.choice(("---", "x"))] if chance.random() < 0.2 else []
    lines += ["# Run: x", ""]
    lines += ["<!-- a form", chance.choice(("-->", "no end")), ""] if chance.random() < 0.2 else []
    titles = ["Event Log", "Launched Instances", "Notes", "Timeline"]
    for title in chance.sample(titles, chance.randint(1, 3)):
        lines += section(title, chance)
    return "\n".join(lines).encode()


def times(data: bytes, chance: random.Random) -> Sequence[float]:
    """Return times around the book's, among them one of an entry that it has."""
    own = [entry.at for entry in MarkdownFile(data).entries if entry.at is not None]
    return [T0 + chance.randint(0, 2 * 10**6), *(chance.sample(own, 1) if own else [])]


@pytest.mark.parametrize("first", range(0, 600 if os.environ.get("SOAK") else 20, 10))
def test_what_is_written_is_what_the_whole_file_would_have_got(first: int) -> None:
    cut = 0
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        data = logbook(chance)
        for at in times(data, chance):
            event = EventEntry(title="check", at=at, status="well", next="wait")
            launch = InstanceEntry(launch_id="x-i001", at=at, fields={"Command": "train"})
            short = with_event(data, event), with_instance(data, launch)
            cut += len(MarkdownFile(data, at).text) < len(MarkdownFile(data).text)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(book, "LONG", len(data) + 1)
                assert short == (with_event(data, event), with_instance(data, launch)), seed
    assert cut, "or this has shown nothing"


def plain(count: int, *, between: str = "", form: str = FORMS[0]) -> bytes:
    """Return a logbook with an entry an hour; ``between`` stands in the middle."""
    entries = [
        f"### {written(T0 + 3600 * n, form)} - check\n\n- Status: well\n" for n in range(count)
    ]
    entries.insert(count // 2, between)
    return ("# Run: x\n\n## Event Log\n\n" + "\n".join(entries)).encode()


def test_of_a_long_run_of_entries_only_its_ends_are_read() -> None:
    assert KEPT > style._SAMPLE, "the style is taken from these"
    book = MarkdownFile(plain(5000), T0 + 10**9)
    assert len(book.entries) == 2 * KEPT + 1
    fenced = "".join(f"```\n### not one {n}\n```\n" for n in range(3))
    assert len(MarkdownFile(plain(5000, between=fenced), T0 + 10**9).entries) == 2 * KEPT + 1


def test_an_entry_that_is_there_is_found_in_the_middle() -> None:
    data = plain(2000)
    event = EventEntry(title="check", at=T0 + 3600 * 1000, status="well")
    assert with_event(data, event) == data
    assert with_event(data, event.model_copy(update={"status": "ill"})) != data


@pytest.mark.parametrize(
    "between",
    [
        "<!--\n",
        "```\n",
        "- ```\n  x\n",
        "<PRE>\n",
        "<?php\n",
        "## Appendix\n",
        "Title\n===\n",
        "~~~\n",
    ],
)
def test_a_run_ends_at_whatever_may_be_more_than_a_line_of_an_entry(between: str) -> None:
    _, cuts = shortened(plain(1000, between=between).decode(), T0 + 10**9)
    assert len(cuts) == 2 and not any(between in cut.text for cut in cuts)


def test_what_was_left_out_within_a_comment_is_read_after_all() -> None:
    data = b"<!--\n" + plain(1000, between="-->\n")
    event = EventEntry(title="check", at=T0 + 10**8, status="well")
    book = MarkdownFile(data, event.at)
    with pytest.raises(CutError):
        book.fit()
    assert with_event(data, event).index(b"- Status: well\n", len(data) - 60) > 0


@pytest.mark.parametrize("end", ["-->\n", "- Evidence: `x --> y`\n"])
def test_a_comment_that_ended_in_what_was_left_out_hides_no_section(end: str) -> None:
    """What is read of the file is one comment: no section is seen that could be another one."""
    data = b"<!--\n" + plain(1000, between=end)
    event = EventEntry(title="check", at=T0 + 10**8, status="well")
    launch = InstanceEntry(launch_id="x-i001", at=event.at, fields={"Command": "train"})
    for done in (with_event(data, event), with_instance(data, launch)):
        assert done.count(b"-->") == 1, "nothing is open at the end of the whole file"
    assert with_event(data, event).count(b"## Event Log") == 1
    there = event.model_copy(update={"at": T0 + 3600 * 999})
    assert with_event(data, there) == data


def test_an_order_that_its_ends_do_not_show_is_read_after_all() -> None:
    """The entries at both ends rise, and those between fall: they are many more."""
    rising = [T0 + 60 * n for n in range(5)]
    falling = [T0 + 10**7 - 3600 * n for n in range(1000)]
    text = "\n".join(f"### {written(at)} - check\n" for at in (*rising, *falling))
    data = f"# Run: x\n\n## Event Log\n\n{text}".encode()
    event = EventEntry(title="new", at=T0 + 10**8, status="well")
    done = with_event(data, event)
    assert done.index(b"- new") < done.index(b"- check"), "newest first"


def test_strange_times_are_no_reason_to_fail() -> None:
    for at in (float("inf"), -1e18, 1e18):
        assert MarkdownFile(plain(1000), at).entries
