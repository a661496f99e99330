"""What the publish gate writes: ``TRAINING_LOG.md``, the run log's section, an entry (A-13)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cockpit.actions.action import Doing, SkipStep, Step, StepError
from cockpit.actions.ground import Ground
from cockpit.actions.passport import PASSPORT, SIGNOFF
from cockpit.actions.recording import log_step
from cockpit.actions.saying import safe
from cockpit.model.plan import Plan
from cockpit.model.records import EventEntry
from cockpit.sources.logbook import read_text
from cockpit.sources.offload import offload
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub

TRAINING_LOG: Final = "TRAINING_LOG.md"
VERDICT: Final = "verdict"
DEADLINE: Final = 15.0
_TRIES: Final = 100


def steps_of(plan: Plan) -> Sequence[Step]:
    """Return the steps; each finds what an earlier one has written."""
    return (
        Step("training-log", _write_log),
        Step("run-log", _section, records=True),
        log_step(_entry, f"{plan.run}: log publish"),
    )


async def training_log(ground: Ground) -> str:
    """Return the sanitised log (it begins with a heading), or one line: why there is none."""
    path = ground.spec.records.run_log or ground.spec.records.logbook
    if path is None:
        return "there is nothing to make it of: neither records.run_log nor records.logbook"
    try:
        text = await offload(read_text, Path(path), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        return safe(f"{path}: {getattr(error, 'strerror', None) or 'cannot be read'}")
    from cockpit.records.training_log import sanitized

    plain = scrub("\n".join(line.plain for line in safe_lines(sanitized(text))))
    return plain if plain.startswith("#") else f"# {ground.spec.name}: training log\n\n{plain}"


async def _write_log(doing: Doing) -> str:
    page = doing.plan.page
    if page is None:
        raise StepError("there is no training log to write")
    target = Path(doing.facts["folder"], TRAINING_LOG)
    try:
        return await offload(_written, target, page, doing.entry.begun_at, deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise StepError(safe(f"{target}: {why}")) from error


def _written(target: Path, page: str, at: float) -> str:
    """Write the page in one piece; what stood there and differs is kept under another name."""
    data = (page.rstrip("\n") + "\n").encode()
    if target.is_symlink():
        raise OSError(0, "is a link", str(target))
    if target.exists():
        if target.read_bytes() == data:
            return f"{target} is there already"
        _keep(target, at)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return f"{target} written"


def _keep(target: Path, at: float) -> None:
    day = datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d")
    for count in range(1, _TRIES):
        kept = target.with_name(f"{target.name}.{day}{f'-{count}' if count > 1 else ''}")
        if not os.path.lexists(kept):
            os.link(target, kept)
            return
    raise FileExistsError(0, f"{_TRIES} former versions of that day exist", str(target))


async def _section(doing: Doing) -> str:
    path, repo = doing.ground.spec.records.run_log, doing.facts["repo"]
    if path is None or not repo:
        raise SkipStep("no run log or no --repo")
    from cockpit.records.run_logs import with_huggingface
    from cockpit.records.saver import Saver

    fields = section_of(doing.facts)
    saver = Saver(doing.ground.parts.clock)
    message = f"{doing.plan.run}: log publish"
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


def _entry(doing: Doing) -> EventEntry:
    facts = doing.facts
    return EventEntry(
        title="publish gate",
        at=doing.entry.begun_at,
        status=f"passed by {doing.entry.operator}: sign-off {facts[VERDICT]}",
        evidence=f"{facts['matching']} signed files match in {facts['folder']}",
        decision=facts["reason"] if facts[VERDICT] == "soft_signal" else "",
        next=f"upload by hand to {facts['repo']}" if facts["repo"] else "upload by hand",
    )
