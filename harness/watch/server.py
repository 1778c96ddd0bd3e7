"""The local page of `hil watch`: what a snapshot says, on 127.0.0.1. Nothing is changed unless runs were allowed, and
then only by who knows the token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError
from tinyhil.harness.watch.jobs import Jobs

FOLDER = Path(__file__).parent
STYLE = FOLDER.parent / "report" / "style.css"
ADDRESS = "127.0.0.1"
MOST_BODY = 20_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
)
FILES = {
    "/": (FOLDER / "page.html", "text/html; charset=utf-8"),
    "/page.js": (FOLDER / "page.js", "text/javascript; charset=utf-8"),
    "/style.css": (STYLE, "text/css; charset=utf-8"),
}


class WatchServer(ThreadingHTTPServer):
    """`look` makes a snapshot; `jobs` None: read-only. The port 0 takes one that is free."""

    daemon_threads = True

    def __init__(self, port: int, look: Callable[[], dict[str, Any]], jobs: Jobs | None, token: str) -> None:
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise ConfigError(f"port {port} of {ADDRESS}: {error.strerror}; choose another: --port") from None
        self.look, self.jobs, self.token = look, jobs, token
        self.names = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}


class Handler(BaseHTTPRequestHandler):
    """Pages and state by GET, a run again by POST. Other names of this computer are refused: a page of somebody else's
    whose name leads here must not read or start anything."""

    server: WatchServer
    server_version, sys_version = "hil-watch", ""

    def do_GET(self) -> None:
        """A file of FILES, or /state.json."""
        if not self._is_ours():
            return
        if self.path == "/state.json":
            jobs = self.server.jobs
            state = self.server.look() | {"jobs": jobs.as_plain() if jobs else [], "runs": jobs is not None}
            self._answer(HTTPStatus.OK, json.dumps(state).encode(), "application/json")
        elif self.path in FILES:
            path, kind = FILES[self.path]
            self._answer(HTTPStatus.OK, path.read_bytes(), kind)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def do_POST(self) -> None:
        """/again: run the command of a record that the folder holds, with the token."""
        if not self._is_ours():
            return
        if self.server.jobs is None:
            self._refuse(HTTPStatus.FORBIDDEN, "read-only; start it with --runs")
        elif not hmac.compare_digest(self.headers.get("X-Hil-Token", "").encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the token is wrong; `hil watch` printed it")
        elif self.path != "/again":
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        else:
            self._again(self.server.jobs)

    def _again(self, jobs: Jobs) -> None:
        try:
            length = int(self.headers.get("Content-Length", "0"))
            named = json.loads(self.rfile.read(length))["file"] if 0 < length <= MOST_BODY else None
        except (ValueError, TypeError, KeyError):
            named = None
        known = {one["file"]: one["command"] for one in self.server.look()["records"]}
        if not isinstance(named, str) or not known.get(named):
            self._refuse(HTTPStatus.BAD_REQUEST, "no record of that name, or it holds no command")
            return
        try:
            jobs.start(known[named])
        except ConfigError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._answer(HTTPStatus.ACCEPTED, b"{}", "application/json")

    def _is_ours(self) -> bool:
        if self.headers.get("Host") in self.server.names:
            return True
        self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this page is 127.0.0.1's alone")
        return False

    def _refuse(self, code: HTTPStatus, why: str) -> None:
        self._answer(code, json.dumps({"error": why}).encode(), "application/json")

    def _answer(self, code: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""
