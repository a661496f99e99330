"""Curves of runs whose ``.wandb`` files lie on an ssh host: as here, in few trips, not twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.curve import Curve, Span
from cockpit.model.facet import ErrorKind
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.curves import CurveReading
from cockpit.sources.trackers import Trackers
from cockpit.verbs import plot
from tests.hosts.here import CallsHere
from tests.queries import queries_of
from tests.sources.wandb import writer
from tests.sources.wandb.test_box import grown, launch, local, rows, spec
from tests.sshd import needs_sshd, serving

SPAN = Span(most=400)


def reading(calls: CallsHere) -> tuple[CurveReading, Trackers]:
    clock = SystemClock()
    source = Trackers(clock, call=calls)
    return CurveReading(source, clock), source


async def read(curves: CurveReading, run: RunSpec, *metrics: str) -> list[Curve]:
    """Ask as a window does, until all is read."""
    for _ in range(60):
        found = (await curves.curves(run, metrics or ("loss",), SPAN)).curves
        if all(each.share == 1.0 for each in found):
            return list(found)
    raise AssertionError(f"never read: {[each.share for each in found]}")


def many(first: int, end: int) -> list[bytes]:
    return rows(first, end, "2.5", **{"eval/accuracy": "0.5", "lr": "0.001"})


async def test_the_curves_are_those_of_the_same_files_here(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *many(0, 3000))
    launch(tmp_path, "abc", *many(2500, 4000), writer.row(4001, '"NaN"', 1.0), day=2)
    run, asked = spec(tmp_path, id="abc"), ("loss", "eval/accuracy", "lr")
    calls = CallsHere()
    there, here = reading(calls)[0], reading(CallsHere())[0]
    assert repr(await read(there, run, *asked)) == repr(await read(here, local(run), *asked))
    names = (await there.curves(run, asked, SPAN)).names
    assert {"eval/accuracy", "lr", "train/loss"} <= set(names)
    assert calls.trips <= 8


async def test_a_metric_logged_only_in_the_midst_of_a_file_is_found_by_its_name(
    tmp_path: Path,
) -> None:
    seldom = rows(4500, 4502, **{"eval/odd": "0.5"})
    launch(tmp_path, "abc", *rows(0, 4500), *seldom, *rows(4502, 9000))
    run, curves = spec(tmp_path, id="abc"), reading(CallsHere())[0]
    assert "eval/odd" not in (await curves.curves(run, ("loss",), SPAN)).names
    for each in (run, local(run).model_copy(update={"name": "here"})):
        (found,) = await read(curves, each, "eval/odd")
        assert (found.why, found.rows, found.parts[0].first) == ("", 2, 4500)
    (missing,) = await read(curves, run, "eval/even")
    assert missing.why == "no metric eval/even was logged"


async def test_only_new_bytes_are_brought_once_all_is_read(tmp_path: Path) -> None:
    path = launch(tmp_path, "abc", *many(0, 30_000))
    run, calls = spec(tmp_path, id="abc"), CallsHere()
    curves, source = reading(calls)
    await read(curves, run, "loss", "lr")
    size = path.stat().st_size
    assert size < calls.bytes < 2.5 * size, "the newest rows come before those in order"
    brought, trips = calls.bytes, calls.trips
    await read(curves, run, "loss", "lr", "eval/accuracy")
    assert calls.bytes - brought < size / 10, "another metric is read from what is here"
    await read(curves, run, "loss", "lr", "eval/accuracy")
    assert calls.trips <= trips + 2
    grown(path, *many(30_000, 30_100))
    brought = calls.bytes
    await source.observe(queries_of([run]))
    (found,) = await read(curves, run)
    assert found.newest is not None and found.newest.step == 30_099
    assert calls.bytes - brought < size / 10


async def test_a_large_file_comes_in_bounded_pieces_and_says_how_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.sources.curves.TURN", 0.0)
    launch(tmp_path, "abc", *many(0, 30_000))
    run, calls = spec(tmp_path, id="abc"), CallsHere()
    curves, _ = reading(calls)
    (first,) = (await curves.curves(run, ("loss",), SPAN)).curves
    assert 0 < first.share < 0.5 and calls.bytes < 2_000_000
    (whole,) = await read(curves, run)
    assert whole.rows == 30_000


async def test_a_host_that_is_gone_hides_nothing_that_was_read(tmp_path: Path) -> None:
    path = launch(tmp_path, "abc", *many(0, 500))
    run, calls = spec(tmp_path, id="abc"), CallsHere()
    curves, source = reading(calls)
    calls.down = RemoteError(ErrorKind.REFUSED, "box: no route to host")
    (found,) = (await curves.curves(run, ("loss",), SPAN)).curves
    assert found.why == "box: no route to host" and not found.parts
    calls.down = None
    await read(curves, run)
    grown(path, *many(500, 20_000))
    await source.observe(queries_of([run]))
    calls.down = RemoteError(ErrorKind.REFUSED, "box: no route to host")
    for _ in range(2):
        (found,) = (await curves.curves(run, ("loss",), SPAN)).curves
    assert found.rows >= 500 and found.share < 1.0 and found.note == "box: no route to host"
    calls.down = None
    (found,) = await read(curves, run)
    assert found.rows == 20_000 and found.note == ""


def cut(path: Path, _: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 13)


def shorter(path: Path, beside: Path) -> None:
    launch(beside, "abc", *rows(0, 300, "7.5", lr="0.5")).replace(path)


def longer(path: Path, beside: Path) -> None:
    launch(beside, "abc", *rows(0, 3000, "7.5", lr="0.5")).replace(path)


def half_written(path: Path, _: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes()[-5000:-4000])
    launch(path.parent.parent, "abc", *many(2000, 2400), day=2)


def gone(path: Path, _: Path) -> None:
    launch(path.parent.parent, "abc", *many(2000, 2400), day=2)
    path.unlink()


@pytest.mark.parametrize("change", [cut, shorter, longer, half_written, gone])
async def test_what_became_of_a_file_is_seen_as_here(
    change: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "wandb"
    folder.mkdir()
    path = launch(folder, "abc", *many(0, 2000))
    run, asked = spec(folder, id="abc"), ("loss", "lr")
    curves, source = reading(CallsHere())
    await read(curves, run, *asked)
    change(path, tmp_path)
    await source.observe(queries_of([run]))
    anew = await read(reading(CallsHere())[0], local(run), *asked)
    assert repr(await read(curves, run, *asked)) == repr(anew)


async def test_no_run_there_is_said(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *many(0, 5))
    curves, _ = reading(CallsHere())
    (found,) = (await curves.curves(spec(tmp_path, id="other"), ("loss",), SPAN)).curves
    assert "no W&B run other" in found.why and "abc" in found.why


@needs_sshd
async def test_plot_reads_a_run_on_a_real_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as sshd:
        monkeypatch.setenv("PATH", f"{sshd.root}/bin:{os.environ['PATH']}")
        folder = sshd.home / "wandb"
        folder.mkdir()
        launch(folder, "abc", *many(0, 2000))
        run = RunSpec(name="hero", wandb=WandbSpec(dir=f"ssh://{sshd.host}/~", id="abc"))
        found = await plot.read(run, ("loss", "eval/accuracy"), SPAN)
        assert [(each.rows, each.share, each.why) for each in found.curves] == [(2000, 1.0, "")] * 2
