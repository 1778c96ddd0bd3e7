"""`hil mlperf --engine`: MLPerf Tiny's protocol around engines of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.engines.mlperf_engine import prepare_engine
from tinyhil.harness.mlperf.accuracy import agrees, on_board
from tinyhil.harness.mlperf.benchmarks import graph_inputs, report_of
from tinyhil.harness.mlperf.evaluation_sets import evaluation
from tinyhil.harness.mlperf.runner_protocol import Device
from tinyhil.harness.mlperf.session import Ready, Wanted, prepare, switched_on
from tinyhil.harness.settings.config import load_boards
from tinyhil.references.evaluate import evaluate

AUTOENCODER, KEYWORDS = "models/mlperftiny_ad_autoencoder.onnx", "models/mlperftiny_kws_dscnn_int8.tflite"
SAMPLE, WORDS = "small/ad01_normal_sample.npz", "small/kws12_mfcc_test.npz"


def ready_of(engine: str, model: str, source: Path | None = None) -> Ready:
    wanted = Wanted("host", str(data_file(model)))
    return prepare_engine(engine, source, wanted, load_boards(), default_cache_dir(), lambda line: None)


def reported(ready: Ready, raw: np.ndarray) -> list[tuple[float, ...]]:
    """Each input twice: an engine that writes over its input is given it again."""
    with (
        switched_on(ready, load_boards(), lambda line: None) as running,
        Device(running.connection, ready.board.baud) as device,
    ):
        device.settle(0.3)
        device.check_image(ready.image.hash)
        return on_board(device, np.repeat(raw, 2, axis=0), lambda done, of: None)


@pytest.mark.data(AUTOENCODER, SAMPLE)
def test_the_protocol_reports_what_another_engine_computes() -> None:
    """emlearn's autoencoder: the mean squared error of the float model."""
    ready = ready_of("emlearn", AUTOENCODER)
    assert ready.engine is not None
    assert (ready.engine["name"], ready.reported(np.zeros((1, 2560), np.uint8))) == ("emlearn", None)
    raw, graph = evaluation(ready.benchmark).raw[:2], ready.opened.model.graph
    outputs = evaluate(graph, graph_inputs(ready.benchmark, graph, raw)).reshape(2, -1)
    wanted = np.repeat(report_of(ready.benchmark, outputs, raw), 2, axis=0)
    found = reported(ready, raw)
    assert len(found) == 4
    assert all(agrees(one, reference) for one, reference in zip(found, wanted, strict=True))


@pytest.mark.data("engines", KEYWORDS, WORDS)
def test_tensorflow_lite_micro_reports_what_ours_does() -> None:
    """Bytes of the runner become the model's codes, codes of the output its numbers: bit for bit those of ours."""
    ready = ready_of("tflm", KEYWORDS, data_file("engines"))
    ours = prepare(ready.wanted, load_boards(), default_cache_dir(), lambda line: None)
    raw = evaluation(ready.benchmark).raw[:3]
    wanted = ours.reported(raw)
    assert wanted is not None
    found = reported(ready, raw)
    assert all(agrees(one, reference) for one, reference in zip(found, np.repeat(wanted, 2, axis=0), strict=True))


@pytest.mark.data(AUTOENCODER, SAMPLE)
def test_the_command_names_the_engine(tmp_path: Path) -> None:
    given = ("mlperf", "--board", "host", "--engine", "emlearn", "--model", str(data_file(AUTOENCODER)))
    done = hil(*given, "--mode", "accuracy", "--samples", "1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["engine"]["name"], record["format"]) == ("emlearn", None)
    assert (record["accuracy"]["equal"], record["accuracy"]["samples"]) == (None, 1)
    done = hil(*given, "--submission", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "--submission is of what tinyhil computes; leave out --engine" in done.stderr
