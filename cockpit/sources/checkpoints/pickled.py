"""What a pickle says at its top, without running it: nothing is imported, called or built.

A pickle is a program for a small stack machine. Here its words are only followed: numbers and
texts are kept, everything that would call something becomes an empty stand-in. Bounded in bytes,
words and memory, and never recursive, so that a hostile one costs a second at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

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
