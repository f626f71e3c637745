// What a chart draws inside its axes.
import { setText } from "./dom.js";
import { color } from "./theme.js";

// What falls on each half of a pixel: its place, least, greatest and mean. Values that are not finite end a stretch.
function stretches(chart, first, end) {
  const { x, y, length } = chart.data, all = [];
  let stretch = null, at = null;
  for (let i = Math.max(0, first - 1); i < Math.min(length, end + 1); ++i) {
    const value = y[i], place = Math.round(chart.xOf(x[i]) * 2) / 2;
    if (!Number.isFinite(value)) {
      stretch = at = null;
      continue;
    }
    if (stretch === null) all.push(stretch = []);
    if (at === null || at.place !== place) stretch.push(at = { place, low: value, high: value, sum: 0, count: 0 });
    at.low = Math.min(at.low, value);
    at.high = Math.max(at.high, value);
    at.sum += value;
    at.count += 1;
  }
  return all;
}

// The mean as a line; where many steps fall on a pixel, what they reach is shown behind it: a spike is never lost.
export function drawLine(chart, context, first, end) {
  const all = stretches(chart, first, end);
  context.strokeStyle = context.fillStyle = color("accent");
  context.lineJoin = "round";
  context.globalAlpha = 0.3;
  context.lineWidth = 1;
  context.beginPath();
  for (const { place, low, high, count } of all.flat()) {
    if (count < 2 || low === high) continue;
    context.moveTo(place, chart.yOf(low));
    context.lineTo(place, chart.yOf(high));
  }
  context.stroke();
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const stretch of all) {
    if (stretch.length === 1) context.fillRect(stretch[0].place - 2, chart.yOf(stretch[0].low) - 2, 4, 4);
    stretch.forEach(({ place, sum, count }, i) => context[i === 0 ? "moveTo" : "lineTo"](place, chart.yOf(sum / count)));
  }
  context.stroke();
}

// Dots, or a line where they would run together.
export function drawPoints(chart, context) {
  const points = chart.data.points || [], dense = points.length > 1 &&
    chart.xOf(points[points.length - 1].x) - chart.xOf(points[0].x) < 9 * points.length;
  context.fillStyle = context.strokeStyle = color("sum");
  context.lineWidth = 1.5;
  context.beginPath();
  for (const point of points) {
    const x = chart.xOf(point.x), y = chart.yOf(point.y);
    if (dense) context.lineTo(x, y);
    else context.moveTo(x, y);
    if (!dense) context.arc(x, y, 3, 0, 2 * Math.PI);
  }
  if (dense) context.stroke();
  else context.fill();
}

export function drawLevel(chart, context, width) {
  const level = chart.data.level;
  if (!level || !(level.y > 0)) return;
  const y = Math.round(chart.yOf(level.y)) + 0.5;
  context.strokeStyle = color("sum");
  context.lineWidth = 1;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
  context.setLineDash([]);
}

export function drawCursor(chart, context) {
  const { x, y, length, points, level } = chart.data, cursor = chart.group.cursor;
  const at = cursor === null ? length - 1 : Math.min(length - 1, chart.placeOf(cursor));
  if (length === 0) return setText(chart.readout, "no step yet");
  const near = (points || []).filter((point) => point.x <= x[at]).pop();
  const text = [`step ${x[at].toLocaleString("en")}`, chart.textOf(y[at]), near ? `validation ${chart.textOf(near.y)} (step ${near.x})`
    : "",
    level && level.y > 0 ? `${level.name} ${chart.textOf(level.y)}` : ""].filter(Boolean).join(" · ");
  setText(chart.readout, text);
  chart.canvas.setAttribute("aria-label", `${chart.title}: ${text}`);
  if (cursor === null) return;
  context.strokeStyle = color("quiet");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(chart.xOf(x[at])) + 0.5, 0);
  context.lineTo(Math.round(chart.xOf(x[at])) + 0.5, chart.canvas.clientHeight - 20);
  context.stroke();
  if (!Number.isFinite(y[at])) return;
  context.fillStyle = color("ink");
  context.beginPath();
  context.arc(chart.xOf(x[at]), chart.yOf(y[at]), 3, 0, 2 * Math.PI);
  context.fill();
}

