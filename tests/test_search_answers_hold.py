"""What a search answers keeps its limits when it is run as the docs say: the file carries how it was found."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import hil_command
import numpy as np
import pytest
import yaml
from given_data import data_file
from onnx_models import node, simple
from scan_models import weights
from search_models import STRATEGY_NAMES

import tinyhil
from tinyhil import data
from tinyhil.errors import EXIT_BUILD, ConfigError, DoesNotFit, Infeasible
from tinyhil.harness.job.job import method_of, preference_of
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.search.offering import with_all_offers
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Conditions, load_conditions
from tinyhil.native import default_cache_dir
from tinyhil.search import strategies
from tinyhil.search.search_problem import Ask, Asking, SearchProblem

RESNET = "models/mlperftiny_ic_resnet8.onnx"
BOARDS = ("uno", "due", "h747")
INPUT_BYTES = 128  # of digits_cnn in an arena that must keep it, over what it takes where it does not count
FLASH_BETWEEN = 0.5  # of the flash of fixed8 and of fixed16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its samples, and one results folder: what one search has measured, no other measures again."""
    folder = tmp_path_factory.mktemp("answers")
    nodes = [node("MatMul", "x W", "t"), node("Tanh", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 6), "V": weights(6, 3)})
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 1, 8)).astype(np.float32)
    np.savez(folder / "x.npz", x=x, y=random.integers(0, 3, 120))
    return folder


def printed(folder: Path, *arguments: str) -> dict:
    done = hil_command.hil(*arguments, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(folder: Path, board: str, *arguments: str) -> dict:
    common = ("--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz")
    return printed(folder, "run", "--board", board, *common, *arguments)


def test_a_limit_that_no_image_keeps_names_one_that_does(tmp_path: Path) -> None:
    """Computing again keeps the arena's limit, but makes stack and static data larger by a byte or some."""
    asked = ("search", "--model", "digits_cnn", "--board", "uno", "--formats", "fixed8", "--evaluations", "2", "--ram")
    done = hil_command.hil(*asked, "597", cwd=tmp_path)
    assert done.returncode == EXIT_BUILD
    found = re.search(r"none keeps to 597 B in all; the least measured needs (\d+) B: --ram \1, or --pre", done.stderr)
    assert found is not None, done.stderr
    answer = printed(tmp_path, *asked, found[1])
    assert 597 < answer["ram_bytes"] <= int(found[1])


def test_a_refused_limit_names_one_that_is_kept(tmp_path: Path) -> None:
    """Of a network by rows, whose smallest arena needs more stack than the next one."""
    random = np.random.default_rng(3)
    nodes = [
        node("Conv", "x one", "a", pads=[1] * 4, kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "c", "f"),
        node("MatMul", "f last", "y"),
    ]
    model = simple(nodes, {"x": (1, 1, 8, 8)}, {"one": weights(8, 1, 3, 3), "last": weights(128, 5)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=random.normal(size=(60, 1, 8, 8)).astype(np.float32))
    asked = (
        "search",
        "--model",
        "net.onnx",
        "--inputs",
        "x.npz",
        "--board",
        "uno",
        "--evaluations",
        "2",
        "--formats",
        "fixed8",
        "--ram",
    )
    refused = hil_command.hil(*asked, "320", cwd=tmp_path)
    named = re.search(r"--ram (\d+)", refused.stderr.splitlines()[-1])
    assert named is not None, refused.stderr
    answer = printed(tmp_path, *asked, named[1])
    assert answer["ram_bytes"] <= int(named[1])


@pytest.mark.parametrize(
    ("board", "strategy", "limits"),
    [
        ("uno", "lagrange", ("--ram",)),
        *(
            pytest.param(board, strategy, limits, marks=pytest.mark.slow)
            for board in BOARDS
            for strategy in STRATEGY_NAMES
            for limits in (("--ram",), ("--ram", "--flash"))
            if (board, strategy, limits) != ("uno", "lagrange", ("--ram",))
        ),
    ],
)
def test_an_answer_run_as_documented_keeps_every_limit(
    board: str, strategy: str, limits: tuple[str, ...], folder: Path
) -> None:
    low, high = (run(folder, board, "--format", name, "--prefer", "ram") for name in ("fixed8", "fixed16"))
    flash = low["flash_bytes"] + FLASH_BETWEEN * (high["flash_bytes"] - low["flash_bytes"])
    # of a narrower format the stack may be deeper; how deep it was depends on when bytes came
    most = max(record["memory"]["static_bytes"] + record["memory"]["stack_limit_bytes"] for record in (low, high))
    asked = {"--ram": most, "--flash": int(flash)}
    given = [text for option in limits for text in (option, str(asked[option]))]
    out = f"{board}-{strategy}.yaml"
    answer = printed(
        folder, "search", "--board", board, "--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz",
        "--strategy", strategy, "--evaluations", "12", "--device-samples", "8", "--out", out, *given,
    )  # fmt: skip
    measured = run(folder, board, "--assignment", out)
    memory = measured["memory"]
    assert memory["total_bytes"] <= memory["static_bytes"] + memory["stack_limit_bytes"] <= asked["--ram"]
    assert measured["flash_bytes"] == answer["flash_bytes"]
    if "--flash" in limits:
        assert measured["flash_bytes"] <= asked["--flash"]


@pytest.mark.parametrize(("prefer", "arena_bytes"), [("ram", 816), ("latency", 1232), ("balanced", 1232), (None, 1232)])
def test_every_command_plans_as_the_file_says(prefer: str | None, arena_bytes: int, tmp_path: Path) -> None:
    found = {} if prefer is None else {"found": {"prefer": prefer}}
    path = tmp_path / "w.yaml"
    path.write_text(yaml.safe_dump({"default": "fixed16", **found}))
    asked = ("--model", "digits_cnn", "--assignment", "w.yaml")
    measured = printed(tmp_path, "run", "--board", "host", "--samples", "2", *asked)
    assert measured["memory"]["arena_bytes"] == arena_bytes
    if prefer is not None:  # without a word `hil plan` shows the least there is
        assert printed(tmp_path, "plan", *asked)["peak_bytes"] == arena_bytes
    model = tinyhil.load("digits_cnn")
    compiled = model.compile(path)
    assert compiled.arena_bytes == arena_bytes
    assert compiled.run("host", samples=2)["memory"]["arena_bytes"] == arena_bytes
    for command, out in (("export cmake", "l.zip"), ("generate", "project")):
        arguments = ("digits_cnn", "--assignment", "w.yaml", "--out", out)
        done = hil_command.hil(*command.split(), *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        if command == "generate":
            text = (tmp_path / "project" / "model" / "board_host.hpp").read_text()
            assert f"arena_bytes = {arena_bytes};" in text
        else:  # whose input stays as it is
            assert f"arena {arena_bytes + INPUT_BYTES} B" in done.stderr


def test_how_an_assignment_was_found_is_read(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "default: fixed8\nfound: {prefer: least, calibrate_by: mse, calibrated_samples: 5, tinyhil: 0.1.0}\n"
    )
    said = Conditions("least", "mse", calibrated_samples=5, tinyhil="0.1.0")
    assert load_conditions(path) == said
    assert load_conditions(path).as_yaml() == yaml.safe_load(path.read_text())["found"]
    assert (preference_of(path), preference_of(path, "latency"), preference_of(None)) == (
        "least",
        "latency",
        "balanced",
    )
    assert (method_of(path), method_of(path, "kl"), method_of(None)) == ("mse", "kl", "minmax")


@pytest.mark.parametrize(
    "found", ["prefer", "{prefer: fast}", "{calibrate_by: 3}", "{calibrated_samples: many}", "{who: me}", "[ram]"]
)
def test_what_no_search_writes_is_refused(found: str, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(f"default: fixed8\nfound: {found}\n")
    with pytest.raises(ConfigError, match="found"):
        load_conditions(tmp_path / "w.yaml")


def test_other_ranges_are_said(folder: Path) -> None:
    """Ranges decide scales, so flash and latency: an answer found with others need not keep its limits. Labels beside
    the samples, or their file's name, change no range."""
    samples = dict(np.load(folder / "x.npz"))
    np.savez(folder / "few.npz", x=samples["x"][:9])
    np.savez(folder / "bare.npz", x=samples["x"])
    out = ("--evaluations", "4", "--out", "said.yaml")
    printed(folder, "search", "--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz", "--ram", "12", *out)
    asked = ("run", "--board", "host", "--model", "net.onnx", "--inputs", "x.npz", "--assignment", "said.yaml")
    for calibrate, is_said in (("x.npz", False), ("bare.npz", False), ("few.npz", True)):
        done = hil_command.hil(*asked, "--calibrate", calibrate, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert ("found with ranges of 120 samples of x.npz" in done.stderr) == is_said


@pytest.mark.data(RESNET)
@pytest.mark.parametrize(
    ("limits", "message", "formats"),
    [
        (("--arena", "15000"), None, {"int8"}),  # the least of fixed8 is 15,648 B
        (("--ram", "15000"), None, {"int8"}),
        (("--arena", "15000", "--formats", "int8"), None, {"int8"}),
        (("--arena", "14000", "--more-time", "0"), "the least is 14400 B (every tensor in int8)", None),
        (("--arena", "14000", "--formats", "fixed8,fixed16"), "the least is 15648 B", None),
        (("--arena", "14000"), None, {"int8"}),  # 13,888 B, for a third more products
    ],
)
def test_all_offers_are_tried_before_a_refusal(
    limits: tuple[str, ...], message: str | None, formats: set[str] | None, tmp_path: Path
) -> None:
    """MLPerf Tiny's ResNet-8 takes less in int8, which all tensors have or none, than in any mixture of others."""
    (tmp_path / "net.onnx").write_bytes(data_file(RESNET).read_bytes())
    pictures = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32))
    np.savez(tmp_path / "x.npz", x=pictures.astype(np.float32))
    asked = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--evaluations", "1", "--out", "w.yaml")
    done = hil_command.hil(*asked, *limits, cwd=tmp_path)
    if message is not None:
        assert done.returncode == EXIT_BUILD
        assert message in done.stderr.splitlines()[-1]
        return
    assert done.returncode == 0, done.stderr
    chosen = yaml.safe_load((tmp_path / "w.yaml").read_text())
    assert {chosen["default"], *chosen["values"].values()} == formats
    assert printed(tmp_path, "plan", "--model", "net.onnx", "--assignment", "w.yaml")["peak_bytes"] <= 15000


@pytest.mark.parametrize(
    ("lacking", "formats", "expected"),
    [
        ({}, None, None),
        ({None: 900}, None, "int8"),
        ({None: 900, "int8": 800}, None, 800),
        ({None: 900, "int8": 1000}, None, 900),
        ({None: 900, "int8": 0}, None, 900),  # its image does not fit
        ({"fixed8": 900}, "fixed8", 900),  # what the user named is all there is
    ],
)
def test_the_nearest_refusal_is_said(
    lacking: dict[str | None, int], formats: str | None, expected: str | int | None
) -> None:
    def attempt(request: SearchRequest) -> str | None:
        if lacking.get(request.formats) == 0:
            raise DoesNotFit("uno: static and stack > RAM")
        if request.formats in lacking:
            raise Infeasible("too small", ("--ram", lacking[request.formats]))
        return request.formats

    request = SearchRequest("net.onnx", 700, formats=formats)
    if isinstance(expected, int):
        with pytest.raises(Infeasible) as refused:
            with_all_offers(request, None, attempt, lambda line: None)
        assert refused.value.least == ("--ram", expected)
    else:
        assert with_all_offers(request, None, attempt, lambda line: None) == expected


def test_one_format_is_a_search(folder: Path) -> None:
    asked = ("--model", "net.onnx", "--inputs", "x.npz", "--ram", "40", "--formats", "int8", "--out", "one.yaml")
    assert printed(folder, "search", *asked)["strategy"] == "single_format"
    chosen = yaml.safe_load((folder / "one.yaml").read_text())
    assert {chosen["default"], *chosen["values"].values()} == {"int8"}


def test_the_arena_means_one_thing(folder: Path) -> None:
    """The sample counts neither without a board nor with one that has it in the arena, and a hint names the option."""
    asked = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--evaluations", "1", "--arena", "5")
    for board in ((), ("--board", "uno"), ("--board", "h747")):
        done = hil_command.hil(*asked, *board, cwd=folder)
        assert done.returncode == EXIT_BUILD
        assert "the least is 9 B" in done.stderr
        assert "try --arena 9" in done.stderr


@pytest.mark.parametrize(("board", "limit_us"), [("uno", "1"), ("due", "0.01"), ("h747", "0.0001")])
def test_what_products_alone_exceed_is_refused_before_anything_is_built(
    board: str, limit_us: str, folder: Path
) -> None:
    asked = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--board", board, "--latency-us", limit_us)
    done = hil_command.hil(*asked, cwd=folder)
    assert done.returncode == EXIT_BUILD
    assert "its products alone take" in done.stderr
    assert "built" not in done.stderr


def test_an_answer_is_measured_as_the_file_has_it_planned(tmp_path: Path) -> None:
    """A search that computes products again to keep to its RAM had measured the image that does not."""
    answer = printed(
        tmp_path, "search", "--model", "digits_cnn", "--board", "due", "--ram", "1200", "--strategy", "haunter",
        "--out", "widths.yaml", "--device-samples", "4", "--samples", "60",
    )  # fmt: skip
    assert load_conditions(tmp_path / "widths.yaml").arena == answer["arena_bytes"]
    record = printed(tmp_path, "run", "--model", "digits_cnn", "--board", "due", "--assignment", "widths.yaml")
    assert record["memory"]["arena_bytes"] == answer["arena_bytes"]
    assert record["flash_bytes"] == answer["flash_bytes"]
    worst_us = record["latency"]["max"] / record["latency"]["clock_hz"] * 1e6
    assert worst_us == pytest.approx(answer["latency_us"], rel=0.05)


def test_the_least_that_is_named_is_what_a_retry_reaches(tmp_path: Path) -> None:
    """Of a network that needs less where products are made again."""
    given = SearchRequest("digits_cnn", board="uno", samples=20, formats="fixed8", evaluations=2, results=tmp_path)

    def ram_of(limit: float) -> int:
        asked = replace(given, ram=int(limit))
        outcome = run_search(asked, default_cache_dir(), lambda line: None, lambda *_: None, load_boards())
        return int(outcome.record["ram_bytes"])

    with pytest.raises(Infeasible, match=r"400 B of RAM in all hold no format .*; try --ram \d+ or") as error:
        ram_of(400)
    assert error.value.least is not None
    option, least = error.value.least
    assert option == "--ram"
    assert ram_of(least) == least
    with pytest.raises(Infeasible):
        ram_of(least - 1)


def test_a_refused_latency_names_what_no_answer_undercuts(tmp_path: Path) -> None:
    """What is added up of operations is a few percent off: of mixtures that are that near each is timed."""
    example = Path(__file__).parent.parent / "examples" / "vibration"
    given = SearchRequest(
        str(example / "models/vibration.onnx"), board="uno", inputs=example / "data/test.npz", samples=20,
        calibrate=example / "data/train.npz", formats="fixed8,fixed16", evaluations=40, results=tmp_path,
    )  # fmt: skip

    def latency_of(limit: float) -> float:
        outcome = run_search(
            replace(given, latency_us=limit), default_cache_dir(), lambda line: None, lambda *_: None, load_boards()
        )
        return float(outcome.record["latency_us"])

    with pytest.raises(Infeasible, match="us for the worst sample were not found feasible on uno") as error:
        latency_of(300)
    assert error.value.least is not None
    option, least = error.value.least
    assert option == "--latency-us"
    assert least - 1 <= latency_of(least * 1.05) + 1e-6
    assert latency_of(least) <= least


@dataclass(frozen=True)
class Narrowest:
    """A strategy that asks for one format for all tensors alone."""

    name: ClassVar[str] = "narrowest"
    source: ClassVar[str] = "control"

    def propose(self, problem: SearchProblem) -> Asking:
        yield Ask(problem.space.uniform(problem.space.low), complete=True)
        return None


def test_constants_may_be_wider_than_a_strategy_has_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie in flash: where RAM alone is short, an answer of one format for all is not the best that fits it."""
    monkeypatch.setattr(strategies, "STRATEGIES", (*strategies.STRATEGIES, Narrowest))
    nodes = [node("MatMul", "x W", "t"), node("Relu", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 16)}, {"W": weights(16, 12), "V": weights(12, 10)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(1200, 1, 16)).astype(np.float32))
    given = SearchRequest(
        str(tmp_path / "net.onnx"), board="uno", inputs=tmp_path / "x.npz", calibrate=tmp_path / "x.npz",
        strategy=Narrowest.name, formats="fixed8,fixed16", results=tmp_path, ram=1_000,
    )  # fmt: skip

    def searched(ram: int) -> dict[str, Any]:
        asked = replace(given, ram=ram)
        return run_search(asked, default_cache_dir(), lambda line: None, lambda *_: None, load_boards()).record

    rows = {row["format"]: row for row in searched(1_000)["uniform"]}
    record = searched(rows["fixed16"]["ram_bytes"] - 1)
    assert 0 < record["search"]["disagreements"] < rows["fixed8"]["searched_disagreements"]
    assert record["ram_bytes"] < rows["fixed16"]["ram_bytes"]
    assert record["replaced"]["by"] == MIXTURE


def test_no_limit_of_ram_exceeds_the_board_s(tmp_path: Path) -> None:
    """What is asked beyond it is not there, and what a refusal names is, or another board."""
    entry = "chips: {tiny: {like: atmega328p, ram_bytes: 300, stack_reserve_bytes: 100}}\n"
    entry += "boards: {tiny: {title: Tiny, chip: tiny, reset: on_open, upload: arduino, baud: 115200}}\n"
    (tmp_path / "boards.yaml").write_text(entry)
    command = ("search", "--board", "tiny", "--boards-file", "boards.yaml", "--model", "digits_mlp", "--evaluations", 2)
    done = hil_command.hil(*command, "--ram", 5000, cwd=tmp_path)
    assert done.returncode == EXIT_BUILD
    assert "--ram 5000 is more than tiny has: 300 B count" in done.stderr
    assert re.search(
        r"300 B of RAM in all hold no format for all tensors on tiny: .*; choose a board with more RAM", done.stderr
    )


def test_what_a_sweep_runs_no_search_has_seen(tmp_path: Path) -> None:
    """With `calibrate` a search sees that file alone; without, half of what is run, which the row says."""

    def swept(folder: Path, text: str) -> dict:
        (folder / "sweep.yaml").write_text(text)
        return printed(folder, "sweep", "sweep.yaml", "--md", "t.md")

    example = Path(__file__).parent.parent / "examples" / "vibration"
    entry = f"model: {example}/models/vibration.onnx, inputs: {example}/data/test.npz"
    rest = "boards: [host]\nformats: [[fixed8, fixed16]]\nsearch: {evaluations: 2, ram: 1000}\n"
    done = swept(tmp_path, f"models: [{{{entry}, calibrate: {example}/data/train.npz}}]\n{rest}")
    (row,) = done["cells"]
    found = json.loads((tmp_path / row["search"]).read_text())
    files = {name: len(np.load(example / "data" / f"{name}.npz")["y"]) for name in ("train", "test")}
    assert (found["search"]["samples"], found["samples"], row["samples"]) == (
        files["train"],
        files["test"],
        files["test"],
    )
    assert "searched half" not in (tmp_path / "t.md").read_text()
    half = swept(tmp_path, f"models: [{{{entry}}}]\n{rest}")
    (row,) = half["cells"]
    found = json.loads((tmp_path / row["search"]).read_text())
    assert found["search"]["samples"] == files["test"] // 2
    assert "(searched half of these samples)" in (tmp_path / "t.md").read_text()


@pytest.mark.slow
def test_the_least_flash_is_no_more_than_one_format_of_weights_takes(tmp_path: Path) -> None:
    """What code takes is estimated from few images: answers were some hundred bytes larger, limits refused."""
    chance = np.random.default_rng(0)
    shapes = {"w1": (64, 24), "b1": (24,), "w2": (24, 10), "b2": (10,)}
    constants = {name: chance.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [node("Gemm", "x w1 b1", "a"), node("Relu", "a", "c"), node("Gemm", "c w2 b2", "d")]
    model = simple([*nodes, node("Softmax", "d", "y")], {"x": (1, 64)}, constants)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=chance.uniform(0, 1, (60, 1, 64)).astype(np.float32))
    taken = run(tmp_path, "uno", "--format", "fixed4pc", "--prefer", "ram", "--samples", "2")["flash_bytes"]
    common = ("search", "--model", "net.onnx", "--inputs", "x.npz", "--board", "uno")
    assert printed(tmp_path, *common, "--minimize", "flash", "--points", "100")["flash_bytes"] <= taken
    assert printed(tmp_path, *common, "--flash", str(taken), "--results", "anew")["flash_bytes"] <= taken


@pytest.mark.slow
def test_what_another_search_has_shown_makes_no_answer_worse(tmp_path: Path) -> None:
    """An estimate below what boards have shown hid that: 8,976 B where an empty folder gave 8,040."""
    digits = data.load("digits")
    np.savez(tmp_path / "x.npz", x=digits.x_test[:224], y=digits.y_test[:224])
    common = ("search", "--model", "digits_mlp", "--inputs", "x.npz", "--board", "uno", "--minimize", "flash")
    alone = printed(tmp_path, *common, "--points", "7", "--results", "anew")["flash_bytes"]
    after = [printed(tmp_path, *common, "--points", points)["flash_bytes"] for points in ("12", "7", "7")]
    assert max(after[1:]) <= 1.01 * alone
    assert after[0] <= 1.01 * min(after)


@pytest.mark.slow
def test_a_chip_with_little_flash_is_searched_with_images_that_tell_more(tmp_path: Path) -> None:
    """What is timed takes more code than what is shipped: nothing was found where an assignment fits."""
    assert hil_command.hil("new", "p", cwd=tmp_path).returncode == 0
    entry = "chips: {small: {like: atmega328p, flash_bytes: 5150}}\n"
    entry += "boards: {small: {title: Small, chip: small, reset: on_open, upload: arduino, baud: 115200}}\n"
    (tmp_path / "boards.yaml").write_text(entry)
    files = ("--model", "p/models/vibration.onnx", "--inputs", "p/data/test.npz", "--calibrate", "p/data/train.npz")
    command = ("--board", "small", "--boards-file", "boards.yaml", *files)
    for more in ((), ("--flash", "5100")):
        found = printed(tmp_path, "search", *command, *more, "--out", "w.yaml")
        ran = printed(tmp_path, "run", *command, "--assignment", "w.yaml")
        assert ran["flash_bytes"] == found["flash_bytes"] <= int((*more, 5150)[-1])
        assert ran["accuracy"] > 0.9
