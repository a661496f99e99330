"""The trainer's input: the text that ships with it, read example by example from its file."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cockpit.demo.model import Example

CORPUS = Path(__file__).with_name("corpus.txt")
HELD_OUT = 0.1
"""Share of the text, at its end, that is never trained on."""


class PacedFile:
    """A file of which at most ``bytes_per_second`` are read (``None``: as fast as the disk)."""

    def __init__(
        self,
        file: BinaryIO,
        bytes_per_second: float | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._file, self._pace, self._wait = file, bytes_per_second, wait

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``."""
        if self._pace is not None:
            self._wait(size / self._pace)
        self._file.seek(offset)
        return self._file.read(size)


@dataclass(frozen=True)
class Corpus:
    """The text's size and its characters (an index each)."""

    path: Path
    size: int
    alphabet: dict[int, int]

    @property
    def train_size(self) -> int:
        """How many bytes at the beginning are trained on."""
        return int(self.size * (1 - HELD_OUT))

    def examples(self, text: bytes, context: int) -> list[Example]:
        """Return each position of ``text`` that has ``context`` characters before it."""
        indices = [self.alphabet[byte] for byte in text]
        return [
            (indices[at : at + context], indices[at + context])
            for at in range(len(indices) - context)
        ]

    def held_out(self, context: int) -> list[Example]:
        """Return the examples of the part that is never trained on."""
        return self.examples(self.path.read_bytes()[self.train_size :], context)


def read_corpus(path: Path = CORPUS) -> Corpus:
    """Read the text once, to learn its alphabet."""
    text = path.read_bytes()
    return Corpus(path, len(text), {byte: index for index, byte in enumerate(sorted(set(text)))})


def batch(
    corpus: Corpus, file: PacedFile, *, seed: int, step: int, context: int, size: int
) -> list[Example]:
    """Return ``size`` random examples: the same ones for the same seed and step."""
    draw = random.Random(f"{seed}/{step}")
    starts = [draw.randrange(corpus.train_size - context) for _ in range(size)]
    pieces = [file.read_at(start, context + 1) for start in starts]
    return [example for piece in pieces for example in corpus.examples(piece, context)]
