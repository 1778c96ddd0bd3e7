"""Every public call of `tinyhil` with every argument wrong: HilError in one line, or the argument is fine."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wire_bench import write_tiny_model

import tinyhil
from tinyhil.errors import ConfigError, HilError
from tinyhil.harness.job.job import Request
from tinyhil.harness.offline.export import Wanted
from tinyhil.harness.python.api import Compiled, Model
from tinyhil.harness.search.request import SearchRequest

WRONG: tuple[Any, ...] = (
    *(3, -1, 0, 10**400, 1.5, float("nan"), float("inf"), True, b"x", object(), "x", "", "\0", "a/b", "x" * 5000),
    *([], ["x"], [None], {}, {"x": 1}, {1: 2}, (), ("x", 3), set(), np.zeros(3), np.array("x"), np.array([object()])),
    *(np.zeros((0, 1, 32)), np.full((2, 1, 32), np.nan), np.zeros((2, 1, 32), complex), len, Path("x"), Path("/"), int),
)
GIVEN_ELSEWHERE = ("model", "inputs", "format", "assignment", "results", "out", "also")
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Call, dict[str, Any]]]:
    """Every public call, with arguments that are right; none of them builds."""
    folder = tmp_path_factory.mktemp("python")
    write_tiny_model(folder / "tiny.onnx")
    x = np.random.default_rng(5).uniform(-1, 1, (6, 1, 32)).astype(np.float32)
    model = tinyhil.load(folder / "tiny.onnx").calibrate(x)
    compiled = model.compile("fixed16")
    run = {"board": "nowhere", "x": x, "y": np.arange(6) % 4}
    search = {"x": x, "y": np.arange(6) % 4, "ram": 1}
    return {
        "load": (tinyhil.load, {"source": folder / "tiny.onnx"}),
        "compare": (tinyhil.compare, {"a": {}, "b": {}}),
        "calibrate": (model.calibrate, {"x": x}),
        "compile": (model.compile, {}),
        "run": (model.run, run),
        "profile": (model.profile, {"board": "nowhere", "x": x}),
        "search": (model.search, search),
        "fit": (model.fit, {"boards": "uno"}),
        "then": (model.then, {"other": model}),  # right but for its kind of file: an .onnx has no streams
        "export": (model.export, {"kind": "cmake", "out": folder / "a.zip"}),
        "compiled.run": (compiled.run, run),
        "compiled.profile": (compiled.profile, {"board": "nowhere", "x": x}),
        "compiled.export": (compiled.export, {"kind": "cmake", "out": folder / "b.zip"}),
    }


OPTIONS = {"run": Request, "profile": Request, "search": SearchRequest, "export": Wanted}


def arguments(name: str, call: Call) -> Iterator[str]:
    """Of its signature, and the options that it hands on."""
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            yield parameter.name
    options = OPTIONS.get(name.rpartition(".")[2])
    if options is not None:
        yield from (field for field in options.__dataclass_fields__ if field not in GIVEN_ELSEWHERE)


NAMES = ("load", "compare", "calibrate", "compile", "run", "profile", "search", "fit", "then", "export")
NAMES = (*NAMES, "compiled.run", "compiled.profile", "compiled.export")


# To each argument a third of what is wrong, and to the next another one; all of it is slow.
@pytest.mark.parametrize("part", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments(name: str, part: int, calls: dict[str, tuple[Call, dict[str, Any]]], tmp_path: Path) -> None:
    call, right = calls[name]
    raised = []
    for number, argument in enumerate(dict.fromkeys(arguments(name, call))):
        for wrong in WRONG[number % part :: part]:
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    call(**{**right, argument: wrong})
            except HilError as error:
                if "\n" in str(error):
                    raised.append(f"{argument}={wrong!r:.60}: {str(error)!r:.100}")
            except Exception as error:
                raised.append(f"{argument}={wrong!r:.60}: {type(error).__name__}: {error!s:.100}")
    assert raised == []


def test_the_calls_are_all_there_are(calls: dict[str, Any]) -> None:
    public = {name for cls in (Model, Compiled) for name, one in vars(cls).items() if inspect.isfunction(one)}
    found = {name for name in public if not name.startswith("_")} | {"load", "compare"}
    assert found == {name.rpartition(".")[2] for name in calls}


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("samples", -1), ("samples", 0), ("mode", "x"), ("prefer", "x"), ("load", "x"), ("uart", "x"), ("retries", -1)],
)
def test_values_that_mean_nothing_are_refused(option: str, wrong: Any, calls: dict[str, Any]) -> None:
    call, right = calls["run"]
    with pytest.raises(ConfigError, match=rf"run: {option} must be "):
        call(**{**right, "board": "host", option: wrong})
