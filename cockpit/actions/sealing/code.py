"""The code side of a seal: what would be committed and tagged, and whether it may be (A-7)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import ActionContext, plural
from cockpit.model import check_rows as rows
from cockpit.model.base import Frozen
from cockpit.model.lineage import Touches, touches
from cockpit.model.place import SSH, Place
from cockpit.model.plan import Basis, Check
from cockpit.model.wording import size
from cockpit.records.git.sealing import SealFacts, seal_plan
from cockpit.rules.lineage.drift import same_code
from cockpit.runtime.offload import offload
from cockpit.sources.git.code import named_commits
from cockpit.sources.git.command import git
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

DEADLINE: Final = 15.0
MOST: Final = 10_000_000
"""Bytes of changed files that may go into a seal commit: more is data, not code."""
SHOWN: Final = 8


class CodeToSeal(Frozen):
    """What a seal finds in the code repository; ``dirty`` are the files that it would commit.

    ``secrets`` are the places in them that look like one.
    """

    facts: SealFacts
    dirty: tuple[str, ...] = ()
    digest: str = ""
    bytes: int = 0
    secrets: tuple[str, ...] = ()
    trouble: str | None = None


async def look(context: ActionContext, step: int) -> CodeToSeal | None:
    """Return the state of the code repository; ``None`` for a run that names none."""
    spec = context.spec.code
    if spec is None or spec.repo is None or not taggable(spec.repo):
        return None
    facts = await seal_plan(spec.repo, context.spec.name, step)
    dirty = tuple(name for name in facts.dirty if touches(name, spec) is not Touches.IGNORE)
    if not spec.repo.here:
        return CodeToSeal(facts=facts, dirty=dirty)
    try:
        digest, total = await offload(_digest, spec.repo.path, dirty, deadline=DEADLINE)
        top = await offload(_top, Path(spec.repo.path), deadline=DEADLINE)
        secrets = () if total > MOST else await secrets_in(top, dirty)
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        return CodeToSeal(
            facts=facts, dirty=dirty, trouble=f"the changed files cannot be read: {why}"
        )
    return CodeToSeal(facts=facts, dirty=dirty, digest=digest, bytes=total, secrets=secrets)


def taggable(repo: Place) -> bool:
    """Tell whether a repository can be tagged: it lies on this machine or an ssh host."""
    return repo.here or repo.scheme == SSH


def _digest(repo: str, dirty: Sequence[str]) -> tuple[str, int]:
    """Return what tells this very content, and its bytes; of a deleted file its absence."""
    total, digest = 0, hashlib.sha256()
    top = _top(Path(repo))
    for name in dirty:
        path = top / name
        digest.update(os.fsencode(name) + b"\0")
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            total += path.stat().st_size
            if total <= MOST:
                digest.update(path.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest(), total


def _top(folder: Path) -> Path:
    """Return the work tree's top, from which git names files."""
    real = folder.resolve()
    return next((each for each in (real, *real.parents) if (each / ".git").exists()), real)


def checks(context: ActionContext, code: CodeToSeal | None) -> Iterator[Check]:
    """Yield what speaks for and against tagging this code."""
    repo = None if context.spec.code is None else context.spec.code.repo
    if repo is not None and not taggable(repo):
        where = "the seal is in the logbook only"
        text = f"tagging code on {repo.endpoint} is not supported yet: {where}"
        yield warned(rows.TAG, text, Basis.RECORDED)
        return
    if code is None:
        text = "no code repository in cockpit.toml: no tag, the seal is in the logbook only"
        yield warned(rows.TAG, text, Basis.RECORDED)
        return
    facts = code.facts
    if facts.trouble is not None or code.trouble is not None:
        yield blocked(rows.TAG, facts.trouble or code.trouble or "")
        return
    yield _tag(facts, "" if repo is None or repo.here else f" by git on {repo.endpoint}")
    yield from _unpublished(facts)
    if facts.tag_at is None:
        yield from _lineage(context, code)
        yield from _dirty(context, code)


def _tag(facts: SealFacts, by: str) -> Check:
    """Return what becomes of the tag; ``by`` says whose git sets it, if not this machine's."""
    if facts.remote is None:
        text = "the code repository has no remote: a tag is pushed, or it is lost"
        return blocked(rows.TAG, text)
    if facts.tag_at is not None:
        pushed = {True: "and pushed", False: "not pushed yet", None: "perhaps pushed already"}
        text = f"{facts.tag} is made at {facts.tag_at[:10]}, {pushed[facts.on_remote]}"
        return warned(rows.TAG, text)
    if facts.on_remote:
        text = f"{facts.tag} exists on {facts.remote}, not here: fetch and check it"
        return blocked(rows.TAG, text)
    asked = "asked" if facts.on_remote is False else "not reachable now"
    return passed(rows.TAG, f"annotated tag {facts.tag}{by}, pushed to {facts.remote} ({asked})")


def _unpublished(facts: SealFacts) -> Iterator[Check]:
    """Yield what a tag would publish that its author has not pushed: they must say so by name."""
    if not facts.unpublished or facts.on_remote:
        return
    what, named = named_commits(facts.unpublished)
    text = (
        f"pushing {facts.tag} to {facts.remote} would publish {what} that is not there yet "
        f"({named}): push yourself, or approve"
    )
    value = " ".join(each.oid for each in facts.unpublished)
    yield finding(rows.SEAL_UNPUSHED, text, value=value)


def _lineage(context: ActionContext, code: CodeToSeal) -> Iterator[Check]:
    """Yield whether HEAD is what the run was launched from: that is what a seal recovers."""
    value = context.report.facets.code.value
    recorded = value.record_sha if value is not None else None
    head = code.facts.sha or ""
    if recorded is None:
        yield warned(rows.LAUNCHED_CODE, f"no launch has recorded its commit; HEAD is {head[:10]}")
    elif not same_code(value, head, recorded):
        text = f"the run was launched from {recorded[:10]}, and HEAD is {head[:10]}"
        yield finding(rows.SEALED_CODE, text, value=head)
    else:
        same = "" if head.startswith(recorded) else f", but for records: {recorded[:10]} ran"
        text = f"HEAD is what was launched: {head[:10]}{same}"
        yield passed(rows.LAUNCHED_CODE, text, value=head)


def _dirty(context: ActionContext, code: CodeToSeal) -> Iterator[Check]:
    if not code.dirty:
        ignored = len(code.facts.dirty)
        rest = f"; {plural(ignored, 'changed file')} cannot touch training" if ignored else ""
        yield passed(rows.DIRTY, f"nothing that matters is uncommitted{rest}")
        return
    value = context.report.facets.code.value
    patch = (value.patch_id if value is not None else None) or code.digest
    more = f" and {len(code.dirty) - SHOWN} more" if len(code.dirty) > SHOWN else ""
    named = ", ".join(map(clean, code.dirty[:SHOWN])) + more
    repo = None if context.spec.code is None else context.spec.code.repo
    if repo is not None and not repo.here:
        how = "commit them there (or add them to code.ignore), then seal"
        yield blocked(rows.DIRTY, f"uncommitted on {repo.endpoint}: {named}; {how}")
    elif code.bytes > MOST:
        text = f"{size(code.bytes)} are uncommitted ({named}): too much; ignore or commit them"
        yield blocked(rows.DIRTY, text)
    elif code.secrets:
        places = ", ".join(code.secrets[:SHOWN])
        text = f"looks like a secret, and would be pushed: {places}; take it out of the code"
        yield finding(rows.SECRET, text)
    else:
        text = f"uncommitted, would be sealed: {named} (patch {patch[:10]})"
        yield finding(rows.SEALED_CODE, text, value=patch)


async def secrets_in(top: Path, dirty: Sequence[str]) -> tuple[str, ...]:
    """Return ``file:line`` of every added line that looks like a secret, and such file names.

    Raises ``OSError`` or ``TimeoutError`` for files that cannot be read.
    """
    if not dirty:
        return ()
    former = await _committed(top, dirty)
    return await offload(_found, top, tuple(dirty), former, deadline=DEADLINE)


async def _committed(top: Path, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the lines that each file has in HEAD; a file that is not there is left out."""
    asked = [name for name in names if "\n" not in name]
    wanted = b"".join(b"HEAD:" + os.fsencode(name) + b"\n" for name in asked)
    done = await git(str(top), "cat-file", "--batch", stdin=wanted)
    found: dict[str, frozenset[str]] = {}
    data = done.out
    for name in asked:
        head, _, data = data.partition(b"\n")
        if not head[-1:].isdigit():
            continue
        size = int(head.split()[-1])
        found[name] = frozenset(_lines(data[:size]))
        data = data[size + 1 :]
    return found


def _found(
    top: Path, names: Sequence[str], former: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    found = []
    for name in names:
        shown = scrub(clean(name))
        if shown != clean(name):
            found.append(f"the name {shown}")
        path, data = top / name, b""
        if path.is_symlink():
            data = os.fsencode(path.readlink())
        elif path.is_file():
            data = path.read_bytes()
        lines = _lines(data)
        masked = scrub("\n".join(lines)).split("\n")
        known = former.get(name, frozenset())
        pairs = enumerate(zip(lines, masked, strict=True), 1)
        found += [f"{shown}:{n}" for n, (a, b) in pairs if a != b and a not in known]
    return tuple(found)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")
