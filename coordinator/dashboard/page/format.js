// Figures as people read them, and what the coordinator's JSON leaves out.

// A number of a message: left out where it is 0, a text where it is large or not finite.
export function number(value) {
  if (value === undefined || value === null) return 0;
  if (typeof value === "string" && /^-?inf/i.test(value)) return value.startsWith("-") ? -Infinity : Infinity;
  return Number(value);
}

// An enum's value as a word: "done" for JOB_STATE_DONE.
export function enumWord(value, prefix) {
  if (!value) return "unspecified";
  return (value.startsWith(prefix) ? value.slice(prefix.length) : value).toLowerCase();
}

// Four digits: "12.34 ms". Less than a nanosecond is what rounding leaves of nothing.
export function secondsText(seconds) {
  if (!(Math.abs(seconds) >= 1e-9)) return "0 s";
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([least]) => Math.abs(seconds) >= least) || [1e-9, "ns"];
  const value = seconds / unit;
  return `${value.toFixed(Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3)} ${name}`;
}

function scaledText(value, base, units) {
  let unit = 0;
  for (; value >= base && unit + 1 < units.length; ++unit) value /= base;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ${units[unit]}`;
}
export const bytesText = (bytes) => scaledText(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
export const rateText = (bytesPerSecond) => scaledText(bytesPerSecond, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
export const parametersText = (count) => scaledText(count, 1000, ["", "thousand", "million", "billion", "trillion"]).trim();

export const percentText = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
// How far what was measured is from what was predicted: "+12 %", "× 14".
export function differenceText(predicted, measured) {
  if (!(predicted > 0)) return "";
  if (measured >= 10 * predicted) return `× ${(measured / predicted).toFixed(0)}`;
  return `${measured >= predicted ? "+" : "−"}${percentText(Math.abs(measured / predicted - 1))}`;
}
export const countText = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// Four digits of a loss or a norm; "not finite" where it is none.
export function lossText(value) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 4);
}

export function tokensText(tokensPerSecond) {
  if (!(tokensPerSecond > 0)) return "";
  return tokensPerSecond.toLocaleString("en", { maximumFractionDigits: tokensPerSecond < 100 ? 1 : 0 });
}

// [first, end) as people count them.
export const rangeText = (first, end) => (end - first === 1 ? `${first}` : `${first}–${end - 1}`);

// "3 d 4 h", "12 min 5 s", "9 s".
export function durationText(seconds) {
  if (!(seconds >= 0) || !Number.isFinite(seconds)) return "";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const whole = Math.round(seconds), at = units.findIndex(([, length]) => whole >= length);
  if (at < 0) return "0 s";
  const [name, length] = units[at], next = units[at + 1], rest = next ? Math.floor((whole % length) / next[1]) : 0;
  return `${Math.floor(whole / length)} ${name}${rest > 0 ? ` ${rest} ${next[0]}` : ""}`;
}

const nowSeconds = () => Date.now() / 1000;
export const agoText = (unixSeconds) => (unixSeconds > 0 ? `${durationText(Math.max(0, nowSeconds() - unixSeconds))} ago` : "");

const twoDigits = (value) => String(value).padStart(2, "0");
// Local time; the date is left out where it is today's.
export function momentText(unixSeconds, withDate = false) {
  if (!(unixSeconds > 0)) return "";
  const at = new Date(unixSeconds * 1000);
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":");
  if (!withDate && at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${time}`;
}
