"""Files of others that tests read: some ship in tests/data, the rest is in the folder HIL_DATA.

A test says which it reads: `@pytest.mark.data("small/usps.npz")`, or `@needs_set("usps")`. HIL_DATA of its environment
is then a folder with all of them; where one is nowhere, the test is skipped. Every other test runs without HIL_DATA,
whatever the shell says: so a test that reads data and does not say so fails everywhere, not on a stranger's machine
alone. Tests that read what does not ship are selected by `-m unshipped`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

SHIPPED = Path(__file__).resolve().parent / "data"
MODELS = SHIPPED.parents[1] / "models"
# Taken out of the environment once; processes of pytest-xdist inherit the second name.
GIVEN = Path(os.environ.setdefault("HIL_DATA_OF_TESTS", os.environ.pop("HIL_DATA", "")) or "/nowhere")

SETS = {
    "ad01": ("small/ad01_normal_sample.npz",),
    "cifar10": ("large/cifar10_train50k_jpeg.npz", "large/cifar10_test10k_jpeg.npz"),
    "digits": (),  # ships with tinyhil
    "dsa19": ("large/dsa19_p1-4.npz", "large/dsa19_p5-8.npz"),
    "fsdd": ("small/fsdd_logmel.npz",),
    "har6": ("small/har6_subset.npz",),
    "kws12": ("small/kws12_mfcc_test.npz",),
    "letter": ("small/letter.npz",),
    "mnist": ("large/mnist.npz",),
    "usps": ("small/usps.npz",),
    "usps2": ("small/usps.npz",),
}


def ships(*names: str) -> bool:
    """Whether every one of the files is in tests/data."""
    return all((SHIPPED / name).exists() for name in names)


def absent(*names: str) -> list[str]:
    """Those of the files that the one folder that may have all of them has not."""
    return [] if ships(*names) else [name for name in names if not (GIVEN / name).exists()]


def folder_of(*names: str) -> Path:
    """What HIL_DATA is for a test that reads these files."""
    return SHIPPED if ships(*names) else GIVEN


def data_file(name: str) -> Path:
    """The file; KeyError in tests that do not say that they read it, where it does not ship."""
    return (SHIPPED if ships(name) else Path(os.environ["HIL_DATA"])) / name


def needs_set(name: str) -> pytest.MarkDecorator:
    """The mark of tests that load this data set."""
    return pytest.mark.data(*SETS[name])


def manifest(model: str) -> dict[str, Any]:
    """What a model of the zoo says of itself."""
    found: dict[str, Any] = yaml.safe_load((MODELS / model / "model.yaml").read_text())
    return found


def set_of(model: str) -> str:
    """The data set that a model of the zoo was trained for."""
    return str(manifest(model)["dataset"])


def needs_model(model: str) -> pytest.MarkDecorator:
    """The mark of tests that run a model of the zoo on its data set."""
    weights = manifest(model).get("external", {}).get("file")
    return pytest.mark.data(*SETS[set_of(model)], *([weights] if weights else []))


def the_zoo() -> list[object]:
    """For parametrize: every model of the zoo, with the mark of what it needs."""
    names = sorted(path.parent.name for path in MODELS.glob("*/model.yaml"))
    return [pytest.param(name, marks=needs_model(name)) for name in names]
