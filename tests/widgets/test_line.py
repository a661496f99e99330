"""A line is set over as many lines as it needs, and over one as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from widgets.painting.line import fitted, wrapped

WORDS = st.text("ab /.~é中\t\n ", max_size=40)


@given(WORDS, st.integers(1, 60), st.integers(1, 3))
def test_what_fits_reads_as_if_it_were_wrapped(words: str, width: int, most: int) -> None:
    line = Content(words)
    if line.cell_length <= width and not set("\t\n") & set(words):
        shown = [each.plain for each in fitted(line, width, most)]
        assert shown == [each.plain for each in wrapped(line, width, most)]
