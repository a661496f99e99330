"""What a window makes of what it is told, in whatever order that comes."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from cockpit.attach import client
from cockpit.attach.client import AttachedEngine
from cockpit.attach.wire import Document, WireError, frame
from cockpit.model.clock import SystemClock
from cockpit.model.report import NOT_ASKED, Verdict
from cockpit.model.run import CockpitFile
from cockpit.model.shared_facts import OwnerNow
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from tests.widgets import reports as made
from widgets.fleet_header import Watch, paint_header

FLEET = made.fleet()[:3]
FILE = CockpitFile(path="/data/cockpit.toml", runs=tuple(each.spec for each in FLEET[:2]))
EDITED = FILE.model_copy(update={"runs": tuple(each.spec for each in FLEET[1:])})


class Quick(SystemClock):
    """Whose seconds are short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 1000)


def told(engine: AttachedEngine, *documents: Document) -> list[str]:
    for document in documents:
        engine._take(json.loads(frame(document)[4:]))
    return [each.next_action for each in engine.report().runs]


def window() -> AttachedEngine:
    return AttachedEngine(FILE, None, SystemClock(), attends=True)


def report(place: int) -> Document:
    return {"say": "report", "log": None, "report": FLEET[place]}


def order(file: CockpitFile) -> Document:
    return {"say": "order", "runs": [run.name for run in file.runs]}


def test_a_run_that_is_new_is_shown_whichever_word_of_it_comes_first() -> None:
    edited: Document = {"say": "file", "file": EDITED}
    known = [FLEET[1].next_action, FLEET[2].next_action]
    for last in (
        (report(2), order(EDITED), edited, order(EDITED)),
        (order(EDITED), report(2), edited, order(EDITED)),
        (edited, order(EDITED), report(2)),
    ):
        assert told(window(), order(FILE), report(0), report(1), *last) == known


def test_a_run_that_has_left_the_file_comes_back_with_no_late_report() -> None:
    engine = window()
    told(engine, order(FILE), report(0), report(1), {"say": "file", "file": EDITED}, order(EDITED))
    assert told(engine, report(0)) == [FLEET[1].next_action, "wait for the first look"]
    assert engine.file == EDITED


def test_what_has_changed_is_taken_into_what_this_engine_told_last() -> None:
    engine, name = window(), FLEET[0].name
    news: Document = {"next_action": "another", "facets": {}}
    change: Document = {"say": "report", "log": None, "of": name, "report": news}
    assert told(engine, order(FILE), report(0), report(1), change)[0] == "another"
    engine._reports[name] = FLEET[0].as_remembered()  # no engine was heard for long
    told(engine, change)
    assert engine.report().runs[0].verdict is FLEET[0].verdict
    told(engine, order(EDITED), order(FILE))
    with pytest.raises(WireError):  # of a run that had left this engine told nothing yet
        told(engine, change)


def test_it_says_that_it_attaches_until_a_report_comes() -> None:
    engine = window()
    heard: list[str] = []
    engine.subscribe(lambda report: heard.append(report.name))
    assert "attaching" in engine.notices[-1]
    told(engine, {"say": "beat", "notices": ["disk full"]}, order(FILE), report(1))
    assert engine.notices == ("disk full",)
    assert heard == [FLEET[1].name]


def test_before_anything_was_asked_no_run_is_said_to_have_no_job() -> None:
    for each in window().report().runs:
        assert each.not_read_yet and each.facets.job.configured
        assert each.facets.tracker.configured == (each.spec.wandb is not None)


async def test_what_no_engine_stands_behind_is_no_news() -> None:
    engine = AttachedEngine(FILE, None, Quick(), attends=True)
    told(engine, order(FILE), report(0), report(1))
    assert not any(each.not_read_yet for each in engine.report().runs)
    minding = asyncio.ensure_future(engine._mind_silence())
    async with asyncio.timeout(5):
        while not engine.silent:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert engine.silent.startswith("no engine since ")
        for each in engine.report().runs:
            assert each.not_read_yet and each.watched_by is None and each.next_check_at is None
            assert each.verdict is not Verdict.HEALTHY
        painted: list[tuple[str, str]] = []
        engine.subscribe(lambda each: painted.append((each.name, engine.silent)))
        told(engine, {"say": "beat"})
        assert painted == [(run.name, "") for run in FILE.runs], "the header is painted at once"
        told(engine, report(0))
        while engine.silent:  # noqa: ASYNC110
            await asyncio.sleep(0)
    minding.cancel()
    assert engine.report().runs[0].not_read_yet is None


def test_before_an_engine_answers_every_run_counts_as_not_read_yet_and_none_as_judged() -> None:
    reports = window().report().runs
    assert [each.not_read_yet for each in reports] == [NOT_ASKED] * len(FILE.runs)
    head = paint_header(reports, Watch(), reports, 200).plain
    assert f"{len(reports)} not read yet" in head and "unknown" not in head


def test_what_the_store_remembers_calls_no_run_well_and_names_who_answers(tmp_path: Path) -> None:
    well = next(each for each in made.fleet() if each.verdict is Verdict.HEALTHY)
    handed = well.model_copy(update={"owner": OwnerNow(name="bob", source="handover")})
    file = CockpitFile(path=str(tmp_path / "cockpit.toml"), runs=(well.spec,))
    with closing(Store(tmp_path / "store.sqlite")) as store:
        RunMemory(store).save_reports([(run_key(file.path, well.name), handed)])
        engine = AttachedEngine(file, store, SystemClock(), attends=True)
        (recalled,) = engine._remembered((well.name,))
    assert recalled.not_read_yet and recalled.verdict is Verdict.UNKNOWN
    assert recalled.progress.eta_s is None and recalled.next_check_at is None
    assert (recalled.spec.dri, recalled.owner) == ("bob", handed.owner)


async def test_an_engine_is_started_after_the_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, looked, started = window(), asyncio.Event(), asyncio.Event()
    happened: list[str] = []
    engine.first_frame = asyncio.Event()

    def nobody_serves(_: object) -> None:
        looked.set()

    async def starts(*_: object, **__: object) -> None:
        happened.append("engine")
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(client, "connect", nobody_serves)
    monkeypatch.setattr(client, "offload", starts)
    watching = asyncio.create_task(engine.run())
    await looked.wait()
    happened.append("frame")
    engine.first_frame.set()
    await started.wait()
    watching.cancel()
    assert happened == ["frame", "engine"]
