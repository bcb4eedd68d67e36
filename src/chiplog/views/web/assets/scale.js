// @ts-check
/** Scales: from values to pixels and back, and their ticks. */

import { count, date, duration, number } from "./format.js";

/** @typedef {{low: number, high: number, log: boolean, kind?: string}} Scale */

/**
 * A function from values to pixels; computed in halves, so that no sum overflows a double.
 * @param {Scale} scale
 * @param {number} from
 * @param {number} to
 * @returns {(value: number) => number}
 */
export function placer(scale, from, to) {
  const low = (scale.log ? Math.log10(scale.low) : scale.low) / 2, high = (scale.log ? Math.log10(scale.high) : scale.high) / 2;
  const wide = high - low, by = to - from;
  return scale.log ? (value) => from + (Math.log10(value) / 2 - low) / wide * by : (value) => from + (value / 2 - low) / wide * by;
}

/** @param {Scale} scale @param {number} value @param {number} from @param {number} to */
export function place(scale, value, from, to) {
  return placer(scale, from, to)(value);
}

/**
 * The value at a pixel: the inverse of `place`.
 * @param {Scale} scale
 * @param {number} pixel
 * @param {number} from
 * @param {number} to
 */
export function value(scale, pixel, from, to) {
  const share = (pixel - from) / (to - from);
  if (scale.log) return 10 ** (Math.log10(scale.low) + share * (Math.log10(scale.high) - Math.log10(scale.low)));
  return scale.low + share * (scale.high - scale.low);
}

/** Room around values that are all the same, or none.
 * @param {number} low @param {number} high @param {boolean} log @param {string} [kind]
 * @returns {Scale} */
export function scale(low, high, log, kind) {
  if (!(low <= high)) [low, high] = log ? [1, 10] : [0, 1];
  if (log && low <= 0) [low, high] = [1e-3, Math.max(high, 1)];
  if (high - low <= Math.abs(high) * 1e-12) {
    const room = log ? 0 : Math.abs(low) * 0.1 || 1;
    [low, high] = log ? [low / 1.5, high * 1.5] : [low - room, high + room];
  }
  return { low, high, log, kind };
}

/** @param {Scale} scale @param {number} most @returns {[number, string][]} */
export function ticks(scale, most) {
  if (scale.kind === "time") return times(scale, most);
  if (scale.log) return logarithmic(scale, most);
  const step = tidy((scale.high - scale.low) / Math.max(1, most), scale.kind === "relative");
  /** @type {[number, string][]} */
  const marks = [];
  for (let at = Math.ceil(scale.low / step - 1e-9); at * step <= scale.high + step * 1e-9 && marks.length < 50; at++) {
    marks.push([at * step, scale.kind === "relative" ? duration(at * step) || "0" : named(label(at * step, step), scale)]);
  }
  return marks;
}

/**
 * A billion tokens is 1B, not 1G.
 * @param {string} words
 * @param {Scale} scale
 */
function named(words, scale) {
  return scale.kind === "tokens" ? words.replace("G", "B") : words;
}

/** @param {number} value @param {string} [kind] */
export function name(value, kind) {
  if (kind === "time") return date(value * 1000);
  if (kind === "relative") return duration(value);
  return Number.isInteger(value) ? count(value) : number(value);
}

/** @param {number} value @param {number} step */
function label(value, step) {
  if (Math.abs(value) < step / 2) return "0";
  const size = Math.abs(value);
  for (const [unit, suffix] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])) {
    if (size >= unit && size < 1e15) {
      const by = unit === 1e4 ? 1e3 : unit;
      return (value / by).toFixed(digits(step / by)) + suffix;
    }
  }
  return size >= 1e15 || step < 1e-5 ? value.toExponential(1) : value.toFixed(digits(step));
}

/** @param {number} step */
function digits(step) {
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const round = /^[125]/.test(step.toExponential()) && !/\.5/.test(step.toExponential(1));
  return Math.min(8, step.toPrecision(1) === String(step) || round ? places : places + 1);
}

/** @param {number} least @param {boolean} clock */
function tidy(least, clock) {
  if (clock && least > 1) {
    for (const one of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]) {
      if (one >= least) return one;
    }
  }
  const ten = 10 ** Math.floor(Math.log10(least));
  for (const one of [1, 2, 5, 10]) if (one * ten >= least * 0.9) return one * ten;
  return 10 * ten;
}

/** @param {Scale} scale @param {number} most @returns {[number, string][]} */
function logarithmic(scale, most) {
  const first = Math.floor(Math.log10(scale.low)), last = Math.ceil(Math.log10(scale.high));
  const apart = Math.max(1, Math.ceil((last - first) / Math.max(1, most)));
  /** @type {[number, string][]} */
  const marks = [];
  for (const each of last - first <= 2 ? [1, 2, 5] : [1]) {
    for (let power = first; power <= last; power += apart) {
      const at = each * 10 ** power;
      if (at >= scale.low && at <= scale.high) marks.push([at, number(at)]);
    }
  }
  return marks.length >= 2 ? marks : ticks({ ...scale, log: false }, most).filter(([at]) => at > 0);
}

/** @param {Scale} scale @param {number} most @returns {[number, string][]} */
function times(scale, most) {
  const step = tidy(Math.max(1, (scale.high - scale.low) / Math.max(1, most)), true);
  const off = new Date(scale.low * 1000).getTimezoneOffset() * 60;
  /** @type {[number, string][]} */
  const marks = [];
  for (let at = Math.ceil((scale.low - off) / step) * step + off; at <= scale.high && marks.length < 50; at += step) {
    const words = date(at * 1000);
    marks.push([at, step >= 86400 ? words.slice(5, 10) : step >= 60 ? words.slice(11, 16) : words.slice(11, 19)]);
  }
  return marks;
}
