// The first things that people ask: how is it, how far, how fast, what is wrong.
import { bytes, clock, duration, h, isNumber, micros, number, plural, rate, say, short, show } from "./format.js";
import { isPast, stateOf, workerName } from "./fleet.js";
import { Table } from "./table.js";

const ALERTS_MAX = 4;
const STALLED_S = 10; // without the end of a step,
const STALLED_STEPS = 3; // or so many times what a step takes

const isDown = (peer) => ["down", "waits"].includes(stateOf(peer)[1]);

export class Overview {
  constructor(model, link) {
    this.model = model;
    this.link = link;
    this.tiles = new Map();
    this.alerts = [];
    this.alertsPlace = document.getElementById("alerts");
    this.profile = new Table(document.getElementById("profile-table"), "Time of a step, by function", profileColumns());
  }

  update() {
    const status = this.status();
    const pill = document.getElementById("status");
    say(pill, status.word);
    pill.dataset.tone = status.tone;
    this.head(status);
    say(document.getElementById("sentence"), this.sentence(status));
    this.progress();
    this.numbers();
    this.warn();
    const { bound, profile } = this.model.sample ?? {};
    const functions = Object.entries(profile ?? {}).map(([name, times]) => ({ name, ...times }));
    show(document.getElementById("bound-card"), Boolean(bound) || functions.length > 0);
    say(document.getElementById("bound"), bound ? String(bound) : "");
    show(document.getElementById("profile-table"), functions.length > 0);
    this.profile.update(functions);
  }

  down() {
    const ps = [...this.model.ps.values()].filter(isDown);
    const workers = [...this.model.workers.values()].filter(isDown);
    return { ps, workers };
  }

  status() {
    const { model, link } = this;
    if (this.isOpening()) {
      return { word: "opening", tone: "" };
    }
    if (link.state === "over" && !model.over) {
      return { word: link.client === "gone" ? "gone" : "no answer", tone: "bad" };
    }
    if (model.over) {
      return model.failure === null ? { word: "over", tone: "" } : { word: "failed", tone: "bad" };
    }
    if (link.state === "connecting") {
      return { word: "connecting", tone: "" };
    }
    if (link.state === "lost") {
      return { word: "no answer", tone: "bad" };
    }
    const { ps, workers } = this.down();
    if (ps.length > 0) {
      return { word: `waits for ${psNames(ps)}`, tone: "bad" };
    }
    if (this.isStalled()) {
      return { word: "stalled", tone: "warn" };
    }
    if (workers.length > 0) {
      return { word: `${workers.length === 1 ? workerName(workers[0]) : plural(workers.length, "worker")} away`, tone: "warn" };
    }
    const { queued = 0, in_flight: flying = 0 } = model.sample ?? {};
    return queued + flying === 0 && model.sample !== null ? { word: "idle", tone: "" } : { word: "training", tone: "good" };
  }

  // A client serves already, and cox_open has not connected it yet: what is known is of the one before.
  isOpening() {
    return this.link.state === "live" && this.model.servedSeq > (this.model.run?.seq ?? 0);
  }

  isStalled() {
    const longest = Math.max(0, ...[...this.model.workers.values()].map((w) => w.step_us ?? 0));
    return this.model.silence() > Math.max(STALLED_S, (STALLED_STEPS * longest) / 1e6);
  }

  head(status) {
    const { run } = this.model;
    const name = run?.program ? String(run.program).split("/").pop() : "A run";
    say(document.getElementById("program"), name);
    const title = `${name}: ${status.word}`;
    if (document.title !== title) {
      document.title = title;
    }
    const parts = [];
    if (run !== null) {
      parts.push(`run ${run.run}`, `process ${run.pid} on ${run.host}`);
    }
    if (this.model.begun !== null) {
      parts.push(`since ${clock(this.model.begun)}`, duration(this.model.newest - this.model.begun));
    }
    say(document.getElementById("meta"), parts.join(" · "));
  }

  sentence(status) {
    const { model } = this;
    const { sample, newest } = model;
    if (sample === null) {
      return this.link.state === "lost" ? "The client does not answer. Trying again."
        : this.isOpening() ? "The client is being opened." : "Waiting for the first numbers.";
    }
    const speed = model.recentRate();
    const done = `${plural(sample.done ?? 0, "step")} done`;
    const failed = sample.failed > 0 ? `, ${short(sample.failed)} failed` : "";
    switch (status.word) {
      case "opening":
        return `A client is being opened. Before: ${done}.`;
      case "over":
        return `This run ended at ${clock(newest)}: ${done}${failed}.`;
      case "failed":
        return `This run cannot go on since ${clock(model.failure.t)}: ${done}${failed}.`;
      case "gone":
        return `The client is gone without having closed the run. It was last heard of at ${clock(newest)}: ${done}${failed}.`;
    }
    if (this.link.state === "over") {
      return `Nothing was heard of this run after ${clock(newest)}: ${done}${failed}. Its client has not closed it, so it was killed, or it stands still.`;
    }
    if (status.word === "no answer") {
      return `The client has not answered since ${clock(newest)}; this page tries again by itself. Until then: ${done}.`;
    }
    if (status.word === "idle") {
      return `${done}. No step waits or is under way.`;
    }
    const { ps } = this.down();
    if (ps.length > 0) { // the speed before says nothing of the time left
      return `${done}. The run waits for ${psNames(ps)}.`;
    }
    const silent = model.silence();
    if (silent > STALLED_S) {
      return `${done}. No step has ended for ${duration(silent)}.`;
    }
    const { left } = this.extent();
    const eta = left > 0 ? ` About ${duration(left)} left, until ${clock(Date.now() / 1000 + left)}.` : "";
    const { data } = sample;
    const records = data === undefined ? "" : ` ${epochOf(data)}${number(data.records)} records, ${rate(data.records_rate)} a second.`;
    return `${done}, ${rate(speed)} a second.${records}${eta}`;
  }

  // How far the run is: in steps, if the program has said how many there will be (cox_log_total), else in
  // tasks of its data sets. Without any, or with endless ones, nobody knows.
  extent() {
    const { sample } = this.model;
    if (sample?.total > 0) {
      return { done: sample.done ?? 0, total: sample.total, left: sample.eta_s ?? null, unit: "steps" };
    }
    const { done = 0, total = 0, eta_s: left = null } = sample?.data ?? {};
    return { done, total, left, unit: "tasks" };
  }

  progress() {
    const { done, total, unit } = this.extent();
    const bar = document.getElementById("progress");
    show(bar, total > 0);
    if (!bar.hidden) {
      const percent = Math.min(100, (100 * done) / total);
      bar.setAttribute("aria-valuenow", percent.toFixed(1));
      bar.setAttribute("aria-valuetext", `${percent.toFixed(1)} %: ${number(done)} of ${number(total)} ${unit}`);
      bar.firstElementChild.style.setProperty("--done", `${percent.toFixed(2)}%`);
    }
  }

  // The tiles: a name, its value, and whether it needs attention.
  numbers() {
    const { sample: s, model } = { sample: this.model.sample ?? {}, model: this.model };
    const ps = [...model.ps.values()];
    const psUp = ps.filter((p) => stateOf(p)[1] === "up").length;
    const workers = [...model.workers.values()].filter((w) => stateOf(w)[1] !== "gone");
    const ready = workers.filter((w) => stateOf(w)[1] === "up").length;
    const { done, total } = this.extent();
    this.tile("Progress", total > 0 ? `${Math.min(100, (100 * done) / total).toFixed(1)} %` : null);
    this.tile("Steps per second", model.over ? null : rate(model.recentRate(5)));
    this.tile("Steps done", short(s.done));
    this.tile("Waiting", short(s.queued));
    this.tile("Under way", short(s.in_flight));
    this.tile("Failed", s.failed > 0 ? short(s.failed) : null, "bad");
    const past = isPast(model, this.link);
    const [readyText, upText] = [`${ready} / ${workers.length}`, `${psUp} / ${ps.length}`];
    this.tile("Workers ready", past ? null : readyText, ready < workers.length ? "warn" : "");
    this.tile("Ps up", past ? null : upText, psUp < ps.length ? "bad" : "");
    this.tile("Workers last seen ready", past ? readyText : null);
    this.tile("Ps last seen up", past ? upText : null);
    this.tile("Commits", short(s.commits));
    this.tile("Table rows", short(s.table_rows));
    this.tile("Memory on ps", bytes(s.ps_bytes));
    const last = model.checkpoints[model.checkpoints.length - 1];
    this.tile("Last checkpoint", last === undefined ? null : `${last.number}, ${this.link.state === "live" && !model.over ? ago(last.t, model.newest) : `at ${clock(last.t)}`}`);
    this.tile("Rounds", s.rounds > 0 ? short(s.rounds) : null);
    this.tile("Sent again", s.put_back > 0 ? short(s.put_back) : null);
  }

  tile(name, value, tone = "") {
    let tile = this.tiles.get(name);
    if (tile === undefined) {
      tile = h("div", {}, h("dt", {}, name), h("dd"));
      this.tiles.set(name, tile);
      document.getElementById("tiles").append(tile);
    }
    show(tile, value !== null);
    say(tile.lastElementChild, value ?? "");
    tile.lastElementChild.dataset.tone = tone;
  }

  // What is wrong now, with the text of the event that told it.
  warn() {
    const isLive = this.link.state === "live" && !this.model.over;
    const { ps, workers } = isLive ? this.down() : { ps: [], workers: [] };
    const list = ps.map((p) => ({
      tone: "bad", name: `ps ${p.index} ${p.state === "silent" ? "does not answer" : `is ${stateOf(p)[0]}`}`, text: this.lastText("ps", p.index),
    }));
    if (workers.length > ALERTS_MAX) {
      list.push({ tone: "warn", name: `${workers.length} workers are not ready`, text: "The table of workers has them first." });
    } else {
      list.push(...workers.map((w) => ({ tone: "warn", name: `${workerName(w)}: ${stateOf(w)[0]}`, text: this.lastText("worker", w.index) })));
    }
    if (isLive && ps.length === 0 && this.isStalled()) {
      list.push({ tone: "warn", name: "No step ends.", text: this.blockedText() });
    }
    const { failure, sample } = this.model;
    if (failure !== null) {
      list.push({ tone: "bad", name: "The run cannot go on:", text: ` ${failure.text ?? ""}` });
    } else if (sample?.failure) {
      list.push({ tone: "bad", name: `${plural(sample.failed, "step")} failed or ${sample.failed === 1 ? "was" : "were"} cancelled.`, text: ` The first: ${sample.failure}` });
    }
    list.push(...this.oddCurves());
    const key = JSON.stringify(list);
    if (key !== this.shownAlerts) {
      this.shownAlerts = key;
      this.alertsPlace.replaceChildren(...list.map((a) =>
        h("p", { class: "alert", "data-tone": a.tone }, h("strong", {}, a.name), a.text)));
      show(this.alertsPlace, list.length > 0);
    }
  }

  // Why no step ends, as the client has told since the last one.
  blockedText() {
    const event = this.model.events.findLast((e) => (e.code ?? e.name) === "blocked" && e.t >= this.model.endedT);
    return event === undefined ? "" : ` ${event.text ?? ""}`;
  }

  // Curves whose newest value is no number.
  oddCurves() {
    const list = [];
    for (const [name, sources] of this.model.scalars) {
      for (const scalar of sources.values()) {
        if (scalar.odd !== null) {
          list.push({ tone: "bad", name: `${name} is ${scalar.odd}`, text: ` since step ${number(scalar.oddSince)}` });
        }
      }
    }
    const more = list.length - ALERTS_MAX;
    return more > 0 ? [...list.slice(0, ALERTS_MAX), { tone: "bad", name: `${plural(more, "more curve")} without a number`, text: "" }] : list;
  }

  lastText(kind, index) {
    const isOfOther = (e) => kind === "ps" && isNumber(e.worker); // a worker does not reach the ps
    const event = this.model.events.findLast((e) => e[kind] === index && !isOfOther(e) && (e.level === "warning" || e.level === "error"));
    return event === undefined ? "" : ` ${(event.text ?? "").replace(SUBJECT, "")}`;
  }
}

// What an alert's name says already: "ps 0 at ADDRESS is lost: ".
const SUBJECT = /^(?:ps|worker) \d+ at \S+ is lost: /;

const psNames = (ps) => (ps.length === 1 ? `ps ${ps[0].index}` : `${ps.length} ps`);

const epochOf = (data) => (data.epochs > 0 ? `Epoch ${Math.min(data.epoch + 1, data.epochs)} of ${data.epochs}: ` : "");

function ago(t, now) {
  const s = Math.max(0, now - t);
  return s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3600)} h ago`;
}

function profileColumns() {
  const time = (label, key) => ({ label, kind: "number", text: (f) => micros(f[key]), order: (f) => f[key], share: (f) => f[key] / Math.max(f.step_us ?? 0, f.compute_us ?? 0, 1) });
  const plain = (label, key, format) => ({ label, kind: "number", text: (f) => format(f[key]), order: (f) => f[key] });
  return [
    { label: "Function", text: (f) => f.name },
    plain("Steps", "n", short),
    time("Waits for records", "data_us"),
    time("Waits for pulls", "pull_us"),
    time("Computes", "compute_us"),
    time("Commits", "commit_us"),
    plain("Half take less than", "p50_us", micros),
    plain("99 % take less than", "p99_us", micros),
  ];
}
