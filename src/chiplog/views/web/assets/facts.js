// @ts-check
/** The tabs of a run that are words: overview, alerts, files, sinks. */

import { fileAddress, get, isExported } from "./api.js";
import { el, fill, table } from "./dom.js";
import { count, date, duration, number, size } from "./format.js";
import { markdown } from "./markdown.js";
import { link, here } from "./route.js";
import { state } from "./runs.js";

/** @typedef {Record<string, any>} About */

/** @param {About} about */
export function overview(about) {
  const environment = about.environment ?? {};
  const git = environment.git ?? {};
  const facts = /** @type {[string, any][]} */ ([
    ["id", about.id], ["project", about.project], ["created", date(about.created)],
    ["command", Array.isArray(environment.command) ? environment.command.join(" ") : environment.command],
    ["host", environment.host], ["python", environment.python], ["platform", environment.platform], ["device", environment.device],
    ["git", [git.commit, git.branch, git.dirty ? "with changes" : ""].filter(Boolean).join(" · ")],
  ]).filter(([, value]) => value);
  const heads = Object.entries(about.values ?? {}).filter(([name]) => /(^|\/)(loss|mfu|goodput|tokens_per_sec|grad_norm|lr)$/.test(name));
  return el("div.cards", null,
    heads.length > 0 && el("div.figures", null, heads.slice(0, 8).map(([name, value]) =>
      el("div.figure", null, el("b", null, number(value)), el("span.faint", { title: name }, name)))),
    goodput(about),
    card("Run", pairs(facts)),
    leaves(about.summary).length > 0 && card("Summary", pairs(leaves(about.summary))),
    (about.histograms ?? []).length > 0 && card("Histograms", histograms(about.histograms)),
    card(`Config (${leaves(about.config).length})`, pairs(leaves(about.config))),
    card("Attempts", attempts(about)),
    environment.packages && card("Packages", pairs(Object.entries(environment.packages))),
    environment.variables && Object.keys(environment.variables).length > 0 && card("Variables", pairs(Object.entries(environment.variables))),
    about.damage_count > 0 && card("What cannot be read",
      el("ul.plain", null, about.damage.map((/** @type {string} */ one) => el("li", null, one))),
      about.damage_count > about.damage.length && el("p.faint", null, `and ${about.damage_count - about.damage.length} more`)));
}

/** @param {About} about */
function goodput(about) {
  const out = el("div", null);
  get("goodput", { run: about.key }).then((answer) => fill(out,
    answer.wall > 0 && card(`Goodput: ${(answer.share * 100).toFixed(1)}% of ${duration(answer.wall)} went into productive steps`,
      bars(Object.entries(answer.seconds).map(([kind, spent]) => [kind, spent, duration(spent)]))),
    answer.step.length > 0 && card("A recent step: what the hardware needs vs. what it took",
      bars(answer.step.map((/** @type {any} */ part) => [`${part.name} (${part.source})`, part.seconds, duration(part.seconds)]))))).catch(() => {});
  return out;
}

/** @param {[string, number, string][]} rows */
function bars(rows) {
  const most = Math.max(...rows.map(([, value]) => value), 1e-12);
  return el("div.bars", null, rows.map(([name, value, words]) => {
    const bar = el("i", null);
    bar.style.width = `${value / most * 100}%`;
    return el("div", null, el("span", { title: name }, name), el("span.track", null, bar), el("b", null, words));
  }));
}

/**
 * The newest histogram of each name, with a bar per bin.
 * @param {any[]} all
 */
function histograms(all) {
  return table(["name", "step", "count", "mean", "min", "max", ""], all.map((one) => {
    const most = Math.max(...one.counts, 1e-12);
    const picture = el("span.histogram", { title: `${number(one.edges[0])} to ${number(one.edges[one.edges.length - 1])}` },
      one.counts.map((/** @type {number} */ count) => {
        const bar = el("i", null);
        bar.style.height = `${count / most * 100}%`;
        return bar;
      }));
    return [one.name, count(one.step), count(one.total), number(one.mean), number(one.min), number(one.max), picture];
  }), { right: [1, 2, 3, 4, 5], label: "histograms" });
}

/** @param {About} about */
function attempts(about) {
  return table(["#", "rank", "state", "started", "ran", "host", "pid", "first step", "notes"],
    about.attempts.map((/** @type {any} */ one) => [one.attempt, one.rank, state(one.state), date(one.start),
      one.start && one.end ? duration((one.end - one.start) / 1000) : "", one.host, one.pid, count(one.first_step),
      [one.reason, one.workers ? `with ${one.workers} worker${one.workers > 1 ? "s" : ""}` : "", one.missing ? `${one.missing} records were lost` : ""].filter(Boolean).join("; ")]), { right: [0, 1, 6, 7], label: "attempts" });
}

/** @param {About} about */
export function alerts(about) {
  if (!about.alerts.length) {
    return el("p.empty", null,
      "No alerts: losses and gradient norms stayed finite and in range, and none of your rules fired.");
  }
  const linked = Number(here().params.get("at") ?? -1);
  const cards = about.alerts.map((/** @type {any} */ one, /** @type {number} */ at) => {
    const level = /^(info|warn|error)$/.test(one.level) ? one.level : "warn";
    return el(`article.alert.${level}${at === linked ? ".here" : ""}`, { id: `alert-${at}` },
      el("header", null, el("b", null, one.title), el("span.grow", null),
        one.step !== null && el("a", { href: link(`run/${about.key}/charts`, around(one.step)) }, `step ${count(one.step)}`),
        el("span.faint", null, date(one.time))),
      one.text && el("p", null, one.text),
      Object.keys(one.evidence ?? {}).length > 0 && pairs(leaves(one.evidence)),
      one.rule && el("p.faint", null, `rule: ${one.rule}`));
  });
  if (linked >= 0 && cards[linked]) setTimeout(() => cards[linked].scrollIntoView({ block: "center" }), 50);
  return el("div.cards", null,
    about.alert_count > about.alerts.length
      && el("p.faint", null, `the newest ${about.alerts.length} of ${about.alert_count}`),
    linked >= 0 ? cards : cards.reverse());
}

/** @param {number} step */
function around(step) {
  const room = Math.max(20, Math.abs(step) * 0.05);
  return { low: step - room, high: step + room };
}

/** @param {About} about */
export function files(about) {
  const shown = el("div", null);
  const show = (/** @type {any} */ file) => async () => {
    const answer = await fetch(fileAddress(about.key, file.key));
    const text = answer.ok ? (await answer.text()).slice(0, 400000) : `${file.name} could not be read`;
    fill(shown, el("h2", null, file.name), /\.md$/.test(file.path) ? markdown(text) : el("pre.file", null, text));
    shown.scrollIntoView({ behavior: "smooth" });
  };
  const readable = (/** @type {any} */ file) => /\.(md|txt|log|json|csv|yaml|yml|toml|py)$/.test(file.path) && file.size < 2e6;
  const pictures = about.files.filter((/** @type {any} */ file) => /^image\/(png|jpeg|gif|webp)$/.test(file.media)).slice(-60);
  return el("div", null,
    table(["name", "file", "kind", "size", "step", ""], about.files.slice(0, 2000).map((/** @type {any} */ file) => [
      file.name, file.path, file.media, size(file.size), count(file.step),
      isExported ? "" : el("span", null, readable(file) && el("button.quiet", { onclick: show(file) }, "show"), " ",
        el("a", { href: fileAddress(about.key, file.key), download: true }, "download"))]),
    { right: [3, 4], label: "files" }),
    shown,
    pictures.length > 0 && !isExported && el("div.gallery", null, pictures.map((/** @type {any} */ file) => el("figure", null,
      el("img", { src: fileAddress(about.key, file.key), alt: file.caption || file.name, loading: "lazy" }),
      el("figcaption", null, file.caption || file.name, file.step !== null && el("span.faint", null, ` step ${count(file.step)}`))))));
}

/** @param {About} about */
export function sinks(about) {
  return table(["sink", "how far", "trouble"], about.sinks.map((/** @type {any} */ one) => [
    one.name, one.trouble ? "unknown" : one.lag ? `${size(one.lag)} of journal behind` : "up to date", one.trouble]), { label: "sinks" });
}

/** @param {string} title @param {...any} content */
function card(title, ...content) {
  return el("section.card", null, el("h2", null, title), content);
}

/** @param {[string, any][]} facts */
function pairs(facts) {
  if (!facts.length) return el("p.faint", null, "nothing");
  return el("dl.pairs", null, facts.map(([key, value]) => [
    el("dt", { title: key }, key),
    el("dd", null, typeof value === "object" && value !== null ? JSON.stringify(value) : String(value))]));
}

/**
 * Nested settings as pairs: `model.dim`.
 * @param {any} value
 * @param {string} [prefix]
 * @returns {[string, any][]}
 */
export function leaves(value, prefix = "") {
  const nested = value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;
  if (!nested || prefix.length > 2000) return prefix ? [[prefix, value]] : [];
  return Object.keys(value).flatMap((key) => leaves(value[key], prefix ? `${prefix}.${key}` : key));
}
