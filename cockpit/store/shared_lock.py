"""A lock that holds between machines which mount one folder, whatever its file system's locks do.

In the folder lie numbered files; the highest names the holder, and whether it is held. Taking it
puts the next number there, whole, and only if there is none (a link to a finished file, which also
holds on network file systems). No name is used twice: whoever was taken over and wakes up can only
touch what counts no more. A living holder changes its file every second. One whose file does not
move is taken over, by what this process itself has seen over time: never by two machines' clocks.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.store.ownership import Holder, lives, this_holder
from cockpit.store.patience import LOST as LOST
from cockpit.store.patience import HeldError as HeldError

BEAT: Final = 1.0
"""Seconds between two signs of life of a holder."""
STEP: Final = 1.5
"""What one look may add to them (s): while nobody looks, or the server is away, none are seen."""
LOOKS: Final = (0.005, 0.1)
WAITS: Final = "waits-"
WAY: Final = 0.2
"""Seconds for which whoever has just had it gives way to those who wait."""
GIVE_WAY: Final = 5
"""How often in a row to one of them."""
TRIES: Final = 100
KEPT: Final = 16
"""Earlier numbers that stay, so that nobody who fell asleep can use one of them again."""
SIZE: Final = 2048
"""Bytes of every file: its size never changes, for that is what other machines learn last."""
MOST: Final = 8192
HELD, FREE = "held", "free"


class Said(Frozen):
    """What a holder says of itself, and which file it guards at this moment."""

    holder: Holder
    nonce: str
    file: str


class Found(NamedTuple):
    """The lock as it stands; ``said`` is ``None`` before the first holder, and where it is torn."""

    number: int
    held: bool = False
    said: Said | None = None
    raw: bytes = b""


class Hold:
    """The lock while it is held. ``file`` is the guarded file's name, ``former`` whom it replaced.

    ``fenced``: the former holder may still live, and may write to what it had open.
    """

    def __init__(
        self, number: int, said: Said, handle: int, former: Found, *, fenced: bool
    ) -> None:
        self.number = number
        self.said = said
        self.former = former
        self.fenced = fenced
        self._handle = handle
        self._beats = 0
        self._writing = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._beat, name="lock's heartbeat", daemon=True).start()

    def guard(self, file: str) -> None:
        """Say, so that it lasts, that another file is the guarded one from now on."""
        self.said = self.said.model_copy(update={"file": file})
        self._write(HELD)

    def free(self) -> None:
        """Let go; the file stays as the highest number."""
        self._over.set()
        try:
            self._write(FREE)
        finally:
            os.close(self._handle)

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with suppress(OSError):
                self._write(HELD)

    def _write(self, state: str) -> None:
        with self._writing:
            if state == HELD and self._over.is_set():
                return
            self._beats += 1
            text = _text(state, self._beats, self.said)
            os.pwrite(self._handle, text, 0)
            if state == HELD:  # letting go is seen when the file is closed
                os.fsync(self._handle)


class SharedLock:
    """The lock in ``folder``, which is made. ``file`` is what the first holder guards.

    Every method raises ``OSError`` where the folder cannot be used. One thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        file: str,
        *,
        holder: Callable[[], Holder] = this_holder,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = folder
        self._file = file
        self._holder = holder
        self._monotonic = monotonic
        self._sleep = sleep
        self._known = 0
        self._mine = 0
        self._me = f"{WAITS}{secrets.token_hex(8)}"
        self._waits = False
        self._gave: dict[str, int] = {}
        self._watched = Found(-1)
        self._quiet = 0.0
        self._looked = 0.0

    def acquire(self, wait: float) -> Hold:
        """Take the lock within ``wait`` seconds; raises ``HeldError``."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._give_way()
        until = self._monotonic() + wait
        try:
            hold = self._try(until)
        finally:
            if self._waits:
                self._waits = False
                (self.folder / self._me).unlink(missing_ok=True)
        self._mine = hold.number
        return hold

    def _try(self, until: float) -> Hold:
        pause = LOOKS[0]
        while True:
            found = self.look(stirs=True)
            sure = self.is_free(found)
            lost = not sure and self._lost(found)
            hold = self._take(found, fenced=lost) if sure or lost else None
            if hold is not None:
                return hold
            if self._monotonic() >= until:
                raise HeldError(self.who(found))
            if not self._waits:
                self._waits = True
                os.close(_whole(self.folder / self._me, b""))
            self._sleep(pause)
            pause = min(LOOKS[1], pause * 2)

    def _give_way(self) -> None:
        """Let others have it who wait, if it was this process that had it last."""
        if max(self._numbers(), default=0) != self._mine:
            self._gave.clear()
            return
        names = {each.name for each in self.folder.iterdir() if each.name.startswith(WAITS)}
        for name in names:
            self._gave[name] = self._gave.get(name, 0) + 1
            if self._gave[name] > GIVE_WAY:  # it has died waiting
                (self.folder / name).unlink(missing_ok=True)
        if names:
            self._sleep(WAY)

    def look(self, *, stirs: bool = False) -> Found:
        """Return the lock as it stands; changes nothing, unless it may stir the folder."""
        for _ in range(TRIES):
            number = max([self._known, *self._numbers()])
            raw = self._read(number)
            if raw is None and number == 0:
                return Found(0)
            if raw is not None:
                return self._onward(number, raw)
            self._known = 0  # the folder was emptied, or others have moved on
            if stirs:
                self._stir()
            else:
                self._sleep(LOOKS[1])
        raise OSError(errno.EAGAIN, "its lock changes too fast", str(self.folder))

    def _stir(self) -> None:
        """Change the folder: a machine that has done so itself lists it anew."""
        place = self.folder / f".stir.{self._me}"
        with suppress(OSError):
            os.close(_whole(place, b""))
        with suppress(OSError):
            place.unlink()

    def _onward(self, number: int, raw: bytes) -> Found:
        """Return the highest from ``number`` on: a listing may be an old one."""
        while (after := self._read(number + 1)) is not None:
            raw, number = after, number + 1
        self._known = number
        return _parsed(number, raw)

    def holds(self, hold: Hold) -> bool:
        """Return whether nobody has taken over."""
        return max(self._numbers(), default=0) == hold.number and (
            self._read(hold.number + 1) is None
        )

    def is_free(self, found: Found) -> bool:
        """Return whether nobody holds it for sure: let go, or its process is known to be dead."""
        if not found.raw or (found.said is not None and not found.held):
            return True
        if found.said is None or found.said.holder.boot != self._holder().boot:
            return False  # another boot of this very machine, or one that only looks like it
        return lives(found.said.holder) is False

    def who(self, found: Found) -> str:
        """Return who holds it, in words."""
        who = "an unnamed holder" if found.said is None else found.said.holder.label
        quiet = self._quiet if found.raw == self._watched.raw else 0.0
        return f"{who} holds it" + (f", no heartbeat for {quiet:.0f} s" * (quiet >= 2))

    def _lost(self, found: Found) -> bool:
        """Return whether the holder's file has not moved while this process looked on."""
        now = self._monotonic()
        if found != self._watched:
            self._watched, self._quiet = found, 0.0
        else:
            self._quiet += min(STEP, now - self._looked)
        self._looked = now
        return self._quiet >= LOST

    def _take(self, found: Found, *, fenced: bool) -> Hold | None:
        """Put the next number there; ``None`` if somebody else was faster."""
        file = self._guarded(found)
        said = Said(holder=self._holder(), nonce=secrets.token_hex(8), file=file)
        number = found.number + 1
        handle = self._put(number, said)
        if handle is None:
            return None
        if max(self._numbers(), default=0) > number:  # we slept: the others are far ahead
            os.close(handle)
            return None
        self._known = number
        self._clear(number - KEPT)
        return Hold(number, said, handle, found, fenced=fenced)

    def _guarded(self, found: Found) -> str:
        """Return which file is guarded; a number that was torn when written changed nothing."""
        if found.said is not None:
            return found.said.file
        for number in sorted(self._numbers(), reverse=True):
            raw = self._read(number)
            said = None if raw is None else _parsed(number, raw).said
            if said is not None:
                return said.file
        return self._file

    def _put(self, number: int, said: Said) -> int | None:
        place = self._place(number)
        fresh = self.folder / f".{number}.{said.nonce}"
        handle = _whole(fresh, _text(HELD, 0, said))
        try:
            os.link(fresh, place)
        except OSError as error:
            os.close(handle)
            if self._is_mine(number, said):  # a lost answer of a network file system
                return os.open(place, os.O_RDWR | os.O_CLOEXEC)
            if isinstance(error, FileExistsError):
                return None
            return _plainly(place, _text(HELD, 0, said))  # no links there
        finally:
            with suppress(OSError):
                fresh.unlink()
        return handle

    def _is_mine(self, number: int, said: Said) -> bool:
        raw = self._read(number)
        return raw is not None and _parsed(number, raw).said == said

    def _numbers(self) -> list[int]:
        try:
            return [int(each.name) for each in self.folder.iterdir() if each.name.isdecimal()]
        except FileNotFoundError:
            return []

    def _read(self, number: int) -> bytes | None:
        try:
            handle = os.open(self._place(number), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            return os.read(handle, MOST) or b"?"
        finally:
            os.close(handle)

    def _place(self, number: int) -> Path:
        return self.folder / f"{number:012d}"

    def _clear(self, below: int) -> None:
        """Remove what lies far behind; names are kept as they are, not looked into."""
        for each in self.folder.iterdir():
            number = each.name.lstrip(".").partition(".")[0]
            if number.isdecimal() and int(number) < below:
                with suppress(OSError):
                    each.unlink()


def _text(state: str, beats: int, said: Said) -> bytes:
    text = f"{state} {beats:012d}\n{json.dumps(said.model_dump(mode='python'))}"
    return text.encode().ljust(SIZE - 1) + b"\n"


def _parsed(number: int, raw: bytes) -> Found:
    first, _, rest = raw.partition(b"\n")
    try:
        said = Said.model_validate(json.loads(rest))
    except (ValueError, ValidationError):
        return Found(number, True, None, raw)
    return Found(number, first.split(b" ")[0] != FREE.encode(), said, raw)


def _whole(place: Path, text: bytes) -> int:
    """Write a new file and have the disk take it; return its open descriptor."""
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, text)
        os.fsync(handle)
    except OSError:
        os.close(handle)
        raise
    return handle


def _plainly(place: Path, text: bytes) -> int | None:
    try:
        return _whole(place, text)
    except FileExistsError:
        return None
