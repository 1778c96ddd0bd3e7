"""The report: what stands on the page, and what a browser makes of it."""

from __future__ import annotations

import copy
import csv
import json
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import browser, chromium
from hil_command import check_failure, hil
from record_consumers import damaged, places
from wire_bench import write_tiny_model

from tinyhil.errors import DataError
from tinyhil.harness.records import exports
from tinyhil.harness.records.figures import CANDIDATES
from tinyhil.harness.records.schema import read_any
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.records.terminal import rows
from tinyhil.harness.records.verdict import ISSUES, verdict_of
from tinyhil.harness.report.html import escape
from tinyhil.harness.report.page import make_page
from tinyhil.harness.report.sentence import search_sentence, sentence

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "</script><script>alert(1)</script>\"'<b>&"
UNIFORM = [
    {"format": "fixed8", "reason": None, "arena_bytes": 40, "quality": 0.9, "accuracy": 0.9, "latency_us": 10.0},
    {"format": "fixed16", "reason": None, "arena_bytes": 80, "quality": 1.0, "accuracy": 1.0, "latency_us": 20.0},
    {"format": "nf4", "reason": "no kernel", "arena_bytes": None},
]
SEARCH = {
    **{"strategy": "lagrange", "evaluations": 3.0, "seconds": 0.5, "samples": 20, "accuracy": 1.0, "arena_bytes": 80},
    **{"latency_us": 20.0, "uniform": UNIFORM, "search": {"quality": 1.0}, "formats": ["fixed8", "fixed16"], "seed": 0},
    "tried": [
        {"number": n, "arena_bytes": 40 + 10 * n, "quality": 0.9 + 0.02 * n, "latency_us": 9.0 + n} for n in range(5)
    ],
}


class Reader(HTMLParser):
    """Elements by name, texts of titles and cells, and whatever would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in ("meta", "link", "img", "br"):
            self.open.append("spec" if found.get("type") == "application/json" else tag)
        for name in ("src", "href"):
            address = found.get(name) or "#"
            if not address.startswith(("#", "data:")):
                self.fetched.append(address)

    def handle_endtag(self, tag: str) -> None:
        last = self.open.pop()
        assert last == tag or (last, tag) == ("spec", "script"), f"<{last}> is ended by </{tag}>"

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "spec":
            self.specs.append(json.loads(data))
        elif inside not in ("script", "style"):
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A profile on the emulated Uno and a search, as files; the profile's as `hil profile` left it."""
    folder = tmp_path_factory.mktemp("report")
    write_tiny_model(folder / "tiny.onnx")
    x = np.random.default_rng(5).uniform(-1, 1, (12, 1, 32)).astype(np.float32)
    np.savez(folder / "x.npz", x=x, y=np.arange(12) % 4)
    options = ("--model", "tiny.onnx", "--inputs", "x.npz", "--calibrate", "x.npz", "--samples", 12)
    done = hil("profile", "--board", "uno", *options, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "results" / "uno" / "tiny").glob("*.json")
    (folder / "search.json").write_text(json.dumps(SEARCH))
    return [path, folder / "search.json"]


def test_records_of_one_board_and_format_say_their_time(records: list[Path], tmp_path: Path) -> None:
    """Two runs of a model, as with another preference, and one on another board."""
    record = json.loads(records[0].read_text())
    later = {**record, "provenance": {**record["provenance"], "utc": "2026-01-02T03:04:05Z"}}
    for name, one in (("later", later), ("elsewhere", {**later, "board": "due"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    page = make_page([records[0], tmp_path / "later.json", tmp_path / "elsewhere.json"])
    cards = [card.split("</a>")[0] for card in page.split('<a class="multiple"')[1:]]
    first, second = (one["provenance"]["utc"].replace("T", " ").rstrip("Z") for one in (record, later))
    assert [first in cards[0], second in cards[1], second in cards[2]] == [True, True, False]


def test_the_page_says_all_that_the_record_knows(records: list[Path]) -> None:
    record = json.loads(records[0].read_text())
    page = read(make_page(records))
    text = " ".join(page.text)
    assert page.fetched == []
    for title in (
        "Where the time goes",
        "Graph",
        "Layers",
        "Memory over time",
        "RAM and flash by part",
        "Decisions",
        "Provenance",
        "Pareto fronts",
    ):
        assert title in page.text
    for figure in (record["flash_bytes"], record["memory"]["total_bytes"], record["latency"]["max"]):
        assert f"{figure:,}" in text
    for layer, cost in zip(record["layers"], record["profile"]["operations"], strict=True):
        assert {layer["name"], f"{cost['ticks']:,.0f}", f"{layer['weight_bytes']:,}"} <= set(page.text)
    for part, count in {**record["parts"]["flash"], **record["parts"]["ram"]}.items():
        assert {part, f"{count:,}"} <= set(page.text)
    assert record["plan"]["certificate"] in page.text
    assert record["provenance"]["command"] in page.text
    assert record["provenance"]["command"].startswith("hil profile --board uno --model tiny.onnx --inputs x.npz")
    times = len(set(record["raw"]["ticks"])) > 1
    assert len(page.specs) == 5 + times  # map, parts, confusion, perhaps times; two panels of the search


def test_shares_of_time_are_the_same_everywhere(records: list[Path]) -> None:
    """In the bar, the graph and the table: of the operations and what lies between them."""
    record = json.loads(records[0].read_text())
    record["profile"]["outside"] = sum(cost["ticks"] for cost in record["profile"]["operations"])  # half of all
    changed = records[0].with_name("outside.json")
    changed.write_text(json.dumps(record))
    text = " ".join(read(make_page([changed])).text)
    assert "mix takes most: 50 % of " in text
    assert " · 50 %" in text
    assert " 50.0 % " in text
    assert "100.0 %" not in text.partition("Memory over time")[0].partition("Layers")[2]


def test_parts_of_the_record_are_consistent(records: list[Path]) -> None:
    """What the report adds up is what the run measured."""
    record = json.loads(records[0].read_text())
    assert record["verdict"] == "valid"
    assert record["issues"] == []
    assert sum(record["parts"]["flash"].values()) == record["flash_bytes"]
    assert sum(record["parts"]["ram"].values()) == record["memory"]["static_bytes"]
    assert record["parts"]["ram"]["arena"] == record["memory"]["arena_bytes"]
    assert sum(layer["saturations"] for layer in record["layers"]) == record["saturations"]
    assert sum(sum(row) for row in record["decisions"]["confusion"]) == record["samples"]
    right = sum(row[label] for label, row in enumerate(record["decisions"]["confusion"]))
    assert right / record["samples"] == record["accuracy"]
    tops = [b["offset"] + b["size_bytes"] for b in record["plan"]["buffers"]]
    assert max(tops) == record["plan"]["peak_bytes"]


def test_classes_have_their_names_where_the_model_gives_any(records: list[Path], tmp_path: Path) -> None:
    """In the matrix and below the worst samples, as records had none before and may have too few."""
    record = json.loads(records[0].read_text())
    assert record["decisions"]["names"] == []
    for names in ([], ["walks", "sits"], ["walks", "sits", "lies", "3"]):
        record["decisions"]["names"] = names
        (tmp_path / "named.json").write_text(json.dumps(record))
        page = make_page([tmp_path / "named.json"])
        reader = read(page)
        (matrix,) = (spec for spec in reader.specs if "class" in spec["data"]["values"][0])
        axis = matrix["layer"][0]["encoding"]["y"]["sort"]
        assert axis == [f"{at} {name}" if name != str(at) else name for at, name in enumerate(names)] + [
            str(at) for at in range(len(names), 4)
        ]
        assert {row["label"] for row in matrix["data"]["values"]} == set(axis)
        assert all(f"label {axis[number]}" in page for number in (0, 3))


def test_nothing_is_compared_unless_asked(records: list[Path], tmp_path: Path) -> None:
    record = json.loads(records[0].read_text())
    record["flash_bytes"] += 100
    record["model"] = HOSTILE
    record["layers"][0]["name"] = HOSTILE
    record["provenance"]["image_hash"] = "0" * 16
    record["provenance"]["model_sha256"] = "0" * 64
    (tmp_path / "other.json").write_text(json.dumps(record))
    assert "Against" not in read(make_page([records[0], tmp_path / "other.json"])).text
    page = make_page([records[0], tmp_path / "other.json"], against=records[0])
    assert read(page).text.count("Against") == 1  # not the record with itself
    assert "flash is worse, +100 (" in page
    assert "fails: model: another file" in page  # as hil compare says
    assert HOSTILE not in page
    assert escape(HOSTILE) in page


def test_a_run_is_not_held_against_its_own_profile(records: list[Path], tmp_path: Path) -> None:
    run = json.loads(records[0].read_text())
    del run["profile"]
    (tmp_path / "run.json").write_text(json.dumps(run))
    done = hil("report", tmp_path / "run.json", "--against", records[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = read((tmp_path / "report.html").read_text())
    assert "tiny on uno, fixed16: the same image; there is nothing to compare." in page.text


def test_only_a_page_compares(records: list[Path], tmp_path: Path) -> None:
    done = hil("report", records[0], "--against", records[0], "--md", "-", cwd=tmp_path)
    check_failure(done, 2, "--against is of the page: give -o, too; `hil compare BEFORE NOW --as md`")


def test_runs_are_held_against_those_of_a_folder(records: list[Path], tmp_path: Path) -> None:
    """Each against the newest of its board, model and format there; one that has none, against nothing, and says
    so; a folder of others is refused."""
    record = json.loads(records[0].read_text())
    before, now = tmp_path / "before", tmp_path / "now"
    for folder, more, board in ((before, 0, "uno"), (now, 100, "uno"), (now, 300, "due")):
        folder.mkdir(exist_ok=True)
        record["flash_bytes"], record["board"] = record["flash_bytes"] + more, board
        record["provenance"]["image_hash"] = f"{more:016x}"
        (folder / f"{board}.json").write_text(json.dumps(record))
    text = read(make_page(sorted(now.glob("*.json")), against=before)).text
    assert text.count("Against") == 2
    assert "flash is worse, +100 (" in " ".join(text)
    assert f"{before} holds nothing of this board, model and format." in text
    with pytest.raises(DataError, match=r"no board, model and format in common; .*before holds uno .*the page due"):
        make_page([now / "due.json"], against=before)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {},
            "tiny fits the board uno and is right (12 of 12 results equal the reference bit for bit): one sample",
        ),
        (
            {"bit_exact": False, "equal_samples": 3},
            "fits the board uno and is not right (3 of 12 results equal the ref",
        ),
        ({"memory": {"total_bytes": 3000}}, "tiny does not fit the board uno and is right"),
        ({"flash_bytes": 40000}, "tiny does not fit the board uno and is right"),
        ({"board": "host"}, "tiny runs on this computer and is right"),
        (
            {"accuracy": 0.5, "float_accuracy": 0.9},
            "; 6 of 12 are right by the labels, in floating point 11 of 12; but 5 points of accuracy",
        ),
        (
            {"accuracy": 0.5, "float_accuracy": 0.9, "samples": 200, "equal_samples": 200},
            "; 50.0 % are right by the labels, in floating point 90.0 %; but the record lacks",
        ),
        ({"accuracy": None, "disagreements": 2}, "; 2 of 12 decisions differ from the float model's."),
        ({"memory": {"total_bytes": 1024, "limit_bytes": 2048}}, "with 50 % of the RAM and "),
    ],
)
def test_the_verdict_is_a_sentence(changed: dict[str, Any], said: str, records: list[Path]) -> None:
    record = json.loads(records[0].read_text())
    for key, value in changed.items():
        record[key] = {**record[key], **value} if isinstance(value, dict) else value
    assert said in sentence(record)


def test_the_verdict_of_a_search_names_the_best_single_format() -> None:
    assert search_sentence(SEARCH) == (
        "The search chose formats that take 80 B of arena and 20 µs, 100.0 % as float decides on the samples searched; "
        "fixed16 for all tensors takes 80 B of arena and 20 µs, 100.0 %."
    )
    uniform = [{**row, "searched_disagreements": 3} for row in UNIFORM]
    better = {"disagreements": 1, "samples": 60}
    mixed = {**SEARCH, "uniform": uniform, "replaced": {"by": MIXTURE}, "search": better}
    assert search_sentence(mixed).startswith("Nearer to float than the strategy's own answer is a mixture that it has")
    assert "which takes 80 B of arena and 20 µs: 1 of 60 samples searched differ, of fixed" in search_sentence(mixed)
    front = {**SEARCH, "points": [{"quality": 0.5}, {"quality": 0.875}]}
    assert "no other beats, 50.0 to 87.5 % as float decides on the samples searched." in search_sentence(front)
    labelled = search_sentence({"points": [{**point, "accuracy": 0.75} for point in front["points"]]})
    assert labelled.endswith(", 50.0 to 87.5 % right on the samples searched, 75.0 % on those held out.")
    alone = {"points": front["points"][:1]}
    assert search_sentence(alone).startswith("The search found one choice that beats all others, ")


def test_a_model_too_large_for_sensitivities_says_so(records: list[Path], tmp_path: Path) -> None:
    record = json.loads(records[0].read_text())
    assert "No sensitivity" not in make_page(records)
    for layer in record["layers"]:
        layer["sensitivity"] = None
    (tmp_path / "large.json").write_text(json.dumps(record))
    assert "No sensitivity" in make_page([tmp_path / "large.json"])


def test_a_record_without_the_parts_that_reports_show(tmp_path: Path) -> None:
    """A golden record of before: what it lacks is left out."""
    path = next((ROOT / "results" / "golden" / "due").glob("digits_cnn-fixed8.json"))
    page = read(make_page([path]))
    assert "RAM" in " ".join(page.text)
    assert "Memory over time" not in page.text


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not a readable record"), ('{"raw": 1}', "not a record"), ('{"strategy": 1}', "not a")]
)
def test_what_is_no_record_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    check_failure(hil("report", "bad.json", cwd=tmp_path), DataError.exit_code, "bad.json", words)


FAULTS: dict[str, dict[str, Any]] = {
    "not-bit-exact": {"bit_exact": False},
    "no-samples": {"samples": 0, "raw": {"outputs": []}},
    "results-missing": {"samples": 3},
    "ram-exceeded": {"memory": {"total_bytes": 3000}},
    "stack-beyond-bound": {"memory": {"stack_limit_bytes": 1}},
    "stack-could-overflow": {"memory": {"stack_limit_bytes": 2047}},
    "stack-unbounded": {"memory": {"stack_limit_bytes": None, "stack_limit_unknown": "'sub sp, r3' at 0x80 in f"}},
    "float-disagrees": {
        "degraded": [{"tensor": "h", "node": "mix", "format": "fixed8", "error": 2, "allowed": 1, "elements": 1}]
    },
    "accuracy-collapsed": {"accuracy": 0.9, "float_accuracy": 0.95},  # 5 points are lost, and 0.95 - 0.05 < 0.9
    "inputs-clipped": {"input_saturations": 30, "input_beyond": 30},
    "flaky": {"flaky": True},
    "wire-damaged": {"link": {"damaged_frames": 1}},
    "heap-used": {"memory": {"heap_bytes": 8}},
    "ram-unknown": {"memory": {"stack_bytes": None}},
}


@pytest.mark.parametrize("code", [issue.code for issue in ISSUES])
def test_verdicts(code: str, records: list[Path]) -> None:
    """Each fault by its own code, and the verdict that goes with it; docs/results.md knows it."""
    record = copy.deepcopy(json.loads(records[0].read_text()))
    for key, value in FAULTS[code].items():
        record[key] = {**record[key], **value} if isinstance(record[key], dict) else value
    found = verdict_of(record)
    severity = {issue.code: issue.severity for issue in ISSUES}
    assert code in {issue["code"] for issue in found["issues"]}
    assert found["verdict"] in (severity[code], "invalid")
    assert f"`{code}` | {severity[code]}" in (ROOT / "docs" / "results.md").read_text()


def test_what_is_clipped_on_purpose_is_no_fault(records: list[Path]) -> None:
    """An assignment's `offsets` clip inputs within the range that was calibrated."""
    record = json.loads(records[0].read_text()) | {"input_saturations": 30, "input_beyond": 0}
    assert verdict_of(record)["verdict"] == "valid"
    assert dict(rows(record))["disagreements"].endswith("none beyond the calibrated range: `offsets` narrow it")


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no chromium")
def test_in_a_browser(records: list[Path], tmp_path: Path) -> None:
    """Wide and narrow, light and dark: no error, nothing fetched, nothing wider than the window, charts that show."""
    page_file = tmp_path / "report.html"
    text = make_page([*records, records[0]])
    page_file.write_text(text)
    charts = len(read(text).specs)
    with browser() as page:
        for width in (1280, 400):
            for dark in (False, True):
                page.show(page_file, width, dark)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                wide = (
                    "[...document.querySelectorAll('.scroll:not(.graph)')].every(s => s.scrollWidth <= s.clientWidth)"
                )
                assert page.evaluate(wide) or width == 400  # tables scroll on a telephone alone
                assert page.evaluate("[...document.querySelectorAll('.drawn svg')].every(s => s.clientWidth > 200)")
                assert page.evaluate("document.querySelectorAll('.drawn svg').length") == charts
                paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (sum(map(int, paper.strip("rgb()").split(","))) < 200) == dark
        page.evaluate("document.querySelectorAll('table.sortable')[0].querySelectorAll('th button')[5].click()")
        times = page.evaluate(
            "[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows].map(r => +r.cells[5].dataset.key)"
        )
        assert times == sorted(times, reverse=True)
        assert page.errors == []
        assert [address for address in page.requests if not address.startswith(("data:", "file:"))] == []


INJECTED = (
    "</script></title><img src=x onerror=\"window.struck=1\"><svg onload='window.struck=1'>"
    "<a href='javascript:window.struck=1'>x</a><!-- ]]> ${window.struck=1} {{constructor.constructor('struck=1')()}}"
)


def with_text_everywhere(record: Any, path: Path) -> Any:
    """Each text in turn becomes markup, and stays so if the file is still a record."""
    for way in places(record):
        inside: Any = record
        for key in way:
            inside = inside[key]
        if isinstance(inside, str) and way[-1] != "strategy":
            changed = damaged(record, way, INJECTED)
            path.write_text(json.dumps(changed))
            try:
                read_any(path)
            except DataError:
                continue
            record = changed
    return record


@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
def test_markup_in_a_record_stays_text_in_a_browser(tmp_path: Path) -> None:
    paths = []
    for name in ("profile", "search", "front"):
        whole = json.loads((Path(__file__).parent / "records" / f"{name}.json").read_text())
        paths.append(tmp_path / f"{name}.json")
        hostile = with_text_everywhere(whole, paths[-1])
        assert json.dumps(hostile).count("window.struck") > 20
        paths[-1].write_text(json.dumps(hostile))
    (tmp_path / "r.html").write_text(make_page(paths))
    with browser() as page:
        page.show(tmp_path / "r.html", 1280, False)
        assert page.evaluate("window.struck") is None
        assert page.evaluate("document.querySelectorAll('main img[src=x], main a[href^=javascript]').length") == 0
        page.evaluate("document.querySelectorAll('th button').forEach(button => button.click())")
        page.evaluate(
            "document.querySelectorAll('.drawn svg *').forEach(e => e.dispatchEvent(new Event('pointerover')))"
        )
        assert page.evaluate("window.struck") is None
        assert [address for address in page.requests if not address.startswith(("data:", "file:"))] == []


def test_exports(records: list[Path], tmp_path: Path) -> None:
    """Perfetto, CSV, Markdown and Model Explorer, of the same record."""
    record = json.loads(records[0].read_text())
    options = ("--trace", "t.json", "--csv", "-", "--overlay", "o.json")
    done = hil("report", records[0], *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "report.html").exists()
    rows = list(csv.DictReader(done.stdout.splitlines()))
    operations = record["profile"]["operations"]
    assert [(row["name"], float(row["ticks"])) for row in rows] == [(op["name"], op["ticks"]) for op in operations]
    trace = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = [event for event in trace if event["ph"] == "X"]
    assert len(spans) == sum(op["executions"] for op in operations)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(spans))
    assert {event["name"] for event in spans} == {op["name"] for op in operations}
    assert max(event["args"]["bytes"] for event in trace if event["ph"] == "C") == record["plan"]["peak_bytes"]
    (overlay,) = json.loads((tmp_path / "o.json").read_text()).values()
    assert set(overlay["results"]) == {op["output"] for op in operations}
    assert sum(node["value"] for node in overlay["results"].values()) == pytest.approx(
        sum(op["ticks"] for op in operations)
    )
    text = exports.as_markdown([record, {**record, "bit_exact": False, "model": "a|b"}])
    assert "✅ valid | tiny | uno (emulated)" in text
    assert "❌ invalid | a\\|b" in text
    assert "- a|b on uno, fixed16: `not-bit-exact`".replace("|", "\\|") in text
    record["provenance"]["command"] += " --assignment 'results/my search/a.yaml'"
    assert "| mixed by my search/a.yaml |" in exports.as_markdown([{**record, "format": "mixed"}])


def test_of_a_folder_the_newest_runs_are_shown(records: list[Path], tmp_path: Path) -> None:
    profile = json.loads(records[0].read_text())
    record = {key: value for key, value in profile.items() if key != "profile"}
    for number, (board, flash) in enumerate([("uno", 1111), ("uno", 2222), ("due", 3333)]):
        path = tmp_path / "results" / board / f"2026111{number}T000000Z-0.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**record, "board": board, "flash_bytes": flash}))
    later = tmp_path / "results" / "uno" / "20261119T000000Z-0.json"
    later.write_text(json.dumps({**profile, "board": "uno", "flash_bytes": 5555}))
    bench = {**record, "board": "uno", "flash_bytes": 6666, "boots": [{"median": 1.0}]}
    later.with_stem("20261120T000000Z-0").write_text(json.dumps(bench))
    done = hil("report", "results", "--md", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.replace(",", "").replace("\N{NO-BREAK SPACE}", "")
    assert [number in shown for number in ("1111", "2222", "3333", "5555", "6666")] == [False, True, True, False, False]
    assert "results: left out: 1 profile and 1 bench and 1 older run; name their files" in done.stderr
    saving = json.loads(later.with_stem("20261111T000000Z-0").read_text()) | {"flash_bytes": 7777}
    saving["provenance"]["command"] += " --prefer ram"
    later.with_stem("20261112T000000Z-0").write_text(json.dumps(saving))  # another plan is no older run
    done = hil("report", "results", "--md", "-", cwd=tmp_path)
    assert "7,777" in done.stdout
    assert "2,222" in done.stdout
    tried = tmp_path / "results" / "search" / "net" / CANDIDATES
    tried.mkdir(parents=True)
    (tried / "later.json").write_text(json.dumps({**record, "board": "due", "flash_bytes": 4444}))
    for name, more in (("s", {"strategy": "lagrange"}), ("e", {"engine": {"name": "by hand"}})):
        (tmp_path / f"results/{name}.json").write_text(json.dumps({**record, **more}))
    (tmp_path / "results" / "search" / "s.json").write_text((tmp_path / "results" / "s.json").read_text())
    again = hil("report", "results", "--md", "-", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert "left out: 1 search and 1 record of other firmware and 1 profile and 1 bench and 1 older" in again.stderr
    (tmp_path / "empty").mkdir()
    refused = hil("report", "empty", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.strip()) == (2, "hil: empty: no records below")


def test_a_trace_needs_a_profile(records: list[Path], tmp_path: Path) -> None:
    record = json.loads(records[0].read_text())
    del record["profile"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    done = hil("report", "run.json", "--trace", "t.json", cwd=tmp_path)
    check_failure(done, DataError.exit_code, "no profile", "hil profile")
