// @ts-check
/** One chart on the page: its lines, live points, and what the pointer and the keys do. */

import { el, fill } from "./dom.js";
import { number } from "./format.js";
import { CanvasPen, frame, ink, paint } from "./paint.js";
import { saveMenu } from "./save.js";
import { name as nameOf, place, scale, value } from "./scale.js";

/**
 * @typedef {import("./api.js").Curve} Curve
 * @typedef {{run: string, name: string, rank?: number, label: string, colour: string, unit?: string, per?: number}} Wanted
 * @typedef {{kind: string, log: boolean, logY: boolean, smooth: number, clip: boolean, flags: boolean, low: number|null, high: number|null,
 *   hidden: Set<string>, started: Map<string, number>, uprights: Map<string, import("./paint.js").Upright[]>}} Look
 */

const HEIGHT = 230;
const TAIL = 1200; // live points after which a line is fetched again
const NEAR = 6; // pixels beyond the end of a line, within which the pointer still shows its last value

export class Chart {
  /**
   * @param {string} title
   * @param {Wanted[]} wanted
   * @param {Look} look  shared by all charts of a page
   * @param {{zoom(low: number|null, high: number|null): void, hover(x: number|null, from: Chart): void, pin?(name: string): void,
   *   refresh(chart: Chart): void, pinned?: boolean, alert?(at: number): void}} actions
   */
  constructor(title, wanted, look, actions) {
    this.title = title;
    this.wanted = wanted;
    this.look = look;
    this.actions = actions;
    /** @type {(Curve & {tailX: number[], tailY: number[]})[]|null} */
    this.curves = null;
    this.visible = false;
    this.loading = false;
    this.asked = -Infinity;
    /** @type {[string, [number, number|null, Record<string, any>][]][]} */
    this.waiting = [];
    this.words = "";
    this.takes = 0; // how often its curves were fetched
    /** @type {[number, boolean]|null} */
    this.pointed = null; // where the pointer is, and whether on this chart
    this._frame = 0;
    this._build();
  }

  _build() {
    this.canvas = el("canvas", { role: "img", "aria-label": `chart of ${this.title}` });
    this.hair = el("div.hair", { hidden: true });
    this.tip = el("div.tip", { hidden: true });
    this.box = el("div.box", null);
    this.note = el("span.faint", null);
    this.plot = el("div.plot", {
      tabindex: 0, "aria-label": `${this.title}: drag to zoom, double click for all`,
      onpointerdown: (/** @type {PointerEvent} */ event) => this._press(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this._move(event),
      onpointerleave: () => this.actions.hover(null, this),
      ondblclick: () => this.actions.zoom(null, null),
      onclick: (/** @type {MouseEvent} */ event) => this._click(event),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this._key(event),
    }, this.canvas, this.hair, this.box, this.tip);
    this.element = el("article.chart", { "data-name": this.title },
      el("header", null,
        el("h3", { title: this.title }, this.title, Boolean(this.wanted[0]?.unit) && el("span.faint", null, ` ${this.wanted[0].unit}`)),
        this.note,
        this.actions.pin && el("button.quiet", {
          title: this.actions.pinned ? "Unpin" : "Pin to the top", "aria-pressed": Boolean(this.actions.pinned), "aria-label": `pin ${this.title}`,
          onclick: () => this.actions.pin?.(this.title),
        }, this.actions.pinned ? "★" : "☆"),
        saveMenu(this)),
      this.plot);
  }

  /** @param {Curve[]} curves */
  setCurves(curves) {
    this.curves = curves.map((curve, at) => ({ ...readable(curve, this.wanted[at]?.per ?? 1), tailX: [], tailY: [] }));
    this.loading = false;
    this.takes++;
    this.asked = performance.now();
    this.words = "";
    const waiting = this.waiting;
    this.waiting = [];
    for (const [run, rows] of waiting) this.addRows(run, rows);
    this.redraw();
  }

  /** @param {string} words */
  fail(words) {
    this.loading = false;
    this.asked = performance.now();
    this.words = words;
    this.redraw();
  }

  /**
   * Add rows that a run has just written. Points that are already there are recognized by their time.
   * @param {string} run
   * @param {[number, number|null, Record<string, any>][]} rows
   */
  addRows(run, rows) {
    if (this.loading) {
      if (this.waiting.length < 200) this.waiting.push([run, rows]);
      return;
    }
    if (!this.curves) return;
    let much = false, drawn = false;
    for (const [at, curve] of this.curves.entries()) {
      if (curve.run !== run || !curve.until || curve.rank >= 0) continue;
      for (const [time, step, points] of rows) {
        if (time <= curve.until || !Object.hasOwn(points, curve.name)) continue;
        const x = this._xOf(run, time, step);
        if (x === null) {
          much = true;
          continue;
        }
        curve.tailX.push(x);
        curve.tailY.push(toNumber(points[curve.name]) / (this.wanted[at]?.per ?? 1));
        curve.until = time;
        curve.total++;
        drawn = true;
      }
      much ||= this.look.smooth > 0 || curve.tailX.length > TAIL || (curve.mode === "buckets" && curve.tailX.length > TAIL / 4);
      if (curve.tailX.length > 4 * TAIL) { // the tab is in the background and does not fetch
        curve.tailX.splice(0, TAIL);
        curve.tailY.splice(0, TAIL);
      }
    }
    if (much && this.visible && performance.now() - this.asked > 4000) this.actions.refresh(this);
    if (drawn) this.redraw();
  }

  /** @param {string} run @param {number} time @param {number|null} step */
  _xOf(run, time, step) {
    if (this.look.kind === "step") return step;
    if (this.look.kind === "time") return time / 1e6;
    if (this.look.kind === "relative") return time / 1e6 - (this.look.started.get(run) ?? 0) / 1e3;
    return null;
  }

  redraw() {
    if (this._frame || !this.visible) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      if (this.visible) this.draw();
    });
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== HEIGHT * ratio) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = HEIGHT * ratio;
    }
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    this.shown = this.picture(width, HEIGHT);
    paint(new CanvasPen(context), this.shown, ink());
    if (this.pointed) this.point(...this.pointed);
    this.element.classList.toggle("busy", this.loading && !this.curves);
    this.element.dataset.points = String(this.curves?.reduce((sum, one) => sum + one.total, 0) ?? 0);
    this.element.dataset.drawn = this.curves ? "yes" : "no";
    this.element.dataset.until = String(Math.max(0, ...(this.curves ?? []).map((one) => one.until)));
    this.element.dataset.takes = String(this.takes);
    const words = this.words || missing(this.curves ?? []);
    if (this.note.textContent !== words) {
      this.note.textContent = words;
      this.note.className = words ? "bad" : "faint";
    }
  }

  /**
   * What to draw, at a size.
   * @param {number} width
   * @param {number} height
   * @returns {import("./paint.js").Picture}
   */
  picture(width, height) {
    const look = this.look;
    const lines = [], marks = [];
    /** @type {Set<import("./paint.js").Upright>} */
    const uprights = new Set(); // lines of one chart may share them
    for (const [at, curve] of (this.curves ?? []).entries()) {
      const wanted = this.wanted[at];
      if (!wanted || look.hidden.has(wanted.run)) continue;
      const tail = curve.mode === "buckets" ? bucketed(curve) : { x: curve.tailX, y: curve.tailY, min: curve.tailY, max: curve.tailY };
      const x = joined(curve.x, tail.x), y = joined(curve.y, tail.y);
      const min = curve.min && joined(curve.min, tail.min), max = curve.max && joined(curve.max, tail.max);
      const smooth = look.smooth > 0 && curve.smooth_x?.length && curve.smooth_y ? { x: curve.smooth_x, y: curve.smooth_y } : null;
      lines.push({ colour: wanted.colour, label: wanted.label, x, y, min, max, smooth });
      for (const [place, which] of curve.marks) marks.push({ x: place, which, colour: wanted.colour });
      for (let i = 0; i < curve.tailX.length; i++) {
        const y = curve.tailY[i];
        if (isFinite(y)) continue;
        marks.push({ x: curve.tailX[i], which: isNaN(y) ? "nan" : y > 0 ? "inf" : "-inf", colour: wanted.colour });
      }
      for (const one of look.uprights.get(wanted.run) ?? []) {
        if (one.flag === undefined || (look.flags && one.concerns?.(wanted.name))) uprights.add(one);
      }
    }
    const xs = this._xScale(lines);
    const { y, note } = this._yScale(lines, xs);
    const empty = !this.curves ? "" : look.kind === "step" ? "no points" : `no points over ${look.kind.replace(/^metric:/, "")}`;
    return { title: this.title, width, height, x: xs, y, lines, marks, uprights: [...uprights], note, empty };
  }

  /** @param {import("./paint.js").Line[]} lines */
  _xScale(lines) {
    let low = Infinity, high = -Infinity;
    for (const { x } of lines) {
      for (let at = 0; at < x.length; at++) {
        if (this.look.log && x[at] <= 0) continue;
        low = Math.min(low, x[at]);
        high = Math.max(high, x[at]);
      }
    }
    const { kind, log } = this.look;
    return scale(this.look.low ?? low, this.look.high ?? high, log, ["time", "relative", "tokens"].includes(kind) ? kind : undefined);
  }

  /** @param {import("./paint.js").Line[]} lines @param {import("./scale.js").Scale} x */
  _yScale(lines, x) {
    let low = Infinity, high = -Infinity, hidden = 0;
    /** @type {number[]} */
    const all = [];
    for (const line of lines) {
      for (const list of line.min && line.max ? [line.min, line.max] : [line.y]) {
        for (let at = 0; at < list.length; at++) {
          const one = list[at];
          if (line.x[at] < x.low || line.x[at] > x.high || !isFinite(one) || (this.look.logY && one <= 0)) continue;
          if (one < low) low = one;
          if (one > high) high = one;
          if (this.look.clip) all.push(one);
        }
      }
    }
    let note = "";
    if (this.look.clip && all.length > 20) {
      all.sort((a, b) => a - b);
      const first = all[Math.floor(all.length * 0.02)], last = all[Math.ceil(all.length * 0.98) - 1];
      const room = (last - first) * 0.15;
      const [least, most] = this.look.logY ? [first / 1.3, last * 1.3] : [first - room, last + room];
      hidden = all.filter((one) => one < least || one > most).length;
      if (hidden) {
        [low, high] = [Math.max(low, least), Math.min(high, most)];
        note = `${hidden} outside`;
      }
    }
    const y = scale(low, high, this.look.logY);
    if (!y.log) {
      const room = (y.high - y.low) * 0.04;
      y.low -= room;
      y.high += room;
    }
    return { y, note };
  }

  /**
   * Show the position of the pointer, on this chart or another.
   * @param {number|null} x
   * @param {boolean} mine
   */
  point(x, mine) {
    const shown = this.shown;
    this.pointed = x === null ? null : [x, mine];
    if (x === null || !shown || !this.visible || x < shown.x.low || x > shown.x.high) {
      this.hair.hidden = this.tip.hidden = true;
      return;
    }
    const box = frame(shown);
    const at = place(shown.x, x, box.left, box.right);
    this.hair.hidden = false;
    this.hair.style.left = `${at}px`;
    const pixel = (/** @type {number} */ one) => place(shown.x, one, box.left, box.right);
    const points = shown.lines.map((line) => ({ line, at: nearest(line.x, x) }))
      .filter(({ line, at: near }) => near >= 0 && pixel(line.x[0]) - NEAR <= at && at <= pixel(line.x[line.x.length - 1]) + NEAR);
    this.tip.hidden = !points.length;
    if (!points.length) return;
    const away = (/** @type {{line: import("./paint.js").Line, at: number}} */ one) => Math.abs(one.line.x[one.at] - x);
    const closest = points.reduce((best, one) => (away(one) < away(best) ? one : best));
    const words = (/** @type {{line: import("./paint.js").Line, at: number}} */ one) => nameOf(one.line.x[one.at], shown.x.kind);
    const head = words(closest);
    points.sort((a, b) => /** @type {number} */ (b.line.y[b.at]) - /** @type {number} */ (a.line.y[a.at]));
    const most = mine ? 12 : 4;
    fill(this.tip,
      el("b", null, this.look.kind === "step" ? `step ${head}` : head),
      points.slice(0, most).map((one) => {
        const { line, at } = one;
        const soft = line.smooth && between(line.smooth, line.x[at]);
        return el("div", null,
          el("i.dot", { colour: line.colour }),
          el("span.grow", null, shown.lines.length > 1 ? line.label : ""),
          number(line.y[at]),
          mine && line.min && line.max && line.min[at] !== line.max[at]
            ? el("span.faint", null, ` ${number(line.min[at])}…${number(line.max[at])}`) : null,
          typeof soft === "number" && number(soft) !== number(line.y[at]) && el("span.faint", null, ` smoothed ${number(soft)}`),
          Math.abs(pixel(line.x[at]) - pixel(closest.line.x[closest.at])) > NEAR && el("span.faint", null, ` at ${words(one)}`));
      }),
      points.length > most ? el("div.faint", null, `${points.length - most} more`) : null);
    const left = at > shown.width / 2;
    this.tip.style.left = left ? "auto" : `${at + 10}px`;
    this.tip.style.right = left ? `${shown.width - at + 10}px` : "auto";
  }

  /** @param {PointerEvent} event */
  _at(event) {
    const shown = this.shown;
    if (!shown) return null;
    const box = frame(shown);
    const pixel = Math.min(box.right, Math.max(box.left, event.clientX - this.plot.getBoundingClientRect().left));
    return { pixel, x: value(shown.x, pixel, box.left, box.right) };
  }

  /** @param {PointerEvent} event */
  _move(event) {
    const at = this._at(event);
    if (at && !this.drag) this.actions.hover(at.x, this);
  }

  /**
   * Drag selects; with shift it pans.
   * @param {PointerEvent} event
   */
  _press(event) {
    const from = this._at(event);
    if (!from || event.button !== 0 || !this.shown) return;
    const { low, high, log } = this.shown.x;
    const pan = event.shiftKey && !log;
    this.drag = true;
    this.moved = false;
    this.plot.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ now) => {
      const to = this._at(now);
      if (!to || Math.abs(to.pixel - from.pixel) < 4) return;
      this.moved = true;
      if (pan && this.shown) {
        const box = frame(this.shown);
        const by = (from.pixel - to.pixel) / (box.right - box.left) * (high - low);
        this.actions.zoom(low + by, high + by);
      } else {
        this.box.style.display = "block";
        this.box.style.left = `${Math.min(from.pixel, to.pixel)}px`;
        this.box.style.width = `${Math.abs(to.pixel - from.pixel)}px`;
      }
    };
    const end = (/** @type {PointerEvent} */ last) => {
      this.plot.removeEventListener("pointermove", move);
      this.drag = false;
      this.box.style.display = "none";
      const to = this._at(last);
      if (to && this.moved && !pan) this.actions.zoom(Math.min(from.x, to.x), Math.max(from.x, to.x));
    };
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("pointerup", end, { once: true });
  }

  /**
   * A click on the flag of an alert leads to it.
   * @param {MouseEvent} event
   */
  _click(event) {
    if (this.moved || !this.shown) return;
    if (/** @type {PointerEvent} */ (event).pointerType === "touch") this.actions.hover(this._at(/** @type {PointerEvent} */ (event))?.x ?? null, this);
    const box = frame(this.shown);
    const rect = this.plot.getBoundingClientRect();
    const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
    if (y > box.top + 14) return;
    const shown = this.shown;
    const near = (/** @type {import("./paint.js").Upright} */ one) => Math.abs(place(shown.x, one.x, box.left, box.right) - x);
    const flags = shown.uprights.filter((one) => one.flag !== undefined && near(one) < 8).sort((a, b) => near(a) - near(b));
    if (flags.length) this.actions.alert?.(/** @type {number} */ (flags[0].flag));
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (!this.shown) return;
    const { low, high } = this.shown.x;
    const by = (high - low) / 5;
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowLeft: [low - by, high - by], ArrowRight: [low + by, high + by], "+": [low + by, high - by], "-": [low - by, high + by],
    });
    if (event.key in moves) this.actions.zoom(...moves[event.key]);
    else if (event.key === "0" || event.key === "Escape") this.actions.zoom(null, null);
    else return;
    event.preventDefault();
  }

  /**
   * Free memory while the chart is not visible.
   * @param {boolean} data
   */
  release(data) {
    this.canvas.width = this.canvas.height = 0;
    if (data) {
      this.curves = null;
      this.shown = undefined;
      this.element.dataset.drawn = "no";
    }
  }
}

/**
 * A curve in the unit in which people read it.
 * @param {Curve} curve
 * @param {number} per
 * @returns {Curve}
 */
function readable(curve, per) {
  if (per === 1) return curve;
  const part = (/** @type {Float64Array|undefined} */ values) => values?.map((one) => one / per);
  const { y, min, max, smooth_y } = curve;
  return { ...curve, y: y.map((one) => one / per), min: part(min), max: part(max), smooth_y: part(smooth_y) };
}

/**
 * How many values have no place in the chart: `5 NaN, 2 inf`.
 * @param {Curve[]} curves
 */
function missing(curves) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [, which, many] of curves.flatMap((one) => one.marks)) counts.set(which, (counts.get(which) ?? 0) + many);
  return [...counts].map(([which, many]) => `${many} ${which === "nan" ? "NaN" : which}`).join(", ");
}

/** @param {any} value */
function toNumber(value) {
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;
}

/** @param {Float64Array} base @param {number[]} tail */
function joined(base, tail) {
  if (!tail.length) return base;
  const whole = new Float64Array(base.length + tail.length);
  whole.set(base);
  whole.set(tail, base.length);
  return whole;
}

/**
 * Live points in buckets as wide as those before them, so that the end of a line looks like the rest of it.
 * @param {Curve & {tailX: number[], tailY: number[]}} curve
 */
function bucketed(curve) {
  const wide = (curve.x[curve.x.length - 1] - curve.x[0]) / Math.max(1, curve.x.length - 1) || 1;
  /** @type {Record<"x"|"y"|"min"|"max", number[]>} */
  const out = { x: [], y: [], min: [], max: [] };
  let from = -Infinity, count = 0;
  for (const [at, x] of curve.tailX.entries()) {
    const y = curve.tailY[at], last = out.x.length - 1;
    if (!isFinite(y)) continue;
    if (last < 0 || x - from >= wide || x < from) {
      from = x;
      count = 1;
      for (const [key, one] of /** @type {["x"|"y"|"min"|"max", number][]} */ ([["x", x], ["y", y], ["min", y], ["max", y]])) out[key].push(one);
    } else {
      count++;
      out.x[last] = (from + x) / 2;
      out.y[last] += (y - out.y[last]) / count;
      out.min[last] = Math.min(out.min[last], y);
      out.max[last] = Math.max(out.max[last], y);
    }
  }
  return out;
}

/**
 * The value of a line at an x between two of its points.
 * @param {{x: ArrayLike<number>, y: ArrayLike<number>}} line
 * @param {number} wanted
 */
function between(line, wanted) {
  const near = nearest(line.x, wanted);
  const next = wanted < line.x[near] ? near - 1 : near + 1;
  if (!(next >= 0 && next < line.x.length) || line.x[next] === line.x[near]) return line.y[near];
  return line.y[near] + (line.y[next] - line.y[near]) * (wanted - line.x[near]) / (line.x[next] - line.x[near]);
}

/** @param {ArrayLike<number>} x @param {number} wanted */
function nearest(x, wanted) {
  let low = 0, high = x.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - x[low - 1] < x[low] - wanted ? low - 1 : low;
}
