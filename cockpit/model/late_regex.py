"""Regular expressions that are compiled when they are first used.

The cockpit knows hundreds, most of them for lines that a healthy run never writes; to compile them
all while starting took longer than to look at a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import AnyStr, Generic, cast


class LateRegex(Generic[AnyStr]):
    """Stands in for an ``re.Pattern``: what is asked of it, the pattern that it makes answers.

    Each answer is kept, so that from its second use on it is as quick as the pattern itself.
    Raises ``re.error`` at the first use of what is no expression.
    """

    def __init__(self, make: Callable[[], re.Pattern[AnyStr]]) -> None:
        self._make: Callable[[], re.Pattern[AnyStr]] = make

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # whoever copies or inspects it
            raise AttributeError(name)
        answer = getattr(self._make(), name)
        setattr(self, name, answer)
        return answer


def late_regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return ``re.compile(expression, flags)``, compiled when it is first used."""
    return late(partial(re.compile, expression, flags))


def late(make: Callable[[], re.Pattern[AnyStr]]) -> re.Pattern[AnyStr]:
    """Return a pattern that ``make`` compiles when it is first used."""
    return cast("re.Pattern[AnyStr]", LateRegex(make))
