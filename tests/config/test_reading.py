"""A file that the run file names and that hangs keeps nobody waiting (SPEC C-20: unknown)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config import reading
from cockpit.config.file import Reloader, load


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every read waits until the event is set: a mount whose server is gone."""
    answers, really = threading.Event(), reading._read

    def hanging(path: Path, most: int) -> bytes:
        answers.wait()
        return really(path, most)

    monkeypatch.setattr(reading, "_read", hanging)
    monkeypatch.setattr(reading, "PATIENCE", 0.05)
    yield answers
    answers.set()
    _come_back()


def _come_back() -> None:
    for thread in tuple(reading._given_up.values()):
        thread.join(5)


def test_a_config_on_a_hung_mount_is_unknown_and_read_when_it_answers(
    tmp_path: Path, mount: threading.Event
) -> None:
    (tmp_path / "c.json").write_text('{"max_steps": 70}')
    (tmp_path / "d.json").write_text('{"n": 9}')
    file = tmp_path / "cockpit.toml"
    file.write_text(
        '[[run]]\nname = "a"\nconfig_file = "c.json"\n'
        '[[run]]\nname = "b"\nconfig_file = "c.json"\n'
        '[[run]]\nname = "d"\nfinal_step_from = { file = "d.json", key = "n" }\n'
    )
    old = load(file)
    (first,), (second,) = (run.final_step_told for run in old.runs[:2])
    assert (first.step, first.text) == (
        None, f"config file: {tmp_path / 'c.json'} did not respond within 0.05 s",
    )  # fmt: skip
    assert second.why == f"{tmp_path / 'c.json'} still does not respond"
    assert old.runs[2].final_step_source == "unknown: d.json: did not respond within 0.05 s"
    keeper = Reloader(old)
    assert not keeper.check(), "nothing has answered yet"
    mount.set()
    _come_back()
    assert keeper.check()
    assert [run.final_step for run in keeper.file.runs] == [70, 70, 9]
    assert not keeper.check(), "told of once"
