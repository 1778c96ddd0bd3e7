"""The page: records read, sections joined, styles and scripts put inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError, DataError
from tinyhil.harness.records.compare import differences, key_of, newest, none_in_common
from tinyhil.harness.records.figures import title_of
from tinyhil.harness.records.render import as_html
from tinyhil.harness.records.render import shown as shown_rows
from tinyhil.harness.records.schema import read_any, read_record
from tinyhil.harness.records.side_by_side import OF_BOTH, changes
from tinyhil.harness.report.html import escape, section
from tinyhil.harness.report.overview import distinct_times, overview, when_of
from tinyhil.harness.report.run_sections import run_article
from tinyhil.harness.report.search_sections import search_article, search_title
from tinyhil.harness.report.sentence import against_sentence

FOLDER = Path(__file__).parent
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
APART_SAYS = "What may not be compared says why."
EXTRA = "a page of records needs the package vl-convert-python; type: pip install 'tinyhil[report]'"


MOST_OPEN = 3  # records that are shown whole; more of them are opened one by one


def make_page(paths: Sequence[Path], head: str = "", against: Path | None = None) -> str:
    """One self-contained page of these records, in this order, below `head`; each run held `against` one, if asked, or
    against the newest of its board, model and format in a folder.

    DataError where a file is no record, or a folder none of these boards, models and formats, ConfigError without the
    library of charts.
    """
    runs: list[tuple[str, str, dict[str, Any]]] = []  # anchors, files, records
    searches: list[tuple[str, str, dict[str, Any]]] = []
    for path in paths:
        record = read_any(path)
        kind, found = ("search", searches) if "strategy" in record else ("run", runs)
        found.append((f"{kind}-{len(found)}", str(path), record))
    before = newest(against) if against is not None and against.is_dir() else {}
    known = {key: read_record(path) for key, path in before.items()}
    keys = {key_of(record) for _, _, record in runs}
    if against is not None and known and not known.keys() & keys:
        raise DataError(f"{none_in_common(against, known, 'the page', keys)}; name a record instead of a folder")
    other = None if against is None or before else read_record(against)
    times = distinct_times([record for _, _, record in runs])
    articles = [
        (
            anchor,
            " ".join([title_of(record), time]).strip(),
            run_article(record, source, anchor, _against(record, known.get(key_of(record), other), against)),
        )
        for (anchor, source, record), time in zip(runs, times, strict=True)
    ]
    names = [search_title(record, source) for _, source, record in searches]
    for name, (anchor, source, record) in zip(names, searches, strict=True):
        when = f", {when_of(record.get('utc'))}" if names.count(name) > 1 else ""
        articles.append((anchor, name + when, search_article(record, source, anchor)))
    glance = overview([(anchor, record) for anchor, _, record in runs], times) if len(runs) > 1 else ""
    closed = len(articles) > MOST_OPEN
    shown = "".join(_closed(name, text) if closed else text for _, name, text in articles)
    shown = f'<div class="records">{shown}</div>' if closed else shown
    return document(
        title=articles[0][1] if len(articles) == 1 else f"{len(articles)} records",
        body=head + glance + shown,
    )


def _closed(name: str, article: str) -> str:
    return f'<details class="record"><summary>{escape(name)}</summary>{article}</details>'


def _against(record: Mapping[str, Any], other: Mapping[str, Any] | None, folder: Path | None) -> str:
    """What changed from the other record to this one; without one, that the `folder` holds none. A run and its profile
    are of one image: nothing to compare."""
    if other is None and folder is not None:
        return section("Against", f"<p>{escape(str(folder))} holds nothing of this board, model and format.</p>")
    if other is None or record == other:
        return ""
    if _image(record) is not None and _image(record) == _image(other):
        return section("Against", f"<p>{escape(title_of(other))}: the same image; there is nothing to compare.</p>")
    said = f'<p class="verdict">{escape(against_sentence(record, other))}</p>'
    gates = [f"{'fails' if one.fails else 'note'}: {one}" for one in differences(other, record)]
    said += "<p>By the gates of <code>hil compare</code>:</p>" if gates else ""
    items = "".join(f"<li>{escape(gate)}</li>" for gate in gates)
    said += f'<ul class="gates">{items}</ul>' if gates else ""
    rows = [
        row for row in shown_rows(changes(other, record)) if row.why or row.what in OF_BOTH or (row.before and row.now)
    ]
    return section("Against", said + as_html(f"{title_of(other)} → {title_of(record)}", rows), APART_SAYS)


def _image(record: Mapping[str, Any]) -> tuple[str, str] | None:
    known = record["provenance"].get("image_hash")
    return None if known is None else (record["board"], known)


def document(title: str, body: str) -> str:
    """A whole page of HTML around `body`. ConfigError without the library of charts."""
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    version = metadata.version("tinyhil")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)} · tinyhil</title><style>{style}</style></head>'
        f'<body><main><header class="top"><h1>tinyhil report</h1></header>{body}'
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
