"""`hil docs`: the pages of docs/ as they lie in the installation, for people and assistants without a network."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.harness.settings.assets import asset, in_checkout

AGENTS = "agents"  # AGENTS.md of the root: where an assistant begins
ASIDE = "> Some of what this page names lies elsewhere in an installation: its last lines say where."
IN_A_CLONE = re.compile(  # what an installation of a wheel lacks, as pages name it
    r"(?<![\w/])(?:benchmarks|examples|tests|tools|models/\w+|\.ci|\.github)/[\w./*-]*\w"
    r"|python -m\s+(?:benchmarks|tools)[\w.]*\w"
    r"|\bmake (?:check|claims|docs|mutate|reproduce|setup(?:-dev)?|tables|test(?:-slow)?)\b"
)
EXTRA = re.compile(r"pip\s+install\s+-e\s+'\.(\[\w+\])'")  # installed into a clone
SHIPPED = re.compile(r"(?<![\w/])(firmware|emulators)/")  # with tinyhil, elsewhere than in a clone
PACKAGES = re.compile(r"`(codegen|harness|memplan|search|train)/")  # which are tinyhil's, once it is installed


def pages() -> dict[str, Path]:
    """Files by topic: `fit`, `tutorials/arduino`; a folder's README has the folder's name."""
    folder = asset("docs")
    found = {AGENTS: asset("AGENTS.md")}
    for path in sorted(folder.rglob("*.md")):
        topic = path.relative_to(folder).with_suffix("").as_posix()
        found[topic.removesuffix("/README")] = path
    return found


def title_of(path: Path) -> str:
    """The page's first heading."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), path.stem)


def page_text(topic: str) -> str:
    """The Markdown of a page, by its topic, the end of it, or the name that other pages link to.

    ConfigError names near topics, and how to search the pages.
    """
    known = pages()
    wanted = topic.partition("#")[0].lower().removeprefix("docs/").removesuffix(".md")
    while wanted.startswith("../"):
        wanted = wanted.removeprefix("../")
    wanted = "index" if wanted == "readme" else wanted.removesuffix("/readme")
    ends = [name for name in known if name.rpartition("/")[2] == wanted]
    name = wanted if wanted in known else ends[0] if len(ends) == 1 else None
    if name is None:
        near = did_you_mean(wanted, list(known)) + "`hil docs` lists them all"
        raise ConfigError(f"no page {topic!r}; {near}, `hil docs --find {shlex.quote(topic)}` searches them")
    text = known[name].read_text(encoding="utf-8")
    note = of_a_wheel(text)
    first, _, rest = text.partition("\n")
    return f"{first}\n\n{ASIDE}\n{rest.rstrip()}\n\n{note}\n" if note else text


def of_a_wheel(text: str) -> str | None:
    """Where tinyhil is no clone: what of the text is in a clone alone, with the line that gets one, and where else the
    rest lies; None if nothing is to be said."""
    kinds = (IN_A_CLONE, EXTRA, SHIPPED, PACKAGES)
    found, extras, folders, packages = (
        dict.fromkeys(" ".join(one.split()) for one in kind.findall(text)) for kind in kinds
    )
    if in_checkout() or not (found or extras or folders or packages):
        return None
    (lines,) = re.findall(r"^git clone .*\n.*$", pages()["install"].read_text(encoding="utf-8"), re.MULTILINE)
    line = " && ".join(lines.splitlines())
    clone = f"In a clone alone, not in this installation: `{'`, `'.join(found)}`. To get one: `{line}`."
    here = [f"For `pip install -e '.{extra}'` type `pip install 'tinyhil{extra}'`." for extra in extras]
    here += [f"The folder `{folder}/` is {asset(folder)}." for folder in folders]
    here += [f"The folder `{name}/` is {Path(__file__).resolve().parents[2] / name}." for name in packages]
    return "> " + " ".join([clone] * bool(found) + here)


def lines_with(word: str) -> list[str]:
    """`topic:line: text` of every line with the word, or with all of several words, whatever their case."""
    wanted = word.lower().split() or [word]
    return [
        f"{topic}:{number}: {line.strip()}"
        for topic, path in pages().items()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if all(one in line.lower() for one in wanted)
    ]
