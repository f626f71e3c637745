// Draws a row, and the axis, as far as they are in view.
const TRACK = { top: 3, compute: 26, other: 7, gap: 2, memory: 50, memoryGap: 6 };
const view = { from: 0, to: plan.step_seconds, withMemory: true, alone: null }; // seconds; alone: a class, or all

function trackTop(place) {
  return TRACK.top + (place === 0 ? 0 : TRACK.compute + TRACK.gap + (place - 1) * (TRACK.other + TRACK.gap));
}
const trackHeight = (place) => (place === 0 ? TRACK.compute : TRACK.other);
const tracksHeight = (lane) => trackTop(lane.tracks.length) + TRACK.top - TRACK.gap;
const showsMemory = (lane) => view.withMemory && lane.hasMemory();
const rowHeight = (lane) => tracksHeight(lane) + (showsMemory(lane) ? TRACK.memoryGap + TRACK.memory : 0);

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

const xOf = (seconds, width) => ((seconds - view.from) / (view.to - view.from)) * width;
const secondsAt = (x, width) => view.from + (x / width) * (view.to - view.from);

function drawIdle(context, x, y, width, height) {
  context.fillStyle = colors.idle;
  context.fillRect(x, y, width, height);
  if (height < 12) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colors["idle-line"];
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 7) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

function drawLabel(context, row, i, known, x, y, width, height) {
  const microBatch = row.microBatch(i);
  const text = `${known.letter}${microBatch >= 0 ? microBatch : ""}`;
  if (width < 7 * text.length + 5) return;
  context.fillStyle = colors["on-block"];
  context.fillText(text, x + width / 2, y + height / 2 + 0.5);
}

function drawTrack(context, row, place, width, selected) {
  const lane = row.lane, track = lane.tracks[place], top = trackTop(place), height = trackHeight(place);
  const left = Math.max(0, xOf(0, width)), right = Math.min(width, xOf(plan.step_seconds, width));
  if (place === 0) drawIdle(context, left, top, right - left, height);
  else {
    context.fillStyle = colors.idle;
    context.fillRect(left, top + height / 2 - 0.5, right - left, 1);
  }
  let drawnTo = -1, drawnClass = null;
  for (let at = lane.firstEndingAfter(track, view.from); at < track.items.length; ++at) {
    const i = track.items[at];
    if (lane.start[i] > view.to) break;
    const known = classOf.get(plan.whats[lane.what[i]].class);
    const x = Math.max(-1, xOf(lane.start[i], width)), end = Math.min(width + 1, xOf(lane.end[i], width));
    // Many that are narrower than a pixel are one.
    if (end <= drawnTo && known === drawnClass && i !== selected) continue;
    const wide = Math.max(end - x, 0.75), gap = wide > 4 ? 0.5 : 0;
    context.globalAlpha = view.alone !== null && view.alone !== known.id ? 0.15 : 1;
    context.fillStyle = colors[known.id];
    context.fillRect(x, top, wide - gap, height);
    if (place === 0 && wide > 12) drawLabel(context, row, i, known, x, top, wide, height);
    context.globalAlpha = 1;
    if (i === selected) {
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.strokeRect(x, top - 1, Math.max(wide, 2), height + 2);
    }
    drawnTo = Math.max(drawnTo, Math.ceil(x + wide));
    drawnClass = known;
  }
}

// Up to where the memory strip reaches, in bytes: the limit, unless little of it is needed.
function memoryScale(device) {
  return device.limit > 0 && device.peak > 0.25 * device.limit ? Math.max(device.limit, device.peak) * 1.06 : device.peak * 1.25;
}

function drawMemory(context, lane, top, width) {
  const scale = memoryScale(lane.device), held = lane.heldBytes(), bottom = top + TRACK.memory;
  const left = Math.max(0, xOf(0, width)), right = Math.min(width, xOf(plan.step_seconds, width));
  const yOf = (bytes) => bottom - (bytes / scale) * TRACK.memory;
  const area = (color, low, high) => { // low, high: bytes at a change
    context.fillStyle = colors[color];
    context.beginPath();
    for (let i = 0; i < lane.memory.length; ++i) {
      const from = lane.memory[i].at, to = i + 1 < lane.memory.length ? lane.memory[i + 1].at : plan.step_seconds;
      if (to < view.from || from > view.to) continue;
      const x = Math.max(left, xOf(from, width)), end = Math.min(right, xOf(to, width));
      context.rect(x, yOf(high(lane.memory[i])), end - x, yOf(low(lane.memory[i])) - yOf(high(lane.memory[i])));
    }
    context.fill();
  };
  context.fillStyle = colors.idle;
  context.fillRect(left, bottom, right - left, 1);
  context.fillStyle = colors.held;
  context.fillRect(left, yOf(held), right - left, bottom - yOf(held));
  area("activations", () => held, (now) => held + now.activations);
  area("boundaries", (now) => held + now.activations, (now) => held + now.activations + now.boundaries);
  const line = (color, bytes, dash) => {
    context.strokeStyle = colors[color];
    context.lineWidth = 1.25;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(left, Math.round(yOf(bytes)) + 0.5);
    context.lineTo(right, Math.round(yOf(bytes)) + 0.5);
    context.stroke();
    context.setLineDash([]);
  };
  line("reserved", lane.device.peak, [2, 3]);
  if (lane.device.limit <= 0) return;
  if (lane.device.limit <= scale) return line("limit", lane.device.limit, [7, 4]);
  context.fillStyle = colors.limit;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.fillText(`limit ${bytesText(lane.device.limit)} ↑`, Math.min(width, right) - 2, top + 3);
}

function drawRow(row) {
  const height = rowHeight(row.lane), { context, width } = prepare(row.canvas, height);
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const selected = selection.row === row ? selection.instruction : -1;
  for (let place = 0; place < row.lane.tracks.length; ++place) drawTrack(context, row, place, width, selected);
  if (showsMemory(row.lane)) drawMemory(context, row.lane, tracksHeight(row.lane) + TRACK.memoryGap, width);
}

function drawAxis() {
  const { context, width } = prepare(byId("axis").querySelector("canvas"), 26);
  const rough = ((view.to - view.from) / width) * 95;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = colors.quiet;
  context.strokeStyle = colors.line;
  context.beginPath();
  for (let tick = Math.ceil(view.from / step); tick * step <= view.to; ++tick) {
    const x = Math.round(xOf(tick * step, width)) + 0.5;
    context.moveTo(x, 17);
    context.lineTo(x, 26);
    const text = tickText(tick * step, step), half = context.measureText(text).width / 2;
    context.textAlign = "center";
    context.fillText(text, Math.min(width - half, Math.max(half, x)), 9);
  }
  context.stroke();
}

// As many digits as tell two ticks apart.
function tickText(seconds, step) {
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([least]) => view.to >= least) || [1e-9, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return `${(seconds / unit).toFixed(Math.min(digits, 9))} ${name}`;
}
