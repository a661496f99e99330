"""Any report that the model allows, for properties of painters."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cockpit.model.alert import Acknowledgement, Severity
from cockpit.model.base import SafeText, Span
from cockpit.model.facet import ErrorKind, Facet, not_configured
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CodeValue,
    Column,
    HostValue,
    LogValue,
    Phase,
    RecordsValue,
)
from cockpit.model.report import Facets, RunReport, Verdict
from cockpit.model.shared_facts import OwnerNow
from tests.widgets import reports as made

SHOWN = st.characters(exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp", "Co", "Cn"))
words = st.text(SHOWN, max_size=60) | st.sampled_from([made.HOSTILE, "[/]", "日本語" * 20, ""])
numbers = st.none() | st.floats()
instants = st.floats(-1e12, 1e13)
maybe_instants = st.none() | instants
counts = st.none() | st.integers(-(10**12), 10**12)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Column, ...]:
    drawn = []
    for _ in range(draw(st.integers(0, 12))):
        first = draw(st.integers(-10, 10**7))
        drawn.append(
            Column(
                first,
                first + draw(st.integers(0, 10**6)),
                draw(numbers),
                draw(numbers),
                draw(numbers),
                draw(st.integers(0, 3)),
            )
        )
    return tuple(drawn)


def facet(known: st.SearchStrategy[Facet[Any]]) -> st.SearchStrategy[Facet[Any]]:
    lost = st.builds(made.missing, st.sampled_from(ErrorKind), words)
    stale = st.builds(
        lambda old, new: new.model_copy(
            update={"value": old.value, "observed_at": old.observed_at}
        ),
        known,
        lost,
    )
    return known | lost | stale | st.just(not_configured("it"))


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    return Checkpoint(
        step=draw(counts),
        name_step=draw(counts),
        path=draw(words),
        root="/data",
        state=draw(st.sampled_from(CheckpointState)),
        saved_at=draw(maybe_instants),
        size=draw(counts),
        permanent=draw(st.none() | st.booleans()),
        protected=tuple(draw(st.lists(words, max_size=2))),
        note=draw(st.none() | words),
    )


@st.composite
def lines(draw: st.DrawFn) -> SafeText:
    plain = draw(words)
    end = draw(st.integers(0, len(plain)))
    style = draw(st.sampled_from(["bold red", "on blue", "#ff0000", "dim", "reverse yellow"]))
    return SafeText(plain=plain, spans=(Span(0, end, style),) if end else ())


def _logged(shown: list[SafeText], mtime: float) -> Facet[LogValue]:
    log = made.log()
    assert log.value is not None
    value = log.value.model_copy(update={"lines": tuple(shown), "mtime": mtime})
    return log.model_copy(update={"value": value})


@st.composite
def seen(draw: st.DrawFn) -> Facets:
    tracker = st.builds(
        made.tracker,
        loss=numbers,
        throughput=numbers,
        baseline=numbers,
        grad_norm=numbers,
        step=counts,
        last_step_at=maybe_instants,
        columns=columns(),
        history=st.lists(st.tuples(st.integers(0, 10**6), st.floats()), max_size=9).map(tuple),
        id=st.none() | words,
        scanned=st.floats(0, 1),
    )
    logs = st.builds(
        _logged,
        st.lists(lines(), max_size=5),
        instants,
    )
    others = st.lists(checkpoints(), max_size=6).map(lambda items: made.checkpoints(*items))
    jobs = st.builds(made.job, st.sampled_from(Phase), ended_at=maybe_instants, reason=words)
    code = st.builds(CodeValue, sha=st.none() | words, dirty=st.tuples(words))
    records = st.builds(RecordsValue, logbook=st.none() | words, last_entry_at=maybe_instants)
    return Facets(
        job=draw(facet(jobs)),
        log=draw(facet(logs)),
        tracker=draw(facet(tracker)),
        checkpoints=draw(facet(others)),
        monitor=draw(facet(st.builds(made.monitor, st.booleans()))),
        host=draw(facet(st.builds(HostValue).map(made.observed))),
        code=draw(facet(code.map(made.observed))),
        records=draw(facet(records.map(made.observed))),
    )


@st.composite
def alerts(draw: st.DrawFn) -> Any:
    drawn = made.alert(
        draw(st.sampled_from(["C-01", "C-03", "C-05", "C-09", "C-11"])),
        draw(st.sampled_from(Severity)),
        draw(words),
        tuple(draw(st.lists(st.tuples(words, words), max_size=3))),
        draw(words),
        draw(instants),
    )
    by = Acknowledgement(by=draw(words), at=draw(instants), until=draw(maybe_instants))
    return drawn.model_copy(update={"acknowledged": by}) if draw(st.booleans()) else drawn


owners = st.builds(
    OwnerNow, name=words, source=words, by=words, differs=st.none() | words, remedy=words
)


@st.composite
def any_report(draw: st.DrawFn) -> RunReport:
    return made.report(
        draw(words.filter(bool)),
        draw(st.sampled_from(Verdict)),
        tuple(draw(st.lists(alerts(), max_size=4))),
        step=draw(counts),
        final=draw(st.none() | st.integers(1, 10**12)),
        eta=draw(numbers),
        act=draw(words),
        seen=draw(seen()),
        closed=tuple(draw(st.lists(st.builds(made.closed, st.just("C-05"), st.booleans())))),
        next_check_at=draw(maybe_instants),
        watched_by=draw(st.none() | words),
    ).model_copy(update={"owner": draw(st.none() | owners)})
