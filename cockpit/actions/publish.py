"""A-13, publish gate: passport and sign-off match every file, or nothing is handed on.

It uploads nothing: it writes ``TRAINING_LOG.md`` beside them and tells the run log where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.action import RefuseError, Step, unchanged
from cockpit.actions.checks.verdicts import blocked, passed, warned
from cockpit.actions.ground import Ground
from cockpit.actions.passport import PASSPORT, SIGNOFF, Signed, find_folder, inspect
from cockpit.actions.publish_steps import TRAINING_LOG, VERDICT, steps_of, training_log
from cockpit.actions.saying import plural, safe
from cockpit.model.observed import CheckpointState
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.words import duration
from cockpit.sources.offload import offload

HASH_WITHIN: Final = 3600.0
LOOK_WITHIN: Final = 15.0
REASON_LIMIT: Final = 4000
_REPO: Final = re.compile(r"(?:https://huggingface\.co/)?([\w.-]{1,96}/[\w.-]{1,96})/?", re.ASCII)


class Publish:
    """Checks that what is to be published is what was signed; records it."""

    verb = "publish"
    title = "publish gate"
    exclusive = False
    launches = False

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return whether it may be published, and the log that will stand beside it."""
        words = f"publish {request.run}"
        repo = _repo(request.params.get("repo"))
        folders = _folders(ground, request.params.get("path"))
        try:
            folder = await offload(find_folder, folders, deadline=LOOK_WITHIN)
            signed = (
                None if folder is None else await offload(_inspect, folder, deadline=HASH_WITHIN)
            )
        except TimeoutError:
            text = f"the files gave no answer within {duration(HASH_WITHIN)}"
            return Draft(words=words, checks=(blocked("passport", text),))
        if signed is None:
            text = f"no {PASSPORT} and {SIGNOFF} in {', '.join(map(safe, folders)) or 'any folder'}"
            return Draft(words=words, checks=(blocked("passport", text),))
        page = await training_log(ground)
        return Draft(
            words=words,
            checks=(
                *_signed(signed),
                *_verdict(signed),
                _page(page, signed.folder),
                *_run_log(ground, repo),
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

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: the training log, the run log's section, log."""
        return steps_of(plan)

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: the files, the verdict and the page must be the very same."""
        return unchanged(shown, now)


def _inspect(folder: str) -> Signed:
    return inspect(folder)


def _repo(text: str | None) -> str:
    if not (text or "").strip():
        return ""
    found = _REPO.fullmatch((text or "").strip())
    if found is None:
        raise RefuseError(f"--repo is {safe(text)!r}; expected a name such as ada/grug-moe")
    return f"https://huggingface.co/{found[1]}"


def _folders(ground: Ground, given: str | None) -> list[str]:
    """Return where the two may lie: what was named, the final checkpoint, the output root."""
    if given:
        return [str(Path(given).expanduser().absolute())]
    value = ground.report.facets.checkpoints.value
    items = value.items if value is not None else ()
    done = [item.path for item in items if item.state is CheckpointState.COMPLETE]
    spec = ground.spec.checkpoints
    places = (ground.spec.output_root, *(spec.path if spec is not None else ()))
    here = [place.path for place in places if place is not None and place.here]
    return list(dict.fromkeys([*reversed(done), *here]))


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


def _run_log(ground: Ground, repo: str) -> Iterator[Check]:
    path = ground.spec.records.run_log
    if repo and path is None:
        yield warned("run-log", "the run has no run log (records.run_log): no section is written")
    elif repo:
        yield passed("run-log", f"a HuggingFace section for {repo} goes into {path}")
    elif path is not None:
        yield warned("run-log", "no --repo: the run log gets no HuggingFace section")
