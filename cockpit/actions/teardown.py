"""A-12, teardown gate: the meter stops only once every artifact is pulled and verified by load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.actions.action import Step, unchanged
from cockpit.actions.at_rest import local_roots, nothing_lives, remote_root
from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.actions.command import CommandError, shown, words_of
from cockpit.actions.ground import Ground
from cockpit.actions.pulled import Compared, compare, verified
from cockpit.actions.saying import plural, safe
from cockpit.actions.teardown_steps import CONSOLE, STEP, execute, last_line, steps_of
from cockpit.model.plan import Basis, Check, Draft, Plan, Request, StepState
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec, TeardownSpec
from cockpit.model.words import duration, size
from cockpit.sources.offload import offload
from cockpit.store.journal import JournalEntry

STORAGE: Final = ("delete_files", "cancel_storage")
"""What removes durable storage: always last (SPEC A-12)."""
COMPARE_WITHIN: Final = 120.0
VERIFY_WITHIN: Final = 1800.0


class Looked(NamedTuple):
    """What was found out before the words are known: the checks, and how many are verified."""

    checks: tuple[Check, ...]
    files: int = 0


class Teardown:
    """Runs the recorded command that stops the meter; the last thing that is done to a run."""

    verb = "teardown"
    title = "tear down"
    exclusive = True
    launches = False

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return what stops, what survives, and whether everything is here and loads."""
        spec = ground.spec.teardown
        if spec is None:
            none = blocked("teardown", "the run file has no [run.teardown]", Basis.RECORDED)
            return Draft(words=f"teardown {request.run}", checks=(none,))
        command, about = _command(spec)
        pulled = await _pulled(ground, spec)
        loaded = await _verified(ground, spec, pulled)
        checks = (
            about,
            *_meaning(spec),
            *nothing_lives(ground, self.verb),
            *_before(ground.entries),
            *_storage(ground, spec),
            *pulled.checks,
            *loaded.checks,
        )
        return Draft(
            words=f"{spec.kind} {host_of(ground.spec)} {loaded.files}",
            checks=checks,
            command=command,
            loses=f"what {spec.kind} removes; survives: {_survives(spec)}",
            facts={"kind": spec.kind, "host": host_of(ground.spec), "verified": str(loaded.files)},
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: run the command once, log, comment."""
        return steps_of(plan)

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: everything must be the very same."""
        return unchanged(shown, now)


def host_of(run: RunSpec) -> str:
    """Return what a person types for the machine: the job's host, else this machine."""
    return (run.job.host if run.job is not None else None) or "local"


def _command(spec: TeardownSpec) -> tuple[str | None, Check]:
    if spec.command is None:
        return None, blocked(
            "teardown", "no command is recorded (teardown.command)", Basis.RECORDED
        )
    try:
        line = shown(words_of(spec.command))
    except CommandError as error:
        text = str(error).replace("resubmit", "teardown.command")
        return None, blocked("teardown", text, Basis.RECORDED)
    return line, passed("teardown", f"runs once: {line}", Basis.RECORDED)


def _meaning(spec: TeardownSpec) -> Iterator[Check]:
    meter = "stops the meter" if spec.stops_meter else "does NOT stop the meter: it goes on billing"
    back = "can be undone" if spec.reversible else "cannot be undone"
    text = f"{spec.kind} {meter}; survives: {_survives(spec)}; {back}"
    harmless = spec.stops_meter and spec.reversible
    yield (passed if harmless else warned)("meter", text, Basis.RECORDED)


def _survives(spec: TeardownSpec) -> str:
    return ", ".join(safe(each) for each in spec.survives) or "nothing"


def _before(entries: Sequence[JournalEntry]) -> Iterator[Check]:
    """Yield the hard facts of an earlier teardown: one that was begun may have happened."""
    for entry in reversed(entries):
        step = entry.step(STEP) if entry.action == "teardown" else None
        if step is None or step.state is StepState.FAILED:
            continue
        if step.state is StepState.DONE:
            text = f"it was torn down already by {entry.operator}"
        else:
            text = f"a teardown by {entry.operator} was begun and its end is not known"
        yield blocked(STEP, f"{text}; {CONSOLE}", Basis.RECORDED, overridable=True)
        return


def _storage(ground: Ground, spec: TeardownSpec) -> Iterator[Check]:
    """Durable storage goes last: when the run is sealed and its records are pushed."""
    if spec.kind not in STORAGE:
        return
    records = ground.report.facets.records.value
    left = []
    if ground.report.verdict is not Verdict.SEALED:
        left.append(f"the run is {ground.report.verdict.value}, not sealed")
    if records is not None and records.logbook is not None and not records.pushed:
        left.append("its logbook is not pushed")
    if left:
        yield blocked("storage", f"{spec.kind} comes last: {'; '.join(left)}")
    else:
        yield passed("storage", "everything else is done: durable storage may go")


async def _pulled(ground: Ground, spec: TeardownSpec) -> Looked:
    """Hold the pulled copy against its source."""
    sources, trouble = _sources(ground)
    if spec.pulled_to is None:
        trouble = "no folder is named that the artifacts are pulled to (teardown.pulled_to)"
    if trouble is not None or spec.pulled_to is None:
        return Looked((blocked("pulled", trouble or ""),))
    try:
        found = await offload(_compared, sources, spec.pulled_to, deadline=COMPARE_WITHIN)
    except TimeoutError:
        text = f"{sources[0]} gave no answer within {duration(COMPARE_WITHIN)}; {CONSOLE}"
        return Looked((blocked("pulled", text),))
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        where = error.filename or sources[0]
        return Looked((blocked("pulled", f"{where}: {reason}; {CONSOLE}"),))
    if found.trouble is not None:
        return Looked((blocked("pulled", found.trouble),), found.count)
    text = f"{plural(found.count, 'file')}, {size(found.size)}, equal to {' + '.join(sources)}"
    return Looked((passed("pulled", text, value=str(found.count)),), found.count)


def _sources(ground: Ground) -> tuple[tuple[str, ...], str | None]:
    root = ground.spec.output_root
    if root is not None and "://" not in root:
        return (root,), None
    remote = root or remote_root(ground)
    if remote is not None:
        return (), f"{remote} cannot be read by this version: {CONSOLE}"
    roots = local_roots(ground)
    return roots, None if roots else "the run file names no output_root to compare with"


def _compared(sources: tuple[str, ...], copy: str) -> Compared:
    """Return how the copy compares with its source; of several, each has a folder of its name."""
    if len(sources) == 1:
        return compare(sources[0], copy)
    parts = [compare(source, str(Path(copy, Path(source).name))) for source in sources]
    return Compared(
        count=sum(part.count for part in parts),
        size=sum(part.size for part in parts),
        trouble=next((part.trouble for part in parts if part.trouble is not None), None),
    )


async def _verified(ground: Ground, spec: TeardownSpec, pulled: Looked) -> Looked:
    """Load every artifact by the run file's own command; only that proves that they are whole."""
    if spec.verify is None:
        text = "no command verifies the artifacts by loading them (teardown.verify)"
        return Looked((blocked("verified", text, Basis.RECORDED),))
    if any(check.stands_in_the_way for check in pulled.checks):
        return Looked((blocked("verified", "not asked: the artifacts are not all here"),))
    try:
        done = await execute(ground, spec.verify, VERIFY_WITHIN)
    except CommandError as error:
        return Looked((blocked("verified", str(error).replace("resubmit", "teardown.verify")),))
    if done.timed_out:
        text = f"verify gave no answer within {duration(VERIFY_WITHIN)}"
        return Looked((blocked("verified", text),))
    if done.rc != 0:
        return Looked((blocked("verified", f"verify ended with {done.rc}: {last_line(done)}"),))
    found = verified(done.text, pulled.files)
    if isinstance(found, str):
        return Looked((blocked("verified", found),))
    text = f"{plural(found, 'artifact')} verified by load"
    return Looked((passed("verified", text, value=str(found)),), found)
