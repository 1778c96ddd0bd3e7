"use strict";
// Shows /state.json and asks for a run again. All text of others goes in as text, never as markup.
const byId = (id) => document.getElementById(id);
const token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
let last = null;

function make(tag, kind, ...inside) {
  const found = document.createElement(tag);
  if (kind) found.className = kind;
  found.append(...inside);
  return found;
}

function board(one) {
  const state = make("span", "value", one.state);
  return make("div", "multiple", make("span", "what", one.name), state, make("span", "more", [one.where, one.detail].filter(Boolean).join(" · ")));
}

async function again(one, button) {
  if (!confirm("Run again, on this computer and its boards?\n\n" + one.command)) return;
  button.disabled = true;
  const reply = await fetch("/again", { method: "POST", headers: { "X-Hil-Token": token }, body: JSON.stringify({ file: one.file }) });
  if (!reply.ok) byId("said").textContent = (await reply.json()).error;
  await look();
}

function record(one, runs) {
  const badge = make("span", "badge " + one.verdict, one.verdict);
  const found = make("article", "", make("h3", "", (one.title || one.file) + " ", badge), make("p", "", one.said), make("p", "about", [one.utc, one.file].filter(Boolean).join(" · ")));
  if (runs && token && /^hil (run|profile|bench) /.test(one.command || "")) {
    const button = make("button", "again", "run again");
    button.type = "button";
    button.setAttribute("aria-label", "run again: " + one.command);
    button.addEventListener("click", () => again(one, button));
    found.append(button);
  }
  return found;
}

function show(state) {
  last = state;
  byId("when").textContent = new Date(state.time * 1000).toLocaleTimeString() + (state.runs ? "" : " · read-only");
  const every = byId("every").checked, usual = ["emulated", "absent", "here"];
  const shown = state.boards.filter((one) => every || !usual.includes(one.state) || one.detail);
  const busy = state.boards.filter((one) => one.state === "busy").length;
  const active = state.jobs.filter((one) => one.exit_code === null).length;
  const many = (count, one, more) => `${count} ${count === 1 ? one : more}`;
  byId("said").textContent = `${many(busy, "board is", "boards are")} in use, ${many(state.running.length, "run is", "runs are")} unfinished, ${many(active, "job of this page is", "jobs of this page are")} running.`;
  byId("boards").replaceChildren(...(shown.length ? shown.map(board) : [make("p", "about", "no board is attached, busy or wedged")]));
  const jobs = state.jobs.map((one) => make("details", "", make("summary", "", (one.exit_code === null ? "running" : "ended with " + one.exit_code) + ": " + one.command), make("pre", "", one.said || "nothing printed yet")));
  const runs = state.running.map((one) => make("p", "", `${one.file}: ${one.samples} samples, the last ${Math.round(one.idle_s)} s ago`));
  const opened = [...byId("jobs").querySelectorAll("details")].map((part) => part.open);
  jobs.forEach((part, place) => { part.open = Boolean(opened[opened.length - jobs.length + place]); });
  byId("jobs").replaceChildren(...(jobs.length + runs.length ? [...runs, ...jobs] : [make("p", "about", "nothing is running")]));
  byId("results").textContent = "folder " + state.results + (state.complete ? "" : " (too many files: not all were looked at)");
  const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
  byId("records").replaceChildren(...(state.records.length ? state.records.map((one) => record(one, state.runs)) : [make("p", "about", "no record yet")]));
  if (focused) [...document.querySelectorAll("button.again")].filter((b) => b.getAttribute("aria-label") === focused).slice(0, 1).forEach((b) => b.focus());
  document.documentElement.dataset.drawn = String(state.records.length);
}

async function look() {
  try {
    show(await (await fetch("/state.json")).json());
  } catch {
    byId("when").textContent = "hil watch has ended";
  }
}
byId("every").addEventListener("change", () => last && show(last));
setInterval(look, 2000);
look();
