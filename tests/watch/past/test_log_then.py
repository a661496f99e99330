"""A log up to a moment of the past: nothing later is in it, another text is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.model.history import Then
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.local import LocalLog
from cockpit.store.memory import Pasts
from cockpit.store.store import Store
from cockpit.watch.judge import LINES, face_of, slim
from cockpit.watch.past import CHANGED, log_then, then
from tests.watch.fakes import run_spec
from tests.widgets import reports as made

END = 1 << 62
LINE = len("line 000000 of the log\n")
BEGIN = datetime(2026, 3, 11, 3, 0, tzinfo=UTC).timestamp()


def run_on(path: Path) -> RunSpec:
    spec = run_spec("r", cadence=600.0)
    assert spec.job is not None
    return spec.model_copy(update={"job": spec.job.model_copy(update={"log": place_of(str(path))})})


def kept(tmp_path: Path, path: Path) -> Then:
    """Keep the run as it is, through the store, and return the moment."""
    found, store = run_on(path), Store(tmp_path / "store.sqlite")
    tail = LogFile(LocalLog(str(path))).tail(LINES + 5)
    size = path.stat().st_size
    log = made.log(path=str(path), size=size)
    assert log.value is not None
    value = log.value.model_copy(update={"lines": tail.lines, "offsets": tail.offsets})
    log = log.model_copy(update={"value": value})
    report = made.report("r", checked_at=BEGIN, spec=found, seen=made.facets(log=log))
    assert Pasts(store).keep("/x#r", slim(report), face_of(report), 600.0)
    return then(store, "/x#r", found, BEGIN + 60)


def lines(count: int, first: int = 0) -> str:
    return "".join(f"line {n:06d} of the log\n" for n in range(first, first + count))


def test_it_ends_where_it_ended_then_and_is_read_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(2000))
    found = kept(tmp_path, path)
    with path.open("a") as file:
        file.write(lines(3000, 2000))
    page, told = log_then(run_on(path), found, END, True)
    assert page.lines[-1].plain == "line 001999 of the log" and len(page.lines) == 600
    assert (page.end, page.size) == (2000 * LINE, 2000 * LINE)
    assert told == "from its file, up to 2026-03-11 03:00:00Z"
    former, _ = log_then(run_on(path), found, page.start, True)
    assert former.end == page.start and former.lines[-1].plain == "line 001399 of the log"
    last, _ = log_then(run_on(path), found, 1995 * LINE, False)
    assert [each.plain[5:11] for each in last.lines] == [f"00{n}" for n in range(1995, 2000)]
    assert last.end == last.size == 2000 * LINE


def test_a_line_that_was_being_written_is_left_out_and_the_rest_still_vouches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(100) + "half of a")
    found = kept(tmp_path, path)
    with path.open("a") as file:
        file.write(" line\nlater\n")
    page, _ = log_then(run_on(path), found, END, True)
    assert page.lines[-1].plain == "line 000099 of the log" and page.size == 100 * LINE


@pytest.mark.parametrize(
    "text",
    [
        lines(1500),
        lines(4000, 7),
        lines(1999) + "line 001999 of a log!!\n" + lines(10),
        "",
    ],
    ids=["truncated", "another", "edited", "empty"],
)
def test_another_text_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(2000))
    found = kept(tmp_path, path)
    path.write_text(text)
    with pytest.raises(OSError, match=CHANGED):
        log_then(run_on(path), found, END, True)
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        log_then(run_on(path), found, END, True)


def stamped(count: int) -> str:
    stamps = (datetime.fromtimestamp(BEGIN + 60 * n, UTC) for n in range(count))
    return "".join(f"{each:%Y-%m-%d %H:%M:%S} UTC step {n}\n" for n, each in enumerate(stamps))


@pytest.mark.parametrize("minutes", [0, 1, 30.5, 59, 90])
def test_where_no_line_is_kept_the_times_of_the_lines_tell(tmp_path: Path, minutes: float) -> None:
    path, at = tmp_path / "run.log", BEGIN + 60 * minutes
    path.write_text(stamped(60))
    page, told = log_then(run_on(path), Then(run="r", at=at), END, True)
    assert page.lines[-1].plain.endswith(f"step {min(59, round(minutes - 0.1))}")
    assert "by its lines' own times" in told and page.end == page.size


def test_every_line_of_the_last_moment_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    first = stamped(3).splitlines(keepends=True)
    burst = "".join(f"{first[1].rstrip()} part {n}\n" for n in range(5000))
    path.write_text(first[0] + burst + "  without a time\n" + first[2])
    for at in (BEGIN + 60, BEGIN + 75):
        page, _ = log_then(run_on(path), Then(run="r", at=at), END, True)
        assert page.lines[-1].plain.endswith("part 4999")


def test_a_moment_of_too_many_lines_is_not_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text((stamped(1).rstrip() + " x" * 500 + "\n") * 5000 + stamped(9))
    with pytest.raises(OSError, match="too many lines"):
        log_then(run_on(path), Then(run="r", at=BEGIN), END, True)


def test_a_time_of_day_is_that_of_no_day(tmp_path: Path) -> None:
    """Three days of it, read by the file's time, would all be of the last one."""
    path = tmp_path / "run.log"
    hours = (datetime.fromtimestamp(BEGIN + 3600 * n, UTC) for n in range(72))
    path.write_text("".join(f"[{each:%H:%M:%S}] step {n}\n" for n, each in enumerate(hours)))
    os.utime(path, (BEGIN + 3600 * 72, BEGIN + 3600 * 72))
    with pytest.raises(OSError, match="timestamp with a date"):
        log_then(run_on(path), Then(run="r", at=BEGIN + 3600 * 30), END, True)


def test_what_no_time_tells_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(100))
    with pytest.raises(OSError, match="no timestamp"):
        log_then(run_on(path), Then(run="r", at=BEGIN), END, True)
    path.write_text(stamped(60))
    with pytest.raises(OSError, match="begins later"):
        log_then(run_on(path), Then(run="r", at=BEGIN - 3600), END, True)
