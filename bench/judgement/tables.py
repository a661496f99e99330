"""What was measured, as Markdown: RESULTS.md is made of these and of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.judgement.clock import HOUR
from bench.judgement.labelled import Alarms, Score, Triaged
from bench.judgement.playing import BROKEN, FOUND, LATE, MISSED, NOISY, QUIET, Played
from cockpit.model.conditions import CONDITIONS

WEEK = 7 * 24 * HOUR
IDS = tuple(id_ for row in CONDITIONS for id_ in row.ids)
NO_GENERATOR = {
    "C-27": "no history logs its metrics: each form of a limit has its tests by the rule",
    "C-20": "a rule of display, no alert: scored by the maximum of progress lines, never rounded",
}
"""Conditions that no generated run has as a fault, and why."""
ONLY_ALIKE = {"C-21": "a rule of display, no alert: its job must open nothing"}
Line = Sequence[object]


def table(head: Line, lines: Iterable[Line]) -> str:
    """Return a Markdown table."""
    rows: list[Line] = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def part(right: int, of: int) -> str:
    """Return a share in words: ``12 of 13 (92 %)``."""
    return "none" if not of else f"{right} of {of} ({right / of:.0%})"


def _score(score: Score) -> str:
    return part(score.right, score.of)


def matrix(counted: Mapping[tuple[str, str], int], rows: str, columns: str) -> str:
    """Return a confusion matrix of the pairs that occur: truth down, answer across."""
    truths = sorted({truth for truth, _ in counted})
    answers = sorted({answer for _, answer in counted})
    head = [f"{rows} \\ {columns}", *answers]
    lines = [
        [truth, *(counted.get((truth, answer)) or "·" for answer in answers)] for truth in truths
    ]
    return table(head, lines)


def bullets(lines: Iterable[str]) -> str:
    """Return a list, or that there is nothing to list."""
    return "\n".join(f"- {line}" for line in lines) or "- none"


def triage_part(found: Triaged) -> str:
    """Return what came of the logs."""
    figures: list[Line] = [
        ["class", _score(found.classes)],
        ["action", _score(found.actions)],
        ["dangerous (a relaunch or nothing where another action is right)", len(found.dangerous)],
    ]
    wrong = dict.fromkeys([*found.classes.wrong, *found.actions.wrong])
    return "\n\n".join(
        (
            table(["triage", "right"], figures),
            matrix(found.confusion, "label", "read as"),
            "Wrong:\n\n" + bullets(wrong),
        )
    )


def progress_part(told: Score, fields: Mapping[str, Score]) -> str:
    """Return what came of the progress lines."""
    lines: list[Line] = [["is it training progress", _score(told)]]
    lines += [[name, _score(score)] for name, score in fields.items()]
    wrong = [*told.wrong, *(each for score in fields.values() for each in score.wrong)]
    return table(["progress", "right"], lines) + "\n\nWrong:\n\n" + bullets(wrong)


def secrets_part(masked: Score, left: Score) -> str:
    """Return what came of the texts with and without secrets."""
    lines = [["masked", _score(masked)], ["left as it was", _score(left)]]
    wrong = bullets([*masked.wrong, *left.wrong])
    return table(["secrets", "right"], lines) + "\n\nWrong:\n\n" + wrong


def alarms_part(found: Alarms) -> str:
    """Return what came of the histories, judged row by row."""
    delays = sorted(found.delays)
    usual = f"{delays[len(delays) // 2]}, at most {delays[-1]}" if delays else "none"
    lines = [
        ["histories", f"{found.of}, of which {found.synthetic} synthetic"],
        ["events found", _score(found.events)],
        ["false alarms", f"{len(found.false)} in {found.rows:,} quiet rows"],
        ["per 10,000 rows", f"{found.per_10k:.2f}"],
        ["rows from an event's first to its alarm", usual],
    ]
    missed = bullets([*found.events.wrong, *found.false])
    return "\n\n".join(
        (
            table(["alarms", ""], lines),
            matrix(found.confusion, "label", "opened"),
            "Missed and false:\n\n" + missed,
        )
    )


def generated_part(played: Sequence[Played]) -> str:
    """Return what came of the generated runs."""
    return "\n\n".join(
        (
            _overall(played),
            "### By condition\n\n" + _by_condition(played),
            "### What a fault opened\n\nTrue consequences of a fault are counted, too; `none` is a"
            " look-alike or a week.\n\n" + _confusion(played),
            "### Each run\n\n" + _each(played),
            "### Misses and false alarms\n\n" + bullets(_misses(played)),
            "### Without a generator\n\n" + bullets(_without(played)),
        )
    )


def _overall(played: Sequence[Played]) -> str:
    faults = [each for each in played if each.wants is not None]
    alike = [each for each in played if each.wants is None]
    found = sum(each.outcome == FOUND for each in faults)
    quiet = sum(each.outcome == QUIET for each in alike)
    weeks = sum(each.quiet_for for each in played) / WEEK
    beside = sum(each.beside for each in played)
    false = sum(len(each.false) for each in played) - beside
    rows = sum(each.rows for each in alike)
    noise = sum(len(each.false) for each in alike)
    asked = [each for each in faults if each.closed]
    lines: list[Line] = [
        ["faults found in time", part(found, len(faults))],
        ["late", sum(each.outcome == LATE for each in faults)],
        ["missed", sum(each.outcome == MISSED for each in faults)],
        ["closed by itself in time", part(sum(e.closed == "closed" for e in asked), len(asked))],
        ["look-alikes that stayed quiet", part(quiet, len(alike))],
        ["false alarms", f"{false} in {weeks:.1f} run-weeks in which nothing was wrong"],
        ["others beside a fault, no consequence of it", beside],
        ["false alarms per run-week", f"{false / weeks:.2f}" if weeks else "none"],
        ["per 10,000 rows of look-alikes", f"{1e4 * noise / rows:.2f}" if rows else "none"],
        ["broken runs (a fault in the cockpit itself)", sum(e.outcome == BROKEN for e in played)],
    ]
    return table(["generated runs", ""], lines)


def _by_condition(played: Sequence[Played]) -> str:
    false = Counter(told[0] for each in played for told in each.false)
    lines: list[Line] = []
    for name in IDS:
        own = [each for each in played if each.wants == name]
        alike = [each for each in played if each.wants is None and each.like == name]
        if not own and not alike:
            continue
        true = sum(each.delay is not None for each in own)
        hits = [each for each in own if each.delay is not None]
        worst = max(hits, key=lambda each: (each.delay or 0) / (each.allowed or 1), default=None)
        lines.append(
            (
                name,
                part(sum(each.outcome == FOUND for each in own), len(own)),
                f"{true / len(own):.2f}" if own else "–",
                f"{true / (true + false[name]):.2f}" if true + false[name] else "–",
                _delay(worst),
                part(sum(each.outcome == QUIET for each in alike), len(alike)),
                false[name],
            )
        )
    head = ("condition", "found in time", "recall", "precision", "longest delay, of allowed",
            "look-alikes quiet", "false alarms")  # fmt: skip
    return table(head, lines)


def _delay(each: Played | None) -> str:
    if each is None or each.delay is None:
        return "–"
    steps = "" if each.steps is None else f", {each.steps:,.0f} steps"
    return f"{each.delay / HOUR:.2f} h of {each.allowed / HOUR:.2f} h{steps}"


def _confusion(played: Sequence[Played]) -> str:
    counted: Counter[tuple[str, str]] = Counter()
    for each in played:
        truth = each.wants or "none"
        ids = {told[0] for told in each.opened} or {"nothing"}
        for name in ids:
            counted[truth, name] += 1
    return matrix(counted, "fault", "opened")


def _each(played: Sequence[Played]) -> str:
    lines = [
        (
            each.wants or f"like {each.like}",
            each.name,
            f"**{each.outcome}**"
            if each.outcome in (LATE, MISSED, NOISY, BROKEN)
            else each.outcome,
            _delay(each),
            each.closed,
        )
        for each in sorted(played, key=lambda each: (each.wants is None, each.wants or each.like))
    ]
    return table(("condition", "run", "outcome", "delay, of allowed", "at the end"), lines)


def _misses(played: Sequence[Played]) -> list[str]:
    lines = []
    for each in played:
        opened = ", ".join(
            f"{told[0]} “{told[2]}” at {told[3] / HOUR:.2f} h" for told in each.opened
        )
        if each.outcome in (MISSED, LATE):
            lines.append(f"{each.wants} {each.outcome}: {each.name}; opened: {opened or 'nothing'}")
        if each.closed == "still open":
            lines.append(f"{each.wants} still open long after its cause was over: {each.name}")
        for told in each.false:
            of = each.wants or f"like {each.like}"
            lines.append(f"{told[0]} false in “{each.name}” ({of}): {told[2]}")
        lines += [f"broken: {each.name}: {fault}" for fault in each.faults]
    return lines


def _without(played: Sequence[Played]) -> list[str]:
    wanted = {each.wants for each in played}
    told = {**NO_GENERATOR, **ONLY_ALIKE}
    return [
        f"{name}: {told.get(name, 'nothing generates it yet')}"
        for name in IDS
        if name not in wanted
    ]
