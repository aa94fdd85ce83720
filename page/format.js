// Numbers, times and elements. Everything from outside becomes text by textContent only.

// Makes an element: h("td", {class: "number"}, "text", child ...).
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children); // strings become text nodes
  return element;
}

// Sets an element's text if it differs: unchanged elements cost no layout.
export function say(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

export function show(element, shown) {
  if (element.hidden === shown) {
    element.hidden = !shown;
  }
}

export const isNumber = (x) => typeof x === "number" && Number.isFinite(x);

// 12345 as 12,345; 0.004567 as 0.00457.
export function number(x) {
  if (!isNumber(x)) {
    return "–";
  }
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) {
    return x.toExponential(2);
  }
  if (Number.isInteger(x) || size >= 1000) {
    return Math.round(x).toLocaleString("en-US");
  }
  return String(Number(x.toPrecision(size < 1 ? 4 : 4)));
}

// 12345 as 12.3 k: where space is short.
export function short(x) {
  if (!isNumber(x)) {
    return "–";
  }
  const units = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]];
  for (const [size, unit] of units) {
    if (Math.abs(x) >= size) {
      const scaled = x / (unit === " k" ? 1e3 : size);
      return scaled.toPrecision(3).replace(/e.*/, "") + unit;
    }
  }
  return Number.isInteger(x) ? x.toLocaleString("en-US") : number(Number(x.toPrecision(3)));
}

export function rate(x) {
  return !isNumber(x) ? "–" : x >= 100 ? number(Math.round(x)) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

export function bytes(x) {
  if (!isNumber(x)) {
    return "–";
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (x >= 1024 && i < units.length - 1) {
    x /= 1024;
    i++;
  }
  return `${i === 0 || x >= 100 ? Math.round(x) : x.toPrecision(3)} ${units[i]}`;
}

// Microseconds.
export function micros(us) {
  if (!isNumber(us)) {
    return "–";
  }
  if (us < 1000) {
    return `${Math.round(us)} µs`;
  }
  return us < 1e6 ? `${Number((us / 1e3).toPrecision(3))} ms` : `${Number((us / 1e6).toPrecision(3))} s`;
}

// Seconds as words: 42 s, 3 min 5 s, 2 h 10 min, 3 d 4 h.
export function duration(s) {
  if (!isNumber(s) || s < 0) {
    return "–";
  }
  const whole = Math.round(s);
  if (whole < 60) {
    return `${whole} s`;
  }
  if (whole < 3600) {
    return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  }
  if (whole < 86400) {
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  }
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

// Unix seconds as the time of day, with the day where it is not today.
export function clock(t) {
  if (!isNumber(t)) {
    return "–";
  }
  const date = new Date(t * 1000);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString()
    ? time
    : `${date.toLocaleDateString("en-CA")} ${time}`;
}

// "worker_lost" as "worker lost".
export const words = (name) => String(name ?? "").replaceAll("_", " ");

export const plural = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;
