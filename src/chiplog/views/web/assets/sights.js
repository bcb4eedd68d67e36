// @ts-check
/** The tabs of a run that are pictures or pages of text: ranks, matrices, samples, trace. */

import { get, isStored } from "./api.js";
import { el, fill, later, table } from "./dom.js";
import { Flame } from "./flame.js";
import { count, date, duration, number } from "./format.js";
import { heatMap } from "./heat.js";
import { colour } from "./picture.js";
import { here, note } from "./route.js";

/** @typedef {Record<string, any>} About */

/** @param {About} about */
export function ranks(about) {
  const first = about.names.find((/** @type {string} */ name) => /step_time/.test(name)) ?? about.names.find((/** @type {string} */ name) => /loss$/.test(name)) ?? about.names[0];
  const chosen = el("select", { "aria-label": "series", onchange: () => show() }, about.names.slice(0, 2000).map((/** @type {string} */ name) => el("option", { value: name, selected: name === first }, name)));
  const out = el("div", null, "…");
  const show = async () => {
    const found = await get("ranks", { run: about.key, name: chosen.value });
    const means = found.means.map(Number);
    const known = means.map((/** @type {number} */ mean, /** @type {number} */ at) => ({ rank: found.ranks[at], mean })).filter((/** @type {any} */ one) => isFinite(one.mean)).sort((/** @type {any} */ a, /** @type {any} */ b) => b.mean - a.mean);
    const middle = known[Math.floor(known.length / 2)]?.mean;
    fill(out,
      known.length > 1 && el("p", null, /time|sec/.test(chosen.value) ? "Slowest: " : "Highest: ", el("b", null, `rank ${known[0].rank}`), ` at ${number(known[0].mean)} on average, `,
        middle ? `${number(known[0].mean / middle)} times the median rank` : ""),
      heatMap({ values: found.values, rows: found.ranks.map(String), columns: found.steps.map((/** @type {number} */ step) => count(step)), rowWord: "rank", columnWord: "step", label: chosen.value }),
      found.count > found.steps.length && el("p.faint", null, `${count(found.count)} steps; each column is the mean of about ${Math.round(found.count / found.steps.length)}`),
      table(["rank", "mean"], known.slice(0, 16).map((/** @type {any} */ one) => [one.rank, number(one.mean)]), { right: [0, 1] }));
  };
  show();
  return el("div", null, el("div.tools", null, el("label", null, "series ", chosen)), out);
}

/** @param {About} about */
export function matrices(about) {
  const { params } = here();
  let playing = 0;
  const chosen = el("select", { "aria-label": "matrix", onchange: () => show(-1) }, about.matrices.map((/** @type {any} */ one) => el("option", { value: one.name, selected: one.name === params.get("matrix") }, one.name)));
  const slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "time", oninput: () => show(Number(slider.value)) });
  const step = el("output", null, "");
  const out = el("div", null, "…");
  let turn = 0;
  const show = async (/** @type {number} */ at) => {
    const mine = ++turn;
    const found = await get("matrix", { run: about.key, name: chosen.value, ...(at >= 0 ? { at } : {}) });
    if (mine !== turn) return;
    slider.max = String(found.steps.length - 1);
    if (at < 0) slider.value = slider.max;
    step.textContent = `step ${count(found.step)} (${Number(slider.value) + 1} of ${found.steps.length})`;
    note({ matrix: chosen.value });
    const wide = found.values[0]?.length ?? 0;
    fill(out, heatMap({ values: found.values, rows: found.values.map((/** @type {any} */ _, /** @type {number} */ i) => String(i)), columns: Array.from({ length: wide }, (_, i) => String(i)),
      rowWord: /expert|moe|rout/i.test(chosen.value) ? "layer" : "row", columnWord: /expert|moe|rout/i.test(chosen.value) ? "expert" : "column", label: chosen.value }));
  };
  const play = el("button", { onclick: () => {
    clearInterval(playing);
    playing = playing ? 0 : setInterval(() => {
      if (!slider.isConnected) return clearInterval(playing);
      slider.value = String((Number(slider.value) + 1) % (Number(slider.max) + 1));
      show(Number(slider.value));
    }, 250);
    play.textContent = playing ? "Pause" : "Play";
  } }, "Play");
  show(-1);
  return el("div", null, el("div.tools", null, chosen, play, slider, step), out);
}

/** @param {About} about */
export function samples(about) {
  const { params } = here();
  let offset = Number(params.get("from")) || 0;
  const chosen = el("select", { "aria-label": "table", onchange: () => { offset = 0; show(); } },
    about.tables.map((/** @type {any} */ one) => el("option", { value: one.name, selected: one.name === params.get("table") }, `${one.name} (${count(one.count)})`)));
  const search = el("input", { type: "search", placeholder: "Search text", "aria-label": "search text", value: params.get("find") ?? "", oninput: later(() => { offset = 0; show(); }, 150) });
  const column = el("select", { "aria-label": "in column", onchange: () => { offset = 0; show(); } }, el("option", { value: "" }, "in all columns"));
  const where = el("span.faint", { role: "status" });
  const out = el("div", null, "…");
  const page = (/** @type {number} */ by) => () => { offset = Math.max(0, offset + by); show(); };
  const newer = el("button", { onclick: page(-50) }, "Newer"), older = el("button", { onclick: page(50) }, "Older");
  const show = async () => {
    const found = await get("samples", { run: about.key, table: chosen.value, offset, find: search.value, column: column.value });
    note({ table: chosen.value, find: search.value, from: offset || null });
    if (column.options.length === 1) for (const one of found.columns) column.append(el("option", { value: one }, `in ${one}`));
    newer.disabled = offset === 0;
    older.disabled = offset + found.rows.length >= found.found;
    where.textContent = found.found ? `${offset + 1}–${offset + found.rows.length} of ${count(found.found)}${search.value ? " found" : ""}${found.count > 20000 ? `; the newest 20,000 of ${count(found.count)} are searched` : ""}` : "";
    fill(out, found.rows.length ? found.rows.map((/** @type {any} */ row) => el("article.sample", null,
      el("header", null, row.step !== null && el("b", null, `step ${count(row.step)}`), el("span.grow", null), el("span.faint", null, date(row.time))),
      el("dl.pairs", null, Object.entries(row.cells).map(([key, text]) => [el("dt", null, key), el("dd.text", null, ...marked(String(text), search.value))])))) : el("p.empty", null, search.value ? "No sample holds that." : "No samples yet."));
  };
  show();
  return el("div", null, el("div.tools", null, chosen, search, column, newer, older, where), out);
}

/**
 * A text with what was searched for marked.
 * @param {string} text
 * @param {string} wanted
 */
function marked(text, wanted) {
  if (!wanted) return [text];
  const out = [], low = text.toLowerCase(), find = wanted.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(find); at >= 0 && out.length < 200; at = low.indexOf(find, from)) {
    out.push(text.slice(from, at), el("mark", null, text.slice(at, at + find.length)));
    from = at + find.length;
  }
  return [...out, text.slice(from)];
}

/** @param {About} about */
export function trace(about) {
  const out = el("div", null, "…");
  get("trace", { run: about.key }).then((found) => {
    const names = found.names.slice(0, 10).map((/** @type {any} */ one) => one.name);
    const show = isStored || !found.steps.length ? null : timeline(about, names, found.steps.map((/** @type {any} */ one) => one.step));
    fill(out,
      el("div.tools", null, el("span", null, `${count(found.count)} spans`), !isStored && el("a.button", { href: `api/perfetto?run=${about.key}`, download: true }, "Download for Perfetto"),
        el("span.faint", null, "open it at ui.perfetto.dev")),
      found.steps.length > 0 && stacks(found.steps, names, show?.choose),
      show?.element,
      table(["span", "times", "total", "of its own", "mean", "99th percentile"], found.names.map((/** @type {any} */ one) => [
        el("span", null, names.includes(one.name) && el("i.dot", { colour: colour(names.indexOf(one.name)) }), one.name), count(one.count), duration(one.total), duration(one.own), duration(one.mean), duration(one.p99)]),
      { right: [1, 2, 3, 4, 5], label: "spans" }));
  });
  return out;
}

/**
 * One step from its begin to its end, and which.
 * @param {About} about
 * @param {string[]} names
 * @param {number[]} steps  the newest that have spans
 */
function timeline(about, names, steps) {
  const { params } = here();
  const flame = new Flame(names);
  const step = el("input", { type: "number", "aria-label": "step", value: params.get("step") ?? steps[steps.length - 1], onchange: () => show() });
  const rank = el("select", { "aria-label": "rank", onchange: () => show() },
    about.ranks.map((/** @type {number} */ one) => el("option", { value: one, selected: String(one) === params.get("rank") }, one)));
  const next = (/** @type {number} */ by) => () => {
    const at = steps.findIndex((one) => one >= Number(step.value));
    choose(steps[Math.max(0, Math.min(steps.length - 1, (at < 0 ? steps.length : at) + by))]);
  };
  const words = el("span.faint", { role: "status" });
  let turn = 0;
  const show = async () => {
    const mine = ++turn;
    const found = await get("timeline", { run: about.key, step: step.value, rank: rank.value });
    if (mine !== turn) return;
    note({ step: step.value, rank: about.ranks.length > 1 ? rank.value : null });
    flame.element.hidden = !found.spans.length;
    words.textContent = found.spans.length ? `${count(found.spans.length)} spans in ${duration(found.seconds)}` : "no spans of this step on this rank";
    if (found.spans.length) flame.show(found);
  };
  const choose = (/** @type {number} */ one) => {
    step.value = String(one);
    show();
  };
  show();
  const element = el("section", { "aria-label": "timeline of a step" },
    el("div.tools", null, el("label", null, "step ", step), el("button", { onclick: next(-1), "aria-label": "step before" }, "←"), el("button", { onclick: next(1), "aria-label": "step after" }, "→"),
      about.ranks.length > 1 && el("label", null, "rank ", rank), words), flame.element);
  return { element, choose };
}

/**
 * The time of each step, by span, as bars upon each other.
 * @param {any[]} steps
 * @param {string[]} names
 * @param {(step: number) => void} [choose]
 */
function stacks(steps, names, choose) {
  const width = 900, high = 180;
  const canvas = el("canvas.stack", { width, height: high, role: "img", "aria-label": `time of ${steps.length} steps by span` });
  const context = canvas.getContext("2d");
  const totals = steps.map((one) => Object.values(one.own).reduce((/** @type {number} */ sum, /** @type {any} */ value) => sum + value, 0));
  const sorted = [...totals].sort((a, b) => a - b);
  const top = Math.min(sorted[sorted.length - 1], sorted[Math.floor(sorted.length * 0.95)] * 1.5) || 1;
  const wide = width / steps.length;
  for (const [at, step] of steps.entries()) {
    let y = high;
    for (const [name, taken] of Object.entries(step.own)) {
      const tall = Math.min(1, taken / top) * high;
      context.fillStyle = names.includes(name) ? colour(names.indexOf(name)) : "#888";
      context.fillRect(at * wide, y - tall, Math.max(1, wide - (wide > 4 ? 1 : 0)), tall);
      y -= tall;
    }
  }
  const said = el("p.said", { role: "status" }, `own time of the newest ${steps.length} steps with a number; the frame is ${duration(top)} high${choose ? "; click a step to see it below" : ""}`);
  const under = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return steps[Math.min(steps.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * steps.length)))];
  };
  if (choose) canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => choose(under(event).step));
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const step = under(event);
    fill(said, el("b", null, `step ${count(step.step)}: `), Object.entries(step.own).map(([name, taken]) => `${name} ${duration(taken)}`).join(", "));
  });
  return el("figure", null, canvas, said);
}
