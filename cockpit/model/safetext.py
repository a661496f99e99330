"""Text that is safe to show: the only form in which foreign text enters the model.

Built by ``cockpit.text.safe``; holds no control character, no bidi or zero-width trick, and
keeps colours as spans beside the text, so that no widget ever parses markup or escapes.
"""

from typing import NamedTuple

from pydantic import model_serializer

from cockpit.model.base import Frozen


class Span(NamedTuple):
    """A run of characters ``[start, end)`` and its style in Rich/Textual terms (``bold red``)."""

    start: int
    end: int
    style: str


class SafeText(Frozen):
    """One displayable line: plain text and its colour spans. Prints as its plain text."""

    plain: str
    spans: tuple[Span, ...] = ()

    @model_serializer(mode="plain")
    def _as_text(self) -> str:
        return self.plain

    def __str__(self) -> str:
        return self.plain
