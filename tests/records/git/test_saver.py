from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.place import place_of
from cockpit.model.records import Recorded, SaveStage
from cockpit.records.git.repository import (
    GitError,
    Limits,
    Repository,
    find_repository,
    run_by_hand,
)
from cockpit.records.git.saver import PushStage, Saver
from cockpit.records.git.sealing import seal_plan
from cockpit.runtime.git import run_git
from cockpit.runtime.shell import Completed
from tests.records.remotes import (
    LOGBOOK,
    START,
    adding,
    clone,
    disturb,
    entry,
    git,
    hook,
    push_twice,
    remote_logbook,
    second_place,
    shared,
    snapshot,
)

QUICK = Limits(local=60, hook=60, network=60, locked=0.3, turn=120)


def saver(limits: Limits = QUICK) -> Saver:
    return Saver(SystemClock(), limits)


async def save(folder: Path, block: bytes, stages: list[Recorded] | None = None) -> Recorded:
    heard = [] if stages is None else stages
    return await saver().save(folder / LOGBOOK, adding(block), "run: log event", heard.append)


async def test_an_entry_is_saved_committed_and_pushed_and_each_stage_is_told(
    tmp_path: Path,
) -> None:
    ada = shared(tmp_path)
    stages: list[Recorded] = []
    done = await save(ada, entry("launch"), stages)
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert done.commit == git(ada, "rev-parse", "HEAD").strip()
    assert [(each.stage.value, each.busy) for each in stages] == [
        ("nothing", "saving"),
        ("saved", "committing"),
        ("committed", "pushing"),
        ("pushed", None),
    ]
    assert remote_logbook(tmp_path) == START + entry("launch")
    assert git(ada, "status", "--porcelain") == ""
    assert git(ada, "log", "-1", "--format=%an|%s") == "Test Person|run: log event\n"


async def test_whatever_else_is_staged_or_dirty_stays_as_it_was(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before = snapshot(ada)
    assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    assert snapshot(ada) == before
    assert git(ada, "show", "--name-only", "--format=", "HEAD") == f"{LOGBOOK}\n"


async def test_a_new_file_is_committed_with_its_folders(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    path = ada / "logs/[a] new/r*n.md"
    done = await saver().save(path, adding(b"# New\n"), "new: start")
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert git(ada, "status", "--porcelain") == ""


async def test_the_first_commit_of_a_repository_without_a_remote(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", str(tmp_path / "solo"))
    done = await saver().save(tmp_path / "solo/log.md", adding(b"# x\n"), "x: start")
    assert done.stage is SaveStage.COMMITTED and "no remote" in str(done.trouble)


async def test_the_same_entry_twice_is_one_commit(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    first = await save(ada, entry("one"))
    again = await save(ada, entry("one"))
    assert again == first
    assert git(ada, "rev-list", "--count", "HEAD") == "2\n"


async def test_what_a_person_has_not_committed_stays_theirs(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    theirs = START.replace(b"## Event", b"Draft, not done.\n\n## Event")
    (ada / LOGBOOK).write_bytes(theirs)
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.PUSHED
    assert remote_logbook(tmp_path) == START + entry("one")
    assert (ada / LOGBOOK).read_bytes() == theirs + entry("one")
    assert "Draft" in git(ada, "diff", "--", LOGBOOK)
    assert git(ada, "diff", "--cached") == ""


async def test_what_a_person_has_staged_of_the_logbook_stays_staged(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).write_bytes(b"Staged.\n" + START)
    git(ada, "add", LOGBOOK)
    await save(ada, entry("one"))
    assert git(ada, "show", f":{LOGBOOK}").encode() == b"Staged.\n" + START + entry("one")
    assert git(ada, "diff") == ""
    assert remote_logbook(tmp_path) == START + entry("one")


async def test_a_symlinked_logbook_is_followed_and_its_mode_kept(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).chmod(0o640)
    link = tmp_path / "link.md"
    link.symlink_to(ada / LOGBOOK)
    done = await saver().save(link, adding(entry("one")), "run: log")
    assert done.stage is SaveStage.PUSHED and link.is_symlink()
    assert (ada / LOGBOOK).stat().st_mode & 0o777 == 0o640


async def test_a_secret_in_a_commit_message_is_masked(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    message = "run: log WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"
    await saver().save(ada / LOGBOOK, adding(entry("one")), message)
    assert "0123456789abcdef" not in git(ada, "log", "-1", "--format=%B")


async def test_two_people_who_write_at_once_both_keep_their_entries(tmp_path: Path) -> None:
    people = [shared(tmp_path), clone(tmp_path, "bob")]
    disturb(people[0])
    before = snapshot(people[0])
    blocks = []

    async def write(folder: Path, round_: int) -> Recorded:
        block = entry(f"{folder.name} {round_}", f"Evidence: by {folder.name}")
        blocks.append(block)
        return await save(folder, block)

    for round_ in range(8 if SOAK else 4):
        done = await asyncio.gather(*(write(folder, round_) for folder in people))
        assert [each.stage for each in done] == [SaveStage.PUSHED] * 2, done
        assert [each.trouble for each in done] == [None, None]
    text = remote_logbook(tmp_path)
    assert all(text.count(block) == 1 for block in blocks)
    assert len(text) == len(START) + sum(map(len, blocks))
    assert snapshot(people[0]) == before
    assert b"<<<<" not in text


async def test_two_processes_at_one_work_tree_take_turns(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    blocks = [entry(f"n{number}") for number in range(12)]
    savers = [saver(Limits()), saver(Limits())]
    done = await asyncio.gather(
        *(
            savers[n % 2].save(ada / LOGBOOK, adding(block), f"run: {n}")
            for n, block in enumerate(blocks)
        )
    )
    assert {each.stage for each in done} == {SaveStage.PUSHED}
    text = remote_logbook(tmp_path)
    assert all(text.count(block) == 1 for block in blocks)
    assert git(ada, "status", "--porcelain") == ""


async def test_code_that_others_pushed_is_not_checked_out_under_a_run(tmp_path: Path) -> None:
    ada, bob = shared(tmp_path), clone(tmp_path, "bob")
    (bob / "train.py").write_text("lr = 9\n")
    git(bob, "commit", "-qam", "another rate")
    git(bob, "push", "-q")
    await save(bob, entry("bob"))
    disturb(ada)
    before = snapshot(ada)
    for name in ("one", "two"):
        done = await save(ada, entry(name))
        assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
        assert snapshot(ada) == before
    wanted = START + entry("bob") + entry("one") + entry("two")
    assert remote_logbook(tmp_path) == wanted == (ada / LOGBOOK).read_bytes()
    assert git(tmp_path / "remote.git", "show", "main:train.py") == "lr = 9\n"
    git(ada, "stash", "-qu")
    git(ada, "pull", "-q", "--rebase")
    assert remote_logbook(tmp_path) == (ada / LOGBOOK).read_bytes()
    assert git(ada, "rev-list", "--count", "origin/main..HEAD") == "0\n"


async def test_other_unpushed_commits_are_never_made_anew(tmp_path: Path) -> None:
    ada, bob = shared(tmp_path), clone(tmp_path, "bob")
    await save(bob, entry("bob"))
    (ada / "model.py").write_text("width = 2\n")
    git(ada, "commit", "-qam", "wider")
    mine = git(ada, "rev-parse", "HEAD").strip()
    done = await save(ada, entry("ada"))
    assert done.stage is SaveStage.COMMITTED
    assert f"{mine[:7]} wider" in str(done.trouble) and "push yourself" in str(done.trouble)
    assert git(ada, "rev-parse", "HEAD~1").strip() == mine
    assert remote_logbook(tmp_path) == START + entry("bob")


REFUSALS = {
    "pre-commit": ("saved", "the pre-commit hook refused: lint: no tabs"),
    "commit-msg": ("saved", "the commit-msg hook refused: lint: no tabs"),
    "pre-push": ("committed", "lint: no tabs"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_hook_that_refuses_is_quoted_and_can_be_retried(tmp_path: Path, name: str) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before = snapshot(ada)
    hook(ada / ".git", name, "echo 'lint: no tabs' >&2; exit 1")
    keeper = saver()
    done = await keeper.save(ada / LOGBOOK, adding(entry("one")), "run: log")
    stage, words = REFUSALS[name]
    assert done.stage.value == stage and words in str(done.trouble), done
    assert (ada / LOGBOOK).read_bytes() == START + entry("one")
    if stage == "committed":
        assert snapshot(ada) == before
    (ada / ".git/hooks" / name).unlink()
    again = await keeper.retry(ada / LOGBOOK)
    assert (again.stage, again.trouble) == (SaveStage.PUSHED, None)
    assert snapshot(ada) == before


async def test_hooks_see_the_commit_alone_and_may_change_it(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before = snapshot(ada)
    hook(ada / ".git", "pre-commit", "git diff --cached --name-only > ../seen; git add notes.txt")
    hook(ada / ".git", "commit-msg", 'echo "Signed-off: me" >> "$1"')
    assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    assert (tmp_path / "seen").read_text() == f"{LOGBOOK}\n"
    assert git(ada, "show", "--name-only", "--format=%B", "HEAD").split("\n") == [
        "run: log event", "Signed-off: me", "", "", LOGBOOK, "",
    ]  # fmt: skip
    assert snapshot(ada) == before


async def test_what_the_remote_says_when_it_refuses_is_kept(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    secret = "ghp_" + "a1B2" * 9
    hook(tmp_path / "remote.git", "pre-receive", f"echo 'policy: need a ticket {secret}'; exit 1")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED
    assert "policy: need a ticket" in str(done.trouble) and secret not in str(done.trouble)
    (tmp_path / "remote.git/hooks/pre-receive").unlink()
    assert (await saver().retry(ada / LOGBOOK)).stage is SaveStage.PUSHED


async def test_no_identity_is_said_and_none_is_invented(tmp_path: Path, _own_home: Path) -> None:
    ada = shared(tmp_path)
    (_own_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and "user.name" in str(done.trouble)
    assert git(ada, "rev-list", "--count", "HEAD") == "1\n"
    assert git(ada, "diff", "--cached") == ""


async def test_a_detached_head_gets_no_commit(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "checkout", "-q", "--detach")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and "detached" in str(done.trouble)
    git(ada, "checkout", "-q", "main")
    assert (await saver().retry(ada / LOGBOOK)).stage is SaveStage.PUSHED


@pytest.mark.parametrize("lock", ["index.lock", "refs/heads/main.lock"])
async def test_a_lock_is_waited_for_then_named(tmp_path: Path, lock: str) -> None:
    ada = shared(tmp_path)
    (ada / ".git" / lock).touch()
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and lock.split("/")[-1] in str(done.trouble)
    assert git(ada, "diff", "--cached") == ""
    (ada / ".git" / lock).unlink()
    assert (await saver().retry(ada / LOGBOOK)).stage is SaveStage.PUSHED


async def test_nothing_is_committed_into_the_middle_of_a_merge(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "checkout", "-qb", "side")
    (ada / "train.py").write_text("a\n")
    git(ada, "commit", "-qam", "a")
    git(ada, "checkout", "-q", "main")
    (ada / "train.py").write_text("b\n")
    git(ada, "commit", "-qam", "b")
    git(ada, "merge", "-q", "side", ok=False)
    before = git(ada, "ls-files", "-s")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and "a merge is under way" in str(done.trouble)
    assert git(ada, "ls-files", "-s") == before


async def test_an_ignored_file_names_the_rule(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / ".gitignore").write_text("*.log\n")
    done = await saver().save(ada / "run.log", adding(b"x\n"), "run: log")
    assert done.stage is SaveStage.SAVED and ".gitignore:1:*.log" in str(done.trouble)


async def test_outside_a_repository_the_file_is_saved(tmp_path: Path) -> None:
    done = await saver().save(tmp_path / "a/b.md", adding(b"x\n"), "run: log")
    assert done.stage is SaveStage.SAVED and "not in a git repository" in str(done.trouble)
    assert (tmp_path / "a/b.md").read_bytes() == b"x\n"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.md"]


async def test_a_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).chmod(0o444)
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.NOTHING and "read-only" in str(done.trouble)
    assert (ada / LOGBOOK).read_bytes() == START


def test_a_full_disk_leaves_the_former_file(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    script = f"""
        import asyncio, resource, signal
        from pathlib import Path
        from cockpit.model.clock import SystemClock
        from cockpit.records.git.saver import Saver
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        path = Path({str(ada / LOGBOOK)!r})
        done = asyncio.run(Saver(SystemClock()).save(path, lambda b: b + b"x" * 9000, "m"))
        print(done.stage.value, done.trouble)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert done.stdout.startswith("nothing "), done
    assert (ada / LOGBOOK).read_bytes() == START
    assert git(ada, "status", "--porcelain") == ""


async def test_a_remote_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "the remote does not exist" in str(done.trouble)
    (tmp_path / "away.git").rename(tmp_path / "remote.git")
    assert (await saver().retry(ada / LOGBOOK)).stage is SaveStage.PUSHED


@pytest.mark.parametrize("scheme", ["git", "http"])
async def test_a_remote_that_never_answers_costs_its_deadline(tmp_path: Path, scheme: str) -> None:
    ada = shared(tmp_path)
    asked: list[object] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)
        await reader.read()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    git(ada, "remote", "set-url", "origin", f"{scheme}://127.0.0.1:{port}/x.git")
    begun = time.monotonic()
    keeper = saver(Limits(network=1.0))
    done = await keeper.save(ada / LOGBOOK, adding(entry("one")), "run: log")
    assert time.monotonic() - begun < 40
    assert done.stage is SaveStage.COMMITTED and "may have landed" in str(done.trouble)
    heard = len(asked)
    next_one = await keeper.save(ada / LOGBOOK, adding(entry("two")), "run: log")
    assert next_one.stage is SaveStage.COMMITTED and "retry" in str(next_one.trouble)
    assert len(asked) == heard, "the next record does not wait for it again"
    await keeper.retry(ada / LOGBOOK)
    assert len(asked) > heard, "a person who asks again is not put off"
    server.close()


async def test_a_push_whose_answer_was_lost_is_looked_up(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(tmp_path / "remote.git", "post-receive", "sleep 60")
    done = await saver(Limits(network=8.0)).save(ada / LOGBOOK, adding(entry("one")), "run: log")
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)


async def test_a_hook_that_hangs_leaves_no_lock(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", "sleep 60")
    keeper = saver(Limits(hook=0.5))
    done = await keeper.save(ada / LOGBOOK, adding(entry("one")), "run: log")
    assert done.stage is SaveStage.SAVED and "did not end in time" in str(done.trouble)
    assert not (ada / ".git/index.lock").exists()


async def test_a_person_who_commits_at_the_same_moment_loses_nothing(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    script = "test -e ../once || { touch ../once; echo x=1 > x.py; unset GIT_INDEX_FILE; "
    script += "git add x.py; git commit -q --no-verify -m theirs; }"
    hook(ada / ".git", "commit-msg", script)
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "theirs" in str(done.trouble)
    assert remote_logbook(tmp_path) == START
    assert git(ada, "log", "--format=%s") == "run: log event\ntheirs\nstart\n"
    assert git(ada, "show", "HEAD:x.py") == "x=1\n"
    assert git(ada, "status", "--porcelain") == ""


async def test_without_an_upstream_nothing_is_pushed_and_nothing_is_set(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "checkout", "-q", "--no-track", "-b", "mine")
    settings = (ada / ".git/config").read_bytes()
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED and "has no upstream" in str(done.trouble)
    assert (ada / ".git/config").read_bytes() == settings
    assert git(tmp_path / "remote.git", "for-each-ref", "--format=%(refname)") == (
        "refs/heads/main\n"
    )


async def test_edits_that_wait_for_a_commit_are_committed_together(tmp_path: Path) -> None:
    ada, keeper = shared(tmp_path), saver()
    (ada / LOGBOOK).write_bytes(b"Mine.\n" + START)
    hook(ada / ".git", "pre-commit", "exit 1")
    await keeper.save(ada / LOGBOOK, adding(entry("one")), "run: one")
    (ada / ".git/hooks/pre-commit").unlink()
    await keeper.save(ada / LOGBOOK, adding(entry("two")), "run: two")
    assert remote_logbook(tmp_path) == START + entry("one") + entry("two")


async def test_hooks_run_with_a_git_that_cannot_run_them_itself(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", 'test -n "$GIT_INDEX_FILE" && pwd && exit 3')
    found = await find_repository(ada / LOGBOOK, QUICK)
    assert isinstance(found, Repository)
    done = await run_by_hand(found, "pre-commit", index=ada / ".git/index")
    assert (done.rc, done.text.strip()) == (3, str(ada))


async def test_foreign_git_variables_do_not_lead_astray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    (ada / "mine.txt").write_text("staged, and not the cockpit's to commit")
    git(ada, "add", "mine.txt")
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
        patch.setenv("GIT_INDEX_FILE", str(tmp_path / "stray"))
        assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    assert not (tmp_path / "stray").exists()
    assert git(ada, "show", "--name-only", "--format=").split() == [LOGBOOK]
    assert git(ada, "status", "--porcelain").split() == ["A", "mine.txt"]


async def test_a_linked_work_tree_is_a_place_like_any_other(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(tmp_path / "side", "push", "-q", "-u", "origin", "side")
    done = await save(tmp_path / "side", entry("one"))
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert git(tmp_path / "side", "status", "--porcelain") == ""
    assert git(ada, "status", "--porcelain") == ""


async def test_line_ends_that_git_converts_are_kept(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    bob = clone(tmp_path, "bob")
    (ada / ".gitattributes").write_text("*.md text eol=crlf\n")
    git(ada, "add", ".gitattributes")
    git(ada, "commit", "-qm", "crlf")
    git(ada, "push", "-q")
    git(bob, "pull", "-q")
    (ada / LOGBOOK).unlink()
    git(ada, "checkout", "-q", "--", LOGBOOK)
    await save(bob, entry("bob").replace(b"\n", b"\r\n"))
    done = await save(ada, entry("ada").replace(b"\n", b"\r\n"))
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert remote_logbook(tmp_path) == START + entry("bob") + entry("ada")
    assert (ada / LOGBOOK).read_bytes() == remote_logbook(tmp_path).replace(b"\n", b"\r\n")
    assert git(ada, "status", "--porcelain") == ""


async def test_an_edit_that_refuses_changes_nothing(tmp_path: Path) -> None:
    ada = shared(tmp_path)

    def refuse(data: bytes) -> bytes:
        raise ValueError("no event log here")

    done = await saver().save(ada / LOGBOOK, refuse, "run: log")
    assert done.stage is SaveStage.NOTHING and "no event log here" in str(done.trouble)


async def test_a_pipe_in_the_place_of_a_logbook_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.md")
    done = await saver().save(tmp_path / "log.md", adding(b"x"), "run: log")
    assert done.stage is SaveStage.NOTHING and "not a regular file" in str(done.trouble)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
async def test_a_repository_of_another_user_names_the_remedy(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    for path in (ada, ada / ".git"):
        os.chown(path, 4242, 4242)
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and f"safe.directory {ada}" in str(done.trouble)
    push = await saver().pushes(ada / LOGBOOK)
    assert push.stage is PushStage.FAILED and f"safe.directory {ada}" in str(push.trouble)


async def test_a_file_outside_of_its_work_tree_is_saved_and_says_so(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (tmp_path / "tree").mkdir()
    git(ada, "config", "core.worktree", str(tmp_path / "tree"))
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.SAVED and "(core.worktree): keep the file" in str(done.trouble)
    assert b"one" in (ada / LOGBOOK).read_bytes()
    assert "(core.worktree)" in str((await seal_plan(place_of(str(ada)), "hero", 1)).trouble)


async def test_a_push_that_has_landed_is_said_where_a_file_here_cannot_follow(
    tmp_path: Path,
) -> None:
    """Another logbook is UTF-16 here: lines of the others in between would spoil it."""
    ada = shared(tmp_path)
    other = ada / LOGBOOK.replace("run.md", "other.md")
    other.write_text("# other\n")
    git(ada, "add", "-A")
    git(ada, "commit", "-q", "-m", "other")
    git(ada, "push", "-q")
    bob = clone(tmp_path, "bob")
    with (bob / other.relative_to(ada)).open("a") as file:
        file.write("of bob\n")
    git(bob, "commit", "-qam", "bob")
    git(bob, "push", "-q")
    mine = "# other, mine\n".encode("utf-16")
    for staged in (False, True):
        other.write_bytes(mine)
        if staged:
            git(ada, "add", str(other))
        done = await save(ada, entry(f"one {staged}"))
        assert done.stage is SaveStage.PUSHED, done
        assert other.read_bytes() == mine
    assert remote_logbook(tmp_path).count(b"- one") == 2


async def test_a_git_that_does_not_tell_where_it_pushes_is_not_asked_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    found = await find_repository(ada / LOGBOOK, QUICK)
    assert isinstance(found, Repository)
    git(ada, "remote", "set-url", "--push", "origin", str(tmp_path / "elsewhere"))
    assert await found.pushed_to("origin") == str(tmp_path / "elsewhere")
    asked, silenced = run_git, ["config"]

    async def silent(folder: Path, *words: str, **more: Any) -> Completed:
        if words[0] not in silenced:
            return await asked(folder, *words, **more)
        return Completed(-9, b"", b"", timed_out=True)

    monkeypatch.setattr("cockpit.records.git.repository.run_git", silent)
    for silenced[0] in ("config", "remote"):
        with pytest.raises(GitError):
            await found.pushed_to("origin")


async def test_a_place_of_the_remote_that_did_not_take_a_record_is_said(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    second = second_place(tmp_path)
    push_twice(ada)
    assert (await save(ada, entry("one"))).stage is SaveStage.PUSHED
    second.rename(tmp_path / "away")
    done = await save(ada, entry("two"))
    assert done.stage is SaveStage.COMMITTED
    assert "not every place that origin is pushed to has taken it" in str(done.trouble)


async def test_a_remote_branch_that_is_checked_out_is_said(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    bob = clone(tmp_path, "bob")
    git(ada, "remote", "set-url", "origin", str(bob))
    done = await save(ada, entry("one"))
    assert done.stage is SaveStage.COMMITTED
    assert "branch is currently checked out" in str(done.trouble)


async def test_a_commit_that_cannot_be_signed_is_not_made(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    git(ada, "config", "commit.gpgSign", "true")
    asks = tmp_path / "asks-for-a-pin"
    asks.write_text("#!/bin/sh\nsleep 600\n")
    asks.chmod(0o755)
    for program, why in (("/bin/false", "signed"), (str(asks), "it may wait for a PIN")):
        git(ada, "config", "gpg.program", program)
        impatient = saver(replace(QUICK, network=0.5))
        done = await impatient.save(ada / LOGBOOK, adding(entry("one")), "run: log event")
        assert done.stage is SaveStage.SAVED and why in str(done.trouble)
        assert git(ada, "rev-list", "--count", "HEAD") == "1\n"
        assert git(ada, "diff", "--cached") == ""


async def test_a_logbook_in_a_submodule_is_committed_there(tmp_path: Path) -> None:
    shared(tmp_path)
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", str(outer))
    allow = ("-c", "protocol.file.allow=always")
    git(outer, *allow, "submodule", "--quiet", "add", str(tmp_path / "remote.git"), "inner")
    git(outer, "commit", "-qm", "outer")
    done = await save(outer / "inner", entry("one"))
    assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    assert done.note is not None and f"submodule: {outer}" in done.note
    assert git(outer, "rev-list", "--count", "HEAD") == "1\n"
    assert remote_logbook(tmp_path) == START + entry("one")


async def test_conflict_markers_that_were_committed_are_said(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    marked = b"<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> bob\n"
    (ada / LOGBOOK).write_bytes(START + marked)
    git(ada, "commit", "-qam", "by hand")
    git(ada, "push", "-q")
    done = await save(ada, entry("one"))
    assert (done.stage, done.note) == (SaveStage.PUSHED, "run.md has conflict markers at line 4")
    assert remote_logbook(tmp_path) == START + marked + entry("one")


async def test_secrets_in_a_hooks_words_are_masked(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    secret = "ghp_" + "a1B2" * 9
    hook(ada / ".git", "pre-commit", f"printf 'bad \\033[31mtoken\\033[0m {secret}\\n'; exit 1")
    done = await save(ada, entry("one"))
    assert "bad token ****" in str(done.trouble)


FOREIGN = """
for n in $(seq 1 {rounds}); do
  until git fetch -q && git reset -q --hard origin/main &&
    printf '\n### 2026-03-11 08:55 UTC - by hand %s\n- Status: RUNNING\n- Next: look again\n' $n \
      >> {logbook} && git commit -qam "hand $n" && git push -q; do :; done
done
"""


async def test_somebody_who_pushes_with_plain_git_all_the_time_loses_nothing(
    tmp_path: Path,
) -> None:
    ada, bob, rounds = shared(tmp_path), clone(tmp_path, "bob"), 20 if SOAK else 10
    script = FOREIGN.format(rounds=rounds, logbook=LOGBOOK)
    other = await asyncio.create_subprocess_exec("sh", "-c", script, cwd=bob, stderr=-3)
    for number in range(rounds):
        done = await save(ada, entry(f"ada {number}"))
        assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    await other.wait()
    text = remote_logbook(tmp_path)
    blocks = [entry(f"{who} {n}") for who in ("by hand",) for n in range(1, rounds + 1)]
    blocks += [entry(f"ada {n}") for n in range(rounds)]
    assert all(text.count(block) == 1 for block in blocks)
    assert len(text) == len(START) + sum(map(len, blocks))
    assert git(ada, "status", "--porcelain") == ""


SOAK = bool(os.environ.get("SOAK"))
POINTS = {
    "pre-commit": "",
    "commit-msg": "",
    "reference-transaction": 'test "$1" = prepared && grep -q refs/heads && ',
    "reference-transaction 2": 'test "$1" = prepared && grep -q refs/heads && ! mkdir once && ',
    "pre-push": "",
    "post-receive": "",
}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("name", POINTS)
def test_killed_at_any_point_nothing_is_lost_and_retry_ends_it(
    tmp_path: Path, name: str, moved: bool
) -> None:
    ada, bob = shared(tmp_path), clone(tmp_path, "bob")
    disturb(ada)
    before = snapshot(ada)
    if moved:
        asyncio.run(save(bob, entry("bob")))
    point, name = POINTS[name], name.split()[0]
    folder = tmp_path / "remote.git" if name == "post-receive" else ada / ".git"
    point = point.replace("mkdir once", f"mkdir {tmp_path}/once 2>/dev/null")
    hook(folder, name, f"{point}kill -9 $(cat {tmp_path}/pid)")
    script = KILLED.replace(
        "asyncio.run", "open(sys.argv[2], 'w').write(str(os.getpid())); asyncio.run"
    )
    argv = [sys.executable, "-c", f"import os{script}", str(ada / LOGBOOK), str(tmp_path / "pid")]
    assert subprocess.run(argv, capture_output=True).returncode == -signal.SIGKILL
    (folder / "hooks" / name).unlink()
    data = (ada / LOGBOOK).read_bytes()
    assert data.startswith(START) and data.count(b"### ") >= 1 and data.endswith(b"y\n")
    assert [line for line in git(ada, "diff", "--cached", "--", LOGBOOK).splitlines()
            if line.startswith("-") and not line.startswith("---")] == []  # fmt: skip
    again = asyncio.run(saver().retry(ada / LOGBOOK))
    assert (again.stage, again.trouble) == (SaveStage.PUSHED, None)
    text = remote_logbook(tmp_path)
    assert text.count(b"y" * 50000) == data.count(b"y" * 50000) and (entry("bob") in text) == moved
    assert snapshot(ada) == before


KILLED = """
import asyncio, sys
from pathlib import Path
from cockpit.model.clock import SystemClock
from cockpit.records.git.saver import Saver
path, n = Path(sys.argv[1]), 0
async def go():
    global n
    keeper = Saver(SystemClock())
    while True:
        n += 1
        block = b"\\n### 2026-03-11 08:55 UTC - k%d\\n- Status: x\\n" % n + b"y" * 50000 + b"\\n"
        await keeper.save(path, lambda data, block=block: data + block, f"run: {n}")
        print(n, flush=True)
asyncio.run(go())
"""


@pytest.mark.slow
def test_killed_in_the_middle_of_a_save_it_leaves_a_whole_file(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before = snapshot(ada)
    for round_ in range(6 if SOAK else 3):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(ada / LOGBOOK)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.017 * round_ * (1 if SOAK else 2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        data = (ada / LOGBOOK).read_bytes()
        assert data.startswith(START) and data.endswith(b"y\n")
        assert data.count(b"### ") == data.count(b"- Status: x\n")
        again = asyncio.run(saver().retry(ada / LOGBOOK))
        assert (again.stage, again.trouble) == (SaveStage.PUSHED, None)
        assert snapshot(ada) == before
        assert remote_logbook(tmp_path) == data
