"""A tiny character language model in plain Python, and its data."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import BinaryIO

Vector = list[float]
Matrix = list[Vector]
Example = tuple[Sequence[int], int]
"""The characters seen, as indices, and the one that follows."""


@dataclass(frozen=True)
class ModelShape:
    """The model's sizes."""

    vocabulary: int
    context: int = 3
    embedding: int = 8
    hidden: int = 24

    @property
    def width(self) -> int:
        """How many numbers the hidden layer sees."""
        return self.context * self.embedding


@dataclass
class Weights:
    """Everything that is learned; gradients and momentum have the same form."""

    embedding: Matrix
    hidden: Matrix
    hidden_bias: Matrix
    output: Matrix
    output_bias: Matrix

    def arrays(self) -> Iterator[tuple[str, Matrix]]:
        """Yield (name, rows) of every array; biases are arrays of one row."""
        yield from vars(self).items()

    def rows(self) -> Iterator[Vector]:
        """Yield every row of every array."""
        for _, array in self.arrays():
            yield from array


def _build(shape: ModelShape, fill: Callable[[int, int], Matrix]) -> Weights:
    return Weights(
        embedding=fill(shape.vocabulary, shape.embedding),
        hidden=fill(shape.hidden, shape.width),
        hidden_bias=fill(1, shape.hidden),
        output=fill(shape.vocabulary, shape.hidden),
        output_bias=fill(1, shape.vocabulary),
    )


def zeros(shape: ModelShape) -> Weights:
    """Return weights that are all zero."""
    return _build(shape, lambda rows, columns: [[0.0] * columns for _ in range(rows)])


def initial(shape: ModelShape, seed: int) -> Weights:
    """Return small random weights, the same for the same ``seed``."""
    noise = random.Random(seed)

    def fill(rows: int, columns: int) -> Matrix:
        spread = 0.0 if rows == 1 else 1.0 / math.sqrt(columns)
        return [[noise.gauss(0.0, spread) for _ in range(columns)] for _ in range(rows)]

    return _build(shape, fill)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _log(value: float) -> float:
    return math.log(value) if value > 0 else math.nan


def _dense(weights: Matrix, bias: Vector, inputs: Vector) -> Vector:
    return [offset + sum(map(mul, row, inputs)) for row, offset in zip(weights, bias, strict=True)]


def _forward(weights: Weights, seen: Sequence[int]) -> tuple[Vector, Vector, Vector]:
    """Return the inputs, the hidden layer and the logits."""
    inputs = [number for index in seen for number in weights.embedding[index]]
    hidden = [math.tanh(value) for value in _dense(weights.hidden, weights.hidden_bias[0], inputs)]
    return inputs, hidden, _dense(weights.output, weights.output_bias[0], hidden)


def _chances(logits: Vector, target: int) -> tuple[Vector, float]:
    """Return the softmax and the cross entropy (nats) of ``target``.

    The exponentials are taken as they are: a logit beyond 709 is an infinity.
    """
    raised = [_exp(logit) for logit in logits]
    total = sum(raised)
    if total == 0:
        return [math.nan] * len(logits), math.nan
    return [each / total for each in raised], _log(total) - logits[target]


def loss(weights: Weights, batch: Sequence[Example]) -> float:
    """Return the mean cross entropy (nats per character) over ``batch``."""
    total = sum(_chances(_forward(weights, seen)[2], target)[1] for seen, target in batch)
    return total / len(batch)


def loss_and_gradient(
    weights: Weights, shape: ModelShape, batch: Sequence[Example]
) -> tuple[float, Weights]:
    """Return the mean cross entropy over ``batch`` and its gradient."""
    gradient = zeros(shape)
    share = 1.0 / len(batch)
    total = sum(_learn(weights, gradient, seen, target, share) for seen, target in batch)
    return total * share, gradient


def _learn(
    weights: Weights, gradient: Weights, seen: Sequence[int], target: int, share: float
) -> float:
    """Add one example's gradient; return its cross entropy."""
    inputs, hidden, logits = _forward(weights, seen)
    chances, surprise = _chances(logits, target)
    wrong = [share * chance for chance in chances]
    wrong[target] -= share
    back = [0.0] * len(hidden)
    for index, error in enumerate(wrong):
        _add(gradient.output[index], error, hidden)
        _add(back, error, weights.output[index])
    _add(gradient.output_bias[0], 1.0, wrong)
    back = [error * (1.0 - value * value) for error, value in zip(back, hidden, strict=True)]
    deeper = [0.0] * len(inputs)
    for index, error in enumerate(back):
        _add(gradient.hidden[index], error, inputs)
        _add(deeper, error, weights.hidden[index])
    _add(gradient.hidden_bias[0], 1.0, back)
    size = len(inputs) // len(seen)
    for place, index in enumerate(seen):
        _add(gradient.embedding[index], 1.0, deeper[place * size : (place + 1) * size])
    return surprise


def _add(into: Vector, factor: float, what: Iterable[float]) -> None:
    into[:] = [old + factor * new for old, new in zip(into, what, strict=True)]


def norm(gradient: Weights) -> float:
    """Return the Euclidean length over every array."""
    return math.sqrt(sum(value * value for row in gradient.rows() for value in row))


def descend(
    weights: Weights, momentum: Weights, gradient: Weights, rate: float, inertia: float
) -> None:
    """Take one step of gradient descent with momentum, in place."""
    for row, speed, slope in zip(weights.rows(), momentum.rows(), gradient.rows(), strict=True):
        speed[:] = [inertia * old + new for old, new in zip(speed, slope, strict=True)]
        _add(row, -rate, speed)


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
