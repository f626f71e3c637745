// Draws a device's row of the timeline, predicted above measured, and the axis.
import { axisStep } from "./chart.js";
import { secondsText } from "./format.js";
import { color } from "./theme.js";
import { classById } from "./trace.js";

const COMPUTE = 22, OTHER = 6, GAP = 2, BETWEEN = 7, EDGE = 3;

export const trackHeight = (place) => (place === 0 ? COMPUTE : OTHER);
const bandHeight = (lane) => COMPUTE + (lane.tracks.length - 1) * (OTHER + GAP);
export const rowHeight = (lane) => 2 * EDGE + 2 * bandHeight(lane) + BETWEEN;
export function trackTop(lane, band, place) {
  return EDGE + band * (bandHeight(lane) + BETWEEN) + (place === 0 ? 0 : COMPUTE + GAP + (place - 1) * (OTHER + GAP));
}

export const xOf = (view, seconds, width) => ((seconds - view.from) / (view.to - view.from)) * width;
export const secondsAt = (view, x, width) => view.from + (x / width) * (view.to - view.from);

// A context whose unit is a CSS pixel, and the canvas's width in those.
function prepare(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width };
}

function drawLabel(context, instruction, known, x, y, width, height) {
  const text = `${known.letter}${instruction.microBatch >= 0 ? instruction.microBatch : ""}`;
  if (width < 7 * text.length + 5) return;
  context.fillStyle = color("on-block");
  context.fillText(text, x + width / 2, y + height / 2 + 0.5);
}

function drawTrack(context, lane, band, place, view, width, selected) {
  const track = lane.tracks[place], top = trackTop(lane, band, place), height = trackHeight(place), { start, end } = lane.bands[band];
  const right = Math.min(width, xOf(view, view.lengths[band], width)), left = Math.max(0, xOf(view, 0, width));
  context.fillStyle = color("idle");
  if (place === 0) context.fillRect(left, top, Math.max(0, right - left), height);
  else context.fillRect(left, top + height / 2 - 0.5, Math.max(0, right - left), 1);
  let drawnTo = -1, drawnClass = null;
  for (let at = lane.firstEndingAfter(track, band, view.from); at < track.items.length; ++at) {
    const i = track.items[at];
    if (start[i] > view.to) break;
    const instruction = lane.instructions[i], known = classById.get(instruction.class);
    const x = Math.max(-1, xOf(view, start[i], width)), last = Math.min(width + 1, xOf(view, end[i], width));
    // Many that are narrower than a pixel are one.
    if (last <= drawnTo && known === drawnClass && i !== selected) continue;
    const wide = Math.max(last - x, 0.75);
    context.globalAlpha = view.alone !== null && view.alone !== known.id ? 0.15 : 1;
    context.fillStyle = color(known.id);
    context.fillRect(x, top, wide - (wide > 4 ? 0.5 : 0), height);
    if (place === 0 && wide > 12) drawLabel(context, instruction, known, x, top, wide, height);
    context.globalAlpha = 1;
    if (i === selected) {
      context.strokeStyle = color("ink");
      context.lineWidth = 2;
      context.strokeRect(x, top - 1, Math.max(wide, 2), height + 2);
    }
    drawnTo = Math.max(drawnTo, Math.ceil(x + wide));
    drawnClass = known;
  }
}

// Where each band's step ends.
function drawEnd(context, lane, band, view, width) {
  const x = xOf(view, view.lengths[band], width), top = trackTop(lane, band, 0);
  if (x < 0 || x > width) return;
  context.fillStyle = color("ink");
  context.fillRect(Math.min(width - 1.5, x), top - 2, 1.5, bandHeight(lane) + 4);
}

export function drawRow(row, view, selected) {
  const { lane } = row, { context, width } = prepare(row.canvas, rowHeight(lane));
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let band = 0; band < 2; ++band) {
    for (let place = 0; place < lane.tracks.length; ++place) drawTrack(context, lane, band, place, view, width, selected);
    drawEnd(context, lane, band, view, width);
  }
}

export function drawAxis(canvas, view) {
  const { context, width } = prepare(canvas, 24), step = axisStep(view.to - view.from, Math.max(1, width / 95));
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = color("quiet");
  context.strokeStyle = color("line");
  context.beginPath();
  for (let tick = Math.ceil(view.from / step); tick * step <= view.to; ++tick) {
    const x = xOf(view, tick * step, width);
    context.moveTo(Math.round(x) + 0.5, 18);
    context.lineTo(Math.round(x) + 0.5, 24);
    context.textAlign = x < 30 ? "left" : x > width - 30 ? "right" : "center";
    context.fillText(secondsText(tick * step), x, 9);
  }
  context.stroke();
}
