"""UCI HAR from its official address into the user's cache, or one line on why not, within seconds."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tinyhil.data import fetch, har_archive
from tinyhil.data.fetch import LOCK_TIMEOUT_S, PROBE_TIMEOUT_S, READ_TIMEOUT_S, cache_folder
from tinyhil.data.har_archive import Arrays

URL = "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip"
ARCHIVE_FILE = "uci_har.zip"
PARSED_FILE = "uci_har.npz"
CHECKSUM_FILE = "uci_har.zip.sha256"


def download() -> Arrays | str:
    """The official set, checked and kept in the cache, or the reason why it could not be had."""
    return fetch.attempt(URL, lambda: _download(cache_folder()))


def _download(folder: Path) -> Arrays:
    import filelock
    import pooch

    fetch.probe(URL)
    folder.mkdir(parents=True, exist_ok=True)
    archive, checksum = folder / ARCHIVE_FILE, folder / CHECKSUM_FILE
    with filelock.FileLock(folder / "uci_har.lock", timeout=LOCK_TIMEOUT_S):
        # Trust on first use: UCI publishes no checksum, so the first archive that passes `har_archive.check` is
        # recorded and every later download must equal it. The labels are always compared with the official ones.
        known = checksum.read_text(encoding="utf-8").strip() if checksum.is_file() else None
        pooch.retrieve(
            URL,
            known_hash=f"sha256:{known}" if known else None,
            fname=archive.name,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=(PROBE_TIMEOUT_S, READ_TIMEOUT_S)),
        )
        try:
            arrays = har_archive.read(archive)
            checksum.write_text(hashlib.sha256(archive.read_bytes()).hexdigest() + "\n", encoding="utf-8")
        finally:
            archive.unlink(missing_ok=True)  # good: the parsed arrays replace it; bad: the next run must not meet it
        store(arrays)
    return arrays


def store(arrays: Arrays) -> None:
    """Keep the parsed arrays in the cache."""
    fetch.store(cache_folder() / PARSED_FILE, {key: arrays[key] for key in har_archive.KEYS})
