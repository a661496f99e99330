"""The evaluation callback: the loss on named parts of the text that is never trained on."""

from __future__ import annotations

from cockpit.demo.model import Corpus, Weights, loss
from cockpit.demo.writing import say

PARTS = {"held_out": slice(0, 100), "ending": slice(-100, None)}


def evaluate(weights: Weights, corpus: Corpus, context: int, part: str) -> float:
    """Return the loss (nats per character) on ``part``; raises ``KeyError`` if there is none."""
    examples = corpus.held_out(context)[PARTS[part]]
    result = loss(weights, examples)
    say("eval", f"eval {part} loss: {result:.4f}")
    return result
