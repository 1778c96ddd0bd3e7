"""A strategy in a file of the user's own: the tutorial's, spoilt in one place each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hil_command import hil

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tutorials" / "own.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SEARCH = ("search", "--model", "digits_mlp", "--arena", 100, "--formats", "fixed8,fixed16", "--samples", 20)
FAULTS = {
    "no_such_field": (
        *("trial.score.disagreements", "trial.disagreements"),
        "mine.py, line 20: AttributeError: 'Trial' object has no attribute 'disagreements'; all that Python says",
    ),
    "no_question": ("yield Ask(candidate)", "yield candidate", "it must yield Ask(candidate)"),
    "no_candidate": ("return candidate", "return candidate[1:]", "a candidate is a tuple of 7 Choices"),
    "no_choice": ("Ask(candidate)", "Ask((1,) * 7)", "a candidate is a tuple of 7 Choices"),
    "not_on_offer": ("Choice(name)", 'Choice("fixed4")', "_w in fixed4: on offer are fixed8, fixed16"),
    "no_import": ("import Choice", "import Chioce", "mine.py: ImportError: cannot import name 'Chioce'"),
    "no_python": ("class Uniform", "clas Uniform", "mine.py: SyntaxError: "),
    "no_name": ('ClassVar[str] = "uniform"', "ClassVar[str]", "Uniform is no dataclass with `name: ClassVar[str]`"),
    "a_path_for_a_name": (
        '= "uniform"',
        '= "../uniform"',
        "Uniform is no dataclass with `name: ClassVar[str]`, a word",
    ),
    "no_dataclass": ("@dataclass(frozen=True, slots=True)", "", "Uniform is no dataclass"),
    "no_strategy": ("def propose", "def ask", "one class with a method `propose` is wanted, there is none"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_it_is_said_in_a_line(fault: str, tmp_path: Path) -> None:
    old, new, said = FAULTS[fault]
    assert old in CODE
    (tmp_path / "mine.py").write_text(CODE.replace(old, new))
    done = hil(*SEARCH, "--strategy", "mine.py", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert "a defect of hil" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = hil(*SEARCH, "--strategy", "mine.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "hil: strategy mine.py: no such file\n")


def test_a_sweep_takes_it_beside_its_file_and_knows_its_content(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    mine = tmp_path / "here" / "mine.py"
    mine.write_text(CODE)
    (tmp_path / "here" / "s.yaml").write_text(
        "models: [digits_mlp]\nboards: [host]\nformats: [[fixed8, fixed16]]\nstrategies: [mine.py]\n"
        "run: {samples: 4}\nsearch: {samples: 20, ram: 1000}\n"
    )
    known = []
    for code in (CODE, CODE, CODE + "# another\n"):
        mine.write_text(code)
        done = hil("sweep", "here/s.yaml", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        known.append(found["known"])
        assert [(row["strategy"], row["bit_exact"]) for row in found["cells"]] == [("mine", True)]
    assert known == [0, 1, 0]


def test_one_that_asks_nothing_new_is_ended(tmp_path: Path) -> None:
    """What is known costs nothing of a budget: without an end of its own it would go on for ever."""
    text = CODE.replace("for name in reversed(problem.space.formats):", "while name := problem.space.formats[0]:")
    (tmp_path / "mine.py").write_text(text.replace("== 0", "< 0"), encoding="utf-8")
    done = hil(*SEARCH, "--strategy", "mine.py", "--evaluations", "20", "--own", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "search: uniform was ended: it asked 10,000 times in a row what it had asked before" in done.stderr
    assert "fixed8" in done.stdout
