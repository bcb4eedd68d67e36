// @ts-check
/** Asking the server: answers as JSON, series as arrays of doubles, and what is written now as events. */

/**
 * @typedef {{run: string, name: string, rank: number, total: number, until: number, mode: string,
 *   span?: [number, number], marks: [number, string, number][], x: Float64Array, y: Float64Array,
 *   min?: Float64Array, max?: Float64Array}} Curve
 * @typedef {{kind: string, log: boolean, low: number|null, high: number|null}} Axis
 */

/** What answers instead of a server, in a page that was exported.
 * @type {{get(path: string, params: Record<string, any>): any, series(charts: [string, string, number?][][], axis: Axis, n: number): Curve[][]}|undefined} */
const stored = /** @type {any} */ (globalThis).chiplogStored;

export const isStored = stored !== undefined;

/** Show the token of the address once, and forget it. */
export async function enter() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found || stored) return;
  history.replaceState(null, "", location.pathname + "#/runs");
  await fetch("api/enter", { headers: { authorization: `Bearer ${found[1]}` } });
}

export class Refused extends Error {
  /** @param {number} status @param {string} words */
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @param {Record<string, any>} [params]
 */
export async function get(path, params = {}) {
  if (stored) return stored.get(path, params);
  return (await ask(path, params)).json();
}

/**
 * The lines of some charts, each a list of [run, series] or [run, series, rank].
 * @param {[string, string, number?][][]} charts
 * @param {Axis} axis
 * @param {number} n  buckets
 * @returns {Promise<Curve[][]>}
 */
export async function series(charts, axis, n) {
  if (stored) return stored.series(charts, axis, n);
  const params = /** @type {Record<string, any>} */ ({ q: JSON.stringify(charts), x: axis.kind, n });
  if (axis.log) params.log = 1;
  if (axis.low !== null) params.low = axis.low;
  if (axis.high !== null) params.high = axis.high;
  const data = await (await ask("series", params)).arrayBuffer();
  const length = Number(new DataView(data).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, length)));
  const doubles = new Float64Array(data, 8 + length);
  const flat = header.series.map((/** @type {any} */ one) => {
    const { arrays, ...facts } = one;
    for (const [key, [at, size]] of Object.entries(arrays)) facts[key] = doubles.subarray(at, at + size);
    return facts;
  });
  return charts.map((chart) => flat.splice(0, chart.length));
}

/**
 * Whatever is written now, until `close` is called. Comes back by itself, later and later, and says so.
 * @param {string[]} runs
 * @param {{rows?(run: string, rows: [number, number|null, Record<string, any>][]): void, stale?(run: string|undefined): void,
 *   news?(run: string): void, runs?(version: number): void, up?(up: boolean): void}} hear
 */
export function live(runs, hear) {
  if (stored) return { close() {} };
  let wait = 500;
  let timer = 0;
  let again = false;
  /** @type {EventSource|undefined} */
  let source;
  const open = () => {
    source = new EventSource(`api/live?runs=${runs.join(",")}`);
    const on = (/** @type {string} */ what, /** @type {(data: any) => void} */ then) =>
      source?.addEventListener(what, (event) => then(JSON.parse(/** @type {MessageEvent} */ (event).data)));
    on("hello", (data) => {
      wait = 500;
      hear.up?.(true);
      hear.runs?.(data.version);
      if (again) hear.stale?.(undefined); // what was missed meanwhile
      again = true;
    });
    on("rows", (data) => hear.rows?.(data.run, data.rows));
    on("stale", (data) => hear.stale?.(data.run));
    on("news", (data) => hear.news?.(data.run));
    on("runs", (data) => hear.runs?.(data.version));
    source.onerror = () => {
      source?.close();
      hear.up?.(false);
      clearTimeout(timer);
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, 30000);
    };
  };
  open();
  return {
    close() {
      clearTimeout(timer);
      source?.close();
    },
  };
}

/**
 * The address of a file of a run.
 * @param {string} run
 * @param {string} file
 */
export function fileAddress(run, file) {
  return `api/file?run=${encodeURIComponent(run)}&file=${encodeURIComponent(file)}`;
}

/** @param {string} path @param {Record<string, any>} params */
async function ask(path, params) {
  const answer = await fetch(`api/${path}?${new URLSearchParams(params)}`);
  if (!answer.ok) {
    let words = answer.statusText;
    try { words = (await answer.json()).error; } catch { /* no words */ }
    throw new Refused(answer.status, words);
  }
  return answer;
}
