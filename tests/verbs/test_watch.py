import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from tests.verbs.tiny_run import TinyRun, environment
from tests.warm import Warm

PATIENCE = 180.0


@pytest.fixture(autouse=True)
def _quick(tiny: TinyRun) -> None:
    tiny.config.write_text(tiny.config.read_text().replace('"2s"', '"1s"'))


@contextmanager
def started(tiny: TinyRun, *words: str) -> Iterator[subprocess.Popen[str]]:
    watch = Warm("cockpit", "watch", "--config", str(tiny.config), *words, env=environment())
    try:
        yield watch
    finally:
        if watch.poll() is None:
            watch.kill()
        watch.communicate(timeout=PATIENCE)


def line_of(watch: subprocess.Popen[str]) -> str:
    assert watch.stdout is not None
    return watch.stdout.readline()


def states(tiny: TinyRun) -> list[dict[str, object]]:
    files = sorted((tiny.folder / "scratch").glob("*_monitoring_state.json"))
    return [json.loads(file.read_text()) for file in files]


def test_one_cadence(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    """In one of a second a log whose look is older than that is rightly not read in time."""
    tiny.config.write_text(tiny.config.read_text().replace('"1s"', '"30s"'))
    code = main(["watch", "--once", "--config", str(tiny.config)])
    (line,) = capsys.readouterr().out.splitlines()
    words = line.split()
    assert words[0].endswith("Z") and words[1:4] == ["tiny", "healthy", "RUNNING"], line
    assert words[4].endswith("/1,000") and "loss" in words
    assert code in (0, 1)
    ours = [state for state in states(tiny) if state.get("run") == "tiny"]
    assert [state["owner"] for state in ours] == ["ada"]
    store = Store(store_path())
    assert RunMemory(store).observations(run_key(str(tiny.config), "tiny"))


def test_a_line_every_cadence_and_a_clean_leave(tiny: TinyRun) -> None:
    with started(tiny) as watch:
        lines = [line_of(watch) for _ in range(3)]
        assert all(" tiny " in line for line in lines)
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(PATIENCE) == 130
        assert watch.stderr is not None
        assert watch.stderr.read() == ""
    assert main(["watch", "--once", "--config", str(tiny.config)]) != 4


def test_a_second_watch_ends_with_4_and_names_the_first(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tiny) as watch:
        line_of(watch)
        assert main(["watch", "--once", "--config", str(tiny.config)]) == 4
        said = capsys.readouterr()
        assert said.out == ""
        assert "ada" in said.err and f"pid {watch.pid}" in said.err


def test_a_takeover_ends_the_first(tiny: TinyRun) -> None:
    with started(tiny) as first:
        line_of(first)
        with started(tiny, "--takeover") as second:
            assert " tiny " in line_of(second)
            assert first.wait(PATIENCE) == 4
            assert first.stderr is not None
            assert "taken over by ada (watch on" in first.stderr.read()


def test_a_killed_watch_owns_nothing(tiny: TinyRun) -> None:
    with started(tiny) as watch:
        line_of(watch)
        watch.kill()
        watch.wait(PATIENCE)
    assert main(["watch", "--once", "--config", str(tiny.config)]) != 4


def test_json_is_one_document_a_line(tiny: TinyRun) -> None:
    with started(tiny, "--json") as watch:
        documents = [json.loads(line_of(watch)) for _ in range(2)]
    assert all(document["schema"] == 1 for document in documents)
    assert documents[0]["runs"][0]["facets"]["job"]["value"]["phase"] == "running"
    assert documents[0]["checked_at"] < documents[1]["checked_at"]


def test_until_a_step(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--until", "step=20", "--config", str(tiny.config)]) in (0, 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert int(last.split()[4].removeprefix("~").split("/")[0]) >= 20


def test_until_a_time_that_is_past(tiny: TinyRun) -> None:
    words = ["watch", "--until", "time=2020-01-01T00:00:00Z", "--config", str(tiny.config)]
    assert main(words) in (0, 1)


def test_a_death_is_told_within_a_cadence_and_the_watch_goes_on(tiny: TinyRun) -> None:
    with started(tiny) as watch:
        line_of(watch)
        tiny.die()
        seen = [line_of(watch) for _ in range(3)]
        assert watch.poll() is None
    assert "C-01" in seen[-1] and " critical FAILED " in seen[-1]


def test_a_run_that_an_edit_adds_is_watched_and_one_that_it_removes_is_not(tiny: TinyRun) -> None:
    before = tiny.config.read_text()
    with started(tiny) as watch:
        assert line_of(watch)
        tiny.config.write_text(before + '[[run]]\nname = "second"\n')
        while line_of(watch).split()[1] != "second":
            pass
        tiny.config.write_text(before)
        names = [line_of(watch).split()[1] for _ in range(8)]
        assert names[-3:] == ["tiny"] * 3
