"use strict";
// Reads the plan and writes figures; every text is set as text, never as markup.
const plan = JSON.parse(document.getElementById("plan").textContent);
const byId = (id) => document.getElementById(id);

// An element with attributes (a function is a listener) and children, which are elements or texts.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// A text; of one that fills a page, its beginning and a button for all.
function words(text) {
  const most = 420;
  if (text.length <= most) return document.createTextNode(text);
  const made = element("span", {}, `${text.slice(0, most - 60)}… `);
  made.append(element("button", { type: "button", class: "more", click: () => { made.textContent = text; } }, "all of it"));
  return made;
}

// Four digits: "12.34 ms".
function secondsText(seconds) {
  if (!(Math.abs(seconds) > 0)) return "0 s";
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([least]) => Math.abs(seconds) >= least) || [1e-9, "ns"];
  const value = seconds / unit;
  return `${value.toFixed(Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3)} ${name}`;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(bytes >= 10 ? 1 : 2)} ${units[unit]}`;
}

const percentText = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
// [first, end) as people count them.
const rangeText = ([first, end]) => (end - first === 1 ? `${first}` : `${first}–${end - 1}`);
const countText = (count, one, many) => `${count} ${count === 1 ? one : many}`;

// The classes of instructions in the order of the legend; letters tell them apart where colours do not.
const CLASSES = [
  ["forward", "forward", "F"], ["backward", "backward", "B"], ["input_gradient", "gradient of inputs", "I"],
  ["weight_gradient", "gradient of weights", "W"], ["recompute", "recompute", "R"], ["exchange", "exchange in a unit", "X"],
  ["update", "norm and update", "U"], ["sum", "sum", "Σ"], ["send", "send", "S"], ["receive", "receive", "V"],
  ["fetch", "fetch", "↓"], ["store", "store", "↑"], ["unspecified", "other", "?"],
].map(([id, name, letter]) => ({ id, name, letter }));
const classOf = new Map(CLASSES.map((known) => [known.id, known]));
const STREAMS = ["compute", "receive activation", "send activation", "receive gradient", "send gradient", "collective", "fetch", "store"];

// Colours as the canvas needs them, of the theme that is shown.
const colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "quiet", "line", "accent", "on-block", "idle", "idle-line", "held", "activations", "boundaries",
    "reserved", "limit", ...CLASSES.map((known) => known.id)];
  for (const name of names) colors[name] = style.getPropertyValue(`--${name}`).trim();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", theme === "dark" ? "Change to light colours" : "Change to dark colours");
  readColors();
}
