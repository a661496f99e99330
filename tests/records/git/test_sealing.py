"""Hooks that format what they are shown: their version is committed, and nothing else gets in."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.clock import SystemClock
from cockpit.model.place import place_of
from cockpit.model.records import EventEntry, Recorded, SaveStage
from cockpit.records.git.documents import BusyError, locked
from cockpit.records.git.merging import adds_nothing, merge
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import Saver
from cockpit.records.git.sealing import SealDone, seal, seal_plan
from cockpit.records.logbook.writing import with_event
from cockpit.records.recorder import trouble_with
from tests.records.remotes import (
    LOGBOOK,
    START,
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

RUN = "demo-run"
QUICK = Limits(local=60, hook=60, network=60, locked=0.3)
DIRTY = ("staged.py", "train.py", "model.py")


async def sealed(repo: Path, *dirty: str, step: int = 100) -> SealDone:
    return await seal(place_of(str(repo)), RUN, step, f"{RUN}: log final seal", dirty, QUICK)


async def test_approved_changes_alone_are_committed_tagged_and_pushed(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before, head = snapshot(ada), git(ada, "rev-parse", "HEAD").strip()
    facts = await seal_plan(place_of(str(ada)), RUN, 100)
    assert facts.sha == head and set(facts.dirty) == {*DIRTY, "notes.txt"}
    assert (facts.tag_at, facts.branch_at, facts.on_remote) == (None, None, False)
    done = await sealed(ada, *DIRTY)
    assert (done.tagged, done.pushed, done.already, done.trouble) == (True, True, False, None)
    assert snapshot(ada) == before
    assert git(ada, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split() == [head, "main"]
    bare = tmp_path / "remote.git"
    tag = f"seal/{RUN}/100"
    assert git(bare, "cat-file", "-t", tag).strip() == "tag"
    assert git(bare, "rev-parse", f"{tag}^{{}}").strip() == done.commit
    assert git(bare, "rev-parse", f"seal/{RUN}", f"seal/{RUN}^").split() == [done.commit, head]
    assert git(bare, "show", f"{tag}:train.py") == "lr = 3\n"
    assert git(bare, "diff", "--name-status", head, tag).split() == [
        "D", "model.py", "A", "staged.py", "M", "train.py",
    ]  # fmt: skip


async def test_a_commit_made_after_the_plan_is_not_published(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    shown = git(ada, "rev-parse", "HEAD").strip()
    git(ada, "commit", "-q", "--allow-empty", "-m", "WIP: do not push")
    done = await seal(place_of(str(ada)), RUN, 100, "m", (), QUICK, head=shown)
    assert not done.tagged and "HEAD has moved" in str(done.trouble)
    assert git(tmp_path / "remote.git", "tag") == "" == git(ada, "tag")


async def test_what_a_tag_publishes_is_told_of_the_place_that_it_is_pushed_to(
    tmp_path: Path,
) -> None:
    """What is fetched from knows the commits; the public place that is pushed to does not."""
    ada = shared(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", "remote.git", "public")
    git(ada, "commit", "-q", "--allow-empty", "-m", "private")
    git(ada, "push", "-q")
    place = place_of(str(ada))
    assert (await seal_plan(place, RUN, 100)).unpublished == ()
    git(ada, "remote", "set-url", "--push", "origin", str(tmp_path / "public"))
    facts = await seal_plan(place, RUN, 100)
    assert [each.subject for each in facts.unpublished] == ["private"]
    assert (await sealed(ada)).pushed and (await seal_plan(place, RUN, 100)).on_remote


async def test_a_tag_is_where_each_place_of_its_remote_has_it(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    second = second_place(tmp_path)
    push_twice(ada)
    git(ada, "commit", "-q", "--allow-empty", "-m", "private")
    git(ada, "push", "-q", str(tmp_path / "remote.git"), "main")
    facts = await seal_plan(place_of(str(ada)), RUN, 100)
    assert [each.subject for each in facts.unpublished] == ["private"], "the second lacks it"
    assert (await sealed(ada)).pushed
    git(second, "tag", "-d", git(second, "tag").strip())
    assert (await seal_plan(place_of(str(ada)), RUN, 100)).on_remote is False


async def test_sealing_twice_changes_nothing(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    first = await sealed(ada, *DIRTY)
    refs = git(ada, "for-each-ref"), git(tmp_path / "remote.git", "for-each-ref")
    again = await sealed(ada, *DIRTY)
    assert again == first.model_copy(update={"already": True})
    assert (git(ada, "for-each-ref"), git(tmp_path / "remote.git", "for-each-ref")) == refs
    facts = await seal_plan(place_of(str(ada)), RUN, 100)
    assert facts.tag_at == facts.branch_at == first.commit and facts.on_remote is True


async def test_a_clean_tree_is_tagged_where_it_is(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    done = await sealed(ada)
    assert done.commit == git(ada, "rev-parse", "HEAD").strip() and done.pushed
    assert done.branch is None and "seal" not in git(ada, "branch", "-a")
    assert (await sealed(ada)).already


async def test_a_tag_that_stands_elsewhere_is_refused_with_both_shas(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    first = await sealed(ada)
    disturb(ada)
    refused = await sealed(ada, "train.py")
    assert not refused.tagged and not refused.pushed
    assert str(first.commit) in str(refused.trouble) and str(refused.commit) in str(refused.trouble)


async def test_a_tag_that_stands_elsewhere_on_the_remote_is_refused(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    first = await sealed(ada)
    git(ada, "tag", "-d", f"seal/{RUN}/100")
    disturb(ada)
    refused = await sealed(ada, "train.py")
    assert not refused.pushed
    assert str(first.commit) in str(refused.trouble) and str(refused.commit) in str(refused.trouble)


async def test_a_later_milestone_is_pushed_without_force(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / "train.py").write_text("lr = 2\n")
    first = await sealed(ada, "train.py")
    (ada / "train.py").write_text("lr = 3\n")
    second = await sealed(ada, "train.py", step=200)
    assert second.pushed and second.trouble is None
    bare = tmp_path / "remote.git"
    assert git(bare, "rev-parse", f"seal/{RUN}").strip() == second.commit != first.commit
    assert git(bare, "rev-parse", f"seal/{RUN}/100^{{}}").strip() == first.commit


@pytest.mark.parametrize("where", ["pre-commit", "pre-push", "pre-receive"])
async def test_refusals_are_quoted_and_sealing_can_go_on(tmp_path: Path, where: str) -> None:
    ada = shared(tmp_path)
    disturb(ada)
    before = snapshot(ada)
    folder = tmp_path / "remote.git" if where == "pre-receive" else ada / ".git"
    hook(folder, where, "echo 'policy: ask ben' >&2; exit 1")
    done = await sealed(ada, "train.py")
    assert not done.pushed and "policy: ask ben" in str(done.trouble)
    (folder / "hooks" / where).unlink()
    assert (await sealed(ada, "train.py")).pushed
    assert snapshot(ada) == before


async def test_no_identity_no_remote_no_repository_no_name(tmp_path: Path, _own_home: Path) -> None:
    ada = shared(tmp_path)
    (ada / "train.py").write_text("x\n")
    git(ada, "remote", "remove", "origin")
    assert "no remote" in str((await sealed(ada, "train.py")).trouble)
    (_own_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    (ada / "train.py").write_text("y\n")
    assert "user.name" in str((await sealed(ada, "train.py")).trouble)
    assert "not in a git repository" in str(
        (await seal_plan(place_of(str(tmp_path)), RUN, 1)).trouble
    )
    bad = await seal(place_of(str(ada)), "a..b ~", 1, "m", (), QUICK)
    assert "is not a valid git tag name" in str(bad.trouble)


async def test_a_remote_that_hangs_costs_its_deadline(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(tmp_path / "remote.git", "pre-receive", "sleep 30")
    begun = time.monotonic()
    done = await seal(place_of(str(ada)), RUN, 100, "m", (), Limits(network=0.7))
    assert time.monotonic() - begun < 40
    assert done.tagged and not done.pushed and "did not answer" in str(done.trouble)


async def test_nothing_stands_in_the_way_of_ones_own_clone(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    assert await trouble_with(ada / LOGBOOK) is None
    assert await trouble_with(tmp_path / "no" / "repository.md") is None
    assert git(ada, "status", "--porcelain") == "", "asking has changed nothing"


async def test_a_lock_that_another_left_is_named_with_its_owner(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    lock = ada / ".git/index.lock"
    lock.touch()
    assert await trouble_with(ada / LOGBOOK) is None, "another git may be at work just now"
    os.utime(lock, (1.0, 1.0))
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and str(lock) in said and "was left by" in said


async def test_what_this_user_may_not_write_is_told_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    place = next(each for each in (ada / ".git/objects").iterdir() if len(each.name) == 2)
    may, book = os.access, (ada / LOGBOOK).resolve()
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != place.name and may(path, mode)
    )
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and str(place) in said and "core.sharedRepository" in said
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != book and may(path, mode))
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and f"chmod g+w {book}" in said


async def test_a_commit_that_would_lock_the_owner_out_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = shared(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    said = await trouble_with(ada / LOGBOOK)
    assert said is not None and "would lock" in said and "chmod g+s" in said
    git(ada, "config", "core.sharedRepository", "group")
    assert await trouble_with(ada / LOGBOOK) is None


HOLDER = """
import asyncio, sys
from pathlib import Path
from cockpit.model.clock import SystemClock
from cockpit.records.git.documents import locked
async def go():
    async with locked(Path(sys.argv[1]), SystemClock(), 5.0):
        print("held", flush=True)
        await asyncio.sleep(600)
asyncio.run(go())
"""


@pytest.mark.parametrize("folder", [False, True])
async def test_one_holder_at_a_time(tmp_path: Path, folder: bool) -> None:
    path, clock, inside = tmp_path / "lock", SystemClock(), 0
    if folder:
        path.mkdir()

    async def enter() -> None:
        nonlocal inside
        async with locked(path, clock, 60.0):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0.01)
            inside -= 1

    await asyncio.gather(*(enter() for _ in range(8)))
    async with locked(path, clock, 1.0):
        with pytest.raises(BusyError, match="another cockpit"):
            async with locked(path, clock, 0.1):
                pass


def test_a_holder_that_is_killed_leaves_it_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"

        async def enter(patience: float) -> None:
            async with locked(path, SystemClock(), patience):
                pass

        with pytest.raises(BusyError):
            asyncio.run(enter(0.1))
        process.kill()
        process.wait()
        asyncio.run(enter(30.0))


async def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="lock"):
        async with locked(tmp_path / "lock", SystemClock(), 1.0):
            pass
    assert not (tmp_path / "victim").exists()


TEXT = st.lists(st.sampled_from(["", "a", "b", "- Status: x", "## Event Log"]), max_size=12).map(
    lambda lines: "\n".join(lines).encode()
)
BLOCK = st.builds(
    lambda name, lines: [f"### {name}", *lines],
    st.uuids(),
    st.lists(st.sampled_from(["", "- Status: x", "- Next: y"]), max_size=5),
)


def test_entries_that_share_lines_stay_whole() -> None:
    ours, theirs = entry("ours"), entry("theirs")
    assert merge(START, START + ours, START + theirs) == START + theirs + ours


def test_an_entry_that_is_there_already_is_not_added_again() -> None:
    ours, theirs = entry("ours"), entry("theirs")
    both = START + theirs + ours + entry("later")
    assert merge(START, START + ours, both) == both
    assert adds_nothing(START, START + ours, both)
    assert not adds_nothing(START, START + ours, START + theirs)


def test_newest_first_logbooks_are_merged_at_their_top() -> None:
    old = entry("old")
    merged = merge(START + old, START + entry("a") + old, START + entry("b") + old)
    assert merged == START + entry("b") + entry("a") + old


def test_what_one_side_took_out_stays_out_where_the_other_adds_beside_it() -> None:
    old, last, new = entry("old"), entry("last"), entry("new")
    both = START + old + last
    assert merge(both, both + new, START + old) == START + old + new
    assert merge(both, START + old, both + new) == START + old + new
    assert merge(both, START + new + old + last, START + last) == START + new + last
    edited = both.replace(b"- last", b"- the last")
    assert merge(both, START + old + new + last, edited) == edited.replace(
        entry("the last"), new + entry("the last")
    )


def test_changes_of_different_places_are_both_taken() -> None:
    base = b"- DRI: ada\n- Goal: x\n" + START
    ours = base.replace(b"ada", b"bob") + entry("ours")
    theirs = base.replace(b"Goal: x", b"Goal: y") + entry("theirs")
    merged = merge(base, ours, theirs)
    assert merged.endswith(START + entry("theirs") + entry("ours"))
    assert b"bob" in merged and b"Goal: y" in merged


def test_a_missing_last_line_break_loses_nothing() -> None:
    merged = merge(b"a\nb", b"a\nb\n\n### X\n- s\n", b"a\nb\n\n### Y\n- s\n")
    assert merged.index(b"### Y\n- s\n") < merged.index(b"### X\n- s\n")


@given(TEXT, BLOCK, BLOCK, st.integers(0, 12), st.integers(0, 12))
def test_both_blocks_are_kept_whole_wherever_they_are_put(
    base: bytes, mine: list[str], yours: list[str], one: int, two: int
) -> None:
    lines = base.decode().split("\n")
    one, two = min(one, len(lines)), min(two, len(lines))
    ours = [*lines[:one], *mine, *lines[one:]]
    theirs = [*lines[:two], *yours, *lines[two:]]
    merged = merge(base, "\n".join(ours).encode(), "\n".join(theirs).encode()).decode()
    assert sorted(merged.split("\n")) == sorted([*lines, *mine, *yours])
    for block in (mine, yours):
        assert "\n" + "\n".join(block) + "\n" in f"\n{merged}\n"
    if one == two:
        assert merged.index(yours[0]) < merged.index(mine[0])


@given(TEXT, TEXT, TEXT)
def test_no_line_of_either_side_is_lost(base: bytes, ours: bytes, theirs: bytes) -> None:
    kept = set(merge(base, ours, theirs).split(b"\n"))
    common = set(base.split(b"\n"))
    added = (set(ours.split(b"\n")) | set(theirs.split(b"\n"))) - common
    assert {line for line in added if line.strip()} <= kept


@given(TEXT, TEXT)
def test_one_side_alone_is_taken_as_it_is(base: bytes, other: bytes) -> None:
    assert merge(base, other, base) == other == merge(base, base, other)
    assert merge(base, other, other) == other


LIMITS = Limits(local=60, hook=60, network=60, locked=0.3, turn=120)
STARS = f"sed 's/^- /* /' {LOGBOOK} > ../made; "
WORK_TREE = f"{STARS} cmp -s ../made {LOGBOOK} || {{ cat ../made > {LOGBOOK}; exit 1; }}"
"""As a hook of pre-commit does: it formats the file and fails."""
QUIET = f"{STARS} cat ../made > {LOGBOOK}"
ADDS = f"{QUIET}; git add {LOGBOOK}"
ADDS_AND_FAILS = f"{STARS} cmp -s ../made {LOGBOOK} || {{ {ADDS}; exit 1; }}"
IN_THE_INDEX = (
    f"git cat-file blob :{LOGBOOK} | sed 's/^- /* /' > ../made; "
    f"git update-index --cacheinfo 100644,$(git hash-object -w ../made),{LOGBOOK}"
)
HOOKS = {
    "fails": WORK_TREE,
    "says nothing": QUIET,
    "adds": ADDS,
    "adds and fails": ADDS_AND_FAILS,
    "in the index": IN_THE_INDEX,
}


def formatting_hooks_entry(title: str, minute: int = 0) -> EventEntry:
    at = 1_773_219_120.0 + 60 * minute
    return EventEntry(title=title, at=at, status="RUNNING", decision="none", next="look again")


async def save(folder: Path, event: EventEntry) -> Recorded:
    saver = Saver(SystemClock(), LIMITS)
    return await saver.save(folder / LOGBOOK, lambda data: with_event(data, event), "run: log")


def formatted(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(b"* " + line[2:] if line.startswith(b"- ") else line for line in lines)


@pytest.mark.parametrize("how", HOOKS)
async def test_what_the_hook_made_of_the_entry_is_committed(tmp_path: Path, how: str) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", HOOKS[how])
    for number, title in enumerate(("one", "two")):
        done = await save(ada, formatting_hooks_entry(title, number))
        assert (done.stage, done.trouble) == (SaveStage.PUSHED, None)
    book = remote_logbook(tmp_path)
    assert book == formatted(book) == (ada / LOGBOOK).read_bytes()
    assert book.count(b"- one") == book.count(b"- two") == 1
    assert git(ada, "status", "--porcelain") == ""
    again = await save(ada, formatting_hooks_entry("two", 1))
    assert again.stage is SaveStage.PUSHED and remote_logbook(tmp_path) == book


@pytest.mark.parametrize("how", HOOKS)
async def test_a_persons_uncommitted_text_never_goes_along(tmp_path: Path, how: str) -> None:
    ada = shared(tmp_path)
    (ada / LOGBOOK).write_bytes((ada / LOGBOOK).read_bytes() + b"\n- a private thought\n")
    hook(ada / ".git", "pre-commit", HOOKS[how])
    done = await save(ada, formatting_hooks_entry("one"))
    kept = (ada / LOGBOOK).read_bytes()
    assert b"a private thought" in kept and kept.count(b"- one") == 1
    assert b"private" not in remote_logbook(tmp_path)
    assert "private" not in git(ada, "log", "-p", "--all")
    if done.stage is not SaveStage.PUSHED:
        assert "holds changes of yours" in str(done.trouble)


async def test_words_that_a_hook_adds_are_committed_and_not_pushed(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", f"echo 'from a hook' >> {LOGBOOK}; git add {LOGBOOK}")
    done = await save(ada, formatting_hooks_entry("one"))
    assert done.stage is SaveStage.COMMITTED and "push yourself" in str(done.trouble)
    assert b"from a hook" not in remote_logbook(tmp_path)


async def test_a_hook_that_takes_the_entry_out_is_refused(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    hook(ada / ".git", "pre-commit", f"git show HEAD:{LOGBOOK} > {LOGBOOK}; git add {LOGBOOK}")
    done = await save(ada, formatting_hooks_entry("one"))
    assert done.stage is SaveStage.SAVED and "took the entry out" in str(done.trouble)


async def test_other_files_of_a_person_stay_as_they_are(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    (ada / "train.py").write_text("lr = 5\n")
    (ada / "new.py").write_text("x = 1\n")
    git(ada, "add", "new.py")
    before = git(ada, "status", "--porcelain")
    hook(ada / ".git", "pre-commit", WORK_TREE)
    assert (await save(ada, formatting_hooks_entry("one"))).stage is SaveStage.PUSHED
    assert git(ada, "status", "--porcelain") == before
