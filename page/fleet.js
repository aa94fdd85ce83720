// Workers and ps: tables; with many workers also a map with a cell for each of them, a histogram of
// their step times, and a table by host.
import { bytes, h, isNumber, micros, number, plural, rate, say, short, show } from "./format.js";
import { Table } from "./table.js";

const MANY = 24; // workers beyond which a map and a histogram help
const SLOW = 1.5; // times the median
const BUCKETS = 24;
const CELL = 14;

// What the page calls a state, and whether it needs attention.
export function stateOf(peer) {
  const state = String(peer.state ?? "");
  const known = {
    ready: ["ready", "up"], up: ["up", "up"],
    draining: ["leaving", "gone"], gone: ["left", "gone"], left: ["left", "gone"],
    silent: ["no answer", "waits"], recovering: ["recovering", "waits"], setup: ["setting up", "waits"], greeting: ["greeting", "waits"],
  };
  if (peer.unreached > 0 && state === "ready") {
    return [`does not reach ${plural(peer.unreached, "ps", "ps")}`, "waits"];
  }
  if (Object.hasOwn(known, state)) {
    return known[state];
  }
  const wasThere = (peer.lost ?? 0) > (peer.back ?? 0) || ["lost", "down"].includes(state);
  return wasThere ? ["lost", "down"] : [state === "" ? "unknown" : "joining", "waits"];
}

const SIGNS = { up: "●", waits: "◐", down: "✕", gone: "○" };
const TONES = { up: "", waits: "warn", down: "bad", gone: "" };
const rank = (peer) => ["down", "waits", "up", "gone"].indexOf(stateOf(peer)[1]);

// Nobody tells how it is now: the client has ended, or does not answer.
export const isPast = (model, link) => model.over || link.state === "over" || link.state === "lost";

export const workerName = (worker) => (worker.name ? String(worker.name) : `worker ${worker.index}`);

// Steps that one is at, of those that it can run at a time, and those that it has for afterwards.
function busy({ running = 0, slots }) {
  if (!isNumber(slots)) {
    return number(running);
  }
  const next = running > slots ? `, ${number(running - slots)} next` : "";
  return `${number(Math.min(running, slots))} of ${number(slots)}${next}`;
}

// What a client that does not run has told of its workers and ps is as it was last seen.
function stateColumn(fleet) {
  return {
    label: "State", order: rank,
    text: (peer) => `${SIGNS[stateOf(peer)[1]]} ${fleet.isPast() ? "last seen " : ""}${stateOf(peer)[0]}`,
    tone: (peer) => (fleet.isPast() ? "" : TONES[stateOf(peer)[1]]),
  };
}

function quantile(sorted, q) {
  return sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

const hostOf = (address) =>
  /^(ipc|unix|abstract|inproc):/.test(address ?? "") ? "this host" : String(address ?? "–").replace(/^[a-z0-9]+:\/\//, "").replace(/:\d+$/, "");

export class Fleet {
  constructor(model, link) {
    this.model = model;
    this.link = link;
    this.drawn = "";
    this.median = null;
    this.most = { rate: 0, step: 0, rss: 0 };
    this.workers = new Table(document.getElementById("workers-table"), "Workers", this.workerColumns());
    this.hosts = new Table(document.getElementById("hosts-table"), "Workers by host", hostColumns(), 6);
    this.servers = new Table(document.getElementById("ps-table"), "Parameter servers", psColumns(this));
    this.filter = document.getElementById("workers-filter");
    this.which = document.getElementById("workers-state");
    this.canvas = document.getElementById("map");
    this.tip = document.getElementById("map-tip");
    this.bars = [...Array(BUCKETS)].map(() => h("span", { class: "bar" }));
    document.getElementById("histogram-bars").append(...this.bars);
    for (const control of [this.filter, this.which]) {
      control.addEventListener("input", () => this.update(true));
    }
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => say(this.tip, ""));
  }

  isPast() {
    return isPast(this.model, this.link);
  }

  workerColumns() {
    const slow = (w) => this.median !== null && w.step_us > SLOW * this.median && stateOf(w)[1] === "up";
    return [
      { label: "Worker", text: workerName, order: (w) => w.index },
      stateColumn(this),
      { label: "Where", text: (w) => String(w.address ?? "–") },
      { label: "Steps/s", kind: "number", text: (w) => rate(w.rate), order: (w) => w.rate, share: (w) => w.rate / this.most.rate },
      {
        label: "Step time", kind: "number", order: (w) => w.step_us, share: (w) => w.step_us / this.most.step,
        text: (w) => micros(w.step_us > 0 ? w.step_us : null) + (slow(w) ? " slow" : ""), tone: (w) => (slow(w) ? "warn" : ""),
      },
      { label: "Running", kind: "number", text: busy, order: (w) => w.running },
      { label: "Done", kind: "number", text: (w) => number(w.done), order: (w) => w.done },
      { label: "Memory", kind: "number", has: (w) => w.rss > 0, text: (w) => bytes(w.rss > 0 ? w.rss : null), order: (w) => w.rss, share: (w) => w.rss / this.most.rss },
      { label: "Lost", kind: "number", text: (w) => number(w.lost ?? 0), order: (w) => w.lost ?? 0, help: "How often it was lost" },
    ];
  }

  update(force = false) {
    const key = `${this.model.workersVersion} ${this.model.psVersion} ${this.isPast()}`;
    if (!force && key === this.drawn) {
      return;
    }
    this.drawn = key;
    this.updateWorkers();
    const servers = [...this.model.ps.values()].sort((a, b) => a.index - b.index);
    this.servers.update(servers);
    show(document.getElementById("ps-none"), servers.length === 0);
    show(document.getElementById("ps-table"), servers.length > 0);
  }

  updateWorkers() {
    const all = [...this.model.workers.values()].sort((a, b) => a.index - b.index);
    const isMany = all.length > MANY;
    const ready = all.filter((w) => stateOf(w)[1] === "up");
    const times = ready.map((w) => w.step_us).filter((us) => us > 0).sort((a, b) => a - b);
    this.median = quantile(times, 0.5);
    this.most = {
      rate: Math.max(0, ...all.map((w) => w.rate ?? 0)),
      step: Math.max(0, ...all.map((w) => w.step_us ?? 0)),
      rss: Math.max(0, ...all.map((w) => w.rss ?? 0)),
    };
    this.summary(all, ready, times);
    for (const id of ["workers-filters", "fleet-many"]) {
      show(document.getElementById(id), isMany);
    }
    if (isMany) {
      this.drawMap(all);
      this.drawHistogram(times);
      const hosts = byHost(all);
      this.hosts.update(hosts);
      show(document.getElementById("hosts-table"), hosts.length > 1 && hosts.length < all.length);
    }
    show(document.getElementById("workers-none"), all.length === 0);
    show(document.getElementById("workers-table"), all.length > 0);
    const wanted = this.filter.value.toLowerCase();
    const states = { all: () => true, down: (w) => stateOf(w)[1] !== "up", slow: (w) => w.step_us > SLOW * this.median };
    const chosen = all.filter((w) =>
      states[this.which.value](w) && (wanted === "" || `${workerName(w)} ${w.address ?? ""}`.toLowerCase().includes(wanted)));
    this.workers.update(isMany ? chosen.sort((a, b) => rank(a) - rank(b)) : chosen);
  }

  summary(all, ready, times) {
    const parts = [`${this.isPast() ? "last seen: " : ""}${number(ready.length)} of ${plural(all.length, "worker")} ready`];
    if (times.length > 0) {
      parts.push(`a step takes ${micros(this.median)} (median)`);
      const slow = ready.filter((w) => w.step_us > SLOW * this.median).sort((a, b) => b.step_us - a.step_us);
      if (slow.length > 0) {
        const first = `${workerName(slow[0])} takes ${micros(slow[0].step_us)}`;
        parts.push(slow.length === 1 ? `${first}: slow` : `${number(slow.length)} are slow: ${first}`);
      }
    }
    say(document.getElementById("workers-summary"), all.length === 0 ? "" : parts.join(" · "));
  }

  drawMap(all) {
    const width = this.canvas.parentElement.clientWidth;
    const columns = Math.max(1, Math.floor(width / CELL));
    const scale = devicePixelRatio;
    const height = Math.ceil(all.length / columns) * CELL;
    this.cells = { all, columns };
    this.canvas.width = columns * CELL * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = `${columns * CELL}px`;
    this.canvas.style.height = `${height}px`;
    const look = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries(["cell-low", "cell", "cell-high", "bad", "warning", "grid"].map((n) => [n, look.getPropertyValue(`--${n}`).trim()]));
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    all.forEach((worker, i) => drawCell(context, worker, this.median, (i % columns) * CELL, Math.floor(i / columns) * CELL, colours));
    const down = all.filter((w) => stateOf(w)[1] === "down").length;
    this.canvas.setAttribute("aria-label", `A cell for each of ${all.length} workers: ${down} lost. The table below has the same.`);
  }

  point(event) {
    const x = Math.floor(event.offsetX / CELL);
    const worker = this.cells?.all[Math.floor(event.offsetY / CELL) * this.cells.columns + x];
    say(this.tip, worker === undefined || x >= this.cells.columns ? "" : `${workerName(worker)}: ${stateOf(worker)[0]}, ${rate(worker.rate)} steps/s, ${micros(worker.step_us)} a step`);
  }

  // Buckets of equal ratio from the fastest to the slowest.
  drawHistogram(times) {
    const counts = Array(BUCKETS).fill(0);
    const low = Math.log(times[0] ?? 1);
    const span = Math.max(Math.log(times[times.length - 1] ?? 1) - low, 0.01);
    for (const us of times) {
      counts[Math.min(BUCKETS - 1, Math.floor(((Math.log(us) - low) / span) * BUCKETS))]++;
    }
    const most = Math.max(...counts, 1);
    this.bars.forEach((bar, i) => bar.style.setProperty("height", `${counts[i] === 0 ? 0 : Math.max(3, Math.round((counts[i] / most) * 100))}%`));
    const [first, middle, high, last] = [times[0], this.median, quantile(times, 0.99), times[times.length - 1]];
    say(document.getElementById("histogram-low"), micros(first));
    say(document.getElementById("histogram-high"), micros(last));
    say(document.getElementById("histogram-text"), `median ${micros(middle)}, 99 % below ${micros(high)}`);
    document.getElementById("histogram-bars").setAttribute("aria-label", `Step times of ${times.length} workers, from ${micros(first)} to ${micros(last)}, median ${micros(middle)}`);
  }
}

// Slow ones are larger than the usual, fast ones smaller, and lost ones have a cross, so colour is
// not needed.
function drawCell(context, worker, median, x, y, colours) {
  const size = CELL - 2;
  const [, kind] = stateOf(worker);
  if (kind === "up") {
    const ratio = median > 0 && worker.step_us > 0 ? worker.step_us / median : 1;
    const inset = ratio > SLOW ? 0 : ratio < 0.8 ? 3.5 : 2;
    context.fillStyle = ratio > SLOW ? colours["cell-high"] : ratio < 0.8 ? colours["cell-low"] : colours.cell;
    context.fillRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    return;
  }
  context.strokeStyle = kind === "down" ? colours.bad : colours.warning;
  context.lineWidth = 1.5;
  context.strokeRect(x + 1, y + 1, size - 2, size - 2);
  if (kind === "down") {
    context.beginPath();
    context.moveTo(x + 3, y + 3);
    context.lineTo(x + size - 3, y + size - 3);
    context.moveTo(x + size - 3, y + 3);
    context.lineTo(x + 3, y + size - 3);
    context.stroke();
  }
}

function byHost(all) {
  const hosts = new Map();
  for (const worker of all) {
    const name = hostOf(worker.address);
    const host = hosts.get(name) ?? { name, n: 0, ready: 0, rate: 0, rss: 0, times: [] };
    hosts.set(name, host);
    host.n++;
    host.ready += stateOf(worker)[1] === "up" ? 1 : 0;
    host.rate += worker.rate ?? 0;
    host.rss += worker.rss ?? 0;
    if (worker.step_us > 0) {
      host.times.push(worker.step_us);
    }
  }
  for (const host of hosts.values()) {
    host.median = quantile(host.times.sort((a, b) => a - b), 0.5);
  }
  return [...hosts.values()].sort((a, b) => a.ready / a.n - b.ready / b.n || b.n - a.n);
}

function hostColumns() {
  return [
    { label: "Host", text: (host) => host.name },
    { label: "Workers", kind: "number", text: (host) => number(host.n), order: (host) => host.n },
    { label: "Ready", kind: "number", text: (host) => number(host.ready), order: (host) => host.ready, tone: (host) => (host.ready < host.n ? "warn" : "") },
    { label: "Steps/s", kind: "number", text: (host) => rate(host.rate), order: (host) => host.rate },
    { label: "Step time (median)", kind: "number", text: (host) => micros(host.median), order: (host) => host.median },
    { label: "Memory", kind: "number", has: (host) => host.rss > 0, text: (host) => bytes(host.rss), order: (host) => host.rss },
  ];
}

function psColumns(fleet) {
  const count = (label, key, format = number, help = undefined) => ({ label, kind: "number", text: (ps) => format(ps[key]), order: (ps) => ps[key], help });
  return [
    { label: "Ps", text: (ps) => `ps ${ps.index}`, order: (ps) => ps.index },
    stateColumn(fleet),
    { label: "Where", text: (ps) => String(ps.address ?? "–") },
    count("Memory", "bytes", bytes),
    count("Rows", "rows", short),
    count("Pulls/s", "pulls_rate", rate),
    count("Commits/s", "commits_rate", rate),
    count("Lag", "lag_ms", (ms) => (isNumber(ms) ? micros(ms * 1000) : "–"), "How long its last answer took or is awaited"),
    count("Staleness", "stale_mean", rate, "Updates that a gradient has missed, on average"),
  ];
}
