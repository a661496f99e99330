"""Commits one edit of one file and nothing else (SPEC S-10), by compare-and-swap on HEAD."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from cockpit.hosts.own_folder import follow
from cockpit.model.base import Frozen
from cockpit.records.git import documents
from cockpit.records.git.documents import PREFIX
from cockpit.records.git.repository import (
    NOTHING,
    SIGNING,
    Blob,
    GitError,
    HookRefusedError,
    Repository,
    has_hook,
    run_hook,
)
from cockpit.runtime.offload import offload
from cockpit.sources.git.code import COMMIT, FILE, LIST, digest, wrote_file

HOOK = "pre-commit"
MESSAGE_HOOK = "commit-msg"
MIXED = "the file also holds changes of yours: commit them yourself, then retry"
LOST = "it took the entry out of the file: commit by hand"


class Hooked(NamedTuple):
    """The file to commit; ``same``: the hook has changed no letter of it."""

    blob: Blob
    same: bool = True


class CommitFile(NamedTuple):
    """What a hook is shown: a file's new blob in an index of its own, and what tells our entry."""

    path: str
    blob: Blob
    holds: Callable[[bytes], bool]


async def past_hook(repository: Repository, index: Path, file: CommitFile) -> Hooked:
    """Run the hook and return what it makes of the file; raises ``HookRefusedError``."""
    place = documents.real_path(repository.top / file.path)
    limit = repository.limits.local
    before = await offload(documents.read, place, deadline=limit)
    alone = before == await repository.content(file.blob, file.path)
    refused = await _refusal(repository, index)
    after = await offload(documents.read, place, deadline=limit)
    made = await repository.staged(file.path, index) or file.blob
    if made.oid == file.blob.oid and alone and after and after != before:
        made = Blob(made.mode, await repository.keep(after, file.path))
    if made.oid == file.blob.oid:
        if refused is not None:
            refused.hint = MIXED if after != before else ""
            raise refused
        return Hooked(file.blob)
    ours, theirs = [await repository.content(each) for each in (file.blob, made)]
    same = _letters(ours) == _letters(theirs)
    if not same and not (alone and file.holds(theirs)):
        why = LOST if alone else MIXED
        if refused is None:
            raise HookRefusedError(HOOK, None, f"changed the file: {why}")
        raise HookRefusedError(HOOK, refused.done, why)
    if alone and after is not None:
        wanted = await repository.content(made, file.path)
        if wanted != after:
            await offload(
                documents.replace, place, after, wanted, repository.folder, deadline=limit
            )
    return Hooked(made, same)


async def _refusal(repository: Repository, index: Path) -> HookRefusedError | None:
    try:
        await run_hook(repository, HOOK, index=index)
    except HookRefusedError as error:
        if error.done is None or error.done.timed_out:
            raise
        return error
    return None


def _letters(data: bytes) -> str:
    """Return what a formatter leaves as it is: it moves marks, blanks and line breaks."""
    return "".join(filter(str.isalpha, data.decode("utf-8", "replace")))


def note_commit(common: Path, oid: str) -> None:
    """Remember that the cockpit made a commit; blocking, raises ``OSError``."""
    _append(common, f"{COMMIT} {oid}")


def _append(common: Path, line: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(common / LIST, flags, 0o666)
    try:
        follow(handle, common)
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


PLAIN: Final = "100644"
_TRIES: Final = 5
_PAUSE: Final = 0.1
_IN_USE: Final = ("File exists", "cannot lock ref", "Unable to create")
_MOVED: Final = ("but expected", "reference already exists")
Edit = Callable[[bytes], bytes]
_EDIT_TRIES = 20


class DoneOnce:
    """An edit that reads each text once: a file's three versions mostly are the same bytes.

    What it gave for one it gives again, and what it gave needs no edit, until it ``forgets``.
    """

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._done: dict[bytes, bytes] = {}

    def __call__(self, data: bytes) -> bytes:
        """Return the text with the edit done; raises what the edit raises."""
        if data not in self._done:
            after = self._done[data] = self._edit(data)
            self._done.setdefault(after, after)
        return self._done[data]

    def forget(self) -> None:
        """Keep no texts any more."""
        self._done.clear()


class FileChange(Frozen):
    """One file's new blob in HEAD and in the index (``None``: leave the index alone).

    ``ours``: it differs from HEAD's version by nothing but what the cockpit wrote.
    """

    path: str
    blob: str
    staged: str | None
    ours: bool = True


async def commit_file(
    repository: Repository,
    make: Callable[[str | None], Awaitable[FileChange | None]],
    message: str,
    holds: Callable[[bytes], bool],
) -> str | None:
    """Commit one file on top of HEAD and return the commit; ``None`` if there is nothing to.

    ``make`` is given HEAD's commit (``None`` before the first) and asked again when somebody
    else has committed meanwhile. ``holds`` tells whether a version of the file has what is
    committed. No ``post-commit`` hook is run: it can refuse nothing any more, and one that pushes
    would publish a person's own commits. Raises ``GitError`` and ``HookRefusedError``.
    """
    for attempt in range(_TRIES):
        head = await repository.oid("HEAD")
        change = await make(head)
        if change is None:
            return None
        commit, ours = await _commit(repository, head, change, message, holds)
        if change.ours and ours:
            await noted(repository, commit)
        try:
            await _advance(repository, head, commit, change, message)
        except GitError as error:
            if attempt + 1 < _TRIES and any(word in str(error) for word in _MOVED):
                continue
            raise
        return commit
    raise AssertionError("unreachable")


@asynccontextmanager
async def scratch(repository: Repository, what: str) -> AsyncIterator[Path]:
    """Give a name in the git directory that is gone afterwards."""
    path = repository.folder / f"{PREFIX}{what}-{os.getpid()}-{uuid4().hex[:8]}"
    try:
        yield path
    finally:
        for left in (path, path.with_name(f"{path.name}.lock")):
            left.unlink(missing_ok=True)


async def start_index(repository: Repository, index: Path, commit: str | None) -> None:
    """Make ``index`` hold what ``commit`` holds, with what git knows of unchanged files."""
    real = await repository.git_path("index")
    await offload(_copy, real, index, deadline=repository.limits.local)
    words = ("--empty",) if commit is None else ("--reset", commit)
    await repository.ask("read-tree", *words, index=index)


async def put_in_index(repository: Repository, index: Path | None, path: str, blob: Blob) -> None:
    """Put a file's blob into an index."""
    entry = f"{blob.mode} {blob.oid}\t{path}\0".encode("utf-8", "surrogateescape")
    await repository.ask("update-index", "-z", "--add", "--index-info", stdin=entry, index=index)


async def tree_with(repository: Repository, commit: str, blobs: Mapping[str, Blob]) -> str:
    """Return the tree of ``commit`` with these blobs at their paths."""
    async with scratch(repository, "index") as index:
        await start_index(repository, index, commit)
        for path, blob in blobs.items():
            await put_in_index(repository, index, path, blob)
        return await repository.ask("write-tree", index=index)


async def put_back(repository: Repository, path: str, blob: Blob | None) -> None:
    """Give the user's index back what it had."""
    if blob is None:
        await repository.ask("update-index", "--force-remove", "--", path)
    else:
        await put_in_index(repository, None, path, blob)


async def make_commit(
    repository: Repository,
    tree: str,
    parents: tuple[str, ...],
    message: str,
    env: Mapping[str, str] | None = None,
) -> str:
    """Return a new commit, signed if the user signs theirs."""
    signs = await repository.setting("commit.gpgSign", "--type=bool") == "true"
    words = [word for parent in parents for word in ("-p", parent)]
    limits = repository.limits
    done = await repository.run(
        "commit-tree", *(("-S",) if signs else ()), *words, "-F", "-", tree,
        stdin=message.encode(), env=env, deadline=limits.network if signs else limits.local,
    )  # fmt: skip
    if signs and done.timed_out:
        done = done._replace(timed_out=False, err=SIGNING.encode())
    if not done.ok:
        raise GitError(done)
    return done.text.strip()


async def commit_index(
    repository: Repository, index: Path, parents: tuple[str, ...], message: str
) -> str:
    """Commit what an index holds, with the message that git's hooks make of ``message``.

    What such a hook puts into the index is not committed, as with ``git commit``.
    """
    limit = repository.limits.local
    tree = await repository.ask("write-tree", index=index)
    async with scratch(repository, "message") as text:
        await offload(text.write_bytes, f"{message}\n".encode(), deadline=limit)
        await run_hook(repository, "prepare-commit-msg", str(text), "message", index=index)
        await run_hook(repository, MESSAGE_HOOK, str(text), index=index)
        said = (await offload(text.read_bytes, deadline=limit)).decode("utf-8", "replace").strip()
    if not said:
        raise HookRefusedError(MESSAGE_HOOK, None, "left no message: commit by hand")
    return await make_commit(repository, tree, parents, f"{said}\n")


async def noted(repository: Repository, commit: str) -> None:
    """Remember a commit as the cockpit's own; one that cannot be noted is not pushed by itself."""
    with suppress(OSError, TimeoutError):
        await offload(note_commit, repository.common, commit, deadline=repository.limits.local)


async def patiently(repository: Repository, work: Callable[[], Awaitable[object]]) -> None:
    """Do ``work``, again for a while if another git holds a lock."""
    pauses = max(1, round(repository.limits.locked / _PAUSE))
    for attempt in range(pauses + 1):
        try:
            await work()
        except GitError as error:
            taken = any(word in str(error) for word in _IN_USE)
            if not taken or attempt == pauses or any(word in str(error) for word in _MOVED):
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return


async def _commit(
    repository: Repository,
    head: str | None,
    change: FileChange,
    message: str,
    holds: Callable[[bytes], bool],
) -> tuple[str, bool]:
    """Return the commit, and whether a hook has added nothing to it but formatting."""
    former = None if head is None else await repository.blob(head, change.path)
    blob, same = Blob(former.mode if former else PLAIN, change.blob), True
    async with scratch(repository, "index") as index:
        await start_index(repository, index, head)
        await put_in_index(repository, index, change.path, blob)
        if await has_hook(repository, "pre-commit"):
            shown = blob
            for _ in range(2):  # a formatter refuses once, and lets its own version pass
                hooked = await past_hook(repository, index, CommitFile(change.path, shown, holds))
                same = same and hooked.same
                await start_index(repository, index, head)  # whatever else a hook has staged
                await put_in_index(repository, index, change.path, hooked.blob)
                if hooked.blob == shown:
                    break
                shown = hooked.blob
            blob = shown
        parents = () if head is None else (head,)
        return await commit_index(repository, index, parents, message), same


async def _advance(
    repository: Repository, head: str | None, commit: str, change: FileChange, message: str
) -> None:
    """Let the index and then HEAD take the commit; both or, but for a crash, none."""
    before = await repository.staged(change.path)
    made = await repository.blob(commit, change.path)
    if change.staged is not None and made is not None:
        blob = made if change.staged == change.blob else Blob(made.mode, change.staged)
        await patiently(repository, lambda: put_in_index(repository, None, change.path, blob))
    words = ("update-ref", "-m", f"commit: {message}", "HEAD", commit, head or NOTHING)
    try:
        await patiently(repository, lambda: repository.ask(*words))
    except GitError:
        if change.staged is not None:
            await patiently(repository, lambda: put_back(repository, change.path, before))
        raise


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copyfile(source, target)


async def change_of(
    repository: Repository, own: str, path: Path, head: str | None, edits: Sequence[Edit]
) -> FileChange | None:
    """Return what is to be committed: the edits on HEAD's version, or the whole file.

    The whole file when HEAD does not have it, when the edits do not fit HEAD's version, or
    when a person asks to commit what a former process has left.
    """
    data = await offload(documents.read, path, deadline=repository.limits.local) or b""
    kept = None if head is None else await repository.blob(head, own)
    staged = await repository.staged(own)
    whole = await repository.keep(data, own)
    if kept is None:
        ours = await _wrote(repository, own, None, data)
        return FileChange(path=own, blob=whole, staged=whole, ours=ours)
    known = {data: whole}
    made = await _edited_blob(repository, kept, own, edits, known) if edits else None
    blob = made or whole
    if blob == kept.oid:
        return None
    ours = made is not None or await _wrote(repository, own, kept, data)
    if staged is None:  # its removal is staged
        return FileChange(path=own, blob=blob, staged=None, ours=ours)
    if staged == kept or not edits:
        return FileChange(path=own, blob=blob, staged=blob, ours=ours)
    theirs = await _edited_blob(repository, staged, own, edits, known)
    return FileChange(path=own, blob=blob, staged=theirs or staged.oid, ours=ours)


async def _wrote(repository: Repository, own: str, kept: Blob | None, data: bytes) -> bool:
    """Return whether the cockpit alone made ``data`` of what HEAD has, in whichever process."""
    former = await repository.content(kept, own)
    limit = repository.limits.local
    return await offload(wrote_file, repository.common, former, data, deadline=limit)


async def _edited_blob(
    repository: Repository, blob: Blob, own: str, edits: Sequence[Edit], known: Mapping[bytes, str]
) -> str | None:
    """Return a blob with the edits done; ``None`` where they cannot be done to it.

    ``known`` are blobs of this file that git has already, by their bytes.
    """
    data = await repository.content(blob, own)
    try:
        for edit in edits:
            data = await offload(edit, data, deadline=repository.limits.local)
    except ValueError:
        return None
    return known.get(data) or await repository.keep(data, own)


async def kept_text(repository: Repository, path: Path, own: str) -> bytes:
    """Return what git has of a file that is not in the work tree (a sparse checkout leaves it out).

    What is committed is an edit of that, so the file must not begin anew here.
    """
    if await offload(documents.read, path, deadline=repository.limits.local) is not None:
        return b""
    return await repository.content(await repository.staged(own), own)


def edited(path: Path, edit: Edit, repository: Repository | None, kept: bytes = b"") -> None:
    """Edit the newest bytes of the file, whoever else writes it meanwhile; blocking.

    ``kept`` is what is edited where there is no such file.

    In a ``repository`` what was written over what is noted first, so that after a kill it can be
    told from a person's text.
    """
    spare = None if repository is None else repository.folder
    if spare is not None:
        documents.sweep(spare)
    for _ in range(_EDIT_TRIES):
        former = documents.read(path)
        begun = kept if former is None else former
        reason = documents.not_text(begun)
        if reason is not None:
            raise ValueError(f"it {reason}, then retry")
        data = edit(begun)
        if data == former:
            return
        if repository is not None:
            with suppress(OSError):
                _append(repository.common, f"{FILE} {digest(begun)} {digest(data)}")
        if documents.replace(path, former, data, spare):
            return
    raise OSError(0, "keeps changing: close what writes it, then retry")
