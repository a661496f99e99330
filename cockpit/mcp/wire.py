"""JSON-RPC 2.0, one message a line: what comes in, and how what goes out is written."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple

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
