// @ts-check
/** Natural sorting: `run-9` before `run-10`. */

/**
 * A list sorted by a key: numbers by size, texts by the words and numbers in them, and items without a key last.
 * Items with equal keys keep their order.
 * @template T
 * @param {Iterable<T>} list
 * @param {(one: T) => any} key
 * @param {boolean} [down]
 */
export function ordered(list, key, down = false) {
  const sign = down ? -1 : 1;
  const keyed = Array.from(list, (one) => ({ one, key: comparable(key(one)) }));
  keyed.sort((a, b) => {
    if (a.key === null || b.key === null) return Number(a.key === null) - Number(b.key === null);
    if (typeof a.key !== typeof b.key) return typeof a.key === "number" ? -1 : 1;
    return a.key < b.key ? -sign : a.key > b.key ? sign : 0;
  });
  return keyed.map(({ one }) => one);
}

/** @param {any} value @returns {number|string|null} */
function comparable(value) {
  if (value === undefined || value === null || value === "") return null;
  if (typeof value === "number" && !isNaN(value)) return value;
  return String(value).toLowerCase().replace(/\d+/g, (digits) => digits.padStart(16, "0"));
}
