"""A checkpoint that is one file: is it whole, and of which step? Its pickle is never run."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import SEEK_CUR, SEEK_END, BufferedIOBase, BytesIO
from typing import Final, NamedTuple

WORDS: Final = 400_000
"""Words of the program that are followed at most: those of about 8,000 arrays."""
MEMO: Final = 1 << 20
DIGITS: Final = 40
"""Bytes of a number that is kept: more is no step."""


NUMBERS: Final = 64
"""Numbers of a list that are kept."""


class NotReadableError(Exception):
    """The pickle is damaged, too large, or uses what is not followed; the text says which."""


@dataclass(slots=True)
class Blank:
    """A stand-in for any object: only what was put into it under a name is kept.

    And the first ``NUMBERS`` whole numbers that were appended to it.
    """

    items: dict[str, object] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)


class _Mark:
    """Where the arguments of a word begin."""


_MARK: Final = _Mark()


def top_of(data: bytes) -> Mapping[str, object]:
    """Return the named values of the object that ``data`` would make; raises ``NotReadableError``.

    Values are whole numbers, floats, texts, ``bool``, ``None``, or ``Blank`` for all else.
    """
    top = next_of(BytesIO(data))
    return top.items if isinstance(top, Blank) else {}


def next_of(file: BytesIO) -> object:
    """Return what the next pickle of several in a row would make; raises ``NotReadableError``."""
    import pickletools  # most layouts have none

    machine = _Machine()
    try:
        for count, (word, argument, _) in enumerate(pickletools.genops(file)):
            if count >= WORDS:
                raise NotReadableError(f"more than {WORDS:,} words")
            if word.name == "STOP":
                break
            machine.take(word.name, argument)
        return machine.pop()
    except NotReadableError:
        raise
    except Exception as error:  # whatever pickletools makes of damaged bytes
        raise NotReadableError("damaged") from error


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def pop(self) -> object:
        """Take the topmost value."""
        return self._stack.pop()

    def take(self, name: str, argument: object) -> None:
        """Follow one word."""
        if name in _VALUES:
            self._stack.append(_kept(argument))
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _BLANKS:
            drop = _BLANKS[name]
            del self._stack[len(self._stack) - drop :]
            self._stack.append(Blank())
        elif name not in _IGNORED:
            step = _STEPS.get(name)
            if step is None:
                raise NotReadableError(f"the word {name}")
            step(self, argument)

    def _to_mark(self) -> list[object]:
        """Take everything above the last mark, and the mark."""
        taken: list[object] = []
        while (value := self._stack.pop()) is not _MARK:
            taken.append(value)
        taken.reverse()
        return taken

    def mark(self, _: object) -> None:
        """Begin the arguments of a word to come."""
        self._stack.append(_MARK)

    def to_mark(self, _: object) -> None:
        """Replace what stands above the mark by a stand-in."""
        self._to_mark()
        self._stack.append(Blank())

    def drop_to_mark(self, _: object) -> None:
        """Drop what stands above the mark."""
        self._to_mark()

    def append(self, _: object) -> None:
        """Put the topmost value into the list below it."""
        self._append([self._stack.pop()])

    def append_all(self, _: object) -> None:
        """Put what stands above the mark into the list below it."""
        self._append(self._to_mark())

    def _append(self, values: list[object]) -> None:
        into = self._stack[-1]
        if isinstance(into, Blank):
            room = NUMBERS - len(into.numbers)
            into.numbers += [each for each in values[:NUMBERS] if type(each) is int][:room]

    def dictionary(self, _: object) -> None:
        """Make a dictionary of what stands above the mark."""
        pairs = self._to_mark()
        self._stack.append(Blank())
        self._put(pairs)

    def set_items(self, _: object) -> None:
        """Put what stands above the mark into what lies below it."""
        self._put(self._to_mark())

    def set_item(self, _: object) -> None:
        """Put one value under its name."""
        value, key = self._stack.pop(), self._stack.pop()
        self._put([key, value])

    def _put(self, pairs: list[object]) -> None:
        into = self._stack[-1]
        if isinstance(into, Blank):
            for key, value in zip(pairs[::2], pairs[1::2], strict=True):
                if isinstance(key, str):
                    into.items[key] = value

    def build(self, _: object) -> None:
        """Give an object its state: its named values are the object's."""
        state, of = self._stack.pop(), self._stack[-1]
        if isinstance(state, Blank) and isinstance(of, Blank) and state is not of:
            if not of.items:
                of.items = state.items
            elif len(state.items) <= len(of.items):
                of.items.update(state.items)

    def drop(self, _: object) -> None:
        """Drop the topmost value."""
        self._stack.pop()

    def double(self, _: object) -> None:
        """Repeat the topmost value."""
        self._stack.append(self._stack[-1])

    def memoize(self, _: object) -> None:
        """Remember the topmost value under the next number."""
        self.put(len(self._memo))

    def put(self, number: object) -> None:
        """Remember the topmost value."""
        if not isinstance(number, int) or len(self._memo) >= MEMO:
            raise NotReadableError("too much to remember")
        self._memo[number] = self._stack[-1]

    def get(self, number: object) -> None:
        """Bring back what was remembered."""
        assert isinstance(number, int)
        self._stack.append(self._memo[number])


def _kept(value: object) -> object:
    if isinstance(value, int) and value.bit_length() > 8 * DIGITS:
        return Blank()
    return Blank() if isinstance(value, bytes | bytearray) else value


_VALUES: Final = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BYTEARRAY8"),
    )
)
_CONSTANTS: Final[dict[str, object]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_BLANKS: Final[dict[str, int]] = {
    # the stand-in's name, and how many values it takes from the stack
    "EMPTY_DICT": 0, "EMPTY_LIST": 0, "EMPTY_TUPLE": 0, "EMPTY_SET": 0,
    "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "GLOBAL": 0, "STACK_GLOBAL": 2, "REDUCE": 2,
    "NEWOBJ": 2, "NEWOBJ_EX": 3, "PERSID": 0, "BINPERSID": 1, "EXT1": 0, "EXT2": 0, "EXT4": 0,
    "NEXT_BUFFER": 0,
}  # fmt: skip
_IGNORED: Final = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_STEPS: Final[dict[str, Callable[[_Machine, object], None]]] = {
    "MARK": _Machine.mark,
    "LIST": _Machine.to_mark,
    "TUPLE": _Machine.to_mark,
    "FROZENSET": _Machine.to_mark,
    "INST": _Machine.to_mark,
    "OBJ": _Machine.to_mark,
    "APPENDS": _Machine.append_all,
    "ADDITEMS": _Machine.drop_to_mark,
    "POP_MARK": _Machine.drop_to_mark,
    "APPEND": _Machine.append,
    "POP": _Machine.drop,
    "DICT": _Machine.dictionary,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "BUILD": _Machine.build,
    "DUP": _Machine.double,
    "MEMOIZE": _Machine.memoize,
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
}


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


def legacy_says(pread: Pread) -> ArchiveSays | None:
    """Return what a file of the older form says, ``None`` for one of no such form; never raises."""
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
