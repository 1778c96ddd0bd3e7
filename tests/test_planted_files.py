"""Files that others have planted: in a cache, in a results folder, in the folder where `hil` is called."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hil_command import hil
from sources import nodes, python_files

import tinyhil
from tinyhil import files, native
from tinyhil.errors import BuildError, ConfigError, DataError, HilError
from tinyhil.harness.boards.boot_loader import optiboot
from tinyhil.harness.measure import expected
from tinyhil.harness.measure.parallel import SHARED
from tinyhil.harness.mlperf.submission import logs
from tinyhil.harness.records.partial import PartialRun
from tinyhil.harness.search.cost_table import _append
from tinyhil.native import Library, compiled, default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.journal import Journal
from tinyhil.search.trial import TrialLog

ROOT = Path(__file__).resolve().parent.parent


# ---- folders that others may write to


def open_to_others(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return folder


def of_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if its owner, whoever that is, were not us."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, 54321, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 54321)
    return folder


LOADED: dict[str, Callable[[Path], object]] = {
    "default": lambda cache: default_cache_dir(),
    "engine": load_engine,
    "engine in it": lambda cache: compiled(Library("x", "inner/x", (), ()), "cc", cache.parent, print),
    "boot loader": lambda cache: optiboot(cache.parent),
    "echo": lambda cache: files.own_folder(cache),
}


@pytest.mark.parametrize("what", ["default", "engine", "echo"])
@pytest.mark.parametrize("whose", ["open to others", "of another"])
def test_nothing_is_loaded_from_a_folder_of_others(
    what: str, whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("HIL_CACHE", str(cache))
    open_to_others(cache) if whose == "open to others" else of_another(cache, monkeypatch)
    with pytest.raises(HilError, match="others may write" if whose == "open to others" else "another user") as caught:
        LOADED[what](cache)
    assert "\n" not in str(caught.value)
    assert "chmod -R go-w" in str(caught.value) or "set HIL_CACHE" in str(caught.value)


def test_nor_from_one_within_a_cache_of_ours(tmp_path: Path) -> None:
    open_to_others(tmp_path / "inner")
    with pytest.raises(BuildError, match="others may write"):
        compiled(Library("x", "inner/x", (), ()), "cc", tmp_path, print)
    (tmp_path / "inner").chmod(0o700)
    planted = tmp_path / "inner" / f"x-{native._fingerprint(Library('x', 'inner/x', (), ()), 'cc')}.so"
    planted.write_bytes(b"")
    planted.chmod(0o666)
    with pytest.raises(BuildError, match="others may write"):
        compiled(Library("x", "inner/x", (), ()), "cc", tmp_path, print)


def test_a_command_says_so_in_one_line(tmp_path: Path) -> None:
    cache = open_to_others(tmp_path / "cache")
    done = hil("run", "--board", "host", "--model", "digits_mlp", cwd=tmp_path, HIL_CACHE=str(cache))
    (line,) = done.stderr.splitlines()[-1:]
    assert done.returncode == 2, done.stderr
    assert line.startswith(f"hil: {cache}: others may write to it")
    assert not list(cache.iterdir())


def test_folders_are_made_for_us_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = files.own_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent)] == [0o700, 0o700]
    assert files.own_folder(made) == made


# ---- links and pipes in a results folder


def partial_run(folder: Path) -> None:
    PartialRun(folder, "x")


def trial_log(folder: Path) -> None:
    TrialLog(folder / "trials.jsonl", SimpleNamespace(groups=[]), "")._append({})  # type: ignore[arg-type]


def journal(folder: Path) -> None:
    with Journal(folder / "journal.jsonl") as opened, opened._changing() as append:
        append({})


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "finished samples": ("x.partial.jsonl", partial_run),
    "trials": ("trials.jsonl", trial_log),
    "journal": ("journal.jsonl", journal),
    "lock": ("journal.lock", journal),
    "costs": ("costs.jsonl", lambda folder: _append(folder / "costs.jsonl", {})),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_not_followed(name: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "results"
    victim.write_text("as it was\n")
    folder.mkdir()
    planted, write = WRITERS[name]
    (folder / planted).symlink_to(victim)
    with pytest.raises((HilError, OSError)) as caught:
        write(folder)
    assert "\n" not in str(caught.value)
    assert "symbolic link" in str(caught.value)
    assert victim.read_text() == "as it was\n"


def test_a_log_of_a_submission_is_not_followed(tmp_path: Path) -> None:
    with logs(tmp_path, "due", True, "kws01", ("performance",)) as opened:
        place = Path(opened["performance"].name)
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    place.unlink()
    place.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"), logs(tmp_path, "due", True, "kws01", ("performance",)):
        pass
    assert victim.read_text() == "as it was\n"


def test_an_orphan_that_is_a_link_is_not_adopted(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "x.2.partial.jsonl").symlink_to(victim)
    with pytest.raises(ConfigError, match="symbolic link"):
        PartialRun(folder, "x")
    assert victim.read_text() == "as it was\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.partial.jsonl")
    with pytest.raises(ConfigError, match=r"x\.partial\.jsonl is a pipe"):
        PartialRun(tmp_path, "x")


ELSEWHERE = {  # who writes other than by tinyhil/files.py, and why it may
    "harness/python/api.py": "a temporary folder of its own",
    "harness/cli.py": "os.devnull",
    "harness/build/compile.py": "a project in the cache, which is ours alone",
    "harness/offline/export_sizes.py": "a temporary folder of its own",
    "harness/measure/record.py": "mode x, which takes no link",
    "harness/search/task.py": "a device that the user has named",
    "harness/sweep/farm.py": "the cache",
    "tinyhil/data/fetch.py": "the cache",
    "tinyhil/data/har_download.py": "the cache",
    "tinyhil/files.py": "",
}


SAFETY = ("allow_pickle", "weights_only")


def test_files_are_written_in_one_way_and_nothing_is_unpickled() -> None:
    for name, node in ((str(path.relative_to(ROOT)), node) for path in python_files() for node in nodes(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
            assert not modules & {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve"}, name
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        keywords = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg in SAFETY}
        assert keywords.get("allow_pickle", "False") == "False", name
        if called not in ("write_text", "write_bytes", "open", "load"):
            continue
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else "files"
        writes = called in ("write_text", "write_bytes") and owner != "files"
        writes |= called == "open" and owner != "os" and any(set(t) & set("wax+") and len(t) < 4 for t in texts)
        assert not writes or name in ELSEWHERE, f"{name}:{node.lineno}: use tinyhil.files"
        assert called != "load" or owner != "torch" or keywords.get("weights_only") == "True", name


# ---- what one process leaves for others of its run


def test_what_is_shared_between_boards_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED, str(tmp_path))
    model = tinyhil.load("digits_mlp")
    first = model.run("host", samples=3, formats="fixed8")
    (left,) = (path for path in tmp_path.iterdir() if path.suffix != ".lock")
    content = left.read_bytes()
    assert model.run("host", samples=3, formats="fixed8").raw.outputs == first.raw.outputs
    for damaged in (b"\x80\x04N.", content[:-1], b"", content.replace(b"findings", b"finding_")):
        left.write_bytes(damaged)
        with pytest.raises(DataError, match="not"):
            expected._read(left)
    open_to_others(tmp_path)
    with pytest.raises(ConfigError, match="others may write"):
        model.run("host", samples=3, formats="fixed8")


# ---- modules in the folder where hil is called


def test_a_module_in_the_folder_at_hand_is_not_imported(tmp_path: Path) -> None:
    """Processes of ours are started there: numpy.py of somebody's repository is none of ours."""
    for name in ("numpy", "click", "yaml", "tinyhil", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')\nraise SystemExit(3)\n")
    from tinyhil.harness.search.workers import COMMAND as searching
    from tinyhil.harness.sweep.worker import COMMAND as sweeping

    for command in (searching, sweeping):
        assert command[:2] == (sys.executable, "-P")
        done = subprocess.run(command, cwd=tmp_path, input="", capture_output=True, text=True, check=False)
        assert "RAN" not in os.listdir(tmp_path), done.stderr
