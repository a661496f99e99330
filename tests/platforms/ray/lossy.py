"""What lies between a cockpit and a head, and spoils one submit: lost, cut, late, or hung."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

SUBMITS = b"POST /api/jobs/ "
CLOSES = b'"entrypoint": "true"'


class Lossy:
    """A TCP proxy to ``url``. ``spoil`` is what befalls the next submit of a training.

    - ``swallow``: it arrives, its answer does not; ``blind``: nor does any other answer after it
    - ``cut``: the connection breaks before it arrives; ``cut blind``: so does every other after it
    - ``late``: it arrives ``delay`` seconds after; ``late blind``: and nothing else does until then

    ``arrived`` is called as soon as a submit is there.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._there = (parts.hostname or "", parts.port or 0)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.spoil = ""
        self.delay = 0.0
        self.hits = 0
        self.arrived: Callable[[], None] = lambda: None
        self._silent = False
        self._late: list[threading.Thread] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def heal(self) -> None:
        """Wait for what is still on its way, and be a plain way again."""
        for each in self._late:
            each.join()
        self._late.clear()
        self.spoil, self._silent, self.arrived = "", False, lambda: None

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            request = _read(connection)
            if request is None:
                return
            submits = request.startswith(SUBMITS) and CLOSES not in request
            spoil, self.spoil = (self.spoil, "") if submits else ("", self.spoil)
            if self._silent and not submits:
                return
            self._silent = spoil.endswith("blind")
            if submits:
                self.hits += 1
                self.arrived()
            if spoil.startswith("late"):
                self._late.append(threading.Thread(target=self._forward_late, args=(request,)))
                self._late[-1].start()
            elif not spoil:
                connection.sendall(self._forward(request))
            elif not spoil.startswith("cut"):
                self._forward(request)

    def _forward_late(self, request: bytes) -> None:
        time.sleep(self.delay)
        self._forward(request)

    def _forward(self, request: bytes) -> bytes:
        answer = b""
        with socket.create_connection(self._there) as there:
            there.sendall(request)
            while data := there.recv(65536):
                answer += data
        return answer


def _read(connection: socket.socket) -> bytes | None:
    """Return a whole request that asks for one answer, ``None`` if none came."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    lengths = [line for line in lines if line.lower().startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65536)
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"connection: close", b"", b""]) + body
