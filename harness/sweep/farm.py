"""Cells on many machines, by Dask: a worker that has a board says so (`dask worker ... --resources "due=1"`).

A worker that dies gives its cells to others by itself. A board that fails does so by our doing: its cell goes on to
another worker with such a board. Only this file knows Dask.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tinyhil import errors, files
from tinyhil.errors import ConfigError, SchedulerError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.sweep.cell import Cell, MakeOrder, Outcome
from tinyhil.harness.sweep.work import FINISHED, finished
from tinyhil.harness.sweep.worker import Workers

CONNECT_S = 5.0
POLL_S = 1.0
FETCH_S = 5.0  # in which a finished cell comes from its worker
MOST_TRIES = 3  # of a cell whose board fails
BOARD_FAILED = (errors.EXIT_NO_BOARD, errors.EXIT_FLASH, errors.EXIT_LINK, errors.EXIT_CRASH)
MOST_SENT_BYTES = 512 << 20  # of one model with its inputs
_workers = Workers()  # of the Dask worker that has imported this


def carry_out(order: Mapping[str, Any], contents: Mapping[str, bytes]) -> tuple[Outcome, dict[str, str]]:
    """On a worker: the outcome of a cell, and the texts of its files. `contents`: of the files that the order names."""
    folder = _folder(order["key"])
    moved = received(order, contents, folder / "files")
    outcome = _workers.carry_out({**moved, "folder": str(folder), "bench_file": None})
    outcome["worker"] = _address()
    return outcome, _texts(folder, outcome)


def received(order: Mapping[str, Any], contents: Mapping[str, bytes], folder: Path) -> dict[str, Any]:
    """The order with its files in `folder`: what lay together lies together, ranges and weights beside their model."""
    tops = sorted({Path(path).parent for path in contents}, key=lambda top: len(top.parts))
    places = {}
    for path in contents:
        top = next(top for top in tops if Path(path).is_relative_to(top))
        places[path] = folder / _name(top) / Path(path).relative_to(top)
    for path, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(place, contents[path])
    return dict(_moved(order, places))


def known_here(keys: Sequence[str]) -> dict[str, tuple[Outcome, dict[str, str]]]:
    """On a worker: cells that it has finished, for one who asked and was gone when they were."""
    found = {key: finished(_folder(key), key) for key in keys}
    return {key: (outcome, _texts(_folder(key), outcome)) for key, outcome in found.items() if outcome is not None}


def _folder(key: str) -> Path:
    return default_cache_dir() / "sweep" / key[:24]


def _texts(folder: Path, outcome: Outcome) -> dict[str, str]:
    """The files of an outcome by their names."""
    named = [*filter(None, (outcome.get(key) for key in ("record", "search", "assignment"))), FINISHED]
    there = [name for name in named if (folder / name).is_file()]
    return {name: (folder / name).read_text(encoding="utf-8") for name in there}


def _name(folder: Path) -> str:
    """A folder of another machine as one of ours."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:12]


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _moved(order: Any, places: Mapping[str, Path]) -> Any:
    """The order with the paths of files as they are here."""
    if isinstance(order, Mapping):
        return {key: _moved(value, places) for key, value in order.items()}
    return str(places[order]) if isinstance(order, str) and order in places else order


@dataclass(slots=True)
class _Try:
    """A cell on its way. `tried`: workers whose board has failed it. `since`: when somebody last could carry it out."""

    cell: Cell
    tried: list[str] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)


class Farm:
    """The workers of one scheduler. SchedulerError if it does not answer."""

    def __init__(self, address: str, worker_timeout_s: float, say: Callable[[str], None]) -> None:
        if not re.fullmatch(r"(tcp|tls)://[^/:]+:[0-9]+", address):
            raise ConfigError(f"--scheduler {address}: must be tcp://HOST:PORT or tls://HOST:PORT")
        self._address, self._worker_timeout_s, self._say = address, worker_timeout_s, say

    @property
    def boards(self) -> frozenset[str]:
        """What some worker offers now."""
        return frozenset(name for offered in self._offers().values() for name in offered)

    def outcomes(self, cells: Sequence[Cell], order: MakeOrder) -> Iterator[tuple[Cell, Outcome]]:
        """Every cell with its outcome as it comes; its files are in its folder by then."""
        running: dict[Any, _Try] = {}
        try:
            known = self._known([cell.key for cell in cells])
            for cell in cells:
                if cell.key in known:
                    outcome, texts = known[cell.key]
                    self._keep(Path(order(cell)["folder"]), texts)
                    yield cell, outcome
            fresh = [_Try(cell) for cell in cells if cell.key not in known]
            running.update((self._submit(attempt, order), attempt) for attempt in fresh)
            while running:
                for future in self._done(running):
                    found = self._result(future)
                    if found is None:
                        continue
                    attempt = running.pop(future)
                    outcome, texts = found
                    other = self._other(attempt, outcome)
                    if other is not None:
                        self._say(f"{attempt.cell.title}: {outcome['error']}; another worker has such a board, too")
                        running[self._submit(other, order)] = other
                        continue
                    self._keep(Path(order(attempt.cell)["folder"]), texts)
                    yield attempt.cell, outcome
        finally:
            self._client.cancel(list(running))
            self._client.close()

    @cached_property
    def _client(self) -> Any:
        try:
            from distributed import Client
        except ImportError:
            raise ConfigError("--scheduler needs Dask; type: pip install 'tinyhil[dask]'") from None
        for name in ("distributed", "distributed.client", "distributed.utils", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what they complain of, we say
        made: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def connect() -> None:
            try:
                made.put(Client(self._address, timeout=CONNECT_S, set_as_default=False))
            except Exception as error:  # whatever comms, tornado and asyncio raise
                made.put((str(error).splitlines() or [type(error).__name__])[0])

        threading.Thread(target=connect, daemon=True).start()  # its own time-out does not cover a silent server
        try:
            client = made.get(timeout=CONNECT_S + 1)
        except queue.Empty:
            client = "it takes the connection and says nothing"
        if isinstance(client, str):
            raise SchedulerError(
                f"--scheduler {self._address}: no Dask scheduler answers there: {client[:150]}; start: dask scheduler"
            )
        return client

    def _offers(self) -> dict[str, dict[str, float]]:
        """By the address of a worker: the boards that it has."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: worker["resources"] for address, worker in known.items()}

    def _known(self, keys: Sequence[str]) -> dict[str, tuple[Outcome, dict[str, str]]]:
        """What workers have finished for a sweep that was killed."""
        known: dict[str, tuple[Outcome, dict[str, str]]] = {}
        for address, answer in self._client.run(known_here, keys, on_error="return").items():
            if isinstance(answer, BaseException):
                said = f"{type(answer).__name__}: {answer}".splitlines()[0]
                self._say(f"{address} can not say what it has finished, which is computed again: {said}")
                continue
            known |= answer
        return known

    def _able(self, attempt: _Try, offers: Mapping[str, Any]) -> list[str]:
        """Workers that could carry it out."""
        board = attempt.cell.board
        able = [address for address, offered in offers.items() if not attempt.cell.locks or board in offered]
        return [address for address in able if address not in attempt.tried]

    def _submit(self, attempt: _Try, order: MakeOrder) -> Any:
        cell = attempt.cell
        payload = order(cell)
        paths = [*cell.files, *filter(None, [payload["boards_file"]])]
        sizes = sum(Path(path).stat().st_size for path in paths)
        if sizes > MOST_SENT_BYTES:
            raise ConfigError(
                f"{cell.model}: its files have {sizes} B, more than the {MOST_SENT_BYTES} B that are sent"
            )
        contents = {path: files.read_bytes(Path(path), "file", MOST_SENT_BYTES) for path in paths}
        sent = self._client.submit(dict, contents, pure=True)  # as a task: it outlives the worker that holds it
        return self._client.submit(
            carry_out,
            payload,
            sent,
            key=f"hil-{cell.key[:24]}-{len(attempt.tried)}",
            resources={cell.board: 1} if cell.locks else None,
            workers=self._able(attempt, self._offers()) if attempt.tried else None,
            pure=False,
        )

    def _done(self, running: dict[Any, _Try]) -> list[Any]:
        """Futures that have ended, and those that nobody can carry out for longer than we wait."""
        from distributed import wait

        try:
            with suppress(TimeoutError), self._client.as_current():
                return list(wait(list(running), timeout=POLL_S, return_when="FIRST_COMPLETED").done)
        except CancelledError:
            said = f"--scheduler {self._address}: it has gone; what was finished is kept, the same command goes on"
            raise SchedulerError(said) from None
        now, offers, given_up = time.monotonic(), self._offers(), []
        for future, attempt in running.items():
            if self._able(attempt, offers):
                attempt.since = now
            elif now - attempt.since > self._worker_timeout_s:
                given_up.append(future)
        self._client.cancel(given_up)
        return given_up

    def _result(self, future: Any) -> tuple[Outcome, dict[str, str]] | None:
        """What a worker answered; of one that could not, why. None if it has died with what it had computed, which
        another one does again: nobody waits for that, or all that is finished meanwhile would wait with it."""
        error: Any = None
        try:
            if not future.done():
                return None
            if future.status == "finished":
                found: tuple[Outcome, dict[str, str]] = future.result(timeout=FETCH_S)
                return found
            error = None if future.cancelled() else future.exception(timeout=FETCH_S)
        except TimeoutError:
            return None
        said = f"within {self._worker_timeout_s:.0f} s no worker came that can carry it out; see `hil docs sweep`"
        if error is not None:
            said = f"no worker could carry it out: {type(error).__name__}: {error}".splitlines()[0]
        elif not future.cancelled():  # computed again meanwhile
            return None
        return {"exit_code": errors.EXIT_NO_BOARD, "error": said, "record": None, "search": None}, {}

    def _other(self, attempt: _Try, outcome: Outcome) -> _Try | None:
        """The same cell for another worker, if its board has failed it and there is another."""
        if outcome["exit_code"] not in BOARD_FAILED or not attempt.cell.locks or "worker" not in outcome:
            return None
        other = _Try(attempt.cell, [*attempt.tried, outcome["worker"]])
        return other if len(other.tried) < MOST_TRIES and self._able(other, self._offers()) else None

    def _keep(self, folder: Path, texts: Mapping[str, str]) -> None:
        """The files of a cell where it belongs; the one that says it is finished last."""
        for name in sorted(texts, key=lambda name: name == FINISHED):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(place, texts[name])
