// @ts-check
/** Requests to the server: answers as JSON, series as arrays of doubles, and live events. */

/**
 * @typedef {{run: string, name: string, rank: number, total: number, until: number, mode: string,
 *   span?: [number, number], marks: [number, string, number][], x: Float64Array, y: Float64Array,
 *   min?: Float64Array, max?: Float64Array, smooth_x?: Float64Array, smooth_y?: Float64Array}} Curve
 * @typedef {{kind: string, log: boolean, low: number|null, high: number|null, smooth: number}} Axis
 */

/**
 * What answers in place of a server, in an exported page.
 * @type {{get(path: string, params: Record<string, any>): any,
 *   series(charts: [string, string, number?][][], axis: Axis, n: number): Curve[][]}|undefined}
 */
const offline = /** @type {any} */ (globalThis).chiplogOffline;

export const isExported = offline !== undefined;

/** Exchange the token in the address for a cookie, and remove it from the address. */
export async function enter() {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (!token || offline) return;
  history.replaceState(null, "", location.pathname + "#/runs");
  await present(token);
}

/**
 * Exchange a token for a cookie.
 * @param {string} text  a token, or the address that ends in one
 * @returns {Promise<boolean>} whether the server takes it
 */
export async function present(text) {
  const token = /([\w-]+)\s*$/.exec(text)?.[1] ?? "";
  return (await fetch("api/enter", { headers: { authorization: `Bearer ${token}` } })).ok;
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
  if (offline) return offline.get(path, params);
  return (await request(path, params)).json();
}

/**
 * The lines of some charts, each a list of [run, series] or [run, series, rank].
 * @param {[string, string, number?][][]} charts
 * @param {Axis} axis
 * @param {number} n  buckets
 * @returns {Promise<Curve[][]>}
 */
export async function series(charts, axis, n) {
  if (offline) return offline.series(charts, axis, n);
  const params = /** @type {Record<string, any>} */ ({ q: JSON.stringify(charts), x: axis.kind, n });
  if (axis.log) params.log = 1;
  if (axis.low !== null) params.low = axis.low;
  if (axis.high !== null) params.high = axis.high;
  if (axis.smooth) params.smooth = axis.smooth;
  const data = await (await request("series", params)).arrayBuffer();
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
 * Live events until `close` is called. Reconnects by itself, after growing delays, and reports it.
 * @param {string[]} runs
 * @param {{rows?(run: string, rows: [number, number|null, Record<string, any>][]): void, stale?(run: string|undefined): void,
 *   news?(run: string, kinds: string[]): void, runs?(version: number): void, up?(up: boolean): void}} handlers
 */
export function live(runs, handlers) {
  if (offline) return { close() {} };
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
      report("up");
      handlers.up?.(true);
      handlers.runs?.(data.version);
      if (again) handlers.stale?.(undefined); // what was missed meanwhile
      again = true;
    });
    on("rows", (data) => handlers.rows?.(data.run, data.rows));
    on("stale", (data) => handlers.stale?.(data.run));
    on("news", (data) => handlers.news?.(data.run, data.kinds));
    on("runs", (data) => handlers.runs?.(data.version));
    source.onerror = () => {
      source?.close();
      handlers.up?.(false);
      probe();
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
 * The address of all points of some charts, as CSV.
 * @param {[string, string, number?][][]} charts
 */
export function pointsAddress(charts) {
  return `api/points?${new URLSearchParams({ q: JSON.stringify(charts) })}`;
}

/**
 * The address of a file of a run.
 * @param {string} run
 * @param {string} file
 */
export function fileAddress(run, file) {
  return `api/file?run=${encodeURIComponent(run)}&file=${encodeURIComponent(file)}`;
}

/**
 * Tell the page whether the server answers, is gone, or is another one that wants another token.
 * @param {"up"|"gone"|"barred"} state
 */
function report(state) {
  dispatchEvent(new CustomEvent("server", { detail: state }));
}

/** Find out why live events ended. */
async function probe() {
  try {
    report((await fetch("api/run?run=")).status === 401 ? "barred" : "up");
  } catch {
    report("gone");
  }
}

/** @param {string} path @param {Record<string, any>} params */
async function request(path, params) {
  let answer;
  try {
    answer = await fetch(`api/${path}?${new URLSearchParams(params)}`);
  } catch {
    report("gone");
    throw new Refused(0, "The server does not answer.");
  }
  report(answer.status === 401 ? "barred" : "up");
  if (!answer.ok) {
    let words = answer.statusText;
    try { words = (await answer.json()).error; } catch { /* no words */ }
    throw new Refused(answer.status, words);
  }
  return answer;
}
