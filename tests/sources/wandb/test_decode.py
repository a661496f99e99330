"""Records: what each says, and that damaged ones say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.wandb import decode
from cockpit.sources.wandb.decode import BadMessageError
from cockpit.sources.wandb.file import Span, WandbLog
from tests.sources.wandb import writer

GOLDEN = Path(__file__).parents[2] / "data" / "wandb"
VERSIONS = ("0.17.9", "0.22.3", "0.30.0", "0.31.0")


def whole(payload: bytes) -> Span:
    return payload, 0, len(payload)


def message(payload: bytes) -> Span:
    return decode.kind_of(whole(payload))[1]


def golden(version: str, part: int) -> list[tuple[int, Span]]:
    path = sorted((GOLDEN / version).glob("*/run-gold0001.wandb"))[part]
    with WandbLog(LocalLog(path)) as log:
        spans = log.read(0, log.size).spans
    return [decode.kind_of(span) for span in spans]


def of_kind(records: list[tuple[int, Span]], wanted: int) -> list[Span]:
    return [found for kind, found in records if kind == wanted]


def test_the_environment_record_names_the_commit() -> None:
    payload = writer.record(3, 26, writer.field(9, writer.field(2, b"0123abcd")))
    assert decode.environment(message(payload)) == decode.Environment("0123abcd", {})


def test_nested_objects_and_nested_keys_become_dotted_names() -> None:
    old = writer.history(1, {"grad": '{"norm": {"total": 0.5}, "max": 2}'}, style=1)
    nested = b"".join(writer.field(2, part) for part in (b"grad", b"norm", b"total"))
    new = writer.record(1, 2, writer.field(1, nested + writer.field(16, b"0.5")))
    assert decode.history(message(old)) == {"grad.norm.total": 0.5, "grad.max": 2, "_step": 0}
    assert decode.history(message(new)) == {"grad.norm.total": 0.5}


@pytest.mark.parametrize("number", [0, 5, 300, 70_000])
@pytest.mark.parametrize("length", [1, 200, 20_000])
def test_a_record_is_told_by_its_first_bytes(number: int, length: int) -> None:
    row = writer.items({"a": "1" * length})
    control = writer.field(16, b"\x42\x00")
    for kind in (decode.HISTORY, decode.SUMMARY, decode.EXIT, decode.ENVIRONMENT):
        for before in (b"", writer.field(1, number), writer.field(1, number) + control):
            for after in (b"", writer.field(200, b"info")):
                found, inside = decode.kind_of(whole(before + writer.field(kind, row) + after))
                assert found == kind
                assert inside[0][inside[1] : inside[2]] == row


@given(payload=st.binary(max_size=200))
def test_bytes_that_are_no_record_are_no_crash(payload: bytes) -> None:
    kind, found = decode.kind_of(whole(payload))
    for reader in (decode.history, decode.run_info, decode.environment, decode.config_update):
        try:
            reader(found)
        except BadMessageError:
            continue
    assert kind == 0 or found[1] <= found[2] <= len(payload)
