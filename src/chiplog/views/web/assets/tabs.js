// @ts-check
/** The tabs of a run that are pictures or pages of text: ranks, matrices, samples, trace. */

import { get, isExported } from "./api.js";
import { debounced, el, fill, options, patch, setOptions, table } from "./dom.js";
import { Flame } from "./flame.js";
import { count, date, duration, number } from "./format.js";
import { heatMap } from "./heat.js";
import { colour } from "./paint.js";
import { here, setParams } from "./route.js";

/**
 * @typedef {import("./run.js").About} About
 * @typedef {import("./run.js").Pane} Pane
 */

/** @param {About} about @returns {Pane} */
export function ranks(about) {
  const namesOf = (/** @type {About} */ one) => /** @type {string[]} */ (one.names.slice(0, 2000));
  const names = namesOf(about);
  const first = names.find((name) => /step_time/.test(name)) ?? names.find((name) => /loss$/.test(name)) ?? names[0];
  const chosen = el("select", { "aria-label": "series", onchange: () => show() },
    options(names.map((name) => [name, name]), first));
  const out = el("div", null, "…");
  const show = async () => {
    const answer = await get("ranks", { run: about.key, name: chosen.value });
    /** @type {{rank: number, mean: number}[]} */
    const means = answer.means.map((/** @type {any} */ mean, /** @type {number} */ at) => ({ rank: answer.ranks[at], mean: Number(mean) }));
    const finite = means.filter((one) => isFinite(one.mean)).sort((a, b) => b.mean - a.mean);
    fill(out,
      finite.length > 1 && highest(finite, /time|sec/.test(chosen.value) ? "Slowest: " : "Highest: "),
      heatMap({
        values: answer.values, rows: answer.ranks.map(String), columns: answer.steps.map(count),
        rowWord: "rank", columnWord: "step", label: chosen.value,
      }),
      answer.count > answer.steps.length && el("p.faint", null,
        `${count(answer.count)} steps; each column is the mean of about ${Math.round(answer.count / answer.steps.length)}`),
      table(["rank", "mean"], finite.slice(0, 16).map((one) => [one.rank, number(one.mean)]), { right: [0, 1] }));
  };
  show();
  return {
    element: el("div", null, el("div.tools", null, el("label", null, "series ", chosen)), out),
    update(newer) {
      setOptions(chosen, namesOf(newer).map((name) => [name, name]));
      show();
    },
  };
}

/**
 * The highest rank in words.
 * @param {{rank: number, mean: number}[]} means  the highest first
 * @param {string} title
 */
function highest(means, title) {
  const [first] = means;
  const median = means[Math.floor(means.length / 2)].mean;
  return el("p", null, title, el("b", null, `rank ${first.rank}`), ` at ${number(first.mean)} on average`,
    median ? `, ${number(first.mean / median)} times the median rank` : "");
}

/** @param {About} about @returns {Pane} */
export function matrices(about) {
  const { params } = here();
  let playing = 0;
  const chosen = el("select", { "aria-label": "matrix", onchange: () => show(-1) },
    options(about.matrices.map((/** @type {any} */ one) => [one.name, one.name]), params.get("matrix")));
  const slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "time", oninput: () => show(Number(slider.value)) });
  const step = el("output", null, "");
  const out = el("div", null, "…");
  let turn = 0, newest = true;
  const show = async (/** @type {number} */ at) => {
    const mine = ++turn;
    const answer = await get("matrix", { run: about.key, name: chosen.value, ...(at >= 0 ? { at } : {}) });
    if (mine !== turn) return;
    slider.max = String(answer.steps.length - 1);
    if (at < 0) slider.value = slider.max;
    newest = slider.value === slider.max;
    step.textContent = `step ${count(answer.step)} (${Number(slider.value) + 1} of ${answer.steps.length})`;
    setParams({ matrix: chosen.value });
    const moe = /expert|moe|rout/i.test(chosen.value);
    fill(out, heatMap({
      values: answer.values, rows: numbered(answer.values.length), columns: numbered(answer.values[0]?.length ?? 0),
      rowWord: moe ? "layer" : "row", columnWord: moe ? "expert" : "column", label: chosen.value,
    }));
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
  return {
    element: el("div", null, el("div.tools", null, chosen, play, slider, step), out),
    update(newer) {
      setOptions(chosen, newer.matrices.map((/** @type {any} */ one) => [one.name, one.name]));
      if (!playing) show(newest ? -1 : Number(slider.value)); // what somebody has chosen stays
    },
  };
}

/** @param {number} length */
function numbered(length) {
  return Array.from({ length }, (_, at) => String(at));
}

/** @param {About} about @returns {Pane} */
export function samples(about) {
  const { params } = here();
  let offset = Number(params.get("from")) || 0;
  const restart = () => { offset = 0; show(); };
  const tablesOf = (/** @type {About} */ one) => one.tables.map((/** @type {any} */ table) => [table.name, `${table.name} (${count(table.count)})`]);
  const chosen = el("select", { "aria-label": "table", onchange: restart }, options(tablesOf(about), params.get("table")));
  const search = el("input", {
    type: "search", placeholder: "Search text", "aria-label": "search text", value: params.get("find") ?? "",
    oninput: debounced(restart, 150),
  });
  const column = el("select", { "aria-label": "in column", onchange: restart }, el("option", { value: "" }, "in all columns"));
  const position = el("span.faint", { role: "status" });
  const out = el("div", null, "…");
  const page = (/** @type {number} */ by) => () => { offset = Math.max(0, offset + by); show(); };
  const newer = el("button", { onclick: page(-50) }, "Newer"), older = el("button", { onclick: page(50) }, "Older");
  const show = async () => {
    const answer = await get("samples", {
      run: about.key, table: chosen.value, offset, find: search.value, column: column.value,
    });
    setParams({ table: chosen.value, find: search.value, from: offset || null });
    if (column.options.length === 1) {
      for (const one of answer.columns) column.append(el("option", { value: one }, `in ${one}`));
    }
    newer.disabled = offset === 0;
    older.disabled = offset + answer.rows.length >= answer.found;
    position.textContent = positionOf(answer, offset, Boolean(search.value));
    patch(out, el("div", null, answer.rows.length
      ? answer.rows.map((/** @type {any} */ row) => sample(row, search.value))
      : el("p.empty", null, search.value ? "No sample contains that." : "No samples yet.")));
  };
  show();
  return {
    element: el("div", null, el("div.tools", null, chosen, search, column, newer, older, position), out),
    update(now) {
      setOptions(chosen, tablesOf(now));
      show();
    },
  };
}

/** @param {any} answer @param {number} offset @param {boolean} searched */
function positionOf(answer, offset, searched) {
  if (!answer.found) return "";
  const rows = `${offset + 1}–${offset + answer.rows.length} of ${count(answer.found)}${searched ? " found" : ""}`;
  return answer.count > 20000 ? `${rows}; the newest 20,000 of ${count(answer.count)} are searched` : rows;
}

/** @param {any} row @param {string} searched */
function sample(row, searched) {
  return el("article.sample", null,
    el("header", null, row.step !== null && el("b", null, `step ${count(row.step)}`), el("span.grow", null),
      el("span.faint", null, date(row.time))),
    el("dl.pairs", null, Object.entries(row.cells).map(([key, text]) => [
      el("dt", null, key), el("dd.text", null, ...marked(String(text), searched))])));
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

/** @param {About} about @returns {Pane} */
export function trace(about) {
  const head = el("div", null, "…"), bars = el("div", null), totals = el("div", null);
  /** @type {ReturnType<typeof timeline>|null} */
  let shown = null;
  const show = async () => {
    const answer = await get("trace", { run: about.key });
    const names = answer.names.slice(0, 10).map((/** @type {any} */ one) => one.name);
    const steps = answer.steps.map((/** @type {any} */ one) => one.step);
    if (!shown && !isExported && steps.length) {
      shown = timeline(about, names, steps);
      bars.after(shown.element);
    }
    shown?.extend(steps);
    const dot = (/** @type {string} */ name) => names.includes(name) && el("i.dot", { colour: colour(names.indexOf(name)) });
    const rows = answer.names.map((/** @type {any} */ one) => [
      el("span", null, dot(one.name), one.name),
      count(one.count), duration(one.total), duration(one.own), duration(one.mean), duration(one.p99)]);
    patch(head, el("div", null, el("div.tools", null, el("span", null, `${count(answer.count)} spans`),
      !isExported && el("a.button", { href: `api/perfetto?run=${about.key}`, download: true }, "Download for Perfetto"),
      el("span.faint", null, "open it at ui.perfetto.dev"))));
    fill(bars, steps.length > 0 && stacks(answer.steps, names, shown?.choose));
    patch(totals, el("div", null, table(["span", "count", "total", "own time", "mean", "99th percentile"], rows,
      { right: [1, 2, 3, 4, 5], label: "spans" })));
  };
  show();
  return { element: el("div", null, head, bars, totals), update: show };
}

/**
 * One step from start to end, and a choice of steps.
 * @param {About} about
 * @param {string[]} names
 * @param {number[]} steps  the newest that have spans
 */
function timeline(about, names, steps) {
  const { params } = here();
  const flame = new Flame(names);
  const step = el("input", {
    type: "number", "aria-label": "step", value: params.get("step") ?? steps[steps.length - 1], onchange: () => show(),
  });
  const rank = el("select", { "aria-label": "rank", onchange: () => show() },
    options(about.ranks.map((/** @type {number} */ one) => [one, one]), params.get("rank")));
  const next = (/** @type {number} */ by) => () => {
    const at = steps.findIndex((one) => one >= Number(step.value));
    choose(steps[Math.max(0, Math.min(steps.length - 1, (at < 0 ? steps.length : at) + by))]);
  };
  const status = el("span.faint", { role: "status" });
  let turn = 0;
  const show = async () => {
    const mine = ++turn;
    const answer = await get("timeline", { run: about.key, step: step.value, rank: rank.value });
    if (mine !== turn) return;
    setParams({ step: step.value, rank: about.ranks.length > 1 ? rank.value : null });
    const spans = answer.spans.length;
    flame.element.hidden = !spans;
    status.textContent = spans ? `${count(spans)} spans in ${duration(answer.seconds)}` : "this rank has no spans at this step";
    if (spans) flame.show(answer);
  };
  const choose = (/** @type {number} */ one) => {
    step.value = String(one);
    show();
  };
  show();
  const element = el("section", { "aria-label": "timeline of a step" },
    el("div.tools", null,
      el("label", null, "step ", step),
      el("button", { onclick: next(-1), "aria-label": "step before" }, "←"),
      el("button", { onclick: next(1), "aria-label": "step after" }, "→"),
      about.ranks.length > 1 && el("label", null, "rank ", rank),
      status),
    flame.element);
  const extend = (/** @type {number[]} */ newer) => { steps = newer; };
  return { element, choose, extend };
}

/**
 * The time of each step by span, as stacked bars.
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
  const caption = el("p.caption", { role: "status" },
    `own time of the newest ${steps.length} numbered steps; the frame is ${duration(top)} high`,
    choose && "; click a step to see it below");
  const under = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return steps[Math.min(steps.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * steps.length)))];
  };
  if (choose) canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => choose(under(event).step));
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const step = under(event);
    const times = Object.entries(step.own).map(([name, seconds]) => `${name} ${duration(seconds)}`);
    fill(caption, el("b", null, `step ${count(step.step)}: `), times.join(", "));
  });
  return el("figure", null, canvas, caption);
}
