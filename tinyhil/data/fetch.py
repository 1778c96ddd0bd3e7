"""Downloads into the user's cache: reached within seconds or given up with one line, once per process and address."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import numpy as np

from tinyhil.errors import DataError
from tinyhil.native import default_cache_dir, is_offline
from tinyhil.notice import tell

# The probe bounds name resolution too, which no socket time-out covers.
PROBE_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 10.0
LOCK_TIMEOUT_S = 120.0

cache_folder = default_cache_dir
_failures: dict[str, str] = {}  # address -> reason

T = TypeVar("T")


def attempt(url: str, get: Callable[[], T]) -> T | str:
    """What `get` returns, or the reason why nothing could be had from `url`."""
    if is_offline():
        return "HIL_OFFLINE is set"
    if url not in _failures:
        tell(f"asking {urlsplit(url).hostname} for data, {PROBE_TIMEOUT_S:g} s at most for its answer")
        try:
            return get()
        except DataError as error:
            _failures[url] = f"download refused ({error})"
        except Exception as error:  # requests, urllib3, pooch, filelock and the file system: all mean "not available"
            _failures[url] = f"download failed ({reason(error)})"
    return _failures[url]


def retrieve(url: str, name: str, known_hash: str | None) -> Path:
    """Download `url` to `name` in the cache; raises whatever went wrong."""
    import filelock
    import pooch

    probe(url)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f"{name}.lock", timeout=LOCK_TIMEOUT_S):
        downloader = pooch.HTTPDownloader(timeout=(PROBE_TIMEOUT_S, READ_TIMEOUT_S))
        return Path(pooch.retrieve(url, known_hash, fname=name, path=folder, downloader=downloader))


def probe(url: str) -> None:
    """Raise at once if the server can not be reached; one deadline over name resolution, connection and reply.

    TimeoutError if nothing answers in time.
    """
    import pooch

    outcome: queue.Queue[Exception | None] = queue.Queue()

    def ask() -> None:
        try:
            pooch.HTTPDownloader(timeout=PROBE_TIMEOUT_S)(url, "", None, check_only=True)
            outcome.put(None)
        except Exception as error:  # handed to the waiting thread
            outcome.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        failure = outcome.get(timeout=PROBE_TIMEOUT_S)
    except queue.Empty:
        raise TimeoutError(f"no answer within {PROBE_TIMEOUT_S:g} s") from None
    if failure is not None:
        raise failure


def store(target: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Keep parsed arrays in the cache; a cache that can not be written only costs the next run its parsing."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.{time.monotonic_ns()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)


def reason(error: Exception) -> str:
    """The innermost cause in few words: requests wraps the interesting one several times."""
    while error.__cause__ is not None or error.__context__ is not None:
        inner = error.__cause__ or error.__context__
        if not isinstance(inner, Exception):
            break
        error = inner
    return in_short(error)


def in_short(error: Exception) -> str:
    """The first line of an error, cut to what fits into one line with the rest."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:120]
