"""Trains the teller of tales of this folder: writes story.onnx and ranges.json, prints perplexities.

    python models/story/train.py

Needs the extra `train` (torch). The text is models/story/tales.txt.
"""

from __future__ import annotations

from pathlib import Path

from models.training.tales import Recipe, Shape
from models.training.tales_published import publish

if __name__ == "__main__":
    publish(Path(__file__).parent, Recipe(Shape(96, 3, 4, 128, 192), steps=4000, batch=16))
