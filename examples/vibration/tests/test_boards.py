"""The model on every board that was chosen: pytest --board uno --board due"""

import pytest

MODEL = "models/vibration.onnx"
DATA = {"inputs": "data/test.npz", "calibrate": "data/train.npz"}


@pytest.mark.parametrize("format", ["fixed16", "fixed8"])
def test_outputs_cycles_and_bytes_are_the_golden_ones(board, format):
    record = board.check(MODEL, format=format, samples=60, **DATA)
    assert record["accuracy"] >= 0.9


@pytest.mark.hil_boards("uno")
def test_it_leaves_room_on_the_uno(board):
    record = board.run(MODEL, format="fixed8", samples=6, **DATA)
    assert record["memory"]["total_bytes"] < 1024
    assert record["flash_bytes"] < 16 * 1024


@pytest.mark.hil_emulated
def test_it_is_fast_enough(board):
    """A window lasts 20 ms at 1.6 kHz; the answer must be there before the next one."""
    latency = board.run(MODEL, samples=6, **DATA)["latency"]
    if latency["unit"] == "cycles":
        assert latency["median_us"] < 20_000
