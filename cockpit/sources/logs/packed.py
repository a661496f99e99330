"""Logs that were packed: by which program, and how to read them."""

from __future__ import annotations

import errno
import sys
import zlib
from importlib import import_module
from typing import BinaryIO, Final, NamedTuple, cast

from cockpit.sources.logs.ranged import Ranged, Span, Wish

MAGIC: Final = 6
"""Bytes at a file's beginning that tell how it is packed."""


class Packing(NamedTuple):
    """One way to pack a file: the program, the ending of the name, how such a file begins.

    ``module`` of the standard library reads it, where this Python has that.
    """

    program: str
    ending: str
    magic: bytes
    module: str


PACKINGS: Final = (
    Packing("gzip", ".gz", b"\x1f\x8b", "gzip"),
    Packing("xz", ".xz", b"\xfd7zXZ\x00", "lzma"),
    Packing("bzip2", ".bz2", b"BZh", "bz2"),
    Packing("zstd", ".zst", b"\x28\xb5\x2f\xfd", "compression.zstd"),
)
ENDINGS: Final = tuple(each.ending for each in PACKINGS)


def packing_of(name: str, head: bytes = b"") -> Packing | None:
    """Return how a file is packed, by its first bytes, else by its name; ``None``: it is not."""
    by_magic = (each for each in PACKINGS if head.startswith(each.magic))
    by_name = (each for each in PACKINGS if name.endswith(each.ending))
    return next(by_magic, None) or next(by_name, None)


def unpacked(packing: Packing, file: BinaryIO) -> BinaryIO:
    """Return what reads a packed file; raises ``OSError`` where this Python cannot."""
    try:
        opener = import_module(packing.module).open
    except ImportError as error:
        text = f"it is packed with {packing.program}, which is not read here: unpack it"
        raise OSError(errno.EOPNOTSUPP, text) from error
    return cast("BinaryIO", opener(file))


def errors() -> tuple[type[Exception], ...]:
    """Return what reading a broken packed file raises, of the modules that are loaded."""
    lzma = sys.modules.get("lzma")
    more: tuple[type[Exception], ...] = () if lzma is None else (lzma.LZMAError,)
    return (OSError, EOFError, zlib.error, *more)


class PackedError(OSError):
    """A log that is to be followed was packed; ``strerror`` names the program."""


def refuse_packed(log: Ranged) -> None:
    """Raise ``PackedError`` for a log that was packed: nobody writes on in one of those."""
    packing = packing_of(log.path)
    if packing is None:
        return
    with log.open(Wish((Span(0, MAGIC),))) as opened:
        head = opened.read(0, min(MAGIC, opened.stat.size))
    if head.startswith(packing.magic):
        raise PackedError(errno.EOPNOTSUPP, packing.program)
