"""`hil watch`: what it says of a bench, and its page in a real browser; who may run something, and who may not."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import browser, chromium
from hil_command import hil, wait_until
from test_report_looks import AXE, CUT, LOOKS, faults

from tinyhil.errors import ConfigError
from tinyhil.harness.boards.locate import locate
from tinyhil.harness.boards.locks import LockFolder
from tinyhil.harness.records.figures import CANDIDATES
from tinyhil.harness.settings.bench_file import Bench, Instance, Locks
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.sweep.work import FINISHED
from tinyhil.harness.watch.jobs import words_of
from tinyhil.harness.watch.snapshot import snapshot

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "tests" / "records" / "profile.json"
RUN = ("run", "--board", "host", "--model", "digits_mlp", "--samples", "4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with a record of a run on the host, one of the profile, one that is none and has a long name, a
    run unfinished, and what a sweep writes beside the records of its cells."""
    assert hil(*RUN, cwd=tmp_path).returncode == 0
    results = tmp_path / "results"
    shutil.copy(PROFILE, results / "profile.json")
    (results / f"bad_{'0123456789abcdef' * 4}.json").write_text("{")
    (results / "sweep" / "0085a578").mkdir(parents=True)
    (results / "sweep" / "0085a578" / FINISHED).write_text("{}")
    (results / "x.partial.jsonl").write_text("{}\n{}\n")
    return tmp_path


def test_a_snapshot_says_who_has_a_board_and_what_was_measured(folder: Path) -> None:
    locks = Locks(folder=str(folder / "locks"))
    ends = os.openpty()
    bench = Bench(boards={"left": Instance(board="due", port=os.ttyname(ends[1]))}, locks=locks)
    boards = load_boards().model_copy(update={"bench": bench})
    with LockFolder(locks).hold(locate(boards, "left").lock_names, "left", 0, print):
        found = snapshot(boards, folder / "results")
    for end in ends:
        os.close(end)
    states = {one["name"]: one["state"] for one in found["boards"]}
    assert states["left"] == "busy"
    assert states["uno"] == "emulated"
    assert [(one["file"], one["samples"]) for one in found["running"]] == [("x.partial.jsonl", 2)]
    assert len(found["records"]) == 3
    by_title = {one.get("title"): one for one in found["records"]}
    assert by_title["digits_mlp on host, fixed16"]["command"] == "hil " + " ".join(RUN)
    assert by_title["tiny on uno, fixed16"]["verdict"] == "valid"
    assert by_title[None]["verdict"] == "unreadable"
    assert snapshot(load_boards(), folder / "none")["records"] == []


def test_candidates_of_searches_are_not_shown(folder: Path) -> None:
    """They pushed the user's own runs out of the list."""
    results, (own,) = folder / "results", [*(folder / "results" / "host").rglob("*.json")]
    below = results / "search" / "digits_mlp" / CANDIDATES / "host"
    below.mkdir(parents=True)
    for number in range(20):
        (below / f"{number}.json").write_bytes(own.read_bytes())
    assert len(snapshot(load_boards(), results)["records"]) == 3
    assert len(snapshot(load_boards(), below)["records"]) == 12


def test_in_the_terminal(folder: Path) -> None:
    printed = hil("watch", "--all", cwd=folder).stdout
    for words in ("Boards", "uno", "x.partial.jsonl", "digits_mlp runs on this computer and is right", "unreadable"):
        assert words in printed
    assert json.loads(hil("watch", "--json", cwd=folder).stdout)["complete"] is True


@pytest.mark.parametrize(
    "command", ["rm -rf x", "hil flash --board uno", "hil golden update", "hil", "python -c 1", "hil 'run", ""]
)
def test_only_commands_that_measure_are_run_again(command: str) -> None:
    with pytest.raises(ConfigError, match="only `hil run`"):
        words_of(command)


@pytest.fixture(params=[(), ("--runs",)], ids=["read-only", "runs"])
def page_address(folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    command = [sys.executable, "-m", "tinyhil.harness.cli", "watch", "--page", *request.param]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.terminate()
    assert process.wait(20) == 130
    process.stdout.close()


def asked(address: str, method: str, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    found = re.match(r"http://(127\.0\.0\.1):(\d+)/", address)
    assert found is not None
    link = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = json.dumps({"file": "profile.json"}) if method == "POST" else None
    link.request(method, path, body, named)
    answer = link.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


def test_who_may_read_and_who_may_run(page_address: str) -> None:
    token = page_address.partition("#token=")[2]
    code, body, headers = asked(page_address, "GET", "/state.json")
    assert code == 200
    assert json.loads(body)["runs"] is bool(token)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert asked(page_address, "GET", "/state.json", Host="evil.example")[0] == 421  # a name that leads here
    assert asked(page_address, "GET", "/../../etc/passwd")[0] == 404
    assert asked(page_address, "POST", "/again")[0] == 403
    assert asked(page_address, "POST", "/again", X_Hil_Token="x" * 32)[0] == 403
    assert asked(page_address, "POST", "/other", X_Hil_Token=token or "x")[0] == (404 if token else 403)
    assert json.loads(asked(page_address, "GET", "/state.json")[1])["jobs"] == []


@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
def test_in_a_browser(page_address: str, folder: Path) -> None:
    """At two widths and in both schemes; where runs are allowed, the button measures again."""
    token = page_address.partition("#token=")[2]
    with browser() as page:
        for width, dark in LOOKS:
            page.visit(page_address, width, dark)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT) == []
            assert "digits_mlp runs on this computer" in page.evaluate("document.body.innerText")
            page.evaluate("document.querySelector('#every:not(:checked)')?.click(); 0")
            assert page.evaluate("document.querySelectorAll('#boards .multiple').length") >= 10
            assert not AXE.is_file() or faults(page) == [], (width, dark)
        assert page.errors == []
        buttons = page.evaluate("[...document.querySelectorAll('button.again')].map(b => b.ariaLabel)")
        assert bool(buttons) is bool(token)
        if not token:
            return
        page.evaluate("window.confirm = (said) => { window.asked = said; return true; }; 0")
        again = f"run again: hil {' '.join(RUN)}"
        page.evaluate(f"document.querySelector('[aria-label={json.dumps(again)}]').click(); 0")
        wait_until(lambda: "ended with 0: hil run" in page.evaluate("document.getElementById('jobs').innerText"))
        assert page.evaluate("window.asked").endswith("hil " + " ".join(RUN))
        assert len(list((folder / "results/host/digits_mlp").glob("*.json"))) == 2
