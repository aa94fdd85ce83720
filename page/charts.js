// Curves: one figure for each metric, and figures of the run's speed. uPlot draws; this file chooses
// the points, at most two for each pixel, and draws only figures that are in view and have changed.
import { bytes, clock, h, number, say, short, show } from "./format.js";

const HEIGHT = 190;
const POWERS = [...Array(50)].map((_, i) => 2 ** i); // distances of ticks between bytes
const PIXELS_A_MARK = 12; // more marks than that would be a wall

export const view = { x: "step", smooth: 0.9, log: false, ranges: { step: null, time: null } };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const timeOfDay = (t) => clock(t).slice(-8, t % 60 === 0 ? -3 : undefined);

// The least and greatest value of each of `width` pieces, so that no peak is lost. Values between
// `from` and `to` only.
function reduce(x, y, width, from, to) {
  let begin = 0;
  let end = x.length;
  while (begin < end && x[begin] < from) {
    begin++;
  }
  while (end > begin && x[end - 1] > to) {
    end--;
  }
  const step = Math.ceil((end - begin) / Math.max(width, 50));
  if (step <= 2) {
    return [x.slice(begin, end), y.slice(begin, end)];
  }
  const rx = [];
  const ry = [];
  for (let i = begin; i < end; i += step) {
    let low = -1;
    let high = -1;
    let gap = false;
    for (let j = i; j < Math.min(i + step, end); j++) {
      if (y[j] === null) {
        gap = true;
      } else if (low < 0) {
        low = high = j;
      } else if (y[j] < y[low]) {
        low = j;
      } else if (y[j] > y[high]) {
        high = j;
      }
    }
    const kept = low < 0 ? [i] : low === high ? [low] : [Math.min(low, high), Math.max(low, high)];
    for (const j of kept) {
      rx.push(x[j]);
      ry.push(y[j]);
    }
    if (gap && low >= 0) {
      rx.push(x[Math.min(i + step, end) - 1] + 1e-6);
      ry.push(null);
    }
  }
  return [rx, ry];
}

// An exponential moving average that begins with the first value. It looks back at a twentieth of the
// values at most: a short curve would lag behind by much of its length.
function smoothed(y, most) {
  const weight = Math.min(most, Math.max(0, 1 - 20 / y.length));
  let mean = 0;
  let sum = 0;
  return y.map((value) => {
    if (value === null) {
      return null;
    }
    mean = weight * mean + (1 - weight) * value;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

const STYLES = [
  { colour: "series-1", dash: undefined },
  { colour: "series-2", dash: [6, 3] },
  { colour: "series-3", dash: [2, 3] },
  { colour: "series-4", dash: [8, 3, 2, 3] },
];

/*
 * A figure. `source` has: title, unit (optional), key() (changes with its data), lines() (list of
 * {label, x, y, points}), marks() (list of {x, kind}), isTime(), format (optional).
 */
const figures = new Set();
let dragged = null; // the figure over which the pointer went down

export class Figure {
  constructor(parent, source) {
    figures.add(this);
    this.source = source;
    this.plot = null;
    this.isVisible = false;
    this.drawn = "";
    this.title = h("h3", {}, source.title);
    this.value = h("p", { class: "latest" });
    this.area = h("div", { class: "plot", role: "img", tabindex: "0" });
    this.legend = h("ul", { class: "legend" });
    this.body = h("tbody");
    this.head = h("tr");
    this.details = h(
      "details",
      {},
      h("summary", {}, "As a table"),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Newest values of ${source.title}` },
        h("table", {}, h("thead", {}, this.head), this.body)),
    );
    this.element = h(
      "figure",
      { role: "group", "aria-label": source.title, class: "card" },
      h("div", { class: "figure-head" }, this.title, this.value),
      this.area,
      this.legend,
      this.details,
    );
    parent.append(this.element);
    this.area.addEventListener("keydown", (event) => this.move(event));
    this.area.addEventListener("pointerdown", () => (dragged = this));
    this.details.addEventListener("toggle", () => this.update(true));
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      this.update();
    }, { rootMargin: "200px" }).observe(this.element);
    new ResizeObserver(() => this.update()).observe(this.area);
  }

  remove() {
    figures.delete(this);
    this.element.remove();
  }

  // What the reader has zoomed to, in all figures with the same kind of x; null: all of it.
  range() {
    return view.ranges[this.source.isTime() ? "time" : "step"];
  }

  update(force = false) {
    const width = Math.floor(this.area.clientWidth);
    const look = `${width} ${document.documentElement.dataset.scheme} ${view.log}`;
    const key = `${look} ${view.x} ${view.smooth} ${this.source.key()} ${this.range()}`;
    if (!this.isVisible || width < 50 || (!force && key === this.drawn)) {
      return;
    }
    const lines = this.source.lines();
    const shape = `${look} ${this.source.isTime()} ${view.smooth > 0} ${lines.map((l) => l.label + l.points).join("\n")}`;
    this.drawn = key;
    this.lines = lines;
    const data = this.table(lines, width);
    if (this.plot === null || shape !== this.shape) {
      this.shape = shape;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines, width), data, this.area);
      this.makeLegend(lines);
    } else {
      this.plot.setData(data);
    }
    if (this.range() !== null) {
      const [min, max] = this.range();
      this.plot.setScale("x", { min, max });
    }
    this.describe(null);
    if (this.details.open) {
      this.fillTable(lines);
    }
  }

  table(lines, width) {
    const [from, to] = this.range() ?? [-Infinity, Infinity];
    const tables = [];
    for (const line of lines) {
      if (this.isSmooth(line)) {
        tables.push(reduce(line.x, line.y, width, from, to));
        tables.push(reduce(line.x, smoothed(line.y, view.smooth), width, from, to));
      } else {
        tables.push(line.points ? [line.x, line.y] : reduce(line.x, line.y, width, from, to));
      }
    }
    return tables.length === 0 ? [[], []] : uPlot.join(tables);
  }

  isSmooth(line) {
    return view.smooth > 0 && !line.points && this.source.canSmooth === true;
  }

  options(lines, width) {
    const series = [{}];
    lines.forEach((line, i) => {
      const style = STYLES[i % STYLES.length];
      const stroke = colour(style.colour);
      if (this.isSmooth(line)) {
        series.push({ stroke: `${stroke}55`, width: 1, points: { show: false } });
      }
      series.push({
        stroke,
        width: 1.75,
        dash: style.dash,
        points: line.points ? { show: true, size: 7, fill: colour("card"), width: 1.75, stroke } : { show: line.x.length === 1 },
      });
    });
    const axis = {
      stroke: colour("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
    };
    const isTime = this.source.isTime();
    return {
      width,
      height: HEIGHT,
      series,
      legend: { show: false },
      padding: [10, 24, 0, 0], // the last time is not cut off
      scales: { x: { time: isTime }, y: { distr: view.log && this.source.canLog === true ? 3 : 1, range: this.source.range } },
      axes: [
        { ...axis, size: 30, space: isTime ? 75 : 60, values: (u, splits) => splits.map(isTime ? timeOfDay : short) },
        { ...axis, size: 52, gap: 4, ...(this.source.format === bytes ? { incrs: POWERS } : {}), values: (u, splits) => splits.map((v) => (v === null ? "" : (this.source.axis ?? short)(v))) },
      ],
      cursor: { sync: { key: isTime ? "time" : "step" }, points: { size: 7 }, drag: { x: true, y: false, dist: 8, setScale: false } },
      hooks: {
        draw: [(u) => this.drawMarks(u), (u) => (this.area.dataset.x = `${u.scales.x.min} ${u.scales.x.max}`)],
        setCursor: [(u) => this.describe(u.cursor.idx)],
        setSelect: [(u) => this.zoom(u)],
        ready: [(u) => u.over.addEventListener("dblclick", () => this.zoomTo(null))],
      },
    };
  }

  // A part was selected in this figure, or in another one whose cursor this one follows.
  zoom(u) {
    if (u.select.width > 8) {
      const range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
      queueMicrotask(() => {
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        if (dragged === this) {
          this.zoomTo(range);
        }
      });
    }
  }

  zoomTo(range) {
    view.ranges[this.source.isTime() ? "time" : "step"] = range;
    figures.forEach((figure) => figure.update());
  }

  drawMarks(u) {
    const { ctx, bbox } = u;
    const marks = this.source.marks().filter((m) => m.x >= u.scales.x.min && m.x <= u.scales.x.max);
    const isDense = marks.length * PIXELS_A_MARK > u.width;
    const scale = devicePixelRatio;
    ctx.save();
    for (const mark of marks) {
      const x = Math.round(u.valToPos(mark.x, "x", true)) + 0.5;
      const isTick = mark.kind === "checkpoint";
      ctx.strokeStyle = ctx.fillStyle = colour(isTick ? "mark" : "warning");
      ctx.lineWidth = scale;
      ctx.setLineDash(isTick ? [] : [4 * scale, 3 * scale]);
      ctx.globalAlpha = isTick ? 0.35 : 0.9;
      if (!isTick || !isDense) {
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
      if (isTick) {
        ctx.beginPath();
        ctx.moveTo(x - 4 * scale, bbox.top);
        ctx.lineTo(x + 4 * scale, bbox.top);
        ctx.lineTo(x, bbox.top + 6 * scale);
        ctx.fill();
      }
    }
    ctx.restore();
  }

  makeLegend(lines) {
    this.legend.replaceChildren();
    show(this.legend, lines.length > 1 || lines.some((line) => line.points));
    lines.forEach((line, i) => {
      const swatch = h("span", { class: `swatch swatch-${(i % STYLES.length) + 1}${line.points ? " dots" : ""}`, "aria-hidden": "true" });
      this.legend.append(h("li", {}, swatch, line.label));
    });
  }

  // The values under the cursor, or the newest ones, beside the title.
  describe(idx) {
    const format = this.source.format ?? number;
    const data = this.plot?.data;
    const at = idx !== null && idx !== undefined && data?.[0].length > idx ? data[0][idx] : null;
    const parts = (this.lines ?? []).map((line) => {
      let i = line.x.length - 1;
      while (i > 0 && at !== null && line.x[i] > at) {
        i--;
      }
      while (i > 0 && line.y[i] === null) {
        i--;
      }
      const value = at === null && line.odd ? line.odd : i >= 0 ? format(line.y[i]) : "–";
      return this.lines.length > 1 ? `${line.label} ${value}` : value;
    });
    const where = at === null ? "" : this.source.isTime() ? ` at ${clock(at)}` : ` at step ${number(Math.round(at))}`;
    say(this.value, parts.join(" · ") + where);
    this.area.setAttribute("aria-label", `${this.source.title}: ${parts.join(", ") || "no values yet"}${where}. Arrow keys move the cursor.`);
  }

  move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    const n = this.plot?.data[0].length ?? 0;
    if (event.key === "Escape") {
      this.zoomTo(null);
      this.describe(null);
    } else if (step !== undefined && n > 0) {
      const from = this.plot.cursor.idx ?? n - 1;
      const to = Math.max(0, Math.min(n - 1, from + step * (event.shiftKey ? 10 : 1)));
      this.plot.setCursor({ left: this.plot.valToPos(this.plot.data[0][to], "x"), top: HEIGHT / 3 });
      event.preventDefault();
    }
  }

  // The newest 50 points.
  fillTable(lines) {
    const isTime = this.source.isTime();
    const rows = new Map();
    lines.forEach((line, i) => {
      for (let j = Math.max(0, line.x.length - 50); j < line.x.length; j++) {
        const row = rows.get(line.x[j]) ?? Array(lines.length).fill(null);
        row[i] = line.y[j];
        rows.set(line.x[j], row);
      }
    });
    const newest = [...rows].sort((a, b) => b[0] - a[0]).slice(0, 50);
    const format = this.source.format ?? number;
    this.head.replaceChildren(h("th", { scope: "col" }, isTime ? "Time" : "Step"),
      ...lines.map((line) => h("th", { scope: "col", class: "number" }, line.label)));
    this.body.replaceChildren(...newest.map(([x, values]) => h("tr", {},
      h("th", { scope: "row" }, isTime ? clock(x) : number(x)),
      ...values.map((y) => h("td", { class: "number" }, y === null ? "" : format(y))))));
  }
}
