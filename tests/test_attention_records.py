"""Transformers keep results, cycles and bytes, and the page says what their records say (docs/measured/attention.md).

`python -m benchmarks.attention` measures the records anew; the difference is then read in the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from given_data import data_file

from benchmarks import attention
from benchmarks.attention import FOLDER, RUNS
from tinyhil.harness.measure.golden import check_golden, describe, path_of, read_golden

MOST_CYCLES = {
    ("h747", "int8"): 16e6,
    ("h747", "fixed8"): 15e6,
    ("h747", "fixed16"): 24e6,
    ("nucleo_l4r5", "int8"): 28e6,
}
DEEPLOY = pytest.mark.data(
    *(f"deeploy/Models/{attention.DEEPLOY['CCT_1_32_32_8']}/{file}" for file in ("network.onnx", "inputs.npz"))
)
PARAMS = [
    pytest.param(*run, id="-".join(map(str, run)), marks=[DEEPLOY] if run[0] in attention.DEEPLOY else [])
    for run in RUNS
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "board", "fmt", "prefer"), PARAMS)
def test_results_cycles_and_bytes_are_the_record_s(
    name: str, board: str, fmt: str, prefer: str | None, tmp_path: Path
) -> None:
    if name in attention.DEEPLOY:
        assert data_file(f"deeploy/Models/{attention.DEEPLOY[name]}/network.onnx").is_file()
    bench = attention.bench_in(name, tmp_path)
    assert bench is not None
    found = check_golden(path_of(attention.order_of(name, board, fmt, prefer), FOLDER), bench)
    if found.fails:
        pytest.fail(describe(found, "if the change is meant: python -m benchmarks.attention"), pytrace=False)


def test_the_page_has_the_records() -> None:
    page = attention.PAGE.read_text().split(attention.BEGIN)[1].split(attention.END)[0]
    assert page.strip().splitlines()[: len(RUNS) + 2] == attention.table()


def test_records_hold_the_goals() -> None:
    """Cycles of a transformer on two boards; RAM by rows, a third of layer by layer."""
    records = {run: read_golden(path_of(attention.order_of(*run), FOLDER))[1] for run in RUNS}
    assert all(record["bit_exact"] for record in records.values())
    for (board, fmt), most in MOST_CYCLES.items():
        assert records["CCT-2", board, fmt, None]["latency"]["median"] <= most
    arenas = [records["CCT_1_32_32_8", "h747", "int8", how]["memory"]["arena_bytes"] for how in ("ram", "latency")]
    assert 3 * arenas[0] <= arenas[1]
