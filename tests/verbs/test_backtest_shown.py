"""A replayed history as a person sees it: the picture in a terminal, the page of its own."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.observed import Column
from cockpit.verbs.backtest_chart import Span, chart, logarithmic, page

HOSTILE = "<script>x()</script>\x1b]0;t\x07 WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"


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
        "id": "C-11", "severity": "alert", "title": HOSTILE, "opened_step": 1, "opened_at": None,
        "closed_step": 2, "closed_at": None, "closed": True, "evidence": [{"text": HOSTILE}],
    }  # fmt: skip
    return {"run": HOSTILE, "steps": 3, "not_replayed": ["C-01"], "alerts": [{**told, **alert}]}


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
