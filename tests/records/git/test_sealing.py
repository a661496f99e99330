from __future__ import annotations

import time
from pathlib import Path

import pytest

from cockpit.model.place import place_of
from cockpit.records.git.repository import Limits
from cockpit.records.git.sealing import SealDone, seal, seal_plan
from tests.records.remotes import disturb, git, hook, push_twice, second_place, shared, snapshot

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
