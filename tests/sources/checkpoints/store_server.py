"""A small S3 server on loopback: lists, reads, puts by condition, deletes, counts what it is asked,
and misbehaves as told.

GCS is asked by the same kind of requests, so it stands for both. What it answers was taken from
moto's answers; where moto is installed, ``test_moto.py`` asks that too.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

PAGE: Final = 1000
Fault = Callable[["Handler"], bool]
"""Answers a request badly and returns True, or leaves it to be answered well."""


@dataclass
class ObjectStore:
    """What lies there: bytes and age by bucket and key; ``ahead``: seconds its clock is ahead."""

    buckets: dict[str, dict[str, tuple[bytes, float]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Each request: method, path and what of its query matters."""
    fault: Fault | None = None
    clock_fault: Fault | None = None
    """Answers what asks for the server's clock only."""
    ahead: float = 0.0
    url: str = ""
    heeds: bool = True
    """Whether a put's condition is looked at."""
    generations: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of each object's last put: what GCS calls its generation."""
    puts: int = 0
    versioned: bool = False
    """True for a bucket of S3 that keeps versions; GCS tells a generation in any case."""
    kept: Callable[[str], bool] = lambda key: False
    """Which keys may not be deleted."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, bucket: str, key: str, data: bytes = b"x" * 10, at: float | None = None) -> None:
        """Put an object, as old as it is said to be by the store's own clock."""
        when = time.time() + self.ahead if at is None else at
        self.buckets.setdefault(bucket, {})[key] = (data, when)
        self.puts += 1
        self.generations[bucket, key] = self.puts

    def generation(self, bucket: str, key: str) -> int:
        """Return the generation of an object; 0 of one that is not there."""
        there = key in self.buckets.get(bucket, {})
        return self.generations.get((bucket, key), 0) if there else 0

    def holds(self, bucket: str, key: str, headers: Message) -> bool:
        """Tell whether the conditions of a put hold."""
        held = self.buckets.get(bucket, {}).get(key)
        expected = headers.get("x-goog-if-generation-match")
        if expected is not None and int(expected) != self.generation(bucket, key):
            return False
        if headers.get("If-None-Match") == "*" and held is not None:
            return False
        match = headers.get("If-Match")
        return match is None or (held is not None and match == _tag(held[0]))

    def version(self, bucket: str, key: str) -> dict[str, str]:
        """Return the headers that tell one version of an object from another."""
        number = str(self.generation(bucket, key))
        own = {"x-amz-version-id": number} if self.versioned else {}
        return {"x-goog-generation": number, **own}

    def gone(self, bucket: str, prefix: str) -> None:
        """Remove all objects below a prefix."""
        held = self.buckets[bucket]
        for key in [key for key in held if key.startswith(prefix)]:
            del held[key]

    def count(self) -> int:
        """Return how many requests there were since the last time; without asking its clock."""
        asked, self.asked = self.asked, []
        return sum(line != "HEAD" for line in asked)


def variables(url: str) -> dict[str, str]:
    """Return what leads a client to a store at this address, asked as Amazon's or as Google's."""
    keys = {"AWS_ACCESS_KEY_ID": "t", "AWS_SECRET_ACCESS_KEY": "t", "AWS_REGION": "us-east-1"}
    return {"AWS_ENDPOINT_URL": url, "STORAGE_EMULATOR_HOST": url, **keys}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    store: ObjectStore
    body: bytes = b""
    """What a request has brought, for a fault to see."""

    @property
    def key(self) -> str:
        """The key that is asked for, in plain spelling."""
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    @property
    def deletes(self) -> list[str]:
        """The keys that a request asks to delete, in plain spelling."""
        if self.command == "POST":
            found = re.findall("<Key>(.*?)</Key>", self.body.decode())
            return [unescape(key) for key in found]
        return [self.key] if self.command == "DELETE" else []

    def log_message(self, *args: object) -> None:
        """Write nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time by the store's own clock."""
        return formatdate(time.time() + self.store.ahead, usegmt=True)

    def do_HEAD(self) -> None:
        """Answer with headers only: the server's clock, or whether there is a key."""
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self.store.asked.append(f"HEAD {bucket} {key}".rstrip())
        fault = self.store.fault if key else self.store.clock_fault
        if fault is not None and fault(self):
            return
        held = self.store.buckets.get(bucket, {}).get(key)
        if held is None or not key:
            self.answer(404 if key else 200, b"")
            return
        self.answer(200, b"", {**self._about(bucket, key), "Content-Length": str(len(held[0]))})

    def do_GET(self) -> None:
        """List or read."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        listed = "list-type" in query or "prefix" in query
        what = f"list {query.get('prefix', '')}" if listed else key
        self.store.asked.append(f"GET {bucket} {what}")
        if self.store.fault is not None and self.store.fault(self):
            return
        held = self.store.buckets.get(bucket)
        if held is None:
            self.refuse(404, "NoSuchBucket")
        elif listed:
            self.answer(200, _listing(bucket, held, query))
        elif key not in held:
            self.refuse(404, "NoSuchKey")
        else:
            self._read(*held[key], self.store.version(bucket, key))

    def do_PUT(self) -> None:
        """Take an object, if its condition holds."""
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.store.asked.append(f"PUT {bucket} {key}")
        if self.store.fault is not None and self.store.fault(self):
            return
        if key:
            self.take(bucket, key, self.body)
        else:
            self.store.buckets.setdefault(bucket, {})
            self.answer(200, b"")

    def take(self, bucket: str, key: str, data: bytes, *, answers: bool = True) -> None:
        """Put an object and say so, or do not say so."""
        with self.store.lock:
            there = bucket in self.store.buckets
            fine = not self.store.heeds or self.store.holds(bucket, key, self.headers)
            if there and fine:
                self.store.put(bucket, key, data)
            version = self.store.version(bucket, key)
        if not answers:
            self.close_connection = True
        elif not there:
            self.refuse(404, "NoSuchBucket")
        elif fine:
            self.answer(200, b"", {"ETag": _tag(data), **version})
        else:
            self.refuse(412, "PreconditionFailed")

    def do_DELETE(self) -> None:
        """Delete one object."""
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self.store.asked.append(f"DELETE {bucket} {key}")
        if self.store.fault is not None and self.store.fault(self):
            return
        if self.store.kept(key):
            self.refuse(403, "AccessDenied")
            return
        there = self.store.buckets.get(bucket, {}).pop(key, None)
        self.answer(204 if there is not None else 404, b"")

    def do_POST(self) -> None:
        """Delete the objects that are listed, as S3 does: each may be refused by itself."""
        bucket = unquote(urlsplit(self.path).path).strip("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        keys = self.deletes
        self.store.asked.append(f"POST {bucket} delete {len(keys)}")
        if self.store.fault is not None and self.store.fault(self):
            return
        rows = []
        for key in keys:
            if self.store.kept(key):
                code = "<Code>AccessDenied</Code><Message>no</Message>"
                rows.append(f"<Error><Key>{escape(key)}</Key>{code}</Error>")
            else:
                self.store.buckets.get(bucket, {}).pop(key, None)
                rows.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
        said = f'<?xml version="1.0"?><DeleteResult>{"".join(rows)}</DeleteResult>'
        self.answer(200, said.encode())

    def _about(self, bucket: str, key: str) -> dict[str, str]:
        data, at = self.store.buckets[bucket][key]
        known = {"ETag": _tag(data), "Last-Modified": formatdate(at, usegmt=True)}
        return {**known, **self.store.version(bucket, key)}

    def _read(self, data: bytes, at: float, version: Mapping[str, str]) -> None:
        span = self.headers.get("Range")
        more = {"ETag": _tag(data), "Last-Modified": formatdate(at, usegmt=True), **version}
        if span is None:
            self.answer(200, data, more)
            return
        first, last = span.removeprefix("bytes=").split("-")
        start, end = int(first), min(int(last) + 1, len(data))
        more["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self.answer(206, data[start:end], more)

    def refuse(self, status: int, code: str = "", more: Mapping[str, str] | None = None) -> None:
        """Answer with an error as S3 does."""
        said = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message></Error>'
        self.answer(status, said.encode(), more)

    def answer(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        """Answer in full."""
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (more or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _listing(
    bucket: str, held: Mapping[str, tuple[bytes, float]], query: Mapping[str, str]
) -> bytes:
    """Return one page of a listing (ListObjectsV2)."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after", "")
    rows: list[str] = []
    seen: set[str] = set()
    last, cut = "", False
    for key in sorted(key for key in held if key.startswith(prefix)):
        rest = key[len(prefix) :]
        group = (
            prefix + rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
        )
        name = group if delimiter and group else key
        if name in seen or (after and (name <= after or key <= after)):
            continue
        if len(rows) == PAGE:
            cut = True
            break
        seen.add(name)
        last = name
        rows.append(_prefix_row(name) if delimiter and group else _key_row(key, *held[key]))
    more = f"<NextContinuationToken>{quote(last)}</NextContinuationToken>" if cut else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount>"
        f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(cut).lower()}</IsTruncated>{more}"
        f"{''.join(rows)}</ListBucketResult>"
    ).encode()


def _prefix_row(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"


def _key_row(key: str, data: bytes, at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
        f"<ETag>{escape(_tag(data))}</ETag><Size>{len(data)}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


@contextmanager
def serving(store: ObjectStore) -> Iterator[ObjectStore]:
    """Serve a store on a port of its own until the end."""
    handler: Any = type("Bound", (Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.05), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
