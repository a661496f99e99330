"""``plot``: curves as text, SVG and JSON, of JSON lines, a ``.wandb`` file and a run."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.curve import Curve, Part, Point, Restart
from cockpit.verbs.plot import marks_of
from cockpit.verbs.plot_chart import LEAST, ChartEvent, Picture, charts, svg
from tests.sources.wandb import writer
from tests.widgets import reports as made

START = 1_700_000_000.0


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A thousand rows, two seconds apart; the loss falls from 6 to 1, then is NaN."""
    path = tmp_path / "toy.jsonl"
    lines = [
        {"step": at, "loss": 6 - at / 100 if at < 500 else float("nan"), "grad_norm": 0.5,
         "time": START + 2 * at}
        for at in range(1000)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["plot", *words]) == code
    return capsys.readouterr().out


def test_a_curve_as_text(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, rows, "--width", "70", "--height", "16").splitlines()
    assert lines[0].startswith("loss  NaN at step 999, 2023-11-14")
    assert max(map(len, lines)) <= 70
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == list("65432")
    assert lines[-2].split()[0] == "0" and lines[-2].split()[-1] == "500"
    assert lines[-1].startswith("NaN or inf since step 500 (2023-11-14 22:30:00Z), 500 rows")
    wide = said(capsys, rows, "--width", "100").splitlines()
    assert wide[-1].endswith(", 500 rows; the axis ends there")


def test_steps_and_times(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    part = said(capsys, rows, "--steps", "100:200").splitlines()
    labels = [line for line in part if "NaN or inf" not in line][-1].split()
    assert (labels[0], labels[-1]) == ("100", "200")
    timed = said(capsys, rows, "grad norm", "--x", "time", "--since", "500").splitlines()
    assert timed[-1] == "times are UTC"
    assert timed[-2].split()[:3] == ["22:30", "22:35", "22:40"]


def test_the_document_has_every_part(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, rows, "loss", "throughput", "--json", "--steps", ":99"))
    loss, rate = found["curves"]
    assert (found["schema"], found["run"], found["x"], loss["rows"]) == (1, "toy", "step", 1000)
    assert [part["first"] for part in loss["parts"]] == list(range(100))
    assert loss["parts"][3]["mean"] == 5.97
    assert loss["parts"][3]["begin"] == "2023-11-14T22:13:26.000Z"
    assert loss["newest"]["value"] == "NaN" and loss["nonfinite_since"] == 500
    assert "no such metric in these rows; they have: loss, grad norm" in rate["why"]


def test_an_svg_is_one_document_without_anything_from_outside(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loss.svg"
    assert said(capsys, rows, "loss", "grad norm", "--svg", str(file), "--log") == ""
    root = ET.fromstring(file.read_text())
    assert root.tag.endswith("}svg") and len(root.findall("{*}g")) == 2
    (line,) = (
        e for e in root.iter() if e.get("class") == "m" and e.get("points", "").count(" ") > 99
    )
    height = [float(pair.split(",")[1]) for pair in line.get("points", "").split()]
    assert height == sorted(height), "a falling loss falls"
    assert "http" not in file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert said(capsys, rows, "--svg", "-").startswith("<svg ")


def test_any_metric_of_a_wandb_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "offline-run-1-abc"
    home.mkdir()
    logged = [writer.row(at, "2.5", START + at, **{"eval/acc": f"{at}"}) for at in range(50)]
    (home / "run-abc.wandb").write_bytes(writer.log([writer.run("abc", START), *logged]))
    found = json.loads(said(capsys, str(home), "eval/acc", "--json"))
    assert found["curves"][0]["newest"]["value"] == 49
    assert "eval/acc" in found["names"]
    wrong = json.loads(said(capsys, str(home), "acc", "--json", code=3))
    assert "near: eval/acc" in wrong["curves"][0]["why"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--steps", "9"], "expected A:B"),
        (["--steps", "9:1"], "9 is after 1"),
        (["--svg", "/no/such/folder/x"], "cannot be written"),
        ([*"abcdefghi"], "at most 8"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    rows: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", rows, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def a_picture(**more: Any) -> Picture:
    parts = tuple(Part(at, at, START + at, START + at, 2.0, 4.0, 3.0, 1, 0) for at in range(101))
    curve = Curve("a<b>", "x&y", parts, extent=(0, 100), newest=Point(100, None, 3.0),
                  restarts=(Restart(50, START + 60),), former=parts[50:60])  # fmt: skip
    marks = (
        ChartEvent("checkpoint", "", 25, None),
        ChartEvent("torn checkpoint", "", 75, None),
        ChartEvent("alert", "C-05", None, START + 90),
        ChartEvent("checkpoint", "", 900, None),
    )
    return Picture(("a<b>",), (curve,), marks, by_time=False, log=False)


@pytest.mark.parametrize("width", [LEAST, 81, 200])
def test_what_happened_stands_below_its_step(width: int) -> None:
    lines = charts(a_picture(), width, 12)
    left = max(line.find("┤") for line in lines)
    right = max(line.rfind("│") for line in lines[:-4])
    lanes = {line.split("│")[0].strip(): line for line in lines if "│" in line[: left + 1]}
    inside = right - left - 2
    stands = {"o": ("saved", 0.25), "x": ("saved", 0.75), "R": ("restart", 0.5),
              "!": ("alert", 0.9)}  # fmt: skip
    for sign, (name, share) in stands.items():
        assert abs(lanes[name].index(sign, left) - left - 1 - share * inside) <= 1
    assert lanes["saved"].count("o") == 1
    assert ("!C-05" in lanes["alert"]) == (width > LEAST), "words only where there is room"
    assert max(map(len, lines)) <= width


def test_foreign_names_are_no_markup() -> None:
    root = ET.fromstring(svg("<run>", a_picture(), 640, 240))
    told = "".join(root.itertext())
    assert "a<b>" in told and "x&y" in told and "<run>" in told and "alert C-05" in told


def test_checkpoints_and_alerts_of_a_run_are_marked() -> None:
    report = made.report(alerts=(made.alert("C-05"),))
    kinds = {(mark.kind, mark.name) for mark in marks_of(report)}
    assert kinds == {("checkpoint", ""), ("alert", "C-05")}
