"""Framing: whole records only, whatever is cut, zeroed or flipped."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.wandb.file import (
    BLOCK,
    MAGIC,
    LogChunk,
    WandbLog,
    deframe,
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
    with WandbLog(LocalLog(path)) as log:
        while True:
            piece = log.read(offset, budget)
            found += payloads(piece)
            skipped += piece.skipped
            if piece.offset <= max(offset, len(MAGIC)):
                return found, piece.offset, skipped
            offset = piece.offset


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
    with WandbLog(LocalLog(path)) as log:
        pieces = list(log.backwards(first, 2, 64))[::-1]
    found, _, skipped = read_all(path)
    assert [one for piece in pieces for one in payloads(piece)] == found
    assert sum(piece.skipped for piece in pieces) == skipped
