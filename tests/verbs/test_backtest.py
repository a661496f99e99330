"""``backtest``: a whole history replayed, from JSON lines, a ``.wandb`` file or a run's own.

A replayed history as a person sees it: the picture in a terminal, the page of its own.

``plot``: curves as text, SVG and JSON, of JSON lines, a ``.wandb`` file and a run.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.curve import Curve, Part, Point, Restart
from cockpit.model.observed import Column
from cockpit.rules.replay import NOT_REPLAYED
from cockpit.verbs.backtest_chart import Span, chart, logarithmic, page
from cockpit.verbs.plot import marks_of
from cockpit.verbs.plot_chart import LEAST, ChartEvent, Picture, charts, svg
from tests.sources.wandb import writer
from tests.widgets import reports as made

SPIKE = [2.0] * 50 + [3.1] * 15 + [2.0] * 30


def jsonl(path: Path, values: list[float], **more: Any) -> Path:
    rows = ({"step": step, "loss": loss, **more} for step, loss in enumerate(values))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["backtest", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def events(document: Any) -> list[tuple[str, int, int | None]]:
    return [(a["id"], a["opened_step"], a["closed_step"]) for a in document["alerts"]]


def test_json_lines_are_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    found = said(capsys, str(path))
    assert (found["schema"], found["run"], found["steps"]) == (1, "toy", 95)
    assert events(found) == [("C-11", 59, 74)]
    (alert,) = found["alerts"]
    assert alert["opened_at"] == "1970-01-01T00:09:50.000Z", "one row per 10 s without a time"
    assert found["not_replayed"] == list(NOT_REPLAYED) and "C-01" in NOT_REPLAYED
    assert main(["backtest", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("C-11  step 59 → step 74  Loss more than 50 %")
    assert lines[1] == "95 rows, up to step 94; its rows have no time: go by the steps"


def test_numbers_that_are_none_are_read_as_python_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", [2.0, float("nan"), float("inf")], time=1_800_000_000.0)
    assert events(said(capsys, str(path))) == [("C-09", 1, None)]


def test_rows_of_a_second_writer_are_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "toy.jsonl"
    steps = [*range(100), *(n // 2 + (100, 40)[n % 2] for n in range(400))]
    path.write_text("".join(f'{{"step": {step}, "loss": 2.0}}\n' for step in steps))
    found = said(capsys, str(path))
    assert (found["steps"], found["set_aside"], events(found)) == (500, 199, [])
    assert main(["backtest", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "199 rows of a second writer, by turns with the first" in lines[:2]


def test_thresholds_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(jsonl(tmp_path / "toy.jsonl", SPIKE))
    assert events(said(capsys, path, "--set", "loss_spike=0.6")) == []
    assert events(said(capsys, path, "--set", "spike_rows=15")) == [("C-11", 64, 79)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--set", "loss_spik=1"), 'did you mean "loss_spike"'),
        (("--set", "spike_rows=0"), "expected a number of at least 1"),
        (("--set", "loss_spike"), "expected THRESHOLD=VALUE"),
        (("--cadence", "soon"), "--cadence soon"),
    ],
)
def test_a_wrong_setting_is_one_line(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backtest", str(jsonl(tmp_path / "toy.jsonl", SPIKE)), *words]) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


def test_lines_that_are_no_rows_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    path.write_text('{"step": 0, "loss": 2.0}\nnot json\n[]\n{"loss": 1}\n' + path.read_text())
    assert main(["backtest", str(path), "--json"]) == 0
    told = capsys.readouterr()
    assert "3 lines are not rows and were skipped; the first is line 2" in told.err
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert main(["backtest", str(empty)]) == 2
    assert "nothing to replay" in capsys.readouterr().err


def wandb_file(folder: Path) -> Path:
    path = folder / "offline-run-20260101_000000-r1" / "run-r1.wandb"
    path.parent.mkdir(parents=True)
    rows = [writer.row(step, str(loss), 1e9 + step) for step, loss in enumerate(SPIKE)]
    path.write_bytes(writer.log([writer.run("r1", 1e9), *rows]))
    return path


def test_a_wandb_file_and_its_folder_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wandb_file(tmp_path)
    for each in (path, path.parent):
        found = said(capsys, str(each))
        assert events(found) == [("C-11", 59, 74)]
    assert found["alerts"][0]["opened_at"].startswith("2001-09-09T01:47:39")


def test_a_run_of_the_run_file_is_replayed_with_its_own_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb_file(tmp_path)
    config = tmp_path / "cockpit.toml"
    config.write_text(
        f'[[run]]\nname = "toy"\nwandb = {{ dir = "{tmp_path}", id = "r1" }}\n'
        "thresholds = { spike_rows = 12 }\n"
    )
    assert events(said(capsys, "toy", "--config", str(config))) == [("C-11", 61, 76)]
    assert main(["backtest", "other", "--config", str(config)]) == 2
    assert "has no run 'other'" in capsys.readouterr().err


def test_the_log_tells_what_the_tracker_never_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    log = tmp_path / "run.log"
    log.write_text("".join(f"step {n} loss {x}\n" for n, x in enumerate([*SPIKE, float("nan")])))
    assert events(said(capsys, str(path), "--log", str(log))) == [
        ("C-11", 59, 74),
        ("C-09", 95, None),
    ]


HOSTILE = (
    *({"step": step, "loss": 2.0, "time": 1e9} for step in (1, 1.7e308, -1.7e308, 1.7e308)),
    *({"step": 2, "loss": 2.0, "time": when} for when in ("NaN", "Infinity", 1e308, -1e308, 1e18)),
    {"step": 3, "loss": 2.0, "time": 1e9 + 9},
)


def test_steps_and_times_that_can_be_none_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "h.jsonl"
    history.write_text("\n".join(json.dumps(each) for each in HOSTILE))
    assert main(["backtest", str(history), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["steps"], told["alerts"]) == (7, [])


Figures = list[dict[str, float]]


def _as_lines(folder: Path, rows: Figures) -> Path:
    path = folder / "same.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _as_wandb(folder: Path, rows: Figures) -> Path:
    """Write the same as W&B's client does, by names that trainers use."""
    names = {"lr": "optim/learning_rate", "batch_size": "train/global_batch_size"}
    texts = [{names[key]: str(row[key]) for key in names if key in row} for row in rows]
    path = folder / "offline-run-20260101_000000-r1" / "run-r1.wandb"
    path.parent.mkdir(parents=True)
    written = [
        writer.row(int(row["step"]), str(row["loss"]), row["time"], **more)
        for row, more in zip(rows, texts, strict=True)
    ]
    path.write_bytes(writer.log([writer.run("r1", 1e9), *written]))
    return path


def _slowing(sizes: tuple[int, int]) -> Figures:
    """Return rows of steps that take twice as long from the middle on, with those batches."""
    rows: Figures = []
    at = 1e9
    for step in range(1200):
        at += 20.0 if step < 700 else 40.0
        batch = sizes[step >= 700]
        rows.append(
            {"step": step, "loss": 2.0, "time": at, **({"batch_size": batch} if batch else {})}
        )
    return rows


def _restarted() -> Figures:
    """Return rows of a run that goes on from step 200, with another learning rate and loss."""
    steps = [*range(300), *range(200, 320)]
    return [
        {
            "step": step,
            "loss": 2.0 if at < 300 else 2.2,
            "lr": 3e-4 if at < 300 else 6e-4,
            "time": 1e9 + 10.0 * at + (3600.0 if at >= 300 else 0.0),
        }
        for at, step in enumerate(steps)
    ]


@pytest.mark.parametrize("write", [_as_lines, _as_wandb])
@pytest.mark.parametrize(
    ("sizes", "slow"), [((512, 1024), []), ((512, 512), ["C-05"]), ((0, 0), ["C-05"])]
)
def test_a_larger_batch_is_no_slower_step_whatever_tells_it(
    write: Callable[[Path, Figures], Path],
    sizes: tuple[int, int],
    slow: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = said(capsys, str(write(tmp_path, _slowing(sizes))))
    assert [each["id"] for each in found["alerts"]] == slow


@pytest.mark.parametrize("write", [_as_lines, _as_wandb])
def test_a_restart_that_does_not_fit_names_both_learning_rates(
    write: Callable[[Path, Figures], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, str(write(tmp_path, _restarted())))
    (alert,) = [each for each in found["alerts"] if each["id"] == "C-12"]
    assert any("0.0003 before the restart, 0.0006" in each["text"] for each in alert["evidence"])


SHOWN_HOSTILE = (
    "<script>x()</script>\x1b]0;t\x07 WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"
)


def columns(*losses: float | None) -> list[Column]:
    return [Column(at, at, loss, loss, loss, int(loss is None)) for at, loss in enumerate(losses)]


class Reader(HTMLParser):
    """Collects what a page's tags are, what they would load, and the text outside of style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}


def test_alerts_stand_below_the_steps_at_which_they_were_open() -> None:
    losses = [2.0 + at % 2 for at in range(101)]
    lines = chart(columns(*losses), [Span("C-11", 50, 75), Span("C-09", 90, None)], 80)
    assert max(map(len, lines)) <= 80
    (spike,) = [line for line in lines if line.startswith("C-11")]
    (broken,) = [line for line in lines if line.startswith("C-09")]
    left = spike.index("│") + 1
    across = len(lines[1]) - 1 - left
    for sign, share in (("[", 0.50), ("]", 0.75)):
        assert abs(spike.index(sign) - left - share * (across - 1)) <= 1
    assert "]" not in broken and broken.endswith("=") and broken.index("[") > spike.index("]")


def test_the_axis_is_logarithmic_where_that_shows_more() -> None:
    falling, flat = columns(100.0, 10.0, 1.0), columns(3.0, 2.0, 1.0)
    assert logarithmic(falling) and not logarithmic(flat)
    assert not logarithmic(columns(100.0, 1.0, -1.0))
    assert "log axis" in chart(falling, [], 60)[0] and "log axis" not in chart(flat, [], 60)[0]


@pytest.mark.parametrize(
    "losses",
    [(1e308, -1e308), (5e-324, 1.0), (2.0,), (None, 2.0, None), (-1.0, -3.0), (1.0, 1.7e308)],
)
def test_whatever_was_logged_is_drawn(losses: tuple[float | None, ...]) -> None:
    for width in (30, 79, 200):
        lines = chart(columns(*losses), [Span("C-11", 0, 1)], width)
        assert lines and max(map(len, lines)) <= width
    assert not chart(columns(None, None), [], 80) and not chart(columns(1.0), [], 20)


def document(**alert: Any) -> dict[str, Any]:
    told = {
        "id": "C-11", "severity": "alert", "title": SHOWN_HOSTILE,
        "opened_step": 1, "opened_at": None, "closed_step": 2, "closed_at": None, "closed": True,
        "evidence": [{"text": SHOWN_HOSTILE}],
    }  # fmt: skip
    return {
        "run": SHOWN_HOSTILE,
        "steps": 3,
        "not_replayed": ["C-01"],
        "alerts": [{**told, **alert}],
    }


def test_a_page_runs_nothing_loads_nothing_and_shows_no_secret() -> None:
    found = page(document(), columns(3.0, None, 2.0))
    read = Reader(found)
    assert "script" not in read.tags and not read.names & {"src", "href", "onload", "style"}
    assert "default-src 'none'" in found and "prefers-color-scheme: dark" in found
    assert "0123456789abcdef" not in found and "\x1b" not in found
    assert {"svg", "title", "desc", "caption", "table"} <= set(read.tags)
    assert 'scope="col"' in found and 'role="img"' in found and 'class="bad"' in found


def test_a_page_of_an_open_alert_or_of_no_loss_says_so() -> None:
    assert "still open" in page(document(closed=False, closed_step=None), columns(1.0, 2.0))
    assert "No finite loss was logged" in page(document(), columns(None))


def test_the_verb_draws_writes_and_counts_to_the_final_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    path, html = tmp_path / "toy.jsonl", tmp_path / "toy.html"
    rows = [2.0] * 50 + [3.1] * 15 + [2.0] * 30
    lines = [
        json.dumps({"step": at, "loss": loss, "time": 1.8e9 + at}) for at, loss in enumerate(rows)
    ]
    path.write_text("\n".join(lines))
    assert main(["backtest", str(path), "--final-step", "200", "--html", str(html)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "95 rows, up to step 94 of 200 (47 %)" and "loss 2 to 3.1" in shown[2]
    assert any(line.startswith("C-11│") and "[" in line for line in shown)
    assert "Loss more than 50 % above its trend" in html.read_text()
    assert main(["backtest", str(path), "--html", str(tmp_path / "no" / "x.html")]) == 2
    said = capsys.readouterr().err
    assert "x.html cannot be written: No such file or directory" in said and said.count("\n") == 1


def test_a_run_without_a_tracker_is_replayed_from_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = [2.0] * 50 + [9.0] * 15 + [2.0] * 30
    (tmp_path / "run.log").write_text(
        "".join(f"step={at} loss={loss}\n" for at, loss in enumerate(losses))
    )
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "toy"\n[run.job]\nkind = "local"\nlog = "run.log"\n')
    assert main(["backtest", "toy", "--config", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["alerts"]
    assert (one["id"], one["opened_step"], one["closed_step"]) == ("C-11", 59, 74)
    assert (one["opened_at"], one["closed"], found["timed"]) == (None, True, False)


def test_a_tracker_that_cannot_be_read_is_named_beside_the_log_s_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, config = tmp_path / "run.log", tmp_path / "cockpit.toml"
    config.write_text(
        '[[run]]\nname = "toy"\nwandb = { dir = "gone" }\n'
        '[run.job]\nkind = "local"\nlog = "run.log"\n'
    )
    log.write_text("")
    assert main(["backtest", "toy", "--config", str(config)]) == 2
    assert "toy cannot be read (there is no " in capsys.readouterr().err
    log.write_text("".join(f"step={at} loss=2.0\n" for at in range(30)))
    assert main(["backtest", "toy", "--config", str(config)]) == 0
    said = capsys.readouterr()
    assert "rows of its tracker are missing here, they cannot be read: there is no " in said.err
    assert "30 rows" in said.out


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


def plot_said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["plot", *words]) == code
    return capsys.readouterr().out


def test_a_curve_as_text(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = plot_said(capsys, rows, "--width", "70", "--height", "16").splitlines()
    assert lines[0].startswith("loss  NaN at step 999, 2023-11-14")
    assert max(map(len, lines)) <= 70
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == list("65432")
    assert lines[-2].split()[0] == "0" and lines[-2].split()[-1] == "500"
    assert lines[-1].startswith("NaN or inf since step 500 (2023-11-14 22:30:00Z), 500 rows")
    wide = plot_said(capsys, rows, "--width", "100").splitlines()
    assert wide[-1].endswith(", 500 rows; the axis ends there")


def test_steps_and_times(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    part = plot_said(capsys, rows, "--steps", "100:200").splitlines()
    labels = [line for line in part if "NaN or inf" not in line][-1].split()
    assert (labels[0], labels[-1]) == ("100", "200")
    timed = plot_said(capsys, rows, "grad norm", "--x", "time", "--since", "500").splitlines()
    assert timed[-1] == "times are UTC"
    assert timed[-2].split()[:3] == ["22:30", "22:35", "22:40"]


def test_the_document_has_every_part(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(plot_said(capsys, rows, "loss", "throughput", "--json", "--steps", ":99"))
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
    assert plot_said(capsys, rows, "loss", "grad norm", "--svg", str(file), "--log") == ""
    root = ET.fromstring(file.read_text())
    assert root.tag.endswith("}svg") and len(root.findall("{*}g")) == 2
    (line,) = (
        e for e in root.iter() if e.get("class") == "m" and e.get("points", "").count(" ") > 99
    )
    height = [float(pair.split(",")[1]) for pair in line.get("points", "").split()]
    assert height == sorted(height), "a falling loss falls"
    assert "http" not in file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert plot_said(capsys, rows, "--svg", "-").startswith("<svg ")


def test_any_metric_of_a_wandb_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "offline-run-1-abc"
    home.mkdir()
    logged = [writer.row(at, "2.5", START + at, **{"eval/acc": f"{at}"}) for at in range(50)]
    (home / "run-abc.wandb").write_bytes(writer.log([writer.run("abc", START), *logged]))
    found = json.loads(plot_said(capsys, str(home), "eval/acc", "--json"))
    assert found["curves"][0]["newest"]["value"] == 49
    assert "eval/acc" in found["names"]
    wrong = json.loads(plot_said(capsys, str(home), "acc", "--json", code=3))
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
