"""What a window may ask the engine, and how the answer is read: one row each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from cockpit.attach.wire import WireError, page_in, report_in
from cockpit.model.logtext import Hit, Matches, Near
from cockpit.text.safe import clean

Cross = Callable[[Any], Any]


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
    from cockpit.model.past import PastLog

    page, told = found
    return PastLog(page_in(page), clean(told))


def _curves_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.curve import curves_in

    return curves_in(found)


def _timeline_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.past import timeline_in

    return timeline_in(found)


def _then_in(found: Any) -> object:  # noqa: ANN401 - whatever has come
    from cockpit.model.past import Then

    return Then.model_validate(found)


ASKS: Final[Mapping[str, Cross]] = {
    "check": report_in,
    "tail": page_in,
    "page": page_in,
    "search": _hit_in,
    "find": _hit_in,
    "matches": _matches_in,
    "sift": page_in,
    "exact_step": _hit_in,
    "line_at": _number_in,
    "nearest_step": _near_in,
    "nearest_time": _near_in,
    "curves": _curves_in,
    "timeline": _timeline_in,
    "then": _then_in,
    "log_then": _past_log_in,
}
"""Every question, and how its answer is read.

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
        return ASKS[what](document["value"])
    except (LookupError, TypeError, ValueError) as error:
        raise WireError(f"an answer to {what!r} of an unexpected shape") from error
