"""Chromium without a window, over a pipe (Chrome DevTools Protocol): what a page draws, logs and asks for."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
COMMANDS, ANSWERS = 3, 4  # file descriptors of the browser
DRAWN = "document.documentElement?.dataset.drawn !== undefined"  # no element yet: the page begins to load


def chromium() -> str | None:
    """The browser's program, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Page:
    """A tab. `errors`: exceptions and complaints of scripts and policies; `requests`: addresses asked for."""

    write: int
    read: int
    session: str = ""
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command; what happens until then is noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]
            self._note(reply)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def show(self, path: Path, width: int, dark: bool) -> None:
        """Load a file at a width in CSS pixels; back when its charts are drawn."""
        self._look_as(width, dark)
        self._go(path.resolve().as_uri())

    def _look_as(self, width: int, dark: bool) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def resize(self, width: int) -> None:
        """The same page at another width, not loaded again."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def visit(self, address: str, width: int, dark: bool) -> None:
        """The same of an address of this computer."""
        self._look_as(width, dark)
        self._go(address)

    def _go(self, address: str) -> None:
        self.evaluate("window.before = true; 0")
        self.ask("Page.navigate", url=address)
        wait = f"new Promise(done => {{ const look = () => {DRAWN} ? done(1) : setTimeout(look, 20); look(); }})"
        for _ in range(50):  # the page before is still there for a moment
            if self.evaluate("location.href") == address and not self.evaluate("window.before"):
                break
            time.sleep(0.02)
        self.evaluate(wait)

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        height = self.evaluate("Math.ceil(document.documentElement.scrollHeight)")
        width = self.evaluate("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self.read, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, reply: dict[str, Any]) -> None:
        method, params = reply.get("method"), reply.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(json.dumps(params["args"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextmanager
def browser() -> Iterator[Page]:
    """A browser with one empty tab."""
    program = chromium()
    assert program is not None
    (command_read, command_write), (answer_read, answer_write) = os.pipe(), os.pipe()

    def connect() -> None:
        ends = [os.dup(command_read), os.dup(answer_write)]  # neither may be 3 or 4 before both are there
        ends = [os.dup(end) if end in (COMMANDS, ANSWERS) else end for end in ends]
        os.dup2(ends[0], COMMANDS)
        os.dup2(ends[1], ANSWERS)

    with tempfile.TemporaryDirectory(prefix="hil-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        page = Page(command_write, answer_read)
        try:
            target = page.ask("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.ask(f"{domain}.enable")
            yield page
        finally:
            process.kill()
            process.wait()
            os.close(command_write)
            os.close(answer_read)
