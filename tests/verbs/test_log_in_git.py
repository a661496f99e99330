"""What `cockpit log` does in repositories as people have them; counted at git itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import RefSeats
from cockpit.store.journal import Holder
from tests.records.remotes import hook
from tests.verbs.acting_run import World, git

BOOK = "toy.md"
START = "# toy\n\n## Event Log\n\n### 2026-01-01 00:00 UTC - start\n- Status: RUNNING\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run whose logbook is committed and pushed."""
    world = World(tmp_path)
    world.add("toy")
    monkeypatch.chdir(tmp_path)
    records = tmp_path / "records"
    (records / BOOK).write_text(START)
    _commit(records, "start")
    git(records, "push", "-q")
    return world


def _commit(folder: Path, message: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-verify", "-m", message)


def _log(world: World, title: str) -> tuple[int, str]:
    """Run the verb; return its exit code and the words of its one step."""
    code, document, _ = world.told("log", "toy", "--event", title, "--confirm", "log toy")
    said = [step["note"] or "" for step in document["steps"]]
    return code, "\n".join([*said, document["records"], document["message"]])


def _remote(world: World, name: str = "records.git") -> str:
    return git(world.folder / name, "show", f"main:{BOOK}")


def unsigned(records: Path) -> None:
    """Signing is on in the short form of a boolean, and no key is there."""
    with (records / ".git/config").open("a") as file:
        file.write("[commit]\n\tgpgSign\n[gpg]\n\tprogram = false\n")


def no_ssh_key(records: Path) -> None:
    git(records, "config", "commit.gpgSign", "true")
    git(records, "config", "gpg.format", "ssh")
    git(records, "config", "user.signingKey", str(records / "gone.pub"))


def no_message(records: Path) -> None:
    hook(records / ".git", "prepare-commit-msg", ': > "$1"')


def no_filter(records: Path) -> None:
    (records / ".git/info/attributes").write_text("*.md filter=gone\n")
    git(records, "config", "filter.gone.clean", "no-such-filter")
    git(records, "config", "filter.gone.required", "true")


def strict_line_ends(records: Path) -> None:
    git(records, "config", "core.autocrlf", "true")
    git(records, "config", "core.safecrlf", "true")


def damaged_index(records: Path) -> None:
    (records / ".git/index").write_bytes(b"DIRC")


def lost_head(records: Path) -> None:
    (records / ".git/HEAD").write_text("")


REFUSED: dict[Callable[[Path], None], str] = {
    unsigned: "could not be signed: commit once by hand",
    no_ssh_key: "could not be signed: commit once by hand",
    no_message: "the commit-msg hook left no message: commit by hand",
    no_filter: "a filter of .gitattributes failed: install or unlock what it needs",
    strict_line_ends: "line ends (core.safecrlf): make them alike",
    damaged_index: "git's own files are damaged: git fsck",
    lost_head: "for no repository: repair it, or let this user read it",
}


@pytest.mark.parametrize("way", REFUSED, ids=lambda way: way.__name__)
def test_what_git_refuses_is_one_line_with_its_remedy(
    world: World, way: Callable[[Path], None]
) -> None:
    records = world.folder / "records"
    before = git(records, "rev-parse", "main")
    way(records)
    code, said = _log(world, "later")
    assert (code, REFUSED[way] in said) == (6, True), said
    assert world.book("toy").count("- later") == 1
    assert git(world.folder / "records.git", "rev-parse", "main") == before
    if way is not lost_head:
        assert git(records, "rev-parse", "main") == before


def test_a_work_tree_whose_repository_is_gone_has_not_lost_its_history_silently(
    world: World,
) -> None:
    git(world.folder / "records", "worktree", "add", "-q", "../side", "-b", "side")
    shutil.rmtree(world.folder / "records/.git/worktrees")
    world.config.write_text(world.config.read_text().replace("records/toy.md", "side/toy.md"))
    code, said = _log(world, "later")
    assert code == 6 and "for no repository" in said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (START.encode("utf-16"), "is not UTF-8 text"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    ],
)
def test_a_file_that_is_no_text_is_left_as_it_is(world: World, data: bytes, why: str) -> None:
    book = world.folder / "records" / BOOK
    book.write_bytes(data)
    code, said = _log(world, "later")
    assert (code, why in said) == (6, True), said
    assert book.read_bytes() == data


def test_what_a_message_hook_stages_stays_out_of_the_commit(world: World) -> None:
    records = world.folder / "records"
    (records / "private.txt").write_text("mine\n")
    hook(records / ".git", "prepare-commit-msg", "git add -A")
    assert _log(world, "later")[0] == 0
    assert git(records, "show", "--name-only", "--format=", "main") == f"{BOOK}\n"
    assert git(records, "status", "--porcelain") == "?? private.txt\n"


def test_two_machines_entries_pass_a_filter_whole(world: World) -> None:
    """What git keeps is not the text: merged as it stands there, both entries would be lost."""
    records, bob = world.folder / "records", world.folder / "bob"
    for name, program in (("clean", "base64"), ("smudge", "base64 -d")):
        git(records, "config", "--global", f"filter.coded.{name}", program)
    (records / ".gitattributes").write_text("*.md filter=coded\n")
    git(records, "add", "--renormalize", ".")
    _commit(records, "coded")
    git(records, "push", "-q")
    git(world.folder, "clone", "-q", "records.git", "bob")
    with (bob / BOOK).open("a") as file:
        file.write("\n### 2026-01-02 00:00 UTC - of bob\n- Status: DONE\n")
    _commit(bob, "bob")
    git(bob, "push", "-q")
    code, said = _log(world, "of ada")
    assert code == 0, said
    git(bob, "pull", "-q")
    for text in ((bob / BOOK).read_text(), world.book("toy")):
        assert [text.count(f"- of {name}\n") for name in ("bob", "ada")] == [1, 1]
        assert text.startswith(START)
    assert git(records, "status", "--porcelain") == ""


def test_what_was_taken_out_of_the_remote_is_not_brought_back(world: World) -> None:
    """Somebody rewrote the branch to be rid of an entry that should never have been published."""
    assert _log(world, "password")[0] == 0
    records, bob = world.folder / "records", world.folder / "bob"
    git(world.folder, "clone", "-q", "records.git", "bob")
    git(bob, "reset", "-q", "--hard", "HEAD~1")
    (bob / "README.md").write_text("rewritten\n")
    _commit(bob, "rewritten")
    git(bob, "push", "-q", "--force")
    code, said = _log(world, "later")
    assert code == 6 and "the upstream was rewritten" in said and "git pull --rebase" in said
    assert "password" not in _remote(world) and "- later" in world.book("toy")
    git(records, "reset", "-q", "--hard", "origin/main")
    code, said = _log(world, "last")
    assert code == 0 and "password" not in _remote(world), said
    assert _remote(world).count("- last\n") == 1


async def test_a_lease_is_asked_for_where_it_was_put(world: World) -> None:
    """Another machine's lease lies where both push to, and not where they fetch from."""
    for name in ("records", "bob"):
        if name == "bob":
            git(world.folder, "clone", "-q", "records.git", "bob")
        git(world.folder / name, "remote", "set-url", "--push", "origin", "../shared.git")
    git(world.folder, "clone", "-q", "--bare", "records.git", "shared.git")
    holder = Holder(host="there", pid=9, boot="other", ticks=5)
    bob = Lease(SystemClock(), RefSeats(60.0), lambda: "bob", holder, lambda held: None)
    spec = RunSpec(name="toy", records=RecordsSpec(logbook=str(world.folder / "bob" / BOOK)))
    assert (await bob.take(spec, "toy-i001", "launch", over=False)).level == "pass"
    assert (await bob.survey(spec)).text == "the lease on origin is ours"
    done = await asyncio.to_thread(world.said, "launch", "toy")
    assert done.returncode == 4 and "held by bob on there (pid 9)" in done.stdout, done.stdout


def test_an_upstream_that_was_set_back_is_not_pushed_over(world: World) -> None:
    assert _log(world, "password")[0] == 0
    records = world.folder / "records"
    before = git(records, "rev-parse", "main~1").strip()
    git(world.folder / "records.git", "update-ref", "refs/heads/main", before)
    code, said = _log(world, "later")
    assert code == 6 and "the upstream was rewritten" in said, said
    assert "password" not in _remote(world) and "- later" in world.book("toy")


def test_an_entry_that_was_taken_out_by_a_commit_is_not_brought_back(world: World) -> None:
    assert _log(world, "password")[0] == 0
    bob = world.folder / "bob"
    git(world.folder / "records", "push", "-q")
    git(world.folder, "clone", "-q", "records.git", "bob")
    (bob / BOOK).write_text(START)
    _commit(bob, "out with it")
    git(bob, "push", "-q")
    code, said = _log(world, "later")
    assert "password" not in _remote(world), said
    assert code == 0 and _remote(world).count("- later\n") == 1, said
