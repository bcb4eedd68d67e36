// @ts-check
/** Paints a chart: with the same strokes on the screen, in a PNG and in an SVG. */

import { placer, ticks } from "./scale.js";

/**
 * @typedef {{colour: string, label: string, x: ArrayLike<number>, y: ArrayLike<number>, min?: ArrayLike<number>,
 *   max?: ArrayLike<number>, smooth?: {x: ArrayLike<number>, y: ArrayLike<number>}|null}} Line
 * @typedef {{x: number, colour: string, label: string, dashed?: boolean, flag?: number, concerns?: (name: string) => boolean}} Upright
 * @typedef {{title: string, width: number, height: number, x: import("./scale.js").Scale, y: import("./scale.js").Scale,
 *   lines: Line[], marks: {x: number, which: string, colour: string}[], uprights: Upright[], note?: string, empty?: string}} Picture
 * @typedef {{text: string, faint: string, grid: string, page: string, alarm: string}} Ink
 * @typedef {{line(x: number[], y: number[], colour: string, width: number, alpha: number, dashed?: boolean): void,
 *   area(x: number[], low: number[], high: number[], colour: string, alpha: number): void,
 *   text(words: string, x: number, y: number, colour: string, align: "left"|"center"|"right", size?: number): void,
 *   rect(x: number, y: number, w: number, h: number, colour: string): void,
 *   clip(x: number, y: number, w: number, h: number, inside: () => void): void}} Pen
 */

const FONT = "system-ui, sans-serif";

/**
 * The frame of a picture, in pixels.
 * @param {Picture} picture
 */
export function frame(picture) {
  return { left: 52, top: 8, right: picture.width - 10, bottom: picture.height - 20 };
}

/** @param {Pen} pen @param {Picture} picture @param {Ink} ink */
export function paint(pen, picture, ink) {
  const box = frame(picture);
  const across = placer(picture.x, box.left, box.right), up = placer(picture.y, box.bottom, box.top);
  if (!picture.lines.some((line) => line.x.length)) { // a frame without points has no numbers
    pen.text(picture.empty ?? "no points", (box.left + box.right) / 2, (box.top + box.bottom) / 2, ink.faint, "center", 13);
    return;
  }
  for (const [at, words] of ticks(picture.y, Math.max(2, (box.bottom - box.top) / 34))) {
    pen.line([box.left, box.right], [up(at), up(at)], ink.grid, 1, 1);
    pen.text(words, box.left - 6, up(at) + 3.5, ink.faint, "right");
  }
  let free = -Infinity;
  for (const [at, words] of ticks(picture.x, Math.max(2, (box.right - box.left) / 62))) {
    const x = across(at), half = words.length * 3;
    pen.line([x, x], [box.bottom, box.bottom + 3], ink.faint, 1, 1);
    if (x - half < free || x + half > picture.width) continue;
    pen.text(words, x, box.bottom + 15, ink.faint, "center");
    free = x + half + 8;
  }
  pen.line([box.left, box.right], [box.bottom, box.bottom], ink.faint, 1, 0.6);
  pen.clip(box.left, box.top - 2, box.right - box.left, box.bottom - box.top + 4, () => {
    for (const one of picture.uprights) {
      const x = across(one.x);
      pen.line([x, x], [box.top, box.bottom], one.colour, 1, one.flag === undefined ? 0.7 : 0.25, one.dashed);
      if (one.flag !== undefined) pen.rect(x - 3, box.top, 7, 7, one.colour);
    }
    for (const line of picture.lines) draw(pen, within(line, picture.x), across, up, picture.y.log);
  });
  for (const mark of picture.marks) {
    const x = across(mark.x);
    if (x < box.left - 1 || x > box.right + 1) continue;
    const y = mark.which === "inf" ? box.top - 2 : box.bottom - 4;
    pen.rect(x - 1.5, y, 3, 7, mark.which === "nan" ? ink.alarm : mark.colour);
  }
  if (picture.note) pen.text(picture.note, box.right, box.top + 9, ink.faint, "right");
}

/**
 * The visible part of a line, and a point beyond each end.
 * @param {Line} line
 * @param {import("./scale.js").Scale} x
 * @returns {Line}
 */
function within(line, x) {
  let from = 0, to = line.x.length;
  while (from < to && line.x[from] < x.low) from++;
  while (to > from && line.x[to - 1] > x.high) to--;
  [from, to] = [Math.max(0, from - 1), Math.min(line.x.length, to + 1)];
  if (to - from === line.x.length) return line;
  const cut = (/** @type {any} */ list) => list && list.slice(from, to);
  return { ...line, x: cut(line.x), y: cut(line.y), min: cut(line.min), max: cut(line.max) };
}

/** @param {Pen} pen @param {Line} line @param {(x: number) => number} across @param {(y: number) => number} up @param {boolean} log */
function draw(pen, line, across, up, log) {
  const shown = (/** @type {number} */ y) => isFinite(y) && (!log || y > 0);
  const soft = Boolean(line.smooth);
  if (line.min && line.max) {
    const { min, max } = line;
    for (const [from, to] of stretches(line.x.length, (at) => shown(min[at]) && shown(max[at]))) {
      const x = [], low = [], high = [];
      for (let at = from; at < to; at++) {
        x.push(across(line.x[at]));
        low.push(up(min[at]) + 0.5);
        high.push(up(max[at]) - 0.5);
      }
      pen.area(x, low, high, line.colour, soft ? 0.14 : 0.25);
    }
  }
  const stroke = (/** @type {ArrayLike<number>} */ x, /** @type {ArrayLike<number>} */ y, /** @type {number} */ width, /** @type {number} */ alpha) => {
    for (const [from, to] of stretches(x.length, (at) => shown(y[at]))) {
      const xs = [], ys = [];
      for (let at = from; at < to; at++) {
        xs.push(across(x[at]));
        ys.push(up(y[at]));
      }
      if (xs.length === 1) pen.rect(xs[0] - 2, ys[0] - 2, 4, 4, line.colour);
      else pen.line(xs, ys, line.colour, width, alpha);
    }
  };
  stroke(line.x, line.y, soft ? 1 : 1.5, soft ? 0.3 : 1);
  if (line.smooth) stroke(line.smooth.x, line.smooth.y, 2, 1);
}

/** @param {number} length @param {(at: number) => boolean} good @returns {Iterable<[number, number]>} */
function* stretches(length, good) {
  let from = -1;
  for (let at = 0; at <= length; at++) {
    const fine = at < length && good(at);
    if (fine && from < 0) from = at;
    if (!fine && from >= 0) {
      yield [from, at];
      from = -1;
    }
  }
}

/** @implements {Pen} */
export class CanvasPen {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.to = context;
    context.lineJoin = "bevel";
  }
  /** @type {Pen["line"]} */
  line(x, y, colour, width, alpha, dashed) {
    const to = this.to;
    to.globalAlpha = alpha;
    to.strokeStyle = colour;
    to.lineWidth = width;
    to.setLineDash(dashed ? [4, 3] : []);
    to.beginPath();
    to.moveTo(x[0], y[0]);
    for (let at = 1; at < x.length; at++) to.lineTo(x[at], y[at]);
    to.stroke();
    to.globalAlpha = 1;
  }
  /** @type {Pen["area"]} */
  area(x, low, high, colour, alpha) {
    const to = this.to;
    to.globalAlpha = alpha;
    to.fillStyle = colour;
    to.beginPath();
    to.moveTo(x[0], high[0]);
    for (let at = 1; at < x.length; at++) to.lineTo(x[at], high[at]);
    for (let at = x.length - 1; at >= 0; at--) to.lineTo(x[at], low[at]);
    to.fill();
    to.globalAlpha = 1;
  }
  /** @type {Pen["text"]} */
  text(words, x, y, colour, align, size = 11) {
    this.to.font = `${size}px ${FONT}`;
    this.to.fillStyle = colour;
    this.to.textAlign = align;
    this.to.fillText(words, x, y);
  }
  /** @type {Pen["rect"]} */
  rect(x, y, w, h, colour) {
    this.to.fillStyle = colour;
    this.to.fillRect(x, y, w, h);
  }
  /** @type {Pen["clip"]} */
  clip(x, y, w, h, inside) {
    this.to.save();
    this.to.beginPath();
    this.to.rect(x, y, w, h);
    this.to.clip();
    inside();
    this.to.restore();
  }
}

/** @implements {Pen} */
export class SvgPen {
  constructor() {
    /** @type {string[]} */
    this.parts = [];
  }
  /** @type {Pen["line"]} */
  line(x, y, colour, width, alpha, dashed) {
    const points = x.map((one, at) => `${one.toFixed(1)},${y[at].toFixed(1)}`).join(" ");
    const dashes = dashed ? ' stroke-dasharray="4 3"' : "";
    this.parts.push(`<polyline points="${points}" fill="none" stroke="${safe(colour)}" stroke-width="${width}"`
      + ` opacity="${alpha}"${dashes}/>`);
  }
  /** @type {Pen["area"]} */
  area(x, low, high, colour, alpha) {
    const over = x.map((one, at) => `${one.toFixed(1)},${high[at].toFixed(1)}`);
    const back = x.map((one, at) => `${one.toFixed(1)},${low[at].toFixed(1)}`).reverse();
    this.parts.push(`<polygon points="${[...over, ...back].join(" ")}" fill="${safe(colour)}" opacity="${alpha}"/>`);
  }
  /** @type {Pen["text"]} */
  text(words, x, y, colour, align, size = 11) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    this.parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${safe(colour)}" font-size="${size}"`
      + ` text-anchor="${anchor}">${safe(words)}</text>`);
  }
  /** @type {Pen["rect"]} */
  rect(x, y, w, h, colour) {
    this.parts.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w}" height="${h}" fill="${safe(colour)}"/>`);
  }
  /** @type {Pen["clip"]} */
  clip(x, y, w, h, inside) {
    const id = `c${this.parts.length}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${w}" height="${h}"/></clipPath><g clip-path="url(#${id})">`);
    inside();
    this.parts.push("</g>");
  }
  /** @param {number} width @param {number} height @param {string} page */
  whole(width, height, page) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}">`
      + `<rect width="${width}" height="${height}" fill="${safe(page)}"/>${this.parts.join("")}</svg>`;
  }
}

/** @param {string} words */
function safe(words) {
  return words.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}

/**
 * The colours of the page as it is now.
 * @returns {Ink}
 */
export function ink() {
  const style = getComputedStyle(document.documentElement);
  const of = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { text: of("--text"), faint: of("--faint"), grid: of("--grid"), page: of("--card"), alarm: of("--bad") };
}

const LIGHT = ["#1f6feb", "#d1570c", "#1a8a4a", "#b0307e", "#7a52c7", "#8a6d00", "#0f8b8d", "#c4302b", "#5b6b7b", "#3b3bd0"];
const DARK = ["#58a6ff", "#f0883e", "#3fb950", "#f778ba", "#bc8cff", "#d4b106", "#39c5cf", "#ff7b72", "#9fb0c0", "#8f97ff"];

/**
 * The colour of a run by its place among those shown.
 * @param {number} at
 */
export function colour(at) {
  const dark = document.documentElement.dataset.theme === "dark";
  return (dark ? DARK : LIGHT)[at % LIGHT.length];
}
