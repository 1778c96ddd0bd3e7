"""What repeats figures of the docs: it knows them, sees when they are wrong, and says since when tables are stale."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import trained_networks
from benchmarks.trained_networks import MACHINE, NETWORKS, hash_of, note
from tinyhil.errors import DataError
from tools import claims, stale, table_claims
from tools.claim import Claim, differences, listed, repeat
from tools.claims import check, drawn
from tools.measured import ROOT, provenance_of, read

EVERY = list(claims.claims())


def test_there_are_claims_of_every_kind_and_each_states_something() -> None:
    assert len(EVERY) > 1100
    pages = {claim.name.split(":")[0] for claim in EVERY}
    assert {"README.md", "docs/zoo.md", "docs/formats.md", "docs/mlperf.md", "docs/papers/squeezenet.md"} <= pages
    assert {f"docs/measured/{name}.md" for name in ("formats", "search", "peers", "passes", "attention")} <= pages
    assert all(claim.stated and claim.seconds >= 0 and claim.command for claim in EVERY)


# Built from fetched sources, trained for many minutes, of a machine's clock; docs/onnx.md's counts are a test's.
UNCLAIMED = {"engines", "fit_points", "onnx_backend", "sequence_models", "sweep_scaling", "search/op_costs", "stale"}


def test_every_table_has_claims_or_a_reason_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    monkeypatch.setattr(table_claims, "read", lambda name: (asked.add(name), read(name))[1])
    assert list(table_claims.every())
    results = ROOT / "results"
    files = [*results.glob("*.json"), *(results / "search").glob("*.json"), *(results / "training").glob("*.json")]
    assert {str(path.relative_to(results).with_suffix("")) for path in files} == asked | UNCLAIMED


@pytest.mark.parametrize("claim", [claim for claim in EVERY if ":" not in claim.name], ids=lambda claim: claim.command)
def test_figures_of_sentences_stand_in_their_pages(claim: Claim) -> None:
    page = (ROOT / claim.name).read_text()
    assert not [figure for figure in claim.stated if figure not in page]


@pytest.mark.parametrize(
    ("stated", "found", "tolerance", "count"),
    [
        ({"a": 1, "b": [1.0, 2.0]}, {"a": 1, "b": [1.0, 2.0]}, 0, 0),
        ({"a": 100}, {"a": 101}, 0.01, 0),
        ({"a": 100}, {"a": 102}, 0.01, 1),
        ({"a": 100}, {}, 0.5, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5, 1),
        ({"a": [1, 2]}, {"a": [1]}, 0.5, 1),
        ({"a": True}, {"a": False}, 2, 1),
        ({"a": "x", "b": None}, {"a": "y", "b": 0}, 2, 2),
        ({"near": 36, "a": {"near": 1}}, {"near": 38, "a": {"near": 0}}, 0, 0),
        ({"near": 36}, {"near": 39}, 0, 1),
        ({"near": 36}, {"near": float("nan")}, 2, 1),
    ],
)
def test_differences(stated: dict, found: dict, tolerance: float, count: int) -> None:
    assert len(differences(Claim("p", "cmd", 1, stated, dict, tolerance, {"near": 2}), found)) == count


@pytest.mark.parametrize(
    ("claim", "tolerance"),
    [
        (Claim("p", "cmd", 1.5, {"a": 1}, dict), "[equal]"),
        (Claim("p", "cmd", 1.5, {"a": 1}, dict, 0.01), "[within 0.01 of it]"),
        (Claim("p", "cmd", 1.5, {"a": 1}, dict, apart={"a": 2}), "[a within 2]"),
        (Claim("p", "cmd", 1.5, {"a": 1}, dict, tries=3), "[equal in one of 3]"),
    ],
)
def test_a_listed_claim_says_what_is_expected_and_how_far_off_it_may_be(claim: Claim, tolerance: str) -> None:
    assert listed(claim) == f'    1.5 s  p  (cmd)  {{"a": 1}}  {tolerance}'


def nowhere() -> dict:
    raise DataError("set HIL_DATA")


def test_a_wrong_figure_is_named_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = (
        Claim("p", "cmd p", 1, {"a": 1}, lambda: {"a": 1}),
        Claim("q", "cmd q", 1, {"a": 1}, lambda: {"a": 2}),
    )
    assert check([right, wrong, Claim("r", "cmd r", 1, {"a": 1}, nowhere)], None) == 1
    said = capsys.readouterr().out
    assert "STALE: q: a: stated 1, today 2; repeat: cmd q" in said
    assert "left out: r: set HIL_DATA" in said
    assert "2 repeated, 1 stale, 1 left out for want of data, 0 not begun in time" in said


@pytest.mark.parametrize(("given", "wrong"), [([3, 1, 1], 0), ([2, 3, 1], 0), ([2, 2, 2], 1), ([2, 2, 2, 1], 1)])
def test_what_moves_with_the_clock_of_the_host_is_equal_in_one_of_its_tries(given: list[int], wrong: int) -> None:
    """The deepest stack holds an interrupt's frame or not; any other figure never gives what is stated."""
    moving = iter(given)
    assert len(repeat(Claim("p", "cmd", 1, {"a": 1}, lambda: {"a": next(moving)}, tries=3))) == wrong


def test_what_is_not_begun_in_time_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert check([Claim("p", "cmd", 1, {"a": 1}, lambda: {"a": 2})], -1.0) == 0
    assert "0 repeated, 0 stale, 0 left out for want of data, 1 not begun in time" in capsys.readouterr().out


def test_what_lacks_data_says_where_to_get_it_and_an_unknown_name_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> dict:
        raise DataError(f"{'x' * 300} get it from there")

    assert check([Claim("page.md", "hil x", 0.1, {"a": 1}, measure)], None) == 0
    assert "get it from there\nclaims: 0 repeated, 0 stale, 1 left out" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["claims", "--only", "nobody.md"])
    with pytest.raises(SystemExit):
        claims.main()
    assert "no claim's name holds 'nobody.md'" in capsys.readouterr().err


def test_draws_are_a_tenth_or_what_a_minute_holds() -> None:
    assert len(drawn(EVERY, "a", None)) == -(-len(EVERY) // 10)
    minute = drawn(EVERY, "a", 60)
    assert 0 < sum(claim.seconds for claim in minute) <= 60
    assert [claim.name for claim in minute] == [claim.name for claim in drawn(EVERY, "a", 60)]
    assert [claim.name for claim in minute] != [claim.name for claim in drawn(EVERY, "b", 60)]
    assert drawn(EVERY, "a", None, 30) == drawn(EVERY, "a", None)[:30]


def test_a_training_repeats_where_its_networks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their hashes; with another torch or processor there is nothing to compare, which is said."""
    one, other = ({"w": np.full(2, value, np.float32)} for value in (1, 2))

    def rows() -> Iterator[dict]:
        for constants in (one, other):
            note(constants)
            yield {"bits": "4", "seconds": 1, "s: ours": "1.0"}

    (claim,) = (claim for claim in EVERY if claim.name == "docs/training.md: ram_few")
    monkeypatch.setenv("HIL_DATA", str(ROOT))
    monkeypatch.setattr(table_claims, "_tables_of_trainings", lambda: {"ram_few": rows})
    monkeypatch.setattr(trained_networks, "machine", lambda: provenance_of("training/ram_few").get(MACHINE))
    found = claim.measure()["rows"]
    assert found == [{"bits": "4", NETWORKS: hash_of(one)}, {"bits": "4", NETWORKS: hash_of(other)}]
    assert hash_of(one) != hash_of(other) == hash_of({"w": np.array([2, 2], np.float32)})
    assert any(NETWORKS in line for line in repeat(claim))
    monkeypatch.setattr(trained_networks, "machine", lambda: "another torch")
    with pytest.raises(DataError, match=r"ram_few: trained by .*, here by another torch"):
        claim.measure()


# What is no row of its own training, and what trains nothing.
TRAININGS = sorted(path.stem for path in (ROOT / "results" / "training").glob("*.json"))
WITHOUT_NETWORKS = {"arithmetic_seeds": {"mean", "standard deviation"}, "zeros": None}


@pytest.mark.parametrize("name", TRAININGS)
def test_every_row_says_which_networks_it_trained(name: str) -> None:
    without = WITHOUT_NETWORKS.get(name, set())
    for row in () if without is None else read(f"training/{name}"):
        assert row.get("seed") in without or re.fullmatch(r"[0-9a-f]{12}( [0-9a-f]{12})*", row[NETWORKS]), row
    assert provenance_of(f"training/{name}")[MACHINE].startswith("torch ")


def test_a_claim_is_repeated() -> None:
    """The whole way, on data that ships."""
    chosen = [claim for claim in EVERY if claim.name == "docs/zoo.md: digits_mlp"]
    assert len(chosen) == 1
    assert check(chosen, None) == 0


def test_pages_say_since_when_by_the_ledger() -> None:
    """Every table that names its commit; `make claims` renews both."""
    known = json.loads(stale.LEDGER.read_text())
    assert all(re.fullmatch(r"[0-9a-f]{10} [\w ./]+", key) for key in known)
    pages = stale.pages()
    assert len(pages) > 10
    for path in pages:
        text = path.read_text()
        assert text == stale.marked(text, str(path.relative_to(ROOT))), f"{path.name}: make claims"


def test_each_cell_of_a_paper_says_whether_its_own_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of one page differ in commits and in what they depend on; papers' own code counts, too."""
    names = [name for name, _ in stale.cells()]
    assert {name.split(": ")[0] for name in names} == {f"docs/papers/{p.name}.md" for p in claims.PAPERS}
    assert all(f"benchmarks/papers/{n.split('/')[2].split('.md')[0]}" in " ".join(stale.paths_of(n)) for n in names)
    (place, planned), (score, commit) = (
        next((name, commit) for name, commit in stale.cells() if name.startswith(f"docs/papers/fp8.md: {kind}/"))
        for kind in ("in place", "fake")
    )
    ledger = tmp_path / "stale.json"
    ledger.write_text(
        json.dumps({f"{commit[:10]} {' '.join(stale.paths_of(score))}": f"{'b' * 10}, 2026-01-02 (tinyhil)"})
    )
    monkeypatch.setattr(stale, "LEDGER", ledger)
    assert stale.cell_changed(place, planned) == stale.cell_changed(place, commit) == ""
    said = {claim.name: listed(claim) for claim in claims.claims() if claim.name in (place, score)}
    assert said[score].endswith(f"stale since {'b' * 10}, 2026-01-02 (tinyhil)")
    assert "stale" not in said[place]


def test_what_has_changed_is_said_and_what_has_not_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = stale.paths_of("docs/measured/formats.md")
    ledger = tmp_path / "stale.json"
    ledger.write_text(json.dumps({f"{'a' * 10} {' '.join(paths)}": f"{'b' * 10}, 2026-01-02 (firmware)"}))
    monkeypatch.setattr(stale, "LEDGER", ledger)
    text = f"Measured at {'a' * 10}, 2026-01-01. Measured at {'c' * 10}, 2026-01-01."
    said = stale.marked(text, "docs/measured/formats.md")
    since = f";\nstale since {'b' * 10}, 2026-01-02 (firmware)"
    assert said == f"Measured at {'a' * 10}, 2026-01-01{since}. Measured at {'c' * 10}, 2026-01-01."
    assert stale.unmarked(said) == text
    assert stale.marked(said, "docs/measured/formats.md") == said
    wrapped = f"Measured at {'c' * 10},\n{'a' * 10}"  # what the last of a long list says had been cut off
    assert stale.marked(f"{wrapped}.", "docs/measured/formats.md") == f"{wrapped}{since}."
