from __future__ import annotations

import io

import pytest

from cockpit.demo.model import PacedFile, batch, read_corpus


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    corpus = read_corpus()
    with corpus.path.open("rb") as file:
        first, again, later, other = (
            batch(corpus, PacedFile(file), seed=seed, step=step, context=3, size=4)
            for seed, step in ((1, 7), (1, 7), (1, 8), (2, 7))
        )
    assert first == again
    assert later != first != other


def test_the_last_part_is_held_out() -> None:
    corpus = read_corpus()
    held_out = corpus.held_out(3)
    assert len(held_out) == corpus.size - corpus.train_size - 3 > 100


def test_a_slow_file_gives_the_same_bytes_and_takes_its_time() -> None:
    waits: list[float] = []
    file = PacedFile(io.BytesIO(b"the middle watch"), bytes_per_second=8.0, wait=waits.append)
    assert file.read_at(4, 6) == b"middle"
    assert waits == [pytest.approx(0.75)]
