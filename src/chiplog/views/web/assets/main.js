// @ts-check
/** The page: shows the view that its address names. */

import { enter, get, present, Refused } from "./api.js";
import { Compare } from "./compare.js";
import { el, fill } from "./dom.js";
import { Grid } from "./grid.js";
import { here, link } from "./route.js";
import { RunPage } from "./run.js";
import { DRAWN, Runs } from "./runs.js";

/** @typedef {{element: Element, close(): void}} View */

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
/** @type {View|null} */
let view = null;
let turn = 0;
let shownAt = ""; // page, run and tab
const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]")).href;

/**
 * Light or dark: the system's choice, unless the user made one.
 * @param {string|null} wanted
 */
function theme(wanted) {
  const chosen = wanted ?? keep("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  if (wanted) keep("theme", wanted);
}

/**
 * Remember a choice; storage may be forbidden.
 * @param {string} key
 * @param {string} [value]
 */
function keep(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {(Node|string)[]} where */
export function heading(...where) {
  fill(bar,
    el("a.brand", { href: link("runs") }, el("img", { src: icon, alt: "", width: 20, height: 20 }), "chiplog"),
    el("nav", { "aria-label": "where you are" }, where.map((one) => [el("span.faint", { "aria-hidden": true }, "/"), one])),
    el("span.grow", null),
    el("button.quiet", { title: "Copy a link to this view", onclick: (/** @type {any} */ event) => {
      navigator.clipboard?.writeText(location.href).then(() => {
        event.target.textContent = "copied";
        setTimeout(() => { event.target.textContent = "link"; }, 1200);
      });
    } }, "link"),
    el("button.quiet", { title: "Keys", "aria-label": "keys", onclick: keys }, "?"),
    el("button.quiet", { title: "Light or dark", "aria-label": "light or dark", onclick: () => {
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      show();
    } }, "◐"));
}

function keys() {
  const box = el("dialog", null, el("h2", null, "Keys"),
    el("dl.keys", null, [["/", "search"], ["g", "the runs"], ["t", "light or dark"], ["drag on a chart", "zoom all charts"], ["shift + drag", "pan"],
      ["+  −  ←  →  0", "zoom in, zoom out, pan, and show all, on a focused chart"], ["double click", "show all of x"],
    ].map(([key, words]) => [el("dt", null, key), el("dd", null, words)])),
    el("form", { method: "dialog" }, el("button", null, "Close")));
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  box.showModal();
}

async function show() {
  const mine = ++turn;
  const { page: name, key, tab, params } = here();
  const place = [name, key, tab].join("/");
  if (place !== shownAt) scrollTo(0, 0);
  shownAt = place;
  view?.close();
  view = null;
  try {
    const made = await make(name, key, tab, params);
    if (mine !== turn) return made.close();
    view = made;
    fill(page, made.element);
    document.title = `${bar.querySelector("nav")?.textContent?.replace(/^\//, "").trim() || "runs"} · chiplog`;
  } catch (error) {
    if (mine !== turn) return;
    heading("not there");
    const barred = error instanceof Refused && error.status === 401;
    fill(page, el("div.empty", { role: "alert" },
      el("p", null, error instanceof Error ? error.message : "This could not be shown."),
      barred ? ask() : el("p", null, el("a", { href: link("runs") }, "All runs"))));
    if (!(error instanceof Refused)) throw error;
  }
}

/** A form for the token, which leads to the view that was asked for. */
function ask() {
  const field = el("input", { type: "password", "aria-label": "token", placeholder: "Token, or the whole address", autocomplete: "off" });
  const words = el("p.bad", { role: "status" });
  return el("form", {
    onsubmit: async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      if (await present(field.value).catch(() => false)) show();
      else words.textContent = "This is not the token of this server.";
    },
  }, el("p", null, "It is what follows #token= in that address, and changes with every start."), field, " ", el("button", null, "Open"), words);
}

/** @param {string} name @param {string} key @param {string} tab @param {URLSearchParams} params @returns {Promise<View>} */
async function make(name, key, tab, params) {
  if (name === "run") {
    const about = await get("run", { run: key });
    heading(el("a", { href: link("runs", { q: `project:${about.project}` }) }, about.project), el("span.here", null, about.name));
    return new RunPage(about, tab || "charts");
  }
  if (name === "charts" || name === "compare") {
    const keys = (params.get("runs") ?? "").split(",").filter(Boolean).slice(0, DRAWN);
    const answers = await Promise.all(keys.map((one) => get("run", name === "charts" ? { run: one, brief: 1 } : { run: one }).catch(() => null)));
    const runs = answers.filter(Boolean);
    heading(el("span.here", null, `${name === "charts" ? "charts" : "comparison"} of ${runs.length} runs`));
    if (name === "compare") return new Compare(runs);
    const labels = runs.map((run) => run.name);
    return new Grid(runs.map((run, at) => ({
      key: run.key, names: run.names, units: run.units, created: run.created, running: run.state === "running",
      label: labels.indexOf(run.name) === labels.lastIndexOf(run.name) ? run.name : `${run.name} (${run.id})`, order: at,
    })));
  }
  heading(el("span.here", null, "runs"));
  const runs = new Runs();
  await runs.ready;
  return runs;
}

const notice = el("p.notice", { role: "alert", hidden: true });
page.before(notice);
addEventListener("server", (event) => {
  const state = /** @type {CustomEvent} */ (event).detail;
  notice.hidden = state === "up";
  notice.textContent = state === "gone" ? "The server has stopped. What is shown stays; start it again with: chiplog ui"
    : state === "barred" ? "The server was restarted with a new token. Open the address it printed, or run: chiplog ui" : "";
});
addEventListener("hashchange", async () => {
  if (location.hash.startsWith("#token=")) await enter(); // a new start was opened in the same tab
  show();
});
addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    /** @type {HTMLElement|null} */ (page.querySelector("input[type=search]"))?.focus();
    event.preventDefault();
  } else if (event.key === "g") location.hash = link("runs").slice(1);
  else if (event.key === "t") {
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    show();
  } else if (event.key === "?") keys();
});

const shown = location.hash.startsWith("#token=") ? enter().catch(() => {}).then(show) : show(); // asks before it draws
theme(null);
if (!bar.childElementCount) heading();
await shown;
