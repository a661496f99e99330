"""What a run's issue says: short status for those who watch (SPEC S-11)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NewType

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.lineage import named, newest_of
from cockpit.model.plan import Plan
from cockpit.model.report import RunReport, phase_text, present_loss
from cockpit.model.run import RunSpec
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

MOST_LINES: Final = 60
"""Log lines that a comment quotes at most."""
_APART: Final = "\N{ZERO WIDTH SPACE}"
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~$&])")
_CALL: Final = re.compile(r"@(?=[\w-])|#(?=\d)|\b(?<=GH-)(?=\d)", re.IGNORECASE)
"""What GitHub would turn into a mention or a link: ``@ada``."""
_BLOCK: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")
_LOGIN: Final = re.compile(r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[A-Za-z0-9_.-]{1,100})?")
"""Such as ``@ada``."""


Markdown = NewType("Markdown", str)
"""Text in which nothing foreign can act: ``prose``, ``code``, ``person`` and ``block`` make it."""
Rows = Iterable[tuple[str, Markdown | None]]
"""Labels of ours with their values; those that are ``None`` are left out."""
UNKNOWN: Final = Markdown("unknown")


def prose(text: str | None, limit: int = 2000) -> Markdown:
    """Return a person's words as one line of plain Markdown; ``unknown`` when there are none."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    escaped = _SPECIAL.sub(r"\\\1", plain)
    called = _CALL.sub(lambda found: found.group() + _APART, escaped)
    return Markdown(_BLOCK.sub(_opened, called))


def code(text: object, limit: int = 1000) -> Markdown:
    """Return a name, a path or a command as a code span that it cannot leave."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    ticks = "`" * (_longest_ticks(plain) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Markdown(f"{ticks}{pad}{plain}{pad}{ticks}")


def block(lines: str | Iterable[str]) -> Markdown:
    """Return log lines as a code block that they cannot close; the last ``MOST_LINES`` of them."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    shown = [line.plain for line in safe_lines(text)]
    left_out = len(shown) - MOST_LINES
    if left_out > 0:
        shown = [f"… {left_out:,} lines before", *shown[-MOST_LINES:]]
    plain = scrub("\n".join(shown))
    fence = "`" * max(3, _longest_ticks(plain) + 1)
    return Markdown(f"{fence}text\n{plain}\n{fence}")


def fields(rows: Rows) -> Markdown:
    """Return a list of labels and values."""
    lines = (f"- {label}: {value}" for label, value in rows if value is not None)
    return Markdown("\n".join(lines))


def person(name: str | None, *, call: bool = False) -> Markdown:
    """Return a person's name; ``call`` notifies one who is written ``@login`` in the run file."""
    plain = clean(name, 200)
    if call and _LOGIN.fullmatch(plain):
        return Markdown(plain)
    return prose(plain)


def _opened(found: re.Match[str]) -> str:
    """Escape what would open a heading, a list or a rule at the start of a line."""
    sign = found.group(1)
    return f"{sign}{_APART}" if sign[0].isdigit() else f"\\{sign}"


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


ALERTS_SHOWN: Final = 5
EVIDENCE_SHOWN: Final = 12
STEPS_SHOWN: Final = 40


def title(run: RunSpec) -> str:
    """Return the title of a run's issue (SPEC L)."""
    return f"Hero run: {scrub(clean(run.name, 200))}"


def new_issue(
    run: RunSpec,
    *,
    logbook: str | None = None,
    logbook_url: str | None = None,
    command: str | None = None,
) -> str:
    """Return the body of a new issue: the run contract, and where its logbook is.

    ``logbook_url`` is its page, only of our own making, so it is safe as it is.
    """
    place = code(logbook or run.records.logbook)
    contract = fields(
        (
            ("DRI", person(run.dri, call=True)),
            ("Goal", prose(run.goal)),
            ("Stop/escalation criteria", prose(run.stop_criteria)),
            ("Logbook", place if logbook_url is None else Markdown(f"{place} ({logbook_url})")),
            ("W&B", wandb_of(run)),
            ("Output root", code(run.output_root)),
            ("Final step", Markdown(wording.steps(run.final_step)) if run.final_step else UNKNOWN),
        )
    )
    parts = (
        f"**{prose(title(run))}**",
        contract,
        command_of(command),
        "This issue holds the status; the logbook is the detailed record.",
    )
    return _paragraphs(*parts)


def handed_off(report: RunReport, *, by: str, to: str) -> str:
    """Return the comment on a hand-off: who owns the run now, and how it stands."""
    due = report.next_check_at
    rows = (
        ("Handed over by", person(by)),
        ("Owner now", person(to, call=True)),
        ("Next check", UNKNOWN if due is None else _moment(due)),
    )
    return comment(report.spec, "handed over", rows, state_of(report))


def escalated(run: RunSpec, *, by: str, reason: str, evidence: Sequence[Evidence]) -> str:
    """Return the comment that asks the DRI to decide."""
    asked = f"{person(run.dri, call=True)}: this needs your decision"
    rows = (("Reason", prose(reason)), ("Raised by", person(by)))
    return comment(run, asked, rows, _evidence(evidence))


def new_critical(run: RunSpec, alert: Alert) -> str:
    """Return the comment on a critical condition that has opened."""
    rows = (
        ("DRI", person(run.dri, call=True)),
        ("Since", Markdown(f"{_moment(alert.since)}{alert.or_before}")),
        ("How sure", Markdown(alert.confidence)),
        ("Next safe action", prose(alert.next_action)),
    )
    event = f"critical, {prose(alert.id)}: {prose(alert.title)}"
    return comment(run, event, rows, _evidence(alert.evidence))


def state_of(report: RunReport) -> Markdown:
    """Return how a run stands in a few lines: job, progress, checkpoint, open alerts, next."""
    job, checkpoints = report.facets.job, report.facets.checkpoints.value
    newest = (
        None
        if checkpoints is None
        else newest_of(i for i in checkpoints.items if i.complete and i.own)
    )
    at_job = UNKNOWN
    if job.value is not None:
        at_job = Markdown(f"{code(job.value.id)}, {phase_text(job)}")
    latest: str = UNKNOWN if newest is None else named(newest).removeprefix("step ")
    if newest is not None and newest.suspect is not None:
        latest += f", suspect ({newest.suspect})"
    return fields(
        (
            ("Job", at_job),
            ("Progress", code(report.progress.words)),
            ("Loss", Markdown(wording.number(present_loss(report)[1]))),
            ("Newest complete checkpoint", Markdown(latest)),
            ("W&B", wandb_of(report.spec)),
            ("Open", _open_alerts(report.alerts)),
            ("Next", prose(report.next_action)),
            ("As of", _moment(report.checked_at)),
        )
    )


def approved(plan: Plan) -> Markdown | None:
    """Return who let which block pass and why, by name; ``None`` without any."""
    lines = (
        f"- {code(each.check)} approved by {person(each.whose)}: {prose(each.reason)}"
        for each in (check.approved for check in plan.checks)
        if each is not None
    )
    return Markdown("\n".join(lines)) or None


def comment(run: RunSpec, event: str, rows: Rows, *more: Markdown | None) -> str:
    """Return a comment on what has happened: the run and the ``event``, labelled rows, the rest.

    ``event`` is words of ours, with what ``code`` makes of a name in them.
    """
    return _paragraphs(f"**{prose(run.name)}** {event}", fields(rows), *more)


def command_of(command: str | None) -> Markdown | None:
    """Return the block that shows a launch command."""
    return None if command is None else Markdown(f"Launch command:\n\n{block(command)}")


def _paragraphs(*parts: str | None) -> str:
    return "\n\n".join(part for part in parts if part)


def coded(values: Mapping[str, str | None], when: str = "") -> list[tuple[str, Markdown]]:
    """Return labelled values as code; ``when`` stands after each label."""
    given = ((label, value) for label, value in values.items() if value)
    return [(f"{prose(label, 100)}{when}", code(value)) for label, value in given]


def wandb_of(run: RunSpec) -> Markdown:
    """Return where the run is at W&B: its page, else its name there."""
    spec = run.wandb
    if spec is None:
        return Markdown("none")
    if spec.url:
        return prose(spec.url)
    named = "/".join(part for part in (spec.entity, spec.project, spec.id) if part)
    return code(named or spec.dir)


def _evidence(evidence: Sequence[Evidence]) -> Markdown | None:
    if not evidence:
        return None
    lines = [f"{each.source}: {each.text}" for each in evidence[:EVIDENCE_SHOWN]]
    return Markdown(f"Evidence:\n\n{block(lines)}")


def _open_alerts(alerts: Sequence[Alert]) -> Markdown:
    shown = [f"{prose(alert.id)} {prose(alert.title)}" for alert in alerts[:ALERTS_SHOWN]]
    more = len(alerts) - len(shown)
    told = "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])
    return Markdown(told or "nothing")


def steps_of(steps: Sequence[int]) -> Markdown:
    """Return the newest of many steps, and how many more there are."""
    shown = ", ".join(str(step) for step in sorted(steps)[-STEPS_SHOWN:])
    more = len(steps) - STEPS_SHOWN
    return Markdown(f"{more:,} more and {shown}" if more > 0 else shown or "none")


def _moment(instant: float) -> Markdown:
    text = wording.utc_minute(instant)
    return UNKNOWN if text == wording.UNKNOWN else Markdown(text)
