// Events, settings and logs.
import { clock, h, say, show, words } from "./format.js";

const EVENTS_SHOWN = 200;
const LOGS_MS = 2000;
const LEVELS = ["debug", "info", "warning", "error"];
const TONES = { error: "bad", warning: "warn" };

const eventName = (event) => words(event.name ?? event.code);

export class Events {
  constructor(model) {
    this.model = model;
    this.list = document.getElementById("events-list");
    this.least = document.getElementById("events-level");
    this.announcer = document.getElementById("announcer");
    this.drawn = "";
    this.announced = 0;
    this.least.addEventListener("change", () => this.update());
  }

  update() {
    const { events, eventsVersion } = this.model;
    const key = `${eventsVersion} ${this.least.value}`;
    if (key === this.drawn) {
      return;
    }
    this.drawn = key;
    const least = Number(this.least.value);
    const shown = [];
    for (let i = events.length - 1; i >= 0 && shown.length < EVENTS_SHOWN; i--) {
      if (LEVELS.indexOf(events[i].level) >= least) {
        shown.push(events[i]);
      }
    }
    this.list.replaceChildren(...shown.map((event) =>
      h("li", {}, h("time", { title: new Date(event.t * 1000).toISOString() }, clock(event.t)),
        h("span", { class: "level", "data-tone": TONES[event.level] ?? "" }, event.level),
        h("p", {}, h("b", {}, eventName(event)), String(event.text ?? "")))));
    show(this.list, shown.length > 0);
    show(document.getElementById("events-none"), shown.length === 0);
    this.announce();
  }

  // Tells a screen reader of losses and returns as they come, not of those of the past.
  announce() {
    const newest = this.model.events[this.model.events.length - 1];
    const matters = newest !== undefined && (TONES[newest.level] !== undefined || /_back$|recovered/.test(String(newest.name ?? newest.code)));
    if (matters && newest.seq > this.announced && newest.t > Date.now() / 1000 - 10) {
      say(this.announcer, `${eventName(newest)}: ${newest.text ?? ""}`);
      this.announced = newest.seq;
    }
  }
}

function fillTable(id, entries) {
  document.querySelector(`#${id} tbody`).replaceChildren(...entries.map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, typeof value === "object" ? JSON.stringify(value) : String(value)))));
}

export class Settings {
  constructor(model) {
    this.model = model;
    this.drawn = -1;
  }

  update() {
    const { config, run, configVersion } = this.model;
    if (configVersion === this.drawn) {
      return;
    }
    this.drawn = configVersion;
    const entries = config !== null && typeof config === "object" ? Object.entries(config) : config === null ? [] : [["config", config]];
    fillTable("config-table", entries);
    show(document.getElementById("config-none"), entries.length === 0);
    show(document.getElementById("config-table"), entries.length > 0);
    const hidden = ["seq", "t", "kind", "process"];
    fillTable("run-table", Object.entries(run ?? {}).filter(([name, value]) => !hidden.includes(name) && value !== null)
      .map(([name, value]) => [words(name), value]));
  }
}

// The ends of the daemons' logs; asked for only while the section is in view.
export class Logs {
  constructor(link) {
    this.link = link;
    this.files = [];
    this.isVisible = false;
    this.text = document.getElementById("logs-text");
    this.which = document.getElementById("logs-which");
    this.which.addEventListener("change", () => this.draw());
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      this.ask();
    }).observe(document.getElementById("logs"));
    setInterval(() => this.ask(), LOGS_MS);
  }

  async ask() {
    if (!this.isVisible || document.hidden || this.isAsking || this.link.state === "lost") {
      return;
    }
    this.isAsking = true;
    try {
      const answer = await fetch("/api/logs");
      this.files = answer.ok ? ((await answer.json()).logs ?? []) : [];
      this.draw();
    } catch {
      // the link notices by itself
    }
    this.isAsking = false;
  }

  draw() {
    const names = this.files.map((file) => String(file.name)).join("\n");
    if (names !== this.names) {
      this.names = names;
      const chosen = this.which.value;
      this.which.replaceChildren(...this.files.map((file) => h("option", { value: file.name }, String(file.name))));
      if (this.files.some((file) => file.name === chosen)) {
        this.which.value = chosen;
      }
    }
    const file = this.files.find((f) => f.name === this.which.value) ?? this.files[0];
    const { scrollTop, clientHeight, scrollHeight } = this.text;
    const atEnd = scrollTop + clientHeight > scrollHeight - 30;
    say(this.text, file === undefined ? "" : String(file.text));
    show(this.text, file !== undefined);
    show(document.getElementById("logs-choice"), this.files.length > 0);
    show(document.getElementById("logs-none"), file === undefined);
    if (atEnd) {
      this.text.scrollTop = this.text.scrollHeight;
    }
  }
}
