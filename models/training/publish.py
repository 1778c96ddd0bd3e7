"""Writes what a zoo folder holds: the ONNX file, its measured float accuracy (model.yaml), its card and its ranges."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import yaml
from onnx import numpy_helper

from models.training.words import DATA, Family
from tinyhil.data import Dataset, load
from tinyhil.errors import ModelError

WEIGHTS_LICENCE = "Weights Apache-2.0, as the project."


@dataclass(frozen=True, slots=True)
class About:
    """What a card says besides what is measured: `facts` are further rows of its table."""

    title: str
    dataset: str
    summary: str
    family: Family
    facts: Mapping[str, str] = field(default_factory=dict)


def publish(folder: Path, proto: onnx.ModelProto, about: About) -> None:
    """Write everything into `folder` and print what was measured."""
    name, data = folder.name, load(about.dataset)
    path = folder / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    correct = correct_of(proto, data)
    manifest = describe(name, proto, data, about, correct)
    (folder / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, width=120, allow_unicode=True))
    (folder / "card.md").write_text(card(name, proto, data, about, correct))
    report = {"model": name, "float_accuracy": correct / len(data.x_test), "n": len(data.x_test)}
    print(json.dumps({**report, "ranges": write_ranges(path, data)}), flush=True)


def correct_of(proto: onnx.ModelProto, data: Dataset) -> int:
    """Test samples that onnxruntime, running the file itself one sample at a time, gets right."""
    import onnxruntime

    assert data.y_test is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    samples = data.x_test.reshape(len(data.x_test), *source.shape)
    labels = np.array([session.run(None, {source.name: x})[0].argmax() for x in samples])
    return int((labels == data.y_test).sum())


def parameters_of(proto: onnx.ModelProto) -> tuple[int, int]:
    """Float constants of the file, those of bodies of loops included, and how many of them are not zero."""
    arrays = [numpy_helper.to_array(t) for t in _constants(proto.graph) if t.data_type == onnx.TensorProto.FLOAT]
    return sum(a.size for a in arrays), int(sum(np.count_nonzero(a) for a in arrays))


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _constants(attribute.g)


def describe(name: str, proto: onnx.ModelProto, data: Dataset, about: About, correct: int) -> dict[str, object]:
    source = proto.graph.input[0]
    return {
        "name": name,
        "onnx": f"{name}.onnx",
        "title": about.title,
        "dataset": about.dataset,
        "task": "classification",
        "input": {"name": source.name, "shape": [dim.dim_value for dim in source.type.tensor_type.shape.dim]},
        "float_accuracy": {
            "value": correct / len(data.x_test),
            "correct": correct,
            "split": "test",
            "n": len(data.x_test),
            "data": data.source,
            "data_sha256": data.sha256,
        },
        "licence": f"{WEIGHTS_LICENCE} Data: {DATA[about.dataset].licence}",
    }


def card(name: str, proto: onnx.ModelProto, data: Dataset, about: About, correct: int) -> str:
    count = len(data.x_test)
    total, used = parameters_of(proto)
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*proto.graph.input, *proto.graph.output)]
    rows = {
        "Float accuracy": f"**{100 * correct / count:.2f} %** ({correct} of {count} test samples, onnxruntime)",
        "Parameters": f"{total:,}" + (f", {used:,} of them not zero" if used < 0.95 * total else ""),
        **about.facts,
        "Input": f"`{proto.graph.input[0].name}` {shapes[0]}",
        "Output": f"`{proto.graph.output[0].name}` {shapes[1]}",
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    words = DATA[about.dataset]
    origin = f'`load("{about.dataset}")`, content hash `{data.sha256[:16]}…`. Licence: {words.licence}'
    return f"""# {name}

{about.summary}

| | |
|---|---|
{table}

## Data
{wrapped(f"{words.text} {origin} The weights are Apache-2.0 as the project.")}

## Architecture
{about.family.architecture.strip(chr(10))}

## Training
{wrapped(about.family.training)}

To train it again: `python models/{name}/train.py` (docs/zoo.md).
"""


def wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 118)


def write_ranges(path: Path, data: Dataset) -> str:
    """Calibrate on the training part; a line that says why not while an operator is missing."""
    from tinyhil.compiler.calibrate import calibrate, save_ranges
    from tinyhil.frontend.onnx import load_onnx

    try:
        model = load_onnx(path)
    except ModelError as error:
        return f"not calibrated: {error}"
    source = {"name": data.name, "source": data.source, "sha256": data.sha256, "split": "train"}
    ranges = calibrate(model.graph, data.x_train, {**source, "samples": len(data.x_train)})
    save_ranges(path.with_name("ranges.json"), ranges, hashlib.sha256(path.read_bytes()).hexdigest())
    return "written"
