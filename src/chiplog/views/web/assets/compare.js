// @ts-check
/** Runs side by side: settings that differ, values at the same place, and curves. */

import { series } from "./api.js";
import { debounced, el, fill, options, table } from "./dom.js";
import { leaves } from "./facts.js";
import { count, precise } from "./format.js";
import { Grid, matcher } from "./grid.js";
import { colour } from "./paint.js";
import { here, link, setParams } from "./route.js";
import { csv, download } from "./save.js";

/** @typedef {Record<string, any>} About */

export class Compare {
  /** @param {About[]} runs */
  constructor(runs) {
    this.runs = runs;
    const labels = runs.map((run) => run.name);
    this.labels = runs.map((run) => labels.indexOf(run.name) === labels.lastIndexOf(run.name) ? run.name : run.id);
    this.grid = runs.length ? new Grid(runs.map((run, at) => ({
      key: run.key, label: this.labels[at], names: run.names, created: run.created, running: run.state === "running",
    }))) : null;
    this.element = runs.length ? el("section.compare", null,
      el("section.card", null, el("h2", null, "Config differences"), this._settings()),
      el("section.card", null, el("h2", null, "Metrics at equal steps"), this._values()),
      this.grid?.element)
      : el("p.empty", null,
        "Choose two or more runs in ", el("a", { href: link("runs") }, "the list"), ", then compare them.");
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
    const differ = keys.filter((key) => new Set(configs.map((config) => setting(config.get(key)))).size > 1);
    if (!differ.length) return el("p.faint", null, `All ${keys.length} settings are the same.`);
    const rows = differ.slice(0, 500).map((key) => [key, ...configs.map((config) =>
      el(config.has(key) ? "span" : "span.faint", null, setting(config.get(key))))]);
    return el("div", null,
      table(["setting", ...this._heads()], rows, { label: "config differences" }),
      el("p.faint", null, `${keys.length - differ.length} other settings are equal.`));
  }

  _values() {
    const { params } = here();
    const kind = el("select", { "aria-label": "place", onchange: () => show() },
      options([["step", "step"], ["tokens", "tokens"], ["relative", "seconds"]], params.get("by")));
    const at = el("input", {
      type: "number", step: "any", placeholder: "the last in all", "aria-label": "where", value: params.get("at") ?? "",
      oninput: debounced(() => show(), 200),
    });
    const find = el("input", {
      type: "search", placeholder: "Search series", "aria-label": "search series", value: params.get("of") ?? "",
      oninput: debounced(() => show(), 200),
    });
    const out = el("div", null, "…");
    /** @type {string[][]} */
    let rows = [];
    const show = async () => {
      const test = matcher(find.value) ?? ((/** @type {string} */ name) => /loss|acc|mfu|per_sec|reward/.test(name));
      const names = [...new Set(this.runs.flatMap((run) => run.names))].filter(test).slice(0, 24);
      const axis = { kind: kind.value, log: false, low: null, high: null, smooth: 0 };
      const charts = names.map((name) => this.runs.map((run) => /** @type {[string, string]} */ ([run.key, name])));
      const curves = await series(charts, axis, 1500);
      const ends = this.runs.map((_, run) => Math.max(...curves.map((chart) => chart[run].span?.[1] ?? -Infinity)));
      const common = Math.min(...ends.filter((end) => isFinite(end)));
      const place = at.value === "" ? (isFinite(common) ? common : 0) : Number(at.value);
      setParams({ by: kind.value === "step" ? null : kind.value, at: at.value, of: find.value });
      rows = names.map((name, row) => [name, ...curves[row].map((curve) => precise(valueAt(curve, place)))]);
      const where = kind.value === "relative"
        ? `${count(Math.round(place))} s` : `${kind.value} ${count(Math.round(place * 1000) / 1000)}`;
      fill(out, el("p.faint", null, `the last value at or before ${where}`),
        table(["series", ...this._heads()], rows, { right: this.runs.map((_, run) => run + 1), label: "values" }));
    };
    show();
    return el("div", null, el("div.tools", null, el("label", null, "at ", kind, at), find,
      el("button", { onclick: () => download(csv([["series", ...this.labels], ...rows]), "text/csv", "comparison", "csv") }, "CSV")), out);
  }
}

/** @param {any} value */
function setting(value) {
  if (value === undefined) return "—";
  if (typeof value === "number") return precise(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** @param {import("./api.js").Curve} curve @param {number} place */
function valueAt(curve, place) {
  let value;
  for (let at = 0; at < curve.x.length && curve.x[at] <= place; at++) value = curve.y[at];
  return value;
}
