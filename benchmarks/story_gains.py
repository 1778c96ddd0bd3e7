"""What `hil search` and `hil train` gain on a teller of tales: python -m benchmarks.story_gains [--only search | train]

It takes what the zoo's story_small computes of letters that are given, without the dice: logits, with the letters that
follow as labels of every step. Perplexities are those of the integer reference on the windows held out that the models'
cards are measured on. `search`: formats of 8 and 16 bits within `RAM` bytes of arena, by decisions of every letter on
windows of the text trained on; `train`: weights of 4 bits. Prints perplexities. `train` needs the extra of that name.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.quiet import quiet
from models.training.tales import Shape, split_text
from models.training.tales_published import CALIBRATED, MEASURED, loop, perplexity, windows
from models.training.teller import Teller, teller
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.harness.python import calls
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.train.session import TrainRequest
from tinyhil.language.assignment import Assignment, load_assignment
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tools.measured import ROOT

MODEL, SHAPE = ROOT / "models" / "story_small" / "story_small.onnx", Shape(48, 2, 4, 64, 96)
WEIGHTS = "fixed4pc"  # 4 bits, a scale for each output
TRAINED, HELD_OUT = 400, 64  # windows
EPOCHS, BATCH = 1, 32
RAM, FORMATS, SEARCHED, EVALUATIONS = 14_500, ("fixed8", "fixed16"), 48, 40
SEED = 0


def telling(path: Path, shape: Shape) -> Teller:
    """A teller of the zoo, by the weights of its file."""
    weights = {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    known = {"embedding", "head"} | {
        name for name in weights if name.rpartition(".")[2].isdigit() and weights[name].ndim == 2
    }
    return Teller(path.stem, shape.heads, shape.layers, {k: weights[k] for k in known}, shape.angles.astype(np.float32))


def guesser(made: Teller) -> onnx.ModelProto:
    """The step of a letter that is given to logits: no letter of its own, no dice."""
    proto = teller(made, "logits")
    graph = proto.graph
    for node in graph.node:
        if node.output[0] == "fed":
            node.CopyFrom(helper.make_node("Identity", ["letter"], ["fed"], "fed"))
    outputs = [one for one in graph.output if "said" not in one.name and "random" not in one.name]
    wanted = {one.name for one in outputs}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            wanted |= set(node.input)
            nodes.insert(0, node)
    inputs = [one for one in graph.input if one.name in wanted]
    constants = [one for one in graph.initializer if one.name in wanted]
    made_graph = helper.make_graph(nodes, graph.name, inputs, outputs, constants)
    return helper.make_model(made_graph, ir_version=proto.ir_version, opset_imports=proto.opset_import)


def letters(part: np.ndarray, window: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` windows (count, window, 1) of a text, and the letters that follow each of theirs."""
    x, y = windows(part, window, count)
    return x[:, :, :1], y


def perplexity_of(path: Path, assignment: Assignment | Path) -> float:
    """Of a letter held out, by the integer reference."""
    graph = loop(path, SHAPE.window)
    if isinstance(assignment, Path):
        assignment = load_assignment(assignment, graph)
    seen, _ = letters(split_text()[0], SHAPE.window, CALIBRATED)
    x, y = letters(split_text()[1], SHAPE.window, MEASURED)
    program = lower(graph, assignment, calibrate(graph, seen, {"name": "tales", "samples": CALIBRATED}))
    codes, _ = quantize_inputs(program, x)
    return perplexity(dequantize_outputs(program, run_reference(program, codes).outputs), y)


def data(folder: Path, count: int) -> tuple[Path, Path]:
    """Windows of the text trained on, and held out ones, with the letters behind each of theirs."""
    paths = []
    for name, part, number in (("train", split_text()[0], count), ("held", split_text()[1], HELD_OUT)):
        x, y = letters(part, SHAPE.window, number)
        paths.append(folder / f"{name}.npz")
        np.savez(paths[-1], x=x, y=y)
    return paths[0], paths[1]


def search(model: Path, folder: Path) -> None:
    """Formats within a limit of RAM that neither of them keeps with all that the other has."""
    files = data(folder, SEARCHED)
    for file in files:
        np.savez(file, x=np.load(file)["x"])  # letters to decide as the float model does
    request = SearchRequest(
        str(model),
        arena=RAM,
        formats=",".join(FORMATS),
        evaluations=EVALUATIONS,
        samples=SEARCHED,
        inputs=files[0],
        held_out=files[1],
        results=folder / "results",
    )
    found = calls.search(request, None, quiet, lambda trial, best: None)
    for one in found.record["uniform"]:
        print(
            f"{one['format']}: perplexity {perplexity_of(model, Assignment(one['format'])):.3f}, {one['arena_bytes']} B"
        )
    gained = perplexity_of(model, Path(found.record["assignment_file"]))
    print(f"hil search within {RAM} B: perplexity {gained:.3f}, {found.record['arena_bytes']} B", flush=True)


def train(model: Path, folder: Path) -> None:
    """The weights of 4 bits, rounded and trained."""
    given, held_out = data(folder, TRAINED)
    tuned = folder / "tuned.onnx"
    request = TrainRequest(str(model), tuned, given, held_out, WEIGHTS, epochs=EPOCHS, batch=BATCH, seed=SEED)
    found = calls.train(request, quiet, lambda epoch: print(epoch, flush=True))
    for name, path in (("rounded", model), ("trained", tuned)):
        print(f"{WEIGHTS} {name}: perplexity {perplexity_of(path, Assignment(WEIGHTS)):.3f}", flush=True)
    print(f"hil train: {found.cpu_seconds:.0f} s of a processor, {TRAINED} windows, {EPOCHS} epochs, seed {SEED}")


def main() -> None:
    """One of both, or both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("search", "train"))
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / f"{MODEL.stem}.onnx"
        onnx.save(guesser(telling(MODEL, SHAPE)), model)
        for gain in (search, train):
            if only in (None, gain.__name__):
                gain(model, Path(folder))


if __name__ == "__main__":
    main()
