"""What a watch knows as OpenMetrics, for a team's Prometheus: ``cockpit watch --metrics``.

Each scrape makes all samples anew from the newest reports, so nothing of a run that is gone
lingers. A value that is not known has no sample: neither 0, nor NaN, nor the last one that was
known. All are gauges, since what they show can go back (a step after a rollback).
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.clock import Clock
from cockpit.model.report import RunReport, Verdict, present_loss
from cockpit.runtime.own_path import Library

Sample = tuple[dict[str, str], float]


class Metric(NamedTuple):
    """One row: the name behind ``cockpit_``, what it is, its labels beside ``run``, its samples."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[RunReport, float], Iterable[Sample]]


def _verdicts(report: RunReport, now: float) -> Iterator[Sample]:
    for verdict in Verdict:
        yield {"verdict": verdict.value}, float(report.verdict is verdict)


def _step(report: RunReport, now: float) -> Iterator[Sample]:
    found = report.progress
    source = (found.step_source or "").partition(",")[0]  # "tracker, before this job"
    told = dict(report.facets.items()).get(source)
    if found.step is not None and told is not None and told.known:
        yield {}, float(found.step)


def _final_step(report: RunReport, now: float) -> Iterator[Sample]:
    if report.progress.final_step is not None:
        yield {}, float(report.progress.final_step)


def _known_loss(report: RunReport) -> float | None:
    source, loss = present_loss(report)
    facet = report.facets.tracker if source == "tracker" else report.facets.log
    return loss if facet.known else None


def _loss(report: RunReport, now: float) -> Iterator[Sample]:
    loss = _known_loss(report)
    if loss is not None and math.isfinite(loss):
        yield {}, loss


def _loss_finite(report: RunReport, now: float) -> Iterator[Sample]:
    loss = _known_loss(report)
    if loss is not None:
        yield {}, float(math.isfinite(loss))


def _source_known(report: RunReport, now: float) -> Iterator[Sample]:
    for name, facet in report.facets.items():
        if facet.configured:
            yield {"source": name}, float(facet.known)


def _source_age(report: RunReport, now: float) -> Iterator[Sample]:
    for name, facet in report.facets.items():
        if facet.configured and facet.observed_at is not None and facet.value is not None:
            yield {"source": name}, max(0.0, now - facet.observed_at)


def _alerts(report: RunReport, now: float) -> Iterator[Sample]:
    for labels, group in groupby(sorted(map(_labels_of, report.alerts))):
        named = dict(zip(("condition", "severity", "acknowledged"), labels, strict=True))
        yield named, float(len(list(group)))


def _labels_of(alert: Alert) -> tuple[str, str, str]:
    taken = "no" if alert.acknowledged is None else "yes"
    return alert.id, alert.severity.value, taken


def _restarts(report: RunReport, now: float) -> Iterator[Sample]:
    if report.goodput is not None and report.goodput.restarts_known:
        yield {}, float(report.goodput.restarts.total)


def _goodput(report: RunReport, now: float) -> Iterator[Sample]:
    if report.goodput is not None and report.goodput.share is not None:
        yield {}, report.goodput.share


def _cost(field: str) -> Callable[[RunReport, float], Iterator[Sample]]:
    def samples(report: RunReport, now: float) -> Iterator[Sample]:
        amount = None if report.cost is None else getattr(report.cost, field)
        if report.cost is not None and amount is not None:
            yield {"currency": report.cost.currency}, amount

    return samples


METRICS: Final = (
    Metric("run_verdict", "1 for the verdict of the run, 0 for the others",
           ("verdict",), _verdicts),
    Metric("report_age_seconds", "Seconds since the run was judged",
           (), lambda report, now: [({}, max(0.0, now - report.checked_at))]),
    Metric("step", "Newest training step", (), _step),
    Metric("final_step", "Last step of the training", (), _final_step),
    Metric("loss", "Newest training loss, while it is a number", (), _loss),
    Metric("loss_finite", "1 if the newest training loss is a number, 0 for NaN and infinities",
           (), _loss_finite),
    Metric("source_known", "1 if the last look at the source gave an answer, else 0",
           ("source",), _source_known),
    Metric("source_age_seconds", "Seconds since the source gave its last answer",
           ("source",), _source_age),
    Metric("open_alerts", "Open alerts", ("condition", "severity", "acknowledged"), _alerts),
    Metric("restarts", "Restarts of the training", (), _restarts),
    Metric("goodput_ratio", "Share of the watched time that trained steps which counted",
           (), _goodput),
    Metric("cost_spent", "Spent so far, in the currency", ("currency",), _cost("spent")),
    Metric("cost_lost_to_repeats", "Spent on steps that were trained once more, in the currency",
           ("currency",), _cost("lost_to_repeats")),
    Metric("cost_burning", "Spent since the run makes no progress, in the currency",
           ("currency",), _cost("burning")),
)  # fmt: skip
"""Every metric, one row each; docs/metrics.md is compared with them."""


class RunsCollector:
    """What ``prometheus_client`` asks at each scrape, from a thread of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[str, RunReport] = {}
        self.owns: Callable[[RunReport], bool] = lambda report: True
        """Whether a run is still this watch's; the others' have no samples here."""

    def take(self, report: RunReport) -> None:
        """Keep a run's newest report."""
        self._reports = {**self._reports, report.name: report}

    def describe(self) -> Iterable[Any]:
        """Yield each metric without a sample: a scrape may ask for some by name."""
        return self._families(())

    def collect(self) -> Iterator[Any]:
        """Yield each metric with the samples of all runs."""
        return self._families([each for each in self._reports.values() if self.owns(each)])

    def _families(self, reports: Sequence[RunReport]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        now = self._clock.now()
        for row in METRICS:
            family = GaugeMetricFamily(f"cockpit_{row.name}", row.help)
            for report in reports:
                for labels, value in row.samples(report, now):
                    family.add_sample(family.name, {"run": report.name, **labels}, value)
            yield family


SILENT: Final = 10.0
"""Seconds after which a scraper that sends nothing is hung up on."""


def _ignored(request: object, address: object) -> None:
    """Say nothing of a scraper that left: the library prints a traceback for each."""


class MetricsServer:
    """Serves the metrics until ``close``. Raises ``LibraryError``, and ``OSError`` for the port."""

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        with Library("metrics", "cockpit watch --metrics"):
            from prometheus_client import CollectorRegistry, start_http_server
        self.runs = RunsCollector(clock)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.runs)
        server: Any
        server, self._thread = start_http_server(port, host, registry)
        handler = server.RequestHandlerClass
        server.RequestHandlerClass = type("Handler", (handler,), {"timeout": SILENT})
        server.handle_error = _ignored
        self._server = server

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


LOOPBACK: Final = "127.0.0.1"


def listening_place(text: str) -> tuple[str, int]:
    """Return host and port of ``127.0.0.1:9464``; a port alone is on this machine only.

    Raises ``ValueError`` of one line.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{text[:80]!r}: expected an address such as 127.0.0.1:9464")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host's name or address."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return False
    addresses = (ipaddress.ip_address(str(each[4][0])) for each in found)
    return all(each.is_loopback for each in addresses)
