// @ts-check
/** What a run prints, live: its lines as text, with their colours. */

import { get, isExported } from "./api.js";
import { el, fill, debounced } from "./dom.js";
import { count } from "./format.js";

/** @typedef {[number, boolean, string]} Line  milliseconds, whether it went to stderr, text */

const MOST = 5000; // lines on the page
const EVERY = 1000; // ms between polls of a running run

/** @param {Record<string, any>} about */
export function consoleTab(about) {
  const facts = el("span.faint", null);
  const search = el("input", { type: "search", placeholder: "search", "aria-label": "search the console", oninput: debounced(() => filter(), 150) });
  const ended = el("div", null);
  const open = el("div", null);
  const box = el("pre.file.console", { tabindex: 0, role: "log", "aria-label": "what was printed" }, ended, open);
  const element = el("div", null,
    el("div.tools", null, search, el("button", { onclick: () => toEnd() }, "To the end"), facts), box);
  let have = 0;
  let total = 0;

  const toEnd = () => { box.scrollTop = box.scrollHeight; };
  const hides = (/** @type {Element} */ line) => !(line.textContent ?? "").toLowerCase().includes(search.value.toLowerCase());
  const filter = () => {
    for (const line of [...ended.children, ...open.children]) line.toggleAttribute("hidden", hides(line));
    describe();
  };
  const describe = () => {
    const kept = ended.childElementCount + open.childElementCount;
    const shown = search.value ? `${count(box.querySelectorAll(".line:not([hidden])").length)} of ` : "";
    facts.textContent = `${shown}${total > kept ? `the last ${count(kept)} of ${count(total)}` : count(kept)} lines`;
  };

  const poll = async () => {
    const answer = await get("console", { run: about.key, since: have });
    const end = box.scrollHeight - box.scrollTop - box.clientHeight < 30 || !have;
    if (answer.first > have || answer.count < have) fill(ended); // the lines in between were missed
    have = answer.count;
    const fresh = answer.lines.map(line);
    ended.append(...fresh);
    while (ended.childElementCount > MOST) ended.firstElementChild?.remove();
    fill(open, answer.open.map(line));
    total = answer.count + answer.open.length;
    if (search.value) for (const one of [...fresh, ...open.children]) one.toggleAttribute("hidden", hides(one));
    describe();
    if (end) toEnd();
  };

  const again = async () => {
    if (!element.isConnected) return; // another tab is shown meanwhile
    if (document.visibilityState === "visible") await poll().catch(() => {});
    setTimeout(again, EVERY);
  };
  poll().catch((error) => { facts.textContent = String(error.message); }).then(() => {
    if (about.state === "running" && !isExported) setTimeout(again, EVERY);
  });
  return element;
}

/** @param {Line} one */
function line([time, error, text]) {
  return el(error ? "div.line.error" : "div.line", { title: new Date(time).toLocaleString() }, painted(text), "\n");
}

/**
 * Text with SGR sequences as spans with classes; a sequence can only choose among these names.
 * @param {string} text
 */
function painted(text) {
  const pieces = text.split(/\x1b\[([0-9;:]*)m/);
  /** @type {(Node|string)[]} */
  const made = [pieces[0]];
  let style = new Style();
  for (let at = 1; at < pieces.length; at += 2) {
    style = style.then(pieces[at]);
    const names = style.names();
    if (pieces[at + 1]) made.push(names.length ? el(["span", ...names].join("."), null, pieces[at + 1]) : pieces[at + 1]);
  }
  return made;
}

class Style {
  constructor() {
    /** @type {Record<string, string>} */
    this.on = {};
  }

  names() {
    return Object.values(this.on);
  }

  /** @param {string} codes  such as `1;31` */
  then(codes) {
    const next = new Style();
    Object.assign(next.on, this.on);
    const numbers = codes.split(/[;:]/).map(Number);
    for (let at = 0; at < numbers.length; at++) {
      const code = numbers[at];
      if (code === 0) next.on = {};
      else if (code === 38 || code === 48) { // of 256 colours, or red, green and blue: only the first sixteen have a name
        const [, kind, number] = numbers.slice(at, at + 3);
        if (kind === 5 && number < 16) next.on[code === 38 ? "ink" : "ground"] = `${code === 38 ? "ink" : "ground"}-${number}`;
        at += kind === 5 ? 2 : 4;
      } else next._one(code);
    }
    return next;
  }

  /** @param {number} code */
  _one(code) {
    const [tens, ones] = [Math.floor(code / 10), code % 10];
    if ((tens === 3 || tens === 9) && ones < 8) this.on.ink = `ink-${ones + (tens === 9 ? 8 : 0)}`;
    else if ((tens === 4 || tens === 10) && ones < 8) this.on.ground = `ground-${ones + (tens === 10 ? 8 : 0)}`;
    else if (code === 39) delete this.on.ink;
    else if (code === 49) delete this.on.ground;
    else if (code === 1) this.on.weight = "bold";
    else if (code === 2) this.on.weight = "dim";
    else if (code === 22) delete this.on.weight;
    else if (code === 3) this.on.slant = "italic";
    else if (code === 23) delete this.on.slant;
    else if (code === 4) this.on.line = "underlined";
    else if (code === 24) delete this.on.line;
  }
}
