// A chart of lines over steps, on a canvas. Charts of one group have one range of steps and one cursor.
import { drawCursor, drawLevel, drawLine, drawPoints } from "./chart_drawing.js";
import { listenToChart } from "./chart_gestures.js";
import { element } from "./dom.js";
import { color, onTheme } from "./theme.js";

const HEIGHT = 170, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 20;

// Which steps are in view and where the cursor is, for all charts of a group. Without `from` all steps are.
export class ChartGroup {
  constructor(signal) {
    Object.assign(this, { from: null, to: null, cursor: null, charts: [], signal });
    onTheme(() => this.redraw(), signal);
    this.sizes = new ResizeObserver(() => this.redraw());
    signal.addEventListener("abort", () => this.sizes.disconnect());
  }
  redraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.charts.forEach((chart) => chart.draw());
    });
  }
  setRange(from, to) {
    Object.assign(this, to - from >= 1 ? { from, to } : { from: null, to: null });
    this.redraw();
  }
  setCursor(step) {
    this.cursor = step;
    this.redraw();
  }
}

export const axisStep = (range, most) => {
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
};

export class Chart {
  // `source()` answers with the line {x, y, length}, ascending in x, and maybe points [{x, y}] and a level {y, name}.
  constructor(group, title, source, textOf) {
    Object.assign(this, { group, title, source, textOf });
    this.canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": title });
    this.readout = element("span", { class: "readout" });
    this.element = element("figure", { class: "chart" }, element("figcaption", {}, element("strong", {}, title), this.readout),
      this.canvas);
    group.charts.push(this);
    group.sizes.observe(this.canvas);
    listenToChart(this);
  }

  range() {
    const { x, length } = this.data;
    const first = length > 0 ? x[0] : 0, last = length > 0 ? x[length - 1] : 1;
    const { from, to } = this.group;
    return from === null ? { from: first, to: Math.max(last, first + 1) } : { from, to };
  }

  placeOf(step) {
    const { x, length } = this.data;
    let low = 0, high = length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Least and greatest in view; without the wildest hundredth, so that one step does not flatten the others.
  levels(first, end) {
    const { y, points, level } = this.data, sample = [];
    const every = Math.max(1, Math.floor((end - first) / 2000));
    for (let i = first; i < end; i += every) if (Number.isFinite(y[i])) sample.push(y[i]);
    sample.sort((a, b) => a - b);
    const cut = sample.length > 100 ? Math.floor(sample.length / 100) : 0;
    const values = sample.slice(cut, sample.length - cut);
    if (sample.length > 0) values.push(sample[0] > 0 ? Math.max(sample[0], values[0] / 2) : sample[0]);
    for (const point of points || []) if (point.x >= this.seen.from && point.x <= this.seen.to) values.push(point.y);
    if (level && level.y > 0) values.push(level.y);
    if (values.length === 0) return { low: 0, high: 1 };
    const low = Math.min(...values), high = Math.max(...values), spread = high - low;
    // Values that rounding alone keeps apart are the same: steps between them would be none.
    const room = (spread > 1e-9 * Math.abs(high) ? spread : Math.abs(high) || 1) * 0.08;
    return { low: low >= 0 ? Math.max(0, low - room) : low - room, high: high + room };
  }

  draw() {
    this.data = this.source();
    const width = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (width === 0) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "11px system-ui, sans-serif";
    this.seen = this.range();
    const first = this.placeOf(this.seen.from), end = this.placeOf(this.seen.to + 1);
    const scale = this.levels(first, end);
    this.xOf = (step) => LEFT + ((step - this.seen.from) / (this.seen.to - this.seen.from)) * (width - LEFT - RIGHT);
    this.yOf = (value) => TOP + (1 - (value - scale.low) / (scale.high - scale.low)) * (HEIGHT - TOP - BOTTOM);
    this.drawAxes(context, width, scale);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, HEIGHT - BOTTOM + 1);
    context.clip();
    drawLevel(this, context, width);
    drawLine(this, context, first, end);
    drawPoints(this, context);
    context.restore();
    drawCursor(this, context);
  }

  drawAxes(context, width, scale) {
    context.fillStyle = color("quiet");
    context.strokeStyle = color("line");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const rise = axisStep(scale.high - scale.low, 4);
    context.beginPath();
    for (let value = Math.ceil(scale.low / rise) * rise; value <= scale.high; value += rise) {
      const y = Math.round(this.yOf(value)) + 0.5;
      context.moveTo(LEFT, y);
      context.lineTo(width - RIGHT, y);
      context.fillText(this.axisText(value, rise), LEFT - 6, y);
    }
    context.stroke();
    context.textAlign = "center";
    const step = Math.max(1, axisStep(this.seen.to - this.seen.from, Math.max(2, width / 110)));
    for (let at = Math.ceil(this.seen.from / step) * step; at <= this.seen.to; at += step)
      context.fillText(at.toLocaleString("en"), Math.min(this.xOf(at), width - 18), HEIGHT - 8);
  }

  axisText(value, rise) {
    if (Math.abs(value) >= 100000) return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
    if (Math.abs(value) >= 1000) return value.toLocaleString("en");
    const digits = Math.max(0, -Math.floor(Math.log10(rise) + 1e-9));
    return digits > 4 ? value.toExponential(1) : value.toFixed(digits);
  }
}
