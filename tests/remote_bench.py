"""Serial ports behind a network, as terminal servers offer them: RFC 2217 (pyserial's own server code) and raw TCP."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self

import serial
import serial.rfc2217

CHUNK = 4096


class PtyPort(serial.Serial):
    """The server's side of a board. A pseudo terminal has no modem lines: a DTR pulse is opening it, which resets."""

    pulses = 0
    level = True

    @property
    def dtr(self) -> bool:
        return self.level

    @dtr.setter
    def dtr(self, level: bool) -> None:
        if level and not self.level:
            self.pulses += 1
            self.close()
            self.open()
        self.level = level

    def _update_dtr_state(self) -> None: ...
    def _update_rts_state(self) -> None: ...

    cts = dsr = ri = cd = property(lambda self: False)


class SerialServer:
    """Serves the port of a board to one client after the other; `cut()` drops the client that is there."""

    def __init__(self, port: str, rfc2217: bool) -> None:
        self.serial = PtyPort(port, 9600 if rfc2217 else 115200, timeout=0)
        self.rfc2217 = rfc2217
        self.passed = 0  # bytes from the board
        self.cut_after: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        scheme = "rfc2217" if self.rfc2217 else "socket"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._listener.close()
        self.serial.close()

    def answered(self, data: bytes) -> bytes:
        """What the client is given of what the board says."""
        return data

    def sent(self, data: bytes) -> bytes:
        """What the board is given of what the client says."""
        return data

    def _serve(self) -> None:
        self._listener.settimeout(0.05)
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                with client, contextlib.suppress(OSError):
                    self._bridge(client)

    def _bridge(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lock = threading.Lock()

        class Sender:
            def write(self, data: bytes) -> None:
                with lock:
                    client.sendall(data)

        manager = serial.rfc2217.PortManager(self.serial, Sender()) if self.rfc2217 else None
        while not self._stopping.is_set():
            ready, _, _ = select.select([client, self.serial.fileno()], [], [], 0.05)
            if client in ready:
                data = client.recv(CHUNK)
                if not data:
                    return
                self.serial.write(self.sent(b"".join(manager.filter(data)) if manager else data))
            if self.serial.fileno() in ready:
                data = self.answered(self.serial.read(CHUNK))
                self.passed += len(data)
                if self.cut_after is not None and self.passed > self.cut_after:
                    self.cut_after = None
                    return
                Sender().write(b"".join(manager.escape(data)) if manager else data)
