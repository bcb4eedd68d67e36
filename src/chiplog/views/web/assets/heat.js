// @ts-check
/** A heat map: rows and columns of numbers as colours, with the value under the pointer as text. */

import { el, fill } from "./dom.js";
import { number } from "./format.js";

// From low to high in even steps of lightness, for light and dark pages alike.
const STOPS = [[13, 8, 135], [84, 2, 163], [139, 10, 165], [185, 50, 137], [219, 92, 104], [244, 136, 73], [254, 188, 43], [240, 249, 33]];

/**
 * @param {{values: (number|null|string)[][], rows: string[], columns: string[], rowWord: string, columnWord: string, label: string}} what
 */
export function heatMap(what) {
  const high = what.values.length, wide = what.values[0]?.length ?? 0;
  if (!high || !wide) return el("p.empty", null, "nothing to show");
  let low = Infinity, top = -Infinity;
  for (const one of what.values.flat()) {
    if (typeof one === "number" && isFinite(one)) [low, top] = [Math.min(low, one), Math.max(top, one)];
  }
  const across = Math.max(1, Math.min(24, Math.floor(960 / wide))), down = Math.max(3, Math.min(24, Math.floor(420 / high)));
  const size = `${high} ${what.rowWord} × ${wide} ${what.columnWord}`;
  const canvas = el("canvas.heat", {
    role: "img", "aria-label": `${what.label}: ${size}, from ${number(low)} to ${number(top)}`,
    width: wide * across, height: high * down,
  });
  const context = canvas.getContext("2d");
  for (const [at, row] of what.values.entries()) {
    for (const [over, one] of row.entries()) {
      context.fillStyle = typeof one !== "number" ? "#888" : tone(top > low ? (one - low) / (top - low) : 0.5);
      context.fillRect(over * across, at * down, across, down);
    }
  }
  const caption = el("p.caption", { role: "status" }, "point at a cell");
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const over = Math.min(wide - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * wide)));
    const at = Math.min(high - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * high)));
    fill(caption, `${what.rowWord} ${what.rows[at]}, ${what.columnWord} ${what.columns[over]}: `, el("b", null, number(what.values[at][over])));
  });
  const scale = el("canvas.scale", { width: 128, height: 10, "aria-hidden": true });
  const ramp = scale.getContext("2d");
  for (let x = 0; x < 128; x++) {
    ramp.fillStyle = tone(x / 127);
    ramp.fillRect(x, 0, 1, 10);
  }
  return el("figure", null,
    el("figcaption", null,
      el("span.faint", null, `${high} ${what.rowWord} down, ${wide} ${what.columnWord} across`), el("span.grow", null),
      number(low), scale, number(top)),
    el("div.scroll", null, canvas), caption);
}

/** @param {number} share */
function tone(share) {
  const at = Math.min(1, Math.max(0, share)) * (STOPS.length - 1);
  const from = STOPS[Math.floor(at)], to = STOPS[Math.min(STOPS.length - 1, Math.floor(at) + 1)];
  const mixed = from.map((one, index) => Math.round(one + (to[index] - one) * (at % 1)));
  return `rgb(${mixed.join(",")})`;
}
