// @ts-check
/** Runs beside each other: what differs in their settings, their values at the same place, their curves. */

import { series } from "./api.js";
import { el, fill, later, table } from "./dom.js";
import { leaves } from "./facts.js";
import { count, precise } from "./format.js";
import { Grid, matcher } from "./grid.js";
import { colour } from "./picture.js";
import { here, link, note } from "./route.js";
import { csv, give } from "./save.js";

/** @typedef {Record<string, any>} About */

export class Compare {
  /** @param {About[]} runs */
  constructor(runs) {
    this.runs = runs;
    const labels = runs.map((run) => run.name);
    this.labels = runs.map((run) => labels.indexOf(run.name) === labels.lastIndexOf(run.name) ? run.name : run.id);
    this.grid = runs.length ? new Grid(runs.map((run, at) => ({ key: run.key, label: this.labels[at], names: run.names, created: run.created, running: run.state === "running" }))) : null;
    this.element = runs.length ? el("section.compare", null,
      el("section.card", null, el("h2", null, "Settings that differ"), this._settings()),
      el("section.card", null, el("h2", null, "Values at the same place"), this._values()),
      this.grid?.element) : el("p.empty", null, "Choose two or more runs in ", el("a", { href: link("runs") }, "the list"), ", then compare them.");
  }

  close() {
    this.grid?.close();
  }

  _heads() {
    return this.runs.map((run, at) => el("a", { href: link(`run/${run.key}`) }, el("i.dot", { colour: colour(at) }), this.labels[at]));
  }

  _settings() {
    const configs = this.runs.map((run) => new Map(leaves(run.config)));
    const keys = [...new Set(configs.flatMap((config) => [...config.keys()]))];
    const words = (/** @type {any} */ value) => value === undefined ? "—" : typeof value === "string" ? value : typeof value === "number" ? precise(value) : JSON.stringify(value);
    const differ = keys.filter((key) => new Set(configs.map((config) => words(config.get(key)))).size > 1);
    if (!differ.length) return el("p.faint", null, `All ${keys.length} settings are the same.`);
    return el("div", null,
      table(["setting", ...this._heads()], [...differ.slice(0, 500).map((key) => [key, ...configs.map((config) => el(config.has(key) ? "span" : "span.faint", null, words(config.get(key))))])], { label: "settings that differ" }),
      el("p.faint", null, `${keys.length - differ.length} more are the same in all.`));
  }

  _values() {
    const { params } = here();
    const kind = el("select", { "aria-label": "place", onchange: () => show() }, [["step", "step"], ["tokens", "tokens"], ["relative", "seconds"]].map(([key, words]) => el("option", { value: key, selected: key === params.get("by") }, words)));
    const at = el("input", { type: "number", step: "any", placeholder: "the last in all", "aria-label": "where", value: params.get("at") ?? "", oninput: later(() => show(), 200) });
    const find = el("input", { type: "search", placeholder: "Search series", "aria-label": "search series", value: params.get("of") ?? "", oninput: later(() => show(), 200) });
    const out = el("div", null, "…");
    /** @type {string[][]} */
    let rows = [];
    const show = async () => {
      const test = matcher(find.value) ?? ((/** @type {string} */ name) => /loss|acc|mfu|per_sec|reward/.test(name));
      const names = [...new Set(this.runs.flatMap((run) => run.names))].filter(test).slice(0, 24);
      const axis = { kind: kind.value, log: false, low: null, high: null };
      const found = await series(names.map((name) => this.runs.map((run) => /** @type {[string, string]} */ ([run.key, name]))), axis, 1500);
      const ends = found.flatMap((chart) => chart.filter((one) => one.total > 0 && one.span).map((one) => /** @type {any} */ (one.span)[1]));
      const byRun = this.runs.map((_, run) => Math.max(...found.map((chart) => chart[run].span?.[1] ?? -Infinity)));
      const common = Math.min(...byRun.filter((end) => isFinite(end)));
      const place = at.value === "" ? (ends.length ? common : 0) : Number(at.value);
      note({ by: kind.value === "step" ? null : kind.value, at: at.value, of: find.value });
      rows = names.map((name, row) => [name, ...found[row].map((curve) => precise(valueAt(curve, place)))]);
      fill(out, el("p.faint", null, `the last value at or before ${kind.value === "relative" ? `${count(Math.round(place))} s` : `${kind.value} ${count(Math.round(place * 1000) / 1000)}`}`),
        table(["series", ...this._heads()], rows, { right: this.runs.map((_, run) => run + 1), label: "values" }));
    };
    show();
    return el("div", null, el("div.tools", null, el("label", null, "at ", kind, at), find,
      el("button", { onclick: () => give(csv([["series", ...this.labels], ...rows]), "text/csv", "comparison", "csv") }, "CSV")), out);
  }
}

/** @param {import("./api.js").Curve} curve @param {number} place */
function valueAt(curve, place) {
  let found;
  for (let at = 0; at < curve.x.length && curve.x[at] <= place; at++) found = curve.y[at];
  return found;
}
