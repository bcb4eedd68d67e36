// @ts-check
/** The alerts of a run: a tab, and which charts each of them concerns. */

import { el } from "./dom.js";
import { pairs, leaves } from "./facts.js";
import { count, date, number } from "./format.js";
import { here, link } from "./route.js";

/**
 * @typedef {import("./run.js").About} About
 * @typedef {{title: string, level: string, text: string, rule: string, step: number|null, time: number, evidence: any, at: number}} Alert
 */

const LEVELS = ["error", "warn", "info"];

/**
 * The alerts, folded by what they are about: errors first, then the newest.
 * @param {About} about
 */
export function alerts(about) {
  if (!about.alerts.length) {
    return el("p.empty", null,
      "No alerts: losses and gradient norms stayed finite and in range, and none of your rules fired.");
  }
  const linked = Number(here().params.get("at") ?? -1);
  /** @type {Map<string, Alert[]>} */
  const folded = new Map();
  for (const [at, one] of about.alerts.entries()) {
    const level = LEVELS.includes(one.level) ? one.level : "warn";
    const subject = one.rule ? [one.rule, one.evidence?.name ?? one.evidence?.id] : [one.title];
    const key = JSON.stringify([level, ...subject]);
    folded.set(key, [...(folded.get(key) ?? []), { ...one, level, at }]);
  }
  const sorted = [...folded.values()].sort(([one], [other]) => LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level)
    || Number(other.time) - Number(one.time));
  const made = el("div", null,
    about.alert_count > about.alerts.length && el("p.faint", null, `the newest ${about.alerts.length} of ${about.alert_count}`),
    sorted.map((many) => fold(about, many, linked)));
  setTimeout(() => made.querySelector(".here")?.scrollIntoView({ block: "center" }), 50);
  return made;
}

/**
 * Alerts about one thing: the newest, or the one that was asked for, and a list of the others.
 * @param {About} about
 * @param {Alert[]} many  by time
 * @param {number} linked
 */
function fold(about, many, linked) {
  const asked = many.find((one) => one.at === linked);
  const one = asked ?? many[many.length - 1];
  const steps = many.flatMap((each) => each.step ?? []);
  const { past, name: _, step: __, ...evidence } = one.evidence ?? {};
  return el(`article.alert.${one.level}${asked ? ".here" : ""}`, null,
    el("header", null, el("b", null, one.title), many.length > 1 && el("span.tag", null, `${many.length} times`), el("span.grow", null),
      step(about, one), el("span.faint", null, date(one.time))),
    one.text && el("p", null, one.text),
    sparkline(past, evidence.value, evidence.limit ?? evidence.usual),
    Object.keys(evidence).length > 0 && pairs(leaves(evidence).map(([key, value]) => [key, typeof value === "number" ? number(value) : value])),
    one.rule && el("p.faint", null, `rule: ${one.rule}`),
    many.length > 1 && el("details", null,
      el("summary", null, steps.length ? `All ${many.length}, steps ${count(Math.min(...steps))} to ${count(Math.max(...steps))}` : `All ${many.length}`),
      el("ul.plain", null, [...many].reverse().map((each) => el("li", null, step(about, each), ` ${each.title} `, el("span.faint", null, date(each.time)))))));
}

/**
 * A link to the charts around an alert.
 * @param {About} about
 * @param {Alert} one
 */
function step(about, one) {
  const tab = gpuOf(one) === null ? "charts" : "system";
  return one.step !== null && el("a", { href: link(`run/${about.key}/${tab}`, around(one.step)) }, `step ${count(one.step)}`);
}

/**
 * The values before an alert, the one that raised it, and the limit as a dashed line.
 * @param {any} past
 * @param {any} value
 * @param {any} limit
 */
function sparkline(past, value, limit) {
  const values = [...(Array.isArray(past) ? past : []), value].filter((one) => typeof one === "number");
  if (values.length < 3) return null;
  const all = typeof limit === "number" ? [...values, limit] : values;
  const low = Math.min(...all), high = Math.max(...all), wide = 240, tall = 40;
  const y = (/** @type {number} */ one) => (tall - 3 - (one - low) / (high - low || 1) * (tall - 6)).toFixed(1);
  const svg = (/** @type {string} */ tag, /** @type {Record<string, any>} */ props) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, one] of Object.entries(props)) made.setAttribute(key, String(one));
    return made;
  };
  const x = (/** @type {number} */ at) => (3 + at / (values.length - 1) * (wide - 6)).toFixed(1);
  const last = values.length - 1;
  const picture = svg("svg", { class: "spark", width: wide, height: tall, role: "img",
    "aria-label": `the last ${values.length} values, from ${number(values[0])} to ${number(values[last])}` });
  if (typeof limit === "number") picture.append(svg("line", { class: "limit", x1: 0, x2: wide, y1: y(limit), y2: y(limit) }));
  picture.append(svg("polyline", { points: values.map((one, at) => `${x(at)},${y(one)}`).join(" ") }), svg("circle", { cx: x(last), cy: y(values[last]), r: 3 }));
  return picture;
}

/** @param {number} step */
function around(step) {
  const room = Math.max(20, Math.abs(step) * 0.05);
  return { low: step - room, high: step + room };
}

/**
 * Whether an alert is about a series; one that names nothing is about all.
 * @param {{rule?: string, evidence?: any}} alert
 * @param {string} series
 */
export function concerns(alert, series) {
  const name = alert.evidence?.name, gpu = gpuOf(alert);
  return gpu !== null ? series.startsWith(`gpu/${gpu}/`) : typeof name !== "string" || name === series;
}

/** @param {{rule?: string, evidence?: any}} alert */
function gpuOf(alert) {
  return alert.rule === "throttled" ? alert.evidence?.id ?? 0 : null;
}
