"""The page: records read, sections joined, styles and scripts put inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError
from tinyhil.harness.records.render import as_html, shown
from tinyhil.harness.records.schema import read_any
from tinyhil.harness.records.side_by_side import changes
from tinyhil.harness.report.html import escape, section
from tinyhil.harness.report.run_sections import run_article
from tinyhil.harness.report.search_sections import search_article

FOLDER = Path(__file__).parent
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
EXTRA = "hil report needs the package vl-convert-python; type: pip install 'tinyhil[report]'"


def make_page(paths: Sequence[Path], head: str = "", each_model: bool = False) -> str:
    """One self-contained page of these records, in this order, below `head`; the first run (`each_model`: of the same
    model) is compared with each further one.

    DataError where a file is no record, ConfigError without the library of charts.
    """
    runs: list[tuple[Path, dict[str, Any]]] = []
    searches: list[tuple[Path, dict[str, Any]]] = []
    for path in paths:
        record = read_any(path)
        (searches if "strategy" in record else runs).append((path, record))
    articles = [run_article(record, str(path), f"run-{n}") for n, (path, record) in enumerate(runs)]
    articles += [search_article(record, str(path), f"search-{n}") for n, (path, record) in enumerate(searches)]
    names = [(f"run-{n}", _name(record)) for n, (_, record) in enumerate(runs)]
    names += [(f"search-{n}", f"search {path.stem}") for n, (path, _) in enumerate(searches)]
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name in names)
    models = dict.fromkeys(record["model"] for _, record in runs) if each_model else ("",)
    groups = [[record for _, record in runs if not model or record["model"] == model] for model in models]
    return _document(
        title=names[0][1] if len(names) == 1 else f"{len(names)} records",
        nav=f"<nav>{links}</nav>" if len(names) > 1 else "",
        body=head + "".join(map(_beside, groups)) + "".join(articles),
    )


def _name(record: Mapping[str, Any]) -> str:
    return f"{record['model']} on {record['board']}, {record['format']}"


def _beside(runs: Sequence[Mapping[str, Any]]) -> str:
    """What changed from the first run to each other one."""
    first, *others = runs or [{}]
    found = []
    for other in others:
        rows = shown(changes(first, other))
        name = f"{_name(first)} → {_name(other)}"
        found.append(as_html(name, rows) if rows else f"<p>{escape(name)}: equal</p>")
    return section("Differences", "".join(found), "What may not be compared says why." if found else "")


def _document(title: str, nav: str, body: str) -> str:
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    version = metadata.version("tinyhil")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)} · tinyhil</title><style>{style}</style></head>'
        f'<body><main><header class="top"><h1>tinyhil report</h1></header>{nav}{body}'
        f"<footer>Made by hil {escape(version)}; this file needs no network.</footer></main>"
        f"<script>{{{charts_library()}}}</script>\n<script>{script}</script></body></html>\n"
    )


@cache
def charts_library() -> str:
    """Vega, Vega-Lite and vega-embed (BSD-3-Clause) as one script that sets window.vegaEmbed.

    ConfigError if the extra is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise ConfigError(EXTRA) from None
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")
