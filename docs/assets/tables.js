"use strict";
// Tables of the site are sorted by their titles and, from twelve rows on, filtered by what is typed. Nothing is fetched.
(() => {
  const LEAST = 12;
  const number = (text) => {
    const found = /^[-+−]?[\d,]+(\.\d+)?\s*([kMG]?)/.exec(text.trim().replace("−", "-"));
    if (!found) return null;
    return parseFloat(found[0].replace(/,/g, "")) * ({ k: 1e3, M: 1e6, G: 1e9 }[found[2]] || 1);
  };
  const key = (cell) => (cell.dataset.key !== undefined ? Number(cell.dataset.key) : number(cell.textContent));

  function sort(table, column, head) {
    const down = head.getAttribute("aria-sort") !== "descending";
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => [row, key(row.cells[column]), row.cells[column].textContent]);
    rows.sort((a, b) => {
      if (a[1] === null || b[1] === null) {
        if (a[1] !== b[1]) return a[1] === null ? 1 : -1; // what is unknown comes last
        return (down ? -1 : 1) * a[2].localeCompare(b[2]);
      }
      return (down ? -1 : 1) * (a[1] - b[1]);
    });
    table.tBodies[0].append(...rows.map((row) => row[0]));
  }

  function filter(table) {
    const box = document.createElement("input"), count = document.createElement("span"), line = document.createElement("p");
    box.type = "search";
    box.placeholder = table.closest(".figures") ? "uno fixed8 …" : "filter …";
    box.setAttribute("aria-label", "filter the rows of the table below: words that all must be there");
    box.className = "md-input table-filter";
    count.setAttribute("aria-live", "polite");
    const rows = [...table.tBodies[0].rows];
    const look = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = ` ${shown} of ${rows.length} rows`;
    };
    box.addEventListener("input", look);
    line.append(box, count);
    (table.closest(".md-typeset__scrollwrap, .figures") || table).before(line);
    look();
  }

  for (const table of document.querySelectorAll("article table, .figures table")) {
    if (!table.tBodies.length || !table.tHead || table.dataset.sortable) continue;
    table.dataset.sortable = "yes";
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "table-title";
      button.append(...head.childNodes);
      if (!button.textContent.trim()) return;
      button.addEventListener("click", () => sort(table, column, head));
      head.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length >= LEAST) filter(table);
  }
  // What the theme forgets: a name for its dialog, that a button to copy is no way around, the keyboard for code that is
  // scrolled sideways.
  const quiet = () => document.querySelectorAll("nav.md-code__nav:not([role])").forEach((one) => one.setAttribute("role", "none"));
  new MutationObserver(quiet).observe(document.body, { childList: true, subtree: true });
  quiet();
  document.querySelector(".md-search")?.setAttribute("aria-label", "search");
  for (const code of document.querySelectorAll("pre > code")) {
    const reach = () => code.hasAttribute("tabindex") || code.setAttribute("tabindex", "0");
    new MutationObserver(reach).observe(code, { attributeFilter: ["tabindex"] }); // the theme takes it away without a mouse
    reach();
  }
  document.documentElement.dataset.drawn = "tables";
})();
