"""Framing: whole records only, whatever is cut, zeroed or flipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.wandb.file import (
    BLOCK,
    MAGIC,
    LogChunk,
    NotWandbError,
    WandbFile,
    deframe,
    started,
)
from tests.sources.wandb import writer

RECORDS = [bytes([index % 251]) * (37 * index % 1500 + 1) for index in range(300)]
RECORDS[100] = b"L" * (3 * BLOCK + 11)
RECORDS[101] = b""
WHOLE = writer.log(RECORDS)


def payloads(piece: LogChunk) -> list[bytes]:
    return [buffer[start:end] for buffer, start, end in piece.spans]


def body(data: bytes) -> LogChunk:
    return deframe(data[len(MAGIC) :], len(MAGIC))


def on_disk(folder: Path, data: bytes) -> Path:
    path = folder / "run-x.wandb"
    path.write_bytes(data)
    return path


def read_all(path: Path, budget: int = 50_000) -> tuple[list[bytes], int, int]:
    """Everything that can be read from the start: payloads, last offset, skipped blocks."""
    found: list[bytes] = []
    offset = skipped = 0
    with WandbFile(str(path)) as log:
        while True:
            piece = log.read(offset, budget)
            found += payloads(piece)
            skipped += piece.skipped
            if piece.offset <= max(offset, len(MAGIC)):
                return found, piece.offset, skipped
            offset = piece.offset


def test_all_records_come_back() -> None:
    piece = body(WHOLE)
    assert payloads(piece) == RECORDS
    assert (piece.offset, piece.skipped) == (len(WHOLE), 0)


@given(cut=st.integers(len(MAGIC), len(WHOLE)))
def test_a_cut_file_gives_its_whole_records_and_goes_on_where_it_stopped(cut: int) -> None:
    before = body(WHOLE[:cut])
    after = deframe(WHOLE[before.offset :], before.offset)
    assert payloads(before) + payloads(after) == RECORDS
    assert before.skipped == after.skipped == 0


@given(block=st.integers(1, len(WHOLE) // BLOCK))
def test_reading_can_begin_at_any_block(block: int) -> None:
    piece = deframe(WHOLE[block * BLOCK :], block * BLOCK)
    found = payloads(piece)
    assert found == RECORDS[len(RECORDS) - len(found) :]
    assert piece.skipped == 0


@given(budget=st.integers(1, 2 * BLOCK))
def test_any_budget_gives_the_same_records(tmp_path: Path, budget: int) -> None:
    path = on_disk(tmp_path, WHOLE)
    assert read_all(path, budget) == (RECORDS, len(WHOLE), 0)


@given(at=st.integers(len(MAGIC), len(WHOLE) - 1), value=st.integers(1, 255))
def test_a_flipped_byte_costs_no_more_than_its_block(tmp_path: Path, at: int, value: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= value
    path = on_disk(tmp_path, bytes(damaged))
    found, offset, skipped = read_all(path)
    in_last_block = at // BLOCK == (len(WHOLE) - 1) // BLOCK
    padding = found == RECORDS
    assert padding or skipped == (0 if in_last_block else 1)
    assert padding or (offset < len(WHOLE)) == in_last_block
    first = [index for index, payload in enumerate(RECORDS) if payload not in found]
    assert len(first) <= BLOCK // 8


def unwanted(data: bytes, start: int, end: int) -> object:
    return True if start < end and data[start] % 3 else None


@given(at=st.integers(len(MAGIC), len(WHOLE) - 1), value=st.integers(1, 255))
def test_beside_what_is_passed_unread_the_others_come_as_they_were_written(
    at: int, value: int
) -> None:
    wanted = [each for each in RECORDS if not unwanted(each, 0, len(each))]
    damaged = bytearray(WHOLE)
    damaged[at] ^= value
    for data, most in ((WHOLE, 0), (damaged, 1)):
        piece = deframe(bytes(data[len(MAGIC) :]), len(MAGIC), passed=unwanted)
        found = [each for each in payloads(piece) if not unwanted(each, 0, len(each))]
        left = iter(wanted)
        assert all(each in left for each in found), "each of them is one, in order"
        assert piece.skipped <= most and len(wanted) - len(found) <= most * BLOCK // 8
    assert len(piece.spans) <= len(RECORDS) / 2, "the passed ones that lie within a block are not"


def test_a_byte_within_what_is_passed_costs_nothing() -> None:
    small = [bytes([kind]) * 50 for kind in (3, 4, 6)]
    damaged = bytearray(writer.log(small))
    damaged[damaged.index(small[1]) + 30] ^= 1
    piece = deframe(bytes(damaged[len(MAGIC) :]), len(MAGIC), passed=unwanted)
    assert (payloads(piece), piece.skipped) == ([small[0], small[2]], 0)


def test_a_damaged_block_in_the_middle_is_skipped_and_counted(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[2 * BLOCK + 100] ^= 1
    found, offset, skipped = read_all(on_disk(tmp_path, bytes(damaged)))
    assert (offset, skipped) == (len(WHOLE), 1)
    assert found[0] == RECORDS[0]
    assert found[-1] == RECORDS[-1]
    assert 0 < len(RECORDS) - len(found) < 70


def test_a_zeroed_last_block_means_wait(tmp_path: Path) -> None:
    kept = (len(WHOLE) - 1) // BLOCK * BLOCK
    found, offset, skipped = read_all(on_disk(tmp_path, WHOLE[:kept] + bytes(len(WHOLE) - kept)))
    assert skipped == 0
    assert offset <= kept
    assert found == RECORDS[: len(found)]


def test_a_zeroed_block_inside_is_skipped(tmp_path: Path) -> None:
    data = WHOLE[:BLOCK] + bytes(BLOCK) + WHOLE[2 * BLOCK :]
    found, offset, skipped = read_all(on_disk(tmp_path, data))
    assert (offset, skipped) == (len(data), 1)
    assert found[-1] == RECORDS[-1]


def test_a_bad_last_block_is_given_up_once_the_file_has_grown_past_it(tmp_path: Path) -> None:
    cut = 2 * BLOCK
    damaged = bytearray(WHOLE[:cut])
    damaged[BLOCK + 20] ^= 1
    path = on_disk(tmp_path, bytes(damaged))
    _, offset, skipped = read_all(path)
    assert offset < cut
    assert skipped == 0
    path.write_bytes(bytes(damaged) + WHOLE[cut:])
    found, offset, skipped = read_all(path)
    assert (offset, skipped) == (len(WHOLE), 1)
    assert found[-1] == RECORDS[-1]


@pytest.mark.parametrize("size", [0, 3, 6])
def test_a_file_without_its_header_has_not_started(size: int) -> None:
    assert started(MAGIC[:size]) is False


def test_a_seven_byte_file_has_started_and_holds_nothing(tmp_path: Path) -> None:
    path = on_disk(tmp_path, MAGIC)
    assert read_all(path) == ([], len(MAGIC), 0)
    with WandbFile(str(path)) as log:
        assert log.started()
        assert list(log.backwards(2, 4, 64)) == []


@pytest.mark.parametrize("head", [b"x", b":WX", b"PK\x03\x04aaaa", b":W&B\xe1\xbe\x01"])
def test_another_kind_of_file_is_told_apart(head: bytes) -> None:
    with pytest.raises(NotWandbError, match=r"not a \.wandb file"):
        started(head)


@given(first=st.integers(1, 4), growth=st.integers(1, 4))
def test_backwards_yields_each_record_once(tmp_path: Path, first: int, growth: int) -> None:
    with WandbFile(str(on_disk(tmp_path, WHOLE))) as log:
        windows = [payloads(piece) for piece in log.backwards(first, growth, 64)]
    assert [payload for window in reversed(windows) for payload in window] == RECORDS


@given(cut=st.integers(len(MAGIC), len(WHOLE)))
def test_backwards_and_forwards_agree_on_a_cut_file(tmp_path: Path, cut: int) -> None:
    path = on_disk(tmp_path, WHOLE[:cut])
    with WandbFile(str(path)) as log:
        windows = [payloads(piece) for piece in log.backwards(1, 2, 64)]
    assert [one for window in reversed(windows) for one in window] == read_all(path)[0]


@given(
    places=st.lists(st.integers(len(MAGIC), len(WHOLE) - 1), max_size=6, unique=True),
    first=st.integers(1, 4),
)
def test_backwards_and_forwards_agree_on_a_damaged_file(
    tmp_path: Path, places: list[int], first: int
) -> None:
    damaged = bytearray(WHOLE)
    for place in places:
        damaged[place] ^= 255
    path = on_disk(tmp_path, bytes(damaged))
    with WandbFile(str(path)) as log:
        pieces = list(log.backwards(first, 2, 64))[::-1]
    found, _, skipped = read_all(path)
    assert [one for piece in pieces for one in payloads(piece)] == found
    assert sum(piece.skipped for piece in pieces) == skipped


def test_a_named_pipe_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "run-x.wandb"
    os.mkfifo(path)
    with WandbFile(str(path)) as log, pytest.raises(OSError, match="seek"):
        log.started()
