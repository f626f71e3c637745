// Whether the coordinator is there. While it is not, a banner says so, everything stays as it is, and what asks again and again waits.
import { access, Unreachable } from "./api.js";
import { byId, setText } from "./dom.js";

const PULSE_SECONDS = 5; // between two questions whether it is still there
const SILENCE_SECONDS = 12; // without an answer: it is gone, though no connection broke
const RETRY_SECONDS = [0.5, 1, 2, 3];

export const rights = { identity: "", role: "", version: "", methods: {} };
export const may = (method) => rights.methods[method] === true;

let lostAt = 0; // 0: it is there
let retries = 0, wake = () => {};
const listeners = new Set(); // told when it goes, comes back, or when rights change
const backWaiters = new Set();

export const isLost = () => lostAt > 0;
export function onConnection(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}
const tell = () => listeners.forEach((listener) => listener());

// After so many seconds, or when `signal` ends it.
export function pause(seconds, signal = undefined) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    if (signal) signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

function showBanner() {
  byId("lost").hidden = !isLost();
  document.documentElement.dataset.connection = isLost() ? "lost" : "live";
  setText(byId("connection"), isLost() ? "no coordinator" : "live");
  if (!isLost()) return;
  setText(byId("lost-text"), `The coordinator cannot be reached since ${new Date(lostAt).toLocaleTimeString("en-GB")}. ` +
    "What is shown is as it was then; training goes on without it. This page goes on by itself when it is back.");
}

export function markLost() {
  if (isLost()) return;
  lostAt = Date.now();
  retries = 0;
  showBanner();
  tell();
  wake();
}

function markBack(said) {
  const changed = isLost() || JSON.stringify(said) !== JSON.stringify(rights);
  Object.assign(rights, { identity: "", role: "" }, said, { methods: said.methods || {} });
  lostAt = 0;
  showBanner();
  setText(byId("role"), [rights.identity, rights.role].filter(Boolean).join(" · "));
  if (changed) tell();
  backWaiters.forEach((resolve) => resolve());
  backWaiters.clear();
}

// Until the coordinator is there again.
export function whenBack(signal) {
  if (!isLost()) return Promise.resolve();
  return new Promise((resolve) => {
    backWaiters.add(resolve);
    signal.addEventListener("abort", resolve, { once: true });
  });
}

async function askOnce() {
  try {
    markBack(await access(AbortSignal.timeout(SILENCE_SECONDS * 1000)));
    byId("denied").hidden = true;
  } catch (error) {
    if (error instanceof Unreachable || error.name === "TimeoutError") return markLost();
    byId("denied").hidden = false;
    setText(byId("denied"), `The coordinator does not answer this browser: ${error.message}`);
  }
}

// For ever: is it there?
export async function keepAsking() {
  for (;;) {
    await askOnce();
    const seconds = isLost() ? RETRY_SECONDS[Math.min(retries++, RETRY_SECONDS.length - 1)] : PULSE_SECONDS;
    await Promise.race([pause(seconds), new Promise((resolve) => { wake = resolve; })]);
    if (isLost() && retries === 0) await pause(RETRY_SECONDS[0]); // it has only just gone
  }
}

// Does `work` now and `seconds` after it was done, again and again, while somebody looks; work that took long is done more seldom.
// Refusals go to `onRefusal`.
export async function repeat(seconds, signal, work, onRefusal) {
  while (!signal.aborted) {
    const begun = performance.now();
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Unreachable) markLost();
      else onRefusal(error);
    }
    const took = (performance.now() - begun) / 1000;
    await pause(isLost() ? 0 : Math.max(seconds, 10 * took), signal);
    await whenBack(signal);
    while (document.hidden && !signal.aborted)
      await new Promise((resolve) => {
        document.addEventListener("visibilitychange", resolve, { once: true });
        signal.addEventListener("abort", resolve, { once: true });
      });
  }
}
