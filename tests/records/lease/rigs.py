"""The places where a lease can lie, each with the faults of its own kind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.here import call
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import on_host
from cockpit.model.run import RunSpec
from cockpit.records.git.repository import Repository
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import (
    BELOW,
    FolderSeat,
    RefSeats,
    RootSeats,
    Seat,
    Seats,
    lease_ref,
)
from cockpit.records.lease.state import this_holder
from cockpit.runtime import buckets
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.store.journal import Holder
from tests.records.lease.racer import run_at
from tests.records.remotes import clone, git, push_twice, second_place, shared
from tests.sources.checkpoints.store_server import Handler, ObjectStore
from tests.warm import Warm

REPO = Path(__file__).resolve().parents[3]
NOW = 1_773_219_300.0
DEAD = 77
BUCKET = "hero"


def holder_of(host: str = "here", pid: int = 1, boot: str | None = None) -> Holder:
    return Holder(host=host, pid=pid, boot=boot or f"boot-{host}", ticks=5)


def dead() -> Holder:
    """Return a process of this machine that lived and lives no more."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    process.communicate()
    return this_holder().model_copy(update={"pid": process.pid, "ticks": ticks})


@dataclass
class Losses:
    """The next answers to a swap that are lost, of which the swap was done or was not."""

    left: int = 0
    done: bool = False

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


@dataclass
class Rig:
    """Runs whose leases lie at one kind of place, under an address or in a folder of clones."""

    kind: str
    where: str
    losses: Losses = field(default_factory=Losses)
    store: ObjectStore | None = None
    needed: bool = True

    @property
    def remembers(self) -> bool:
        """Whether a lease that is given back still says what it was held for."""
        return self.kind not in ("here", "host")

    def run(self, name: str = "toy", clone_of: str = "ada") -> RunSpec:
        """Return a run; ``clone_of``: whose clone of the logbook it has, where that matters."""
        return run_at(*self.line(name, clone_of))

    def line(self, name: str, clone_of: str = "ada") -> tuple[str, str, str]:
        if self.kind == "ref":
            return "ref", name, f"{self.where}/{clone_of}"
        return "root", name, f"{self.where}/{name}"

    def lease(self, host: str = "here", pid: int = 1, *, boot: str | None = None) -> Lease:
        """Return the lease as a process of a host has it, which sees who lives on that host."""

        def alive(other: Holder) -> bool | None:
            return None if other.host != host else other.pid != DEAD

        holder = holder_of(host, pid, boot)
        return Lease(
            FixedClock(NOW), self.seats(), lambda: f"op{pid}", holder, alive, needed=self.needed
        )

    def real_lease(self, holder: Holder | None = None) -> Lease:
        """Return the lease as this very process has it, or one that was."""
        return Lease(FixedClock(NOW), self.seats(), lambda: "ada", holder)

    def seats(self) -> Seats:
        if self.kind == "ref":
            return RefSeats(60.0)
        if self.remembers:
            return RootSeats(FixedClock(NOW))

        async def lossy(host: str | None, what: str, function: str, **more: Any) -> Any:
            if function == "swap_claim" and self.losses.take():
                if self.losses.done:
                    await call(host, what, function, **more)
                raise RemoteError(ErrorKind.TIMEOUT, f"{host}: no answer", sent=True)
            return await call(host, what, function, **more)

        async def seat(run: RunSpec) -> Seat:
            assert run.output_root is not None
            return FolderSeat(run.name, run.output_root, lossy)

        return seat

    def lose(self, answers: int, *, done: bool, patch: pytest.MonkeyPatch) -> None:
        """Lose the answers to the next swaps; each of them was done, or was not."""
        self.losses.left, self.losses.done = answers, done
        if self.kind == "ref":
            patch.setattr(Repository, "network", _lossy_network(self.losses))
        if self.store is not None:
            patch.setattr(buckets, "RETRIES", 0)
            self.store.fault = self._drops

    def _drops(self, handler: Handler) -> bool:
        if handler.command != "PUT" or not self.losses.take():
            return False
        if self.losses.done:
            bucket, _, key = handler.path.partition("?")[0].lstrip("/").partition("/")
            handler.take(bucket, key, handler.body, answers=False)
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True

    def text(self, run: RunSpec) -> str:
        """Return what lies there; nothing where nothing does."""
        if self.kind == "ref":
            bare = Path(self.where) / "remote.git"
            return git(bare, "log", "-1", "--format=%B", lease_ref(run.name), ok=False).strip()
        if self.store is not None:
            found = self.store.buckets[BUCKET].get(f"runs/{run.name}/{BELOW}")
            return "" if found is None else found[0].decode("latin-1")
        assert run.output_root is not None
        file = Path(run.output_root.path) / BELOW
        return file.read_text("latin-1") if file.exists() else ""

    def plant(self, run: RunSpec, text: str) -> None:
        """Put something there in a way that is not ours."""
        if self.kind == "ref":
            tree = git(Path(self.where) / "ada", "hash-object", "-w", "-t", "tree", "/dev/null")
            words = ("commit-tree", tree.strip(), "-m", text or " ")
            oid = git(Path(self.where) / "ada", *words).strip()
            git(Path(self.where) / "ada", "push", "-q", "origin", f"{oid}:{lease_ref(run.name)}")
            return
        if self.store is not None:
            self.store.put(BUCKET, f"runs/{run.name}/{BELOW}", text.encode("latin-1"))
            return
        assert run.output_root is not None
        file = Path(run.output_root.path) / BELOW
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="latin-1")


def _lossy_network(losses: Losses) -> Any:
    plain = Repository.network

    async def network(self: Repository, remote: str, *words: str, **more: Any) -> Completed:
        if "push" not in words or not losses.take():
            return await plain(self, remote, *words, **more)
        if losses.done:
            await plain(self, remote, *words, **more)
        return Completed(-9, b"", b"", timed_out=True)

    return network


class Racer:
    """A process that takes leases of a rig."""

    def __init__(self, rig: Rig, *halt: str) -> None:
        self.rig = rig
        words = ("tests.records.lease.racer", rig.line("")[0], *halt)
        self.process = Warm(*words, stdin=subprocess.PIPE, stderr=None)

    def begin(self, name: str, clone_of: str = "ada") -> None:
        self.say(json.dumps(self.rig.line(name, clone_of)[1:]))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def folder_rig(kind: str, folder: Path, host: str | None = None) -> Rig:
    return Rig(kind, str(on_host(host, str(folder))))


def ref_rig(folder: Path, *, twice: bool = False) -> Rig:
    clones = shared(folder), clone(folder, "bob")
    if twice:
        second_place(folder)
        for each in clones:
            push_twice(each)
    return Rig("ref", str(folder), needed=False)


def racers(rig: Rig, *halts: tuple[str, ...]) -> Iterator[list[Racer]]:
    """Give processes that are ready; they are ended with the test."""
    made = [Racer(rig, *halt) for halt in halts]
    try:
        assert all(each.answer() == "ready" for each in made)
        yield made
    finally:
        for each in made:
            each.end()
