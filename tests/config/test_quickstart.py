from __future__ import annotations

import typing

import pytest

from cockpit.config.quickstart import annotations_compiled_once


def code_of(text: str) -> object:
    return getattr(typing.ForwardRef(text), "__forward_code__")  # noqa: B009 - of typing's own


def test_annotations_that_read_alike_are_compiled_once_and_only_inside() -> None:
    with annotations_compiled_once():
        assert code_of("dict[str, int]") is code_of("dict[str, int]")
        assert code_of("dict[str, int]") is not code_of("dict[str, str]")
        with pytest.raises(SyntaxError):
            typing.ForwardRef("dict[")
    assert "compile" not in vars(typing)
    assert code_of("dict[str, int]") is not code_of("dict[str, int]")
