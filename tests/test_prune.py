"""The cache of builds stays small: old ones go, what is new, in use or small enough stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import filelock
import pytest
from wire_bench import tiny_bench

from tinyhil.harness.build.expiry import DAY_S, MARK, mark_used, prune

KILOBYTE = 1000


def project(folder: Path, name: str, days_old: float, marked: bool = True) -> Path:
    """A build of one kilobyte, last used so many days ago."""
    path = folder / name
    path.mkdir(parents=True)
    (path / "firmware.elf").write_bytes(b"x" * KILOBYTE)
    if marked:
        mark_used(path)
    when = time.time() - days_old * DAY_S
    for one in (path / MARK, path) if marked else (path,):
        os.utime(one, (when, when))
    return path


@pytest.mark.parametrize(
    ("most_kilobytes", "gone"),
    [(100, {"ancient", "unmarked"}), (2, {"ancient", "unmarked", "old"}), (0, {"ancient", "unmarked", "old", "week"})],
)
def test_by_age_then_by_size_the_oldest_first(most_kilobytes: int, gone: set[str], tmp_path: Path) -> None:
    for name, days in {"today": 0.5, "week": 7, "old": 20, "ancient": 31}.items():
        project(tmp_path, name, days)
    project(tmp_path, "unmarked", 40, marked=False)
    (tmp_path / "ancient.lock").touch()
    removed = prune(tmp_path, most_bytes=most_kilobytes * KILOBYTE)
    assert {path.name for path in removed} == gone
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        "today",
        "week",
        "old",
        "ancient",
        "unmarked",
    } - gone
    assert (tmp_path / "ancient.lock").exists()


def test_a_build_in_progress_stays(tmp_path: Path) -> None:
    path = project(tmp_path, "ancient", 99)
    with filelock.FileLock(f"{path}.lock"):
        assert prune(tmp_path) == []
    assert prune(tmp_path) == [path]


def now_of_files(folder: Path) -> int:
    """The time that a file written now gets, in nanoseconds."""
    (folder / "now").touch()
    return (folder / "now").stat().st_mtime_ns


def test_a_build_prunes_and_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    projects = tmp_path / "cache" / "projects"
    ancient = project(projects, "ancient", 99)
    begun = now_of_files(tmp_path)
    image = tiny_bench("host", tmp_path, 1).image
    assert not ancient.exists()
    assert image.load_path.is_file()
    assert (image.project_dir / MARK).stat().st_mtime_ns >= begun
    os.utime(image.project_dir / MARK, (0, 0))
    again = tiny_bench("host", tmp_path, 1).image
    assert not again.rebuilt
    second = project(projects, "second", 99)
    tiny_bench("host", tmp_path, 1, outputs=5)
    assert second.exists()  # looked for once a day
    assert (image.project_dir / MARK).stat().st_mtime_ns >= begun
