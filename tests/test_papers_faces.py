"""The detector of faces: one network in torch, in strips and layer by layer; boxes and numbers of heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import load, samples_for

from benchmarks.papers.detection import overlaps
from benchmarks.papers.faces import PAPER, anchors, networks, photos, scores, write
from tinyhil.references.evaluate import evaluate

HEIGHT, WIDTH = 64, 96


def test_the_file_holds_what_its_weights_give() -> None:
    held = onnx.load(networks.FILE)
    assert write.detector(networks.weights(), photos.HEIGHT, photos.WIDTH) == held
    assert networks.FILE.stat().st_size < 300_000


@pytest.mark.parametrize("in_strips", [True, False])
def test_onnx_is_the_network_that_was_trained(in_strips: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.papers.faces.net import Detector
    from benchmarks.papers.faces.train import weights

    torch.manual_seed(1)
    net = Detector().eval()
    x = samples_for((1, HEIGHT, WIDTH), 2)
    wanted = net(torch.tensor(x)).detach().numpy()
    graph = load(write.detector(weights(net), HEIGHT, WIDTH, in_strips), tmp_path)
    for output, said in zip(evaluate(graph, x), wanted, strict=True):
        assert np.abs(anchors.by_anchor(output, HEIGHT, WIDTH) - said).max() < 1e-4


def test_decoding_is_the_inverse_of_encoding() -> None:
    at = anchors.anchors(HEIGHT, WIDTH)
    random = np.random.default_rng(0)
    corner = random.uniform(0, 60, (len(at), 2))
    boxes = np.concatenate([corner, corner + random.uniform(2, 90, (len(at), 2))], axis=1)
    assert np.allclose(anchors.decode(anchors.encode(boxes, at), at), boxes)


@pytest.mark.data("large/faces_qvga_jpeg.npz")
def test_heads_that_are_right_find_nearly_all_faces() -> None:
    """What is lost: faces that share their nearest anchor, and those that others hide."""
    chosen = photos.held_out()
    at = anchors.anchors(photos.HEIGHT, photos.WIDTH)
    corners = np.concatenate([at[:, :2] - at[:, 2:] / 2, at[:, :2] + at[:, 2:] / 2], axis=1)
    order = anchors.by_anchor(np.arange(len(at) * anchors.NUMBERS), photos.HEIGHT, photos.WIDTH)
    outputs = np.full((len(chosen), order.size), -10.0)
    for output, index in zip(outputs, chosen, strict=True):
        faces = photos.faces(index)
        nearest = overlaps(corners, faces).argmax(0)
        output[order[nearest, 0]] = 5
        output[order[nearest, 1:]] = anchors.encode(faces, at[nearest])
    count = sum(len(photos.faces(index)) for index in chosen)
    of = photos.about()
    assert of["photos"] == len(chosen) + len(photos.to_train())
    assert (of["tested"], of["tested_faces"]) == (len(chosen), count)
    assert f"({len(chosen)}, {count} faces)" in PAPER.body({"float": {"photos": 0, "ap": 0, "of": of}})
    assert scores.precision(outputs, chosen) > 90
    assert scores.decisions(networks.graph(), outputs).sum(1).max() > 20
