// Asks Perfetto's own trace processor, in WebAssembly, about a trace; for perfetto.sh:
//
//     node perfetto.js DIR TRACE     DIR: with engine_bundle.js and trace_processor*.wasm
//
// It speaks the protocol of protos/perfetto/trace_processor/trace_processor.proto: only the
// few fields that are needed are written and read here. Fails if the importer counts any
// error, or if the trace has no processes, threads, slices or arrows.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [dir, trace] = process.argv.slice(2);
const exit = process.exit.bind(process);

// ---- protocol buffers

function varint(number) {
    const bytes = [];
    for (; number > 127; number = Math.floor(number / 128)) {
        bytes.push(number % 128 + 128);
    }
    return Buffer.from([...bytes, number]);
}

const bytesOf = (field, content) =>
    Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
const numberOf = (field, number) => Buffer.concat([varint(field * 8), varint(number)]);

// The fields of a message, as [number, value] with value a number or bytes.
function* fields(bytes) {
    let at = 0;
    const next = () => {
        let number = 0;
        for (let scale = 1;; scale *= 128) {
            const byte = bytes[at++];
            number += byte % 128 * scale;
            if (byte < 128) {
                return number;
            }
        }
    };
    while (at < bytes.length) {
        const key = next();
        const length = { 0: 0, 1: 8, 2: -1, 5: 4 }[key % 8];
        if (length === 0) {
            yield [Math.floor(key / 8), next()];
        } else {
            const end = length > 0 ? at + length : next() + at;
            yield [Math.floor(key / 8), bytes.subarray(at, end)];
            at = end;
        }
    }
}

// ---- the trace processor

const RPC = { APPEND: 1, FINALIZE: 2, QUERY: 3 };
const replies = [];
let ask;

// Sends a request; returns the fields of the answers.
function request(method, args) {
    const message = Buffer.concat([numberOf(2, method), args]);
    replies.length = 0;
    ask({ data: new Uint8Array(bytesOf(1, message)) });
    const all = [];
    for (const [, answer] of fields(Buffer.concat(replies))) {
        for (const field of fields(answer)) {
            if (field[0] === 5) {
                throw new Error(field[1].toString());
            }
            all.push(field);
        }
    }
    return all;
}

// The cells of a query's result whose columns are strings.
function query(sql) {
    const cells = [];
    for (const [field, result] of request(RPC.QUERY, bytesOf(103, bytesOf(1, Buffer.from(sql))))) {
        for (const [part, value] of field === 203 ? fields(result) : []) {
            if (part === 2 && value.length > 0) {
                throw new Error(`${sql}: ${value}`);
            }
            for (const [kind, strings] of part === 3 ? fields(value) : []) {
                if (kind === 5) {
                    cells.push(...strings.toString().split("\0").slice(0, -1));
                }
            }
        }
    }
    return cells;
}

function load() {
    const content = fs.readFileSync(trace);
    for (let at = 0; at < content.length; at += 1 << 20) {
        request(RPC.APPEND, bytesOf(101, content.subarray(at, at + (1 << 20))));
    }
    request(RPC.FINALIZE, Buffer.alloc(0));
}

function check() {
    const errors = query("SELECT name || ' ' || value FROM stats WHERE value > 0 AND " +
                         "severity IN ('error', 'data_loss')");
    const count = what => Number(query(`SELECT CAST(COUNT(*) AS TEXT) FROM ${what}`)[0]);
    const counts = {
        processes: count("process WHERE name GLOB 'ps *' OR name GLOB 'worker *' OR name = 'client'"),
        threads: count("thread WHERE name GLOB 'cox:*'"),
        slices: count("slice"),
        arrows: count("flow"),
    };
    console.log(errors, counts);
    return errors.length === 0 && Object.values(counts).every(n => n > 0);
}

// ---- a browser's worker, as far as the engine needs one

class Request {
    open(method, url) {
        this.url = url;
    }
    send() {
        const bytes = fs.readFileSync(path.join(dir, path.basename(this.url)));
        this.status = 200;
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        setTimeout(() => this.onload?.(), 0);
    }
}

const port = { postMessage: bytes => replies.push(Buffer.from(bytes)) };
Object.assign(globalThis, {
    self: globalThis, WorkerGlobalScope: class {}, importScripts: () => {}, fetch: undefined,
    XMLHttpRequest: Request, location: { href: "http://localhost/engine_bundle.js" },
});
Object.defineProperty(globalThis, "process", { value: undefined });
vm.runInThisContext(fs.readFileSync(path.join(dir, "engine_bundle.js"), "utf8"));
globalThis.onmessage({ data: port });
ask = port.onmessage;

// The engine says nothing when it is ready; until then it has no memory to write to.
function whenReady(tries) {
    try {
        request(RPC.APPEND, bytesOf(101, Buffer.alloc(0)));
    } catch (error) {
        if (tries === 0) {
            throw error;
        }
        setTimeout(whenReady, 100, tries - 1);
        return;
    }
    load();
    exit(check() ? 0 : 1);
}
setTimeout(whenReady, 1000, 100);
