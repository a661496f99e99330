"""JSON-RPC 2.0 on standard input and output, one message a line."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import threading
from queue import Empty, Full, Queue
from typing import Any, BinaryIO, Final, NamedTuple

MOST: Final = 1 << 20
"""Bytes of a line that are taken; a longer one is answered with an error, never kept whole."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
BUSY: Final = -32000
UNSUPPORTED_VERSION: Final = -32022

Id = str | int | float
Document = dict[str, Any]


class RpcError(Exception):
    """What a request is answered with instead of a result; ``data`` is for the client."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Message(NamedTuple):
    """A request (it has an ``id``), or a notification."""

    method: str
    params: Document
    id: Id | None = None


class Bad(NamedTuple):
    """What came and is neither; ``answer`` is what is said to it."""

    answer: bytes


def read(line: bytes) -> Message | Bad | None:
    """Return what a line says; ``None`` for what wants no answer (a blank line, an answer)."""
    if not line.strip():
        return None
    if len(line) > MOST:
        return Bad(error(None, PARSE_ERROR, f"a line of more than {MOST} bytes is not taken"))
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return Bad(error(None, PARSE_ERROR, "not JSON: expected one message a line, in UTF-8"))
    if isinstance(document, list):
        return Bad(error(None, INVALID_REQUEST, "no batches: send one message a line"))
    if not isinstance(document, dict):
        return Bad(error(None, INVALID_REQUEST, "a message is a JSON object"))
    return _message(document)


def _message(document: Document) -> Message | Bad | None:
    number, method = document.get("id"), document.get("method")
    known = number if _is_id(number) else None
    if "method" not in document and ("result" in document or "error" in document):
        return None  # an answer: nothing was asked of the client
    if document.get("jsonrpc") != "2.0" or not isinstance(method, str):
        return Bad(error(known, INVALID_REQUEST, 'expected "jsonrpc": "2.0" and a method'))
    if "id" in document and known is None:
        return Bad(error(None, INVALID_REQUEST, "an id is a text or a number"))
    params = document.get("params", {})
    if not isinstance(params, dict):
        if known is None:
            return None
        return Bad(error(known, INVALID_PARAMS, "params are an object"))
    return Message(method, params, known)


def _is_id(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def result(number: Id, content: Document) -> bytes:
    """Return an answer as it is written."""
    return _line({"jsonrpc": "2.0", "id": number, "result": content})


def error(number: Id | None, code: int, message: str, data: object = None) -> bytes:
    """Return an error as it is written; ``number`` is ``None`` where the request had none."""
    more = {} if data is None else {"data": data}
    return _line(
        {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message, **more}}
    )


def notification(method: str, params: Document) -> bytes:
    """Return a notification as it is written."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def _line(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


AHEAD: Final = 64
"""Messages that are read before the first of them is taken."""
BEHIND: Final = 1_000
"""Messages that wait to be written; a client that reads none of so many has hung."""


class Output:
    """Writes messages to the client in a thread of its own."""

    def __init__(self, stream: BinaryIO) -> None:
        self.broken = False
        self._stream = stream
        self._queue: Queue[bytes | None] = Queue(BEHIND)
        self._thread = threading.Thread(target=self._write, name="mcp output", daemon=True)
        self._thread.start()

    def send(self, line: bytes) -> None:
        """Have a message written soon; one too many ends the connection."""
        try:
            self._queue.put_nowait(line)
        except Full:
            self.broken = True

    def close(self, within: float) -> None:
        """Write what is left, for at most ``within`` seconds. Blocking."""
        try:
            self._queue.put(None, timeout=within)
            self._thread.join(within)
        except Full:
            return

    def _write(self) -> None:
        while True:
            line = self._queue.get()
            if line is None:
                return
            try:
                self._stream.write(line)
                while line is not None and not self._queue.empty():
                    line = self._next()
                    self._stream.write(line or b"")
                self._stream.flush()
            except (OSError, ValueError):
                self.broken = True
                return
            if line is None:
                return

    def _next(self) -> bytes | None:
        try:
            return self._queue.get_nowait()
        except Empty:
            return b""


class Input:
    """The client's lines, as they come; ``None`` is the end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="mcp input", daemon=True).start()

    async def line(self) -> bytes | None:
        """Return the next line with its line break, or more than is taken of one too long.

        What has no line break at the end of the input is no message.
        """
        return await self._lines.get()

    def _read(self) -> None:
        try:
            while line := self._stream.readline(MOST + 1):
                if not line.endswith(b"\n") and not self._skipped(len(line) > MOST):
                    break
                self._put(line)
        except (OSError, ValueError):
            pass
        self._put(None)

    def _skipped(self, long: bool) -> bool:
        """Read on to the end of a line that is too long; return whether there was one."""
        while long:
            more = self._stream.readline(MOST)
            if not more or more.endswith(b"\n"):
                return bool(more)
        return False

    def _put(self, line: bytes | None) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):
            return  # the loop has ended


def protocol_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the protocol alone.

    Whatever else would be printed, by anything in this process or started by it, goes to stderr.
    """
    sys.stdout.flush()
    own_out, own_in = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return os.fdopen(own_in, "rb"), os.fdopen(own_out, "wb")
