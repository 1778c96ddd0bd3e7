"""Files that we have written, or that users write for us, with anything in them: refused in one line."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyhil import files
from tinyhil.errors import DataError, HilError
from tinyhil.harness.energy.technology import find_technology
from tinyhil.harness.job.job import open_model
from tinyhil.harness.records.verdict import ISSUES, exit_code_of, gate_line
from tinyhil.harness.settings.bench_file import parse_bench
from tinyhil.harness.settings.config import load_boards, parse_boards
from tinyhil.harness.sweep.file import read_sweep
from tinyhil.language.assignment import load_assignment

TAGGED = (
    *(
        "!!float",
        "!!int",
        '!!int ""',
        "!!bool maybe",
        "!!timestamp x",
        "!!binary é",
        "!!float x",
        "!!int 0b",
        "!!set x",
    ),
    *("!!omap x", "!!null x", "!!merge x", "!!value x", "!!int 1:x", "!!int 0b2", "!!float +"),
    *("!!seq x", "!!map x", "!!str [1]", "!!int [1]", "!!float {a: 1}", "!!timestamp [x]", "!!python/name:os.system"),
    "!x y",
)
STRANGE = (
    "!!float -",
    "!!int -",
    "2026-13-45",
    "0b_",
    "0x_",
    "=",
    "<<",
    "2001-12-14t21:59:43.10+99:99",
    "1:99999999999999999999",
    "{<<: x}",
)


@pytest.fixture(scope="module")
def readers() -> dict[str, tuple[Callable[[Path], Any], str]]:
    boards, graph = load_boards(), open_model("digits_mlp", lambda line: None).model.graph
    return {
        "assignment": (lambda path: load_assignment(path, graph), "default: {}\n"),
        "boards": (lambda path: parse_boards(path.read_text(), path), "boards: {}\n"),
        "bench": (lambda path: parse_bench(path.read_text(), path, boards.names), "boards: {}\n"),
        "sweep": (lambda path: read_sweep(path, boards), "models: {}\n"),
        "technologies": (lambda path: find_technology(None, path), "{}\n"),
    }


@pytest.mark.parametrize("name", ["assignment", "boards", "bench", "sweep", "technologies"])
def test_yaml_tags_are_refused(name: str, readers: dict[str, Any], tmp_path: Path) -> None:
    read, template = readers[name]
    path = tmp_path / "a.yaml"
    for value in (*TAGGED, *STRANGE):
        path.write_text(template.replace("{}", value), encoding="utf-8")
        with pytest.raises(HilError) as refused:
            read(path)
        assert "a.yaml" in str(refused.value) or value in STRANGE, value
        assert (value not in TAGGED) or "tag" in str(refused.value), value


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: issue.code)
def test_exit_codes_of_verdicts(issue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documented in docs/results.md: 1 for every reason to be invalid, 9 after a retry, else 0."""
    import json

    import tinyhil.harness.records.verdict as verdict

    record = json.loads((Path(__file__).parent / "records" / "profile.json").read_text())
    assert (exit_code_of(record), gate_line(record)) == (0, "")
    monkeypatch.setattr(verdict, "ISSUES", (type(issue)(issue.code, issue.severity, "", lambda found: "so"),))
    record["flaky"] = issue.code == "flaky"
    wanted = 1 if issue.severity == "invalid" else 9 if issue.code == "flaky" else 0
    assert exit_code_of(record) == wanted
    assert gate_line(record) == (f"gate failed: uno: tiny is invalid: {issue.code}: so" if wanted == 1 else "")


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    """Bytes changed, arrays left out, of another shape, type or kind; with a right sum of the archive, too."""
    pytest.importorskip("torch")
    from tinyhil.train.checkpoint import Checkpoint, load_checkpoint, require_weights, save_checkpoint

    path, shapes = tmp_path / "c.npz", {"w": (4, 3)}
    weights = {"w": np.ones((4, 3), np.float32)}
    moments = {"exp_avg/w": np.ones((4, 3), np.float32), "step/w": np.float32(3)}
    state = Checkpoint("me", np.zeros((2, 3)), 1.0, np.ones(2), weights, weights, moments, {"o": np.ones(2)})
    save_checkpoint(path, state)
    whole, arrays = path.read_bytes(), dict(np.load(path))
    require_weights(path, load_checkpoint(path, "me"), shapes, "step:")

    def refused(content: bytes) -> bool:
        path.write_bytes(content)
        try:
            require_weights(path, load_checkpoint(path, "me"), shapes, "step:")
        except DataError as error:
            return "c.npz" in str(error)
        return False

    wrong = (np.zeros(3), np.array("x"), np.array([], object), np.zeros((4, 3), np.int64), np.full((2, 3), np.inf))
    for name in arrays:
        for value in (None, *wrong):
            if name.startswith("moment:") and value is None:
                continue  # an optimizer that has not stepped has none
            if name == "epochs" and value is not None and value.shape == (2, 3):
                continue  # the loss before the first epoch is not known
            changed = {key: array for key, array in {**arrays, name: value}.items() if array is not None}
            content = io.BytesIO()
            np.savez(content, **changed)
            assert refused(content.getvalue()) or (name.startswith("end:") and value is None), (name, value)
    chance = random.Random(3)
    for _ in range(200):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            found = load_checkpoint(path, "me")
        except DataError:
            continue
        assert all(np.array_equal(found.latents[name], weights[name]) for name in found.latents)


@pytest.mark.skipif(os.name != "posix", reason="no named pipes")
def test_a_device_or_a_pipe_stays_what_it_is(tmp_path: Path) -> None:
    """Replaced as a file is, /dev/null would be one, for everybody on the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "said")
    assert os.read(reader, 10) == b"said"
    os.close(reader)
    assert pipe.is_fifo()
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]
