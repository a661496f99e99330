"""What crosses between an engine and its windows arrives as it was."""

from __future__ import annotations

import asyncio
import math
import typing

import pytest

from cockpit.attach.client import Remote
from cockpit.attach.server import EngineCurves, LogReading
from cockpit.attach.wire import (
    ASKS,
    MOST,
    Hello,
    WireError,
    answer_in,
    answered,
    frame,
    page_in,
    read_frame,
    report_in,
)
from cockpit.model.curve import Curve, Curves, PackedColumns, Point
from cockpit.model.facet import not_configured
from cockpit.model.history import (
    Happening,
    KeptFigures,
    Kind,
    Moment,
    PastLog,
    Sign,
    Then,
    Timeline,
)
from cockpit.model.logtext import Hit, LogPage, Matches, Near
from cockpit.model.observed import Phase, Row
from cockpit.model.report import RunReport, Verdict, present_loss
from cockpit.model.run import CockpitFile
from cockpit.text.safe import safe_line
from cockpit.watch.past import PastReading
from tests.widgets import reports as made


async def crossed(document: dict[str, object]) -> dict[str, object]:
    reader = asyncio.StreamReader()
    reader.feed_data(frame(document))
    return await read_frame(reader)


@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
async def test_a_report_crosses_whole(report: RunReport) -> None:
    there = report_in((await crossed({"report": report}))["report"])
    assert frame({"report": there}) == frame({"report": report}), "as bytes: NaN equals nothing"
    assert there.facets.job == report.facets.job


async def test_colours_and_lost_numbers_cross() -> None:
    fleet = made.fleet()
    report = next(each for each in fleet if each.facets.log.value and each.facets.tracker.value)
    facets, line = report.facets, safe_line("\x1b[31mloss nan\x1b[0m")
    assert line.spans and facets.log.value and facets.tracker.value
    lines = {"value": facets.log.value.model_copy(update={"lines": (line,), "offsets": (0,)})}
    lost = {"value": facets.tracker.value.model_copy(update={"loss": math.nan})}
    new = {
        "log": facets.log.model_copy(update=lines),
        "tracker": facets.tracker.model_copy(update=lost),
    }
    sent = report.model_copy(update={"facets": facets.model_copy(update=new)})
    there = report_in((await crossed({"report": sent}))["report"]).facets
    assert there.log.value is not None and there.log.value.lines == (line,)
    assert there.tracker.value is not None and math.isnan(there.tracker.value.loss or 0)


async def test_the_loss_of_a_run_without_a_tracker_crosses() -> None:
    seen = made.log()
    assert seen.value is not None
    row = Row(8004, seen.value.mtime, 2.314)
    read = seen.value.model_copy(update={"newest_loss": row, "rows": (row,)})
    log = seen.model_copy(update={"value": read})
    sent = made.report("r", seen=made.facets(log=log, tracker=not_configured("W&B")))
    there = report_in((await crossed({"report": sent}))["report"])
    assert there.facets.log.value is not None and there.facets.log.value.rows == ()
    assert present_loss(there) == ("log", 2.314)


async def test_columns_cross_however_they_are_kept() -> None:
    report = made.fleet()[0]
    tracker = report.facets.tracker
    assert tracker.value is not None and tracker.value.columns
    packed = tracker.value.model_copy(update={"columns": PackedColumns(tracker.value.columns)})
    facet = tracker.model_copy(update={"value": packed})
    facets = report.facets.model_copy(update={"tracker": facet})
    sent = report.model_copy(update={"facets": facets})
    assert report_in((await crossed({"report": sent}))["report"]) == report


async def test_a_run_file_crosses_whole() -> None:
    file = CockpitFile(path="/data/cockpit.toml", runs=tuple(each.spec for each in made.fleet()))
    there = (await crossed({"file": file}))["file"]
    assert CockpitFile.model_validate(there) == file


ANSWERS = {
    "check": made.fleet()[0],
    "tail": LogPage((safe_line("\x1b[1ma"),), (0,), 0, 2, 2),
    "page": LogPage((), (), 7, 7, 9),
    "search": Hit(True, 3, 9),
    "find": None,
    "matches": Matches((3, 17), 0, 99, 120),
    "sift": LogPage((safe_line("E"),), (40,), 0, 99, 120, (3,), 5),
    "exact_step": Hit(False, 3, 3),
    "line_at": 12,
    "nearest_step": Near(3, 130.0),
    "nearest_time": None,
    "curves": Curves(("train/loss",), (Curve("train/loss", newest=Point(3, None, 2.5), rows=1),)),
    "timeline": Timeline(
        run="r",
        happenings=(Happening(at=3.0, kind=Kind.ALERT, sign=Sign.CRITICAL, text="a", key="C-01"),),
        moments=(Moment(1.0, Verdict.HEALTHY, True), Moment(2.0, Verdict.UNKNOWN, False)),
        begins=1.0,
        lacks=("why",),
    ),
    "then": Then(
        run="r",
        at=3.0,
        report=made.fleet()[0],
        recorded_at=2.0,
        watched=True,
        seen=KeptFigures(at=2.5, verdict=Verdict.HEALTHY, phase=Phase.RUNNING, step=7),
    ),
    "log_then": PastLog(LogPage((safe_line("a"),), (0,), 0, 2, 2), "read from the file"),
}


@pytest.mark.parametrize("what", ASKS)
async def test_every_answer_crosses(what: str) -> None:
    async def known() -> object:
        return ANSWERS[what]

    assert answer_in(what, await crossed(await answered(known()))) == ANSWERS[what]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(2, "gone"), OSError),
        (TimeoutError("late"), TimeoutError),
        (ValueError("a("), ValueError),
    ],
)
async def test_trouble_crosses_as_what_it_was(error: Exception, kind: type[Exception]) -> None:
    async def fails() -> object:
        raise error

    with pytest.raises(kind):
        answer_in("tail", await crossed(await answered(fails())))


@pytest.mark.parametrize(
    ("reading", "others"),
    [(PastReading, set()), (LogReading, {"place"}), (EngineCurves, set())],
)
def test_a_window_can_ask_for_all_that_the_engine_reads(reading: type, others: set[str]) -> None:
    own = {name for name in vars(reading) if not name.startswith("_")} - others
    assert own and own <= ASKS.keys()
    window = Remote(no_answer, lambda run: None)
    assert all(callable(getattr(window, name)) for name in own)
    assert not hasattr(window, "no_such_question")


async def no_answer(*_: object) -> object:
    raise TimeoutError


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x01{", (MOST + 1).to_bytes(4, "big")]
)
async def test_what_is_no_frame_is_said(data: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    with pytest.raises(WireError):
        await read_frame(reader)


async def test_the_end_in_the_middle_of_a_frame_is_the_end() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(frame({"say": "beat"})[:-1])
    reader.feed_eof()
    with pytest.raises(EOFError):
        await read_frame(reader)


@pytest.mark.parametrize("content", [None, {}, {"facets": 1}])
def test_a_report_of_another_shape_is_said(content: object) -> None:
    with pytest.raises(WireError):
        report_in(content)


def test_a_page_of_another_shape_is_said() -> None:
    with pytest.raises(WireError):
        page_in([[], [], 0])


def _values_in(kind: object, found: set[type]) -> None:
    """Collect the classes of ours that a value of this kind is made of."""
    for each in typing.get_args(kind):
        _values_in(each, found)
    if isinstance(kind, type) and kind.__module__.startswith("cockpit.") and kind not in found:
        found.add(kind)
        for each in typing.get_type_hints(kind).values():
            _values_in(each, found)


def test_a_build_is_told_by_the_rooms_of_all_that_crosses() -> None:
    found: set[type] = set()
    for kind in (RunReport, CockpitFile, Hello, LogPage, Curves, Timeline, Then, PastLog):
        _values_in(kind, found)
    rooms = {each.__module__.split(".")[1] for each in found}
    assert len(found) > 50 and rooms == {"attach", "model"}
