"""The job's state and the jobs that live: never a second one on a lineage (C-25)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cockpit.actions.core.action import ActionContext
from cockpit.hosts.notes import number_of
from cockpit.model import check_rows as rows
from cockpit.model import wording
from cockpit.model.facet import ErrorKind
from cockpit.model.history import History
from cockpit.model.jobs import Live, LiveJob, NamedJob
from cockpit.model.lineage import shared_place
from cockpit.model.observed import JobValue, Phase
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.local.programs import Use, names_the_tracker_run, use_of, within
from cockpit.rules import present
from cockpit.rules.present import goes_on
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.scrub import scrub, shown

QUEUED = "queued"


def relaunch_state(context: ActionContext) -> list[Check]:
    """Check that the job is over or stands still (SPEC A-2); a healthy one is not touched."""
    facet, run = context.report.facets.job, context.spec.name
    job = facet.value
    if job is None or facet.error is not None or job.phase is Phase.UNKNOWN:
        return [_unknown_state(context)]
    if job.phase is Phase.SUCCEEDED:
        short = next((alert for alert in context.report.alerts if alert.id == "C-19"), None)
        if short is not None:
            return [warned(rows.RELAUNCH_STATE, f"its exit code says success, but: {short.title}")]
        return [blocked(rows.RELAUNCH_STATE, "job succeeded: nothing to relaunch, seal it")]
    if job.phase.terminal:
        return [passed(rows.RELAUNCH_STATE, f"job ended: {_words(job)}", value=_label(job))]
    if job.stopped is not None:
        text = f"its process is stopped, not dead ({goes_on(context.spec, job.stopped)})"
        text = f"{text}: resume it, or stop it first"
        return [blocked(rows.RELAUNCH_STATE, text, value=_label(job))]
    stalled = next((alert for alert in context.report.alerts if alert.id == "C-06"), None)
    if job.phase is Phase.RUNNING and stalled is not None:
        text = f"stalled ({stalled.title}); will be stopped first"
        return [warned(rows.RELAUNCH_STATE, text, value=_label(job))]
    doing = "runs" if job.phase is Phase.RUNNING else "is waiting to start"
    text = f"it {doing}: stop it first (cockpit stop {run})"
    return [blocked(rows.RELAUNCH_STATE, text, value=_label(job))]


def _unknown_state(context: ActionContext) -> Check:
    """Return the block: nobody approves a state that is not known (SPEC A).

    A job of which its platform says for certain that it is not there is another thing: where
    nothing of the lineage lives, a person says that it is over.
    """
    error, platform = context.report.facets.job.error, context.acting_platform
    why = error.message if error is not None else "no definite answer"
    text = f"job state unknown: {why}"
    gone = error is not None and error.kind is ErrorKind.NOT_FOUND
    idle = context.live.unknown is None and not (context.live.jobs or context.live.unlike)
    if not (gone and idle and platform is not None and platform.forgets):
        return blocked(rows.RELAUNCH_STATE, text)
    known = f"no such job is listed there: {why}; nothing known to be of this lineage lives there"
    return finding(rows.FORGOTTEN, f"{known}: approve if you know that it is over")


def launch_state(context: ActionContext) -> list[Check]:
    """Check that the run has no job yet (SPEC A-1); one that has one is relaunched."""
    facet, run = context.report.facets.job, context.spec.name
    job = facet.value
    nothing = facet.error is not None and facet.error.kind in (
        ErrorKind.NOT_FOUND,
        ErrorKind.NOT_CONFIGURED,
    )
    if job is None and facet.error is not None and nothing:
        if context.spec.job is None or context.spec.job.id is None:
            return [passed(rows.LAUNCH_STATE, "the run has no job yet")]
        return [warned(rows.LAUNCH_STATE, f"the run had a job before: {facet.error.message}")]
    if job is None or facet.error is not None or job.phase is Phase.UNKNOWN:
        why = facet.why_unknown("no definite answer")
        return [blocked(rows.LAUNCH_STATE, f"cannot tell whether the run has a job: {why}")]
    if not job.phase.terminal:
        return [blocked(rows.LAUNCH_STATE, f"the run has a job: {_words(job)}", value=_label(job))]
    text = f"the run had a job before: {_words(job)}; see relaunch {run}"
    return [warned(rows.LAUNCH_STATE, text)]


def job_name(job: LiveJob) -> str:
    """Return how a plan names a job: its name and, where that is another one, its id."""
    return scrub(job.name if job.id in job.name else f"{job.name} ({job.id})")


def lineage_jobs(context: ActionContext) -> list[Check]:
    """Check that nothing else trains this lineage: never overridable (C-25)."""
    live = context.live
    if live.unknown is not None:
        text = f"cannot tell which jobs of this lineage are running: {live.unknown}"
        return [blocked(rows.LINEAGE_JOBS, text)]
    own = own_jobs(context)
    others = [job for job in live.jobs if job not in own]
    if others:
        return [_other_jobs(others)]
    doubts = [*([] if own else written_after_end(context)), *alike_jobs(context)]
    if any(not check.overridable for check in doubts):
        return doubts
    told = [held_jobs(context)] if live.held else []
    told += [possible_jobs(live.unlike)] if live.unlike else []
    if told:
        ids = ", ".join(job.id for job in (*live.held, *live.unlike))
        return [*doubts, warned(rows.LINEAGE_JOBS, "; ".join(told), value=ids)]
    if doubts:
        return doubts
    text = f"no other job of this lineage is running{left_over(live)}"
    return [passed(rows.LINEAGE_JOBS, text, moves=True)]  # a helper may go meanwhile


def _other_jobs(others: Sequence[LiveJob]) -> Check:
    names = "; ".join(f"{job_name(job)} ({job.why})" for job in others)
    text = f"another job of this lineage is running: {names}; stop it first"
    return blocked(rows.LINEAGE_JOBS, text, value=", ".join(job.id for job in others))


def two_writers(context: ActionContext) -> list[Check]:
    """Return the block where two jobs save at once: the newest save of one is an older step."""
    own = own_jobs(context)
    others = [job for job in context.live.jobs if job not in own]
    return [_other_jobs(others)] if others and len(context.live.jobs) > 1 else []


def written_after_end(context: ActionContext) -> list[Check]:
    """Block where something wrote to the outputs after the job's end; silent since, a person may.

    The block is approvable once nothing was written for a while: whoever wrote may be gone.
    """
    spec, named = context.spec, context.spec.job is not None
    history = History(now=context.now, facets=context.report.facets, job_named=named)
    found = present.written_after_end(spec, history)
    if found is None:
        return []
    if found.still is not None:
        text = f"{found.text}, after the job's end"
        return [blocked(rows.LINEAGE_JOBS, f"{text}: find what trains {spec.name}")]
    text = f"{found.text}, after the job's end, and nothing since"
    text += ": approve if you know that what wrote it is gone"
    return [finding(rows.WRITTEN_AFTER_END, text)]


def alike_jobs(context: ActionContext) -> list[Check]:
    """Block where a living job runs what the run's job runs: it may be this run, started by hand.

    Nothing proves that it writes here, so a person who knows what it is may approve.
    """
    jobs = alike_beside(context, context.live)
    if not jobs:
        return []
    names = "; ".join(f"{job_name(job)} {job.why}" for job in jobs)
    text = f"{names}: it may train {context.spec.name}. Stop it, or approve if it is another run"
    return [finding(rows.SIMILAR_JOB, text, value=", ".join(sorted(job.id for job in jobs)))]


def alike_beside(context: ActionContext, live: Live) -> tuple[LiveJob, ...]:
    """Return the living jobs that are alike and that no other run of the run file names as its."""
    others = {run.job.id for run in context.file.runs if run.job and run.name != context.spec.name}
    return tuple(job for job in live.alike if job.id not in others)


async def jobs_of_others(context: ActionContext) -> dict[str, str]:
    """Return which of the living jobs another run of the run file names as its own, and its name.

    Two runs that write to one place are one lineage: a stop of one is none of the other.
    """
    platform = context.acting_platform
    others = [run for run in _others(context) if shared_place(context.spec, run) is not None]
    if platform is None or not others:
        return {}
    found = await platform.live(others)
    mine = {job.id for job in context.live.jobs if _names(context.spec, job)}
    return {
        job.id: run.name
        for run in others
        for job in found[run.name].jobs
        if job.id not in mine and _names(run, job)
    }


def _others(context: ActionContext) -> list[RunSpec]:
    """Return the other runs of the run file for whose jobs the same system answers.

    A process id, or a job's number, is another job's on another host or cluster.
    """
    platform, own = context.acting_platform, context.spec
    if platform is None:
        return []
    return [
        run
        for run in context.file.runs
        if run.name != own.name
        and context.parts.platforms(run) is platform
        and platform.endpoint(run) == platform.endpoint(own)
    ]


def _names(run: RunSpec, job: LiveJob) -> bool:
    """Tell whether a run names a job as its own: by its file, its pid file or its launch id."""
    launched = job.launch_id is not None and number_of(run.name, job.launch_id) is not None
    return job.recorded or launched or (run.job is not None and run.job.id == job.id)


def held_jobs(context: ActionContext) -> str:
    """Return what former launches have left held: it writes nothing, and never starts by itself."""
    names = "; ".join(f"{job.name} ({job.id}: {job.why})" for job in context.live.held)
    advice = f"cockpit stop {context.spec.name} --only held cancels it"
    return f"no other job of this lineage is running; {names}; {advice}"


def possible_jobs(jobs: Iterable[LiveJob]) -> str:
    """Return which processes live that may write to the lineage, though nothing proves it."""
    names = "; ".join(f"{job.name} ({job.id}: {job.why})" for job in jobs)
    return f"may write to this lineage (not proven): {names}; check what it is"


def left_over(live: Live) -> str:
    """Return which helpers have outlived the job that they served, if any."""
    names = "; ".join(f"{job.name} ({job.id}: {job.why})" for job in live.leftovers)
    return f"; left over, not training, will exit by themselves: {names}" if names else ""


def next_by_itself(context: ActionContext) -> list[Check]:
    """Check that nothing starts by itself once the job is over: a relaunch would be a second."""
    stop = f"cancel it first (cockpit stop {context.spec.name} --successors yes)"
    return [
        finding(
            rows.STARTS_NEXT,
            f"{job_name(job)} ({job.why}) {_begins(job)}: "
            f"{stop if job.handle and not job.beyond else job.beyond or 'end it first'}",
        )
        for job in queued_jobs(context)
    ]


def _begins(job: LiveJob) -> str:
    """Return when a queued job starts: after the run's job, or only if that ends well."""
    return "starts by itself if it ends well" if job.needs_success else "starts by itself after it"


def queued_jobs(context: ActionContext) -> tuple[LiveJob, ...]:
    """Return what starts by itself once the run's job is over (SPEC J), and has not begun."""
    job, begun = context.report.facets.job.value, {each.id for each in context.live.jobs}
    return () if job is None else tuple(each for each in job.queued if each.id not in begun)


def may_be_stopped(jobs: Iterable[LiveJob]) -> list[Check]:
    """Check that this user may signal these jobs: found out before, not when half is stopped."""
    return [
        finding(rows.PERMISSION, f"{job.name} ({job.id}) cannot be stopped by you: {job.beyond}")
        for job in jobs
        if job.beyond is not None
    ]


def own_jobs(context: ActionContext) -> tuple[LiveJob, ...]:
    """Return the live jobs that are the run's current one: what a relaunch stops."""
    job = context.report.facets.job.value
    if job is None or job.phase.terminal:
        return ()
    return tuple(
        live
        for live in context.live.jobs
        if live.id == job.id
        or live.id in job.children
        or (live.launch_id is not None and live.launch_id == job.launch_id)
    )


def _label(job: JobValue) -> str:
    return job.launch_id or job.id or "unnamed"


def _words(job: JobValue) -> str:
    """Return a job in words that do not tick."""
    parts = [job.phase.value]
    if job.reason and job.reason.casefold() != job.phase.value:
        parts.append(job.reason)
    elif job.exit_code is not None:
        parts.append(f"exit code {job.exit_code}")
    if job.phase.terminal and job.ended_at is not None:
        parts.append(f"at {wording.moment(job.ended_at)}")
    return ", ".join(parts)


def platform_acts(context: ActionContext) -> list[Check]:
    """Check that this version can act on the run's kind of job."""
    if context.acting_platform is not None:
        return []
    kind = context.spec.job.kind if context.spec.job is not None else None
    if kind is None:
        return [finding(rows.BACKEND, "no job in cockpit.toml ([run.job])")]
    return [finding(rows.BACKEND, f"{kind} jobs are not supported yet")]


async def whose_else(context: ActionContext, job: NamedJob) -> str | None:
    """Return which other run of the run file a living job trains, by all that its platform sees.

    A relative path or a wrapper's words tell nothing of it; the files that it writes do.
    """
    platform, others = context.acting_platform, _others(context)
    if platform is None or not others or job.id in {each.id for each in context.live.jobs}:
        return None
    found = await platform.live(others)
    living = ((run.name, each) for run in others for each in found[run.name].jobs)
    owner = next(((name, each) for name, each in living if each.id == job.id), None)
    return None if owner is None else f"it is a job of {owner[0]}: {owner[1].why}"


def adoption_checks(
    context: ActionContext, job: NamedJob, elses: str | None = None
) -> Iterator[Check]:
    """Yield whether the job lives, whose it is, and whether another one writes beside it.

    ``elses`` says of which other run it is, if of one.
    """
    yield _alive(job)
    if job.lives:
        yield blocked(rows.WHOSE, elses) if elses else _whose(context, job)
    yield from _other_writers(context, job)


def _alive(job: NamedJob) -> Check:
    if job.lives is None:
        return blocked(rows.ADOPTED, f"cannot tell whether {shown(job.id)} lives: {job.text}")
    if not job.lives:
        return blocked(rows.ADOPTED, f"{job.text}: only a job that lives can be adopted")
    return passed(rows.ADOPTED, job.text)


def _whose(context: ActionContext, job: NamedJob) -> Check:
    """Return whose job it is: by its launch id, its output root and its W&B id."""
    own = context.spec
    if job.launch_id and number_of(own.name, job.launch_id) is None:
        return blocked(rows.WHOSE, f"it was launched as {shown(job.launch_id)}, for another run")
    mine = claim_of(own, job)
    for other in context.file.runs:
        claim = None if other.name == own.name else claim_of(other, job)
        if claim is not None and mine is None:
            return blocked(rows.WHOSE, f"it is a job of {other.name}: {claim}")
    if mine is not None:
        return passed(rows.WHOSE, f"it is a job of this run: {mine}")
    elsewhere = _elsewhere(own, job)
    if elsewhere is not None:
        return finding(rows.WRITES_ELSEWHERE, elsewhere)
    text = "nothing in its words tells whose it is: no output root, W&B id or launch id"
    return warned(rows.WHOSE, text, Basis.INFERRED)


def claim_of(run: RunSpec, job: NamedJob) -> str | None:
    """Return why a job is one of a run, ``None`` if nothing says so."""
    if job.launch_id and number_of(run.name, job.launch_id) is not None:
        return f"its launch id is {shown(job.launch_id)}"
    root = None if run.output_root is None else run.output_root.normal().seen_from(run.job)
    wandb = None if run.wandb is None else run.wandb.run_id
    for name, value in job.values:
        said = f" ({shown(name, 40)})" if name else ""
        if root is not None and use_of(name) is not Use.READS and within(root, value):
            return f"it names the output root{said}"
        if wandb and value == wandb and names_the_tracker_run(name) is not False:
            return f"it names the W&B id{said}"
    return None


def _elsewhere(run: RunSpec, job: NamedJob) -> str | None:
    """Return where a job writes, if that is another place than the run's; else ``None``."""
    for name, value in job.values:
        place = value.startswith("/") or "://" in value
        if run.output_root is not None and place and name and use_of(name) is Use.WRITES:
            return f"it writes elsewhere: {shown(name, 40)} is {shown(value)}"
        other = run.wandb is not None and run.wandb.run_id not in (None, value)
        if other and value and names_the_tracker_run(name):
            return f"it has another W&B id: {shown(name, 40)} is {shown(value)}"
    return None


def _other_writers(context: ActionContext, job: NamedJob) -> Iterator[Check]:
    """Yield the warning that another job of the lineage lives: then there are two writers."""
    live = context.live
    if live.unknown is not None:
        yield finding(rows.WRITES_BESIDE, f"cannot tell whether another job lives: {live.unknown}")
    others = [each for each in live.jobs if each.id != job.id]
    if others:
        names = ", ".join(map(job_name, others))
        text = f"{names} of this lineage lives too: two jobs would write at once; stop one of them"
        yield finding(rows.WRITES_BESIDE, text)
