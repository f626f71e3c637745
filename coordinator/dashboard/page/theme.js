// Dark and light: as the system says, unless somebody chose.
import { byId } from "./dom.js";

const CHOICE = "medley.theme";
const listeners = new Set();
const colors = {};

// The value of a CSS colour, for canvases.
export function color(name) {
  if (!(name in colors)) colors[name] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return colors[name];
}

export function onTheme(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", theme === "dark" ? "Change to light colours" : "Change to dark colours");
  for (const name of Object.keys(colors)) delete colors[name];
  listeners.forEach((listener) => listener());
}

function chosen() {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null; // a browser that keeps nothing
  }
}

export function changeTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme(theme);
  try {
    localStorage.setItem(CHOICE, theme);
  } catch {
    // It holds until the page is closed.
  }
}

export function beginTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(chosen() || (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => { if (!chosen()) setTheme(system.matches ? "dark" : "light"); });
  byId("theme").addEventListener("click", changeTheme);
}
