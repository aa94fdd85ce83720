// Which figures there are, and what is in them: one for each name that was logged or evaluated, and
// three of the run's speed.
import { Figure, view } from "./charts.js";
import { bytes, number, rate, short, show } from "./format.js";

// The curves that people look for come first.
function order(a, b) {
  const weight = ([name, sources]) => (/^loss$/i.test(name) ? 0 : /loss/i.test(name) ? 1 : sources.has("eval") ? 2 : 3);
  return weight(a) - weight(b) || (a[0] < b[0] ? -1 : 1);
}

// In the order of time, also where steps have ended out of order.
function byTime(scalar) {
  const sorted = scalar.t.every((t, i) => i === 0 || t >= scalar.t[i - 1]);
  if (sorted) {
    return [scalar.t, scalar.y];
  }
  const places = scalar.t.map((_, i) => i).sort((a, b) => scalar.t[a] - scalar.t[b]);
  return [places.map((i) => scalar.t[i]), places.map((i) => scalar.y[i])];
}

function labelOf(source, sources) {
  return source === "eval" ? "evaluation" : sources.size === 1 || source === "client" ? "training" : source;
}

function metricSource(model, name) {
  const sources = () => model.scalars.get(name) ?? new Map();
  return {
    title: name,
    canSmooth: true,
    canLog: true,
    isTime: () => view.x === "time",
    key: () => `${model.marksVersion} ${[...sources().values()].map((s) => s.version).join(" ")}`,
    lines() {
      const list = [...sources().values()].sort((a, b) => (a.source === "eval") - (b.source === "eval"));
      return list.slice(0, 8).map((scalar) => {
        const [x, y] = view.x === "time" ? byTime(scalar) : [scalar.x, scalar.y];
        return { label: labelOf(scalar.source, sources()), x, y, odd: scalar.odd, points: scalar.source === "eval" };
      });
    },
    marks: () => marksOf(model, view.x === "time" ? "t" : "step"),
  };
}

function marksOf(model, axis) {
  return [
    ...model.checkpoints.map((c) => ({ x: c[axis], kind: "checkpoint" })),
    ...model.restarts.map((r) => ({ x: r[axis], kind: "restart" })),
  ].filter((mark) => mark.x !== undefined && mark.x !== null);
}

// From zero, with room above.
const fromZero = (u, low, high) => [0, (high ?? 0) > 0 ? high * 1.08 : 1];

function speedSource(model, title, names, format, axis) {
  return {
    title,
    format,
    axis,
    range: fromZero,
    isTime: () => true,
    key: () => `${model.curvesVersion} ${model.marksVersion}`,
    lines: () => Object.entries(names).map(([name, label]) => ({ label, x: model.curves.t, y: model.curves[name] })),
    marks: () => marksOf(model, "t"),
  };
}

export class Metrics {
  constructor(model) {
    this.model = model;
    this.figures = new Map();
    this.place = document.getElementById("curves");
    this.none = document.getElementById("curves-none");
    this.filter = document.getElementById("curves-filter");
    const speed = document.getElementById("speed-figures");
    this.speed = [
      new Figure(speed, speedSource(model, "Steps per second", { rate: "steps" }, rate, short)),
      new Figure(speed, speedSource(model, "Commits per second, all ps", { commits: "commits" }, rate, short)),
      new Figure(speed, speedSource(model, "Steps waiting and under way", { queued: "waiting", in_flight: "under way" }, number, short)),
      new Figure(speed, speedSource(model, "Memory of values on the ps", { bytes: "memory" }, bytes, bytes)),
    ];
    this.controls();
  }

  controls() {
    for (const radio of document.querySelectorAll("input[name=axis]")) {
      radio.addEventListener("change", () => {
        view.x = radio.value;
        view.ranges = { step: null, time: null };
        this.update();
      });
    }
    const smooth = document.getElementById("smooth");
    const log = document.getElementById("log-scale");
    smooth.addEventListener("input", () => {
      view.smooth = Number(smooth.value);
      this.update();
    });
    log.addEventListener("change", () => {
      view.log = log.checked;
      this.update();
    });
    this.filter.addEventListener("input", () => this.choose());
  }

  choose() {
    const wanted = this.filter.value.toLowerCase();
    this.figures.forEach((figure, name) => show(figure.element, name.toLowerCase().includes(wanted)));
  }

  update() {
    if (this.figures.size !== this.model.scalars.size) {
      this.arrange();
    }
    for (const figure of [...this.figures.values(), ...this.speed]) {
      figure.update();
    }
  }

  arrange() {
    for (const [name, figure] of this.figures) {
      if (!this.model.scalars.has(name)) {
        figure.remove();
        this.figures.delete(name);
      }
    }
    for (const [name] of [...this.model.scalars].sort(order)) {
      if (!this.figures.has(name)) {
        this.figures.set(name, new Figure(this.place, metricSource(this.model, name)));
      }
      this.place.append(this.figures.get(name).element);
    }
    show(this.none, this.figures.size === 0);
    show(this.filter.parentElement, this.figures.size > 8);
    this.choose();
  }
}
