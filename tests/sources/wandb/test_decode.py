"""Records: what each says, and that damaged ones say so."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.wandb import decode
from cockpit.sources.wandb.decode import BadMessageError
from cockpit.sources.wandb.file import Span, WandbFile
from tests.sources.wandb import writer

GOLDEN = Path(__file__).parents[2] / "data" / "wandb"
VERSIONS = ("0.17.9", "0.22.3", "0.30.0", "0.31.0")


def whole(payload: bytes) -> Span:
    return payload, 0, len(payload)


def message(payload: bytes) -> Span:
    return decode.kind_of(whole(payload))[1]


def golden(version: str, part: int) -> list[tuple[int, Span]]:
    path = sorted((GOLDEN / version).glob("*/run-gold0001.wandb"))[part]
    with WandbFile(str(path)) as log:
        spans = log.read(0, log.size).spans
    return [decode.kind_of(span) for span in spans]


def of_kind(records: list[tuple[int, Span]], wanted: int) -> list[Span]:
    return [found for kind, found in records if kind == wanted]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_of_the_client_is_read_whole(version: str) -> None:
    records = golden(version, 0)
    kinds = Counter(kind for kind, _ in records)
    assert kinds[decode.HISTORY] == 61
    assert kinds[decode.RUN] == kinds[decode.EXIT] == kinds[decode.HEADER] == 1
    assert kinds[0] <= 1
    rows = [decode.history(one) for one in of_kind(records, decode.HISTORY)]
    assert [row["global_step"] for row in rows] == [*range(1000, 1061)]
    assert [row["_step"] for row in rows] == [*range(61)]
    assert rows[5]["train/loss"] == pytest.approx(4.0 / 1.5)
    assert rows[5]["train/loss.v2"] == pytest.approx(8.0 / 1.5)
    assert rows[5]["grad.norm.total"] == pytest.approx(0.505)
    assert math.isnan(float(str(rows[20]["train/loss"])))
    assert [rows[21]["train/loss"], rows[22]["train/loss"]] == [math.inf, -math.inf]
    assert rows[30]["note"] == "x" * 33000
    assert "train/loss" not in rows[60]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_run_and_exit_records_of_each_version(version: str) -> None:
    first, second = golden(version, 0), golden(version, 1)
    run = decode.run_info(of_kind(first, decode.RUN)[0])
    assert (run.id, run.entity, run.project, run.name) == (
        "gold0001",
        "acme",
        "golden",
        "hero-small",
    )
    assert run.started_at == pytest.approx(1.795258e9, abs=1e4)
    assert run.client == version
    assert run.config == {"lr": 3e-4, "model": {"layers": 4, "name": "tiny"}, "long": "n" * 40}
    assert decode.exit_code(of_kind(first, decode.EXIT)[0]) == 3
    assert decode.exit_code(of_kind(second, decode.EXIT)[0]) == 0
    updates = [decode.config_update(one) for one in of_kind(first, decode.CONFIG)]
    assert {"late": 7} in updates


def test_the_environment_record_names_the_slurm_job() -> None:
    told = [decode.environment(one) for one in of_kind(golden("0.31.0", 1), decode.ENVIRONMENT)]
    assert {"job_id": "4243", "job_name": "train"} in [one.slurm for one in told]


def test_the_environment_record_names_the_commit() -> None:
    payload = writer.record(3, 26, writer.field(9, writer.field(2, b"0123abcd")))
    assert decode.environment(message(payload)) == decode.Environment("0123abcd", {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1", 1.0),
        (b"-2.5e-3", -0.0025),
        (b"Infinity", math.inf),
        (b"-Infinity", -math.inf),
        (b'"Infinity"', math.inf),
        (b"null", None),
        (b"true", None),
        (b'"1.5"', None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_numbers_of_json_text(text: bytes, value: float | None) -> None:
    assert decode.number(text) == value


@pytest.mark.parametrize("text", [b"NaN", b'"NaN"'])
def test_nan_is_a_number(text: bytes) -> None:
    assert math.isnan(decode.number(text) or 0.0)


def test_nested_objects_and_nested_keys_become_dotted_names() -> None:
    old = writer.history(1, {"grad": '{"norm": {"total": 0.5}, "max": 2}'}, style=1)
    nested = b"".join(writer.field(2, part) for part in (b"grad", b"norm", b"total"))
    new = writer.record(1, 2, writer.field(1, nested + writer.field(16, b"0.5")))
    assert decode.history(message(old)) == {"grad.norm.total": 0.5, "grad.max": 2, "_step": 0}
    assert decode.history(message(new)) == {"grad.norm.total": 0.5}


def test_a_media_object_is_one_value() -> None:
    row = decode.history(message(writer.history(1, {"picture": '{"_type": "image-file"}'})))
    assert row["picture"] == {"_type": "image-file"}


def test_the_step_beside_the_items_counts_when_no_item_names_it() -> None:
    payload = writer.record(1, 2, writer.items({"a": "1"}) + writer.field(2, writer.field(1, 77)))
    assert decode.history(message(payload)) == {"a": 1, "_step": 77}


def test_a_negative_exit_code() -> None:
    assert decode.exit_code(message(writer.exited(-1))) == -1


def test_stats_and_console_records_carry_a_time() -> None:
    kind, found = decode.kind_of(whole(writer.stats(1_700_000_000.25)))
    assert decode.record_time(kind, found) == pytest.approx(1_700_000_000.25)
    assert decode.record_time(decode.SUMMARY, found) is None


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


@given(cut=st.integers(0, 60))
def test_a_cut_message_is_a_bad_record(cut: int) -> None:
    payload = writer.items({"train/loss": "1.25", "global_step": "12", "_timestamp": "17.5"})
    try:
        rows = decode.history(whole(payload[:cut]))
    except BadMessageError:
        return
    assert rows.items() <= {"train/loss": 1.25, "global_step": 12, "_timestamp": 17.5}.items()
