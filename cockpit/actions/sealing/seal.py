"""A-7, seal: a finished run is verified, its code tagged, its final metrics recorded, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.checks.jobs import possible_jobs
from cockpit.actions.core.action import (
    STARTED,
    Action,
    ActionContext,
    Execution,
    SkipStep,
    Step,
    StepError,
    job_in,
    looking_first,
    safe,
)
from cockpit.actions.core.recording import (
    approvals_text,
    comment_step,
    log_step,
    results_step,
    stored,
)
from cockpit.actions.sealing import code as seal_code
from cockpit.actions.sealing.code import CodeToSeal
from cockpit.model import check_rows as rows
from cockpit.model.alert import Severity
from cockpit.model.observed import Checkpoint, CheckpointState, Phase, TrackerValue
from cockpit.model.plan import Basis, Check, Draft, Outcome, Plan, Request
from cockpit.model.records import EventText
from cockpit.model.wording import number, rate, steps, with_code
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import shown, words_of
from cockpit.records.git.sealing import seal
from cockpit.records.issue.service import code, coded, command_of, comment, prose, wandb_of
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.store.launches import Endings
from cockpit.text.checks import blocked, finding, lacking, passed, warned
from cockpit.text.logbook_scan import read_entries


def job_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether the orchestrator says success and nothing of the lineage is alive."""
    job, live = context.report.facets.job, context.live
    if live.jobs:
        names = ", ".join(each.name for each in live.jobs)
        yield blocked(rows.SEAL_JOBS, f"a job of this lineage is still alive: {names}")
    elif live.possible:
        yield warned(rows.SEAL_JOBS, possible_jobs(live.possible))
    elif live.unknown is not None:
        yield warned(rows.SEAL_JOBS, f"cannot tell whether a job is still alive: {live.unknown}")
    if context.spec.job is None:
        tracker = context.report.facets.tracker.value
        if tracker is not None and tracker.exit_code == 0:
            text = "no job configured; the tracker says exit 0"
            yield passed(rows.SUCCEEDED, text, Basis.INFERRED)
        else:
            yield blocked(rows.SUCCEEDED, _no_success(tracker))
    elif not job.known or job.value is None:
        why = job.why_unknown("not seen yet")
        yield blocked(rows.SUCCEEDED, f"the orchestrator's state is unknown: {why}")
    elif job.value.phase is not Phase.SUCCEEDED:
        yield blocked(rows.SUCCEEDED, f"the orchestrator says {job.value.phase.value}, not success")
    else:
        yield passed(rows.SUCCEEDED, "the orchestrator says success", value=job.value.state)


def _no_success(tracker: TrackerValue | None) -> str:
    if tracker is not None and not tracker.kind.records_end:
        what = f"{tracker.kind.name} does not record how a run ended"
        return f"no job configured ([run.job]), and {what}"
    return "no job configured, and the tracker reports no success"


def tracker_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether the tracker has the run's final state, and the final metrics."""
    facet = context.report.facets.tracker
    value = facet.value
    if not facet.configured:
        text = "no tracker in cockpit.toml: no final metrics"
        yield lacking(context.spec, rows.TRACKER_END, text)
        return
    if not facet.known or value is None:
        why = facet.why_unknown("not read yet")
        yield blocked(rows.TRACKER_END, f"the tracker's final state is unknown: {why}")
        return
    name = value.kind.name
    if not value.kind.records_end:
        yield passed(rows.TRACKER_END, f"{name} does not record an end: nothing is missing there")
    elif value.finished:
        text = f"{name} is finished: {value.id or value.url}"
        yield passed(rows.TRACKER_END, text, value=value.state)
    else:
        yield blocked(rows.TRACKER_END, with_code(f'{name} says "{value.state}"', value.exit_code))
    if value.step is None or value.loss is None:
        yield blocked(rows.METRICS, "the final metrics are missing: no step or loss was logged")
    else:
        text = f"final metrics: step {steps(value.step)}, loss {number(value.true_loss)}"
        yield passed(rows.METRICS, text, value=number(value.true_loss))


def final_checkpoint(context: ActionContext) -> tuple[Checkpoint | None, Check]:
    """Return the final checkpoint, if it is complete, and what is said of it."""
    facet, run = context.report.facets.checkpoints, context.spec
    if not facet.configured:
        text = "no checkpoints in cockpit.toml (checkpoints.path)"
        return None, lacking(context.spec, rows.FINAL_CHECKPOINT, text)
    if not facet.known or facet.value is None:
        why = facet.why_unknown("not listed yet")
        return None, blocked(rows.FINAL_CHECKPOINT, f"the final checkpoint is unknown: {why}")
    items = facet.value.items
    done = [item for item in items if item.state is CheckpointState.COMPLETE]
    newest = max((item for item in done if item.step is not None), key=_step, default=None)
    if run.final_step is None:
        text = "the final step is unknown (final_step), so the newest may not be final"
        return newest, lacking(context.spec, rows.FINAL_CHECKPOINT, text)
    final = [item for item in done if item.step in (run.final_step - 1, run.final_step)]
    if not final:
        last = "none" if newest is None else steps(newest.step)
        text = f"no complete checkpoint of step {steps(run.final_step)}; newest: {last}"
        text = "; ".join([text, *facet.value.notes])
        return None, blocked(rows.FINAL_CHECKPOINT, text)
    best = max(final, key=lambda item: (item.good, item.permanent is not False, _step(item)))
    if best.suspect is not None:
        text = f"the final checkpoint is suspect: {best.suspect}"
        return best, lacking(context.spec, rows.FINAL_CHECKPOINT, text)
    if best.permanent is False:
        text = f"the final checkpoint lies in the temporary root: {best.path}"
        return best, warned(rows.FINAL_CHECKPOINT, text)
    return best, passed(rows.FINAL_CHECKPOINT, f"final checkpoint: {best.path}", value=best.path)


def _step(item: Checkpoint) -> int:
    return item.step or 0


def records_done(context: ActionContext) -> Iterator[Check]:
    """Yield whether there is a logbook and an issue to write into."""
    spec, facet = context.spec.records, context.report.facets.records
    if spec.logbook is None:
        text = "no logbook in cockpit.toml (records.logbook)"
        yield lacking(context.spec, rows.SEAL_LOGBOOK, text)
    elif facet.error is not None:
        yield blocked(rows.SEAL_LOGBOOK, f"the logbook cannot be read: {facet.error.message}")
    else:
        yield passed(rows.SEAL_LOGBOOK, f"the seal is written to {spec.logbook}")
    if spec.issue is None:
        yield lacking(context.spec, rows.SEAL_ISSUE, "no issue in cockpit.toml (records.issue)")


def open_alerts(context: ActionContext) -> Iterator[Check]:
    """Yield what is still open: a missing artifact blocks, the rest is said (C-19)."""
    for alert in context.report.alerts:
        if alert.id == "C-19":
            for line in alert.evidence:
                yield finding(rows.MISSING_ARTIFACT, f"{line.text} ({line.source})")
        elif alert.severity in (Severity.ALERT, Severity.CRITICAL):
            by = f" (acknowledged by {alert.acknowledged.by})" if alert.acknowledged else ""
            yield finding(rows.OPEN_ALERT, f"still open: {alert.title}{by}", of=alert.id)


def monitors(context: ActionContext) -> Iterator[Check]:
    """Yield whether anybody else still monitors the run; our own watch ends by itself."""
    value, ours = context.report.facets.monitor.value, context.report.watched_by
    if ours is not None:
        yield passed(rows.MONITORS, f"watched by {ours}; the seal tells it that the run is over")
    if value is None:
        return
    if value.fresh and not _is_ours(value.owner, ours):
        who = value.owner or "somebody"
        where = value.path or "a state file"
        session = value.tunnel_session or value.server_session
        how = f"end its session {session}" if session else f"end what writes {where}"
        yield blocked(rows.MONITORS, f"{who}'s monitor is still running: {how}, then seal")
    if value.doubt is not None and not _is_ours(value.owner, ours):
        text = f"cannot tell whether a monitor is still running: {value.doubt}"
        yield warned(rows.MONITORS, text)
    for other in value.others:
        if other.fresh and not _is_ours(other.owner, ours):
            who = other.owner or "somebody"
            yield blocked(rows.MONITORS, f"a second monitor, of {who}, still writes {other.path}")


def _is_ours(owner: str | None, watched_by: str | None) -> bool:
    """Tell whether a fresh state file is that of the watch that this cockpit knows."""
    return owner is not None and watched_by is not None and watched_by.startswith(f"{owner} (")


TITLE: Final = "final seal"
DEADLINE: Final = 10.0
COMMIT: Final = "commit"
FIGURES: Final = {"last_step": "Last step", "loss": "Loss", "throughput": "Throughput"}


class Seal(Action):
    """Refuses with the list of what is missing, or seals; twice changes nothing."""

    verb = "seal"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what is missing, what would be tagged, and the final figures."""
        final, about = final_checkpoint(context)
        step = _final_step(context, final)
        code = await seal_code.look(context, step)
        logged = await _logged(context)
        done = _already(context, code, logged)
        figures = _figures(context, final)
        page = [f"# {context.spec.name}: seal at step {steps(step)}", ""]
        page += [f"- {name.replace('_', ' ')}: {value}" for name, value in figures.items()]
        return Draft(
            words=f"seal {request.run} {step}",
            checks=(
                *([done] if done is not None else []),
                *job_done(context),
                *tracker_done(context),
                about,
                *records_done(context),
                *open_alerts(context),
                *monitors(context),
                *seal_code.checks(context, code),
            ),
            page="\n".join(page),
            facts={
                "step": str(step),
                "dirty": json.dumps([] if code is None else code.dirty),
                "digest": "" if code is None else code.digest,
                "tag": "" if code is None else code.facts.tag,
                "head": (None if code is None else code.facts.sha) or "",
                "tag_at": (None if code is None else code.facts.tag_at) or "",
                "on_remote": "yes" if code is not None and code.facts.on_remote else "no",
                "job": context.job_id,
                STARTED: context.job_start,
                "logged": "yes" if logged else "no",
                **figures,
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: commit, tag and push; end the watch; log; comment."""
        return (
            Step("seal", _seal, seen=_tag_stands),
            Step("end", _end, again=True),
            looking_first(log_step(_entry, f"{plan.run}: log final seal"), _not_logged_yet),
            results_step(_results, _status, f"{plan.run}: log final seal"),
            comment_step(lambda execution: f"seal:{execution.facts['step']}", _comment),
        )


def _final_step(context: ActionContext, final: Checkpoint | None) -> int:
    """Return the step that the seal is named after: the exact final one, where that is known."""
    if context.spec.final_step is not None:
        return context.spec.final_step
    if final is not None and final.step is not None:
        return final.step
    tracker = context.report.facets.tracker.value
    return (tracker.step if tracker is not None else None) or 0


async def _logged(context: ActionContext) -> bool:
    """Return whether the logbook holds the seal already; one that cannot be read does not."""
    path = context.spec.records.logbook
    if path is None:
        return False
    try:
        text = await offload(read_text, Path(path), deadline=DEADLINE)
    except (OSError, ValueError, TimeoutError):
        return False
    return any(TITLE in entry.title.lower() for entry in read_entries(text))


def _already(context: ActionContext, code: CodeToSeal | None, logged: bool) -> Check | None:
    """Return the block of a run that is sealed: the tag stands, and that is written down."""
    by_us = [
        entry
        for entry in context.entries
        if entry.action == "seal" and entry.outcome is Outcome.DONE and entry.recorded
    ]
    if code is None:
        if logged or by_us:
            return finding(rows.SEALED, "already sealed and recorded", Basis.RECORDED)
        return None
    tag = code.facts.tag_at
    written = logged or by_us or context.spec.records.logbook is None
    if tag is None or not written or code.facts.on_remote is False:
        return None
    return finding(rows.SEALED, f"already sealed: tag {code.facts.tag} at {tag}", value=tag)


def _figures(context: ActionContext, final: Checkpoint | None) -> dict[str, str]:
    """Return the final figures, as they are recorded (HERO, Seal)."""
    tracker, spec = context.report.facets.tracker.value, context.spec
    figures = {
        "checkpoint": final.path if final is not None else None,
        "output_root": spec.output_root,
        "command": _command(context),
    }
    if tracker is not None:
        figures |= {
            "last_step": steps(tracker.step),
            "loss": number(tracker.true_loss),
            "throughput": rate(tracker.throughput, tracker.throughput_unit),
            "wandb_id": tracker.id,
            "wandb_name": tracker.name,
            "wandb_url": tracker.url,
        }
    return {name: safe(value) for name, value in figures.items() if value}


def _command(context: ActionContext) -> str | None:
    command = context.spec.resubmit or context.spec.launch
    try:
        return None if command is None else shown(words_of(command))
    except CommandError:
        return None


async def _not_logged_yet(execution: Execution) -> None:
    """See that there is no entry of this seal: a second one is never written."""
    if execution.facts.get("logged") == "yes":
        raise SkipStep("already in the logbook")


async def _seal(execution: Execution) -> str:
    code, facts = execution.context.spec.code, execution.facts
    if code is None or code.repo is None:
        raise SkipStep("no code repository in cockpit.toml")
    if not seal_code.taggable(code.repo):
        raise SkipStep(f"tagging code on {code.repo.endpoint} is not supported yet")
    if facts.get("tag_at") and facts.get("on_remote") == "yes":
        await execution.note(**{COMMIT: facts["tag_at"]})
        raise SkipStep(f"{facts['tag']} stands at {facts['tag_at'][:10]} already")
    done = await seal(
        code.repo,
        execution.context.spec.name,
        int(facts["step"]),
        _message(execution),
        json.loads(facts["dirty"]),
        head=facts.get("head") or None,
    )
    if done.commit is not None:
        await execution.note(**{COMMIT: done.commit})
    if done.trouble is not None:
        raise StepError(done.trouble)
    return f"{done.tag} at {(done.commit or '')[:10]}, pushed"


async def _tag_stands(execution: Execution) -> str | None:
    """Return where the tag stands, here and on the remote, if a seal cut short has set it."""
    code = await seal_code.look(execution.context, int(execution.facts["step"]))
    if code is None or not code.facts.tag_at or not code.facts.on_remote:
        return None
    await execution.note(**{COMMIT: code.facts.tag_at})
    return f"{code.facts.tag} stands at {code.facts.tag_at[:10]}, pushed"


async def _end(execution: Execution) -> str:
    """Tell the watch, here or in another process, that a person knows of the end (SPEC W)."""
    if execution.context.parts.store is None:
        raise SkipStep("there is no store")
    who, at = execution.entry.operator, execution.entry.begun_at
    told = (execution.context.key, *job_in(execution.facts), who, at)
    await stored(execution, lambda store: Endings(store).acknowledge(*told), "the end")
    watched = execution.context.report.watched_by
    return f"the watch of {watched} ends" if watched else "the end is acknowledged"


def _message(execution: Execution) -> str:
    facts = execution.facts
    lines = [f"{execution.plan.run}: final seal at step {facts['step']}", ""]
    named = ("loss", "wandb_id", "wandb_url", "checkpoint", "output_root")
    lines += [f"{name}: {facts[name]}" for name in named if facts.get(name)]
    return "\n".join([*lines, f"sealed by: {execution.entry.operator}"])


def _entry(execution: Execution) -> EventText:
    facts = execution.facts
    return EventText(
        title="final seal",
        status=f"sealed at step {steps(int(facts['step']))} by {execution.entry.operator}",
        evidence="\n".join(_evidence(execution)),
        decision=approvals_text(execution.plan) or "everything that a seal needs is in place",
        next="nothing to do: the run is over",
    )


def _evidence(execution: Execution) -> list[str]:
    facts = execution.facts
    figures = [f"{name} {facts[name]}" for name in ("loss", "throughput") if facts.get(name)]
    wandb = [facts[name] for name in ("wandb_id", "wandb_name", "wandb_url") if facts.get(name)]
    lines = [
        f"final metrics: step {facts.get('last_step', '?')}, {', '.join(figures) or 'none'}",
        f"W&B: {' · '.join(dict.fromkeys(wandb)) or 'none'}",
        f"final checkpoint: {facts.get('checkpoint', 'none')}",
        f"output root: {facts.get('output_root', 'none')}",
    ]
    if facts.get(COMMIT):
        lines.append(f"tag: {facts['tag']} at {facts[COMMIT]}")
    if facts.get("command"):
        lines.append(f"launch command: `{facts['command']}`")
    return lines


def _comment(execution: Execution) -> str:
    facts, spec = execution.facts, execution.context.spec
    caveats = approvals_text(execution.plan).replace("\n", "; ")
    told = (
        ("W&B", wandb_of(spec)),
        ("Output root", code(spec.output_root)),
        ("Final checkpoint", code(facts.get("checkpoint"))),
        ("Tag", code(facts.get("tag") or "none: no code repository in cockpit.toml")),
        ("Commit", code(facts.get(COMMIT))),
        *coded({label: facts.get(name) for name, label in FIGURES.items()}),
        ("Caveats", prose(caveats or "none")),
    )
    event = f"sealed at step {steps(int(facts['step']))}"
    return comment(spec, event, told, command_of(facts.get("command")))


def _results(execution: Execution) -> dict[str, str]:
    """Return what the run log's results are filled with (HPC, "Updating a run log")."""
    facts = execution.facts
    fields = {
        "final step": facts["step"],
        "end_train_loss": facts.get("loss", ""),
        "checkpoint": f"`{facts['checkpoint']}`" if facts.get("checkpoint") else "",
    }
    return {label: value for label, value in fields.items() if value}


def _status(execution: Execution) -> str:
    tag = f", tag {execution.facts['tag']}" if execution.facts.get(COMMIT) else ""
    return (
        f"sealed at step {steps(int(execution.facts['step']))} by {execution.entry.operator}{tag}"
    )
