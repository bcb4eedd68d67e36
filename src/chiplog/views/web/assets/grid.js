// @ts-check
/** The charts of a page: fetched when they become visible, zoomed together, searched, pinned. */

import { concerns } from "./alerts.js";
import { live, series } from "./api.js";
import { Chart } from "./chart.js";
import { el, fill, debounced } from "./dom.js";
import { count } from "./format.js";
import { ordered } from "./sort.js";
import { colour } from "./paint.js";
import { here, setParams } from "./route.js";

/**
 * @typedef {{key: string, label: string, names: string[], units?: Record<string, [string, number]>, created: number, running: boolean,
 *   attempts?: any[], alerts?: any[]}} Shown
 */

const MOST = 500; // charts on a page
const KEPT = 60; // charts out of sight that keep their data
const AT_ONCE = 4; // charts per request
const LINES = 100; // per request, and of a chart
/** @type {[string, string][]} */
const AXES = [
  ["step", "step"], ["relative", "relative time"], ["time", "wall time"], ["tokens", "tokens"], ["epoch", "epoch"], ["flops", "FLOPs"],
];

export class Grid {
  /**
   * @param {Shown[]} runs
   * @param {{only?: (name: string) => boolean, join?: (name: string) => string, alert?: (at: number) => void, news?: (run: string, kinds: string[]) => void,
   *   heard?: (rows: [number, number|null, Record<string, any>][]) => void}} [options]
   */
  constructor(runs, options = {}) {
    this.runs = runs;
    this.options = options;
    const { params } = here();
    /** @type {import("./chart.js").Look} */
    this.look = {
      kind: params.get("x") ?? "step", log: params.get("lx") === "1", logY: params.get("ly") === "1",
      smooth: Number(params.get("smooth")) || 0, clip: params.get("clip") === "1", flags: params.get("flags") !== "0",
      low: numeric(params.get("low")), high: numeric(params.get("high")),
      hidden: new Set((params.get("hide") ?? "").split(",").filter(Boolean)),
      started: new Map(runs.map((run) => [run.key, run.created])), uprights: new Map(),
    };
    this.find = params.get("find") ?? "";
    this.shut = new Set(/** @type {string[]} */ (parsed(params.get("shut"))));
    this.pins = new Set(/** @type {string[]} */ (parsed(params.get("pin"))));
    /** @type {Chart[]} */
    this.charts = [];
    /** @type {Map<string, Set<Chart>>} */
    this.byRun = new Map();
    /** @type {Set<Chart>} */
    this.queue = new Set();
    this.asking = 0;
    this.round = 0;
    this.watcher = new IntersectionObserver((entries) => this._visibilityChanged(entries), { rootMargin: "250px" });
    this.resizer = new ResizeObserver(debounced(() => this.charts.forEach((chart) => chart.redraw()), 60));
    this._mark();
    this.body = el("div", null);
    this.element = el("section.charts", { "aria-label": "charts" }, this._tools(), this._legend(), this.body);
    this._layout();
    this.resizer.observe(this.body);
    const running = runs.filter((run) => run.running).map((run) => run.key);
    this.feed = running.length ? live(running, {
      rows: (run, rows) => this._addRows(run, rows),
      stale: (run) => this._stale(run),
      news: (run, kinds) => options.news?.(run, kinds),
      up: (up) => this.lamp.classList.toggle("down", !up),
    }) : null;
    this.lamp.hidden = !running.length;
    addEventListener("beforeprint", this._print);
  }

  /** Paint what was fetched, also out of sight; a chart that was not is not printed. */
  _print = () => {
    for (const chart of this.charts.filter((one) => one.curves)) chart.draw();
  };

  close() {
    this.feed?.close();
    removeEventListener("beforeprint", this._print);
    this.watcher.disconnect();
    this.resizer.disconnect();
    for (const chart of this.charts) chart.release(true);
    this.charts = [];
    this.byRun.clear();
  }

  _tools() {
    const look = this.look;
    const names = [...new Set(this.runs.flatMap((run) => run.names))].slice(0, 300);
    const axis = el("select", { "aria-label": "x axis", onchange: () => this._axis(axis.value) },
      AXES.map(([key, words]) => el("option", { value: key }, words)),
      el("optgroup", { label: "a series" }, names.map((name) => el("option", { value: `metric:${name}` }, name))));
    axis.value = look.kind;
    const toggle = (/** @type {string} */ words, /** @type {"log"|"logY"|"clip"|"flags"} */ key, /** @type {string} */ short, /** @type {string} */ title, usual = false) =>
      el("label.toggle", { title }, el("input", {
        type: "checkbox", checked: look[key],
        onchange: (/** @type {any} */ event) => {
          look[key] = event.target.checked;
          setParams({ [short]: look[key] === usual ? null : Number(look[key]) });
          if (key === "log") this.refetch();
          else this._redraw();
        },
      }), words);
    const amount = el("output", null, look.smooth ? look.smooth.toFixed(2) : "off");
    const refetch = debounced(() => this.refetch(), 120);
    const slider = el("input", {
      type: "range", min: 0, max: 0.99, step: 0.01, value: look.smooth, "aria-label": "smoothing",
      oninput: () => {
        look.smooth = Number(slider.value);
        amount.textContent = look.smooth ? look.smooth.toFixed(2) : "off";
        setParams({ smooth: look.smooth || null });
        if (look.smooth) refetch();
        else this._redraw();
      },
    });
    this.search = el("input", {
      type: "search", placeholder: "Search series (regular expression)", value: this.find, "aria-label": "search series",
      oninput: debounced(() => {
        this.find = this.search.value;
        setParams({ find: this.find });
        this._layout();
      }, 120),
    });
    this.lamp = el("span.lamp", { title: "live", role: "status" }, "live");
    const flags = this.runs.some((run) => run.alerts?.length) && toggle("alerts", "flags", "flags", "flags where there was an alert", true);
    this.back = el("button", { hidden: look.low === null, onclick: () => this.zoom(null, null) }, "Reset zoom");
    return el("div.tools", null, this.search,
      el("label", null, "x ", axis), toggle("log x", "log", "lx", "logarithmic x axis"), toggle("log y", "logY", "ly", "logarithmic y axis"),
      el("label", null, "smooth ", slider, amount), toggle("ignore outliers", "clip", "clip", "leave the outer 2 % of values outside the frame if they are far away"),
      flags, this.back, this.lamp);
  }

  _legend() {
    if (this.runs.length < 2) return el("div", null);
    return el("div.legend", null, this.runs.map((run, at) => {
      const item = el("button.key", {
        colour: colour(at), "aria-pressed": !this.look.hidden.has(run.key), title: "show or hide",
        onclick: () => {
          if (!this.look.hidden.delete(run.key)) this.look.hidden.add(run.key);
          item.setAttribute("aria-pressed", String(!this.look.hidden.has(run.key)));
          setParams({ hide: [...this.look.hidden].join(",") });
          this._redraw();
        },
      }, el("i.dot", null), run.label);
      return item;
    }));
  }

  /** Mark restarts with lines, and alerts with flags. */
  _mark() {
    const { kind } = this.look;
    for (const run of this.runs) {
      /** @type {import("./paint.js").Upright[]} */
      const uprights = [];
      const at = (/** @type {number|null} */ step, /** @type {number|null} */ time) =>
        kind === "step" ? step : time === null ? null : kind === "time" ? time / 1e3 : kind === "relative" ? (time - run.created) / 1e3 : null;
      const style = getComputedStyle(document.documentElement);
      for (const [order, alert] of (run.alerts ?? []).entries()) {
        const x = at(alert.step, alert.time);
        const tone = style.getPropertyValue(alert.level === "error" ? "--bad" : alert.level === "warn" ? "--warn" : "--faint").trim();
        if (x !== null && x !== undefined) uprights.push({ x, colour: tone, label: alert.title, flag: order, concerns: (name) => concerns(alert, name) });
      }
      for (const attempt of (run.attempts ?? []).filter((one) => one.attempt > 1 && one.rank === (run.attempts ?? [])[0].rank)) {
        const x = at(attempt.first_step, attempt.start);
        const faint = style.getPropertyValue("--faint").trim();
        if (x !== null && x !== undefined) uprights.push({ x, colour: faint, label: `attempt ${attempt.attempt}`, dashed: true });
      }
      this.look.uprights.set(run.key, uprights);
    }
  }

  /**
   * Flag what was noticed meanwhile.
   * @param {string} key  of the run
   * @param {any[]} alerts
   */
  setAlerts(key, alerts) {
    for (const run of this.runs.filter((one) => one.key === key)) run.alerts = alerts;
    this._mark();
    this._redraw();
  }

  /** Lay out the matching charts by group. */
  _layout() {
    this.watcher.disconnect();
    for (const chart of this.charts) chart.release(true);
    const match = matcher(this.find);
    this.search.classList.toggle("wrong", match === null);
    /** @type {Map<string, import("./chart.js").Wanted[]>} */
    const wanted = new Map();
    for (const [at, run] of this.runs.entries()) {
      for (const name of run.names) {
        if ((this.options.only && !this.options.only(name)) || (match && !match(name))) continue;
        const title = this.options.join?.(name) ?? name;
        const lines = wanted.get(title) ?? [];
        const alone = title === name;
        const label = alone ? run.label : this.runs.length > 1 ? `${run.label} ${name}` : name;
        const [unit, per] = run.units && Object.hasOwn(run.units, name) ? run.units[name] : ["", 1]; // `__proto__` is a name, too
        lines.push({ run: run.key, name, label, unit, per, colour: colour(alone ? at : lines.length) });
        wanted.set(title, lines);
      }
    }
    const titles = ordered(ordered(wanted.keys(), (title) => title), weight);
    const shown = [...titles.filter((one) => this.pins.has(one)), ...titles.filter((one) => !this.pins.has(one))].slice(0, MOST);
    this.charts = [];
    this.byRun = new Map(this.runs.map((run) => [run.key, new Set()]));
    /** @type {Map<string, Chart[]>} */
    const groups = new Map();
    for (const title of shown) {
      const lines = (wanted.get(title) ?? []).slice(0, LINES);
      const chart = new Chart(title, lines, this.look, {
        zoom: (low, high) => this.zoom(low, high), hover: (x, from) => this._hover(x, from), pin: (name) => this._pin(name),
        pinned: this.pins.has(title), refresh: (one) => this._enqueue(one), alert: this.options.alert,
      });
      this.charts.push(chart);
      for (const run of new Set(lines.map((line) => line.run))) this.byRun.get(run)?.add(chart);
      const group = this.pins.has(title) ? "★ pinned" : title.includes("/") ? title.split("/")[0] : "other";
      groups.set(group, [...(groups.get(group) ?? []), chart]);
    }
    fill(this.body,
      [...groups].map(([name, charts]) => el("details.group", { open: !this.shut.has(name), ontoggle: (/** @type {Event} */ event) => this._toggle(name, event) },
        el("summary", null, el("h2", null, name), el("span.faint", null, String(charts.length))),
        el("div.grid", null, charts.map((chart) => chart.element)))),
      !shown.length && el("p.empty", null, this.find
        ? "No series matches; clear the search to see all."
        : "Nothing has been logged yet; charts appear here with the first point."),
      titles.length > MOST && el("p.empty", null, `${MOST} of ${count(titles.length)} series are shown; search to see others.`));
    for (const chart of this.charts) {
      /** @type {any} */ (chart.element).chart = chart;
      this.watcher.observe(chart.element);
    }
    if (this.charts.length) this._enqueue(this.charts[0]); // before the page is laid out: it will be visible
  }

  /** @param {IntersectionObserverEntry[]} entries */
  _visibilityChanged(entries) {
    for (const entry of entries) {
      const chart = /** @type {Chart} */ (/** @type {any} */ (entry.target).chart);
      chart.visible = entry.isIntersecting;
      if (chart.visible && (chart.curves || chart.loading)) chart.redraw();
      else if (chart.visible) this._enqueue(chart);
      else {
        this.queue.delete(chart);
        chart.release(false);
      }
    }
    const held = this.charts.filter((chart) => !chart.visible && chart.curves);
    if (held.length > KEPT) held.sort((a, b) => a.asked - b.asked).slice(0, held.length - KEPT).forEach((chart) => chart.release(true));
  }

  /** @param {Chart} chart */
  _enqueue(chart) {
    this.queue.add(chart);
    queueMicrotask(() => this._fetch());
  }

  async _fetch() {
    while (this.queue.size && this.asking < 2) {
      const few = this.charts.some((chart) => chart.curves) ? AT_ONCE : 1; // the first chart does not wait for others
      const batch = [...this.queue].slice(0, few);
      while (batch.length > 1 && batch.reduce((sum, chart) => sum + chart.wanted.length, 0) > LINES) batch.pop();
      batch.forEach((chart) => this.queue.delete(chart));
      this.asking++;
      const round = this.round;
      for (const chart of batch) {
        chart.loading = true;
        chart.asked = performance.now();
      }
      const { kind, log, low, high, smooth } = this.look;
      const n = Math.max(200, Math.min(1500, Math.round((batch[0].plot.clientWidth || 500) * 1)));
      try {
        const keys = batch.map((chart) => chart.wanted.map((one) => /** @type {[string, string]} */ ([one.run, one.name])));
        const curves = await series(keys, { kind, log, low, high, smooth }, n);
        batch.forEach((chart, at) => {
          if (round === this.round) chart.setCurves(curves[at]);
          else chart.loading = false;
        });
      } catch (error) {
        batch.forEach((chart) => chart.fail(error instanceof Error ? error.message : "not answered"));
      } finally {
        this.asking--;
      }
    }
  }

  refetch() {
    this.round++;
    for (const chart of this.charts) {
      if (chart.visible) this.queue.add(chart);
      else chart.curves = null;
    }
    this._fetch();
  }

  /** @param {string} kind */
  _axis(kind) {
    Object.assign(this.look, { kind, low: null, high: null });
    setParams({ x: kind === "step" ? null : kind, low: null, high: null });
    this.back.hidden = true;
    this._mark();
    for (const chart of this.charts) chart.curves = null;
    this.refetch();
  }

  /** @param {number|null} low @param {number|null} high */
  zoom(low, high) {
    for (const chart of this.charts) chart.point(null, false); // what was at the pointer has moved
    Object.assign(this.look, { low, high });
    this.back.hidden = low === null;
    setParams({ low, high });
    this._redraw();
    this._refetchSoon();
  }

  _refetchSoon = debounced(() => this.refetch(), 10);

  _redraw() {
    for (const chart of this.charts) chart.redraw();
  }

  /** @param {number|null} x @param {Chart} from */
  _hover(x, from) {
    for (const chart of this.charts) if (chart.visible) chart.point(x, chart === from);
  }

  /** @param {string} name  of a group @param {Event} event */
  _toggle(name, event) {
    if (/** @type {HTMLDetailsElement} */ (event.target).open) this.shut.delete(name);
    else this.shut.add(name);
    setParams({ shut: this.shut.size ? JSON.stringify([...this.shut]) : null });
  }

  /** @param {string} name */
  _pin(name) {
    if (!this.pins.delete(name)) this.pins.add(name);
    setParams({ pin: this.pins.size ? JSON.stringify([...this.pins]) : null });
    this._layout();
  }

  /** @param {string} key @param {[number, number|null, Record<string, any>][]} rows */
  _addRows(key, rows) {
    for (const chart of this.byRun.get(key) ?? []) chart.addRows(key, rows);
    this.options.heard?.(rows);
    const run = this.runs.find((one) => one.key === key);
    if (!run) return;
    const names = new Set(run.names);
    const fresh = [...new Set(rows.flatMap((row) => Object.keys(row[2])))].filter((name) => !names.has(name));
    if (fresh.length) {
      run.names.push(...fresh);
      this._layoutSoon();
    }
  }

  _layoutSoon = debounced(() => this._layout(), 1000);

  /** @param {string|undefined} run */
  _stale(run) {
    for (const chart of run ? this.byRun.get(run) ?? [] : this.charts) {
      if (chart.visible && performance.now() - chart.asked > 900) this._enqueue(chart);
    }
  }
}

/**
 * A test for names from the search text; null if it is not a valid regular expression.
 * @param {string} text
 * @returns {((name: string) => boolean)|null|undefined}
 */
export function matcher(text) {
  if (!text) return undefined;
  try {
    const expression = new RegExp(text, "i");
    return (name) => expression.test(name);
  } catch {
    return null;
  }
}

/**
 * The most important first: training, evaluation, and the loss in each.
 * @param {string} name
 */
function weight(name) {
  const group = /^train\//.test(name) ? 0 : /^(eval|val|test)\//.test(name) ? 2 : 4;
  return group === 4 || /loss$/.test(name) ? group : group + 1;
}

/** @param {string|null} text */
function numeric(text) {
  return text === null || text === "" || isNaN(Number(text)) ? null : Number(text);
}

/** @param {string|null} text */
function parsed(text) {
  try {
    const value = JSON.parse(text ?? "[]");
    return Array.isArray(value) ? value.map(String) : [];
  } catch {
    return [];
  }
}
