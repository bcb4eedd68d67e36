// @ts-check
/** A report's markdown as elements: headings, lists, tables, code, emphasis and links to the web. Never HTML. */

import { el } from "./dom.js";

const MOST = 400000; // characters

/** @param {string} text */
export function markdown(text) {
  const lines = text.slice(0, MOST).split(/\r?\n/);
  const out = el("div.markdown", null);
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const head = /^(#{1,6}) (.*)/.exec(line);
    if (head) {
      out.append(el(`h${Math.min(6, head[1].length + 1)}`, null, inline(head[2])));
      at++;
    } else if (/^```/.test(line)) {
      const from = ++at;
      while (at < lines.length && !/^```/.test(lines[at])) at++;
      out.append(el("pre", null, lines.slice(from, at).join("\n")));
      at++;
    } else if (/^\s*\|.*\|\s*$/.test(line)) {
      const from = at;
      while (at < lines.length && /^\s*\|.*\|\s*$/.test(lines[at])) at++;
      out.append(grid(lines.slice(from, at)));
    } else if (/^\s*[-*] /.test(line)) {
      const list = el("ul", null);
      for (; at < lines.length && /^\s*[-*] /.test(lines[at]); at++) list.append(el("li", null, inline(lines[at].replace(/^\s*[-*] /, ""))));
      out.append(list);
    } else if (!line.trim()) at++;
    else {
      const from = at;
      while (at < lines.length && lines[at].trim() && (at === from || !/^(#{1,6} |```|\s*[-*] |\s*\|)/.test(lines[at]))) at++;
      out.append(el("p", null, inline(lines.slice(from, at).join(" "))));
    }
  }
  return out;
}

/** @param {string[]} lines */
function grid(lines) {
  const cells = lines.map((line) => line.trim().replace(/^\||\|$/g, "").split("|").map((one) => one.trim()));
  const rows = cells.filter((row) => !row.every((one) => /^:?-+:?$/.test(one)));
  return el("table.plain", null, rows.map((row, at) => el("tr", null, row.map((one) => el(at ? "td" : "th", null, inline(one))))));
}

/** @param {string} text @returns {(Node|string)[]} */
function inline(text) {
  /** @type {(Node|string)[]} */
  const out = [];
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]*)\]\(([^)\s]*)\)/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const at = match.index ?? 0;
    out.push(text.slice(from, at));
    from = at + match[0].length;
    if (match[1] !== undefined) out.push(el("code", null, match[1]));
    else if (match[2] !== undefined) out.push(el("b", null, match[2]));
    else if (/^https?:\/\//i.test(match[4])) out.push(el("a", { href: match[4], rel: "noopener noreferrer", target: "_blank" }, match[3]));
    else out.push(match[3]);
  }
  out.push(text.slice(from));
  return out;
}
