// @ts-check
/** Builds elements. Text is only ever text: nothing here accepts HTML. */

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * An element with properties and children. `on…` properties are listeners; others are attributes, which `true` sets
 * and `false` omits.
 * @param {string} tag  a name, with classes behind dots
 * @param {Record<string, any>|null} [props]
 * @param {...(Child|Child[]|Child[][])} children
 * @returns {any}
 */
export function el(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled" || key === "selected") /** @type {any} */ (made)[key] = value;
    else if (key === "colour") made.style.setProperty("--colour", value);
    else if (key.startsWith("aria-")) { if (value != null) made.setAttribute(key, String(value)); }
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, String(value));
  }
  put(made, ...children);
  return made;
}

/**
 * @param {Element} parent
 * @param {...(Child|Child[]|Child[][])} children
 */
export function put(parent, ...children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

/**
 * @param {Element} parent
 * @param {...(Child|Child[]|Child[][])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return put(parent, ...children);
}

/**
 * Make these the children of an element; those that stay are not touched, so that they keep the focus.
 * @param {Element} parent
 * @param {Element[]} children
 */
export function arrange(parent, children) {
  const staying = new Set(children);
  /** @type {Element|null} */
  let at = parent.firstElementChild;
  const skip = () => {
    while (at && !staying.has(at)) {
      const gone = at;
      at = at.nextElementSibling;
      gone.remove();
    }
  };
  for (const child of children) {
    skip();
    if (at === child) at = child.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  skip();
}

/**
 * Replace an element by a newer one, which gets the focus if the old one had it.
 * @param {Element} old
 * @param {Element} made
 */
export function replace(old, made) {
  const parts = (/** @type {Element} */ one) => [.../** @type {NodeListOf<HTMLElement>} */ (one.querySelectorAll("a, button, input, select"))];
  const focused = parts(old).indexOf(/** @type {any} */ (document.activeElement));
  old.replaceWith(made);
  if (focused >= 0) parts(made)[focused]?.focus({ preventScroll: true });
}

/**
 * Make an element the same as a newer one, and touch only what differs: focus, selection and scroll stay. The listeners
 * of the newer one are not taken over, and what somebody has opened stays open.
 * @param {Node} old
 * @param {Node} made
 */
export function patch(old, made) {
  if (old.isEqualNode(made)) return;
  if (!(old instanceof Element && made instanceof Element && old.tagName === made.tagName)) {
    /** @type {ChildNode} */ (old).replaceWith(made);
    return;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of made.attributes) {
    if (name === "style") /** @type {HTMLElement} */ (old).style.cssText = value; // as an attribute it is not allowed
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const [before, after] = [[...old.childNodes], [...made.childNodes]];
  for (const [at, child] of after.entries()) {
    if (at < before.length) patch(before[at], child);
    else old.append(child);
  }
  for (const child of before.slice(after.length)) child.remove();
}

/**
 * Make these the options of a select, and keep what is chosen.
 * @param {HTMLSelectElement} select
 * @param {[string|number, string|number][]} choices
 */
export function setOptions(select, choices) {
  const chosen = select.value;
  patch(select, put(/** @type {Element} */ (select.cloneNode(false)), options(choices, chosen)));
  select.value = chosen;
}

/**
 * A table of plain cells; a cell may be an element.
 * @param {Child[]} head
 * @param {Child[][]} rows
 * @param {{right?: number[], label?: string}} [options]
 */
export function table(head, rows, options = {}) {
  const right = new Set(options.right ?? []);
  const cell = (/** @type {string} */ tag, /** @type {Child} */ content, /** @type {number} */ at) =>
    el(right.has(at) ? `${tag}.right` : tag, tag === "th" ? { scope: "col" } : null, content);
  return el("div.scroll", null,
    el("table.plain", { "aria-label": options.label },
      el("thead", null, el("tr", null, head.map((one, at) => cell("th", one, at)))),
      el("tbody", null, rows.map((row) => el("tr", null, row.map((one, at) => cell("td", one, at)))))));
}

/**
 * The options of a select, from pairs of a value and its label.
 * @param {[string|number, string|number][]} choices
 * @param {string|number|null} selected
 */
export function options(choices, selected) {
  return choices.map(([value, label]) => el("option", { value, selected: String(value) === String(selected) }, label));
}

/**
 * Delay a function until it has not been called for a while.
 * @template {any[]} A
 * @param {(...words: A) => void} call
 * @param {number} wait  milliseconds
 */
export function debounced(call, wait) {
  let timer = 0;
  return (/** @type {A} */ ...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...words), wait);
  };
}
