"""What a browser makes of reports, at two widths and in both schemes: nothing is cut, no label lies on another, and
axe-core finds nothing that keeps anybody from reading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import Page, browser, chromium
from hil_command import wait_until

from tinyhil.harness.report.page import make_page

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "tests" / "records"
AXE = ROOT / "tests" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LOOKS = [(width, dark) for width in (390, 1280) for dark in (False, True)]
pytestmark = pytest.mark.skipif(chromium() is None, reason="chromium is not installed")

# Pairs of labels of one picture whose boxes share more than a rounded pixel, labels that leave their picture.
OVERLAPS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll("figure.chart svg, .graph svg, .flame")) {
    const frame = svg.getBoundingClientRect();
    const style = (t) => getComputedStyle(t);
    const seen = (t) => t.textContent.trim() && style(t).visibility !== "hidden" && style(t).opacity !== "0";
    const texts = [...svg.querySelectorAll("text, .fits")].filter(seen);
    const boxes = texts.map((t) => t.getBoundingClientRect());
    boxes.forEach((a, i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        found.push("outside: " + texts[i].textContent);
      boxes.slice(i + 1).forEach((b, j) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 1) found.push(texts[i].textContent + " | " + texts[i + 1 + j].textContent);
      });
    });
  }
  return found;
})()"""
# Numbers of tables that are broken into two lines.
BROKEN = """(() => {
  const broken = (e) => {
    const words = document.createRange();
    words.selectNodeContents(e);
    return new Set([...words.getClientRects()].map((one) => Math.round(one.top))).size > 1;
  };
  return [...document.querySelectorAll("td")].filter((e) => /^[\\d.,]+$/.test(e.textContent) && broken(e))
    .map((e) => e.textContent);
})()"""
# Texts that a reader would have to scroll sideways for, or that are clipped.
CUT = """(() => {
  const names = "h1, h2, h3, h4, p, td, th, dd, dt, pre, .value, .more, summary, .multiple, figcaption";
  const wide = (e) => e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1;
  return [...document.querySelectorAll(names)]
    .filter((e) => e.getClientRects().length && getComputedStyle(e).display !== "inline" && wide(e))
    .map((e) => e.tagName + ": " + e.textContent.slice(0, 60));
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a profile held against a golden record, of searches, and of many records."""
    folder = tmp_path_factory.mktemp("looks")
    golden = sorted((ROOT / "results" / "golden").glob("*/fastgrnn_har-fixed*.json"))
    made = {
        "profile": make_page([RECORDS / "profile.json"], against=golden[0]),
        "searches": make_page([RECORDS / "search.json", RECORDS / "front.json"]),
        "many": make_page(golden),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def tab() -> Any:
    with browser() as page:
        yield page


def faults(page: Page) -> list[str]:
    """What axe-core says against the page, with the first element of each."""
    page.evaluate(AXE.read_text() + "\n;0")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]} ({len(one['nodes'])})" for one in found]


@pytest.mark.parametrize("name", ["profile", "searches", "many"])
def test_nothing_is_cut_and_no_label_lies_on_another(name: str, pages: dict[str, Path], tab: Page) -> None:
    for width, dark in LOOKS:
        tab.show(pages[name], width, dark)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(OVERLAPS) == [], (width, dark)
        assert tab.evaluate(BROKEN) == []
        if width == 390:
            assert tab.evaluate(CUT) == []
    assert tab.errors == []


SHOWN = """[...document.querySelectorAll(".mark-text.role-mark text")]
  .filter((t) => t.style.visibility !== "hidden").map((t) => t.textContent).sort().join()"""


@pytest.mark.parametrize("width", [40, 390])
def test_names_go_and_come_back_with_the_room_for_them(width: int, pages: dict[str, Path], tab: Page) -> None:
    """A window that was narrow for a moment, as while a picture of the page is taken."""
    tab.show(pages["profile"], 390, False)
    shown = tab.evaluate(SHOWN)
    assert shown
    for one in (40, width):
        tab.resize(one)
        wait_until(lambda: tab.evaluate("innerWidth") == one)  # noqa: B023
    wait_until(lambda: (tab.evaluate(SHOWN) == shown) is (width == 390))


def test_labels_that_would_lie_on_another_are_what_the_test_sees(pages: dict[str, Path], tab: Page) -> None:
    """The oracle, on a page whose labels were all made visible again, and one that was made too wide."""
    tab.show(pages["profile"], 390, False)
    texts = "document.querySelectorAll('.graph svg text')"
    tab.evaluate(f"{texts}[0].setAttribute('y', {texts}[1].getAttribute('y')); 0")
    assert tab.evaluate(OVERLAPS)
    tab.evaluate("document.querySelector('h2').style.overflowWrap = 'normal'; 0")
    tab.evaluate("document.querySelector('h2').append('x'.repeat(99)); 0")
    assert tab.evaluate(CUT)


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm ci --prefix tests/axe")
@pytest.mark.parametrize("name", ["profile", "searches", "many"])
def test_axe_finds_nothing(name: str, pages: dict[str, Path], tab: Page) -> None:
    for width, dark in LOOKS:
        tab.show(pages[name], width, dark)
        assert faults(tab) == [], (width, dark)
    tab.evaluate("document.querySelector('h2').style.color = 'rgb(60, 66, 74)'; 0")
    assert [one for one in faults(tab) if one.startswith("color-contrast")], "axe sees what is to be seen"


def test_an_operation_is_chosen_by_keyboard_and_shown(pages: dict[str, Path], tab: Page) -> None:
    record = json.loads((RECORDS / "profile.json").read_text())
    tab.show(pages["profile"], 1280, False)
    tab.evaluate("document.querySelector('.op').focus(); 0")
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    layer = record["layers"][0]
    said = tab.evaluate("document.querySelector('.chosen').innerText")
    assert layer["name"] in said
    assert f"{layer['weight_bytes']:,}" in said
    marked = tab.evaluate("[...document.querySelectorAll('.marked')].map(e => e.tagName.toLowerCase())")
    assert marked == ["button", "g", "tr"]  # the bar of time, the graph, the table


def test_a_card_opens_its_record(pages: dict[str, Path], tab: Page) -> None:
    """Many records are small multiples, and each is one click away; charts are drawn when it is opened."""
    tab.show(pages["many"], 1280, False)
    golden = sorted((ROOT / "results" / "golden").glob("*/fastgrnn_har-fixed*.json"))
    assert tab.evaluate("document.querySelectorAll('.multiple').length") == len(golden)
    assert tab.evaluate("document.documentElement.scrollHeight") < 3000
    tab.evaluate("document.querySelectorAll('.multiple')[3].click(); 0")
    tab.evaluate("new Promise(done => setTimeout(done, 100))")
    opened = tab.evaluate("[...document.querySelectorAll('details.record[open] article')].map(a => a.id)")
    assert opened == ["run-3"]
