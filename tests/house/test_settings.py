"""No setting is silently ignored: what nothing reads says so, and the table of those is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.app.application import CockpitApp
from cockpit.cli import main
from cockpit.config import advice as unreading
from cockpit.config.advice import UNREAD, unread_notice, unread_settings
from cockpit.config.check import TABLES, fields_of
from cockpit.config.file import load
from tests.house.reads import reads_of
from tests.screens.stand_in import StandIn, text_of
from tests.widgets import reports as made

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("cockpit", "screens", "widgets")
PLANTED = {"run.thresholds": ("instability_z", "instability_window", "resume_after", "disk_frac")}
"""What the tests say that nothing reads: the table itself may be empty."""
VALUES = {
    "instability_z": "7.0", "instability_window": "100", "resume_after": "0.1", "disk_frac": "0.8",
}  # fmt: skip


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreading, "UNREAD", PLANTED)


def setting(table: str, key: str) -> str:
    """A run file that sets one key."""
    heads = {"run.job": '[run.job]\nkind = "box"'}
    text = f"{heads.get(table, f'[{table}]')}\n{key} = {VALUES[key]}\n"
    return f'[[run]]\nname = "toy"\n{text}'


ROWS = [(table, key) for table, keys in PLANTED.items() for key in keys]


def shown_as(table: str, key: str) -> str:
    return f"{table}.{key}"


def notes(path: Path, capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    main(["doctor", "--json", "--config", str(path)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [each for each in findings if each["name"] == name]


def test_what_nothing_reads_stands_in_the_table_and_what_is_read_does_not() -> None:
    read = reads_of(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    below = tuple(f"{table}.{key}" for table, keys in UNREAD.items() for key in keys)
    unread = {
        f"{table}.{key}"
        for table, model in TABLES.items()
        if table not in below
        for key, name in fields_of(model).items()
        if (model.__name__, name) not in read
    }
    assert unread == set(below)


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(("table", "key"), ROWS, ids=[f"{a}.{b}" for a, b in ROWS])
def test_doctor_names_each_setting_without_effect(
    table: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(setting(table, key))
    (note,) = notes(path, capsys, "setting")
    assert note["text"] == f"{shown_as(table, key)} is set, but this version does not use it"
    assert note["run"] == ("toy" if table.startswith("run.") else None)
    assert note["level"] == "note" and note["remedy"]


def test_a_default_is_not_a_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(
        '[[run]]\nname = "toy"\njob = { kind = "box", host = "there" }\n'
        "thresholds = { spike_rows = 12 }\n[hosts.there]\nremedy = 'log in'\n"
    )
    assert unread_settings(load(path)) == ()
    assert notes(path, capsys, "setting") == []


@pytest.mark.usefixtures("planted")
def test_a_watch_says_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[cockpit]\ncadence = "1s"\n' + setting("run.thresholds", "instability_z"))
    main(["watch", "--once", "--config", str(path)])
    said = capsys.readouterr().err
    assert said.count("set, but not used by this version: toy: run.thresholds.instability_z") == 1


@pytest.mark.usefixtures("planted")
async def test_an_open_cockpit_says_it_when_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(setting("run.thresholds", "instability_z"))
    file = load(path)
    app = CockpitApp(file, StandIn(*(made.report(run.name) for run in file.runs)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "set, but not used by this version: toy: run.thresholds.instability_z" in text_of(
            app
        )


FORMER = """
[keys]
ack_take = "enter"
ack_why = "w"
ack_longer = ["right", "tab"]
ack_shorter = "left"
sort = "O"
[[run]]
name = "toy"
"""


async def test_the_cockpit_opens_with_keys_of_an_earlier_version(tmp_path: Path) -> None:
    path = _written(tmp_path, FORMER)
    app = CockpitApp(load(path), StandIn(made.report("toy")))
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        assert (
            "set, but not used by this version: keys.ack_take, keys.ack_why, keys.ack_longer and 1"
            " more; see `cockpit doctor`" in text_of(app)
        )
    assert app.keys.of("sort") == ("O",)


def test_doctor_names_each_key_of_an_earlier_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(tmp_path, FORMER)
    assert notes(path, capsys, "keys") == []
    found = {each["text"] for each in notes(path, capsys, "setting")}
    assert "keys.ack_shorter is set, but this version does not use it" in found and len(found) == 4


@pytest.mark.usefixtures("planted")
def test_one_line_names_the_first_three(tmp_path: Path) -> None:
    file = load(_written(tmp_path, setting("run.thresholds", "disk_frac")))
    assert unread_notice(file) == (
        "set, but not used by this version: toy: run.thresholds.disk_frac; see `cockpit doctor`"
    )
    many = setting("run.thresholds", "instability_z") + "".join(
        f"{key} = {VALUES[key]}\n" for key in PLANTED["run.thresholds"][1:]
    )
    assert "and 1 more" in (unread_notice(load(_written(tmp_path, many))) or "")


ELSEWHERE = """
[[run]]
name = "toy"
output_root = "/scratch/toy"
config_file = "config.json"
job = { kind = "slurm", id = "1", host = "isambard" }
checkpoints = { path = ["ssh://isambard/scratch/toy/ck", "/scratch/temp"], initialize_from = "b" }
code = { repo = "." }
"""


def test_a_path_that_silently_means_this_machine_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(tmp_path, ELSEWHERE)
    (note,) = notes(path, capsys, "paths")
    assert (note["run"], note["level"]) == ("toy", "note")
    named = "output_root, checkpoints.path, checkpoints.initialize_from, code.repo, config_file"
    assert note["text"].startswith(f"{named}: no scheme, so it means this machine")
    assert "isambard" in note["text"] and "ssh://isambard/" in note["remedy"]


@pytest.mark.parametrize(
    "written",
    [
        ELSEWHERE.replace(', host = "isambard"', ""),
        '[[run]]\nname = "toy"\noutput_root = "ssh://isambard/scratch/toy"\n'
        'job = { kind = "slurm", host = "isambard" }\ncode = { repo = "file:///home/ada/toy" }\n',
    ],
    ids=["no host", "schemes"],
)
def test_a_path_that_says_where_it_lies_is_none(
    written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notes(_written(tmp_path, written), capsys, "paths") == []


def _written(folder: Path, text: str) -> Path:
    path = folder / "cockpit.toml"
    path.write_text(text)
    return path
