// The task stream: a lane for each slot, and in it the steps of the last half minute, a colour for
// each function. A step that has failed has a bar of half height, so colour is not needed to see it.
import { h, isNumber, micros, number, say, show } from "./format.js";

const WINDOW_S = 30;
const ASK_MS = 1000;
const LANES_MAX = 64;
const TASKS_MAX = 60000;
const LANE = 16;
const LEFT = 110;
const COLOURS = 6;

export class Tasks {
  constructor(link) {
    this.link = link;
    this.lanes = new Map(); // "worker/slot" -> tasks: {name, begin, end, failed}
    this.functions = []; // names, in the order in which they were seen
    this.since = 0;
    this.isVisible = false;
    this.canvas = document.getElementById("lanes");
    this.tip = document.getElementById("tasks-tip");
    this.legend = document.getElementById("tasks-legend");
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      this.ask();
    }).observe(document.getElementById("tasks"));
    setInterval(() => this.ask(), ASK_MS);
  }

  async ask() {
    if (!this.isVisible || document.hidden || this.isAsking || this.link.state === "lost") {
      return;
    }
    this.isAsking = true;
    try {
      const answer = await fetch(`/api/tasks?since=${this.since}`);
      this.take(answer.ok ? await answer.json() : null);
    } catch {
      this.since = 0; // of a client that is gone; the link notices by itself
    }
    this.isAsking = false;
  }

  // A task is [worker, slot, function, begin, run time, outcome]; begin counts from answer.at. Microseconds.
  take(answer) {
    if (isNumber(answer?.next)) {
      this.since = answer.next;
    }
    for (const [worker, slot, index, after, run, outcome] of answer?.tasks ?? []) {
      const begin = (answer.at + after) / 1e6;
      const end = begin + run / 1e6;
      const lane = `${worker}/${slot}`;
      const name = String(answer.functions?.[index] ?? "step");
      if (!this.lanes.has(lane)) {
        this.lanes.set(lane, []);
      }
      if (!this.functions.includes(name)) {
        this.functions.push(name);
        this.legendOf(name);
      }
      this.lanes.get(lane).push({ name, begin, end, failed: outcome !== 0 });
      this.newest = Math.max(this.newest ?? end, end);
    }
    this.forget();
    const none = answer?.text ?? (answer === null ? "This client keeps no task stream." : "No step has ended in the last half minute.");
    show(document.getElementById("tasks-card"), this.lanes.size > 0);
    show(document.getElementById("tasks-none"), this.lanes.size === 0);
    say(document.getElementById("tasks-none"), none);
    this.draw();
  }

  legendOf(name) {
    const swatch = h("span", { class: "swatch block", "aria-hidden": "true" });
    swatch.style.setProperty("background", `var(--task-${(this.functions.indexOf(name) % COLOURS) + 1})`);
    this.legend.append(h("li", {}, swatch, name));
  }

  // The clocks of the client and of this browser may differ, so "now" is the newest end, going on.
  forget() {
    const now = Date.now() / 1000;
    this.ahead = Math.max(this.ahead ?? -Infinity, (this.newest ?? now) - now);
    this.now = now + this.ahead;
    let n = 0;
    for (const [name, lane] of this.lanes) {
      const kept = lane.findIndex((task) => task.end > this.now - WINDOW_S);
      lane.splice(0, kept < 0 ? lane.length : kept);
      n += lane.length;
      if (lane.length === 0 || n > TASKS_MAX) {
        this.lanes.delete(name);
      }
    }
  }

  draw() {
    const lanes = [...this.lanes].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).slice(0, LANES_MAX);
    const width = this.canvas.parentElement.clientWidth;
    if (lanes.length === 0 || width === 0) {
      return;
    }
    const scale = devicePixelRatio;
    const height = lanes.length * LANE + 20;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    const look = getComputedStyle(document.documentElement);
    const colour = (name) => look.getPropertyValue(`--${name}`).trim();
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const perSecond = (width - LEFT) / WINDOW_S;
    const xOf = (t) => LEFT + (t - (this.now - WINDOW_S)) * perSecond;
    this.drawn = { lanes, xOf };
    context.font = "11px system-ui, sans-serif";
    const colours = new Map(this.functions.map((name, i) => [name, colour(`task-${(i % COLOURS) + 1}`)]));
    lanes.forEach(([name, tasks], i) => {
      const y = i * LANE + 2;
      context.fillStyle = colour("muted");
      context.fillText(`worker ${name.replace("/", ", slot ")}`, 0, y + 10, LEFT - 8);
      context.fillStyle = colour("grid");
      context.fillRect(LEFT, y + LANE - 3, width - LEFT, 1);
      drawTasks(context, tasks, xOf, y, colours, colour("bad"));
    });
    context.fillStyle = colour("muted");
    for (let s = 0; s <= WINDOW_S; s += 10) {
      context.textAlign = s === WINDOW_S ? "right" : "left";
      context.fillText(s === WINDOW_S ? "now" : `${WINDOW_S - s} s ago`, xOf(this.now - WINDOW_S + s), height - 4);
    }
    const n = lanes.reduce((sum, [, tasks]) => sum + tasks.length, 0);
    this.canvas.setAttribute("aria-label", `Task stream of ${number(lanes.length)} slots: ${number(n)} steps in the last ${WINDOW_S} seconds. The table of functions under Overview sums them up.`);
  }

  point(event) {
    const { lanes, xOf } = this.drawn ?? { lanes: [] };
    const lane = lanes[Math.floor(event.offsetY / LANE)];
    const task = lane?.[1].find((t) => event.offsetX >= xOf(t.begin) - 1 && event.offsetX <= xOf(t.end) + 1);
    say(this.tip, task === undefined ? "\u200b"
      : `worker ${lane[0].replace("/", ", slot ")}: ${task.name}, ${micros((task.end - task.begin) * 1e6)}${task.failed ? ", failed" : ""}`);
  }
}

// Tasks that are narrower than a pixel are drawn as one bar, so that 60,000 of them cost little.
function drawTasks(context, tasks, xOf, y, colours, bad) {
  const most = LANE - 4;
  let drawnTo = LEFT;
  for (const task of tasks) {
    const from = Math.max(xOf(task.begin), drawnTo);
    const to = Math.max(xOf(task.end) - 0.5, from + (task.failed ? 2 : 0.3));
    if (to - drawnTo < 0.3 && !task.failed) {
      continue;
    }
    const height = task.failed ? most / 2 : most;
    context.fillStyle = task.failed ? bad : colours.get(task.name);
    context.fillRect(from, y + most - height, to - from, height);
    drawnTo = to;
  }
}
