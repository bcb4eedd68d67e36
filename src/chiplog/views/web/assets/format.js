// @ts-check
/** Numbers as people read them. */

const SUFFIXES = /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]);

/**
 * A value in about four digits: 2.346, 16.38k, 3e-5; anything but a number as it is.
 * @param {any} value
 */
export function number(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  const size = Math.abs(value);
  if (!isFinite(value)) return isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (size === 0) return "0";
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
  if (size < 1e4) return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  const [unit, suffix] = SUFFIXES.find(([one]) => size >= one) ?? [1, ""];
  return Number((value / unit).toPrecision(4)) + suffix;
}

/**
 * All digits of a value, for a table that is compared.
 * @param {any} value
 */
export function precise(value) {
  return typeof value === "number" && isFinite(value) ? String(Number(value.toPrecision(7))) : number(value);
}

/**
 * A count in groups of three digits. The browser's own way loads its tables of languages first: 40 ms.
 * @param {number|null} value
 */
export function count(value) {
  if (value === null || value === undefined) return "";
  return Number.isSafeInteger(value) ? String(value).replace(/\B(?=(\d{3})+$)/g, ",") : String(value);
}

/** @param {number} seconds */
export function duration(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds > 0 && seconds < 1e-3) return `${Number((seconds * 1e6).toPrecision(3))}µs`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d${two(Math.floor(whole / 3600) % 24)}h`;
}

/** @param {number} milliseconds  since the epoch */
export function ago(milliseconds) {
  if (!milliseconds) return "";
  const seconds = (Date.now() - milliseconds) / 1000;
  for (const [unit, name] of /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "m"]])) {
    if (seconds >= unit) return `${Math.floor(seconds / unit)}${name} ago`;
  }
  return `${Math.max(0, Math.floor(seconds))}s ago`;
}

/** @param {number|null} milliseconds */
export function date(milliseconds) {
  if (!milliseconds) return "";
  const when = new Date(milliseconds);
  if (isNaN(when.getTime())) return "";
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = [when.getFullYear(), two(when.getMonth() + 1), two(when.getDate())].join("-");
  return `${day} ${[when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":")}`;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at++; }
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}
