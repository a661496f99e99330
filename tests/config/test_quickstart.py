from __future__ import annotations

import subprocess
import sys
import typing
from pathlib import Path

import pytest

from cockpit.config.quickstart import UNUSED, annotations_compiled_once

ROOT = Path(__file__).resolve().parents[2]
PUT_OFF = """
import sys
from threading import Thread
from cockpit.config.quickstart import load_when_used

load_when_used(("{name}",))
import {name} as early
print(hasattr(early, "__file__"), end=" ")
found = []
asking = [Thread(target=lambda: found.append(early.{what})) for _ in range(4)]
for each in asking: each.start()
for each in asking: each.join()
import {name}
print({name}.__file__ is not None, early.{what} is {name}.{what}, len(set(map(id, found))))
"""
WHAT = {"locale": "getpreferredencoding", "secrets": "token_hex", "tokenize": "tokenize"}


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


@pytest.mark.parametrize("name", UNUSED)
def test_a_module_that_is_put_off_is_whole_once_it_is_asked_for(name: str) -> None:
    program = PUT_OFF.format(name=name, what=WHAT[name])
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "True", "True", "1"], done.stderr


def test_what_is_there_already_is_not_put_off() -> None:
    program = (
        "import secrets\nfrom cockpit.config.quickstart import load_when_used\n"
        "load_when_used(('secrets',))\nimport sys\nprint(sys.modules['secrets'] is secrets)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
