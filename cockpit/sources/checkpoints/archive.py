"""What a checkpoint that is one file tells of itself: whether it is whole, and its step.

``torch.save`` writes a zip: a directory at its end (a file that is cut off has none), a pickle
``<name>/data.pkl`` and the arrays. Before 1.6, and on demand still, it wrote four pickles (a magic
number, a version, the system, the checkpoint) and then the arrays: nothing there tells a file that
is cut off. Only directory and pickles are read, in a bounded number of bytes, and no pickle is ever
run. Blocking.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Mapping
from io import SEEK_CUR, SEEK_END, BufferedIOBase, BytesIO
from typing import Final, NamedTuple

from cockpit.sources.checkpoints.pickled import Blank, NotReadableError, next_of, top_of

PICKLE: Final = 8 << 20
"""Bytes of the pickle that are read at most."""
DIRECTORY: Final = 4 << 20
"""Bytes of the zip's directory that are read at most."""
BIGGEST: Final = 1 << 62
STEPS: Final = (
    *("global_step", "iter_num", "step", "iteration", "iter", "num_updates"),
    *("current_step", "train_step", "training_step", "total_steps_done", "steps_done"),
    *("n_iter", "it", "steps"),
)
"""Names under which trainers keep the step, the most telling first."""
INNER: Final = (
    *("trainer", "trainer_state", "train_state", "training_state", "state"),
    *("extra_state", "progress", "meta", "metadata", "checkpoint"),
)
"""Parts of a checkpoint in which a step may lie one level deeper."""


class ArchiveSays(NamedTuple):
    """``whole``: the zip has its directory and its pickle. ``problem``: why there is no step.

    ``parts`` is into how many files the optimizer was cut of which this is one (DeepSpeed),
    ``best`` the path of the best checkpoint by the trainer's own measure (Lightning).
    """

    whole: bool
    step: int | None = None
    epoch: int | None = None
    problem: str | None = None
    parts: int | None = None
    best: str | None = None


Pread = Callable[[int, int], bytes]
"""Returns so many bytes from a place on, fewer at the file's end; raises ``OSError``."""


def read_archive(fd: int, size: int) -> ArchiveSays:
    """Return what the file says; never raises."""
    return archive_says(lambda count, at: os.pread(fd, count, at), size)


def archive_says(pread: Pread, size: int) -> ArchiveSays:
    """Return what a file says that is read by ``pread``, wherever it lies; never raises."""
    import zipfile  # most layouts have none

    try:
        with zipfile.ZipFile(_Window(pread, size)) as archive:
            names = archive.infolist()
            pickles = [each for each in names if each.filename.rpartition("/")[2] == "data.pkl"]
            if not pickles:
                return ArchiveSays(False, problem="it has no data.pkl")
            first = min(pickles, key=lambda each: each.filename.count("/"))
            with archive.open(first) as file:
                data = file.read(PICKLE + 1)
    except (zipfile.BadZipFile, _TooMuchError, EOFError, struct.error, NotImplementedError) as e:
        return ArchiveSays(False, problem=f"it is not a readable archive ({e})")
    except (OSError, ValueError, RuntimeError, zlib.error, MemoryError) as error:
        return ArchiveSays(False, problem=f"it cannot be read ({error})")
    return _told(data)


LEGACY: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""What a file of ``torch.save`` that is no zip begins with: the pickle of its magic number."""


def read_legacy(fd: int) -> ArchiveSays | None:
    """Return what a file of the older form says, ``None`` for one of no such form; never raises."""
    return legacy_says(lambda count, at: os.pread(fd, count, at))


def legacy_says(pread: Pread) -> ArchiveSays | None:
    """Return that of a file that is read by ``pread``; never raises."""
    try:
        if pread(len(LEGACY), 0) != LEGACY:
            return None
        data = pread(PICKLE + 1, 0)
    except OSError as error:
        return ArchiveSays(False, problem=f"it cannot be read ({error})")
    file = BytesIO(data)
    try:
        tops = [next_of(file) for _ in ("magic", "version", "system", "checkpoint")]
    except NotReadableError as error:
        large = len(data) > PICKLE
        why = f"is larger than {PICKLE >> 20} MB" if large else f"is not followed ({error})"
        return ArchiveSays(False, problem=f"its pickle {why}")
    top = tops[-1].items if isinstance(tops[-1], Blank) else {}
    return _said(top)._replace(whole=False)


def _told(data: bytes) -> ArchiveSays:
    if len(data) > PICKLE:
        return ArchiveSays(True, problem=f"its pickle is larger than {PICKLE >> 20} MB")
    try:
        top = top_of(data)
    except NotReadableError as error:
        return ArchiveSays(True, problem=f"its pickle is not followed ({error})")
    return _said(top)


def _said(top: Mapping[str, object]) -> ArchiveSays:
    """Return what the named values of a checkpoint say, of a whole one."""
    step, epoch = step_in(top), _whole(top.get("epoch"))
    why = None if step is not None else "the file names none"
    return ArchiveSays(True, step, epoch, why, _parts(top), _best(top))


def _best(top: Mapping[str, object]) -> str | None:
    """Return what a ``ModelCheckpoint`` has found best; one that measures nothing has no best."""
    callbacks = top.get("callbacks")
    each = callbacks.items.values() if isinstance(callbacks, Blank) else ()
    states = [state.items for state in each if isinstance(state, Blank)]
    best = (state.get("best_model_path") for state in states if state.get("monitor"))
    return next((path for path in best if isinstance(path, str) and path), None)


def _parts(top: Mapping[str, object]) -> int | None:
    """Return DeepSpeed's ``partition_count``: a number, or one for each group of parameters."""
    optimizer = top.get("optimizer_state_dict")
    count = optimizer.items.get("partition_count") if isinstance(optimizer, Blank) else None
    if isinstance(count, Blank):
        count = max(count.numbers, default=None)
    return _whole(count)


def step_in(top: Mapping[str, object]) -> int | None:
    """Return the step that a checkpoint's named values tell."""
    places = [top, *(each.items for name in INNER if isinstance(each := top.get(name), Blank))]
    found = (_whole(place.get(name)) for place in places for name in STEPS)
    return next((step for step in found if step is not None), None)


def _whole(value: object) -> int | None:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and isinstance(value, int) and 0 <= value < BIGGEST else None


class _TooMuchError(Exception):
    """More of the file would have to be read than is reasonable."""


class _Window(BufferedIOBase):
    """A file that gives no more than a bounded number of bytes in all."""

    def __init__(self, pread: Pread, size: int) -> None:
        self._pread, self._size, self._at = pread, size, 0
        self._left = DIRECTORY + 2 * PICKLE

    def seekable(self) -> bool:
        """Tell that any place can be gone to."""
        return True

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        start = {SEEK_CUR: self._at, SEEK_END: self._size}.get(whence, 0)
        if start + offset < 0:
            raise ValueError("before the file's beginning")
        self._at = start + offset
        return self._at

    def read(self, count: int | None = -1, /) -> bytes:
        """Return the next bytes; raises ``_TooMuchError``."""
        rest = max(0, self._size - self._at)
        wanted = rest if count is None or count < 0 else min(count, rest)
        if wanted > min(self._left, DIRECTORY + PICKLE):
            raise _TooMuchError("its directory is too large")
        data = self._pread(wanted, self._at)
        self._at += len(data)
        self._left -= len(data)
        return data
