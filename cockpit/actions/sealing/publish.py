"""A-13, publish: passport and sign-off match every file, or nothing is handed on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    RefuseError,
    SkipStep,
    Step,
    StepError,
    plural,
    safe,
)
from cockpit.actions.core.recording import log_step
from cockpit.actions.sealing.pulled import NotListedError, compared
from cockpit.hosts.own_folder import put_whole
from cockpit.model import check_rows as rows
from cockpit.model.base import Frozen
from cockpit.model.observed import CheckpointState
from cockpit.model.place import Place, place_of
from cockpit.model.plan import Check, Draft, Plan, Request
from cockpit.model.records import EventText
from cockpit.model.wording import duration
from cockpit.runtime.mounts import open_regular, read_text
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

PASSPORT: Final = "MODEL_PASSPORT.json"
SIGNOFF: Final = "SIGNOFF.json"
GOOD: Final = ("pass", "soft_signal")
_SIZE: Final = 64 << 20
_CHUNK: Final = 1 << 20
_DEPTH: Final = 40
_HASH: Final = re.compile(r"(?:sha-?256[:=])?([0-9a-f]{64})", re.I)
_PATHS: Final = ("path", "file", "filename", "file_path", "relative_path", "name")
_SUMS: Final = ("sha256", "sha_256", "sha256sum", "sha256_hex", "digest", "hash", "checksum")
_LISTS: Final = ("artifacts", "weight_files", "files", "weights")
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


class Pair(NamedTuple):
    """A file that is vouched for; ``sha256`` is ``None`` where the entry has no usable one."""

    path: str
    sha256: str | None


class Signed(Frozen):
    """What was found: the verdict, how many files match, and everything that is wrong."""

    folder: str
    verdict: str | None = None
    reason: str | None = None
    matching: int = 0
    wrong: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when every pair matches and the verdict lets it be published."""
        return not self.wrong and self.verdict in GOOD


def find_folder(folders: list[str]) -> str | None:
    """Return the first folder that holds a sign-off or a passport."""
    for folder in folders:
        if any(os.path.lexists(Path(folder, name)) for name in (SIGNOFF, PASSPORT)):
            return folder
    return None


def inspect(folder: str) -> Signed:
    """Return what passport and sign-off in ``folder`` are worth; never raises for their content."""
    wrong: list[str] = []
    signoff, passport = (_document(folder, name, wrong) for name in (SIGNOFF, PASSPORT))
    if signoff is None or passport is None:
        return Signed(folder=folder, wrong=tuple(wrong))
    pairs = list(dict.fromkeys((*pairs_in(signoff), *pairs_in(passport))))
    signed = {pair.path for pair in pairs_in(signoff)}
    if PASSPORT not in signed:
        wrong.append(f"{SIGNOFF} does not vouch for {PASSPORT}")
    if not any(pair.path != PASSPORT for pair in pairs):
        wrong.append("no weight file is listed")
    known: dict[str, str | OSError] = {}
    trouble = [_mismatch(folder, pair, known) for pair in pairs]
    verdict, reason = _verdict(signoff, wrong)
    return Signed(
        folder=folder,
        verdict=verdict,
        reason=reason,
        matching=trouble.count(None),
        wrong=(*wrong, *(line for line in trouble if line is not None)),
        unlisted=_unlisted(folder, {str(PurePosixPath(pair.path)) for pair in pairs}),
    )


def _document(folder: str, name: str, wrong: list[str]) -> dict[str, Any] | None:
    path = Path(folder, name)
    try:
        if path.is_symlink():
            raise OSError(0, "is a link")
        with open_regular(str(path)) as (fd, _):
            raw = bytearray()
            while len(raw) <= _SIZE and (part := os.read(fd, _CHUNK)):
                raw += part
        document = json.loads(raw)
    except FileNotFoundError:
        wrong.append(f"there is no {name} in {folder}")
        return None
    except OSError as error:
        wrong.append(f"{path} {(error.strerror or 'cannot be read').lower()}")
        return None
    except (ValueError, RecursionError):
        wrong.append(f"{path} is not JSON")
        return None
    if not isinstance(document, dict):
        wrong.append(f"{path} is not a JSON object")
        return None
    return document


def pairs_in(document: object, depth: int = 0) -> Iterator[Pair]:
    """Yield every (path, sha256) of a document, wherever it stands."""
    if depth > _DEPTH:
        return
    if isinstance(document, list):
        for each in document:
            yield from pairs_in(each, depth + 1)
    elif isinstance(document, dict):
        yield from _of_object(document)
        for key, value in document.items():
            if key in _LISTS and isinstance(value, list):
                yield from _without_sum(value)
            yield from pairs_in(value, depth + 1)


def _of_object(document: dict[str, Any]) -> Iterator[Pair]:
    path = next((document[key] for key in _PATHS if isinstance(document.get(key), str)), None)
    digest = next((_hex(document[key]) for key in _SUMS if _hex(document.get(key))), None)
    if path is not None and digest is not None:
        yield Pair(_plain(path), digest)
    for key, value in document.items():
        found = _hex(value)
        if found is None or key in _SUMS:
            continue
        if key == "passport_sha256":
            yield Pair(PASSPORT, found)
        elif "/" in key or "." in key:
            yield Pair(_plain(key), found)


def _without_sum(listed: list[Any]) -> Iterator[Pair]:
    """Yield the entries of a list of files that name a file and vouch for nothing."""
    for each in listed:
        if not isinstance(each, dict):
            continue
        path = next((each[key] for key in _PATHS if isinstance(each.get(key), str)), None)
        if path is not None and not any(_hex(each.get(key)) for key in _SUMS):
            yield Pair(_plain(path), None)


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _hex(value: object) -> str | None:
    found = _HASH.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else found[1].lower()


def _mismatch(folder: str, pair: Pair, known: dict[str, str | OSError]) -> str | None:
    """Return what is wrong with one listed file, if anything is."""
    name = clean(pair.path, 1000)
    if pair.sha256 is None:
        return f"{name} is listed without a sha256"
    path = PurePosixPath(pair.path)
    odd = not pair.path or "\0" in pair.path or "\\" in pair.path
    if odd or path.is_absolute() or ".." in path.parts or pair.path.startswith("~"):
        return f"{name} leads out of the folder: refused"
    if pair.path not in known:
        try:
            known[pair.path] = _sha256(folder, pair.path)
        except OSError as error:
            known[pair.path] = error
    found = known[pair.path]
    if isinstance(found, OSError):
        return f"{name} {(found.strerror or 'cannot be read').lower()}"
    return None if found == pair.sha256 else f"{name} is not the file that was signed"


def _sha256(folder: str, path: str) -> str:
    """Return the hash of a regular file that no link leads to; raises ``OSError``."""
    place = Path(folder)
    for part in PurePosixPath(path).parts:
        place /= part
        if stat.S_ISLNK(place.lstat().st_mode):
            raise OSError(0, "is reached through a link: refused", str(place))
    digest = hashlib.sha256()
    with open_regular(str(place)) as (fd, _):
        while part_of := os.read(fd, _CHUNK):
            digest.update(part_of)
    return digest.hexdigest()


def _verdict(signoff: dict[str, Any], wrong: list[str]) -> tuple[str | None, str | None]:
    """Return verdict and reason; the reason is a person's words and stays as it is."""
    said = signoff.get("verdict")
    verdict = clean(said).lower() if isinstance(said, str) else None
    why = signoff.get("verdict_reason", signoff.get("reason"))
    reason = why if isinstance(why, str) and why.strip() else None
    if verdict not in GOOD:
        wrong.append(f"the verdict is {clean(said)!r}; expected {' or '.join(GOOD)}")
    elif verdict == "soft_signal" and reason is None:
        wrong.append("the verdict is soft_signal without a verdict_reason")
    return verdict, reason


def _unlisted(folder: str, listed: set[str]) -> tuple[str, ...]:
    """Return weight files in the folder that nobody has signed."""
    found = []
    for path, _, names in os.walk(folder):
        for name in names:
            if name.lower().endswith(_WEIGHTS):
                relative = os.path.relpath(Path(path, name), folder)
                if relative not in listed:
                    found.append(clean(relative, 1000))
    return tuple(sorted(found)[:20])


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
            return Draft(words=words, checks=(blocked(rows.PASSPORT, text),))
        if signed is None:
            text = f"no {PASSPORT} and {SIGNOFF} in {', '.join(map(safe, folders)) or 'any folder'}"
            return Draft(words=words, checks=(blocked(rows.PASSPORT, text),))
        page = await training_log(context)
        return Draft(
            words=words,
            checks=(
                *_signed(signed),
                *_signed_verdict(signed),
                *await _same_as_source(context, signed.folder),
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


async def _same_as_source(context: ActionContext, folder: str) -> list[Check]:
    """Compare the folder with what lies elsewhere, where it is the pulled copy of that."""
    source = _source_of(context, folder)
    if source is None:
        return []
    try:
        found = await compared(context, source, folder, BESIDE)
    except (TimeoutError, OSError, NotListedError) as error:
        return [blocked(rows.PULLED, f"{folder} cannot be compared with {source}: {safe(error)}")]
    if found.trouble is not None:
        return [blocked(rows.PULLED, f"{found.trouble} ({source})")]
    return [passed(rows.PULLED, f"{plural(found.count, 'file')} of {folder} are all of {source}")]


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
        yield blocked(rows.PASSPORT, line)
    if not signed.wrong:
        text = f"{plural(signed.matching, 'signed file')} match, the passport among them"
        yield passed(rows.PASSPORT, f"{text}: {signed.folder}", value=str(signed.matching))
    for name in signed.unlisted[:3]:
        yield finding(rows.UNSIGNED, f"{name} is a weight file that nobody has signed")


def _signed_verdict(signed: Signed) -> Iterator[Check]:
    """Yield the verdict; a soft signal's reason is shown as it was written, made safe."""
    if signed.verdict == "soft_signal" and signed.reason is not None:
        reason = safe(signed.reason[:REASON_LIMIT])
        yield warned(rows.SIGNED_VERDICT, f"soft_signal: {reason}", value="soft_signal")
    elif signed.verdict == "pass":
        yield passed(rows.SIGNED_VERDICT, "the sign-off says pass", value="pass")


def _page(page: str, folder: str) -> Check:
    if not page.startswith("#"):
        return blocked(rows.TRAINING_LOG, page)
    there = Path(folder, TRAINING_LOG)
    if there.is_symlink():
        return blocked(rows.TRAINING_LOG, f"{there} is a link: it is not written")
    if there.exists():
        text = f"{there} is there: it is kept beside the new one if it differs"
        return warned(rows.TRAINING_LOG, text)
    return passed(rows.TRAINING_LOG, f"{there} will be written, without job ids and node names")


def _run_log(context: ActionContext, repo: str) -> Iterator[Check]:
    path = context.spec.records.run_log
    if repo and path is None:
        text = "no run log in cockpit.toml (records.run_log): no section is written"
        yield warned(rows.RUN_LOG, text)
    elif repo:
        yield passed(rows.RUN_LOG, f"a HuggingFace section for {repo} goes into {path}")
    elif path is not None:
        yield warned(rows.RUN_LOG, "no --repo: the run log gets no HuggingFace section")


async def training_log(context: ActionContext) -> str:
    """Return the sanitised log (it begins with a heading), or one line: why there is none."""
    path = context.spec.records.run_log or context.spec.records.logbook
    if path is None:
        return "nothing to make it from: neither records.run_log nor records.logbook is set"
    try:
        text = await offload(read_text, Path(path), deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        return safe(f"{path}: {getattr(error, 'strerror', None) or 'cannot be read'}")
    from cockpit.records.logbook.run_logs import sanitized

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
    from cockpit.records.logbook.run_logs import with_huggingface

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


def _entry(execution: Execution) -> EventText:
    facts = execution.facts
    return EventText(
        title="publish gate",
        status=f"passed by {execution.entry.operator}: sign-off {facts[VERDICT]}",
        evidence=f"{facts['matching']} signed files match in {facts['folder']}",
        decision=facts["reason"] if facts[VERDICT] == "soft_signal" else "",
        next=f"upload by hand to {facts['repo']}" if facts["repo"] else "upload by hand",
    )
