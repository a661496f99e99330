"""``watch --metrics``: what a scrape is given, and what it is not."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from cockpit.cli import main
from cockpit.model.cost import Cost
from cockpit.model.facet import ErrorKind, unknown
from cockpit.model.goodput import Goodput, Restarts, Split
from cockpit.model.report import RunReport, Verdict
from cockpit.services import metrics
from cockpit.services.metrics import METRICS, MetricsServer, is_loopback, listening_place
from tests.watch.fakes import FastClock
from tests.widgets import reports as made

NOW = made.NOW
OPEN = "application/openmetrics-text; version=1.0.0"
DOCS = Path(__file__).resolve().parents[2] / "docs"
Samples = dict[tuple[str, str], float]


class StandingClock(FastClock):
    def now(self) -> float:
        return NOW


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    found = MetricsServer("127.0.0.1", 0, StandingClock())
    yield found
    found.close()


def scraped(server: MetricsServer, query: str = "") -> Samples:
    """Return the samples as a strict reader of OpenMetrics takes them, by name and labels."""
    address = f"http://127.0.0.1:{server.port}/metrics{query}"
    asked = urllib.request.Request(address, headers={"Accept": OPEN})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        text = answer.read().decode()
    read: Any = text_string_to_metric_families
    samples = [each for family in read(text) for each in family.samples]
    return {
        (each.name, ",".join(f"{k}={v}" for k, v in sorted(each.labels.items()))): each.value
        for each in samples
    }


def known(**changes: object) -> RunReport:
    account = Goodput(since=NOW - 60, until=NOW, share=0.9, split=Split(productive_s=1.0),
                      restarts=Restarts(ours=2))  # fmt: skip
    cost = Cost(currency="EUR", price=36.0, per="job", per_hour=36.0, spent=40.5,
                lost_to_repeats=0.0, burning=0.0)  # fmt: skip
    report: RunReport = made.report("r", goodput=account, cost=cost)
    progress = report.progress.model_copy(update={"step_source": "tracker"})
    report = report.model_copy(update={"progress": progress})
    return report.model_copy(update=changes)


def test_a_scrape_has_what_is_known_of_each_run(server: MetricsServer) -> None:
    server.runs.take(known())
    found = scraped(server)
    assert found["cockpit_run_verdict", "run=r,verdict=healthy"] == 1.0
    assert found["cockpit_run_verdict", "run=r,verdict=critical"] == 0.0
    assert found["cockpit_goodput_ratio", "run=r"] == 0.9
    assert found["cockpit_restarts", "run=r"] == 2.0
    assert found["cockpit_cost_spent", "currency=EUR,run=r"] == 40.5
    assert found["cockpit_source_known", "run=r,source=tracker"] == 1.0
    assert found["cockpit_source_age_seconds", "run=r,source=tracker"] >= 0.0
    assert found["cockpit_loss_finite", "run=r"] == 1.0
    assert found["cockpit_step", "run=r"] == known().progress.step


def test_a_step_of_the_job_before_is_the_newest_step_too(server: MetricsServer) -> None:
    progress = known().progress.model_copy(update={"step_source": "tracker, before this job"})
    server.runs.take(known(progress=progress))
    assert scraped(server)["cockpit_step", "run=r"] == progress.step


def test_what_is_not_known_has_no_sample(server: MetricsServer) -> None:
    server.runs.take(known())
    before = scraped(server)
    silent = unknown(ErrorKind.TIMEOUT, "no answer", "w&b", NOW)
    facets = known().facets.model_copy(update={"tracker": silent, "log": silent})
    server.runs.take(known(facets=facets, goodput=None, cost=None, verdict=Verdict.UNKNOWN))
    found = scraped(server)
    gone = {name for name, _ in before} - {name for name, _ in found}
    assert {"cockpit_step", "cockpit_loss", "cockpit_loss_finite", "cockpit_goodput_ratio",
            "cockpit_restarts", "cockpit_cost_spent"} <= gone  # fmt: skip
    assert found["cockpit_source_known", "run=r,source=tracker"] == 0.0
    assert ("cockpit_source_age_seconds", "run=r,source=tracker") not in found
    assert found["cockpit_run_verdict", "run=r,verdict=unknown"] == 1.0


def test_a_loss_that_is_no_number_is_said_and_has_no_sample(server: MetricsServer) -> None:
    server.runs.take(known(facets=made.facets(tracker=made.tracker(loss=float("nan")))))
    found = scraped(server)
    assert found["cockpit_loss_finite", "run=r"] == 0.0
    assert ("cockpit_loss", "run=r") not in found


def test_an_alert_that_closed_leaves_no_series_behind(server: MetricsServer) -> None:
    server.runs.take(known(alerts=(made.alert("C-05"), made.alert("C-05", title="again"))))
    names = [each for each in scraped(server).items() if each[0][0] == "cockpit_open_alerts"]
    assert [value for _, value in names] == [2.0]
    assert "acknowledged=no,condition=C-05" in names[0][0][1]
    server.runs.take(known())
    assert not any(name == "cockpit_open_alerts" for name, _ in scraped(server))


def test_a_run_that_another_watch_took_over_has_no_series_here(server: MetricsServer) -> None:
    mine = {"a", "b"}
    server.runs.owns = lambda report: report.name in mine
    for run in mine:
        server.runs.take(made.report(run))
    assert {labels for name, labels in scraped(server) if name == "cockpit_report_age_seconds"} == {
        "run=a", "run=b"
    }  # fmt: skip
    mine.remove("a")
    left = str(scraped(server))
    assert "run=b" in left and "run=a" not in left


def test_a_scrape_may_ask_for_some_metrics_by_name(server: MetricsServer) -> None:
    server.runs.take(known())
    assert {name for name, _ in scraped(server, "?name[]=cockpit_step")} == {"cockpit_step"}


def test_a_scraper_that_hangs_or_breaks_off_holds_nobody_up_and_is_no_news(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics, "SILENT", 0.2)
    server = MetricsServer("127.0.0.1", 0, StandingClock())
    server.runs.take(known())
    hung, reset = (socket.create_connection(("127.0.0.1", server.port)) for _ in range(2))
    hung.sendall(b"GET /metr")
    reset.sendall(b"GET")
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()
    assert scraped(server)["cockpit_restarts", "run=r"] == 2.0
    of_scrapers = [each for each in threading.enumerate() if "process_request" in each.name]
    for each in of_scrapers:
        each.join(30)
    assert not any(each.is_alive() for each in of_scrapers)
    server.close()
    hung.close()
    assert capfd.readouterr().err == ""


def test_an_address_that_is_not_here_is_one_line_that_does_not_blame_the_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "r"\n')
    words = ["watch", "--once", "--config", str(config), "--metrics", "192.0.2.1:9464"]
    assert main(words) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("cockpit: --metrics 192.0.2.1:9464: ")
    assert said.endswith("; name another host")


def test_what_only_looks_like_this_machine_is_not() -> None:
    assert not is_loopback("::1:2")


@pytest.mark.parametrize(
    ("text", "place"),
    [("9464", ("127.0.0.1", 9464)), (":9464", ("127.0.0.1", 9464)), ("[::1]:1", ("::1", 1)),
     ("0.0.0.0:0", ("0.0.0.0", 0))],
)  # fmt: skip
def test_a_port_alone_is_for_this_machine(text: str, place: tuple[str, int]) -> None:
    assert listening_place(text) == place
    assert is_loopback(place[0]) is (place[0] != "0.0.0.0")


def test_a_port_in_use_is_one_line_and_nothing_is_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "r"\n')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["watch", "--once", "--config", str(config), "--metrics", place]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [f"cockpit: --metrics {place}: address already in use; name another port"]
    with pytest.raises(SystemExit):
        main(["watch", "--config", str(config), "--metrics", "nowhere"])
    assert "expected an address such as 127.0.0.1:9464" in capsys.readouterr().err


def test_page_and_dashboard_name_the_metrics_that_there_are() -> None:
    there = {f"cockpit_{row.name}" for row in METRICS}
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(cockpit_\w+)`", page, re.MULTILINE)) == there
    board = json.loads((DOCS / "metrics-dashboard.json").read_text(encoding="utf-8"))
    asked = " ".join(each["expr"] for panel in board["panels"] for each in panel["targets"])
    assert set(re.findall(r"\bcockpit_\w+", asked)) <= there
