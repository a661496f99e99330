"""The demo on a Ray head: what it submits, whether the head sees this machine, what it leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.demo.away import kinds, session, site
from cockpit.demo.away.kinds import RaySite
from cockpit.demo.away.session import LeftError, prepare, remove, running, situations_of
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import SITUATIONS
from cockpit.platforms.base import CannotError, LostError
from tests.demo.away.head import Head, serving
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for that the head here does at once; few runs stand for all."""
    monkeypatch.setattr(kinds, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(site, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(session, "SETTLE", 0.0)
    monkeypatch.setattr(session, "SITUATIONS", SITUATIONS[:2])


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    home = tmp_path / "home of ray"
    home.mkdir()
    with serving(home) as made:
        yield made


def test_a_head_that_sees_the_folder_trains_in_it(head: Head, layout: DemoLayout) -> None:
    head.jobs["demo-slow"] = {"submission_id": "demo-slow", "status": "RUNNING"}  # somebody's
    journal = prepare(layout, RaySite(head.url))
    ground, names = journal.ground, [each.launch_id for each in situations_of(journal)]
    assert ground is not None and ground.seen and ground.folder == str(layout.folder)
    assert ground.python == sys.executable and len(names) == 2
    with running(journal, keep=False) as demo:
        until(lambda: all(journal.jobs.get(name) for name in names))
        assert journal.jobs == {name: name for name in names}
        assert {head.jobs[name]["status"] for name in names} == {"RUNNING"}
        assert f"cd {layout.folder}/code && exec" in head.jobs[names[0]]["entrypoint"]
        head.ghosts.add(names[1])
    assert demo.trouble is None
    assert list(head.jobs) == ["demo-slow"] and not layout.folder.exists()
    assert head.jobs["demo-slow"]["status"] == "RUNNING"


def test_a_head_that_does_not_is_sent_the_files_and_swept(head: Head, layout: DemoLayout) -> None:
    head.hidden = layout.folder
    journal = prepare(layout, RaySite(head.url, sys.executable))
    ground = journal.ground
    assert ground is not None and not ground.seen and not ground.tracker
    there = Path(ground.folder)
    assert there.parent == head.home and (there / "code/cockpit/demo/trainer.py").exists()
    (situation,) = situations_of(journal)  # a torn checkpoint would not be seen
    assert (there / "runs" / situation.name / "config.json").exists()
    (run,) = load(layout.run_file).runs
    assert run.checkpoints is None and run.wandb is None and run.output_root is None
    remove(layout)
    assert not there.exists() and not head.jobs and not layout.folder.exists()
    assert [name.split("-")[1] for name in head.ran] == ["probe", "ship", "sweep"]


def test_a_python_that_is_not_there(head: Head, layout: DemoLayout) -> None:
    with pytest.raises(CannotError, match=r"not found.*--python"):
        prepare(layout, RaySite(head.url, "/nowhere/python3"))
    assert not head.jobs and not layout.folder.exists()


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (401, b"Unauthorized", CannotError, "RAY_AUTH_TOKEN"),
        (403, b"Forbidden", CannotError, "RAY_AUTH_TOKEN"),
        (404, b"no", CannotError, "--address must be the dashboard"),
        (200, b"<html>", LostError, "Ray at"),
        (500, b"boom", LostError, "Ray at"),
    ],
)
def test_a_head_that_refuses(
    head: Head, layout: DemoLayout, status: int, body: bytes, error: type[Exception], text: str
) -> None:
    head.refusal = (status, body)
    with pytest.raises(error) as caught:
        prepare(layout, RaySite(head.url))
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_what_cannot_be_taken_away_is_said_and_can_be_tried_again(
    head: Head, layout: DemoLayout
) -> None:
    journal = prepare(layout, RaySite(head.url))
    assert journal.ground is not None
    situation = situations_of(journal)[0]
    journal.note(situation.launch_id, None)
    journal.site.submit(situation, journal.ground)
    head.refusal = (403, b"Forbidden")
    with pytest.raises(LeftError, match="--clean"):
        remove(layout)
    assert layout.away.exists()
    head.refusal = None
    remove(layout)
    assert not head.jobs and not layout.folder.exists()


@pytest.mark.parametrize("address", ["ftp://h", "http://", "http://h:0"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(CannotError, match="--address"):
        RaySite(address)
