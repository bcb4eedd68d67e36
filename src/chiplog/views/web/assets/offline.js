// @ts-check
/** The answers of the server that an exported page brings along; they follow views/web/queries.py. */

/** @typedef {import("./api.js").Curve} Curve */

const parts = /** @type {any[]} */ (/** @type {any} */ (globalThis).chiplogParts ?? []);
/** @type {Map<string, any>} */
const runs = new Map();
/** @type {any} */
let list = { version: 1, runs: [], gone: [] };

for (const part of parts) {
  if (part.runs) list = part.runs;
  else runs.set(part.run, part);
}

const PAGE = 50;

/** @type {Record<string, (params: Record<string, any>) => any>} */
const answers = {
  runs: () => list,
  search: ({ q }) => ({ keys: list.runs.filter(query(q)).map((/** @type {any} */ run) => run.key) }),
  columns: () => {
    const names = [...new Set(list.runs.flatMap((/** @type {any} */ run) => Object.keys(run.cells)))].sort();
    const of = (/** @type {string} */ kind) => names.filter((name) => name.startsWith(kind)).map((name) => name.slice(2));
    return { config: of("c:"), values: of("v:") };
  },
  run: ({ run }) => runs.get(run)?.about,
  ranks: ({ run, name }) => runs.get(run).ranks[name],
  trace: ({ run }) => runs.get(run).trace,
  goodput: ({ run }) => runs.get(run).goodput,
  console: ({ run }) => runs.get(run).console,
  matrix: ({ run, name, at }) => {
    const frames = runs.get(run).matrices[name];
    const frame = frames[at ?? frames.length - 1] ?? frames[frames.length - 1];
    return { ...frame, steps: frames.map((/** @type {any} */ one) => one.step) };
  },
  samples: ({ run, table, offset, find, column }) => {
    const text = (/** @type {any} */ value) => typeof value === "string" ? value : JSON.stringify(value);
    const searched = String(find ?? "").toLowerCase();
    const all = runs.get(run).samples[table] ?? [];
    const cells = (/** @type {any} */ row) => (column ? [row.cells[column]] : Object.values(row.cells));
    const matching = all.filter((/** @type {any} */ row) =>
      !searched || cells(row).some((one) => text(one ?? "").toLowerCase().includes(searched)));
    const rows = matching.slice(offset, offset + PAGE).map((/** @type {any} */ row) => ({
      ...row, cells: Object.fromEntries(Object.entries(row.cells).map(([key, value]) => [key, text(value)])),
    }));
    return { columns: Object.keys(all[0]?.cells ?? {}), found: matching.length, count: all.length, offset, rows };
  },
};

/** @type {Map<string, Curve>} */
const ready = new Map();

/**
 * @param {string} run
 * @param {string} name
 * @param {string} kind
 * @returns {Curve}
 */
function curve(run, name, kind) {
  const place = JSON.stringify([run, name, kind]);
  const cached = ready.get(place);
  if (cached) return cached;
  const of = runs.get(run)?.series;
  const all = of && Object.hasOwn(of, name) ? of[name] : {};
  const created = kind === "time" ? runs.get(run).about.created / 1000 : 0;
  const packed = all[kind === "time" ? "relative" : kind];
  const arrays = Object.fromEntries(
    Object.entries(packed?.arrays ?? {}).map(([key, text]) => [key, doubles(/** @type {any} */ (text))]));
  if (created && arrays.x) arrays.x = arrays.x.map((one) => one + created);
  const empty = new Float64Array(0);
  const made = { run, name, rank: -1, total: 0, mode: "points", marks: [], x: empty, y: empty, ...packed, ...arrays, until: 0 };
  ready.set(place, made);
  return made;
}

/**
 * As views/charts/line_smoothing.py does it, from the points that are here.
 * @param {Curve} curve
 * @param {number} weight
 */
function smoothed(curve, weight) {
  const { y } = curve, last = y.length - 1;
  const reach = weight ** (curve.total / y.length * Math.min(1, 1000 / curve.total));
  const sums = new Float64Array(y.length), counts = new Float64Array(y.length);
  for (const order of [(/** @type {number} */ at) => at, (/** @type {number} */ at) => last - at]) {
    let sum = 0, count = 0;
    for (let i = 0; i <= last; i++) {
      const at = order(i);
      sums[at] += reach * sum; // the point itself counts once, below
      counts[at] += reach * count;
      [sum, count] = isFinite(y[at]) ? [reach * sum + y[at], reach * count + 1] : [reach * sum, reach * count];
    }
  }
  return sums.map((sum, at) => (isFinite(y[at]) ? (sum + y[at]) / (counts[at] + 1) : NaN));
}

/**
 * A search as a test of runs. Simpler than store/runs/query.py, which answers where there is a server: words that must
 * all match, `key:text`, `key=text`, and `key>number` with its variants.
 * @param {string} text
 * @returns {(row: any) => boolean}
 */
function query(text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const condition = /^([^:<>=]+)(>=|<=|[:<>=])(.+)$/.exec(word);
    if (!condition) {
      const low = word.toLowerCase();
      return (/** @type {any} */ row) => {
        const texts = [row.name, row.id, row.project, row.state, ...row.tags, ...Object.values(row.cells)];
        return texts.some((one) => String(one).toLowerCase().includes(low));
      };
    }
    const [, key, sign, wanted] = condition;
    return (/** @type {any} */ row) => {
      const value = key === "tag" ? row.tags : row[key] ?? row.cells[`c:${key}`] ?? row.cells[`v:${key}`];
      if (sign === "=") return [value].flat().some((one) => String(one) === wanted);
      if (sign === ":") return [value].flat().some((one) => String(one ?? "").toLowerCase().includes(wanted.toLowerCase()));
      const number = Number(value), bound = Number(wanted);
      if (value === undefined || value === null) return false;
      return sign === ">" ? number > bound : sign === "<" ? number < bound : sign === ">=" ? number >= bound : number <= bound;
    };
  });
  return (row) => tests.every((test) => test(row));
}

/** @param {string} packed */
function doubles(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return new Float64Array(bytes.buffer);
}

/** @type {any} */ (globalThis).chiplogOffline = {
  /** @param {string} path @param {Record<string, any>} params */
  get(path, params) {
    const answer = answers[path]?.(params);
    if (!answer) throw new Error("this is not in the exported page");
    return answer;
  },
  /** @param {[string, string, number?][][]} charts @param {import("./api.js").Axis} axis */
  series(charts, axis) {
    return charts.map((chart) => chart.map(([run, name]) => {
      const one = curve(run, name, axis.kind);
      return axis.smooth ? { ...one, smooth_x: one.x, smooth_y: smoothed(one, axis.smooth) } : { ...one };
    }));
  },
};
