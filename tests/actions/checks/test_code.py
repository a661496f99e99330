from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.checks.code import bundled_commit, lineage, only_dri
from cockpit.model.jobs import Bundle
from cockpit.model.lineage import Touches, any_match, touches
from cockpit.model.observed import CodeValue, JobValue
from cockpit.model.place import place_of
from cockpit.model.run import CodeSpec
from cockpit.sources.git.code import Changes, changes_since
from cockpit.store.memory import Snapshot
from tests.actions.contexts import by_id, context, levels, soft
from tests.rules.making import blind, job, run_spec

SPEC = CodeSpec(repo="/r", safe=("launch/**", "callbacks/**"), trajectory=("launch/mesh.py",))
SHA = "a" * 40


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("docs/**", "docs/a/b.txt", True),
        ("docs/**", "src/docs/a.txt", False),
        ("docs/", "docs/a.txt", True),
        ("*.md", "a/b/READ.md", True),
        ("*.md", "a.md/code.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/b.py", True),
        ("src/**/*.py", "src/x/y/b.py", True),
        ("**/test_*.py", "deep/in/test_x.py", True),
        ("a?c", "abc", True),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[", "[", True),
        ("/top.py", "top.py", True),
        ("top.py", "x/top.py", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert any_match([pattern], path) is matches


@given(st.text(max_size=12), st.text(max_size=20))
def test_no_pattern_and_no_name_breaks_it(pattern: str, path: str) -> None:
    assert any_match([pattern], path) in (True, False)


@given(st.text(min_size=1, max_size=20))
def test_a_single_star_never_crosses_a_folder(name: str) -> None:
    assert not any_match(["src/*"], f"src/x/{name}")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("README.md", Touches.IGNORE),
        ("tests/test_x.py", Touches.IGNORE),
        ("out/run.log", Touches.IGNORE),
        ("launch/go.sh", Touches.SAFE),
        ("launch/mesh.py", Touches.TRAJECTORY),
        ("model.py", Touches.TRAJECTORY),
        ("newpkg/", Touches.TRAJECTORY),
        ("docs/", Touches.IGNORE),
    ],
)
def test_the_three_classes(path: str, kind: Touches) -> None:
    assert touches(path, SPEC) is kind


def code(**more: Any) -> CodeValue:
    return CodeValue(**{"sha": SHA, "branch": "main", "unpushed": 0, **more})


def checked(value: CodeValue, changes: Changes, prior: Snapshot | None = None) -> dict[str, str]:
    run = run_spec(code=SPEC)
    return levels(lineage(context(run, code=value), changes, prior))


SAME = Changes(base=SHA, source="the logbook", committed=(), unpushed=(), untracked=())


def test_the_recorded_commit_passes_and_files_that_never_count_do_too() -> None:
    assert checked(code(), SAME) == {"C-15": "pass"}
    moved = SAME.model_copy(update={"base": "b" * 40, "committed": ("docs/x.md", "tests/a.py")})
    assert checked(code(dirty=("notes.md",)), moved) == {"C-15": "pass"}


def bundled(commit: str | None, dirty: bool | None = False, **more: Any) -> JobValue:
    bundle = Bundle(id="c" * 64, commit=commit, dirty=dirty)
    return job(id="/ada/toy-i001", bundle=bundle, **more)


RECORDED = SAME.model_copy(update={"recorded": SHA, "recorded_by": "toy-i001"})


@pytest.mark.parametrize(
    ("ran", "levels_found"),
    [
        (bundled(SHA), {"C-15": "pass", "C-15:bundle": "pass"}),
        (bundled(SHA[:12]), {"C-15": "pass", "C-15:bundle": "pass"}),
        (bundled("b" * 40), {"C-15": "pass", "C-15:bundle": "block"}),
        (bundled(SHA, dirty=True), {"C-15": "pass", "C-15:bundle": "block"}),
        (bundled(None), {"C-15": "pass"}),
        (job(), {"C-15": "pass"}),
    ],
)
def test_what_is_in_the_jobs_bundle_is_held_against_the_record(
    ran: JobValue, levels_found: dict[str, str]
) -> None:
    run = run_spec(code=SPEC)
    assert levels(lineage(context(run, code=code(), job=ran), RECORDED, None)) == levels_found


def test_a_bundle_of_another_launch_says_nothing_of_this_one() -> None:
    prior = Snapshot(launch_id="toy-i002", at=1.0, action="launch", command=(), sha=SHA)
    assert bundled_commit(bundled("b" * 40, launch_id="toy-i001"), prior) is None
    assert bundled_commit(bundled("b" * 40, launch_id="toy-i002"), prior) == "b" * 40
    assert bundled_commit(None, prior) is None


def test_safe_files_are_approved_by_name_and_trajectory_only_by_the_dri() -> None:
    run = run_spec(code=SPEC)
    safe = SAME.model_copy(update={"committed": ("launch/go.sh",)})
    check = by_id(lineage(context(run, code=code()), safe, None), "C-15")
    assert soft(check) and "declared safe" in check.text
    assert not only_dri(SPEC, safe, code())
    risky = SAME.model_copy(update={"committed": ("launch/go.sh", "model.py")})
    check = by_id(lineage(context(run, code=code()), risky, None), "C-15")
    assert soft(check) and "only ada may approve" in check.text and "cockpit lineage" in check.text
    assert only_dri(SPEC, risky, code())


def test_a_dirty_tree_that_was_launched_before_only_warns() -> None:
    dirty = code(dirty=("model.py",), patch_id="p1")
    prior = Snapshot(
        launch_id="toy-i001", at=1.0, action="relaunch", command=("x",), sha=SHA, branch="main",
        patch_id="p1", dirty=("model.py",),
    )  # fmt: skip
    assert checked(dirty, SAME, prior) == {"C-15": "warn"}
    other = prior.model_copy(update={"patch_id": "p2"})
    assert checked(dirty, SAME, other) == {"C-15": "block"}
    unknown = SAME.model_copy(update={"untracked": ("new.py",)})
    assert checked(dirty, unknown, prior) == {"C-15": "block"}


def test_unpushed_commits_block_unless_they_only_touch_what_is_ignored() -> None:
    ahead = SAME.model_copy(update={"unpushed": ("model.py",)})
    assert checked(code(unpushed=2), ahead)["C-15:unpushed"] == "block"
    harmless = SAME.model_copy(update={"unpushed": ("README.md",)})
    assert checked(code(unpushed=2), harmless)["C-15:unpushed"] == "pass"
    alone = SAME.model_copy(update={"unpushed": None})
    assert checked(code(unpushed=None), alone)["C-15:unpushed"] == "warn"


def test_another_branch_counts_only_with_files_that_count() -> None:
    prior = Snapshot(launch_id="i", at=1.0, action="launch", command=("x",), branch="hero", sha=SHA)
    changed = SAME.model_copy(update={"committed": ("model.py",)})
    assert checked(code(), changed, prior)["C-15:branch"] == "block"
    assert "C-15:branch" not in checked(code(), SAME, prior)


def test_what_cannot_be_told_is_said() -> None:
    gone = Changes(base="b" * 40, source="x", trouble="the recorded commit bbb is not in /r")
    run = run_spec(code=SPEC)
    check = by_id(lineage(context(run, code=code()), gone, None), "C-15")
    assert soft(check) and "is not in /r" in check.text
    assert soft(by_id(lineage(context(run, code=blind()), SAME, None), "C-15"))
    plain = by_id(lineage(context(run_spec(), code=blind()), SAME, None), "C-15")
    assert (plain.level.value, plain.basis.value) == ("warn", "inferred")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def test_git_tells_what_changed_whatever_the_names(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "model.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    base = git(tmp_path, "rev-parse", "HEAD")
    odd = ("a b.py", "--output=x", "né.md", "x\ny.md", "\x1b[31m.py")
    for name in odd:
        (tmp_path / name).write_text("x")
    git(tmp_path, "mv", "model.py", "moved.py")
    git(tmp_path, "add", "--", ".")
    git(tmp_path, "commit", "-qm", "two")
    (tmp_path / "new.py").write_text("x")
    now = CodeValue(sha=git(tmp_path, "rev-parse", "HEAD"), branch="main", unpushed=None)
    found = await changes_since(place_of(str(tmp_path)), now, base, "the logbook")
    assert found.committed is not None
    assert {"a b.py", "--output=x", "né.md", "model.py", "moved.py"} <= set(found.committed)
    assert all(name.isprintable() for name in found.committed)
    assert not any(touches(name, SPEC) is Touches.IGNORE for name in found.committed if "y" in name)
    assert found.untracked == ("new.py",)
    assert (await changes_since(place_of(str(tmp_path)), now, now.sha, "x")).committed == ()
    for wrong in ("f" * 40, "--exec=x", "HEAD"):
        lost = await changes_since(place_of(str(tmp_path)), now, wrong, "x")
        assert lost.committed is None and lost.trouble


async def test_a_detached_head_that_a_remote_has_is_published(tmp_path: Path) -> None:
    """Nobody made a branch of it; a warning said that nobody else can get the commit."""
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "here")
    here = tmp_path / "here"
    for name in ("one.py", "two.py"):
        (here / name).write_text("x")
        git(here, "add", ".")
        git(here, "commit", "-qm", name)
    git(here, "push", "-q", "origin", "HEAD~1:refs/heads/main")
    for back, published in ((1, True), (0, False)):
        git(here, "checkout", "-q", "--detach", f"main~{back}" if back else "main")
        now = code(sha=git(here, "rev-parse", "HEAD"), branch=None, unpushed=None)
        changes = await changes_since(place_of(str(here)), now, now.sha, "the logbook")
        run = run_spec(code=SPEC)
        found = [
            each
            for each in lineage(context(run, code=now), changes, None)
            if each.id == "C-15:unpushed"
        ]
        warned = (
            [] if published else ["HEAD is detached: no remote that is known here has this commit"]
        )
        assert [each.text for each in found] == warned
