// @ts-check
/** The table of runs: sorted, grouped and searched; only visible rows are in the page. */

import { get, isExported, live } from "./api.js";
import { arrange, debounced, el, fill, replace } from "./dom.js";
import { ago, count, date, duration, number } from "./format.js";
import { ordered } from "./sort.js";
import { here, link, setParams } from "./route.js";

/** @typedef {{key: string, project: string, id: string, name: string, tags: string[], state: string, started: number,
 *   seconds: number, step: number|null, attempts: number, cells: Record<string, any>, reason?: string}} Row */

const HIGH = 34; // pixels of a row
const DEFAULT = ["v:train/loss", "v:eval/loss"];
export const DRAWN = 100; // runs in one view
const SEARCHED = ["state", "tag", "name", "project", "id", "step", "started", "ran", "age", "loss"];
/** @type {[string, string][]} */
const FIXED = [
  ["state", "state"], ["name", "name"], ["project", "project"], ["started", "started"], ["seconds", "ran"], ["step", "step"],
  ["tags", "tags"],
];

export class Runs {
  constructor() {
    const { params } = here();
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    this.version = 0;
    this.chosen = new Set((params.get("runs") ?? "").split(",").filter(Boolean));
    this.columns = listed(params.get("cols")) ?? DEFAULT;
    this.sort = params.get("sort") ?? "-started";
    this.group = params.get("group") ?? "";
    this.query = params.get("q") ?? "";
    /** @type {Set<string>|null} */
    this.matches = null; // the keys of the runs that the search matches; null without a search
    this.asked = 0;
    this.headed = ""; // what the head shows
    /** @type {Promise<{config: string[], values: string[]}>|null} */
    this.choices = null;
    /** @type {({head: string, count: number}|Row)[]} */
    this.shown = [];
    /** @type {Map<string, {made: Element, content: string}>} */
    this.built = new Map(); // the rows in the page, and what they show
    this.element = el("section", { "aria-label": "runs" });
    this._build();
    this.ready = this._load();
    this.feed = live([], { runs: () => this._load(), up: (up) => this.lamp.classList.toggle("down", !up) });
    this.clock = setInterval(() => this._window(), 5000);
  }

  close() {
    this.feed.close();
    clearInterval(this.clock);
  }

  _build() {
    this.search = el("input", {
      type: "search", value: this.query, placeholder: "Search: words, lr>0.001, state=running or tag=x", "aria-label": "search runs",
      list: "keys", onfocus: () => this._complete(),
      oninput: debounced(() => {
        this.query = this.search.value;
        setParams({ q: this.query });
        this._complete();
        this._find();
      }, 60),
    });
    this.keys = el("datalist", { id: "keys" });
    this.trouble = el("p.trouble", { role: "status", hidden: true });
    this.grouping = el("select", { "aria-label": "group by", onchange: () => {
      this.group = this.grouping.value;
      setParams({ group: this.group });
      this._arrange();
    } });
    this.adder = el("input", {
      list: "columns", placeholder: "Add a column…", "aria-label": "add a column",
      onfocus: () => this._offer(),
      onchange: () => this._column(this.adder.value),
    });
    this.offers = el("datalist", { id: "columns" });
    this.lamp = el("span.lamp", { title: "live", role: "status", hidden: isExported }, "live");
    this.many = el("span.faint", { role: "status" });
    this.actions = el("span.actions", null);
    this.head = el("thead", null);
    this.body = el("tbody", null);
    this.table = el("table.runs", { "aria-label": "runs" }, this.head, this.body);
    this.pane = el("div.pane", { onscroll: () => this._window(), tabindex: 0 }, this.table);
    fill(this.element,
      el("div.tools", null, this.search, el("label", null, "group by ", this.grouping), this.adder, this.offers, this.many,
        this.actions, this.lamp, this.keys),
      this.trouble, this.pane);
    this._offerGroups();
    addEventListener("resize", debounced(() => this._window(), 50));
  }

  _offerGroups() {
    fill(this.grouping, [["", "none"], ["project", "project"], ["state", "state"], ["tags", "tags"],
      ...this.columns.filter((/** @type {string} */ one) => one.startsWith("c:")).map((/** @type {string} */ one) => [one, one.slice(2)])]
      .map(([key, words]) => el("option", { value: key, selected: key === this.group }, words)));
  }

  async _load() {
    try {
      const answer = await get("runs", { since: this.version, columns: JSON.stringify(this.columns) });
      if (this.version === 0 || answer.version < this.version) this.rows.clear();
      for (const row of answer.runs) this.rows.set(row.key, row);
      for (const key of answer.gone) this.rows.delete(key);
      this.version = answer.version;
      this.root = answer.root;
      if (this.query.trim()) await this._find();
      else this._arrange();
    } catch (error) {
      fill(this.body, el("tr", null, el("td.empty", { colspan: 20 }, error instanceof Error ? error.message : "not answered")));
    }
  }

  /** Ask which runs match. What is not understood is reported, and the last answer stays. */
  async _find() {
    const asked = ++this.asked;
    const answer = this.query.trim() ? await get("search", { q: this.query }) : { keys: null };
    if (asked !== this.asked) return;
    if (!answer.error) this.matches = answer.keys && new Set(answer.keys);
    this.trouble.textContent = answer.error ?? "";
    this.trouble.hidden = !answer.error;
    this._arrange();
  }

  /** Offer the keys that the last word of the search may become. */
  async _complete() {
    const { config, values } = await (this.choices ??= get("columns"));
    const [, before, word] = /** @type {RegExpExecArray} */ (/^(.*?)([^\s()]*)$/.exec(this.search.value));
    const names = word && /^[^<>=~:]+$/.test(word) ? [...SEARCHED, ...config, ...values] : [];
    const near = names.filter((name) => name.toLowerCase().includes(word.toLowerCase())).slice(0, 20);
    fill(this.keys, near.map((name) => el("option", { value: before + name })));
  }

  async _offer() {
    const choices = await get("columns");
    fill(this.offers, [...choices.values.map((/** @type {string} */ one) => `v:${one}`), ...choices.config.map((/** @type {string} */ one) => `c:${one}`)]
      .map((one) => el("option", { value: one })));
  }

  /** @param {string} name */
  _column(name) {
    if (!/^[cv]:./.test(name)) return;
    this.adder.value = "";
    this.columns = this.columns.includes(name) ? this.columns.filter((/** @type {string} */ one) => one !== name) : [...this.columns, name];
    setParams({ cols: JSON.stringify(this.columns) });
    this._offerGroups();
    this.version = 0;
    this._load();
  }

  _arrange() {
    const down = this.sort.startsWith("-"), key = this.sort.replace(/^-/, "");
    const matching = ordered(ordered([...this.rows.values()].filter((row) => !this.matches || this.matches.has(row.key)), (row) => row.id), (row) => cell(row, key), down);
    this.shown = matching;
    if (this.group) {
      /** @type {Map<string, Row[]>} */
      const groups = new Map();
      for (const row of matching) {
        const name = String([cell(row, this.group)].flat().join(", ") || "none");
        const rows = groups.get(name);
        if (rows) rows.push(row);
        else groups.set(name, [row]);
      }
      this.shown = ordered(groups, ([name]) => name).flatMap(([head, rows]) => [{ head, count: rows.length }, ...rows]);
    }
    const total = this.rows.size;
    this.many.textContent = `${matching.length === total ? "" : `${count(matching.length)} of `}${count(total)} runs`;
    this._headings();
    this._act();
    this._window();
  }

  _headings() {
    const heading = (/** @type {string} */ key, /** @type {string} */ words, /** @type {boolean} */ extra) => {
      const down = this.sort === `-${key}`, up = this.sort === key;
      const sorted = down ? "descending" : up ? "ascending" : "none";
      return el(`th.${extra ? "extra" : key === "state" ? "doing" : key}`, { scope: "col", "aria-sort": sorted },
        el("button.quiet", { onclick: () => {
          this.sort = this.sort === key ? `-${key}` : key;
          setParams({ sort: this.sort });
          this._arrange();
        }, title: key }, words, up ? " ↑" : down ? " ↓" : ""),
        extra && el("button.quiet.drop", {
          title: "Remove column", "aria-label": `remove ${words}`, onclick: () => this._column(key),
        }, "×"));
    };
    const all = el("input", {
      type: "checkbox", "aria-label": "choose all that are shown",
      checked: this.shown.length > 0 && this.shown.every((row) => "head" in row || this.chosen.has(row.key)),
      onchange: () => {
        for (const row of this.shown) if (!("head" in row)) all.checked ? this.chosen.add(row.key) : this.chosen.delete(row.key);
        this._chose();
      },
    });
    const content = JSON.stringify([this.columns, this.sort, all.checked]);
    if (content === this.headed) return;
    this.headed = content;
    const made = el("tr", null, el("th.tick", null, all), FIXED.map(([key, words]) => heading(key, words, false)),
      this.columns.map((/** @type {string} */ one) => heading(one, one.slice(2), true)));
    if (this.head.firstElementChild) replace(this.head.firstElementChild, made);
    else this.head.append(made);
  }

  _chose() {
    setParams({ runs: [...this.chosen].join(",") });
    this._act();
    this._headings();
    this._window();
  }

  _act() {
    const chosen = [...this.chosen].filter((key) => this.rows.has(key));
    const runs = chosen.slice(0, DRAWN).join(",");
    const unseen = this.matches ? chosen.filter((key) => !this.matches?.has(key)).length : 0;
    const many = chosen.length > DRAWN ? `${DRAWN} of ${chosen.length}` : String(chosen.length);
    fill(this.actions, chosen.length > 0 && [
      unseen > 0 && el("span.faint", null, `${unseen} of the chosen ${unseen === 1 ? "is" : "are"} hidden by the search `),
      el("a.button", { href: link("charts", { runs }) }, `Charts of ${many}`),
      chosen.length > 1 && el("a.button", { href: link("compare", { runs }) }, "Compare"),
      el("button.quiet", { onclick: () => { this.chosen.clear(); this._chose(); } }, "clear"),
    ]);
  }

  /** Put the visible rows into the page. */
  _window() {
    const high = this.pane.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.pane.scrollTop / HIGH) - 8);
    const last = Math.min(this.shown.length, first + Math.ceil(high / HIGH) + 16);
    const columns = FIXED.length + this.columns.length + 1;
    const gap = (/** @type {number} */ rows) => {
      const row = el("tr.gap", { "aria-hidden": true }, el("td", { colspan: columns }));
      row.firstChild.style.height = `${rows * HIGH}px`;
      return row;
    };
    const rows = this.shown.slice(first, last).map((row) => this._kept(row, columns));
    if (first > 0) rows.unshift(gap(first));
    if (last < this.shown.length) rows.push(gap(this.shown.length - last));
    if (!this.shown.length) {
      rows.push(el("tr", null, el("td.empty", { colspan: columns },
        this.rows.size ? "No run matches; clear the search to see all."
          : this.version ? `No runs under ${this.root}. Start one with chiplog.init, or try: chiplog demo`
            : "Looking for runs…")));
    }
    arrange(this.body, rows);
    const inside = new Set(rows);
    for (const [key, { made }] of this.built) if (!inside.has(made)) this.built.delete(key);
    this.table.setAttribute("aria-rowcount", String(this.shown.length));
  }

  /**
   * A row; the one that is in the page if it would look the same.
   * @param {{head: string, count: number}|Row} row
   * @param {number} columns
   */
  _kept(row, columns) {
    const key = "head" in row ? `group ${row.head}` : row.key;
    const made = this._row(row, columns);
    const content = made.outerHTML + ("head" in row ? "" : this.chosen.has(row.key));
    const before = this.built.get(key);
    if (before && before.content === content) return before.made;
    if (before && before.made.isConnected) replace(before.made, made);
    this.built.set(key, { made, content });
    return made;
  }

  /** @param {{head: string, count: number}|Row} row @param {number} columns */
  _row(row, columns) {
    if ("head" in row) {
      return el("tr.head", null,
        el("th", { colspan: columns, scope: "rowgroup" }, row.head, el("span.faint", null, ` ${row.count}`)));
    }
    const box = el("input", {
      type: "checkbox", checked: this.chosen.has(row.key), "aria-label": `choose ${row.name}`,
      onchange: () => { box.checked ? this.chosen.add(row.key) : this.chosen.delete(row.key); this._chose(); },
    });
    const ran = row.state === "running" && row.attempts === 1 && row.started ? Math.max(row.seconds, (Date.now() - row.started) / 1000) : row.seconds;
    return el("tr", { "data-key": row.key },
      el("td.tick", null, box),
      el("td.doing", null, state(row.state)),
      el("td.name", null, row.reason
        ? [row.name, el("span.faint", null, ` ${row.reason}`)]
        : el("a", { href: link(`run/${row.key}`), title: row.name === row.id ? row.id : `${row.name} · ${row.id}` }, row.name)),
      el("td.project", { title: row.project }, row.project),
      el("td.started", { title: date(row.started) }, ago(row.started)),
      el("td.seconds", null, row.reason ? "" : duration(ran), row.attempts > 1 && el("span.faint", { title: "attempts" }, ` ×${row.attempts}`)),
      el("td.step", null, count(row.step)),
      el("td.tags", null, row.tags.slice(0, 6).map((tag) => el("span.tag", null, tag))),
      this.columns.map((/** @type {string} */ one) => el("td.extra", { title: String(row.cells[one] ?? "") }, number(row.cells[one]))));
  }
}

/** @param {string} name */
export function state(name) {
  return el(`span.state.${/^[a-z]+$/.test(name) ? name : "odd"}`, null, el("i", { "aria-hidden": true }), name);
}

/** @param {Row} row @param {string} key */
function cell(row, key) {
  return key.startsWith("c:") || key.startsWith("v:") ? row.cells[key] : /** @type {any} */ (row)[key];
}

/**
 * A list of texts from the address, which anybody may have edited; null if it is not one.
 * @param {string|null} text
 * @returns {string[]|null}
 */
function listed(text) {
  try {
    const value = JSON.parse(text ?? "null");
    return Array.isArray(value) ? value.map(String) : null;
  } catch {
    return null;
  }
}
