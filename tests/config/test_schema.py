"""The run file's JSON Schema takes what the program takes, and tells of every key."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cockpit.app.for_verbs import key_problems
from cockpit.cli import main
from cockpit.config.build import SECTIONS
from cockpit.config.check import TABLES, keys_of
from cockpit.config.file import load, state_dir
from cockpit.config.schema import TOP, meaning
from cockpit.model.base import duration_text, parse_duration
from cockpit.verbs.schema import keep_schema, run_file_schema
from screens.hotkeys import ACTIONS

ROOT = Path(__file__).resolve().parents[2]
ONE = '[[run]]\nname = "a"\n'
RICH = """
[cockpit]
cadence = 60
[[run]]
name = "a"
cadence = "1h30m"
resubmit = ["python", "train.py"]
job = { kind = "box", host = "gpu", match = "train.py", grace = "90s" }
checkpoints = { path = ["c", "gs://b/c"], layout = { pattern = "c_(\\\\d+)" }, protect = [1, 2] }
thresholds = { spike_rows = 12, throughput_drop = 0.3 }
final_step_from = { file = "c.json", key = "steps" }
[notify]
quiet = "22:00-07:00"
routes = [{ min = "alert", url_env = "SLACK_URL" }]
[ui]
theme = "cockpit-light"
[keys]
filter = "F"
sort = ["O", "f5"]
[hosts.gpu]
remedy = "log in"
"""


def shown_files() -> Iterator[Any]:
    """Every whole run file of the documents."""
    for name in ("README.md", "docs/trainers.md", "docs/start.md", "docs/kubernetes.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for number, block in enumerate(re.findall(r"```toml\n(.*?)```", text, re.S)):
            if "[[run]]" in block:
                yield pytest.param(block, id=f"{name}-{number}")
    yield pytest.param(RICH, id="rich")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return run_file_schema()


def wrong(schema: dict[str, Any], text: str) -> list[str]:
    found = jsonschema.Draft7Validator(schema).iter_errors(tomllib.loads(text))
    return sorted(error.json_path for error in found)


def settings_in(shape: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, inner in shape.get("properties", {}).items():
        yield f"{path}{key}", inner
        yield from settings_in(inner.get("items", inner), f"{path}{key}.")


def test_it_is_a_schema_that_needs_nothing_from_elsewhere(schema: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(schema)
    assert '"$ref"' not in json.dumps(schema)


@pytest.mark.parametrize("text", [*shown_files()])
def test_the_run_files_that_are_shown_are_valid(
    text: str, schema: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "cockpit.toml").write_text(text)
    load(tmp_path / "cockpit.toml")
    assert wrong(schema, text) == []


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('dir = "x"', "$.run[0]"),
        ("cadence = 'soon'", "$.run[0].cadence"),
        ("job = { kind = 'cron' }", "$.run[0].job.kind"),
        ("thresholds = { disk_frac = 90 }", "$.run[0].thresholds.disk_frac"),
        ("checkpoints = { protect = [-1] }", "$.run[0].checkpoints.protect[0]"),
        ("checkpoints = { layout = 'zip' }", "$.run[0].checkpoints.layout"),
        ("job = { kind = 'ray', token_env = 'a b' }", "$.run[0].job.token_env"),
        ("[keys]\nfliter = 'F'", "$['keys']"),
        ("[ui]\ntheme = 'pink'", "$.ui.theme"),
    ],
)
def test_what_the_program_refuses_is_underlined(
    line: str, place: str, schema: dict[str, Any]
) -> None:
    assert [each.replace("$.keys", "$['keys']") for each in wrong(schema, ONE + line)] == [place]


@pytest.mark.parametrize("table", TABLES)
def test_a_sentence_stands_below_the_field_of_each_key(table: str) -> None:
    for key in keys_of(table):
        assert meaning(TABLES[table], key).endswith((".", ","))


def test_the_schema_has_every_key_with_what_it_means(schema: dict[str, Any]) -> None:
    assert sorted(TOP) == sorted(SECTIONS)
    told = dict(settings_in(schema))
    assert {f"keys.{each.id}" for each in ACTIONS} < told.keys()
    assert [path for path, shape in told.items() if len(shape.get("description", "")) < 10] == []
    assert told["run.cadence"].get("default") is None  # the file's own
    assert told["cockpit.cadence"]["default"] == "15m"
    assert told["run.thresholds.flap_window"]["default"] == "6h"
    assert told["keys.quit"]["default"] == ["q", "ctrl+q"]


@pytest.mark.parametrize("seconds", [0.0, 0.5, 60.0, 90.0, 900.0, 5400.0, 86400.0])
def test_a_duration_is_written_as_it_is_read(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


def test_init_names_it_in_the_first_line_and_keeps_it_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["init", "local:run.log", "--set", "name=a", "--set", "job.pid_file=p"]) == 0
    first = (tmp_path / "cockpit.toml").read_text().splitlines()[0]
    kept = state_dir() / "cockpit.schema.json"
    assert first == f"#:schema {kept}"
    assert json.loads(kept.read_text()) == run_file_schema()
    kept.write_text("{}")
    assert keep_schema() == kept
    assert json.loads(kept.read_text()) == run_file_schema()
    load(tmp_path / "cockpit.toml")


def test_init_writes_the_run_file_all_the_same_where_no_schema_can_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file, no folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["init", "local:run.log", "--set", "name=a", "--set", "job.pid_file=p"]) == 0
    assert "no editor schema written" in capsys.readouterr().err
    assert "#:schema" not in (tmp_path / "cockpit.toml").read_text()


def test_doctor_names_each_wrong_key_of_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cockpit.toml").write_text(ONE + '[keys]\nfliter = "F"\nsort = ["f5", "O"]\n')
    main(["doctor", "--json"])
    told = [
        each["text"]
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["name"] == "keys"
    ]
    assert told == ['keys.fliter: there is no such action; did you mean "filter"?']
    assert key_problems({"sort": ["f5", "O"]}) == ()
