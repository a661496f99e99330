"""A-11, sync: offline W&B folders uploaded by the client itself, to a place that is spelled out.

What a plan lists is what the client says in a dry run. Whether a folder was uploaded is told by its
``.synced`` file, never by the client's exit status. What is synced already is left alone, so that
doing it again does nothing twice; nothing is deleted, not even staging.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cockpit.actions.core.action import (
    ActionContext,
    Execution,
    PageAction,
    RefuseError,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    plural,
    required_param,
    safe,
)
from cockpit.actions.core.recording import log_step
from cockpit.actions.telling.wandb_upload import (
    DRY_WITHIN,
    LONGEST,
    TORN,
    Destination,
    Fragment,
    Offline,
    Uploader,
    goes_to,
    packed,
    upload_within,
    without_sent,
)
from cockpit.model import check_rows as rows
from cockpit.model.observed import Phase
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.records import EventText
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.model.wording import size
from cockpit.runtime.moment import Awake
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.text.checks import blocked, finding, passed, warned

STEP: Final = "sync"
SEND: Final = "send"
"""The fact that holds the folders to upload, as JSON."""
URLS: Final = "urls"
BLOATED: Final = 1 << 30
"""Bytes of staging from which on a person should look at it."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,127}")
_FOLDER: Final = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)")
_URL: Final = re.compile(r"https?://\S+/runs/\S+")
_LISTED: Final = 20
COMPARE: Final = "compare the curves there with the files"
SENT: Final = "what it holds was sent, and is not sent again"
CUT: Final = "Failed to sync all data"
"""What the client says of a file whose last record is not whole."""


class Sync(PageAction):
    """Runs ``wandb sync`` where the folders lie, within a deadline."""

    verb = "sync"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would go where, by the folders and by the client's own dry run."""
        to = _destination(context.spec, request)
        words = f"sync {request.run}"
        uploader = _uploader(context.spec)
        if isinstance(uploader, Check):
            return Draft(words=words, checks=(uploader,))
        facts = {"entity": to.entity, "project": to.project, "id": uploader.run_id}
        try:
            found = await uploader.look(to.base_url)
            found = without_sent(found, context.entries, goes_to(facts))
            dry = await uploader.run(to, found.left, DRY_WITHIN, dry=True) if found.left else None
        except RemoteError as error:
            return Draft(words=words, checks=(blocked(rows.UPLOAD, str(error)),))
        checks = (
            *_same_place(context.spec, to),
            *_left(found, uploader),
            *([] if dry is None else _dry(dry, found)),
            *_ended(context),
            _staging(found),
            *_key(found, uploader),
        )
        return Draft(
            words=words,
            checks=checks,
            command=safe(f"wandb {uploader.words(to, found.left)}") if found.left else None,
            page=_page(to, uploader, found, dry),
            facts={**facts, SEND: json.dumps([safe(each.path) for each in found.left])},
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: upload, log."""
        return (
            Step(STEP, _sync, seen=_seen),
            log_step(_entry, f"{plan.run}: log wandb sync", after_failure=True),
        )

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what differs: other folders are another upload; sizes move."""
        names = (SEND, "entity", "project", "id")
        other = next((each for each in names if shown.facts.get(each) != now.facts.get(each)), None)
        if other is not None:
            return "the folders to upload changed" if other == SEND else f"{other} differs"
        return super().revalidate(shown, now)


def _destination(run: RunSpec, request: Request) -> Destination:
    names = []
    for name in ("entity", "project"):
        text = required_param(request, name, f"the W&B {name} to upload to, spelled out")
        if _NAME.fullmatch(text) is None:
            raise RefuseError(f"--{name} is {text!r}; expected the name of a W&B {name}")
        names.append(text)
    base = run.wandb.recorded.base_url if run.wandb is not None else None
    return Destination(names[0], names[1], base)


def _uploader(run: RunSpec) -> Uploader | Check:
    wandb = run.wandb
    if wandb is None or wandb.dir is None:
        text = "no folder of offline W&B runs in cockpit.toml (wandb.dir): nothing to upload"
        return blocked(rows.UPLOAD, text, Basis.RECORDED)
    run_id = _run_id(wandb)
    if run_id is None:
        text = "no W&B id is recorded (wandb.id): whose files?"
        return blocked(rows.UPLOAD, text, Basis.RECORDED)
    workdir = None if run.job is None or run.job.workdir is None else run.job.workdir.path
    return Uploader(wandb.dir, run_id, workdir)


def _run_id(wandb: WandbSpec) -> str | None:
    """Return the recorded id, else the one in the name of a single run's folder."""
    if wandb.run_id or wandb.dir is None:
        return wandb.run_id
    named = _FOLDER.fullmatch(wandb.dir.path.rstrip("/").rpartition("/")[2])
    return None if named is None else named[1]


def _same_place(run: RunSpec, to: Destination) -> Iterator[Check]:
    """Compare where it goes with where the run file says that the run is (C-13)."""
    recorded = None if run.wandb is None else run.wandb.recorded
    pairs = (
        ("entity", None if recorded is None else recorded.entity, to.entity),
        ("project", None if recorded is None else recorded.project, to.project),
    )
    other = [f"{what} {was} is recorded" for what, was, now in pairs if was and was != now]
    server = to.base_url or "the server in the client's settings"
    where = f"{to.entity}/{to.project} at {server}"
    if other:
        text = f"it would go to {where}, but {' and '.join(other)}"
        yield finding(rows.OTHER_DESTINATION, text)
    else:
        yield finding(rows.DESTINATION, f"goes to {where}")


def _left(found: Offline, uploader: Uploader) -> Iterator[Check]:
    done = len(found.marked)
    if found.closed:
        names = ", ".join(map(safe, found.closed[:_LISTED]))
        yield finding(rows.UPLOAD_CLOSED, f"this user cannot read {names}")
    if not found.fragments:
        text = f"no folder offline-run-*-{uploader.run_id} with a run file in {uploader.place}"
        yield blocked(rows.UPLOAD, text)
        return
    if found.running:
        yield finding(rows.UPLOAD_RUNNING, _runs(found))
    total = sum(each.whole or each.size or 0 for each in found.left)
    text = f"{plural(len(found.left), 'folder')} to upload, {size(total)}; {done} synced already"
    cut = [each for each in found.fragments if each.cut and not each.synced]
    nothing = f"{done} synced already"
    if found.empty:
        nothing += f", {len(found.empty)} without a record in it"
    elif not cut:
        nothing = f"all {done} are synced already"
    yield passed(rows.UPLOAD, text if found.left else f"{nothing}: nothing to do")
    if cut:
        names = ", ".join(safe(_name(each)) for each in cut[:_LISTED])
        text = f"sent as far as it goes, its last record was cut off, and not sent again: {names}"
        yield finding(rows.UPLOAD_TORN, text)
    if found.more:
        text = f"{found.more} more folders than can be handled: do it by hand"
        yield finding(rows.UPLOAD_MORE, text)
    grown = [each for each in found.fragments if each.grown]
    if grown:
        names = ", ".join(safe(_name(each)) for each in grown[:_LISTED])
        text = f"written to after it was synced, and not sent again: {names}"
        yield finding(rows.UPLOAD_GROWN, f"{text} (wandb sync --include-synced by hand sends it)")


def _runs(found: Offline) -> str:
    """Return that a client uploads it now: one that lost its connection goes on by itself."""
    pids = ", ".join(found.running[:_LISTED])
    return f"a wandb sync of it runs there at this moment (pid {pids}): wait for its end"


def _dry(dry: Completed, found: Offline) -> Iterator[Check]:
    """Check that the client would send just these."""
    if dry.timed_out:
        yield blocked(rows.DRY_RUN, "the client's dry run did not answer in time")
        return
    said = _output_lines(dry)
    listed = {line.rpartition("/")[2] for line in said if line.endswith(".wandb")}
    if dry.rc != 0:
        needs = (
            "; a client of 0.30 or newer is needed" if "no such option" in _why(dry).lower() else ""
        )
        yield blocked(rows.DRY_RUN, f"the client's dry run ended with {dry.rc}: {_why(dry)}{needs}")
        return
    count = sum(line.endswith(".wandb") for line in said)
    if count != len(found.left) or len(listed) != 1:
        yield blocked(rows.DRY_RUN, f"the client would send {plural(count, 'file')}: {_why(dry)}")
        return
    yield passed(rows.DRY_RUN, f"the client would send {plural(count, 'file')}")


def _ended(context: ActionContext) -> Iterator[Check]:
    """Check that nothing grows: such a file is uploaded in part, and its run marked as failed."""
    job = context.report.facets.job
    phase = None if job.value is None else job.value.phase
    doubt = job.error.message if job.error is not None and job.configured else context.live.unknown
    if context.live.jobs or phase is Phase.RUNNING:
        text = "the run is still training"
        if not context.live.jobs and job.error is not None:
            text = f"the run was training when last seen ({job.error.message})"
        text += ": its newest file would be uploaded in part, and W&B would say that it failed"
        yield blocked(rows.STILL_TRAINING, text)
    elif doubt is not None:
        yield warned(rows.STILL_TRAINING, f"cannot tell whether the run is still training: {doubt}")


def _staging(found: Offline) -> Check:
    if not found.staging:
        return passed(rows.STAGING, "no staged artifacts")
    text = "; ".join(f"{size(count)} in {safe(path)}" for path, count in found.staging)
    bloated = sum(count for _, count in found.staging) >= BLOATED
    more = " (transient: what no run needs can be deleted by hand)" if bloated else ""
    return (warned if bloated else passed)(rows.STAGING, f"staged artifacts: {text}{more}")


def _key(found: Offline, uploader: Uploader) -> Iterator[Check]:
    where = uploader.host or "this machine"
    if found.key == "none":
        text = f"no API key is found on {where}: set WANDB_API_KEY, run wandb login, or put it in"
        yield warned(rows.API_KEY, f"{text} ~/.wandb_token (mode 0600)")
    else:
        kinds = {"variable": "WANDB_API_KEY", "netrc": "netrc", "settings": "the client's settings"}
        text = f"the key comes from {kinds.get(found.key, 'a file')} on {where}"
        yield passed(rows.API_KEY, text)


def _page(to: Destination, uploader: Uploader, found: Offline, dry: Completed | None) -> str:
    lines = [f"To {to.entity}/{to.project}, W&B id {uploader.run_id}", ""]
    for title, those in (
        ("Would be uploaded", found.left),
        ("Synced already", [each for each in found.fragments if each.synced]),
        ("Sent as far as it goes, cut off by a kill", [e for e in found.fragments if e.cut]),
        ("Without a record in it, not uploaded", found.empty),
    ):
        if those:
            lines += [f"{title}:", *(_row(each) for each in those[:_LISTED])]
            lines += [f"- and {len(those) - _LISTED} more"] if len(those) > _LISTED else []
            lines.append("")
    if dry is not None:
        lines += [
            "The client's dry run:",
            *(f"    {line}" for line in _output_lines(dry)[:_LISTED]),
        ]
    return "\n".join(lines).strip() + "\n"


def _row(each: Fragment) -> str:
    whole = "" if each.whole is None else f", {size(each.whole)} in all"
    return f"- {safe(_name(each))}: {'?' if each.size is None else size(each.size)}{whole}"


def _name(each: Fragment) -> str:
    return each.path.rstrip("/").rpartition("/")[2]


def _output_lines(done: Completed) -> list[str]:
    """Return what the client printed, line by line and without its own name."""
    text = (done.err + b"\n" + done.out).decode("utf-8", "replace")
    return [safe(line).removeprefix("wandb:").strip() for line in text.splitlines() if line.strip()]


def _wrong(done: Completed) -> str:
    """Return what went wrong with one call of the client; nothing if it names no error."""
    if done.timed_out:
        return "it was killed at its deadline"
    why = _why(done)
    return why if "error" in why.lower() else ""


def _why(done: Completed) -> str:
    """Return the line that says what went wrong, else the last one."""
    said = _output_lines(done)
    wrong = [line for line in said if "error" in line.lower()]
    return (wrong or said or ["it said nothing"])[-1]


async def _sync(execution: Execution) -> str:
    to, uploader = _planned(execution)
    try:
        found = await uploader.look(to.base_url)
    except RemoteError as error:
        raise StepError(f"nothing was uploaded: {error}") from error
    if found.running:
        raise StepError(f"nothing was uploaded: {_runs(found)}")
    planned = set(json.loads(execution.facts[SEND]))
    away = sorted(planned - {safe(each.path) for each in found.fragments})
    if away:
        text = f"nothing was uploaded: no run file left in {', '.join(away[:_LISTED])}"
        raise StepError(safe(text))
    left = [each for each in found.left if safe(each.path) in planned]
    if not left:
        text = f"{plural(len(found.marked), 'folder')} synced already, by the marks"
        raise SkipStep(text if planned else f"nothing is left to upload; {text}")
    try:
        said, torn = await _uploaded(uploader, to, left)
    except RemoteError as error:
        if not error.sent:
            raise StepError(f"not all was uploaded: {error}") from error
        raise StepUnknownError(f"{error}; its .synced files tell, when the host answers") from error
    urls = sorted(
        {url for done in said for line in _output_lines(done) for url in _URL.findall(line)}
    )
    await execution.note(**{URLS: " ".join(urls)[:2000], TORN: packed(torn)})
    return await _judged(uploader, to, left, (said, torn))


async def _uploaded(
    uploader: Uploader, to: Destination, left: Sequence[Fragment]
) -> tuple[list[Completed], list[Fragment]]:
    """Upload the folders in the order of their names; return too those that are cut off.

    Raises ``RemoteError``.

    The client stops at one whose last record was cut off by a kill, having sent what it holds:
    those behind it are sent by a client of their own.
    """
    until, rest = Awake(upload_within(left), lap=LONGEST), list(left)
    said: list[Completed] = []
    torn: list[Fragment] = []
    while rest and until.left() > 0:
        done = await uploader.run(to, rest, max(1.0, until.left()))
        said.append(done)
        if done.timed_out or CUT not in " ".join(_output_lines(done)):
            break
        missing = {each.path for each in (await uploader.look(to.base_url)).left}
        first = next((at for at, each in enumerate(rest) if each.path in missing), len(rest))
        torn += rest[first : first + 1]
        rest = rest[first + 1 :]
    return said, torn


def _planned(execution: Execution) -> tuple[Destination, Uploader]:
    uploader = _uploader(execution.context.spec)
    if isinstance(uploader, Check):
        raise StepError(uploader.text)
    base = None if (wandb := execution.context.spec.wandb) is None else wandb.recorded.base_url
    return Destination(execution.facts["entity"], execution.facts["project"], base), uploader


async def _judged(
    uploader: Uploader,
    to: Destination,
    sent: Sequence[Fragment],
    uploaded: tuple[Sequence[Completed], Sequence[Fragment]],
) -> str:
    """Return what was uploaded, by the marks beside the files; raises where one has none."""
    try:
        found = await uploader.look(to.base_url)
    except RemoteError as error:
        raise StepUnknownError(f"the client ended; perhaps not all is there: {error}") from error
    said, torn = uploaded
    missing = [_name(each) for each in sent if each.path not in found.marked]
    there = len(sent) - len(missing)
    away = {each.path for each in sent} - {each.path for each in found.fragments}
    if away:
        text = f"the client ended; no run file left in {', '.join(sorted(away))}"
        raise StepUnknownError(safe(text))
    if not missing:
        return f"{plural(there, 'folder')} synced to {to.entity}/{to.project}"
    how = "; ".join(dict.fromkeys(filter(None, map(_wrong, said)))) or _why(said[-1])
    names = ", ".join(missing[:_LISTED])
    again = "sync it again" if len(missing) > len(torn) else SENT
    raise StepError(safe(f"{there} of {len(sent)} synced; not {names}: {how}; {again}"))


async def _seen(execution: Execution) -> str | None:
    """Return that all of it is there, after an upload that was cut short."""
    to, uploader = _planned(execution)
    try:
        found = await uploader.look(to.base_url)
    except RemoteError:
        return None
    left = set(json.loads(execution.facts[SEND])) - set(map(safe, found.marked))
    return None if left else "all synced, by the marks"


def _entry(execution: Execution) -> EventText:
    facts, trouble = execution.facts, execution.trouble
    where = f"{facts['entity']}/{facts['project']}/{facts['id']}"
    return EventText(
        title="wandb sync" if trouble is None else "wandb sync: not finished",
        status=_done(facts, where) if trouble is None else trouble,
        evidence=facts.get(URLS) or _evidence(facts, trouble),
        decision=f"ordered by {execution.entry.operator}",
        next="sync it again" if trouble and SENT not in trouble else COMPARE,
    )


def _done(facts: Mapping[str, str], where: str) -> str:
    """Return what has come of it; without a note of an upload nobody tells whose the marks are."""
    if TORN in facts:
        return f"uploaded to {where}"
    nothing = not json.loads(facts[SEND])
    what = "nothing to upload" if nothing else "found synced already"
    return f"{what}; meant for {where}"


def _evidence(facts: Mapping[str, str], trouble: str | None) -> str:
    folders = plural(len(json.loads(facts[SEND])), "folder")
    return f"{folders} to upload" if trouble else f"{folders}, each with its .synced file"
