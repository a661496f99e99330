"""What a run's issue says: short status for those who watch (SPEC S-11)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.lineage import named, newest_of
from cockpit.model.plan import Approval
from cockpit.model.report import RunReport, phase_text, present_loss
from cockpit.model.run import RunSpec
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

UNKNOWN: Final = "unknown"
MOST_LINES: Final = 60
"""Log lines that a comment quotes at most."""
_APART: Final = "\N{ZERO WIDTH SPACE}"
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~$&])")
_CALL: Final = re.compile(r"@(?=[\w-])|#(?=\d)|\b(?<=GH-)(?=\d)", re.IGNORECASE)
"""What GitHub would turn into a mention or a link: ``@ada``."""
_BLOCK: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")
_LOGIN: Final = re.compile(r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[A-Za-z0-9_.-]{1,100})?")
"""Such as ``@ada``."""


def prose(text: str | None, limit: int = 2000) -> str:
    """Return a person's words as one line of plain Markdown; ``unknown`` when there are none."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    escaped = _SPECIAL.sub(r"\\\1", plain)
    called = _CALL.sub(lambda found: found.group() + _APART, escaped)
    return _BLOCK.sub(_opened, called)


def code(text: object, limit: int = 1000) -> str:
    """Return a name, a path or a command as a code span that it cannot leave."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    ticks = "`" * (_longest_ticks(plain) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}"


def block(lines: str | Iterable[str]) -> str:
    """Return log lines as a code block that they cannot close; the last ``MOST_LINES`` of them."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    shown = [line.plain for line in safe_lines(text)]
    left_out = len(shown) - MOST_LINES
    if left_out > 0:
        shown = [f"… {left_out:,} lines before", *shown[-MOST_LINES:]]
    plain = scrub("\n".join(shown))
    fence = "`" * max(3, _longest_ticks(plain) + 1)
    return f"{fence}text\n{plain}\n{fence}"


def fields(values: Iterable[tuple[str, str | None]]) -> str:
    """Return a list of labels and values that are Markdown already; ``None`` ones are left out."""
    return "\n".join(f"- {label}: {value}" for label, value in values if value is not None)


def person(name: str | None, *, call: bool = False) -> str:
    """Return a person's name; ``call`` notifies one who is written ``@login`` in the run file."""
    plain = clean(name, 200)
    if call and _LOGIN.fullmatch(plain):
        return plain
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
            ("Logbook", place if logbook_url is None else f"{place} ({logbook_url})"),
            ("W&B", _wandb(run)),
            ("Output root", code(run.output_root)),
            ("Final step", wording.steps(run.final_step) if run.final_step else UNKNOWN),
        )
    )
    parts = (
        f"**{prose(title(run))}**",
        contract,
        _command(command),
        "This issue holds the status; the logbook is the detailed record.",
    )
    return _paragraphs(*parts)


def launched(run: RunSpec, launch_id: str, values: Mapping[str, str]) -> str:
    """Return the comment on a launch; ``values`` are labelled figures (git SHA, checkpoint …)."""
    return _comment(run, f"launched as {code(launch_id)}", _coded(values))


def relaunched(
    run: RunSpec,
    launch_id: str,
    *,
    recoverable: str,
    checkpoint: str | None,
    sha: str | None,
    approvals: Sequence[Approval] = (),
    former: str | None = None,
) -> str:
    """Return the comment on a relaunch: why it was recoverable, from where, who let what pass."""
    rows = (
        ("Why it is recoverable", prose(recoverable)),
        ("Job before", None if former is None else code(former)),
        ("Checkpoint", code(checkpoint)),
        ("Git SHA", code(sha)),
    )
    event = f"relaunched as {code(launch_id)}, same lineage"
    return _comment(run, event, rows, approved(approvals))


def new_lineage(
    run: RunSpec,
    *,
    reason: str,
    old: Mapping[str, str],
    new: Mapping[str, str],
    source: str | None,
    sha: str | None,
    approvals: Sequence[Approval] = (),
) -> str:
    """Return the comment on a new lineage: why, the identities before and after, its source."""
    rows = (
        ("Reason", prose(reason)),
        *_coded(old, " before"),
        *_coded(new, " now"),
        ("Starts from", code(source)),
        ("Git SHA", code(sha)),
    )
    return _comment(run, "goes on as a new lineage", rows, approved(approvals))


def rolled_back(
    run: RunSpec, step: int, path: str, *, rejected: Sequence[int], reason: str, by: str
) -> str:
    """Return the comment on a rollback and on what it rejects for good."""
    rows = (
        ("Goes on from", f"{code(path)}, step {wording.steps(step)}"),
        ("Rejected for good", _steps(rejected)),
        ("Reason", prose(reason)),
        ("Decided by", person(by)),
    )
    return _comment(run, f"rolled back to step {wording.steps(step)}", rows)


def retained(
    run: RunSpec, *, deleted: Sequence[int], kept: Sequence[int], freed: int | None, by: str
) -> str:
    """Return the comment on a retention clean-up; ``freed`` in bytes."""
    rows = (
        ("Deleted", _steps(deleted)),
        ("Kept", _steps(kept)),
        ("Freed", wording.size(freed)),
        ("Confirmed by", person(by)),
    )
    return _comment(run, f"{len(deleted):,} checkpoints deleted", rows)


def sealed(  # noqa: PLR0913 - each is a line of the comment
    run: RunSpec,
    step: int,
    *,
    tag: str,
    commit: str | None,
    checkpoint: str | None,
    metrics: Mapping[str, str],
    command: str | None = None,
    caveats: str | None = None,
) -> str:
    """Return the comment on a seal: W&B, checkpoint, tag, final metrics, command, caveats."""
    rows = (
        ("W&B", _wandb(run)),
        ("Output root", code(run.output_root)),
        ("Final checkpoint", code(checkpoint)),
        ("Tag", code(tag)),
        ("Commit", code(commit)),
        *_coded(metrics),
        ("Caveats", prose(caveats) if caveats else "none"),
    )
    return _comment(run, f"sealed at step {wording.steps(step)}", rows, _command(command))


def handed_off(report: RunReport, *, by: str, to: str) -> str:
    """Return the comment on a hand-off: who owns the run now, and how it stands."""
    due = report.next_check_at
    rows = (
        ("Handed over by", person(by)),
        ("Owner now", person(to, call=True)),
        ("Next check", UNKNOWN if due is None else _moment(due)),
    )
    return _comment(report.spec, "handed over", rows, state_of(report))


def escalated(run: RunSpec, *, by: str, reason: str, evidence: Sequence[Evidence]) -> str:
    """Return the comment that asks the DRI to decide."""
    asked = f"{person(run.dri, call=True)}: this needs your decision"
    rows = (("Reason", prose(reason)), ("Raised by", person(by)))
    return _comment(run, asked, rows, _evidence(evidence))


def new_critical(run: RunSpec, alert: Alert) -> str:
    """Return the comment on a critical condition that has opened."""
    rows = (
        ("DRI", person(run.dri, call=True)),
        ("Since", f"{_moment(alert.since)}{alert.or_before}"),
        ("How sure", alert.confidence),
        ("Next safe action", prose(alert.next_action)),
    )
    event = f"critical, {prose(alert.id)}: {prose(alert.title)}"
    return _comment(run, event, rows, _evidence(alert.evidence))


def state_of(report: RunReport) -> str:
    """Return how a run stands in a few lines: job, progress, checkpoint, open alerts, next."""
    job, checkpoints = report.facets.job, report.facets.checkpoints.value
    newest = (
        None
        if checkpoints is None
        else newest_of(i for i in checkpoints.items if i.complete and i.own)
    )
    latest = UNKNOWN if newest is None else named(newest).removeprefix("step ")
    if newest is not None and newest.suspect is not None:
        latest += f", suspect ({newest.suspect})"
    return fields(
        (
            ("Job", UNKNOWN if job.value is None else f"{code(job.value.id)}, {phase_text(job)}"),
            ("Progress", code(report.progress.words)),
            ("Loss", wording.number(present_loss(report)[1])),
            ("Newest complete checkpoint", latest),
            ("W&B", _wandb(report.spec)),
            ("Open", _open_alerts(report.alerts)),
            ("Next", prose(report.next_action)),
            ("As of", _moment(report.checked_at)),
        )
    )


def approved(approvals: Sequence[Approval]) -> str | None:
    """Return who let which block pass and why, by name; ``None`` without any."""
    if not approvals:
        return None
    lines = (
        f"- {code(each.check)} approved by {person(each.whose)}: {prose(each.reason)}"
        for each in approvals
    )
    return "\n".join(lines)


def _comment(
    run: RunSpec, event: str, rows: Iterable[tuple[str, str | None]], more: str | None = None
) -> str:
    return _paragraphs(f"**{prose(run.name)}** {event}", fields(rows), more)


def _command(command: str | None) -> str | None:
    return None if command is None else f"Launch command:\n\n{block(command)}"


def _paragraphs(*parts: str | None) -> str:
    return "\n\n".join(part for part in parts if part)


def _coded(values: Mapping[str, str], when: str = "") -> list[tuple[str, str]]:
    """Return labelled values as code; ``when`` stands after each label."""
    given = ((label, value) for label, value in values.items() if value)
    return [(f"{prose(label, 100)}{when}", code(value)) for label, value in given]


def _wandb(run: RunSpec) -> str:
    spec = run.wandb
    if spec is None:
        return "none"
    if spec.url:
        return prose(spec.url)
    named = "/".join(part for part in (spec.entity, spec.project, spec.id) if part)
    return code(named or spec.dir)


def _evidence(evidence: Sequence[Evidence]) -> str | None:
    if not evidence:
        return None
    lines = [f"{each.source}: {each.text}" for each in evidence[:EVIDENCE_SHOWN]]
    return f"Evidence:\n\n{block(lines)}"


def _open_alerts(alerts: Sequence[Alert]) -> str:
    shown = [f"{prose(alert.id)} {prose(alert.title)}" for alert in alerts[:ALERTS_SHOWN]]
    more = len(alerts) - len(shown)
    return "; ".join([*shown, *([f"{more} more"] if more > 0 else [])]) or "nothing"


def _steps(steps: Sequence[int]) -> str:
    shown = ", ".join(str(step) for step in sorted(steps)[-STEPS_SHOWN:])
    more = len(steps) - STEPS_SHOWN
    return f"{more:,} more and {shown}" if more > 0 else shown or "none"


def _moment(instant: float) -> str:
    text = wording.utc_minute(instant)
    return UNKNOWN if text == wording.UNKNOWN else text
