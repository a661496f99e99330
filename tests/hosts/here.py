"""A host that is this machine: its agent's functions, called in process, in counted trips."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from cockpit.hosts.agent import answer, framed, unframed
from cockpit.hosts.link import Ask
from cockpit.runtime.ssh import RemoteError


class CallsHere:
    """Counts trips and the bytes of answers; ``down`` is raised, ``edit`` changes an answer."""

    def __init__(self) -> None:
        self.trips = 0
        self.bytes = 0
        self.asked: list[Ask] = []
        self.down: RemoteError | None = None
        self.edit: Callable[[Ask, Any], Any] = lambda each, value: value
        self._lock = threading.Lock()

    def __call__(self, host: str, each: Ask, deadline: float) -> Any:
        with self._lock:
            self.trips += 1
            self.asked.append(each)
        if self.down is not None:
            raise self.down.again()
        data = framed(answer(each.call, json.loads(each.arguments)))
        with self._lock:
            self.bytes += len(data)
        said = unframed(data)
        if "value" in said:
            return self.edit(each, said["value"])
        raise OSError(said["errno"], said["text"], said["path"] or None)
