"""Which files of results/ hold figures of boards, how one measures them again, and how their rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str, str, str]  # model, board, format, engine
OURS = "tinyhil"
FLOAT_ENGINES = ("onnx2c", "emlearn")  # read the ONNX file; all others the .tflite file


@dataclass(frozen=True, slots=True)
class Cost:
    """What one image takes a sample; `exact` in the order of `tools.figures.State`; `accuracy` from 0 to 1."""

    ticks: float
    unit: str
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    accuracy: float | None = None

    @property
    def exact(self) -> tuple[float, str, int | None, int | None]:
        """All that an emulator counts to the last one."""
        return self.ticks, self.unit, self.ram_bytes, self.flash_bytes


Rows = Iterator[tuple[Key, Cost]]


def networks(content: Mapping[str, Any]) -> Rows:
    """Ours and the fastest peer's on the same float weights."""
    for row in content["rows"]:
        network, board = row["network"], row["board"]
        unit = "cycles" if board == "uno" else "instructions"
        for format_, ours in row["formats"].items():
            if ours is not None:  # it fits there
                ticks = ours["instructions"] or ours["cycles"]
                yield (network, board, format_, OURS), Cost(ticks, unit, ours["ram_bytes"], ours["flash_bytes"])
        for peer, cost in ((row.get("peer"), row.get("cost")), (row.get("wide_peer"), row.get("wide_cost"))):
            if peer and cost:
                engine, _, format_ = peer.rpartition(" ")
                yield (network, board, format_, engine), Cost(cost, unit)


def engines(content: Mapping[str, Any]) -> Rows:
    """The same files by every engine on one bench."""
    for row in content["rows"]:
        if row["cycles"] is not None:  # it was built and fits
            format_ = "float32" if row["engine"] in FLOAT_ENGINES else "int8"
            yield (
                (row["network"], row["board"], format_, row["engine"]),
                Cost(row["cycles"], "cycles", row["RAM"], row["flash"]),
            )


def formats(content: Mapping[str, Any]) -> Rows:
    """One network in many formats; accuracy is the host's, whose time means nothing elsewhere."""
    accuracy = {row["format"]: row["accuracy"] for row in content["rows"] if row["board"] == "host"}
    for row in content["rows"]:
        if row["board"] != "host":
            key = "fastgrnn_har", row["board"], row["format"], OURS
            unit = "cycles" if row["board"] == "uno" else "instructions"
            yield key, Cost(row["ticks"], unit, row["ram_bytes"], row["flash_bytes"], accuracy.get(row["format"]))


def sequences(content: Mapping[str, Any]) -> Rows:
    """Six kinds of networks, the first seed of each; accuracy in int8."""
    for row in content["rows"]:
        if row["seed"] == 0 and row["cycles"]:
            key = f"{row['kind']} on {row['task']}", "h747", "int8", OURS
            yield key, Cost(row["cycles"], "cycles", row["ram"], row["flash"], row["int8"] / 100)


def languages(content: Mapping[str, Any]) -> Rows:
    """A token or a letter of a language model."""
    for row in content["rows"]:
        name = row["model"] + (" (weights in blocks)" if row["blocks"] else "")
        yield (name, "h747", row["format"], OURS), Cost(row["cycles"], "cycles", row["ram"], row["flash"])


TABLES: tuple[tuple[str, str, Callable[[Mapping[str, Any]], Rows]], ...] = (
    ("results/networks.json", "python -m benchmarks.peers", networks),
    ("results/engines.json", "python -m benchmarks.engines", engines),
    ("results/formats.json", "make tables", formats),
    ("results/sequence_models.json", "python -m benchmarks.sequence_models", sequences),
    ("results/language_models.json", "python -m benchmarks.language_models", languages),
)
