"""Models that speak: letters as onnxruntime draws them, texts equal wherever integers are, prompts that go wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from export_bench import OnHost, export
from kernel_cases import Case, run_natively
from onnx import numpy_helper

from models.training.teller import DRAWS, GENERATORS, MOST_SEED, Teller, teller
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.frontend.ports import Stream
from tinyhil.harness.job.inputs import load_inputs
from tinyhil.harness.job.job import Streamed, open_model
from tinyhil.harness.job.prompts import OWN, text_of
from tinyhil.harness.job.zoo import find_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.ops.placed import PLACE_AT
from tinyhil.ops.scan import COPY
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference

NAME, STEPS = "story_small", 72  # the ring of 64 is gone round
HEADS = 4


def by_onnxruntime(sample: np.ndarray) -> list[int]:
    """The letters of a sample (steps, 3), step by step."""
    session = onnxruntime.InferenceSession(find_model(NAME).path, providers=["CPUExecutionProvider"])
    kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    states = {one.name: np.zeros(one.shape, kinds[one.type]) for one in session.get_inputs()[3:]}
    names, letters = [one.name for one in session.get_outputs()], []
    for row in sample.astype(np.int64):
        given = dict(zip(("letter", "seed", "temperature"), row[:, None], strict=True))
        found = dict(zip(names, session.run(None, {**given, **states}), strict=True))
        states = {name: found[name.replace("past", "present")] for name in states}
        letters.append(int(found["text"][0]))
    return letters


def test_float_letters_are_onnxruntime_s() -> None:
    opened = open_model(NAME, None, Streamed(steps=STEPS))
    x = load_inputs(opened.source, None, 2, opened.model).x
    found = evaluate(opened.model.graph, x).reshape(2, STEPS)
    for sample, letters in zip(x, found, strict=True):
        assert letters.astype(int).tolist() == by_onnxruntime(sample)
    text = text_of(opened.source, x[0], found[0].astype(int).tolist())
    assert text.startswith("Once upon a time there was a ")
    assert len(text) == STEPS + 1


@pytest.mark.parametrize("fmt", ["int8", "fixed16"])
def test_an_exported_library_tells_the_reference_s_tale(fmt: str, tmp_path: Path) -> None:
    opened = open_model(NAME, None, Streamed(steps=STEPS))
    x = load_inputs(opened.source, None, 1, opened.model).x
    program = lower(opened.model.graph, Assignment(fmt), opened.required_ranges(None))
    placed = [op.output for op in walk(program.body) if op.kernel == PLACE_AT.form]
    assert placed == ["past_key_0", "past_value_0", "past_key_1", "past_value_1"]  # the states themselves
    assert not [op for op in walk(program.body) if op.kernel == COPY.form and op.output in placed]
    codes, _ = quantize_inputs(program, x)
    wanted = run_reference(program, codes).outputs[0].tolist()
    library, letters, out = OnHost(export(NAME, fmt, endless=True), tmp_path), [], np.zeros(1, np.float32)
    library.call("begin")
    for row in x[0]:
        library.call("step", np.ascontiguousarray(row))
        library.call("finish", out)
        letters.append(int(out[0]))
    assert letters == wanted


ARDUINO = """#include <cstdio>
#include <cstdlib>
static int left = {letters};
static struct Monitor {
    void begin(long) {}
    void print(char letter) {
        putchar(letter);
        if (--left == 0) exit(0);
    }
    void print(const char *text) { print(*text); }
} Serial;
"""
MAIN = "\nint main() {\n    setup();\n    for (;;) loop();\n}\n"


def test_the_arduino_sketch_writes_the_reference_s_tale(tmp_path: Path) -> None:
    """With a stand-in for Arduino's serial monitor on this machine; a Cortex-M3's compiler takes it, too."""
    exported = export(NAME, "fixed8", kind="arduino", endless=True)
    x = exported.prefix
    sketch = exported.files[f"{x}/examples/{x}_sensor/{x}_sensor.ino"]
    sources = exported.write(tmp_path)
    (tmp_path / "sketch.cpp").write_text(ARDUINO.replace("{letters}", str(STEPS + 1)) + sketch + MAIN)
    files = [tmp_path / "sketch.cpp", sources / f"{x}.cpp"]
    due = ["arm-none-eabi-g++", "-mcpu=cortex-m3", "-mthumb", "-std=gnu++11", "-Os", "-Wall", "-Werror", "-c"]
    subprocess.run([*due, f"-I{sources}", files[0], "-o", tmp_path / "due.o"], check=True)
    subprocess.run(["g++", "-std=gnu++11", "-O1", "-Wall", f"-I{sources}", *files, "-o", tmp_path / "tale"], check=True)
    tale = subprocess.run([tmp_path / "tale"], capture_output=True, text=True, timeout=120, check=True).stdout

    opened = open_model(NAME, None, Streamed(steps=STEPS))
    (tmp_path / "p.txt").write_text("Once upon a time \n")
    sample = load_inputs(opened.source, tmp_path / "p.txt", None, opened.model).x
    program = lower(opened.model.graph, Assignment("fixed8"), opened.required_ranges(None))
    letters = run_reference(program, quantize_inputs(program, sample)[0]).outputs[0]
    assert tale == text_of(opened.source, sample[0], letters.tolist())
    assert tale.startswith("Once upon a time ")


def _scores(path: Path, steps: int, seen: np.ndarray, fmt: str) -> Program:
    """The model whose results are its last step's scores, not a letter, over so many steps."""
    weights = {one.name: numpy_helper.to_array(one) for one in onnx.load(find_model(NAME).path).graph.initializer}
    angles = np.arctan2(weights["sines"], weights["cosines"])
    layers = sum(name.startswith("query.") for name in weights)
    onnx.save(teller(Teller(NAME, HEADS, layers, weights, angles), "logits"), path)
    short = load_onnx(path, Stream(steps=seen.shape[1])).graph
    found = calibrate(short, seen, {})
    return lower(load_onnx(path, Stream(steps=steps)).graph, Assignment(fmt), found)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ["int8", "fixed8", "fixed16"])
def test_ten_thousand_steps_leave_no_trace_in_the_caches(fmt: str, tmp_path: Path) -> None:
    """Two layers look back at twice the ring: whatever 10,048 letters were heard before, three rings of letters after
    them give the same scores to the bit."""
    ring, before = 64, 157 * 64
    after = 3 * ring
    draws = np.random.default_rng(3)
    sample = np.ones((before + after, 3), np.float32)
    sample[:, 0], sample[:, 2] = draws.integers(0, 64, len(sample)), 70
    seen = sample[: 8 * 2 * ring].reshape(8, 2 * ring, 3)
    cases = []
    for steps in (after, before + after):
        program = _scores(tmp_path / "scores.onnx", steps, seen, fmt)
        codes, _ = quantize_inputs(program, sample[None, -steps:])
        cases.append(Case(str(steps), program, codes))
    fresh, late = run_natively(cases, tmp_path, "-O2").outputs
    assert len(np.unique(fresh)) > 20
    np.testing.assert_array_equal(fresh, late)


def test_generators_are_fair_and_slow_to_repeat() -> None:
    """Seen from outside, by whole numbers of Python: 64 letters are no cycle, and all draws are as likely."""
    states, counts, seen = dict.fromkeys(GENERATORS, 5), np.zeros(DRAWS, int), set[tuple[int, ...]]()
    for _ in range(40_000):
        states = {name: (states[name] * factor + 1) % modulus for name, (modulus, factor) in GENERATORS.items()}
        seen.add(tuple(states.values()))
        counts[sum(states.values()) % DRAWS] += 1
    assert len(seen) == 40_000
    assert min(modulus for modulus, _ in GENERATORS.values()) > MOST_SEED + 63
    expected = 40_000 / DRAWS
    assert ((counts - expected) ** 2 / expected).sum() < 200  # chi squared of 127 degrees: above in one of 40,000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line that is a prompt"),
        ("Once\nüber", "line 2: the model knows no letter 'ü'; it knows !'\\(\\),-.:;\\?ABC"),
        ("a" * STEPS, f"line 1 has {STEPS} letters, a sample has {STEPS} steps"),
    ],
)
def test_prompts_that_go_wrong(text: str, words: str, tmp_path: Path) -> None:
    opened = open_model(NAME, None, Streamed(steps=STEPS))
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(DataError, match=words):
        load_inputs(opened.source, tmp_path / "p.txt", None, opened.model)
    digits = open_model("digits_mlp")
    with pytest.raises(DataError, match="prompts are for models that speak"):
        load_inputs(digits.source, tmp_path / "p.txt", None, digits.model)


def test_lines_are_samples(tmp_path: Path) -> None:
    opened = open_model(NAME, None, Streamed(steps=STEPS))
    (tmp_path / "p.txt").write_text("A king\n\nA cat\n")
    x = load_inputs(opened.source, tmp_path / "p.txt", None, opened.model).x
    assert x.shape == (2, STEPS, 3)
    assert (x[:, 0, 1:] == [[1, 70], [2, 70]]).all()
    assert [int((sample[:, 0] != OWN).sum()) for sample in x] == [6, 5]
