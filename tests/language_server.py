"""A language server over standard input and output, as an editor drives it: what it says of a file and offers."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

FOLDER = Path(__file__).resolve().parent / "editors"
PROGRAMS = {"yaml": "yaml-language-server", "json": "vscode-json-language-server"}
DEADLINE_S = 600.0  # nothing is judged by it
CAPABILITIES = {
    "workspace": {"configuration": True},
    "textDocument": {"completion": {"completionItem": {"snippetSupport": True}}, "publishDiagnostics": {}},
}
INSTALL = "npm ci --prefix tests/editors"


def missing() -> str:
    """Why no server can run here; empty if they can."""
    if shutil.which("node") is None:
        return "no node"
    found = all((FOLDER / "node_modules/.bin" / name).exists() for name in PROGRAMS.values())
    return "" if found else f"no language servers: {INSTALL}"


@dataclass
class Server:
    """`language`: yaml or json. `said`: the diagnostics of every open file, by its URI."""

    language: str
    process: subprocess.Popen[bytes]
    said: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _number: int = 0

    def diagnostics(self, path: Path) -> list[dict[str, Any]]:
        """Open the file; what the server finds in it: `message`, and `range` with lines from 0."""
        uri, text = path.as_uri(), path.read_text(encoding="utf-8")
        document = {"uri": uri, "languageId": self.language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)
        while uri not in self.said:
            self._step()
        return self.said[uri]

    def offered(self, path: Path, line: int, character: int) -> set[str]:
        """What it offers to complete at a place of an open file."""
        place = {"line": line, "character": character}
        found = self.request("textDocument/completion", textDocument={"uri": path.as_uri()}, position=place)
        return {item["label"] for item in found["items"]}

    def request(self, method: str, **params: object) -> Any:
        """The answer; AssertionError for an error."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._step()
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def notify(self, method: str, **params: object) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _step(self) -> dict[str, Any]:
        """Read one message; answer it as an editor without settings of its own does, keep diagnostics."""
        assert self.process.stdout is not None
        size = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        assert size, f"{self.language}: the server ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(size))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.said[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "method" in message and "id" in message:
            items = (message.get("params") or {}).get("items", [])
            self._send({"id": message["id"], "result": [None for _ in items] or None})
        return message


@contextlib.contextmanager
def started(language: str) -> Iterator[Server]:
    """The server of a language, initialized."""
    command = ["node", str(FOLDER / "node_modules/.bin" / PROGRAMS[language]), "--stdio"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    watchdog = Timer(DEADLINE_S, process.kill)
    watchdog.start()
    try:
        server = Server(language, process)
        options = {"handledSchemaProtocols": ["file"], "provideFormatter": False}
        server.request(
            "initialize", processId=None, rootUri=None, capabilities=CAPABILITIES, initializationOptions=options
        )
        server.notify("initialized")
        yield server
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
