"""What a window may ask the engine, and how the answer is read: one row each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

from cockpit.attach.wire import WireError, page_in, report_in
from cockpit.model.logtext import Hit, Matches, Near
from cockpit.text.safe import clean

Cross = Callable[[Any], Any]
_FARTHEST: Final = 1 << 62
"""The largest offset or number that is asked for; a larger one fits no file."""


class Ask(NamedTuple):
    """One question: the kinds of its arguments, and how its answer is read."""

    arguments: tuple[type | tuple[type], ...]
    """A kind in a tuple of its own is a list of these."""
    read: Cross

    def check(self, given: Sequence[object]) -> None:
        """Raise ``TypeError`` where arguments of other kinds were given."""
        fits = len(given) == len(self.arguments) and all(map(_is_of_kind, given, self.arguments))
        if not fits:
            names = (
                kind.__name__ if isinstance(kind, type) else f"list of {kind[0].__name__}"
                for kind in self.arguments
            )
            raise TypeError(f"expected the arguments {', '.join(names)}")


def _is_of_kind(value: object, kind: type | tuple[type]) -> bool:
    if isinstance(kind, tuple):
        return isinstance(value, list) and all(_is_of_kind(each, kind[0]) for each in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if kind is int:
        return type(value) is int and abs(value) <= _FARTHEST
    return type(value) is kind


def _hit_in(found: Sequence[Any] | None) -> Hit | None:
    return None if found is None else Hit(bool(found[0]), int(found[1]), int(found[2]))


def _near_in(found: Sequence[Any] | None) -> Near | None:
    return None if found is None else Near(int(found[0]), float(found[1]))


def _number_in(found: float | None) -> int | None:
    return None if found is None else int(found)


def _matches_in(found: Sequence[Any]) -> Matches:
    offsets, begin, reached, size = found
    return Matches(tuple(int(at) for at in offsets), int(begin), int(reached), int(size))


def _past_log_in(found: Sequence[Any]) -> object:
    from cockpit.model.history import PastLog

    page, told = found
    return PastLog(page_in(page), clean(told))


def _curves_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.curve import curves_in

    return curves_in(found)


def _timeline_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.history import timeline_in

    return timeline_in(found)


def _then_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.history import Then

    return Then.model_validate(found)


ASKS: Final[Mapping[str, Ask]] = {
    "check": Ask((str,), report_in),
    "tail": Ask((str, int), page_in),
    "page": Ask((str, int, int, bool), page_in),
    "search": Ask((str, str, int, bool), _hit_in),
    "find": Ask((str, str, int, bool), _hit_in),
    "matches": Ask((str, str, bool, int), _matches_in),
    "sift": Ask((str, int, int, bool, int), page_in),
    "exact_step": Ask((str, int), _hit_in),
    "line_at": Ask((str, int), _number_in),
    "nearest_step": Ask((str, int, int), _near_in),
    "nearest_time": Ask((str, float, int), _near_in),
    "curves": Ask((str, (str,), bool, (float,), int), _curves_in),
    "timeline": Ask((str,), _timeline_in),
    "then": Ask((str, float), _then_in),
    "log_then": Ask((str, float, int, bool), _past_log_in),
}
"""Every question. The first argument is a run.

All are about logs but ``check``, ``curves`` and, about the past, ``timeline``, ``then`` and
``log_then``.
"""

_TROUBLE: Final[Mapping[str, type[Exception]]] = {
    "os": OSError,
    "timeout": TimeoutError,
    "value": ValueError,
}


async def answered(ask: Awaitable[object]) -> dict[str, Any]:
    """Return the answer to a question as it crosses, the trouble with it too."""
    try:
        return {"value": await ask}
    except TimeoutError as error:
        return {"trouble": "timeout", "text": str(error)}
    except OSError as error:
        return {"trouble": "os", "text": error.strerror or str(error)}
    except ValueError as error:
        return {"trouble": "value", "text": str(error)}


def answer_in(what: str, document: Mapping[str, Any]) -> object:
    """Return the value of an answer; raises what asking raised, or ``WireError``."""
    if "trouble" in document:
        kind = _TROUBLE.get(str(document["trouble"]), ValueError)
        text = str(document.get("text", ""))
        raise OSError(0, text) if kind is OSError else kind(text)
    try:
        return ASKS[what].read(document["value"])
    except (LookupError, TypeError, ValueError) as error:
        raise WireError(f"an answer to {what!r} of an unexpected shape") from error
