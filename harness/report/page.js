"use strict";
// Draws the charts in the colours of the page, and sorts its tables. Nothing is fetched.
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 560px)");

function config() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const text = { labelColor: colour("--ink"), titleColor: colour("--dim"), titleFontWeight: 500 };
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: { ...text, gridColor: colour("--line"), domainColor: colour("--dim"), tickColor: colour("--dim") },
    legend: { ...text, columns: narrow.matches ? 2 : undefined },
    text: { color: colour("--ink") },
  };
}

async function draw() {
  const figures = [...document.querySelectorAll("figure.chart")];
  await Promise.all(figures.map((figure) => {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const options = { actions: false, renderer: "svg", config: config(), tooltip: { theme: dark.matches ? "dark" : "light" } };
    return window.vegaEmbed(figure.querySelector(".drawn"), spec, options);
  }));
  document.documentElement.dataset.drawn = String(figures.length);
}

function sortable(table) {
  const body = table.tBodies[0];
  table.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
    const head = button.parentElement;
    const down = head.getAttribute("aria-sort") !== "descending";
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.key === undefined ? (cell.classList.contains("number") ? -Infinity : cell.textContent) : Number(cell.dataset.key);
    };
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b || 0 : String(a).localeCompare(String(b)));
    const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
    body.append(...rows);
  }));
}

document.querySelectorAll("table.sortable").forEach(sortable);
dark.addEventListener("change", draw);
narrow.addEventListener("change", draw);
draw();
