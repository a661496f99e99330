"""Loopback services that take messages: a webhook that can refuse or stay silent, a mail server."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Keeps the JSON that was posted; ``status`` is what it answers, ``drop`` answers nothing."""

    def __init__(self) -> None:
        self.status = 200
        self.drop = False
        self.posted: list[dict[str, Any]] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.paths.append(self.path)
                outer.posted.append(json.loads(body))
                self._answer()

            def do_GET(self) -> None:
                outer.paths.append(self.path)
                self._answer()

            def _answer(self) -> None:
                if outer.drop:
                    self.connection.close()
                    return
                self.send_response(outer.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook/s3cr3tpath?sig=a%2Bb"

    @property
    def titles(self) -> list[str]:
        return [each["title"] for each in self.posted]

    @property
    def events(self) -> list[str]:
        return [each["event"] for each in self.posted]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    try:
        yield server
    finally:
        server.close()


class _Mail(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go on")
                self._take()
            elif word == b"QUIT":
                self._say("221 bye")
                return
            elif word == b"RCPT":
                self.server.to.append(line.decode().strip())
                self._say("250 ok")
            else:
                self._say("250 here")

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        self.server.mails.append(b"".join(lines))
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class MailServer(socketserver.ThreadingTCPServer):
    """Keeps the mails that were sent to it, whole."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.to: list[str] = []
        super().__init__(("127.0.0.1", 0), _Mail)

    @property
    def url(self) -> str:
        port = self.server_address[1]
        return f"mailto://127.0.0.1:{port}/?from=cockpit@example.org&to=ada@example.org"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
