"""One holder at a time, on however many machines; nobody is taken over by a clock's word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.store.ownership import Holder, this_holder
from cockpit.store.shared_lock import KEPT, LOST, Found, HeldError, Hold, SharedLock


class Time:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


def machine(name: str, pid: int = 7) -> Callable[[], Holder]:
    return lambda: Holder(host=name, pid=pid, machine=name, boot=f"boot of {name}")


def lock(folder: Path, name: str, time: Time | None = None) -> SharedLock:
    time = time or Time()
    return SharedLock(
        folder / "locks",
        "store.sqlite",
        holder=machine(name),
        monotonic=lambda: time.now,
        sleep=time.sleep,
    )


def still(hold: Hold) -> None:
    """Make a holder give no more signs of life, as a machine does that has lost its power."""
    hold._over.set()


def test_one_after_the_other(tmp_path: Path) -> None:
    one, two = lock(tmp_path, "login1"), lock(tmp_path, "login2")
    hold = one.acquire(0.0)
    with pytest.raises(HeldError, match="login1, pid 7 holds it"):
        two.acquire(0.0)
    assert one.holds(hold)
    hold.free()
    after = two.acquire(0.0)
    assert after.number == hold.number + 1
    assert not after.fenced
    after.free()


def test_a_holder_that_moves_is_never_taken_over(tmp_path: Path) -> None:
    time = Time()
    hold = lock(tmp_path, "login1").acquire(0.0)
    time.meanwhile = lambda: hold._write("held")
    with pytest.raises(HeldError):
        lock(tmp_path, "login2", time).acquire(20 * LOST)
    hold.free()


def test_one_that_is_still_is_taken_over_after_having_been_looked_at(tmp_path: Path) -> None:
    time = Time()
    one = lock(tmp_path, "login1")
    hold = one.acquire(0.0)
    still(hold)
    two = lock(tmp_path, "login2", time)
    with pytest.raises(HeldError, match="no heartbeat for"):
        two.acquire(LOST - 1.0)
    taken = two.acquire(LOST)
    assert taken.fenced
    assert taken.former.number == hold.number
    assert not one.holds(hold)
    hold.free()  # it wakes up: what it frees counts no more
    assert two.holds(taken)
    with pytest.raises(HeldError, match="login2"):
        lock(tmp_path, "login3").acquire(0.0)
    taken.free()


def test_time_in_which_nobody_looked_does_not_count(tmp_path: Path) -> None:
    time = Time()
    still(lock(tmp_path, "login1").acquire(0.0))
    two = lock(tmp_path, "login2", time)
    for _ in range(3):
        time.now += 1000.0
        with pytest.raises(HeldError):
            two.acquire(0.0)


def test_a_dead_process_of_this_boot_is_replaced_at_once(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        " from cockpit.store.shared_lock import SharedLock;"
        " SharedLock(Path(sys.argv[1]), 'f').acquire(0.0); os._exit(9)"
    )
    folder = tmp_path / "locks"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    hold = SharedLock(folder, "f").acquire(0.0)
    assert hold.former.held
    assert not hold.fenced
    hold.free()


def test_another_boot_of_this_machine_is_no_proof(tmp_path: Path) -> None:
    """Two machines made from one image may share name and id; no boot is another's."""
    twin = this_holder().model_copy(update={"boot": "another"})
    hold = SharedLock(tmp_path / "l", "f", holder=lambda: twin).acquire(0.0)
    with pytest.raises(HeldError):
        SharedLock(tmp_path / "l", "f").acquire(0.0)
    hold.free()


def test_whoever_slept_cannot_use_a_number_again(tmp_path: Path) -> None:
    one, two = lock(tmp_path, "login1"), lock(tmp_path, "login2")
    one.acquire(0.0).free()
    old = one.look()
    for _ in range(3 * KEPT):
        two.acquire(0.0).free()
    assert one._take(old, fenced=False) is None
    hold = one.acquire(0.0)
    assert hold.number == old.number + 3 * KEPT + 1
    assert len(list((tmp_path / "locks").iterdir())) <= KEPT + 2
    hold.free()


def test_whoever_waits_gets_it_before_the_former_holder_again(tmp_path: Path) -> None:
    busy, time = Time(), Time()
    one, two = lock(tmp_path, "login1", busy), lock(tmp_path, "login2", time)
    hold = one.acquire(0.0)
    got: list[Hold | None] = []

    def use_again() -> None:
        nonlocal hold
        if not got:
            hold.free()
            hold = one.acquire(0.0)

    busy.meanwhile = lambda: got.append(two._take(two.look(), fenced=False))
    time.meanwhile = use_again
    with pytest.raises(HeldError, match="login2"):
        two.acquire(1.0)
    assert got[0] is not None
    assert got[0].said.holder.host == "login2"
    assert not [each for each in (tmp_path / "locks").iterdir() if each.name.startswith("waits")]


def test_one_that_died_waiting_is_not_given_way_for_ever(tmp_path: Path) -> None:
    time = Time()
    one = lock(tmp_path, "login1", time)
    one.acquire(0.0).free()
    (tmp_path / "locks" / "waits-dead").touch()
    for _ in range(20):
        one.acquire(0.0).free()
    assert time.now < 2.0


def test_what_is_guarded_passes_on(tmp_path: Path) -> None:
    hold = lock(tmp_path, "login1").acquire(0.0)
    hold.guard("store.sqlite.g1")
    hold.free()
    hold = lock(tmp_path, "login2").acquire(0.0)
    assert hold.said.file == "store.sqlite.g1"
    still(hold)
    (tmp_path / "locks" / f"{hold.number:012d}").write_bytes(b"held 000")  # torn by a power cut
    after = lock(tmp_path, "login3", Time()).acquire(3 * LOST)
    assert after.fenced
    assert after.said.file == "store.sqlite.g1"
    after.free()


@pytest.mark.parametrize("answer", ["no links", "lost"])
def test_a_file_system_without_links_or_that_loses_an_answer(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: Path, place: Path) -> None:
        if answer == "lost":
            real(source, place)
            raise FileExistsError(17, "File exists")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    hold = lock(tmp_path, "login1").acquire(0.0)
    with pytest.raises(HeldError):
        lock(tmp_path, "login2").acquire(0.0)
    hold.free()
    lock(tmp_path, "login2").acquire(0.0).free()


def test_a_folder_that_was_emptied_is_begun_anew(tmp_path: Path) -> None:
    one = lock(tmp_path, "login1")
    for _ in range(3):
        one.acquire(0.0).free()
    for each in (tmp_path / "locks").iterdir():
        each.unlink()
    assert one.look() == Found(0)
    one.acquire(0.0).free()
