"""A server on the loopback interface for one labelling page.

Each label is stored as soon as a rater gives it.

The page has an address with a random token. A request is refused unless it contains this token and
names this server in the header ``Host``. To store a label, it must also name this server in the
header ``Origin``. Therefore no other page, and no other user of the machine, can read the answers
or store a label. Files are never served.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mirage.errors import MirageError, SettingError
from mirage.labelling.session import Session
from mirage.report.labels import render_labels

__all__ = ["LabelServer"]

LOOPBACK = "127.0.0.1"
MOST_BYTES = 2048
"""Largest size of a request that stores a label; the largest label and id need fewer bytes."""
TIMEOUT_S = 10.0
"""Seconds after which a connection that sends nothing is closed."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LabelServer(ThreadingHTTPServer):
    """An HTTP server for the page of one labelling session.

    Args:
        session: The labelling session whose page is served.
        port: The port. By default 0, which selects a free one.

    Attributes:
        session: The labelling session whose page is served.
        token: The random part of the page's address.

    Raises:
        SettingError: The port cannot be used.
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(24)
        self.lock = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingError(
                f"port {port} of {LOOPBACK} cannot be used ({error}); choose another --port"
            ) from None

    @property
    def hosts(self) -> tuple[str, str]:
        """The values of the header ``Host`` that the server accepts."""
        return f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close a connection; the handler responds to other errors."""


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    timeout = TIMEOUT_S
    server_version, sys_version = "mirage", ""

    def do_GET(self) -> None:
        """Send the page with the labels so far."""
        if not self._is_allowed(""):
            return
        with self.server.lock:
            page = render_labels(self.server.session.data())
        self._send(HTTPStatus.OK, page, "text/html")

    def do_POST(self) -> None:
        """Store one label."""
        if not self._is_allowed("label") or not self._is_own_page():
            return
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 < size <= MOST_BYTES:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            row = json.loads(self.rfile.read(size))
            id_, label = row["item"], row["label"]
        except (ValueError, KeyError, TypeError, RecursionError):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if not (isinstance(id_, str) and isinstance(label, str)):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            with self.server.lock:
                self.server.session.put(id_, label)
        except MirageError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "text/plain")
            return
        self._send(HTTPStatus.OK, "{}", "application/json")

    def _is_allowed(self, name: str) -> bool:
        """Return whether the request names this server and the token; refuse it if not."""
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            self.send_error(HTTPStatus.FORBIDDEN)
            return False
        expected = f"/{self.server.token}/{name}"
        if not hmac.compare_digest(self.path.encode("latin-1", "replace"), expected.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return False
        return True

    def _is_own_page(self) -> bool:
        """Return whether the request comes from this server's page; refuse it if not."""
        origins = [[f"http://{host}"] for host in self.server.hosts]
        is_own = (
            self.headers.get_all("Origin") in origins
            and self.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
            and self.headers.get_content_type() == "application/json"
            and self.headers.get("Transfer-Encoding") is None
        )
        if not is_own:
            self.send_error(HTTPStatus.FORBIDDEN)
        return is_own

    def _send(self, status: HTTPStatus, text: str, kind: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, *_: str | None) -> None:
        """Send only the status, without repeating any part of the request."""
        status = HTTPStatus(code)
        self._send(status, f"{status.value} {status.phrase}", "text/plain")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because the path contains the token."""
