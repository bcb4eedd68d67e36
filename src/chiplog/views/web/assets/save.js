// @ts-check
/** A chart as a file: CSV, PNG, SVG. */

import { isExported, pointsAddress } from "./api.js";
import { el } from "./dom.js";
import { CanvasPen, ink, paint, SvgPen } from "./paint.js";

/** @typedef {import("./chart.js").Chart} Chart */

/** @param {Chart} chart */
export function saveMenu(chart) {
  const chosen = (/** @type {string} */ kind) => () => {
    list.open = false;
    ({ csv: saveCsv, png: savePng, svg: saveSvg })[/** @type {"csv"|"png"|"svg"} */ (kind)](chart);
  };
  const list = el("details.menu", {
    name: "save", // only one is open
    onfocusout: (/** @type {FocusEvent} */ event) => { if (!list.contains(event.relatedTarget)) list.open = false; },
    onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") list.open = false; },
  },
    el("summary", { "aria-label": `save ${chart.title}`, title: "Save" }, "⤓"),
    el("div", null, ["csv", "png", "svg"].map((kind) => el("button", { onclick: chosen(kind) }, kind.toUpperCase()))));
  return list;
}

/**
 * All points; in an exported page, what is drawn.
 * @param {Chart} chart
 */
function saveCsv(chart) {
  if (!isExported) {
    const shown = chart.wanted.filter((one) => !chart.look.hidden.has(one.run));
    return save(pointsAddress([shown.map(({ run, name, rank }) => rank === undefined ? [run, name] : [run, name, rank])]), chart.title, "csv");
  }
  const rows = [["run", "name", chart.look.kind, "value", "min", "max"]];
  for (const [at, curve] of (chart.curves ?? []).entries()) {
    for (let i = 0; i < curve.x.length; i++) {
      rows.push([chart.wanted[at].label, curve.name, curve.x[i], curve.y[i], curve.min?.[i] ?? "", curve.max?.[i] ?? ""].map(String));
    }
    for (let i = 0; i < curve.tailX.length; i++) rows.push([chart.wanted[at].label, curve.name, curve.tailX[i], curve.tailY[i], "", ""].map(String));
  }
  download(csv(rows), "text/csv", chart.title, "csv");
}

/**
 * Rows as CSV; a text that a spreadsheet would take for a formula gets an apostrophe.
 * @param {string[][]} rows
 */
export function csv(rows) {
  const cell = (/** @type {string} */ text) => {
    const plain = text !== "" && !isNaN(Number(text)) ? text : /^[=+\-@\t\r]/.test(text) && !/^-?(inf|Infinity|NaN)$/i.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** @param {Chart} chart */
function savePng(chart) {
  const canvas = el("canvas", null);
  const picture = titled(chart);
  canvas.width = picture.width * 2;
  canvas.height = picture.height * 2;
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = ink().page;
  context.fillRect(0, 0, picture.width, picture.height);
  context.translate(0, TITLE);
  const pen = new CanvasPen(context);
  paint(pen, { ...picture, height: picture.height - TITLE }, ink());
  heading(pen, chart);
  canvas.toBlob((/** @type {Blob} */ blob) => download(blob, "image/png", chart.title, "png"));
}

/** @param {Chart} chart */
function saveSvg(chart) {
  const picture = titled(chart), pen = new SvgPen();
  pen.parts.push(`<g transform="translate(0 ${TITLE})">`);
  paint(pen, { ...picture, height: picture.height - TITLE }, ink());
  heading(pen, chart);
  pen.parts.push("</g>");
  download(pen.whole(picture.width, picture.height, ink().page), "image/svg+xml", chart.title, "svg");
}

const TITLE = 40;

/** @param {Chart} chart */
function titled(chart) {
  return { ...chart.picture(800, 400), height: 400 + TITLE };
}

/**
 * The title, and the names of the lines.
 * @param {import("./paint.js").Pen} pen
 * @param {Chart} chart
 */
function heading(pen, chart) {
  const colours = ink();
  pen.text([chart.title, chart.wanted[0]?.unit].filter(Boolean).join(", "), 12, -22, colours.text, "left", 14);
  let x = 12;
  for (const one of chart.wanted.filter((wanted) => !chart.look.hidden.has(wanted.run)).slice(0, 8)) {
    const label = one.label.slice(0, 24);
    pen.rect(x, -10, 9, 9, one.colour);
    pen.text(label, x + 13, -2, colours.faint, "left");
    x += 26 + label.length * 6.2;
  }
}

/** @param {BlobPart|Blob} data @param {string} media @param {string} title @param {string} suffix */
export function download(data, media, title, suffix) {
  const address = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type: media }));
  save(address, title, suffix);
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** @param {string} address @param {string} title @param {string} suffix */
function save(address, title, suffix) {
  const anchor = el("a", { href: address, download: `${title.replace(/[^\w.-]+/g, "-").slice(0, 80) || "chart"}.${suffix}` });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
}
