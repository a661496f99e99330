"""Rows read together are the rows that each alone gives, whatever stands between them.

Records: what each says, and that damaged ones say so.

Framing: whole records only, whatever is cut, zeroed or flipped.

Rows found by their keys' bytes are the rows that full decoding gives.

Which files a run has in a folder: the same on this machine and on a host.
"""

from __future__ import annotations

import math
import os
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.hosts import ranges
from cockpit.model.clock import SystemClock
from cockpit.model.observed import Row
from cockpit.model.run import MetricNames, WandbSpec
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.metric_keys import MetricKeys, choose
from cockpit.sources.run_folders import Chosen
from cockpit.sources.wandb import decode
from cockpit.sources.wandb.alike import AlikeRows
from cockpit.sources.wandb.decode import (
    HISTORY,
    BadMessageError,
    KeyLayout,
    RowReader,
    StepRate,
    kind_of,
)
from cockpit.sources.wandb.file import BLOCK, MAGIC, LaunchFile, LogChunk, Span, WandbLog, deframe
from cockpit.sources.wandb.fragment import Fragment
from cockpit.sources.wandb.listing import LaunchFiles, Wanted
from cockpit.sources.wandb.run_files import read_run
from tests.machines import Machine
from tests.machines import machine as machine
from tests.sources.wandb import writer

KEYS = MetricKeys("global_step", "train/loss", "tps", "tok/s", "grad.norm")._replace(lr="lr")
NAMES = ("global_step", "_timestamp", "train/loss", "tps", "grad.norm", "lr", "eval/loss", "note")

figures = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**16), 10**16).map(str),
    st.sampled_from(
        [
            *("NaN", '"NaN"', "Infinity", '"-Infinity"', "null", "true", '"text"', '"a \\n b"'),
            *("1700000000.5", "1e+06", "7.0", "-0", '""', '"nan"', f'"{200 * "x"}"', "{}", "[1]"),
        ]
    ),
)
shapes = st.lists(st.sampled_from(NAMES), max_size=6)
others = st.sampled_from(
    [
        *(writer.record(5, 5, writer.items({"lr": "1"})), writer.stats(17e8), writer.exited(0)),
        writer.record(6, 3, writer.items({"train/loss": "9"})),
        writer.record(7, 2, b"\x0a\xff\x01"),
    ]
)


@st.composite
def logged(draw: st.DrawFn) -> list[bytes]:
    """Records of a trainer that has a few shapes of rows, one much more often than the others."""
    records: list[bytes] = []
    known = draw(st.lists(shapes, min_size=1, max_size=6))
    style = draw(st.sampled_from([1, 2]))
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 5)) == 0:
            records.append(draw(others))
        names = known[max(0, draw(st.integers(-9, len(known) - 1)))]
        items = b"".join(writer.items({name: draw(figures)}, style) for name in names)
        step = draw(st.sampled_from([b"", writer.field(2, b""), writer.field(2, b"\x08\x87\x01")]))
        records.append(writer.record(draw(st.integers(0, 2**40)), 2, items + step))
    return records


def by_itself(reader: RowReader, layout: KeyLayout, span: Span) -> Row | None:
    kind, message = kind_of(span)
    if kind != HISTORY:
        return None
    layout.notice(message)
    try:
        return reader.read(message)
    except ValueError:
        return None


def learned(spans: list[Span]) -> tuple[RowReader, KeyLayout]:
    """A reader that knows the rows before, as the pass has it when a chunk begins."""
    layout = KeyLayout(MetricNames(grad_norm=KEYS.grad_norm))
    for kind, message in map(kind_of, spans):
        if kind == HISTORY:
            layout.notice(message)
    return RowReader(KEYS, layout), layout


@given(logged(), logged())
@example([writer.row(n, "2.5", 17e8 + n) for n in range(5)], [])
def test_rows_read_together_are_as_each_alone(before: list[bytes], now: list[bytes]) -> None:
    spans = [(each, 0, len(each)) for each in (*before, *before, *before, *now)]
    reader, layout = learned(spans[: 3 * len(before)])
    plain = [by_itself(reader, layout, span) for span in spans]
    reader, layout = learned(spans[: 3 * len(before)])
    found = AlikeRows(reader, layout).read(spans, lambda span: by_itself(reader, layout, span))
    assert repr(found) == repr([row for row in plain if row is not None])


def asked(records: list[bytes]) -> tuple[list[Row], list[int]]:
    """The rows, and of which kind the records were that were not read together."""
    spans = [(each, 0, len(each)) for each in records]
    reader, layout = learned(spans)
    kinds: list[int] = []

    def other(span: Span) -> Row | None:
        kinds.append(kind_of(span)[0])
        return by_itself(reader, layout, span)

    return AlikeRows(reader, layout).read(spans, other), kinds


ITEMS = writer.items({"global_step": "7", "_timestamp": "1700000000.5", "train/loss": "2.5"})


@pytest.mark.parametrize(
    "record",
    [
        writer.history(7, {"global_step": "7", "train/loss": "2.5"}) + writer.field(19, b"uuid"),
        writer.field(2, ITEMS),
        writer.record(7, 2, ITEMS + writer.field(9, b"news")),
        writer.record(7, 2, writer.field(2, b"\x08\x07") + ITEMS),
    ],
    ids=["a field behind the row", "no number", "a field in the row", "its step first"],
)
def test_rows_that_another_writer_spells_otherwise_are_read_by_their_keys(record: bytes) -> None:
    found, kinds = asked([record, record, writer.stats(17e8), record])
    assert [(row.step, row.loss) for row in found] == [(7, 2.5)] * 3 and kinds == [HISTORY] * 3


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


ROWS_KEYS = MetricKeys("global_step", "loss", "tps", "tok/s", "grad.norm")
ROWS_NAMES = ("global_step", "_timestamp", "loss", "tps", "grad.norm")


def rows_message(payload: bytes) -> Span:
    return kind_of((payload, 0, len(payload)))[1]


def nested(*items: tuple[tuple[str, ...], str]) -> bytes:
    body = b""
    for path, text in items:
        keys = b"".join(writer.field(2, part.encode()) for part in path)
        body += writer.field(1, keys + writer.field(16, text.encode()))
    return writer.record(1, 2, body)


def reader(*learned: bytes, keys: MetricKeys = ROWS_KEYS) -> RowReader:
    layout = KeyLayout(MetricNames(grad_norm=keys.grad_norm))
    for payload in learned:
        layout.notice(rows_message(payload))
    return RowReader(keys, layout)


def test_what_is_logged_beside_them_comes_with_the_row() -> None:
    keys = ROWS_KEYS._replace(z_loss="z_loss", router_entropy="router/entropy", skipped="skipped")
    payload = nested(
        (("loss",), "2.5"),
        (("z_loss",), "1e-4"),
        (("router/entropy",), "1.7"),
        (("skipped",), "1"),
        (("router/entropy/layer",), "0.1"),
    )
    for each in (reader(payload, keys=keys), RowReader(keys, KeyLayout(MetricNames()))):
        row = each.read(rows_message(payload))
        assert (row.loss, row.z_loss, row.router_loss) == (2.5, 1e-4, None)
        assert (row.router_entropy, row.skipped, row.bar) == (1.7, 1.0, False)


def test_a_metric_of_the_same_end_or_beginning_is_not_taken_for_it() -> None:
    payload = nested((("eval", "loss"), "9.0"), (("train/loss",), "8.0"), (("loss", "v2"), "7.0"))
    assert reader(payload).read(rows_message(payload)).loss is None


def test_an_object_of_an_old_client_is_looked_into() -> None:
    payload = writer.history(1, {"grad": '{"norm": 0.5}', "loss": "NaN"}, style=1)
    row = reader(payload).read(rows_message(payload))
    assert row.grad_norm == 0.5
    assert math.isnan(row.loss or 0.0)


def test_a_very_long_key() -> None:
    keys = MetricKeys("_step", "l" * 200)
    payload = nested((("_step",), "3"), (("l" * 200,), "1.5"))
    assert reader(payload, keys=keys).read(rows_message(payload)) == Row(3, None, 1.5)


numbers = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers(-(10**15), 10**15).map(str),
    st.sampled_from(["Infinity", "-Infinity", "null", '"text"', "[1]", "true"]),
)
rows = st.dictionaries(st.sampled_from([*ROWS_NAMES, "eval.loss", "loss.v2", "other"]), numbers)


@given(values=rows, style=st.sampled_from([1, 2]), flat=st.booleans())
def test_the_quick_way_and_the_slow_way_agree(
    values: dict[str, str], style: int, flat: bool
) -> None:
    values = {name: text.replace("inf", "Infinity") for name, text in values.items()}
    if flat or style == 1:
        payload = writer.history(1, values, style=style)
    else:
        payload = nested(*((tuple(name.split(".")), text) for name, text in values.items()))
    quick = reader(payload)
    slow = RowReader(ROWS_KEYS, KeyLayout(MetricNames()))
    assert quick.read(rows_message(payload)) == slow.read(rows_message(payload))


def rates(*rows: tuple[int | None, float | None]) -> list[float | None]:
    return [
        row.throughput
        for row in StepRate().fill((Row(step, at) for step, at in rows), MetricKeys())
    ]


T0 = 1_700_000_000.0


def written(path: Path, rows: int) -> None:
    records = [writer.row(step, "2.5", T0 + step) for step in range(rows)]
    path.write_bytes(writer.log([writer.run("abc", T0), *records]))


def test_a_file_that_has_grown_a_little_is_not_sampled_again(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    files, wanted = LaunchFiles(), Wanted(str(path), None, "")
    file = LaunchFile(str(path), files.host(wanted), files.measured)
    fragment = Fragment(file, MetricNames())

    def grow(rows: int) -> None:
        written(path, rows)
        files.chosen(wanted)
        fragment.refresh()

    grow(300)
    keys = choose(list(fragment.layout.rows), MetricNames(), MetricKeys())
    first = fragment.sample(keys, 20)
    grow(305)
    assert fragment.sample(keys, 20) is first
    grow(600)
    again = fragment.sample(keys, 20)
    assert len(again) >= 20 and max(row.step or 0 for row in again) > 305


LISTING_T0 = 1_600_000_000.0 + os.getpid() * 10.0
"""Other processes that run these tests have open files with other names."""


class Find:
    """Finds the files of a run on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.host = machine.host

    def __call__(self, place: Path, run_id: str | None) -> list[str]:
        return list(self.all(place, run_id).paths)

    def all(self, place: Path, run_id: str | None) -> Chosen:
        wanted = Wanted(str(place), run_id, str(place), self.host or "")
        return LaunchFiles().chosen(wanted)


@pytest.fixture
def find(machine: Machine) -> Find:
    return Find(machine)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "offline-run-20260101_000000-aaa",
        "offline-run-20260102_000000-aaa",
        "run-20260103_000000-bbb",
        "offline-run-20251231_000000-aaab",
    ):
        directory = tmp_path / "wandb" / name
        directory.mkdir(parents=True)
        (directory / f"run-{name.rpartition('-')[2]}.wandb").write_bytes(b"")
    (tmp_path / "wandb" / "latest-run").symlink_to("offline-run-20260102_000000-aaa")
    (tmp_path / "wandb" / "debug.log").write_text("x")
    return tmp_path / "wandb"


def names(paths: list[str]) -> list[str]:
    return [Path(path).parent.name for path in paths]


def test_all_launches_of_an_id_and_of_no_other(folder: Path, find: Find) -> None:
    assert names(find(folder, "aaa")) == [
        "offline-run-20260101_000000-aaa",
        "offline-run-20260102_000000-aaa",
    ]


def test_a_hidden_folder_goes_first_as_the_client_takes_it(folder: Path, find: Find) -> None:
    begun(folder.parent / ".wandb", 0, "hidden", LISTING_T0)
    assert find(folder.parent, None)[0].endswith("run-hidden.wandb")
    assert len(find(folder.parent, "hidden")) == len(find(folder.parent, "bbb")) == 1
    with pytest.raises(FileNotFoundError, match=r"; there: hidden \(newest first"):
        find(folder.parent, "zzz")


def test_a_single_launch(folder: Path, find: Find) -> None:
    launch = folder / "offline-run-20260101_000000-aaa"
    assert names(find(launch, "aaa")) == [launch.name]
    assert names(find(launch, None)) == [launch.name]
    with pytest.raises(FileNotFoundError, match=r"^no W&B run other in .*; there: aaa "):
        find(launch, "other")


def begun(folder: Path, after: float, run_id: str, written_at: float, *, rows: int = 5) -> Path:
    at = datetime.fromtimestamp(LISTING_T0 + after).astimezone().strftime("%Y%m%d_%H%M%S")
    path = folder / f"offline-run-{at}-{run_id}" / f"run-{run_id}.wandb"
    path.parent.mkdir(parents=True)
    path.touch()
    if rows:
        written(path, rows)
    os.utime(path, (written_at, written_at))
    return path


def test_an_evaluation_that_is_over_does_not_hide_the_run_that_a_process_writes(
    tmp_path: Path, find: Find
) -> None:
    train = begun(tmp_path, 0, "train", LISTING_T0)
    begun(tmp_path, 3600, "eval", LISTING_T0 + 3610)
    assert find(tmp_path, None)[0].endswith("run-eval.wandb"), "neither is written now"
    with train.open("ab"):
        assert find(tmp_path, None) == [str(train)]
        notes = find.all(tmp_path, None).notes
        assert notes == ("eval lies there too; train is read",)
    with train.open("rb"):
        assert find(tmp_path, None)[0].endswith("run-eval.wandb"), "a reader is none"


def test_the_run_that_went_on_is_read_where_no_process_can_be_seen(
    tmp_path: Path, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "open_to_write", lambda *_: None)
    train = begun(tmp_path, 0, "train", LISTING_T0 + 3700)
    begun(tmp_path, 3600, "eval", LISTING_T0 + 3610)
    assert find(tmp_path, None) == [str(train)]


def test_one_folder_by_two_names_is_one_writer_s(tmp_path: Path, find: Find) -> None:
    first = begun(tmp_path / "disk", 0, "same", LISTING_T0)
    second = begun(tmp_path / "disk", 5, "same", LISTING_T0 + 5)
    (tmp_path / "wandb").symlink_to(tmp_path / "disk")
    with (tmp_path / "wandb" / first.relative_to(tmp_path / "disk")).open("ab"):
        found = find.all(tmp_path, "same")
    assert found.paths == [str(first), str(second)] and found.written == frozenset({str(first)})


def test_odd_names_are_names(tmp_path: Path, find: Find) -> None:
    for run_id in ("a*b", "[x]", "it's \n $HOME", "a"):
        begun(tmp_path, 0, run_id, LISTING_T0)
        assert len(find(tmp_path, run_id)) == 1, run_id
    (tmp_path / "run-20260103_000000-zz" / "run-zz.wandb").mkdir(parents=True)
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "run-20990103_000000-lost").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="no W&B run zz in "):
        find(tmp_path, "zz")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotADirectoryError):
        find(tmp_path / "pipe", None)
    with pytest.raises(FileNotFoundError):
        find(tmp_path / "pipe" / "below", None)
    with pytest.raises(OSError, match="symbolic links"):
        find(tmp_path / "circle", None)


def test_of_many_launches_the_newest_are_named(tmp_path: Path, find: Find) -> None:
    for day in range(400):
        (tmp_path / f"run-2026{day:04d}_000000-r{day}").mkdir()
        (tmp_path / f"run-2026{day:04d}_000000-r{day}" / f"run-r{day}.wandb").write_bytes(
            b"12345678"
        )
    assert find(tmp_path, None)[0].endswith("run-r399.wandb")
    with pytest.raises(FileNotFoundError, match=r"there: r399, r398, .* and 295 more "):
        find(tmp_path, "nope")


def test_two_launches_of_one_id_that_processes_write_are_two_writers(tmp_path: Path) -> None:
    first = begun(tmp_path, 0, "same", LISTING_T0)
    second = begun(tmp_path, 5, "same", LISTING_T0 + 5)
    files = read_run(WandbSpec.model_validate({"dir": str(tmp_path)}))
    with first.open("ab"), second.open("ab"):
        (found,) = files.value(SystemClock()).writers
    assert found.name == first.parent.name
    apart = read_run(WandbSpec.model_validate({"dir": str(tmp_path)}))
    assert apart.value(SystemClock()).writers == ()
