"""A-13, publish gate: passport and sign-off match every file, or nothing is handed on.

It uploads nothing: it writes ``TRAINING_LOG.md`` beside them and tells the run log where.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import Action, Execution, RefuseError, SkipStep, Step, StepError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural, safe
from cockpit.actions.core.recording import log_step
from cockpit.actions.retention.comparing import compared
from cockpit.actions.retention.listed_away import NotListedError
from cockpit.actions.sealing.passport import PASSPORT, SIGNOFF, Signed, find_folder, inspect
from cockpit.actions.stopping.rejecting import put_whole
from cockpit.model.observed import CheckpointState
from cockpit.model.place import Place, place_of
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventEntry
from cockpit.model.wording import duration
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import read_text
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub

HASH_WITHIN: Final = 3600.0
LOOK_WITHIN: Final = 15.0
REASON_LIMIT: Final = 4000
_REPO: Final = re.compile(r"(?:https://huggingface\.co/)?([\w.-]{1,96}/[\w.-]{1,96})/?", re.ASCII)
TRAINING_LOG: Final = "TRAINING_LOG.md"
BESIDE: Final = frozenset({PASSPORT, SIGNOFF, TRAINING_LOG})
"""What lies beside the files that were pulled."""
VERDICT: Final = "verdict"
DEADLINE: Final = 15.0
_TRIES: Final = 100


class Publish(Action):
    """Checks that what is to be published is what was signed; records it."""

    verb = "publish"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return whether it may be published, and the log that will stand beside it."""
        words = f"publish {request.run}"
        repo = _repo(request.params.get("repo"))
        folders = _folders(context, request.params.get("path"))
        try:
            folder = await offload(find_folder, folders, deadline=LOOK_WITHIN)
            signed = (
                None if folder is None else await offload(inspect, folder, deadline=HASH_WITHIN)
            )
        except TimeoutError:
            text = f"the files did not answer within {duration(HASH_WITHIN)}"
            return Draft(words=words, checks=(blocked("passport", text),))
        if signed is None:
            text = f"no {PASSPORT} and {SIGNOFF} in {', '.join(map(safe, folders)) or 'any folder'}"
            return Draft(words=words, checks=(blocked("passport", text),))
        page = await training_log(context)
        return Draft(
            words=words,
            checks=(
                *_signed(signed),
                *_verdict(signed),
                *await _whole(context, signed.folder),
                _page(page, signed.folder),
                *_run_log(context, repo),
            ),
            page=page if page.startswith("#") else None,
            facts={
                "folder": signed.folder,
                "repo": repo,
                VERDICT: signed.verdict or "",
                "reason": safe((signed.reason or "")[:REASON_LIMIT]),
                "matching": str(signed.matching),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: the training log, the run log's section, log."""
        return (
            Step("training-log", _write_log),
            Step("run-log", _section, records=True),
            log_step(_entry, f"{plan.run}: log publish"),
        )


def _repo(text: str | None) -> str:
    if not (text or "").strip():
        return ""
    found = _REPO.fullmatch((text or "").strip())
    if found is None:
        raise RefuseError(f"--repo is {safe(text)!r}; expected a name such as ada/grug-moe")
    return f"https://huggingface.co/{found[1]}"


def _folders(context: ActionContext, given: str | None) -> list[str]:
    """Return where the two may lie: what was named, the final checkpoint, the output root."""
    if given:
        return [str(Path(given).expanduser().absolute())]
    value = context.report.facets.checkpoints.value
    items = value.items if value is not None else ()
    complete = (item.path for item in items if item.state is CheckpointState.COMPLETE)
    done = [path for path in complete if place_of(path).here]
    spec = context.spec.checkpoints
    places = (context.spec.output_root, *(spec.path if spec is not None else ()))
    here = [place.path for place in places if place is not None and place.here]
    copy = context.spec.teardown.pulled_to if context.spec.teardown is not None else None
    pulled = [] if copy is None or here else [copy]
    return list(dict.fromkeys([*reversed(done), *here, *pulled]))


async def _whole(context: ActionContext, folder: str) -> list[Check]:
    """Compare the folder with what lies elsewhere, where it is the pulled copy of that."""
    source = _source_of(context, folder)
    if source is None:
        return []
    try:
        found = await compared(context, source, folder, BESIDE)
    except (TimeoutError, OSError, NotListedError) as error:
        return [blocked("pulled", f"{folder} cannot be compared with {source}: {safe(error)}")]
    if found.trouble is not None:
        return [blocked("pulled", f"{found.trouble} ({source})")]
    return [passed("pulled", f"{plural(found.count, 'file')} of {folder} are all of {source}")]


def _source_of(context: ActionContext, folder: str) -> Place | None:
    """Return what a folder of this machine is a copy of, if that lies elsewhere."""
    root, spec = context.spec.output_root, context.spec.teardown
    if root is None or root.here or spec is None or spec.pulled_to is None:
        return None
    copy = Path(spec.pulled_to)
    if not Path(folder).is_relative_to(copy):
        return None
    below = Path(folder).relative_to(copy)
    return root if below == Path() else root.below(*below.parts)


def _signed(signed: Signed) -> Iterator[Check]:
    for line in signed.wrong:
        yield blocked("passport", line)
    if not signed.wrong:
        text = f"{plural(signed.matching, 'signed file')} match, the passport among them"
        yield passed("passport", f"{text}: {signed.folder}", value=str(signed.matching))
    for name in signed.unlisted[:3]:
        yield warned("unsigned", f"{name} is a weight file that nobody has signed")


def _verdict(signed: Signed) -> Iterator[Check]:
    """Yield the verdict; a soft signal's reason is shown as it was written, made safe."""
    if signed.verdict == "soft_signal" and signed.reason is not None:
        reason = safe(signed.reason[:REASON_LIMIT])
        yield warned("verdict", f"soft_signal: {reason}", Basis.RECORDED, "soft_signal")
    elif signed.verdict == "pass":
        yield passed("verdict", "the sign-off says pass", Basis.RECORDED, "pass")


def _page(page: str, folder: str) -> Check:
    if not page.startswith("#"):
        return blocked("training-log", page)
    there = Path(folder, TRAINING_LOG)
    if there.is_symlink():
        return blocked("training-log", f"{there} is a link: it is not written")
    if there.exists():
        text = f"{there} is there: it is kept beside the new one if it differs"
        return warned("training-log", text)
    return passed("training-log", f"{there} will be written, without job ids and node names")


def _run_log(context: ActionContext, repo: str) -> Iterator[Check]:
    path = context.spec.records.run_log
    if repo and path is None:
        text = "no run log in cockpit.toml (records.run_log): no section is written"
        yield warned("run-log", text)
    elif repo:
        yield passed("run-log", f"a HuggingFace section for {repo} goes into {path}")
    elif path is not None:
        yield warned("run-log", "no --repo: the run log gets no HuggingFace section")


async def training_log(context: ActionContext) -> str:
    """Return the sanitised log (it begins with a heading), or one line: why there is none."""
    path = context.spec.records.run_log or context.spec.records.logbook
    if path is None:
        return "nothing to make it from: neither records.run_log nor records.logbook is set"
    try:
        text = await offload(read_text, Path(path), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        return safe(f"{path}: {getattr(error, 'strerror', None) or 'cannot be read'}")
    from cockpit.records.runlog.training_log import sanitized

    plain = scrub("\n".join(line.plain for line in safe_lines(sanitized(text))))
    return plain if plain.startswith("#") else f"# {context.spec.name}: training log\n\n{plain}"


async def _write_log(execution: Execution) -> str:
    page = execution.plan.page
    if page is None:
        raise StepError("no training log to write")
    target = Path(execution.facts["folder"], TRAINING_LOG)
    try:
        return await offload(_written, target, page, execution.entry.begun_at, deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise StepError(safe(f"{target}: {why}")) from error


def _written(target: Path, page: str, at: float) -> str:
    """Write the page in one piece; what stood there and differs is kept under another name."""
    text = page.rstrip("\n") + "\n"
    if target.is_symlink():
        raise OSError(0, "is a link", str(target))
    if target.exists():
        if target.read_bytes() == text.encode():
            return f"{target} is there already"
        _keep(target, at)
    put_whole(target, text)
    return f"{target} written"


def _keep(target: Path, at: float) -> None:
    day = datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")
    for count in range(1, _TRIES):
        kept = target.with_name(f"{target.name}.{day}{f'-{count}' if count > 1 else ''}")
        if not os.path.lexists(kept):
            os.link(target, kept)
            return
    raise FileExistsError(0, f"{_TRIES} former versions of that day exist", str(target))


async def _section(execution: Execution) -> str:
    path, repo = execution.context.spec.records.run_log, execution.facts["repo"]
    if path is None or not repo:
        raise SkipStep("no run log or no --repo")
    from cockpit.records.git.saver import Saver
    from cockpit.records.runlog.run_logs import with_huggingface

    fields = section_of(execution.facts)
    saver = Saver(execution.context.parts.clock)
    message = f"{execution.plan.run}: log publish"
    done = await saver.save(Path(path), lambda data: with_huggingface(data, fields), message)
    if not done.lasting:
        raise StepError(f"{done.stage.value}, but {done.trouble}")
    return done.stage.value


def section_of(facts: dict[str, str]) -> dict[str, str]:
    """Return the section's fields (HPC, "Recording in the run log"); a reason stands verbatim."""
    verdict = f"`{facts[VERDICT]}`"
    if facts[VERDICT] == "soft_signal":
        verdict += f": {facts['reason']}"
    return {
        "repo": facts["repo"],
        "includes": f"{TRAINING_LOG}, {PASSPORT}, {SIGNOFF}",
        "signoff verdict": verdict,
    }


def _entry(execution: Execution) -> EventEntry:
    facts = execution.facts
    return EventEntry(
        title="publish gate",
        at=execution.entry.begun_at,
        status=f"passed by {execution.entry.operator}: sign-off {facts[VERDICT]}",
        evidence=f"{facts['matching']} signed files match in {facts['folder']}",
        decision=facts["reason"] if facts[VERDICT] == "soft_signal" else "",
        next=f"upload by hand to {facts['repo']}" if facts["repo"] else "upload by hand",
    )
