"""Claims of the tables in results/: a row or a few that one call measures again.

Not among them: engines of others, which are fetched and built (`benchmarks.engines`), and what takes many minutes
(`benchmarks.sequence_models`, `.sweep_scaling`); their pages say since when they are stale.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import calibration, peers, peers_models, trained_networks, wake_words
from benchmarks.given import given_data
from benchmarks.papers.paper import STACK_TRIES
from benchmarks.search.tables import TABLES
from benchmarks.zoo import accuracy
from tinyhil.errors import DataError
from tinyhil.harness.settings.config import load_boards
from tools import tables
from tools.claim import Claim, printed
from tools.measured import RESULTS, ROOT, provenance_of, read

Row = dict[str, Any]
# About, of one processor: a model of the zoo, a run on the host, one build, a wake word, rows of a table.
ZOO_S, HOST_S, BUILD_S, WAKE_WORD_S, ROWS_S, LONG_S = 20.0, 3.0, 3.0, 10.0, 5.0, 60.0
OF_THIS_MACHINE = ("median_us", "ticks", "flash_bytes")  # of a run on the host; no page shows them
HISTORY = 1e-5  # share of modelled cycles that depends on how long a chip waited, hence on what its buffers hold
OF_A_CLOCK = ("seconds", "processor_s")
SECONDS_OF = "s: "  # begins the heads of seconds of several
MLPERF = {
    "NUCLEO-L4R5ZI": "nucleo_l4r5",
    "STM32H747": "h747",
    "NUCLEO-U575ZI-Q": "nucleo_u575",
    "NUCLEO-G0B1RE": "nucleo_g0b1",
}
NEEDS = {"rivals": "brevitas"}  # of a training
TINY = {
    "ic01": "ic_resnet8",
    "kws01": "kws_dscnn",
    "vww01": "vww_mobilenetv1_025_96",
    "ad01": "ad_autoencoder",
    "sww01": "sww_streaming",
}


def every() -> Iterator[Claim]:
    """Those of all tables here."""
    for part in (
        _formats,
        _zoo,
        _wake_words,
        _mlperf,
        _networks,
        _peers,
        _calibration,
        _unsigned,
        _search,
        _language_models,
        _passes,
        _trainings,
    ):
        yield from part()


def _given(measure: Callable[[], Any]) -> Any:
    """DataError without HIL_DATA."""
    if not Path(os.environ.get("HIL_DATA") or "-").is_dir():
        raise DataError("set HIL_DATA")
    return measure()


def _formats() -> Iterator[Claim]:
    stated = {(row["format"], row["board"]): row for row in read(tables.NAME)}
    for request in tables.requests():
        row = stated[request.format, request.board]
        run_s = row["samples"] * row["median_us"] * 1e-6 if request.board != tables.HOST else HOST_S
        options = f"--board {request.board} --model {request.model} --format {request.format}"
        yield Claim(
            f"docs/measured/formats.md: {request.format} on {request.board}",
            f"hil run {options}" + (f" --samples {request.samples}" if request.samples else ""),
            BUILD_S + run_s,
            _anywhere(row),
            partial(_format_row, request),
            tries=STACK_TRIES,
        )


def _format_row(request: Any) -> dict[str, Any]:
    found = tables.record_of(request)
    if found["data"]["source"] not in tables.REAL:
        raise DataError(f"har6: {found['data']['source']} data; set HIL_DATA")
    return _anywhere(tables.row_of(found))


def _anywhere(row: dict[str, Any]) -> dict[str, Any]:
    """What a row states on whatever computer it is measured."""
    return {key: value for key, value in row.items() if row["board"] != tables.HOST or key not in OF_THIS_MACHINE}


def _zoo() -> Iterator[Claim]:
    for model, row in read("zoo").items():
        yield Claim(f"docs/zoo.md: {model}", "python -m benchmarks.zoo accuracy", ZOO_S, row, partial(accuracy, model))


def _wake_words() -> Iterator[Claim]:
    for row in read(wake_words.NAME):
        name, measure = (
            f"docs/zoo.md: wake word {row['name']} on {row['board']}",
            partial(_given, partial(_wake_word, row)),
        )
        yield Claim(name, f"python -m benchmarks.wake_words FOLDER --board {row['board']}", WAKE_WORD_S, row, measure)


def _wake_word(row: dict[str, Any]) -> dict[str, Any]:
    path = given_data() / wake_words.FOLDER / f"{row['name']}.tflite"
    return asdict(wake_words.board_row_of(path, row["steps"], row["board"]))


def _mlperf() -> Iterator[Claim]:
    """Our rows beside what is published, of docs/mlperf.md: a cell each."""
    lines = (ROOT / "docs" / "mlperf.md").read_text().splitlines()
    (names,) = (re.findall(r"\w+01", line) for line in lines if line.startswith("| | ic01 | kws01 "))
    for line in lines:
        if found := re.match(r"\| Cortex-\S+: ours, (\S+) \*\*modelled", line):
            for name, text in zip(names, (cell.strip() for cell in line.split("|")[2:]), strict=False):
                yield _mlperf_cell(name, MLPERF[found[1]], text)


def _mlperf_cell(name: str, board: str, text: str) -> Claim:
    file = f"mlperftiny_{TINY[name]}_int8.tflite"
    folder = "ROOT/tests/data/models" if (ROOT / "tests/data/models" / file).is_file() else "DATA/models"
    command = f"hil mlperf --board {board} --model {folder}/{file} --mode performance --runs 1 --seconds 0.02"
    digits = text.removesuffix("M")
    half = 0.5e6 / 10 ** len(digits.partition(".")[2])  # of the last digit
    measure = partial(printed, command, {text: r"ms, ([\d,]+) cycles"})
    return Claim(
        f"docs/mlperf.md: {name} on {board}",
        command,
        3 * BUILD_S,
        {text: float(digits) * 1e6},
        measure,
        apart={text: half},
    )


def _networks() -> Iterator[Claim]:
    for row in read("networks"):
        name = f"docs/measured/peers.md: {row['network']} on {row['board']}"
        measure = partial(_given, partial(peers.measured, row["network"], row["board"]))
        far = _history_on(row["board"])
        yield Claim(name, "python -m benchmarks.peers", 6 * BUILD_S, row, measure, tolerance=far, tries=STACK_TRIES)


def _history_on(board: str) -> float:
    return 0.0 if board == "uno" else HISTORY


def _peers() -> Iterator[Claim]:
    for row in read("peers"):
        measure = partial(_given, partial(peers_models.measured, row["network"], row["format"]))
        name, command = f"docs/zoo.md: {row['network']} {row['format']}", "python -m benchmarks.peers_models --measure"
        yield Claim(name, command, 4 * BUILD_S, row, measure, tries=STACK_TRIES)


def _grouped(rows: list[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def _calibration() -> Iterator[Claim]:
    for (model, method), rows in _grouped(read("calibration"), "model", "method").items():
        measure = partial(_listed, partial(calibration.rows, model, method))
        yield Claim(
            f"docs/formats.md: {model} cut by {method}",
            "python -m benchmarks.calibration",
            ROWS_S,
            {"rows": rows},
            measure,
        )


def _unsigned() -> Iterator[Claim]:
    for (model,), rows in _grouped(read("unsigned"), "model").items():
        measure = partial(_given, partial(_listed, partial(_unsigned_rows, model)))
        yield Claim(
            f"docs/formats.md: {model} without a sign", "python -m benchmarks.unsigned", LONG_S, {"rows": rows}, measure
        )


def _unsigned_rows(model: str) -> Iterator[Row]:
    from benchmarks import unsigned  # and torch with it

    yield from unsigned.rows(model)


def _listed(rows: Callable[[], Iterator[Row]]) -> dict[str, Any]:
    return {"rows": [_timeless(row) for row in rows()]}


def _timeless(row: Row) -> Row:
    return {k: v for k, v in row.items() if k not in (*OF_A_CLOCK, "commit") and not k.startswith(SECONDS_OF)}


def _search() -> Iterator[Claim]:
    for table, (rows_of, _, evaluations) in TABLES.items():
        for (model,), rows in _grouped(read(f"search/{table}"), "model").items():
            seconds = ROWS_S + sum(float(row[key]) for row in rows for key in OF_A_CLOCK if key in row)
            measure = partial(_given, partial(_listed, partial(rows_of, evaluations, (model,))))
            command = f"python -m benchmarks.search {table} --models {model}"
            stated = {"rows": [_timeless(row) for row in rows]}
            yield Claim(f"docs/measured/search.md: {table}, {model}", command, seconds, stated, measure)


def _language_models() -> Iterator[Claim]:
    for row in read("language_models"):
        name = f"docs/measured/attention.md: {row['model']} {row['format']}{' in blocks' if row['blocks'] else ''}"
        command, measure = "python -m benchmarks.language_models", partial(_given, partial(_tokens_of, row))
        yield Claim(name, command, LONG_S, row, measure, tries=STACK_TRIES)


def _tokens_of(row: Row) -> Row:
    from benchmarks import language_models  # and torch with it

    asked = language_models.Row(row["model"], row["format"], row["blocks"])
    with tempfile.TemporaryDirectory() as folder:
        found = language_models.run_of(asked, Path(folder))
    if found is None:
        raise DataError(f"{row['model']}: its files are not in HIL_DATA")
    return found


def _passes() -> Iterator[Claim]:
    for row in read("passes"):
        where = f"{row['model']} {row['format']} on {row['board']}"
        command, measure = f"python -m benchmarks.passes {row['model']}", partial(_given, partial(_passed, row))
        far, stated = _history_on(row["board"]), {name: value for name, value in row.items() if name != "commit"}
        yield Claim(f"docs/measured/passes.md: {where}", command, LONG_S, stated, measure, tolerance=far)


def _passed(row: Row) -> Row:
    from benchmarks import passes  # and torch with it

    (case,) = (one for one in passes.cases([row["model"]]) if (one.format, one.board) == (row["format"], row["board"]))
    return dict(passes.measured(case, load_boards().board(case.board)) or {})


def _trainings() -> Iterator[Claim]:
    """Tables of docs/training.md, networks too: by their hashes."""
    for path in sorted((RESULTS / "training").glob("*.json")):
        name, rows = path.stem, read(f"training/{path.stem}")
        seconds = sum(row.get("seconds") or 0.0 for row in rows) or LONG_S
        stated = {"rows": [_timeless(row) for row in rows]}
        measure = partial(_given, partial(_trained, path, NEEDS.get(name)))
        yield Claim(f"docs/training.md: {name}", f"python -m benchmarks.training {name}", seconds, stated, measure)


def _trained(path: Path, package: str | None) -> dict[str, Any]:
    """DataError where trainings end elsewhere than they did for the record."""
    before, today = provenance_of(f"training/{path.stem}").get(trained_networks.MACHINE), trained_networks.machine()
    if today != before:
        raise DataError(f"{path.stem}: trained by {before}, here by {today}, which ends in other networks")
    if package is not None and find_spec(package) is None:
        raise DataError(f"{path.stem}: pip install {package}")
    return _listed(partial(trained_networks.with_networks, _tables_of_trainings()[path.stem]()))


def _tables_of_trainings() -> dict[str, Callable[[], Iterator[Row]]]:
    from benchmarks import training  # and torch with it

    return training.TABLES
