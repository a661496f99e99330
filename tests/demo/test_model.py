from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.demo import model
from cockpit.demo.model import Example, ModelShape, PacedFile, Weights, batch, read_corpus

SHAPE = ModelShape(vocabulary=6, context=2, embedding=3, hidden=4)


def examples(seed: int, count: int = 5) -> list[Example]:
    draw = random.Random(seed)
    return [([draw.randrange(6), draw.randrange(6)], draw.randrange(6)) for _ in range(count)]


def nudged(weights: Weights, row: int, column: int, by: float, sample: list[Example]) -> float:
    rows = list(weights.rows())
    rows[row][column] += by
    result = model.loss(weights, sample)
    rows[row][column] -= by
    return result


@given(seed=st.integers(0, 10_000))
def test_the_gradient_is_the_slope_of_the_loss(seed: int) -> None:
    weights, sample = model.initial(SHAPE, seed), examples(seed)
    loss, gradient = model.loss_and_gradient(weights, SHAPE, sample)
    assert loss == pytest.approx(model.loss(weights, sample))
    draw = random.Random(seed)
    slopes = list(gradient.rows())
    for _ in range(10):
        row = draw.randrange(len(slopes))
        column = draw.randrange(len(slopes[row]))
        up, down = (nudged(weights, row, column, by, sample) for by in (1e-5, -1e-5))
        assert slopes[row][column] == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-7)


def test_it_learns_the_text() -> None:
    corpus = read_corpus()
    shape = ModelShape(len(corpus.alphabet))
    weights, momentum = model.initial(shape, 0), model.zeros(shape)
    held_out = corpus.held_out(shape.context)
    untrained = model.loss(weights, held_out)
    with corpus.path.open("rb") as file:
        for step in range(100):
            sample = batch(corpus, PacedFile(file), seed=0, step=step, context=3, size=32)
            _, gradient = model.loss_and_gradient(weights, shape, sample)
            model.descend(weights, momentum, gradient, 0.05, 0.9)
    assert untrained == pytest.approx(math.log(shape.vocabulary), abs=0.3)
    assert model.loss(weights, held_out) < untrained - 0.8


def test_the_same_seed_gives_the_same_weights() -> None:
    assert model.initial(SHAPE, 3) == model.initial(SHAPE, 3) != model.initial(SHAPE, 4)


@pytest.mark.parametrize("size", [1e3, 1e200, math.inf, math.nan])
def test_arithmetic_that_leaves_the_floats_never_raises(size: float) -> None:
    weights = model.initial(SHAPE, 0)
    for row in weights.rows():
        row[:] = [value * size for value in row]
    loss, gradient = model.loss_and_gradient(weights, SHAPE, examples(0))
    model.descend(weights, model.zeros(SHAPE), gradient, math.inf, 0.9)
    assert not math.isfinite(loss)
    assert not math.isfinite(model.norm(gradient))
