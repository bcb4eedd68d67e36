// @ts-check
/** The page of a run: a tab for each kind of content. */

import { get, isExported, live } from "./api.js";
import { el, fill } from "./dom.js";
import { ago, count, duration } from "./format.js";
import { Grid } from "./grid.js";
import { link } from "./route.js";
import { state } from "./runs.js";
import { consoleTab } from "./console.js";
import { alerts, files, overview, sinks } from "./facts.js";
import { matrices, ranks, samples, trace } from "./tabs.js";

/** @typedef {Record<string, any>} About */

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
    this.top = el("div", null);
    this.facts = el("span.faint", null);
    this.pane = el("div.tab", { role: "tabpanel", "aria-label": this.tab });
    this.element = el("section.run", null, this.top, this.pane);
    /** @type {Grid|null} */
    this.grid = null;
    this._top();
    this._show();
    this.feed = about.state === "running" && this.tab !== "charts" && this.tab !== "system" ? live([about.key], { news: () => this._news() }) : null;
  }

  close() {
    this.grid?.close();
    this.feed?.close();
  }

  /** Show the step, the duration and the start. */
  _describe() {
    const about = this.about;
    const step = count(about.step) ? `step ${count(about.step)}` : "no steps yet";
    this.facts.textContent = `${step} · ran ${duration(about.seconds)}${about.started ? ` · started ${ago(about.started)}` : ""}`;
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
    this._describe();
  }

  _top() {
    const about = this.about;
    this._describe();
    fill(this.top,
      el("div.title", null, el("h1", null, about.name), state(about.state),
        this.facts,
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
    if (this.tab === "charts" || this.tab === "system") {
      this.grid = this._charts(this.tab === "system");
      const [shown, ...others] = about.ranks;
      fill(this.pane, others.length > 0 && el("p.faint", null, `Rank ${shown} of ${others.length + 1}. `,
        el("a", { href: link(`run/${about.key}/ranks`) }, "Compare the ranks")), this.grid.element);
      return;
    }
    /** @type {Record<string, () => Node>} */
    const panes = {
      overview: () => overview(about), alerts: () => alerts(about), files: () => files(about), sinks: () => sinks(about),
      ranks: () => ranks(about), moe: () => matrices(about), samples: () => samples(about), trace: () => trace(about),
      console: () => consoleTab(about),
    };
    fill(this.pane, panes[this.tab]());
  }

  /** @param {boolean} system */
  _charts(system) {
    const { key, name, names, created, alerts: noticed, attempts } = this.about;
    return new Grid([{ key, label: name, names, created, running: this.about.state === "running" && !isExported, alerts: noticed, attempts }], {
      only: (one) => SYSTEM.test(one) === system,
      join: system ? (one) => one.replace(/^(gpu|cpu|node|host)\/[^/]+\/(?=.)/, "$1/*/") : undefined,
      alert: (at) => { location.hash = link(`run/${key}/alerts`, { at }).slice(1); },
      news: () => this._news(),
      heard: (rows) => this._advance(rows),
    });
  }

  async _news() {
    const before = this.about;
    this.about = await get("run", { run: before.key });
    this._top();
    if (!this.grid && this.tab !== "console") this._show(); // the console polls by itself
  }
}

