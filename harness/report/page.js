"use strict";
// Draws the charts in the colours of the page, sorts its tables, shows what is chosen. Nothing is fetched.
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
    axis: { ...text, gridColor: colour("--line"), domainColor: colour("--dim"), tickColor: colour("--dim"), labelOverlap: "greedy", labelSeparation: 4 },
    legend: { ...text, columns: narrow.matches ? 2 : undefined, labelLimit: 140 },
    text: { color: colour("--ink") },
  };
}

// Names on marks that would lie on another text, or leave the picture, are not shown; tooltips and tables have them.
function declutter(figure) {
  const svg = figure.querySelector("svg");
  if (!svg) return;
  const frame = svg.getBoundingClientRect();
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const box = (text) => text.getBoundingClientRect();
  const marks = [...svg.querySelectorAll(".mark-text.role-mark text")].reverse(); // what is drawn last matters most
  marks.forEach((text) => { text.style.visibility = ""; });
  const kept = [...svg.querySelectorAll("text")].filter((text) => !marks.includes(text) && getComputedStyle(text).opacity !== "0").map(box);
  for (const text of marks) {
    const own = box(text);
    const inside = own.left >= frame.left && own.right <= frame.right && own.top >= frame.top && own.bottom <= frame.bottom;
    if (text.textContent && inside && !kept.some((other) => meets(own, other))) kept.push(own);
    else text.style.visibility = "hidden";
  }
}

function fit() {
  document.querySelectorAll(".flame button").forEach((button) => {
    button.classList.remove("tight");
    if (button.scrollWidth > button.clientWidth) button.classList.add("tight");
  });
}

const views = new Map(); // of the figures that are drawn

// A chart follows its column's width after the window's event: only then it is known which names have room.
function follow() {
  fit();
  setTimeout(() => views.forEach(async (view, figure) => {
    await view.runAsync();
    declutter(figure);
  }));
}

async function draw() {
  const figures = [...document.querySelectorAll("figure.chart")].filter((figure) => !figure.closest("details:not([open])"));
  await Promise.all(figures.map(async (figure) => {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const options = { actions: false, renderer: "svg", config: config(), tooltip: { theme: dark.matches ? "dark" : "light" } };
    const shown = await window.vegaEmbed(figure.querySelector(".drawn"), spec, options);
    await shown.view.runAsync();
    views.set(figure, shown.view);
    declutter(figure);
  }));
  fit();
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

// An operation is the same thing in the bar of time, the graph and the table: chosen in one, marked in all.
function choose(article, layer) {
  article.querySelectorAll("[data-layer]").forEach((part) => {
    part.classList.toggle("marked", part.dataset.layer === layer);
    if (part.matches(".op, button")) part.setAttribute("aria-pressed", String(part.dataset.layer === layer));
  });
  const place = article.querySelector(".chosen"), row = article.querySelector(`tr[data-layer="${layer}"]`);
  if (!place || !row) return;
  place.replaceChildren(...[...row.cells].filter((cell) => cell.textContent !== "–").map((cell) => {
    const item = document.createElement("span"), name = document.createElement("b");
    name.textContent = cell.dataset.title + " ";
    item.append(name, cell.textContent);
    return item;
  }));
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("article").forEach((article) => {
  article.querySelectorAll(".op, .flame button[data-layer]").forEach((part) => {
    part.addEventListener("click", () => choose(article, part.dataset.layer));
    if (part.matches(".op")) part.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(article, part.dataset.layer);
    });
  });
});

function open() { // what an address or a card points at may lie in a closed part
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const closed = target && target.closest("details.record:not([open])");
  if (closed) { closed.open = true; target.scrollIntoView(); }
}
document.querySelectorAll("details").forEach((part) => part.addEventListener("toggle", draw));
addEventListener("hashchange", open);
addEventListener("beforeprint", () => document.querySelectorAll("details.record").forEach((part) => { part.open = true; }));
addEventListener("resize", follow);
dark.addEventListener("change", draw);
narrow.addEventListener("change", draw);
open();
draw();
