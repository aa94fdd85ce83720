// The page: asks the client for a run's history, then follows its events, and draws once a second, or
// when something has happened. When the client does not answer, it tries again and goes on where it was.
import { Fleet } from "./fleet.js";
import { isNumber, show } from "./format.js";
import { Metrics } from "./metrics.js";
import { Model } from "./model.js";
import { Overview } from "./overview.js";
import { Events, Logs, Settings } from "./panels.js";
import { Tasks } from "./tasks.js";

const DRAW_MS = 1000;
const DRAW_SOON_MS = 100; // what has happened is shown at once
const SILENT_MS = 3000; // a client samples every second
const AGAIN_MS = [300, 600, 1000, 2000];
const LASTED_MS = 3000; // events that ended sooner were refused: what is new is asked for now and then

// "connecting", "live", "lost", or "over": a run that is read from a file
const link = { state: "connecting", client: null }; // client: how /api/state says that it is
const model = new Model();
const parts = [new Overview(model, link), new Metrics(model), new Fleet(model, link), new Events(model), new Settings(model)];
new Tasks(link);
new Logs(link);

/* ---- drawing */

let timer = null;
let drawnAt = 0;

function draw() {
  timer = null;
  drawnAt = performance.now();
  for (const part of parts) {
    part.update();
  }
}

function drawSoon(delay = DRAW_MS) {
  if (timer === null || delay < DRAW_MS) {
    clearTimeout(timer);
    timer = setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + delay - performance.now()));
  }
}

function become(state, delay = DRAW_SOON_MS) {
  if (link.state !== state) {
    link.state = state;
    drawSoon(delay);
  }
}

/* ---- following */

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function get(path, patience = 20000) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience) });
  if (!answer.ok) {
    throw Object.assign(new Error(`${path}: ${answer.status}`), { isBusy: answer.status === 503 });
  }
  return answer;
}

function addLine(line) {
  if (line === "") {
    return;
  }
  try {
    model.add(JSON.parse(line));
  } catch {
    // a line that was cut, at the end of a file; the next answer has it whole
  }
}

// The records after the newest that is known, in pieces: a long history must not block the page.
async function catchUp() {
  const state = await (await get("/api/state", link.state === "live" ? SILENT_MS : undefined)).json();
  const isOther = model.run !== null && isNumber(state.seq) && (state.seq < model.seq || (state.run?.run ?? model.run.run) !== model.run.run);
  if (isOther) {
    model.clear();
  }
  show(document.getElementById("metrics-link"), state.has_metrics === true);
  const answer = await get(`/api/history?since=${model.seq}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (let i = 0; i < lines.length; i++) {
      addLine(lines[i]);
      if (i % 1000 === 999) {
        drawSoon();
        await pause(0);
      }
    }
    if (done) {
      break;
    }
  }
  drawSoon(DRAW_SOON_MS);
  link.client = state.client;
  become(state.live === false ? "over" : "live");
}

// Follows the events until they end, fall silent or have to be asked for again; false: at once. Of a run
// that is over nothing is expected; if something comes all the same, somebody goes on with it.
function follow() {
  return new Promise((resolve) => {
    const source = new EventSource(`/events?since=${model.seq}`);
    const begun = performance.now();
    let heard = begun;
    const watch = setInterval(() => link.state === "live" && performance.now() - heard > Math.max(SILENT_MS, 3000 * (model.apart ?? 0)) && end(), 1000);
    function end() {
      clearInterval(watch);
      source.close();
      resolve(performance.now() - begun > LASTED_MS);
    }
    source.onmessage = (event) => {
      heard = performance.now();
      const happened = model.eventsVersion;
      addLine(event.data);
      drawSoon(model.eventsVersion === happened ? DRAW_MS : DRAW_SOON_MS);
      become("live");
    };
    source.addEventListener("reset", end);
    source.onerror = end;
  });
}

async function run() {
  for (let failures = 0; ; ) {
    try {
      await catchUp();
      if (await follow()) {
        failures = 0;
        continue;
      }
    } catch (error) {
      if (!error.isBusy) {
        become("lost");
      }
    }
    await pause(AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)]);
  }
}

/* ---- light and dark, keys, the section in view */

const preferred = matchMedia("(prefers-color-scheme: dark)");

function setScheme(scheme) {
  document.documentElement.dataset.scheme = scheme;
  document.getElementById("scheme").textContent = scheme === "dark" ? "Light" : "Dark";
  drawSoon();
}

setScheme(localStorage.getItem("scheme") ?? (preferred.matches ? "dark" : "light"));
preferred.addEventListener("change", () => localStorage.getItem("scheme") ?? setScheme(preferred.matches ? "dark" : "light"));
document.getElementById("scheme").addEventListener("click", () => {
  const scheme = document.documentElement.dataset.scheme === "dark" ? "light" : "dark";
  localStorage.setItem("scheme", scheme);
  setScheme(scheme);
});

const nav = document.querySelector("nav");
const links = [...nav.querySelectorAll("a")];
document.addEventListener("keydown", (event) => {
  const target = event.target;
  const types = target.matches("input[type=search], select, textarea");
  const chosen = /^[1-9]$/.test(event.key) && !types && !event.ctrlKey && !event.metaKey && !event.altKey ? links[event.key - 1] : undefined;
  chosen?.click();
});
// The section at the top is the current one. The last ones cannot come to the top: there it is the one that
// was asked for, until the reader scrolls.
let asked = location.hash;

function markSection() {
  const top = document.querySelector("header").getBoundingClientRect().bottom + 60;
  const sections = [...document.querySelectorAll("main section")];
  const wanted = sections.find((s) => `#${s.id}` === asked && s.getBoundingClientRect().top < innerHeight);
  const current = wanted ?? sections.findLast((s) => s.getBoundingClientRect().top <= top) ?? sections[0];
  links.forEach((a) => a.toggleAttribute("aria-current", a.hash === `#${current.id}`));
}

nav.addEventListener("click", (event) => {
  if (event.target.hash) {
    asked = event.target.hash;
    document.querySelector(asked).scrollIntoView(); // Chromium ignores a link while it still scrolls to the one before
    markSection();
  }
});
for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
  addEventListener(kind, (event) => (asked = nav.contains(event.target) || /^[1-9]$/.test(event.key) ? asked : ""), { passive: true });
}
addEventListener("scroll", () => requestAnimationFrame(markSection), { passive: true });
addEventListener("resize", markSection);
markSection();
document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));

run();
