// @ts-check
/** The tabs of a run that are words: overview, files, sinks. */

import { fileAddress, get, isExported } from "./api.js";
import { el, fill, patch, replace, table } from "./dom.js";
import { count, date, duration, number, size } from "./format.js";
import { markdown } from "./markdown.js";
import { state } from "./runs.js";

/**
 * @typedef {import("./run.js").About} About
 * @typedef {import("./run.js").Pane} Pane
 */

/** @param {About} about @returns {Pane} */
export function overview(about) {
  const figures = el("div", null), facts = el("div.cards", null), spent = el("div.cards", null);
  const update = (/** @type {About} */ newer) => {
    patch(figures, el("div", null, highlights(newer)));
    patch(facts, cards(newer));
    goodput(newer).then((made) => patch(spent, made)).catch(() => {});
  };
  update(about);
  return { element: el("div", null, figures, spent, facts), update };
}

/**
 * The last values that matter most, in large.
 * @param {About} about
 */
function highlights(about) {
  const heads = Object.entries(about.values ?? {}).filter(([name]) => /(^|\/)(loss|mfu|goodput|tokens_per_sec|grad_norm|lr)$/.test(name));
  return heads.length > 0 && el("div.figures", null, heads.slice(0, 8).map(([name, value]) =>
    el("div.figure", null, el("b", null, number(value)), el("span.faint", { title: name }, name))));
}

/** @param {About} about */
function cards(about) {
  const environment = about.environment ?? {};
  const git = environment.git ?? {};
  const facts = /** @type {[string, any][]} */ ([
    ["id", about.id], ["project", about.project], ["created", date(about.created)],
    ["command", Array.isArray(environment.command) ? environment.command.join(" ") : environment.command],
    ["host", environment.host], ["python", environment.python], ["platform", environment.platform], ["device", environment.device],
    ["git", [git.commit, git.branch, git.dirty ? "with changes" : ""].filter(Boolean).join(" · ")],
  ]).filter(([, value]) => value);
  return el("div.cards", null,
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
async function goodput(about) {
  const answer = await get("goodput", { run: about.key });
  return el("div.cards", null,
    answer.wall > 0 && card(`Goodput: ${(answer.share * 100).toFixed(1)}% of ${duration(answer.wall)} went into productive steps`,
      bars(Object.entries(answer.seconds).map(([kind, spent]) => [kind, spent, duration(spent)]))),
    answer.step.length > 0 && card("A recent step: what the hardware needs vs. what it took",
      bars(answer.step.map((/** @type {any} */ part) => [`${part.name} (${part.source})`, part.seconds, duration(part.seconds)]))));
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

/** @param {About} about @returns {Pane} */
export function files(about) {
  const shown = el("div", null);
  const show = (/** @type {any} */ file) => async () => {
    const answer = await fetch(fileAddress(about.key, file.key));
    const text = answer.ok ? (await answer.text()).slice(0, 400000) : `${file.name} could not be read`;
    fill(shown, el("h2", null, file.name), /\.md$/.test(file.path) ? markdown(text) : el("pre.file", null, text));
    shown.scrollIntoView({ behavior: "smooth" });
  };
  const readable = (/** @type {any} */ file) => /\.(md|txt|log|json|csv|yaml|yml|toml|py)$/.test(file.path) && file.size < 2e6;
  const rows = (/** @type {About} */ newer) => table(["name", "file", "kind", "size", "step", ""], newer.files.slice(0, 2000).map((/** @type {any} */ file) => [
    file.name, file.path, file.media, size(file.size), count(file.step),
    isExported ? "" : el("span", null, readable(file) && el("button.quiet", { onclick: show(file) }, "show"), " ",
      el("a", { href: fileAddress(newer.key, file.key), download: true }, "download"))]),
  { right: [3, 4], label: "files" });
  let listed = rows(about), pictures = gallery(about);
  return {
    element: el("div", null, listed, shown, pictures),
    update(newer) {
      const made = rows(newer);
      replace(listed, made);
      listed = made;
      patch(pictures, gallery(newer));
    },
  };
}

/** @param {About} about */
function gallery(about) {
  const pictures = about.files.filter((/** @type {any} */ file) => /^image\/(png|jpeg|gif|webp)$/.test(file.media)).slice(-60);
  return el("div.gallery", { hidden: isExported || !pictures.length }, !isExported && pictures.map((/** @type {any} */ file) => el("figure", null,
    el("img", { src: fileAddress(about.key, file.key), alt: file.caption || file.name, loading: "lazy" }),
    el("figcaption", null, file.caption || file.name, file.step !== null && el("span.faint", null, ` step ${count(file.step)}`)))));
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
export function pairs(facts) {
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
