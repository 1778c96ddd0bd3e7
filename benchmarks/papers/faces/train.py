"""Trains `faces.onnx`: SSD's loss on crops of the photos that are not for testing.

    python -m benchmarks.papers.faces.train STEPS CHECKPOINT

From a clean tree. Writes a mean of the weights over the last steps, and what was done to results/papers/; nothing is
selected by looking at held-out photos. A run that was killed goes on behind its last checkpoint. 1,000 steps take two
and a half minutes of one processor. Needs torch.
"""

from __future__ import annotations

import copy
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch.nn import functional

from benchmarks.papers.detection import overlaps
from benchmarks.papers.faces import anchors, networks, photos, write
from benchmarks.papers.faces.net import Detector
from tinyhil.errors import HilError
from tools import measured

CROP = (160, 192)  # height and width of what one step sees of a photo
AROUND_A_FACE = 0.7  # of the crops
BATCH, PEAK_RATE, WEIGHT_DECAY = 16, 4e-3, 1e-3
WARM_UP, LONGEST_GRADIENT = 60, 4.0
ZOOM = (0.75, 2.0)
POSITIVE, NEGATIVE = 0.4, 0.3  # overlap with an anchor; what lies between teaches nothing
MOMENTUM = 0.995  # of the mean of weights, each step
EVERY = 50  # steps between checkpoints


Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # photos, labels, boxes


def crop(picture: torch.Tensor, boxes: np.ndarray, random: np.random.Generator) -> tuple[torch.Tensor, np.ndarray]:
    """Zoomed, cropped (around a face more often than not), mirrored, of another brightness and contrast."""
    zoom = float(np.exp(random.uniform(*np.log(ZOOM))))
    picture = functional.interpolate(picture[None, None], scale_factor=zoom, mode="bilinear", antialias=zoom < 1)[0, 0]
    boxes = boxes * zoom
    corner = []
    centre = boxes[random.integers(len(boxes))].reshape(2, 2).mean(0) if random.random() < AROUND_A_FACE else None
    for axis, side in enumerate(CROP):
        room = picture.shape[axis] - side
        place = random.uniform(min(room, 0), max(room, 0))
        if centre is not None:
            place = float(np.clip(centre[1 - axis] - random.uniform(0.15, 0.85) * side, min(room, 0), max(room, 0)))
        corner.append(round(place))
    top, left = corner
    bottom, right = top + CROP[0] - picture.shape[0], left + CROP[1] - picture.shape[1]
    picture = functional.pad(picture, (-left, right, -top, bottom), value=(114 - photos.GREY) / photos.GAIN)
    boxes = boxes - [left, top, left, top]
    centre_x, centre_y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    boxes = boxes[(centre_x > 0) & (centre_x < CROP[1]) & (centre_y > 0) & (centre_y < CROP[0])]
    if random.random() < 0.5:
        picture = picture.flip(1)
        boxes = np.column_stack([CROP[1] - boxes[:, 2], boxes[:, 1], CROP[1] - boxes[:, 0], boxes[:, 3]])
    return picture * random.uniform(0.7, 1.3) + random.uniform(-0.2, 0.2), boxes


def targets(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each anchor: 1 face, 0 none, -1 says nothing; and what its head shall say of the box."""
    at = anchors.anchors(*CROP)
    label, said = np.zeros(len(at), np.float32), np.zeros((len(at), 4), np.float32)
    if not len(boxes):
        return label, said
    shared = overlaps(_corners(at), boxes)
    nearest = shared.argmax(1)
    best = shared[np.arange(len(at)), nearest]
    label[best > NEGATIVE], label[best > POSITIVE] = -1, 1
    for box, anchor in enumerate(shared.argmax(0)):
        label[anchor], nearest[anchor] = 1, box
    said[:] = anchors.encode(boxes[nearest], at)
    return label, said


def _corners(at: np.ndarray) -> np.ndarray:
    return np.concatenate([at[:, :2] - at[:, 2:] / 2, at[:, :2] + at[:, 2:] / 2], axis=1)


def loss(output: torch.Tensor, label: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    """Focal loss of the scores (Lin et al., ICCV 2017), smooth L1 of the boxes, by the number of faces' anchors."""
    score, is_face = output[..., 0], label > 0
    wrong = functional.binary_cross_entropy_with_logits(score, is_face.float(), reduction="none")
    sure = torch.where(is_face, torch.sigmoid(score), torch.sigmoid(-score))
    scores = ((1 - sure) ** 2 * wrong)[label >= 0].sum()
    boxes = functional.smooth_l1_loss(output[..., 1:][is_face], said[is_face], reduction="sum", beta=1.0)
    return (2 * scores + 0.3 * boxes) / is_face.sum().clamp(min=1)


def batch(data: list[tuple[torch.Tensor, np.ndarray]], random: np.random.Generator) -> Batch:
    made = [crop(*data[int(index)], random) for index in random.choice(len(data), BATCH, replace=False)]
    label, said = zip(*(targets(boxes) for _, boxes in made), strict=True)
    return torch.stack([x for x, _ in made])[:, None], torch.tensor(np.stack(label)), torch.tensor(np.stack(said))


class Training:
    """What goes on from step to step: the network, the mean of its weights, the optimizer."""

    def __init__(self, path: Path) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.net, self.step, self.processor_s = Detector(), 0, 0.0
        self.mean = copy.deepcopy(self.net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), PEAK_RATE, weight_decay=WEIGHT_DECAY)
        self._path = path
        self._parts: dict[str, Any] = {"net": self.net, "mean": self.mean, "optimizer": self.optimizer}
        if path.exists():
            found = torch.load(path, weights_only=True)
            self.step, self.processor_s = found["step"], found["processor_s"]
            for name, part in self._parts.items():
                part.load_state_dict(found[name])

    def save(self) -> None:
        states = {name: part.state_dict() for name, part in self._parts.items()}
        torch.save({**states, "step": self.step, "processor_s": self.processor_s}, self._path)

    def advance(self, given: Batch, rate: float) -> float:
        """One step; its loss."""
        x, label, said = given
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        value = loss(self.net.train()(x), label, said)
        self.optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), LONGEST_GRADIENT)
        self.optimizer.step()
        self.step += 1
        keep = min(MOMENTUM, self.step / (self.step + 20))
        with torch.no_grad():
            for old, new in zip(self.mean.state_dict().values(), self.net.state_dict().values(), strict=True):
                old.copy_(old * keep + new * (1 - keep) if old.is_floating_point() else new)
        return float(value.detach())


def train(steps: int, path: Path) -> None:
    source = measured.provenance()
    data = [(torch.tensor(photos.inputs([index])[0]), photos.faces(index)) for index in photos.to_train()]
    training, losses = Training(path), []
    while training.step < steps:
        begin = time.process_time()
        rate = PEAK_RATE * min(1.0, (training.step + 1) / WARM_UP, 1.02 - training.step / steps)
        losses.append(training.advance(batch(data, np.random.default_rng(training.step)), rate))
        training.processor_s += time.process_time() - begin
        if training.step % EVERY == 0 or training.step == steps:
            print(f"step {training.step}: {np.mean(losses[-EVERY:]):.3f}", flush=True)
            training.save()
    onnx.save(write.detector(weights(training.mean.eval()), photos.HEIGHT, photos.WIDTH), networks.FILE)
    measured.write(networks.TRAINING, source, _record(training))


def _record(training: Training) -> dict[str, Any]:
    """What the page says of these weights."""
    return {
        "steps": training.step,
        "crops": BATCH,
        "crop": CROP,
        "processor_s": round(training.processor_s),
        "sha256": networks.sha256(),
    }


def weights(net: Any) -> dict[str, np.ndarray]:
    """Of a Detector, as write.py takes them: batch normalisation in the convolutions before it."""
    found = {"first_w": net.first.weight, "first_b": net.first.bias}
    for number, cell in enumerate((net.pool.sweep, net.pool.summary), 1):
        found |= {f"W{number}": cell.w, f"U{number}": cell.u, f"B{number}": torch.stack([cell.b_g, cell.b_h])}
    for number, (stage, head) in enumerate(zip(net.stages, net.heads, strict=True)):
        for place, block in enumerate(stage):
            convolutions = (block.expand, block.depthwise, block.project)
            for part, layer, norm in zip(("expand", "depth", "project"), convolutions, block.norms, strict=True):
                gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
                found[f"block{number}{place}_{part}_w"] = layer.weight * gain[:, None, None, None]
                found[f"block{number}{place}_{part}_b"] = norm.bias - norm.running_mean * gain
        found |= {f"head{number}_w": head.weight, f"head{number}_b": head.bias}
    return {name: array.detach().numpy().astype(np.float32) for name, array in found.items()}


if __name__ == "__main__":
    try:
        train(int(sys.argv[1]), Path(sys.argv[2]))
    except HilError as error:
        sys.exit(f"train: {error}")
