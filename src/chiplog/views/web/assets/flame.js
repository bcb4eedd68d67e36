// @ts-check
/** The timeline of one step: a lane for each thread and device, with inner spans below outer ones. */

import { el, fill } from "./dom.js";
import { count, duration } from "./format.js";
import { colour, ink } from "./paint.js";

/**
 * @typedef {{lane: number, row: number, name: string, start: number, seconds: number, failed: boolean, tags: Record<string, any>}} Bar
 * @typedef {{step: number, rank: number, seconds: number, left: number, lanes: {name: string, kind: string, rows: number}[], spans: Bar[]}} Timeline
 */

const ROW = 19, HEAD = 20, RULER = 22;

export class Flame {
  /** @param {string[]} names  that have a colour of their own, in order */
  constructor(names) {
    this.names = names;
    /** @type {Timeline|null} */
    this.shown = null;
    this.low = 0;
    this.high = 1;
    this.canvas = el("canvas.flame", {
      tabindex: 0, role: "img", "aria-label": "timeline of a step",
      onpointermove: (/** @type {PointerEvent} */ event) => this._point(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this._press(event),
      onpointerleave: () => this._describe(null),
      ondblclick: () => this._setRange(0, this.shown?.seconds ?? 1),
      onwheel: (/** @type {WheelEvent} */ event) => this._wheel(event),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this._key(event),
    });
    this.caption = el("p.caption", { role: "status" });
    this.element = el("figure", null, this.canvas, this.caption);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** @param {Timeline} shown */
  show(shown) {
    this.shown = shown;
    const size = `${count(shown.spans.length)} spans in ${duration(shown.seconds)}`;
    this.canvas.setAttribute("aria-label", `timeline of step ${count(shown.step)}, rank ${shown.rank}: ${size}`);
    this.canvas.style.height = `${RULER + shown.lanes.reduce((sum, lane) => sum + HEAD + lane.rows * ROW, 0) + 6}px`;
    this._setRange(0, shown.seconds);
    this._describe(null);
  }

  draw() {
    const shown = this.shown, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!shown || !width) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    const { text, faint, grid, page, alarm } = ink();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const across = (/** @type {number} */ at) => (at - this.low) / (this.high - this.low) * width;
    const step = tidy((this.high - this.low) / Math.max(2, width / 110));
    for (let at = Math.ceil(this.low / step); at * step <= this.high; at++) {
      pen.fillStyle = grid;
      pen.fillRect(across(at * step), RULER - 6, 1, height);
      pen.fillStyle = faint;
      pen.fillText(at ? duration(at * step) : "0", across(at * step) + 3, 9);
    }
    const tops = this._laneTops();
    for (const [at, lane] of shown.lanes.entries()) {
      pen.fillStyle = faint;
      pen.fillText(lane.name + (lane.kind ? ` · ${lane.kind}` : ""), 4, tops[at] - HEAD / 2 + 2);
    }
    for (const span of shown.spans) {
      const from = Math.max(-1, across(span.start)), to = Math.min(width + 1, across(span.start + span.seconds));
      if (to < 0 || from > width) continue;
      const y = tops[span.lane] + span.row * ROW, wide = Math.max(1, to - from - (to - from > 3 ? 1 : 0));
      pen.globalAlpha = shown.lanes[span.lane].kind === "queue" ? 0.35 : 0.85;
      pen.fillStyle = this._colour(span.name);
      pen.fillRect(from, y, wide, ROW - 2);
      pen.globalAlpha = 1;
      if (span.failed) {
        pen.strokeStyle = alarm;
        pen.lineWidth = 2;
        pen.strokeRect(from + 1, y + 1, Math.max(0, wide - 2), ROW - 4);
      }
      if (wide > 34) {
        pen.save();
        pen.beginPath();
        pen.rect(from, y, wide - 3, ROW);
        pen.clip();
        pen.fillStyle = shown.lanes[span.lane].kind === "queue" ? text : page;
        pen.fillText(`${span.name}  ${duration(span.seconds)}`, Math.max(0, from) + 4, y + ROW / 2 - 0.5);
        pen.restore();
      }
    }
  }

  /** The top of the first row of each lane. */
  _laneTops() {
    let y = RULER;
    return (this.shown?.lanes ?? []).map((lane) => {
      const top = y + HEAD;
      y = top + lane.rows * ROW;
      return top;
    });
  }

  /** @param {string} name */
  _colour(name) {
    const at = this.names.indexOf(name);
    if (at >= 0) return colour(at);
    let sum = 0;
    for (const one of name) sum = (sum * 31 + one.charCodeAt(0)) % 1009;
    return colour(sum);
  }

  /** @param {MouseEvent} event */
  _spanAt(event) {
    const shown = this.shown;
    if (!shown) return null;
    const box = this.canvas.getBoundingClientRect();
    const at = this.low + (event.clientX - box.left) / box.width * (this.high - this.low);
    const near = 2 / box.width * (this.high - this.low);
    const y = event.clientY - box.top, tops = this._laneTops();
    return shown.spans.filter((one) => y >= tops[one.lane] + one.row * ROW && y < tops[one.lane] + (one.row + 1) * ROW
      && at >= one.start - near && at <= one.start + one.seconds + near).pop() ?? null;
  }

  /** @param {Bar|null} span */
  _describe(span) {
    if (!span) {
      const left = this.shown?.left ? `${count(this.shown.left)} more, shorter or deeper, are left out; ` : "";
      this.caption.textContent = `${left}click, then wheel to zoom; drag to pan, double click for all; + − ← → 0`;
      return;
    }
    const tags = Object.entries(span.tags).map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
    fill(this.caption,
      el("b", null, span.name), ` ${duration(span.seconds)}, from ${duration(span.start)}`,
      span.failed && el("b.bad", null, " failed"), tags && ` · ${tags}`);
  }

  /** @param {PointerEvent} event */
  _point(event) {
    if (!this.drag) this._describe(this._spanAt(event));
  }

  /** @param {PointerEvent} event */
  _press(event) {
    if (event.button !== 0) return;
    const { low, high } = this, from = event.clientX;
    this.drag = true;
    this.canvas.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ now) => {
      const by = (from - now.clientX) / this.canvas.clientWidth * (high - low);
      this._setRange(low + by, high + by);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", () => {
      this.canvas.removeEventListener("pointermove", move);
      this.drag = false;
    }, { once: true });
  }

  /** @param {WheelEvent} event */
  _wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    this._zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), (event.clientX - box.left) / box.width);
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    const by = (this.high - this.low) / 5;
    if (event.key === "+") this._zoom(0.6, 0.5);
    else if (event.key === "-") this._zoom(1 / 0.6, 0.5);
    else if (event.key === "ArrowLeft") this._setRange(this.low - by, this.high - by);
    else if (event.key === "ArrowRight") this._setRange(this.low + by, this.high + by);
    else if (event.key === "0") this._setRange(0, this.shown?.seconds ?? 1);
    else return;
    event.preventDefault();
  }

  /** @param {number} by @param {number} around  a share of the width */
  _zoom(by, around) {
    const wide = this.high - this.low, at = this.low + wide * around;
    this._setRange(at - wide * by * around, at + wide * by * (1 - around));
  }

  /**
   * Look from here to there, never beyond the step.
   * @param {number} low
   * @param {number} high
   */
  _setRange(low, high) {
    const all = this.shown?.seconds || 1;
    const wide = Math.min(all, Math.max(1e-8, high - low));
    this.low = Math.max(0, Math.min(all - wide, low));
    this.high = this.low + wide;
    this.canvas.dataset.low = String(this.low);
    this.canvas.dataset.high = String(this.high);
    this.draw();
  }
}

/** @param {number} least */
function tidy(least) {
  const ten = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((one) => one * ten >= least) ?? 10) * ten;
}
