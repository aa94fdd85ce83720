// What the page knows of a run: the records of its history, put in order. Nothing here touches the
// document. Everything is bounded, so that the page can stay open for weeks.
import { isNumber } from "./format.js";

const POINTS_MAX = 20000; // of a curve; more are thinned
const EVENTS_MAX = 2000;
const NAMES_MAX = 500; // curves; further names are not shown
const GAP_S = 10; // samples that are further apart are not joined by a line, unless all there are so far apart

// Values of one name and source, in the order of steps.
class Scalar {
  constructor(source) {
    this.source = source;
    this.x = []; // steps
    this.t = [];
    this.y = [];
    this.seq = []; // of their records
    this.nth = []; // how many came before each
    this.pushed = 0;
    this.stride = 1; // of those that thinning has left
    this.odd = null; // the newest value, if it is no number: "NaN"
    this.oddSince = null; // the step of the first such value after the last number
    this.version = 0;
  }

  // For an equal step the newest value counts.
  push(seq, step, t, value) {
    let end = this.x.length;
    while (end > 0 && this.x[end - 1] > step) {
      end--;
    }
    const replaced = end > 0 && this.x[end - 1] === step ? 1 : 0;
    [step, t, value, seq, this.pushed++].forEach((v, i) => this.columns()[i].splice(end - replaced, replaced, v));
    this.version++;
    if (this.x.length > POINTS_MAX) {
      this.stride = thin(this.columns(), this.nth, this.stride);
    }
  }

  // A client goes on from a checkpoint: what was logged after it is void, because it is logged again.
  forget(resumed) {
    this.odd = null;
    const isKept = resumed.seq > 0 ? (i) => this.seq[i] <= resumed.seq : (i) => this.x[i] <= resumed.closure;
    const kept = this.x.map((_, i) => isKept(i));
    for (const column of this.columns()) {
      column.splice(0, column.length, ...column.filter((_, i) => kept[i]));
    }
    this.version++;
  }

  columns() {
    return [this.x, this.t, this.y, this.seq, this.nth];
  }
}

// Keeps all of the newer half, and of the older half one in `stride`, or in as many times 2 as it takes
// to make room. `nth`: how many came before each. Returns the new stride.
function thin(columns, nth, stride) {
  const half = nth.length >> 1;
  const most = nth.length - (nth.length >> 3);
  let kept = [];
  for (; ; stride *= 2) {
    kept = nth.map((n, i) => i === 0 || i >= half || n % stride === 0);
    if (kept.reduce((sum, is) => sum + is, 0) <= most) {
      break;
    }
  }
  for (const column of columns) {
    let n = 0;
    column.forEach((value, i) => kept[i] && (column[n++] = value));
    column.length = n;
  }
  return stride;
}

const LEVELS = ["debug", "info", "warning", "error"];

// "warn", 2 and "warning" are one level.
export function levelOf(level) {
  const name = isNumber(level) ? LEVELS[level] : String(level ?? "info").replace(/^warn$/, "warning");
  return LEVELS.includes(name) ? name : "info";
}

export class Model {
  constructor() {
    this.clear();
  }

  clear() {
    this.seq = 0;
    this.begun = null; // time of the first record
    this.newest = null; // time of the newest one
    this.run = null;
    this.config = null;
    this.sample = null;
    this.scalars = new Map(); // name -> Map(source -> Scalar)
    this.curves = { t: [], rate: [], commits: [], queued: [], in_flight: [], ready: [], bytes: [], nth: [] };
    this.curvesPushed = 0;
    this.curvesStride = 1;
    this.curvesVersion = 0;
    this.apart = null; // seconds between samples: a long history is thinned
    this.workers = new Map(); // index -> newest values
    this.workersVersion = 0;
    this.ps = new Map();
    this.psVersion = 0;
    this.events = [];
    this.eventsVersion = 0;
    this.configVersion = 0;
    this.checkpoints = []; // {number, step, t}
    this.checkpointStride = 1;
    this.restarts = []; // {step, t}
    this.sampledFrom = -Infinity; // when this client's samples begin
    this.marksVersion = 0;
    this.endedT = null; // when a step has ended last, or there was nothing to do
    this.over = false; // the run has said that it ended
    this.failure = null; // {t, text}: why it cannot go on
    this.servedSeq = 0; // of the event that a client serves
  }

  // Takes one record. Records that were seen before are ignored.
  add(record) {
    if (record === null || typeof record !== "object" || !isNumber(record.seq) || record.seq <= this.seq) {
      return;
    }
    this.seq = record.seq;
    if (isNumber(record.t)) {
      this.begun = Math.min(this.begun ?? record.t, record.t); // a clock may be set back
      this.newest = record.t;
    }
    const take = TAKERS[record.kind];
    if (take !== undefined) {
      take(this, record);
    }
  }

  scalar(name, source) {
    let sources = this.scalars.get(name);
    if (sources === undefined) {
      if (this.scalars.size >= NAMES_MAX) {
        return null;
      }
      sources = new Map();
      this.scalars.set(name, sources);
    }
    if (!sources.has(source)) {
      sources.set(source, new Scalar(source));
    }
    return sources.get(source);
  }

  forget(resumed) {
    for (const sources of this.scalars.values()) {
      sources.forEach((scalar) => scalar.forget(resumed));
    }
  }

  // For how many seconds no step has ended, although some are scheduled.
  silence() {
    return this.sample === null || this.endedT === null ? 0 : Math.max(0, this.sample.t - this.endedT);
  }

  // Steps a second over the last samples of this client.
  recentRate(seconds = 30) {
    const { t, rate } = this.curves;
    let sum = 0;
    let n = 0;
    for (let i = t.length - 1; i >= 0 && t[i] > t[t.length - 1] - seconds && t[i] >= this.sampledFrom; i--) {
      if (isNumber(rate[i])) {
        sum += rate[i];
        n++;
      }
    }
    return n > 0 ? sum / n : null;
  }
}

const TAKERS = {
  run(model, record) {
    const before = model.run;
    model.run = record;
    model.over = false;
    model.failure = null;
    model.endedT = null;
    model.configVersion++;
    const again = before !== null && (before.pid !== record.pid || before.generation !== record.generation);
    if (again) {
      model.apart = 0;
      model.sampledFrom = record.t;
      model.restarts.push({ step: record.resumed?.closure ?? model.sample?.step ?? 0, t: record.t });
      if (record.resumed) {
        model.forget(record.resumed);
      }
      model.marksVersion++;
      model.workers.clear();
      model.ps.clear();
    }
  },

  config(model, record) {
    model.config = record.config;
    model.configVersion++;
  },

  sample(model, record) {
    const curves = model.curves;
    dropFrom(curves, record.t);
    model.sampledFrom = Math.min(model.sampledFrom, record.t); // a clock may be set back
    const last = curves.t.length - 1;
    const since = last >= 0 ? record.t - curves.t[last] : 0;
    if (since > Math.max(GAP_S, 2.5 * (model.apart ?? since))) {
      pushSample(model, record.t - since + 0.001, null);
    }
    model.apart = last >= 0 ? since : null;
    pushSample(model, record.t, record);
    const settled = (s) => (s?.done ?? 0) + (s?.failed ?? 0);
    const isWaiting = (record.queued ?? 0) + (record.in_flight ?? 0) > 0;
    if (!isWaiting || model.endedT === null || model.endedT > record.t || settled(record) !== settled(model.sample)) {
      model.endedT = record.t;
    }
    model.sample = record;
    model.over = model.over || record.over === true;
    if (record.opened === false) {
      model.failure ??= { t: record.t, text: "cox_open has failed" };
    }
    model.curvesVersion++;
  },

  workers(model, record) {
    const list = record.workers ?? record.list ?? [];
    for (const worker of list) {
      if (isNumber(worker?.index)) {
        model.workers.set(worker.index, { ...model.workers.get(worker.index), ...worker });
      }
    }
    model.workersVersion++;
  },

  ps(model, record) {
    for (const ps of record.ps ?? record.list ?? []) {
      if (isNumber(ps?.index)) {
        model.ps.set(ps.index, { ...model.ps.get(ps.index), ...ps });
      }
    }
    model.psVersion++;
  },

  // NaN and infinity come as texts: a gap in the curve.
  scalar(model, record) {
    if (isNumber(record.step) && record.value !== undefined) {
      const value = isNumber(record.value) ? record.value : null;
      const scalar = model.scalar(String(record.name), String(record.source ?? "client"));
      scalar?.push(record.seq, record.step, record.t, value);
      if (scalar !== null) {
        scalar.oddSince = scalar.odd === null ? record.step : scalar.oddSince;
        scalar.odd = value === null ? String(record.value) : null;
      }
    }
  },

  event(model, record) {
    model.events.push({ ...record, level: levelOf(record.level) });
    if (model.events.length > EVENTS_MAX) {
      model.events.splice(0, EVENTS_MAX / 10);
    }
    model.eventsVersion++;
    if (record.code === "run_over") {
      model.over = true;
      model.failure = record;
    } else if (record.code === "serves") {
      model.servedSeq = record.seq;
    }
  },

  checkpoint(model, record) {
    model.checkpoints.push({ number: record.number, step: record.closure, t: record.t, seconds: record.seconds });
    if (model.checkpoints.length > EVENTS_MAX) {
      const numbers = model.checkpoints.map((mark) => mark.number);
      model.checkpointStride = thin([model.checkpoints], numbers, model.checkpointStride);
    }
    model.marksVersion++;
  },
};

// Samples from `t` on were taken before the clock was set back: a curve's times must rise.
function dropFrom(curves, t) {
  let n = curves.t.length;
  while (n > 0 && curves.t[n - 1] >= t) {
    n--;
  }
  Object.values(curves).forEach((column) => column.splice(n));
}

function pushSample(model, t, record) {
  const curves = model.curves;
  const { workers_ready: ready, ps_bytes: bytes, commits_rate: commits, rate, queued, in_flight } = record ?? {};
  const values = { t, rate, commits, queued, in_flight, ready, bytes, nth: model.curvesPushed++ };
  for (const [name, column] of Object.entries(curves)) {
    column.push(isNumber(values[name]) ? values[name] : null);
  }
  if (curves.t.length > POINTS_MAX) {
    model.curvesStride = thin(Object.values(curves), curves.nth, model.curvesStride);
  }
}
