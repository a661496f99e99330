from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.git.merging import adds_nothing, merge
from tests.records.remotes import START, entry

TEXT = st.lists(st.sampled_from(["", "a", "b", "- Status: x", "## Event Log"]), max_size=12).map(
    lambda lines: "\n".join(lines).encode()
)
BLOCK = st.builds(
    lambda name, lines: [f"### {name}", *lines],
    st.uuids(),
    st.lists(st.sampled_from(["", "- Status: x", "- Next: y"]), max_size=5),
)


def test_entries_that_share_lines_stay_whole() -> None:
    ours, theirs = entry("ours"), entry("theirs")
    assert merge(START, START + ours, START + theirs) == START + theirs + ours


def test_an_entry_that_is_there_already_is_not_added_again() -> None:
    ours, theirs = entry("ours"), entry("theirs")
    both = START + theirs + ours + entry("later")
    assert merge(START, START + ours, both) == both
    assert adds_nothing(START, START + ours, both)
    assert not adds_nothing(START, START + ours, START + theirs)


def test_newest_first_logbooks_are_merged_at_their_top() -> None:
    old = entry("old")
    merged = merge(START + old, START + entry("a") + old, START + entry("b") + old)
    assert merged == START + entry("b") + entry("a") + old


def test_what_one_side_took_out_stays_out_where_the_other_adds_beside_it() -> None:
    old, last, new = entry("old"), entry("last"), entry("new")
    both = START + old + last
    assert merge(both, both + new, START + old) == START + old + new
    assert merge(both, START + old, both + new) == START + old + new
    assert merge(both, START + new + old + last, START + last) == START + new + last
    edited = both.replace(b"- last", b"- the last")
    assert merge(both, START + old + new + last, edited) == edited.replace(
        entry("the last"), new + entry("the last")
    )


def test_changes_of_different_places_are_both_taken() -> None:
    base = b"- DRI: ada\n- Goal: x\n" + START
    ours = base.replace(b"ada", b"bob") + entry("ours")
    theirs = base.replace(b"Goal: x", b"Goal: y") + entry("theirs")
    merged = merge(base, ours, theirs)
    assert merged.endswith(START + entry("theirs") + entry("ours"))
    assert b"bob" in merged and b"Goal: y" in merged


def test_a_missing_last_line_break_loses_nothing() -> None:
    merged = merge(b"a\nb", b"a\nb\n\n### X\n- s\n", b"a\nb\n\n### Y\n- s\n")
    assert merged.index(b"### Y\n- s\n") < merged.index(b"### X\n- s\n")


@given(TEXT, BLOCK, BLOCK, st.integers(0, 12), st.integers(0, 12))
def test_both_blocks_are_kept_whole_wherever_they_are_put(
    base: bytes, mine: list[str], yours: list[str], one: int, two: int
) -> None:
    lines = base.decode().split("\n")
    one, two = min(one, len(lines)), min(two, len(lines))
    ours = [*lines[:one], *mine, *lines[one:]]
    theirs = [*lines[:two], *yours, *lines[two:]]
    merged = merge(base, "\n".join(ours).encode(), "\n".join(theirs).encode()).decode()
    assert sorted(merged.split("\n")) == sorted([*lines, *mine, *yours])
    for block in (mine, yours):
        assert "\n" + "\n".join(block) + "\n" in f"\n{merged}\n"
    if one == two:
        assert merged.index(yours[0]) < merged.index(mine[0])


@given(TEXT, TEXT, TEXT)
def test_no_line_of_either_side_is_lost(base: bytes, ours: bytes, theirs: bytes) -> None:
    kept = set(merge(base, ours, theirs).split(b"\n"))
    common = set(base.split(b"\n"))
    added = (set(ours.split(b"\n")) | set(theirs.split(b"\n"))) - common
    assert {line for line in added if line.strip()} <= kept


@given(TEXT, TEXT)
def test_one_side_alone_is_taken_as_it_is(base: bytes, other: bytes) -> None:
    assert merge(base, other, base) == other == merge(base, base, other)
    assert merge(base, other, other) == other
