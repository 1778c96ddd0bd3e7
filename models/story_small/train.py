"""Trains the teller of tales of this folder: writes story_small.onnx and ranges.json, prints perplexities.

    python models/story_small/train.py

Needs the extra `train` (torch). The text is models/story/tales.txt.
"""

from __future__ import annotations

from pathlib import Path

from models.training.tales import Recipe, Shape
from models.training.tales_published import publish

if __name__ == "__main__":
    publish(Path(__file__).parent, Recipe(Shape(48, 2, 4, 64, 96), steps=3000))
