"""TensorBoard's event files, as tensorboardX 2.6 and TensorBoard 2.21 have written them."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import RunSpec, TensorboardSpec
from cockpit.sources import tensorboard
from cockpit.sources.file_tracker import Record
from cockpit.sources.run_folders import BadFileError, PatternFiles
from cockpit.sources.tensorboard import (
    EVENT_FILES,
    BadEventError,
    TensorboardRun,
    deframe,
    event_of,
    masked_crc,
)
from cockpit.sources.trackers import Trackers
from tests.sources.wandb import writer

DATA = Path(__file__).resolve().parents[1] / "data" / "tensorboard"
SCALARS = (DATA / "scalars.tfevents").read_bytes()
TENSORS = (DATA / "tensors.tfevents").read_bytes()
FIRST = "events.out.tfevents.1795340000.node-1"


def spec_of(path: Path) -> TensorboardSpec:
    return TensorboardSpec.model_validate({"dir": str(path)})


def run_of(path: Path) -> RunSpec:
    return RunSpec(name="toy", tensorboard=spec_of(path))


async def facet_of(path: Path, source: Trackers | None = None) -> Facet[TrackerValue]:
    source = source or Trackers(SystemClock())
    return (await source.observe([Query(run=run_of(path))]))["toy"]


async def rows_of(source: Trackers, path: Path) -> list[Row]:
    rows: list[Row] = []
    while True:
        chunk = await source.more_rows(run_of(path))
        rows = [*([] if chunk.restarted else rows), *chunk.rows]
        if chunk.caught_up or chunk.unread:
            return rows


def records_in(path: Path) -> list[Record]:
    log = TensorboardRun(spec_of(path), PatternFiles(EVENT_FILES))
    log.about()
    records, cursor, caught_up = [], None, False
    while not caught_up:
        batch = log.after(cursor)
        cursor, caught_up = batch.cursor, batch.caught_up
        records += batch.records
    return records


def losses_in(records: list[Record]) -> list[tuple[int | None, float]]:
    return [(one.step, one.values["train/loss"]) for one in records if "train/loss" in one.values]


async def test_what_is_told_of_a_run(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(SCALARS)
    os.utime(tmp_path / FIRST, (1795341000.0, 1795341000.0))
    source = Trackers(SystemClock())
    first = (await facet_of(tmp_path, source)).value
    rows = await rows_of(source, tmp_path)
    facet = await facet_of(tmp_path, source)
    value = facet.value
    assert facet.source == f"TensorBoard in {tmp_path}"
    assert first is not None and value is not None
    assert (first.step, first.scanned, value.scanned) == (2000, 0.0, 1.0)
    assert value.step == 2000 and value.loss is not None and math.isnan(value.loss)
    assert value.grad_norm == 0.5 and not value.counts_calls
    assert (value.last_step_at, value.usual_step_s) == (1795341000.0, 0.5)
    assert (value.throughput, value.throughput_unit) == (2.0, "it/s")
    assert [row.step for row in rows] == [*range(0, 2001, 10)]
    assert rows[5].loss == pytest.approx(2.995) and rows[5].at == 1795340025.0
    assert value.history[0][0] == 0 and value.history[-1][0] == 2000
    assert (await source.recent(run_of(tmp_path), 10)).rows[-2].step == 1990


@pytest.mark.parametrize("name", ["lr[^1]", "lr[1]", "lr*", "~lr"])
async def test_a_folder_whose_name_reads_as_a_pattern_is_that_folder(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / FIRST).write_bytes(SCALARS)
    facet = await facet_of(tmp_path / name)
    assert facet.value is not None and facet.value.step == 2000, facet.error


async def test_scalars_that_are_tensors(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(TENSORS)
    value = (await facet_of(tmp_path)).value
    assert value is not None and value.step == 4900
    assert value.loss == pytest.approx(2.01) and value.grad_norm == 1.0
    assert len(losses_in(records_in(tmp_path))) == 50


async def test_a_file_that_grows_gives_what_is_new(tmp_path: Path) -> None:
    path, source = tmp_path / FIRST, Trackers(SystemClock())
    path.write_bytes(SCALARS[:10_000])
    early = await rows_of(source, tmp_path)
    path.write_bytes(SCALARS)
    late = await rows_of(source, tmp_path)
    seen = [row.step for row in (*early, *late) if row.loss is not None]
    assert seen == [*range(0, 2001, 10)] and early and late


async def test_a_restart_begins_another_file(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(SCALARS)
    source = Trackers(SystemClock())
    assert len(await rows_of(source, tmp_path)) == 201
    (tmp_path / "events.out.tfevents.1795342000.node-1").write_bytes(TENSORS)
    assert [row.step for row in await rows_of(source, tmp_path)] == [*range(0, 5000, 100)]
    value = (await facet_of(tmp_path, source)).value
    assert value is not None and value.step == 4900 and len(value.fragments) == 2


def remove(path: Path) -> None:
    path.unlink()


async def test_a_file_that_is_removed_or_written_anew_begins_all_anew(tmp_path: Path) -> None:
    source, later = Trackers(SystemClock()), tmp_path / "events.out.tfevents.1795342000.node-1"
    (tmp_path / FIRST).write_bytes(SCALARS)
    later.write_bytes(TENSORS)
    assert len(await rows_of(source, tmp_path)) == 251
    remove(tmp_path / FIRST)
    assert [row.step for row in await rows_of(source, tmp_path)] == [*range(0, 5000, 100)]
    later.write_bytes(TENSORS[:3000])
    again = await rows_of(source, tmp_path)
    assert again and again[0].step == 0 and len(again) < 50


def begun(folder: Path, at: int, written: float, data: bytes = SCALARS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{at}.node-1"
    path.write_bytes(data)
    os.utime(path, (written, written))


async def test_of_a_folder_for_each_start_the_newest_is_read(tmp_path: Path) -> None:
    begun(tmp_path / "version_0", 1795340000, 1795341000.0)
    begun(tmp_path / "version_1", 1795350000, 1795351000.0, TENSORS)
    value = (await facet_of(tmp_path)).value
    assert value is not None and (value.name, value.step) == ("version_1", 4900)
    assert value.notes == ("version_0 lies there too; version_1 is read",)


async def test_an_evaluation_begun_later_does_not_hide_the_run_that_goes_on(
    tmp_path: Path,
) -> None:
    begun(tmp_path / "train", 1795340000, 1795351000.0)
    begun(tmp_path / "eval", 1795350000, 1795350010.0, TENSORS)
    value = (await facet_of(tmp_path)).value
    assert value is not None and value.name == "train"


async def test_the_run_that_a_process_writes_is_read(tmp_path: Path) -> None:
    begun(tmp_path / "train", 1795340000, 1795341000.0)
    begun(tmp_path / "eval", 1795350000, 1795351000.0, TENSORS)
    with (tmp_path / "train" / "events.out.tfevents.1795340000.node-1").open("ab"):
        value = (await facet_of(tmp_path)).value
    assert value is not None and value.name == "train"


def framed(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    crcs = struct.pack("<I", masked_crc(head)), struct.pack("<I", masked_crc(data))
    return head + crcs[0] + data + crcs[1]


def scalar(step: int, at: float, tag: str, value: float) -> bytes:
    told = writer.field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    time = b"\x09" + struct.pack("<d", at)
    return framed(time + writer.field(2, step) + writer.field(5, writer.field(1, told)))


async def test_a_step_of_many_metrics_is_read_within_the_time_of_a_look(tmp_path: Path) -> None:
    names = ["train/loss", *(f"layer/{number}" for number in range(30_000))]
    events = (scalar(7, 1795340000.0, name, 2.5) for name in names)
    (tmp_path / FIRST).write_bytes(SCALARS[:40] + b"".join(events))
    value = (await facet_of(tmp_path)).value
    assert value is not None and (value.step, value.loss) == (7, 2.5)


async def test_where_add_scalars_has_put_the_loss_is_said(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(SCALARS[:40])
    begun(tmp_path / "loss" / "train", 1795340000, 1795341000.0)
    begun(tmp_path / "loss" / "val", 1795340000, 1795341000.0)
    value = (await facet_of(tmp_path)).value
    assert value is not None and value.state == "starting"
    (note,) = value.notes
    assert "no loss here; there are more scalars in loss/train, loss/val" in note


async def test_where_there_are_none_it_is_said(tmp_path: Path) -> None:
    error = (await facet_of(tmp_path)).error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
    gone = (await facet_of(tmp_path / "none")).error
    assert gone is not None and gone.kind is ErrorKind.NOT_FOUND


@pytest.mark.parametrize("data", [b"hello, this is some text\n" * 100, b"\0" * 1000, b"\xff" * 50])
async def test_a_file_of_another_kind_is_said(data: bytes, tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(data)
    source = Trackers(SystemClock())
    facet = await facet_of(tmp_path, source)
    if facet.error is None:
        assert facet.value is not None and facet.value.state == "starting"
    assert await rows_of(source, tmp_path) == []
    log = TensorboardRun(spec_of(tmp_path), PatternFiles(EVENT_FILES))
    log.about()
    with pytest.raises(BadFileError):
        log.after(None)


WHOLE = deframe(SCALARS, 0).records


@settings(max_examples=12, deadline=None)
@given(at=st.integers(0, len(SCALARS) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_record_and_is_counted(at: int, bit: int) -> None:
    data = bytearray(SCALARS)
    data[at] ^= 1 << bit
    piece = deframe(bytes(data), 0)
    lost = len(WHOLE) - len(piece.records)
    assert 0 <= lost <= 2 and (piece.skipped > 0 or piece.records == WHOLE or lost == 0)
    events = [event_of(record) for record in piece.records]
    assert len(events) == len(piece.records)


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=200))
def test_no_bytes_break_an_event(data: bytes) -> None:
    try:
        event = event_of(data)
    except BadEventError:
        return
    assert all(isinstance(value, float) for value in event.scalars.values())


def field(number: int, wire: int, data: bytes) -> bytes:
    size = bytes([len(data)]) if wire == 2 else b""
    return bytes([number << 3 | wire]) + size + data


def tensor(kind: int, rest: bytes) -> bytes:
    made = field(8, 2, field(1, 0, bytes([kind])) + rest)
    value = field(1, 2, field(1, 2, b"loss") + made)
    return field(2, 0, b"\x07") + field(5, 2, value)


TYPES = [
    (1, field(4, 2, struct.pack("<f", 1.5)), 1.5),
    (2, field(4, 2, struct.pack("<d", 1.5)), 1.5),
    (19, field(4, 2, struct.pack("<e", 1.5)), 1.5),
    (14, field(4, 2, b"\xc0\x3f"), 1.5),
    (9, field(4, 2, struct.pack("<q", -3)), -3.0),
    (1, field(5, 2, struct.pack("<f", 1.5)), 1.5),
    (1, field(5, 5, struct.pack("<f", 1.5)), 1.5),
    (2, field(6, 1, struct.pack("<d", 1.5)), 1.5),
    (3, field(7, 2, b"\x05"), 5.0),
    (19, field(13, 2, b"\x80\x7c"), 1.5),
    (1, field(5, 2, struct.pack("<ff", 1.0, 2.0)), None),
    (7, field(8, 2, b"text"), None),
    (1, field(4, 2, b"\0" * 8), None),
]


@pytest.mark.parametrize(("kind", "rest", "figure"), TYPES)
def test_a_tensor_of_one_figure_is_a_scalar(kind: int, rest: bytes, figure: float | None) -> None:
    event = event_of(tensor(kind, rest))
    assert event.step == 7 and event.scalars.get("loss") == figure


async def test_a_big_record_and_a_long_file_end_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "BATCH", 2_000)
    monkeypatch.setattr(tensorboard, "TAIL", 1_000)
    image = framed(bytes([7 << 3 | 2, 0x80, 0x80, 0x02]) + b"\0" * 32_768)
    (tmp_path / FIRST).write_bytes(SCALARS[:10_000] + SCALARS[10_000:])
    whole = records_in(tmp_path)
    at = deframe(SCALARS[:10_000], 0).offset
    (tmp_path / FIRST).write_bytes(SCALARS[:at] + image + SCALARS[at:] + image)
    assert [one[0] for one in losses_in(records_in(tmp_path))] == [*range(0, 2001, 10)]
    assert len(losses_in(whole)) == 201
    value = (await facet_of(tmp_path)).value
    assert value is not None and value.step == 2000
