"""Work beside a screen: begun by a function, so that nothing is left over if it never begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker

Work = Callable[[], Coroutine[Any, Any, Any]]


def spawn(
    node: DOMNode, work: Work, group: str = "default", exclusive: bool = False
) -> Worker[Any]:
    """Begin ``work`` for a screen or the app; what it raises is told there and ends nothing.

    A coroutine made beforehand would be warned about if the screen closes before it begins.
    """
    begun: Any = work
    worker: Worker[Any] = node.run_worker(
        begun, group=group, exclusive=exclusive, exit_on_error=False
    )
    return worker
