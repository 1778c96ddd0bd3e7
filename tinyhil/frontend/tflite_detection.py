"""TFLite_Detection_PostProcess of a .tflite file: boxes around anchors, of which those that overlap a better one go.

One step for each detection: the best score that is left, its box, and no more scores of what overlaps it (of its class
alone where `use_regular_nms`). As many steps as `max_detections`, whatever is seen; rows of what is not found are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.tflite_moves import shaped
from tinyhil.frontend.tflite_reader import Reader
from tinyhil.frontend.tflite_records import Operation

MOST_DETECTIONS = 1000


@dataclass(frozen=True, slots=True)
class Write:
    """Adds operators whose names begin with `stem`; arrays are constants."""

    reader: Reader
    stem: str

    def __call__(self, op: str, *operands: str | np.ndarray | float, **attrs: Any) -> str:
        names = [self.of(operand) for operand in operands]
        return self.reader.add(op, *names, out=f"{self.stem}.{op.lower()}", **attrs)

    def of(self, operand: str | np.ndarray | float) -> str:
        """The name of an operand."""
        if isinstance(operand, str):
            return operand
        return self.reader.number(self.stem, "n", np.asarray(operand, np.float32))

    def part(self, value: str, begin: int, end: int, axis: int = 1) -> str:
        """Columns of a matrix."""
        ends = [self.reader.number(self.stem, "at", np.array([at], np.int64)) for at in (begin, end, axis)]
        return self("Slice", value, *ends)

    def row(self, value: str, index: str) -> str:
        """The row that `index` () chooses at run time."""
        return self("Gather", value, index, axis=0)

    def shaped(self, value: str, *shape: int) -> str:
        """`value` with another shape."""
        return shaped(self.reader, value, shape, f"{self.stem}.shaped")


def detections(reader: Reader, operation: Operation) -> None:
    """Boxes (1, M, 4), classes (1, M), scores (1, M) and their number (1). ModelError for what is refused, ValueError
    in a damaged file."""
    o, write = operation.options, Write(reader, reader.name(operation.outputs[0]))
    encoded, scores, anchors = (reader.file.tensors[number] for number in operation.inputs)
    most, classes = int(o["max_detections"]), int(o["num_classes"])
    if anchors.data is None or {encoded.kind, scores.kind, anchors.kind} != {"float32"}:
        raise reader.refuse(operation, "boxes of integers, or anchors computed at run time,")
    count, width = scores.shape[1:]
    fits = (encoded.shape[:2], anchors.shape, scores.shape[0]) == ((1, count), (count, 4), 1)
    if not fits or not 0 < most <= MOST_DETECTIONS or not 0 < classes <= width:
        raise ValueError(f"{most} detections of {classes} classes, boxes {encoded.shape}, scores {scores.shape}")
    if not 0 < float(o["nms_iou_threshold"]) <= 1:
        raise reader.refuse(operation, f"an overlap of {o['nms_iou_threshold']:g}")
    if not o["use_regular_nms"] and int(o["max_classes_per_detection"]) != 1:
        raise reader.refuse(operation, "several classes of one detection")
    if o["use_regular_nms"] and int(o["detections_per_class"]) < min(most, count):
        raise reader.refuse(operation, "a limit for each class below that of all")
    boxes = _boxes(write, write.shaped(reader.value(operation.inputs[0]), *encoded.shape[1:]), anchors.data, o)
    real = write.part(write.shaped(reader.value(operation.inputs[1]), count, width), width - classes, width)
    found = _suppressed(write, boxes, real, o)
    for index, value in enumerate(found):
        number = operation.outputs[index]
        reader.finish(operation, write.shaped(value, *reader.file.tensors[number].shape), index=index)


def _boxes(write: Write, encoded: str, anchors: np.ndarray, o: Mapping[str, Any]) -> str:
    """(anchors, 4): least y and x, largest y and x, of distances and logarithms of sizes relative to anchors."""
    scale = [np.array([o[f"{name}_scale"] for name in names], np.float32) for names in ("yx", "hw")]
    if not all((part > 0).all() for part in scale):
        raise ValueError(f"scales {scale} of boxes")
    middle = write("Mul", write.part(encoded, 0, 2), anchors[:, 2:] / scale[0])
    middle = write("Add", middle, anchors[:, :2])
    half = write("Exp", write("Mul", write.part(encoded, 2, 4), np.divide(1, scale[1])))
    half = write("Mul", half, anchors[:, 2:] / 2)
    return write("Concat", write("Sub", middle, half), write("Add", middle, half), axis=1)


def _suppressed(write: Write, boxes: str, scores: str, o: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Boxes, classes, scores of the best ones, and how many there are."""
    builder, most, is_regular = write.reader.builder, int(o["max_detections"]), bool(o["use_regular_nms"])
    count, classes = builder.shapes[scores]
    least = float(o["nms_score_threshold"])
    if is_regular:
        rows, labels = write("Transpose", scores, perm=(1, 0)), ""
    else:
        rows = write("ReduceMax", scores, axes=[1], keepdims=0)
        labels = write("ArgMax", scores, axis=1, keepdims=0)
    rows = write.shaped(rows, classes if is_regular else 1, count)
    rows = write("Where", write("GreaterOrEqual", rows, least), rows, least - 1)
    sides = [write("Sub", write.part(boxes, at + 2, at + 3), write.part(boxes, at, at + 1)) for at in range(2)]
    areas = write.shaped(write("Mul", *sides), count)
    label = _label(write, labels, builder.shapes[rows])

    def body(names: tuple[str, ...]) -> tuple[str, ...]:
        left, _ = names
        return _step(write, left, (boxes, areas), label, o)

    steps = builder.constant(f"{write.stem}.steps", np.zeros((most, 1), np.float32))
    wishes = (f"{write.stem}.left", f"{write.stem}.step")
    outputs = tuple(f"{write.stem}.{part}" for part in ("rest", "boxes", "classes", "scores", "found"))
    call = Call("Scan", f"{write.stem}.detections", (rows, steps), outputs, {"num_scan_inputs": 1})
    _, *found = builder.loop(call, wishes, body)
    number = write("ReduceSum", found[3], write.reader.number(write.stem, "axis", np.array([0, 1])), keepdims=0)
    return found[0], found[1], found[2], number


Label = Callable[[str], tuple[str, str]]


def _label(write: Write, labels: str, shape: tuple[int, ...]) -> Label:
    """From a place among all scores to an anchor and a class."""
    classes, count = shape

    def chosen(place: str) -> tuple[str, str]:
        if labels:
            return place, write.row(labels, place)
        anchors, numbers = np.tile(np.arange(count), classes), np.repeat(np.arange(classes), count)
        return write.row(write.of(anchors), place), write.row(write.of(numbers), place)

    return chosen


def _step(
    write: Write, left: str, sizes: tuple[str, str], label: Label, o: Mapping[str, Any]
) -> tuple[str, str, str, str, str]:
    """The scores that are left after the best one, and its box, class, score and whether it counts."""
    (boxes, areas), least = sizes, float(o["nms_score_threshold"])
    classes, count = write.reader.builder.shapes[left]
    flat = write.shaped(left, classes * count)
    place = write.shaped(write("ArgMax", flat, axis=0, keepdims=0))
    anchor, number = label(place)
    score, box = write.row(flat, place), write.row(boxes, anchor)
    gone = _overlaps(write, boxes, areas, (box, write.row(areas, anchor)), float(o["nms_iou_threshold"]))
    gone = write("Or", gone, write("Equal", write.of(np.arange(count)), anchor))
    gone = write.shaped(gone, 1, count)
    if classes > 1:
        gone = write("And", gone, write("Equal", write.of(np.arange(classes)[:, None]), number))
    rest = write("Where", gone, least - 1, left)
    counts = write("GreaterOrEqual", score, least)
    shown = [write("Where", counts, value, 0.0) for value in (box, number, score, write.of(1.0))]
    number, score, found = (write.shaped(value, 1) for value in shown[1:])
    return rest, shown[0], number, score, found


def _overlaps(write: Write, boxes: str, areas: str, one: tuple[str, str], most: float) -> str:
    """Which boxes share more than `most` of their union with one."""
    box, area = one
    corners = []
    for op, at in (("Max", 0), ("Min", 2)):
        corners.append(write(op, write.part(boxes, at, at + 2), write.shaped(write.part(box, at, at + 2, 0), 1, 2)))
    sides = write("Relu", write("Sub", corners[1], corners[0]))
    count = write.reader.builder.shapes[areas][0]
    common = write.shaped(write("Mul", write.part(sides, 0, 1), write.part(sides, 1, 2)), count)
    union = write("Sub", write("Add", areas, area), common)
    return write("Greater", common, write("Mul", union, most))
