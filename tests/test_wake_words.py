"""The wake word of the zoo and the features before it: step by step as TensorFlow Lite Micro has them."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from export_bench import Exported, OnHost, export
from given_data import data_file

from benchmarks.sound_front_end import audio, differing
from benchmarks.wake_words import board_row_of, ours, program_of, random_rows, theirs
from tests.test_export_boards import on_arm_exported
from tinyhil.codegen.export_kinds import KINDS
from tinyhil.codegen.exported_library import CALLER, STATIC
from tinyhil.codegen.packages import PACKAGES
from tinyhil.frontend.load import load_model
from tinyhil.frontend.ports import Stream
from tinyhil.harness.job.job import Streamed
from tinyhil.harness.job.zoo import STREAM, find_model, pair_name, streaming_names, zoo_names
from tinyhil.harness.offline.export import packed
from tinyhil.memplan.arena.placement import place

MODELS = Path(__file__).parent.parent / "models"
DECLARED_BYTES = 26080  # okay_nabu.json of its authors


def test_their_files_are_those_of_their_authors() -> None:
    assert streaming_names() == ["audio_features", "okay_nabu", "story", "story_small"]
    assert not set(streaming_names()) & set(zoo_names())
    for name in ("audio_features", "okay_nabu"):
        stated = yaml.safe_load((MODELS / name / STREAM).read_text())
        path = find_model(name).path
        assert hashlib.sha256(path.read_bytes()).hexdigest() == stated["sha256"]
        assert stated["sha256"][:16] in (MODELS / name / "card.md").read_text()
        assert f"`{name}`" in (MODELS.parent / "docs" / "zoo.md").read_text()


def test_every_step_is_the_runtime_s() -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    path, rng = find_model("okay_nabu").path, np.random.default_rng(8)
    rows = rng.integers(-128, 128, (60, 3, 40)).astype(np.int8)
    np.testing.assert_array_equal(ours(path, rows), theirs(path, rows))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["due", "nucleo_l4r5", "h747"])
def test_every_step_of_a_thousand_on_a_board(board: str) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    row = board_row_of(find_model("okay_nabu").path, 1000, board)
    assert (row.steps, row.unequal) == (1000, 0)


def test_features_are_the_runtime_s() -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    assert differing(find_model("audio_features").path, audio(10, seed=11)) == 0


@pytest.mark.slow
def test_the_arena_is_less_than_half_of_what_is_declared() -> None:
    plan = place(program_of(find_model("okay_nabu").path, 3)).plan
    assert plan.peak_bytes == plan.lower_bound_bytes == 5009
    assert plan.peak_bytes * 2 <= DECLARED_BYTES


def test_both_are_one_model_by_their_names() -> None:
    source = find_model(pair_name("audio_features", "okay_nabu", 160))
    model = load_model(source.path, Stream(steps=2, then=source.then, hop=source.hop))
    assert model.graph.shapes[model.graph.inputs[0]] == (2, 3, 160)
    assert len(model.notes[0].split(".next")) == 9  # the overlap, the noise, six variables


PUBLISHED = [
    pytest.param(name, marks=(pytest.mark.slow, pytest.mark.data(f"tflite/microwakeword/{name}.tflite")))
    for name in (
        "alexa", "okay_nabu", "v2_alexa", "v2_experiments_hey_peppa_pig", "v2_experiments_okay_computer",
        "v2_hey_jarvis", "v2_okay_nabu", "v2_vad",
    )
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_one_exported_gives_every_step_of_a_thousand(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    path = data_file(f"tflite/microwakeword/{name}.tflite")
    made, rows = export(str(path), "int8", endless=True, streamed=Streamed(steps=2)), random_rows(path, 1000)
    least = {"v2_alexa": 1, "v2_hey_jarvis": 2}.get(name, 4)  # no noise moves these
    assert_every_step(made, rows, theirs(path, rows).reshape(-1), tmp_path, least)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_one_exported_runs_on_emulated_boards(name: str, tmp_path: Path) -> None:
    """Forty steps at a time, beside a main that is not ours; the reference is the runtime's step by step."""
    path = data_file(f"tflite/microwakeword/{name}.tflite")
    made, rows = export(str(path), "int8", streamed=Streamed(steps=40)), random_rows(path, 200)
    for board in ("due", "h747"):
        (tmp_path / board).mkdir()
        on_arm_exported(made, board, rows.reshape(5, -1).astype(np.float32), tmp_path / board)


def assert_every_step(made: Exported, rows: np.ndarray, wanted: np.ndarray, folder: Path, least: int = 4) -> None:
    """The library, fed row by row on this computer, gives these codes (less 128 where they have no sign), `least` of
    them different."""
    library, out, found = OnHost(made, folder), np.zeros(1, np.float32), []
    library.call("begin")
    for row in rows:
        library.call("step", row.reshape(-1).astype(np.float32))
        library.call("finish", out)
        found.append(int(out[0]) - 128)
    np.testing.assert_array_equal(found, wanted)
    assert len(set(found)) >= least


@pytest.mark.slow
@pytest.mark.parametrize("arena", [STATIC, CALLER])
def test_exported_libraries_give_every_step_of_a_thousand(arena: str, tmp_path: Path) -> None:
    """One runs here, fed by three rows of features at a time; what packages of all kinds hold is its source."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    path, made = (
        find_model("okay_nabu").path,
        export("okay_nabu", "int8", endless=True, streamed=Streamed(steps=2), arena=arena),
    )
    rows = random_rows(path, 1000)
    assert_every_step(made, rows, theirs(path, rows).reshape(-1), tmp_path)
    (source,) = (text for name, text in made.files.items() if name.endswith(f"{made.prefix}.cpp"))
    body = source[source.index("\nnamespace") :]
    for kind in KINDS:
        if PACKAGES[kind].own_memory == (arena == CALLER):  # these packages bring the arena themselves
            files = packed(kind, replace(made.library, arena=STATIC), [])
            assert any(body in text for text in files.values()), kind
    if arena == STATIC:
        page = (MODELS.parent / "docs/tutorials/wake_word.md").read_text()
        (sketch,) = (text for text in re.findall(r"```cpp\n(.*?)```", page, re.DOTALL) if made.prefix in text)
        serial = "struct { void begin(long) {} void println(const char *) {} } Serial;\n"
        (tmp_path / "sketch.cpp").write_text(serial + sketch)
        sources = tmp_path / made.prefix / "src"
        flags = ["-std=c++11", "-Wall", "-Werror", "-fsyntax-only", f"-I{sources}"]
        subprocess.run(["g++", *flags, str(tmp_path / "sketch.cpp")], check=True)
