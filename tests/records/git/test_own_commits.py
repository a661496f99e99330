"""What may go to a remote: the cockpit's own commits, and nothing that lies among them (SPEC A)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.records import Recorded, SaveStage
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import PushStage, Saver, push_of
from tests.records.remotes import (
    LOGBOOK,
    START,
    adding,
    clone,
    entry,
    git,
    hook,
    remote_logbook,
    shared,
)

LIMITS = Limits(local=60, hook=60, network=60, locked=0.3, turn=120)


async def save(folder: Path, block: bytes, *, behind: bool = False) -> Recorded:
    saver = Saver(SystemClock(), LIMITS)
    return await saver.save(folder / LOGBOOK, adding(block), "run: log check", behind=behind)


def on_remote(root: Path) -> str:
    """Everything that the remote has: each ref, and each commit's subject and files."""
    words = ("log", "--all", "--format=%s", "--name-only")
    refs = git(root / "remote.git", "for-each-ref", "--format=%(refname)")
    return refs + git(root / "remote.git", *words)


def unpublished(ada: Path) -> None:
    (ada / "secret.py").write_text("idea = 1\n")
    git(ada, "add", "secret.py")
    git(ada, "commit", "-q", "-m", "WIP: do not push")


def on_a_new_branch(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "private")
    unpublished(ada)


def on_a_branch_from_the_upstream(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "private", "--track", "origin/main")
    unpublished(ada)


def below_the_records(ada: Path) -> None:
    unpublished(ada)


def of_the_logbook_alone(ada: Path) -> None:
    (ada / LOGBOOK).write_bytes(START + b"\nprivate: do not push\n")
    git(ada, "commit", "-q", "-am", "run: log check")


def merged(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "side")
    unpublished(ada)
    git(ada, "checkout", "-q", "main")
    git(ada, "merge", "-q", "--no-ff", "--no-edit", "side")


def with_an_upstream_that_is_gone(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "private")
    git(ada, "push", "-q", "-u", "origin", "private")
    git(ada, "push", "-q", "origin", ":private")
    unpublished(ada)


def with_a_local_upstream(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "private", "--track", "main")
    unpublished(ada)


def on_a_topic_branch(ada: Path) -> None:
    git(ada, "checkout", "-q", "-b", "topic", "--track", "origin/main")


def with_a_fork(ada: Path) -> None:
    git(ada, "remote", "add", "fork", str(ada.parent / "fork.git"))
    git(ada, "config", "remote.pushDefault", "fork")


def with_a_review_server(ada: Path) -> None:
    git(ada, "config", "remote.origin.push", "HEAD:refs/for/main")


def with_no_default(ada: Path) -> None:
    git(ada, "config", "push.default", "nothing")


@pytest.mark.parametrize(
    "way", [on_a_topic_branch, with_a_fork, with_a_review_server, with_no_default]
)
async def test_records_go_only_where_git_itself_would_push(
    tmp_path: Path, way: Callable[[Path], None]
) -> None:
    ada = shared(tmp_path)
    way(ada)
    before = on_remote(tmp_path)
    for title in ("one", "two"):
        done = await save(ada, entry(title))
        assert done.stage is SaveStage.COMMITTED and "git push " in str(done.trouble), done
    assert (await push_of(ada / LOGBOOK, LIMITS)).stage is PushStage.HELD
    assert on_remote(tmp_path) == before


async def test_a_logbook_that_a_sparse_checkout_leaves_out_does_not_begin_anew(
    tmp_path: Path,
) -> None:
    ada = shared(tmp_path)
    (ada / "code").mkdir()
    (ada / "code" / "train.py").write_text("x = 1\n")
    git(ada, "add", "-A")
    git(ada, "commit", "-q", "-m", "code")
    git(ada, "push", "-q")
    git(ada, "sparse-checkout", "set", "code")
    book = ada / LOGBOOK
    assert not book.exists()
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.PUSHED, done
    text = git(ada, "show", f"HEAD:{LOGBOOK}").encode()
    assert START in text and entry("one").strip() in text
    assert book.read_bytes() == text


WAYS = (
    on_a_new_branch,
    on_a_branch_from_the_upstream,
    below_the_records,
    of_the_logbook_alone,
    merged,
    with_a_local_upstream,
)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_persons_unpublished_commit_never_leaves(
    tmp_path: Path, way: Callable[[Path], None], behind: bool
) -> None:
    ada = shared(tmp_path)
    way(ada)
    before = on_remote(tmp_path)
    for title in ("one", "two"):
        done = await save(ada, entry(title), behind=behind)
        assert done.stage is SaveStage.COMMITTED and done.trouble is not None, done
        assert not done.pending
    assert on_remote(tmp_path) == before
    assert entry("two") in (ada / LOGBOOK).read_bytes()
    assert git(ada, "log", "-2", "--format=%s") == "run: log check\nrun: log check\n"
    push = await push_of(ada / LOGBOOK, LIMITS)
    assert push.stage is PushStage.HELD and push.trouble is not None
    await Saver(SystemClock(), LIMITS).push_left(ada / LOGBOOK)
    assert on_remote(tmp_path) == before


@pytest.mark.parametrize("pruned", [True, False])
async def test_an_upstream_that_is_gone_is_not_made_again(tmp_path: Path, pruned: bool) -> None:
    ada = shared(tmp_path)
    with_an_upstream_that_is_gone(ada)
    git(ada, "reset", "-q", "--hard", "HEAD~1")
    if not pruned:
        git(ada, "update-ref", "refs/remotes/origin/private", "HEAD")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "has no branch private" in str(done.trouble)
    assert "private" not in on_remote(tmp_path)


async def test_records_follow_once_the_person_has_pushed(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    unpublished(ada)
    done = await save(ada, entry("one"))
    assert "WIP: do not push" in str(done.trouble) and "origin/main" in str(done.trouble)
    git(ada, "push", "-q", "origin", "HEAD~1:main")
    again = await save(ada, entry("two"))
    assert (again.stage, again.trouble) == (SaveStage.PUSHED, None)
    assert remote_logbook(tmp_path) == START + entry("one") + entry("two")


def amended(ada: Path) -> None:
    (ada / "secret.py").write_text("idea = 1\n")
    git(ada, "add", "secret.py")
    git(ada, "commit", "-q", "--amend", "--no-edit")


def amended_in_the_logbook(ada: Path) -> None:
    (ada / LOGBOOK).write_bytes((ada / LOGBOOK).read_bytes() + b"\nprivate\n")
    git(ada, "commit", "-q", "-a", "--amend", "--no-edit")


def squashed(ada: Path) -> None:
    unpublished(ada)
    git(ada, "reset", "-q", "--soft", "HEAD~2")
    git(ada, "commit", "-q", "-m", "run: log check")


def rebased_upon(ada: Path) -> None:
    record = git(ada, "rev-parse", "HEAD").strip()
    git(ada, "reset", "-q", "--hard", "HEAD~1")
    unpublished(ada)
    git(ada, "cherry-pick", record)


@pytest.mark.parametrize("change", [amended, amended_in_the_logbook, squashed, rebased_upon])
async def test_a_record_that_a_person_changed_is_theirs_to_push(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-push", "exit 1")
    assert (await save(ada, entry("one"))).stage is SaveStage.COMMITTED
    (ada / ".git/hooks/pre-push").unlink()
    change(ada)
    before = on_remote(tmp_path)
    assert (await save(ada, entry("two"))).stage is SaveStage.COMMITTED
    assert on_remote(tmp_path) == before


async def test_a_file_with_a_persons_text_is_committed_and_not_pushed(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    new = ada / "notes.md"
    new.write_bytes(b"# Notes\n\nnot for others yet\n")
    saver = Saver(SystemClock(), LIMITS)
    done = await saver.save(new, adding(entry("one")), "run: log")
    assert done.stage is SaveStage.COMMITTED and "run: log" in str(done.trouble)
    assert "notes.md" not in on_remote(tmp_path)


async def test_a_commit_made_between_the_look_and_the_push_stays(tmp_path: Path) -> None:
    """A person commits while the push runs: what was looked at goes out, not the branch."""
    ada = shared(tmp_path)
    script = "unset GIT_INDEX_FILE; echo x > secret.py; git add secret.py; "
    hook(ada / ".git", "pre-push", f"{script} git commit -q --no-verify -m 'WIP: do not push'")
    done = await save(ada, entry("one"))
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert "WIP" not in on_remote(tmp_path) and "secret.py" not in on_remote(tmp_path)
    assert remote_logbook(tmp_path) == START + entry("one")
    assert git(ada, "log", "-1", "--format=%s") == "WIP: do not push\n"


async def test_a_branch_that_was_moved_at_the_remote_is_not_moved_back(tmp_path: Path) -> None:
    """The remote dropped a commit on purpose; what is known of it here is older."""
    ada, bob = shared(tmp_path), clone(tmp_path, "bob")
    unpublished(bob)
    git(bob, "push", "-q")
    git(ada, "pull", "-q")
    git(bob, "push", "-q", "--force", "origin", "HEAD~1:main")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED
    assert "secret.py" not in git(tmp_path / "remote.git", "ls-tree", "--name-only", "main")


async def test_a_remote_that_pushes_elsewhere_gets_what_was_looked_at_or_nothing(
    tmp_path: Path,
) -> None:
    ada = shared(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "remote.git"), str(tmp_path / "public"))
    unpublished(ada)
    git(ada, "push", "-q")
    git(ada, "remote", "set-url", "--push", "origin", str(tmp_path / "public"))
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED
    assert f"is pushed to {tmp_path / 'public'}, which stands elsewhere" in str(done.trouble)
    assert "WIP" not in git(tmp_path / "public", "log", "--all", "--format=%s")


async def test_a_hook_that_pushes_after_each_commit_publishes_nothing_of_a_persons(
    tmp_path: Path,
) -> None:
    """An automatic push is mostly a ``post-commit`` hook; it would take along what waits here."""
    ada = shared(tmp_path)
    unpublished(ada)
    hook(ada / ".git", "post-commit", "git push -q origin HEAD")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "did not write" in str(done.trouble)
    assert "secret.py" not in on_remote(tmp_path)


KILLED = """
import asyncio, os, sys
from pathlib import Path
from cockpit.model.clock import SystemClock
from cockpit.records.git.saver import Saver
Path(sys.argv[2]).write_text(str(os.getpid()))
block = sys.argv[3].encode()
edit = lambda data: data if block in data else data + block
asyncio.run(Saver(SystemClock()).save(Path(sys.argv[1]), edit, "run: log"))
"""


@pytest.mark.parametrize("point", ["pre-commit", "pre-push"])
def test_after_a_kill_the_next_save_pushes_its_own_alone(tmp_path: Path, point: str) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", point, f"kill -9 $(cat {tmp_path}/pid); exit 1")
    argv = [sys.executable, "-c", KILLED, str(ada / LOGBOOK), str(tmp_path / "pid")]
    killed = subprocess.run([*argv, entry("one").decode()], capture_output=True, env=os.environ)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (ada / ".git/hooks" / point).unlink()
    again = asyncio.run(Saver(SystemClock(), LIMITS).retry(ada / LOGBOOK))
    assert (again.stage, again.trouble) == (SaveStage.PUSHED, None)
    assert remote_logbook(tmp_path) == START + entry("one")
    unpublished(ada)
    assert asyncio.run(save(ada, entry("two"))).stage is SaveStage.COMMITTED
    assert "secret.py" not in on_remote(tmp_path)


async def test_a_copy_that_lags_behind_is_not_taken_for_a_rewritten_upstream(
    tmp_path: Path,
) -> None:
    ada = shared(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", "remote.git", "first")
    git(ada, "remote", "set-url", "--push", "origin", str(tmp_path / "first"))
    assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    git(ada, "fetch", "-q")
    done = await save(ada, entry("two"))
    assert done.stage is SaveStage.COMMITTED and "which stands elsewhere" in str(done.trouble)
    git(ada, "push", "-q", str(tmp_path / "remote.git"), "HEAD~1:main")  # it has caught up
    assert (await save(ada, entry("three"))).stage is SaveStage.PUSHED
