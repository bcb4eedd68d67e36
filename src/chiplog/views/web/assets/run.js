// @ts-check
/** The page of a run: a tab for each kind of content. */

import { alerts } from "./alerts.js";
import { get, isExported, live } from "./api.js";
import { el, patch, put } from "./dom.js";
import { ago, count, duration } from "./format.js";
import { Grid } from "./grid.js";
import { link } from "./route.js";
import { state } from "./runs.js";
import { consoleTab } from "./console.js";
import { files, overview, sinks } from "./facts.js";
import { matrices, ranks, samples, trace } from "./tabs.js";

/**
 * @typedef {Record<string, any>} About
 * @typedef {{element: Element, update(about: About): void}} Pane  what a tab shows, and how it shows what is new
 */

/**
 * The kinds of records that change a tab; without a list, any does.
 * @type {Record<string, string[]>}
 */
const SHOWS = {
  alerts: ["alert"], samples: ["table"], moe: ["matrix"], trace: ["spans"], files: ["file"], ranks: ["step", "eval"], console: [],
};
const ALWAYS = ["alert", "attempt", "finish"]; // shown above the tabs
const EVERY = 2000; // ms between two looks at a run that is being written

const SYSTEM = /^(gpu|cpu|system|memory|disk|net|host|node|ib|nvlink)\//;

/** @type {[string, string, (about: About) => boolean][]} */
const TABS = [
  ["charts", "Charts", () => true],
  ["overview", "Overview", () => true],
  ["system", "System", (about) => about.names.some((/** @type {string} */ name) => SYSTEM.test(name))],
  ["ranks", "Ranks", (about) => about.ranks.length > 1],
  ["moe", "Matrices", (about) => about.matrices.length > 0],
  ["samples", "Samples", (about) => about.tables.length > 0],
  ["alerts", "Alerts", () => true],
  ["trace", "Trace", (about) => about.spans],
  ["console", "Console", (about) => about.console > 0],
  ["files", "Files", (about) => about.files.length > 0],
  ["sinks", "Sinks", (about) => about.sinks.length > 0],
];

export class RunPage {
  /** @param {About} about @param {string} tab */
  constructor(about, tab) {
    this.about = about;
    this.tab = TABS.some(([key]) => key === tab) ? tab : "charts";
    this.top = this._top();
    this.element = el("section.run", null, this.top, el("div.tab", { role: "tabpanel", "aria-label": this.tab }));
    /** @type {Grid|null} */
    this.grid = null;
    /** @type {Pane|null} */
    this.pane = null;
    this.asked = performance.now();
    this.timer = 0;
    this._show();
    setTimeout(() => this.top.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" })); // on a phone
    this.feed = about.state === "running" && !this.grid ? live([about.key], {
      rows: (_, rows) => this._advance(rows), news: (_, kinds) => this._news(kinds), stale: () => this._news(ALWAYS),
    }) : null;
  }

  close() {
    clearTimeout(this.timer);
    this.grid?.close();
    this.feed?.close();
  }

  /** The step, the duration and the start. */
  _progress() {
    const about = this.about;
    const step = count(about.step) ? `step ${count(about.step)}` : "no steps yet";
    return el("span.faint.progress", null, `${step} · ran ${duration(about.seconds)}${about.started ? ` · started ${ago(about.started)}` : ""}`);
  }

  /**
   * Show how far a running run has come.
   * @param {[number, number|null, Record<string, any>][]} rows
   */
  _advance(rows) {
    const [time, step] = rows[rows.length - 1];
    const about = this.about;
    if (step !== null) about.step = step;
    if (about.attempt_count === 1 && about.started) about.seconds = Math.max(about.seconds, time / 1e6 - about.started / 1e3);
    patch(/** @type {Element} */ (this.top.querySelector(".progress")), this._progress());
  }

  /** What stands above each tab. */
  _top() {
    const about = this.about;
    return el("div", null,
      el("div.title", null, el("h1", null, about.name), state(about.state),
        this._progress(),
        about.tags.map((/** @type {string} */ tag) => el("span.tag", null, tag))),
      about.damage_count > 0 && el("p.warning", { role: "alert" },
        `${about.damage_count} ${about.damage_count === 1 ? "stretch" : "stretches"} of its journal cannot be read; everything else is shown. `,
        el("a", { href: link(`run/${about.key}/overview`) }, "Show damaged parts")),
      el("div.tabs", { role: "tablist" }, TABS.filter(([key, , has]) => has(about) || key === this.tab).map(([key, words]) =>
        el("a", { href: link(`run/${about.key}/${key}`), role: "tab", "aria-selected": key === this.tab },
          words, key === "alerts" && about.alert_count > 0 && el("span.badge", null, String(about.alert_count))))));
  }

  _show() {
    const about = this.about;
    const tab = /** @type {Element} */ (this.element.lastElementChild);
    if (this.tab === "charts" || this.tab === "system") {
      this.grid = this._charts(this.tab === "system");
      const [shown, ...others] = about.ranks;
      put(tab, others.length > 0 && el("p.faint", null, `Rank ${shown} of ${others.length + 1}. `,
        el("a", { href: link(`run/${about.key}/ranks`) }, "Compare the ranks")), this.grid.element);
      return;
    }
    /** @type {Record<string, () => Pane>} */
    const panes = {
      overview: () => overview(about), alerts: () => remade(alerts, about), sinks: () => remade(sinks, about), files: () => files(about),
      ranks: () => ranks(about), moe: () => matrices(about), samples: () => samples(about), trace: () => trace(about),
      console: () => ({ element: consoleTab(about), update() {} }), // it polls by itself
    };
    this.pane = panes[this.tab]();
    put(tab, this.pane.element);
  }

  /** @param {boolean} system */
  _charts(system) {
    const { key, name, names, units, created, alerts: noticed, attempts } = this.about;
    return new Grid([{ key, label: name, names, units, created, running: this.about.state === "running" && !isExported, alerts: noticed, attempts }], {
      only: (one) => SYSTEM.test(one) === system,
      join: system ? (one) => one.replace(/^(gpu\/|node\/|cpu\/(?=\d))[^/]+\/(?=.)/, "$1*/") : undefined,
      alert: (at) => { location.hash = link(`run/${key}/alerts`, { at }).slice(1); },
      news: (_, kinds) => this._news(kinds),
      heard: (rows) => this._advance(rows),
    });
  }

  /**
   * Look again at a run that has written something, soon and not too often.
   * @param {string[]} kinds  of the records
   */
  _news(kinds) {
    const shown = this.grid ? [] : SHOWS[this.tab];
    if (this.timer || (shown && !kinds.some((kind) => shown.includes(kind) || ALWAYS.includes(kind)))) return;
    this.timer = setTimeout(() => this._look(), Math.max(0, this.asked + EVERY - performance.now()));
  }

  async _look() {
    this.timer = 0;
    this.asked = performance.now();
    if (document.visibilityState === "hidden") return void document.addEventListener("visibilitychange", () => this._news(ALWAYS), { once: true });
    const about = await get("run", { run: this.about.key }).catch(() => null); // without a server, what is shown stays
    if (!about || !this.element.isConnected) return;
    this.about = about;
    patch(this.top, this._top());
    this.pane?.update(about);
    this.grid?.setAlerts(about.key, about.alerts);
  }
}

/**
 * A pane of words and links alone.
 * @param {(about: About) => Element} make
 * @param {About} about
 * @returns {Pane}
 */
function remade(make, about) {
  const whole = (/** @type {About} */ one) => el("div", null, make(one));
  const element = whole(about);
  return { element, update: (newer) => patch(element, whole(newer)) };
}
